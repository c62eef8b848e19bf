//! How each agent's program is started: printing, in its terminal interface, with a session and with a copy of one.

use cofferdam::agent::{AGENTS, AgentCommand, AgentError, AgentOptions, AgentRequest, by_name};

use crate::world::{agent, request};

/// `NAME=VALUE … argument …`; what goes to standard input comes after `<`.
fn line(command: Result<AgentCommand, AgentError>) -> String {
    let command = match command {
        Ok(command) => command,
        Err(error) => return format!("error: {error}"),
    };
    let pairs = command.environment.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", name.display(), value.display()));
    let arguments = command.arguments.iter();
    let arguments = arguments.map(|argument| argument.display().to_string());
    let stdin = command.stdin.map(|bytes| String::from_utf8(bytes).unwrap());
    let stdin = stdin.map(|text| format!("< {text}"));
    let words: Vec<String> = pairs.chain(arguments).chain(stdin).collect();
    words.join(" ")
}

fn with(change: impl FnOnce(&mut AgentRequest)) -> AgentRequest {
    let mut request = request("do it");
    change(&mut request);
    request
}

/// Of an agent with a model, and with one argument of the user's.
fn check(name: &str, want: &[&str; 5]) {
    let mut options = AgentOptions::with_arguments(["--own"]);
    options.model = Some("m-1".into());
    let agent = by_name(name, options).unwrap();
    let careful = with(|request| request.skip_permissions = false);
    let resumed = with(|request| request.resume = Some("0a-b".into()));
    let mut forked = resumed.clone();
    forked.fork = true;
    let got = [
        line(agent.command(&request("do it"))),
        line(agent.command(&careful)),
        line(agent.command(&resumed)),
        line(agent.command(&forked)),
        line(agent.interactive(&request("do it"))),
    ];
    assert_eq!(got.each_ref().map(String::as_str), *want, "{name}");
}

// covers: S2-5 S2-32
#[test]
fn printing_and_in_a_terminal() {
    let claude = "claude --print --verbose --output-format stream-json";
    let skip = "--dangerously-skip-permissions --model m-1";
    check(
        "claude-code",
        &[
            &format!("{claude} {skip} --own < do it"),
            &format!("{claude} --model m-1 --own < do it"),
            &format!("{claude} {skip} --resume 0a-b --own < do it"),
            &format!("{claude} {skip} --resume 0a-b --fork-session --own < do it"),
            &format!(
                "CLAUDE_CODE_SANDBOXED=1 DISABLE_AUTOUPDATER=1 claude --settings \
                 {{\"skipDangerousModePermissionPrompt\":true}} {skip} --own -- do it"
            ),
        ],
    );
    let skip = "--dangerously-bypass-approvals-and-sandbox --model m-1 --own";
    check(
        "codex",
        &[
            &format!("codex exec --json {skip} - < do it"),
            "codex exec --json --model m-1 --own - < do it",
            &format!("codex exec --json {skip} resume 0a-b - < do it"),
            &format!("codex exec --json {skip} fork 0a-b - < do it"),
            &format!("codex --config check_for_update_on_startup=false {skip} -- do it"),
        ],
    );
    let quiet = "OPENCODE_DISABLE_AUTOUPDATE=true OPENCODE_DISABLE_MODELS_FETCH=true opencode";
    let run = format!("{quiet} run --format json");
    check(
        "opencode",
        &[
            &format!("{run} --auto --model m-1 --own < do it"),
            &format!("{run} --model m-1 --own < do it"),
            &format!("{run} --auto --model m-1 --session 0a-b --own < do it"),
            &format!("{run} --auto --model m-1 --session 0a-b --fork --own < do it"),
            &format!("{quiet} --auto --model m-1 --own --prompt=do it"),
        ],
    );
    let print = "PI_OFFLINE=1 pi --print --mode json --model m-1";
    check(
        "pi",
        &[
            &format!("{print} --own < do it"),
            &format!("{print} --own < do it"),
            &format!("{print} --session 0a-b --own < do it"),
            &format!("{print} --fork 0a-b --own < do it"),
            "PI_OFFLINE=1 pi --model m-1 --own do it",
        ],
    );
    let print = "copilot --output-format json --no-ask-user --no-auto-update";
    check(
        "copilot",
        &[
            &format!("{print} --allow-all --model m-1 --own < do it"),
            &format!("{print} --model m-1 --own < do it"),
            &format!("{print} --allow-all --model m-1 --resume=0a-b --own < do it"),
            "error: copilot cannot continue a copy of a session, only the session itself",
            "COPILOT_ALLOW_ALL=true copilot --no-auto-update --allow-all --model m-1 --own --interactive=do it",
        ],
    );
    let print = "GEMINI_CLI_NO_RELAUNCH=true gemini --output-format stream-json";
    let skip = "--yolo --skip-trust --model m-1";
    check(
        "gemini",
        &[
            &format!("{print} {skip} --own < do it"),
            &format!("{print} --model m-1 --own < do it"),
            &format!("{print} {skip} --resume 0a-b --own < do it"),
            "error: gemini cannot continue a copy of a session, only the session itself",
            &format!("GEMINI_CLI_NO_RELAUNCH=true gemini {skip} --own --prompt-interactive=do it"),
        ],
    );
    let print = "qwen --output-format stream-json";
    check(
        "qwen",
        &[
            &format!("{print} --yolo --model m-1 --own < do it"),
            &format!("{print} --model m-1 --own < do it"),
            &format!("{print} --yolo --model m-1 --resume 0a-b --own < do it"),
            &format!("{print} --yolo --model m-1 --resume 0a-b --fork-session --own < do it"),
            "qwen --yolo --model m-1 --own --prompt-interactive=do it",
        ],
    );
    let print = "cursor-agent --print --output-format stream-json";
    check(
        "cursor",
        &[
            &format!("{print} --trust --force --model m-1 --own < do it"),
            &format!("{print} --model m-1 --own < do it"),
            &format!("{print} --trust --force --model m-1 --resume 0a-b --own < do it"),
            "error: cursor cannot continue a copy of a session, only the session itself",
            "cursor-agent --force --model m-1 --own -- do it",
        ],
    );
}

#[test]
fn what_an_interface_in_a_terminal_is_not_asked() {
    let open = |name| line(agent(name, &[]).interactive(&AgentRequest::new("")));
    assert_eq!(open("claude-code"), "DISABLE_AUTOUPDATER=1 claude");
    assert_eq!(
        open("codex"),
        "codex --config check_for_update_on_startup=false"
    );
    assert_eq!(open("copilot"), "copilot --no-auto-update");
    assert_eq!(open("cursor"), "cursor-agent");
    // A program of the user's has the terminal itself, and no prompt on standard input.
    let own = agent("command", &["x"]).interactive(&AgentRequest::new("do it"));
    assert_eq!(line(own), "x");
}

#[test]
fn codex_trusts_the_directory_of_a_sandbox() {
    let command = agent("codex", &[]).interactive(&with(|request| {
        request.directory = Some("/work/a \"b\"".into());
    }));
    assert_eq!(
        line(command),
        "codex --config check_for_update_on_startup=false --config \
         projects={\"/work/a \\\"b\\\"\"={trust_level=\"trusted\"}} \
         --dangerously-bypass-approvals-and-sandbox -- do it"
    );
}

/// A prompt is no option and no file, whatever it begins with.
#[test]
fn prompts_that_look_like_something_else() {
    let last = |name: &str, prompt: &str| {
        let command = agent(name, &[]).interactive(&request(prompt)).unwrap();
        let mut arguments = command.arguments.into_iter().rev();
        let last = arguments.next().unwrap().into_string().unwrap();
        (arguments.next().unwrap().into_string().unwrap(), last)
    };
    for prompt in ["--help", "@file", "-x"] {
        for name in ["claude-code", "codex", "cursor"] {
            assert_eq!(last(name, prompt), ("--".to_owned(), prompt.to_owned()));
        }
        for (name, option) in [
            ("opencode", "--prompt"),
            ("copilot", "--interactive"),
            ("gemini", "--prompt-interactive"),
            ("qwen", "--prompt-interactive"),
        ] {
            assert_eq!(last(name, prompt).1, format!("{option}={prompt}"));
        }
        assert_eq!(last("pi", prompt).1, format!(" {prompt}"));
    }
    let long = request(&"x".repeat(128 << 10));
    for kind in AGENTS.iter().filter(|kind| !kind.install.is_empty()) {
        let agent = agent(kind.name, &[]);
        assert!(agent.command(&long).is_ok(), "{}", kind.name);
        let refused = agent.interactive(&long);
        assert!(matches!(refused, Err(AgentError::LongPrompt { .. })));
    }
}

#[test]
fn how_hard_to_think() {
    let with_effort = |name: &str| {
        let mut options = AgentOptions::default();
        options.effort = Some("high".into());
        by_name(name, options)
    };
    let print = |name| line(with_effort(name).unwrap().command(&request("x")));
    assert!(print("opencode").contains(" --variant high "));
    assert!(print("pi").contains(" --thinking high "));
    assert!(print("copilot").contains(" --reasoning-effort high "));
    for name in ["gemini", "qwen", "cursor"] {
        let refused = with_effort(name).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("agent `{name}` takes no effort")
        );
    }
    assert_eq!(
        line(with_effort("opencode").unwrap().interactive(&request("x"))),
        "error: agent `opencode` takes no effort in its terminal interface"
    );
}

/// What the user has said of a variable stays, and a model says whose key is needed.
#[test]
fn variables() {
    let said = with(|request| {
        let pairs = [("PI_OFFLINE", "0"), ("OPENAI_API_KEY", "k")];
        request.environment = pairs.map(|(k, v)| (k.into(), v.into())).into();
    });
    let pi = agent("pi", &[]).command(&said).unwrap();
    assert!(pi.environment.is_empty());
    let own = with(|request| {
        let pair = ("COPILOT_PROVIDER_BASE_URL".into(), "http://m/v1".into());
        request.environment = [pair].into();
    });
    let copilot = line(agent("copilot", &[]).command(&own));
    assert!(
        copilot.starts_with("COPILOT_OFFLINE=true copilot"),
        "{copilot}"
    );
    for name in ["opencode", "pi"] {
        let keys = |model: &str| {
            let mut options = AgentOptions::default();
            options.model = Some(model.into());
            let agent = by_name(name, options).unwrap();
            let keys = agent.environment().iter();
            keys.map(|&key| key.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys("openai/gpt-5"), ["OPENAI_API_KEY"]);
        assert!(keys("gpt-5").len() > 4);
    }
}

/// An image of ours could install each by its name, and what a user is told to type names the same package.
#[test]
fn recipes() {
    for kind in AGENTS {
        let Some(npm) = kind.npm else {
            assert!(matches!(kind.name, "cursor" | "command"), "{}", kind.name);
            continue;
        };
        assert!(kind.install.ends_with(&format!(" {}", npm.package)));
        assert!(kind.tried, "{}", kind.name);
    }
    let untried: Vec<_> = AGENTS.iter().filter(|kind| !kind.tried).collect();
    assert_eq!(untried.len(), 1);
    assert!(
        untried[0].about.contains("not tried"),
        "{}",
        untried[0].about
    );
}
