//! Agents through their public interface: commands, and events from what the real programs printed
//! (`scripts/record-agents`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cofferdam::agent::{
    AgentError, AgentEvent, AgentOptions, AgentProvider, AgentRequest, Usage, by_name, completion,
    signal_in,
};
use proptest::prelude::*;

const SIGNAL: &str = "<promise>COMPLETE</promise>";
/// As in `scripts/record-agents`.
const RECORDED_PROMPT: &str = "Look at greeting.txt. When nothing is left to do, print on a line of its own:\n<promise>COMPLETE</promise>\n";

fn request(prompt: &str) -> AgentRequest {
    AgentRequest {
        prompt: prompt.to_owned(),
        resume: None,
        skip_permissions: true,
        logged_in: false,
        environment: BTreeMap::new(),
    }
}

fn signals() -> Vec<String> {
    vec![SIGNAL.to_owned()]
}

fn agent(name: &str, arguments: &[&str]) -> std::sync::Arc<dyn AgentProvider> {
    let arguments = arguments.iter().map(Into::into).collect();
    by_name(
        name,
        AgentOptions {
            arguments,
            ..AgentOptions::default()
        },
    )
    .unwrap()
}

fn events(name: &str, prompt: &str, output: &str) -> Vec<AgentEvent> {
    let mut parser = agent(name, &["x"]).parser(&request(prompt), &signals());
    let mut events: Vec<_> = output
        .lines()
        .flat_map(|line| parser.line(line.as_bytes(), false))
        .collect();
    events.extend(parser.end());
    events
}

fn recorded(name: &str) -> String {
    let path = format!("{}/tests/recorded/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text {
        text: text.to_owned(),
    }
}

fn call(name: &str, arguments: &str) -> AgentEvent {
    AgentEvent::ToolCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn result(text: &str, is_error: bool) -> AgentEvent {
    AgentEvent::Result {
        text: text.to_owned(),
        is_error,
    }
}

fn raw(line: &str) -> AgentEvent {
    AgentEvent::Raw {
        line: line.to_owned(),
    }
}

fn session() -> AgentEvent {
    AgentEvent::Session {
        id: "01234567-89ab-cdef-0123-456789abcdef".to_owned(),
    }
}

fn usage(input: u64, created: u64, read: u64, output: u64) -> AgentEvent {
    AgentEvent::Usage {
        usage: Usage {
            input_tokens: input,
            cache_creation_tokens: created,
            cache_read_tokens: read,
            output_tokens: output,
        },
    }
}

const FIRST: &str = "I will look at the file first.";
const FINAL: &str =
    "The file greets the world. Nothing is left to do.\n<promise>COMPLETE</promise>";
const CALLED: &str = "cat greeting.txt; echo '<promise>COMPLETE</promise>'";

fn check_claude_work(name: &str) {
    let output = recorded(name);
    let lines: Vec<&str> = output.lines().collect();
    let tool_result = lines
        .iter()
        .find(|line| line.contains("tool_result"))
        .unwrap();
    let got = events("claude-code", RECORDED_PROMPT, &output);
    let want = vec![
        session(),
        text(FIRST),
        usage(100, 20, 300, 1),
        call("Bash", CALLED),
        usage(100, 20, 300, 1),
        raw(tool_result),
        text(FINAL),
        usage(200, 40, 600, 2),
        usage(200, 40, 600, 80),
        result(FINAL, false),
    ];
    assert_eq!(got, want, "{name}");
    check_completed_by_the_last(&got);
}

/// The prompt and the tool's output hold the signal too; only the final message may count.
fn check_completed_by_the_last(events: &[AgentEvent]) {
    let signals = signals();
    let by: Vec<_> = events
        .iter()
        .map(|event| completion(event, RECORDED_PROMPT, &signals))
        .collect();
    let (last, before) = by.split_last().unwrap();
    assert_eq!(*last, Some(SIGNAL));
    assert!(before.iter().all(Option::is_none));
}

#[test]
fn claude_code_at_work() {
    check_claude_work("claude-work");
    check_claude_work("claude-resume");
}

#[test]
fn codex_at_work() {
    for name in ["codex-work", "codex-resume"] {
        let output = recorded(name);
        let lines: Vec<&str> = output.lines().collect();
        let line = |part: &str| raw(lines.iter().find(|line| line.contains(part)).unwrap());
        let got = events("codex", RECORDED_PROMPT, &output);
        let total = match got
            .iter()
            .find(|event| matches!(event, AgentEvent::Usage { .. }))
        {
            Some(total) => total.clone(),
            None => panic!("{name}: no usage"),
        };
        let want = vec![
            session(),
            line("Model metadata"),
            line("turn.started"),
            text(FIRST),
            call(
                "Bash",
                "/usr/bin/bash -lc \"cat greeting.txt; echo '<promise>COMPLETE</promise>'\"",
            ),
            line("aggregated_output\":\"hello"),
            text(FINAL),
            total.clone(),
            result(FINAL, false),
        ];
        assert_eq!(got, want, "{name}");
        check_completed_by_the_last(&got);
        if name == "codex-work" {
            assert_eq!(total, usage(200, 0, 600, 80));
        }
    }
}

#[test]
fn errors_of_the_model_are_error_results() {
    for (agent, name) in [("claude-code", "claude-error"), ("codex", "codex-error")] {
        let got = events(agent, RECORDED_PROMPT, &recorded(name));
        let results: Vec<_> = got
            .iter()
            .filter(|event| matches!(event, AgentEvent::Result { .. }))
            .collect();
        let [
            AgentEvent::Result {
                text,
                is_error: true,
            },
        ] = &results[..]
        else {
            panic!("{name}: {got:?}");
        };
        assert!(text.ends_with("the scripted model refuses"), "{text}");
    }
}

fn check_command(name: &str, options: AgentOptions, request: &AgentRequest, want: &[&str]) {
    let command = by_name(name, options).unwrap().command(request).unwrap();
    let got: Vec<_> = command
        .arguments
        .iter()
        .map(|a| a.to_str().unwrap())
        .collect();
    assert_eq!(got, want);
    assert_eq!(command.stdin.as_deref(), Some(request.prompt.as_bytes()));
    assert!(command.environment.is_empty());
}

// covers: S2-5 S2-32
#[test]
fn commands() {
    let options = AgentOptions {
        model: Some("m-1".into()),
        effort: Some("high".into()),
        arguments: vec!["--extra".into(), "a b".into()],
    };
    let plain = request("do it");
    let careful = AgentRequest {
        skip_permissions: false,
        ..plain.clone()
    };
    let resumed = AgentRequest {
        resume: Some("0a-b".into()),
        ..plain.clone()
    };
    let claude = [
        "claude",
        "--print",
        "--verbose",
        "--output-format",
        "stream-json",
    ];
    let skip = "--dangerously-skip-permissions";
    let more = ["--model", "m-1", "--effort", "high"];
    let with = |parts: &[&[&'static str]]| parts.concat();
    check_command(
        "claude-code",
        options.clone(),
        &plain,
        &with(&[&claude, &[skip], &more, &["--extra", "a b"]]),
    );
    check_command("claude-code", AgentOptions::default(), &careful, &claude);
    check_command(
        "claude-code",
        AgentOptions::default(),
        &resumed,
        &with(&[&claude, &[skip, "--resume", "0a-b"]]),
    );

    let codex = ["codex", "exec", "--json"];
    let skip = "--dangerously-bypass-approvals-and-sandbox";
    let more = [
        "--model",
        "m-1",
        "--config",
        "model_reasoning_effort=\"high\"",
    ];
    check_command(
        "codex",
        options,
        &plain,
        &with(&[&codex, &[skip], &more, &["--extra", "a b", "-"]]),
    );
    check_command(
        "codex",
        AgentOptions::default(),
        &careful,
        &with(&[&codex, &["-"]]),
    );
    check_command(
        "codex",
        AgentOptions::default(),
        &resumed,
        &with(&[&codex, &[skip, "resume", "0a-b", "-"]]),
    );

    let own = AgentOptions {
        arguments: vec!["./a".into(), "-x".into()],
        ..AgentOptions::default()
    };
    check_command("command", own.clone(), &plain, &["./a", "-x"]);
    check_command("command", own, &request(""), &["./a", "-x"]);
}

/// `codex exec` itself looks for neither of them.
#[test]
fn codex_is_told_the_key_and_the_address_of_its_environment() {
    let with = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(k, v)| (k.into(), v.into()));
        let request = AgentRequest {
            environment: pairs.collect(),
            ..request("do it")
        };
        let command = agent("codex", &["--own"]).command(&request).unwrap();
        let key = command
            .environment
            .get(OsStr::new("CODEX_API_KEY"))
            .cloned();
        (command.arguments, key)
    };
    let skip = "--dangerously-bypass-approvals-and-sandbox";
    let plain = ["codex", "exec", "--json", skip, "--own", "-"].map(OsString::from);
    assert_eq!(with(&[]), (plain.to_vec(), None));
    let blank = [("OPENAI_API_KEY", ""), ("OPENAI_BASE_URL", "")];
    assert_eq!(with(&blank), (plain.to_vec(), None));
    let (arguments, key) = with(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://m/\"")]);
    let address = r#"openai_base_url="http://m/\"""#;
    let told = [
        "codex", "exec", "--json", skip, "--config", address, "--own", "-",
    ];
    assert_eq!(arguments, told.map(OsString::from));
    assert_eq!(key, Some("k".into()));
    let (_, key) = with(&[("OPENAI_API_KEY", "k"), ("CODEX_API_KEY", "own")]);
    assert_eq!(key, None);
    let logged_in = AgentRequest {
        logged_in: true,
        environment: [("OPENAI_API_KEY".into(), "k".into())].into(),
        ..request("do it")
    };
    let command = agent("codex", &[]).command(&logged_in).unwrap();
    assert!(command.environment.is_empty());
}

/// Its module line, its re-export and its place in the list: nothing else of the library or of the command knows an
/// agent, neither its name, its program, its variables nor its files.
// covers: S2-33
#[test]
fn every_agent_is_one_file_and_three_lines() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for kind in cofferdam::agent::AGENTS {
        let agent = agent(kind.name, &["x"]);
        let module = kind.name.replace('-', "_");
        let own = here.join(format!("src/agent/{module}.rs"));
        assert!(own.is_file(), "{module}");
        let registry = std::fs::read_to_string(here.join("src/agent/mod.rs")).unwrap();
        let mentions = registry.lines().filter(|line| {
            line.starts_with(&format!("mod {module};")) || line.contains(&format!("{module}::"))
        });
        assert_eq!(mentions.count(), 3, "{module}");
        if kind.install.is_empty() {
            continue;
        }
        let program = agent.program().unwrap();
        let login = agent.login().unwrap();
        let mut words = vec![
            kind.name.to_owned(),
            program.name.to_str().unwrap().to_owned(),
        ];
        words.extend(agent.environment().iter().map(|&name| name.to_owned()));
        words.extend(program.directories.iter().map(|&path| path.to_owned()));
        words.push(login.path.to_owned());
        words.extend(login.renewed.iter().map(|&path| path.to_owned()));
        let knows = |path: &Path, text: &str| {
            words
                .iter()
                .find(|word| text.contains(&format!("\"{word}\"")))
                .map(|word| format!("{}: {word}", path.display()))
        };
        // The control: its own file knows them.
        assert!(knows(&own, &code(&own)).is_some(), "{module}");
        let sources = [here.join("src"), here.join("../cofferdam-cli/src")];
        let others = sources
            .iter()
            .flat_map(|at| files(at))
            .filter(|path| *path != own);
        let found: Vec<_> = others
            .filter_map(|path| knows(&path, &code(&path)))
            .collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// A source without its tests and comments.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn files(at: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(at).unwrap();
    let below = entries.flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    below
        .filter(|path| path.extension().is_some_and(|one| one == "rs"))
        .collect()
}

#[test]
fn refused_requests() {
    let resume = |id: &str| AgentRequest {
        resume: Some(id.into()),
        ..request("do it")
    };
    for name in ["claude-code", "codex"] {
        let agent = agent(name, &[]);
        assert!(matches!(
            agent.command(&request(" \n")),
            Err(AgentError::NoPrompt { .. })
        ));
        for id in ["", "-x", "--help", "a b", "a\nb", "../x", &"a".repeat(129)] {
            let refused = agent.command(&resume(id)).unwrap_err();
            assert!(matches!(refused, AgentError::BadSession { .. }), "{id:?}");
            assert!(!refused.to_string().contains('\n'));
        }
    }
    let refused = agent("command", &["x"]).command(&resume("a"));
    assert!(matches!(refused, Err(AgentError::NoResume { .. })));
    let options = |arguments: &[&str], model: Option<&str>| AgentOptions {
        arguments: arguments.iter().map(Into::into).collect(),
        model: model.map(str::to_owned),
        effort: None,
    };
    let message = |name, options| by_name(name, options).unwrap_err().to_string();
    assert_eq!(
        message("command", options(&[], None)),
        "agent `command` needs the program to run: give it after `--`"
    );
    assert_eq!(
        message("command", options(&["x"], Some("m"))),
        "agent `command` takes no model"
    );
    assert_eq!(
        message("gpt\u{1b}", options(&[], None)),
        "no agent is called `gpt\\u{1b}` (there are: claude-code, codex, command)"
    );
}

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

#[test]
fn signals_in_final_messages() {
    let signals = ["", "ONE", "TWO"].map(str::to_owned);
    assert_eq!(signal_in("a TWO b ONE", &signals), Some("ONE"));
    assert_eq!(signal_in("nothing", &signals), None);
    let by = |event: &AgentEvent, prompt| completion(event, prompt, &signals);
    assert_eq!(by(&result("done: TWO", false), "p"), Some("TWO"));
    assert_eq!(by(&result("done: TWO", true), "p"), None);
    for event in [
        text("ONE"),
        raw("ONE"),
        call("ONE", "ONE"),
        AgentEvent::Session { id: "ONE".into() },
    ] {
        assert_eq!(by(&event, "p"), None, "{event:?}");
    }
    // What repeats the prompt is not the agent's word; what goes beyond it is.
    let prompt = "Work.\nAt the end say ONE and stop.\nONE\n";
    assert_eq!(by(&result(prompt, false), prompt), None);
    assert_eq!(
        by(
            &result("You said:\n  At the end say ONE and stop.\nI go on.", false),
            prompt
        ),
        None
    );
    assert_eq!(
        by(&result(&format!("{prompt}ONE"), false), prompt),
        Some("ONE")
    );
    assert_eq!(by(&result("ONE", false), prompt), Some("ONE"));
    assert_eq!(by(&result("All is well. ONE", false), prompt), Some("ONE"));
    assert_eq!(by(&result("ONE", false), "ONE"), Some("ONE"));
}

/// How many times `command` finds the signal in `output`.
fn check_echo(prompt: &str, output: &str, want: usize) {
    let signals = signals();
    let got = events("command", prompt, output);
    let found = got
        .iter()
        .filter(|event| completion(event, prompt, &signals).is_some())
        .count();
    assert_eq!(found, want, "prompt {prompt:?}, output {output:?}: {got:?}");
}

#[test]
fn command_output() {
    assert_eq!(events("command", "p", "a\n"), [text("a")]);
    assert_eq!(
        events("command", "p", &format!("  {SIGNAL} \t\n")),
        [text(&format!("  {SIGNAL} \t")), result(SIGNAL, false)]
    );
    check_echo("p", SIGNAL, 1);
    check_echo("", SIGNAL, 1);
    check_echo(
        "p",
        &format!("I will say {SIGNAL}\n{SIGNAL}.\nx{SIGNAL}\n"),
        0,
    );
    let mut parser = agent("command", &["x"]).parser(&request("p"), &signals());
    assert_eq!(parser.line(SIGNAL.as_bytes(), true), [raw(SIGNAL)]);
    assert_eq!(parser.line(b"\xff\0", false), [text("\u{fffd}\0")]);
}

#[test]
fn an_echoed_prompt_never_completes() {
    let prompt = format!(
        "Do the work in this repository.\nWhen nothing is left, print:\n\n{SIGNAL}\n\nThanks."
    );
    check_echo(&prompt, &prompt, 0);
    // With more around it, and several times.
    check_echo(
        &prompt,
        &format!("Prompt:\n{prompt}\n---\n{prompt}\nworking\n"),
        0,
    );
    // Indented, wrapped anywhere, coloured, with CRLF, without its blank lines.
    check_echo(
        &prompt,
        &prompt.lines().fold(String::new(), |mut out, l| {
            let _ = writeln!(out, "    {l}");
            out
        }),
        0,
    );
    check_echo(
        &prompt,
        &prompt.replace("is left, print", "is left, pri\nnt"),
        0,
    );
    check_echo(&prompt, &prompt.replace("\n\n", "\n"), 0);
    check_echo(&prompt, &prompt.replace('\n', "\r\n"), 0);
    check_echo(
        &prompt,
        &prompt
            .replace("When", "\u{1b}[1;31mWhen")
            .replace("print:", "print:\u{1b}[0m"),
        0,
    );
    // The agent's own signal counts, before the echo, after it, and without one.
    check_echo(&prompt, &format!("{prompt}\nworking\n{SIGNAL}\n"), 1);
    check_echo(&prompt, &format!("working\n{SIGNAL}\n{prompt}\n"), 1);
    check_echo(&prompt, &format!("All done.\n{SIGNAL}\n"), 1);
    check_echo(&prompt, SIGNAL, 1);

    // In the middle of a line of the prompt: a wrapped echo has it on a line of its own.
    let inline = format!("When you are finished with everything say {SIGNAL} and stop");
    check_echo(&inline, &inline, 0);
    check_echo(&inline, &inline.replace(' ', "\n"), 0);
    check_echo(&inline, &format!("ready\n{SIGNAL}\n"), 1);

    // Several in a row, and at the end of the prompt.
    let twice = format!("Say one of these lines:\n{SIGNAL}\n{SIGNAL}");
    check_echo(&twice, &twice, 0);
    check_echo(&twice, &format!("{twice}\nok\n{SIGNAL}"), 1);

    // Little before it.
    let short = format!("say\n{SIGNAL}");
    check_echo(&short, &short, 0);
    check_echo(&short, &format!("x\n{SIGNAL}"), 1);
}

#[test]
fn a_prompt_that_begins_with_the_signal() {
    let prompt = format!("{SIGNAL}\nis what you print when nothing is left to do.");
    check_echo(&prompt, &prompt, 0);
    check_echo(
        &prompt,
        &format!("Prompt:\n\n{prompt}\n{prompt}\nworking"),
        0,
    );
    check_echo(&prompt, &prompt.replace(' ', "\n"), 0);
    check_echo(&prompt, &format!("{SIGNAL}\n\nis what"), 0);
    check_echo(&prompt, SIGNAL, 1);
    check_echo(&prompt, &format!("working\n{SIGNAL}\nbye"), 1);
    check_echo(&prompt, &format!("{prompt}\nworking\n{SIGNAL}\n"), 1);
    // Nothing but the signal: the first one may be the echo.
    check_echo(SIGNAL, SIGNAL, 0);
    check_echo(SIGNAL, &format!("{SIGNAL}\nworking\n{SIGNAL}\n"), 1);
    check_echo(SIGNAL, &format!("{SIGNAL}\n{SIGNAL}\n"), 1);
}

#[test]
fn an_echo_whose_lines_are_cut_is_still_an_echo() {
    let long = "word ".repeat(1000);
    let prompt = format!("{long}and at the very end print:\n{SIGNAL}");
    let mut parser = agent("command", &["x"]).parser(&request(&prompt), &signals());
    let mut events = parser.line(&prompt.as_bytes()[..500], true);
    events.extend(parser.line(SIGNAL.as_bytes(), false));
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Result { .. })),
        "{events:?}"
    );
    let later = parser.line(SIGNAL.as_bytes(), false);
    assert_eq!(later.last(), Some(&result(SIGNAL, false)));
    // Some other long line proves nothing.
    let mut parser = agent("command", &["x"]).parser(&request(&prompt), &signals());
    parser.line(&[b'x'; 500], true);
    assert_eq!(
        parser.line(SIGNAL.as_bytes(), false).last(),
        Some(&result(SIGNAL, false))
    );
}

proptest! {
    /// Whatever the prompt, and however its echo is cut into lines at white space: no completion.
    /// What the agent says itself before it is found.
    #[test]
    fn echoes_of_any_prompt(
        words in prop::collection::vec(prop_oneof![3 => "[a-c:]{1,6}", 1 => Just(SIGNAL.to_owned())], 1..30),
        spaces in prop::collection::vec(prop_oneof![Just(" "), Just("\n"), Just("\n\n  "), Just("\r\n")], 60),
    ) {
        let join = |spaces: &[&str]| {
            words.iter().zip(spaces).fold(String::new(), |out, (word, space)| out + word + space)
        };
        let (prompt, echo) = (join(&spaces[..30]), join(&spaces[30..]));
        let signals = signals();
        let found = |output: &str| {
            let events = events("command", &prompt, output);
            events.iter().filter(|event| completion(event, &prompt, &signals).is_some()).count()
        };
        prop_assert_eq!(found(&echo), 0);
        prop_assert_eq!(found(&format!("noise\n{echo}\nnoise\n{echo}\n")), usize::from(words == [SIGNAL]));
        if words != [SIGNAL] {
            prop_assert_eq!(found(&format!("All is done now.\n{SIGNAL}\nEnd.\n{echo}\nMore of my own words.\n{SIGNAL}\n.")), 2);
        }
    }
}
