//! Lines of output, one by one.

use cofferdam::agent::{AGENTS, AgentEvent};

use crate::world::{SIGNAL, agent, call, events, raw, request, result, session, signals, text};

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
        "{\"type\":\"text\",\"sessionID\":\"--evil\",\"part\":7}",
        "{\"type\":\"step_finish\"}",
        "{\"type\":\"session\",\"id\":\"--evil\"}",
        "{\"type\":\"message_end\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}",
        "{\"type\":\"message_end\"}",
        "{\"type\":\"assistant.message\",\"data\":[]}",
        "{\"type\":\"init\",\"session_id\":\"--evil\"}",
        "{\"type\":\"message\",\"role\":\"assistant\"}",
        "{\"type\":\"tool_call\",\"subtype\":\"started\",\"tool_call\":{}}",
        &deep,
        &deep_object,
    ];
    for agent in AGENTS.iter().map(|kind| kind.name) {
        if agent == "command" {
            continue;
        }
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
    let ends = events("codex", "p", &output);
    assert!(ends.contains(&result("", false)), "{ends:?}");
    assert!(!ends.contains(&result("a", false)), "{ends:?}");
    // A turn that ended without a word of the model ended well.
    let odd = r#"{"type":"turn.completed","usage":7}"#;
    assert_eq!(events("codex", "p", odd), [result("", false)]);
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

#[test]
fn opencode_details() {
    let step =
        |reason: &str| format!("{{\"type\":\"step_finish\",\"part\":{{\"reason\":\"{reason}\"}}}}");
    let said = |text: &str| format!("{{\"type\":\"text\",\"part\":{{\"text\":\"{text}\"}}}}");
    let read = |lines: &[String]| events("opencode", "p", &lines.join("\n"));
    let stop = step("stop");
    assert_eq!(
        read(&[said("a"), stop.clone()]),
        [text("a"), result("a", false)]
    );
    let unknown = read(&[said("a"), step("unknown")]);
    assert_eq!(unknown, [text("a"), result("a", false)]);
    let cut = step("length");
    assert_eq!(
        read(&[said("a"), cut.clone()]),
        [
            text("a"),
            raw(&cut),
            result("the model stopped: length", true)
        ]
    );
    let error = r#"{"type":"error","error":{"name":"X","data":{"message":"no"}}}"#.to_owned();
    assert_eq!(
        read(std::slice::from_ref(&error)),
        [raw(&error), result("no", true)]
    );
    // One that was overcome is none.
    assert_eq!(
        read(&[error.clone(), said("a"), stop]),
        [raw(&error), text("a"), result("a", false)]
    );
}

#[test]
fn pi_details() {
    let end = |stop: &str, more: &str| {
        format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"a"}},{{"type":"thinking","thinking":"b"}}],"stopReason":"{stop}"{more}}}}}"#
        )
    };
    let read = |lines: &[String]| events("pi", "p", &lines.join("\n"));
    assert_eq!(read(&[end("stop", "")]), [text("a"), result("a", false)]);
    assert_eq!(read(&[end("toolUse", "")]), [text("a")]);
    for (stop, more, why) in [
        ("error", r#","errorMessage":"429 no""#, "429 no"),
        ("aborted", "", "the model stopped: aborted"),
        ("length", "", "the model stopped: length"),
    ] {
        assert_eq!(read(&[end(stop, more)]), [text("a"), result(why, true)]);
    }
    // It tries again by itself.
    let tried = read(&[end("error", ""), end("stop", "")]);
    assert_eq!(tried, [text("a"), text("a"), result("a", false)]);
}

#[test]
fn copilot_details() {
    let said = |calls: &str, more: &str| {
        format!(
            r#"{{"type":"assistant.message","data":{{"content":"a","toolRequests":[{calls}]{more}}}}}"#
        )
    };
    let done = |code: &str| format!("{{\"type\":\"result\",\"exitCode\":{code}}}");
    let error =
        r#"{"type":"session.error","data":{"errorType":"query","message":"no"}}"#.to_owned();
    let read = |lines: &[String]| events("copilot", "p", &lines.join("\n"));
    let good = [text("a"), result("a", false)];
    assert_eq!(read(&[said("", ""), done("0")]), good);
    let called = said("{}", "");
    assert_eq!(read(&[called, done("0")])[..1], [text("a")]);
    let below = said("", r#","parentToolCallId":"c""#);
    assert_eq!(read(std::slice::from_ref(&below)), [raw(&below)]);
    assert_eq!(
        read(&[said("", ""), done("3")]),
        [text("a"), result("it ended with 3", true)]
    );
    // Whatever its exit code is, and where it ends without one.
    for last in [vec![done("0")], vec![]] {
        let lines = [vec![error.clone()], last].concat();
        assert_eq!(read(&lines), [raw(&error), result("no", true)]);
    }
    let overcome = read(&[error.clone(), said("", ""), done("0")]);
    assert_eq!(overcome, [raw(&error), text("a"), result("a", false)]);
}

#[test]
fn gemini_details() {
    let piece = |text: &str| {
        format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#)
    };
    let done =
        |status: &str, more: &str| format!(r#"{{"type":"result","status":"{status}"{more}}}"#);
    let read = |lines: &[String]| events("gemini", "p", &lines.join("\n"));
    let (one, two) = (piece("a"), piece("b"));
    assert_eq!(
        read(&[one.clone(), two.clone(), done("success", "")]),
        [raw(&one), raw(&two), text("ab"), result("ab", false)]
    );
    // What was said before a call of a tool is not final.
    let call_line =
        r#"{"type":"tool_use","tool_name":"t","parameters":{"command":"c"}}"#.to_owned();
    assert_eq!(
        read(&[one.clone(), call_line, done("success", "")])[..3],
        [raw(&one), text("a"), call("t", "c")]
    );
    assert_eq!(read(std::slice::from_ref(&one)), [raw(&one), text("a")]);
    for (more, why) in [
        (r#","error":{"message":"[API Error: no]"}"#, "no"),
        (r#","error":{"message":"why"}"#, "why"),
        ("", "it ended without success"),
    ] {
        assert_eq!(read(&[done("error", more)]), [result(why, true)]);
    }
    let error =
        |severity: &str| format!(r#"{{"type":"error","severity":"{severity}","message":"no"}}"#);
    let lone = error("error");
    assert_eq!(
        read(std::slice::from_ref(&lone)),
        [raw(&lone), result("no", true)]
    );
    let warning = error("warning");
    assert_eq!(read(std::slice::from_ref(&warning)), [raw(&warning)]);
    // However much it says, the end of it is kept.
    let much: Vec<String> = (0..100).map(|_| piece(&"ä".repeat(1000))).collect();
    let got = read(&[much, vec![piece(SIGNAL), done("success", "")]].concat());
    let Some(AgentEvent::Result { text, .. }) = got.last() else {
        panic!("{got:?}");
    };
    assert!(text.len() <= 64 << 10 && text.ends_with(SIGNAL));
}

#[test]
fn qwen_details() {
    let line =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"[API Error: 401 no]"}"#;
    assert_eq!(
        events("qwen", "p", line),
        [result("[API Error: 401 no]", true)]
    );
    let line = r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#;
    assert_eq!(events("qwen", "p", line), [result("error_max_turns", true)]);
    let line = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"a"}]}}"#;
    assert_eq!(events("qwen", "p", line), [raw(line)]);
}

/// What its documentation shows; nothing here was printed by the program.
#[test]
fn cursor_as_it_is_documented() {
    let lines = [
        r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","session_id":"01234567-89ab-cdef-0123-456789abcdef","model":"m","permissionMode":"default"}"#,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"p"}]},"session_id":"01234567-89ab-cdef-0123-456789abcdef"}"#,
        r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look.\n"}]},"session_id":"01234567-89ab-cdef-0123-456789abcdef"}"#,
        r#"{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"README.md"}}},"session_id":"01234567-89ab-cdef-0123-456789abcdef"}"#,
        r#"{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"README.md"},"result":{"success":{"content":"x"}}}},"session_id":"01234567-89ab-cdef-0123-456789abcdef"}"#,
        r#"{"type":"tool_call","subtype":"started","call_id":"d","tool_call":{"function":{"name":"t","arguments":"{}"}}}"#,
        r#"{"type":"result","subtype":"success","duration_ms":1,"is_error":false,"result":"I look.\nDone.","session_id":"01234567-89ab-cdef-0123-456789abcdef","request_id":"r"}"#,
    ];
    assert_eq!(
        events("cursor", "p", &lines.join("\n")),
        [
            session(),
            raw(lines[1]),
            text("I look."),
            call("read", "README.md"),
            raw(lines[4]),
            call("t", "{}"),
            result("I look.\nDone.", false),
        ]
    );
    for failed in [
        r#"{"type":"result","subtype":"error","is_error":true,"result":"no"}"#,
        r#"{"type":"result","subtype":"success","is_error":true,"result":"no"}"#,
        r#"{"type":"result","subtype":"success","result":"no"}"#,
    ] {
        assert_eq!(
            events("cursor", "p", failed),
            [result("no", true)],
            "{failed}"
        );
    }
}
