//! Lines of output, one by one.

use cofferdam::agent::AgentEvent;

use crate::world::{SIGNAL, agent, call, events, raw, request, result, signals, text};

#[test]
fn odd_lines_are_raw_and_never_an_error() {
    let deep = "[".repeat(100_000);
    let deep_object = format!(
        "{{\"type\":\"assistant\",\"message\":{}",
        "{\"a\":".repeat(100_000)
    );
    let lines = [
        "",
        "{",
        "{}",
        "null",
        "[]",
        "plain",
        "{\"type\":7}",
        "{\"type\":\"new\"}",
        "{\"type\":\"assistant\"}",
        "{\"type\":\"assistant\",\"message\":[1]}",
        "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":3},7]}}",
        "{\"type\":\"item.completed\"}",
        "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\"}}",
        "{\"type\":\"thread.started\",\"thread_id\":\"--evil\"}",
        "{\"type\":\"system\",\"session_id\":\"--evil\"}",
        "{\"type\":\"turn.completed\",\"usage\":7}",
        &deep,
        &deep_object,
    ];
    for agent in ["claude-code", "codex"] {
        for line in lines {
            assert_eq!(
                events(agent, "p", &format!("{line}\n")),
                [raw(line)],
                "{agent}"
            );
        }
        let mut parser = self::agent(agent, &[]).parser(&request("p"), &signals());
        let whole = br#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#;
        assert!(matches!(
            &parser.line(whole, true)[..],
            [AgentEvent::Raw { .. }]
        ));
        assert!(matches!(
            &parser.line(b"\xff\0{", false)[..],
            [AgentEvent::Raw { .. }]
        ));
    }
}

#[test]
fn claude_code_details() {
    let tool = |input: &str| {
        let line = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","name":"T","input":{input}}}]}}}}"#
        );
        events("claude-code", "p", &line)
    };
    assert_eq!(
        tool(r#"{"file_path":"/a","content":"long"}"#),
        [call("T", "/a")]
    );
    assert_eq!(
        tool(r#"{"description":"d","command":"ls"}"#),
        [call("T", "ls")]
    );
    assert_eq!(tool(r#"{"n":1}"#), [call("T", "{\"n\":1}")]);
    assert_eq!(tool("{}"), [call("T", "")]);
    let long = "ö".repeat(1000);
    assert_eq!(
        tool(&format!(r#"{{"command":"{long}"}}"#)),
        [call("T", &format!("{}…", "ö".repeat(300)))]
    );

    // A subagent's words are not the agent's; its tool calls are told.
    let line = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"sub"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#;
    assert_eq!(events("claude-code", "p", line), [call("Bash", "ls")]);
    let line = r#"{"type":"result","subtype":"error_max_turns","is_error":false,"errors":[]}"#;
    assert_eq!(
        events("claude-code", "p", line),
        [result("error_max_turns", true)]
    );
    let line = r#"{"type":"result","subtype":"error_during_execution","errors":["why"]}"#;
    assert_eq!(events("claude-code", "p", line), [result("why", true)]);
}

#[test]
fn codex_details() {
    let said = |text: &str| {
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":{text:?}}}}}"
        )
    };
    // A message that no turn completed is not final.
    assert_eq!(events("codex", "p", &said(SIGNAL)), [text(SIGNAL)]);
    // Nor is one of an earlier turn, or of a turn that failed.
    let output = format!(
        "{}\n{{\"type\":\"turn.started\"}}\n{{\"type\":\"turn.completed\"}}",
        said("a")
    );
    assert!(
        !events("codex", "p", &output)
            .iter()
            .any(|e| matches!(e, AgentEvent::Result { .. }))
    );
    let failed = format!(
        "{}\n{{\"type\":\"turn.failed\",\"error\":{{\"message\":\"m\"}}}}",
        said(SIGNAL)
    );
    assert_eq!(
        events("codex", "p", &failed),
        [text(SIGNAL), result("m", true)]
    );
    // An error that is followed by a completed turn was not final; one at the end is.
    let error = r#"{"type":"error","message":"again"}"#;
    let output = format!("{error}\n{}\n{{\"type\":\"turn.completed\"}}", said("a"));
    assert_eq!(
        events("codex", "p", &output),
        [raw(error), text("a"), result("a", false)]
    );
    assert_eq!(
        events("codex", "p", error),
        [raw(error), result("again", true)]
    );
    let line = r#"{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a","kind":"add"},{"path":"b"}]}}"#;
    assert_eq!(events("codex", "p", line), [call("Edit", "a, b")]);
    let line = r#"{"type":"item.started","item":{"type":"mcp_tool_call","server":"s","tool":"t","arguments":{"q":1}}}"#;
    assert_eq!(events("codex", "p", line), [call("s.t", "{\"q\":1}")]);
}
