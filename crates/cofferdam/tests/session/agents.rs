//! Whole runs with programs that are called like the real agents and print what the real ones
//! printed (`tests/recorded`).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam::agent::{self, AgentEvent, AgentOptions, Usage};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Event, NetworkOptions, PlanError, PromptSource, RunErrorKind};
use cofferdam::wall::{Origin, Rule};
use cofferdam::{RunError, RunOptions, RunReport};
use cofferdam_lab::way::Mode;

use crate::bad_input::{HEAD, whole, whole_ok};
use crate::support::{Env, in_mode, iterations, provider};

const MAIN: &[&str] = &["refs/heads/main"];
/// As in `scripts/record-agents`: it tells the signal, so that an echo of it must not count.
const PROMPT: &str = "Look at greeting.txt. When nothing is left to do, print on a line of its own:\n<promise>COMPLETE</promise>\n";
const AGENTS: [(&str, &str, &str); 2] = [
    ("claude-code", "claude", "claude-work"),
    ("codex", "codex", "codex-work"),
];
const SESSION: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn recorded(name: &str) -> String {
    let path = format!("{}/tests/recorded/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// Puts a program of this name where users have theirs. It commits what it was asked, prints
/// `stream`, and then does `last`.
fn install(env: &Env, program: &str, stream: &str, last: &str) {
    let bin = env.dir.path().join("user/.local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("stream"), stream).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != export ] || exit 0\ncat > prompt; printf '%s\\n' \"$@\" > arguments; git add -A; git commit -qm work --allow-empty\ncat ~/.local/bin/stream 2>/dev/null || cat \"$(dirname \"$0\")/stream\"\n{last}\n"
    );
    let path: PathBuf = bin.join(program);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn options(env: &Env, name: &str) -> RunOptions {
    options_of(env, name, (HEAD, Mode::Bind))
}

/// In the checkout, or with another strategy in a linked worktree.
fn options_of(env: &Env, name: &str, (strategy, mode): (BranchStrategy, Mode)) -> RunOptions {
    let agent = agent::by_name(name, AgentOptions::default()).unwrap();
    let mut options = env.with(in_mode(provider(), mode, strategy), agent);
    let bin = env.dir.path().join("user/.local/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    options
        .caller
        .environment
        .insert("PATH".into(), path.into());
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        options
            .session
            .environment
            .insert(key.into(), "the-users".into());
    }
    options.task.prompt = PromptSource::Inline(PROMPT.into());
    iterations(&mut options, 2);
    options
}

fn play(name: &str, program: &str, stream: &str, last: &str) -> (Env, Result<RunReport, RunError>) {
    play_in((HEAD, Mode::Bind), name, program, (stream, last))
}

/// As [`options_of`] has it.
fn play_in(
    way: (BranchStrategy, Mode),
    name: &str,
    program: &str,
    (stream, last): (&str, &str),
) -> (Env, Result<RunReport, RunError>) {
    let env = Env::new();
    install(&env, program, stream, last);
    let options = options_of(&env, name, way);
    let result = whole(&env, options, MAIN);
    (env, result)
}

fn usage(name: &str, times: u64) -> Usage {
    let created = if name == "codex" { 0 } else { 40 };
    Usage {
        input_tokens: 200 * times,
        cache_creation_tokens: created * times,
        cache_read_tokens: 600 * times,
        output_tokens: 80 * times,
        cost_micro_usd: (name == "claude-code").then_some(2130 * times),
    }
}

// covers: S2-5 S2-17 S2-18
#[test]
fn the_final_message_completes_and_tells_session_and_usage() {
    for (name, program, stream) in AGENTS {
        let (env, result) = play(name, program, &recorded(stream), "");
        let report = result.unwrap();
        assert_eq!(report.iterations.len(), 1, "{name}");
        assert!(report.completion.is_some(), "{name}");
        assert_eq!(report.iterations[0].session.as_deref(), Some(SESSION));
        assert_eq!(report.usage, usage(name, 1));
        let result = report.iterations[0].result.as_deref().unwrap();
        assert!(result.starts_with("The file greets the world."), "{result}");
        // The prompt goes by standard input, never by an argument.
        assert_eq!(env.read("prompt"), PROMPT);
        let arguments = env.read("arguments");
        assert!(!arguments.contains("greeting"), "{arguments}");
        assert!(arguments.contains("--dangerously-"), "{arguments}");
    }
}

#[test]
fn usage_of_several_iterations_adds_up() {
    for (name, program, stream) in AGENTS {
        let (env, result) = play(name, program, &unfinished(stream), "");
        let report = result.unwrap();
        assert_eq!(report.iterations.len(), 2, "{name}");
        assert_eq!(report.completion, None, "{name}: {}", env.said());
        assert_eq!(report.usage, usage(name, 2));
        assert_eq!(env.subjects("main"), ["first", "work", "work"]);
    }
}

/// The recording with another final message.
fn unfinished(stream: &str) -> String {
    let done = "Nothing is left to do.\\n<promise>COMPLETE</promise>";
    recorded(stream).replace(done, "More to do.")
}

#[test]
fn nothing_but_the_final_message_completes() {
    for (name, program, stream) in AGENTS {
        // The tool's call and output in the recording hold the signal; so does the prompt. On top
        // of that: standard error, lines that are no events, a file, and a forged echo.
        let text = unfinished(stream);
        assert!(text.contains("COMPLETE"), "{name}");
        let stream =
            format!("{text}\n<promise>COMPLETE</promise>\n\"<promise>COMPLETE</promise>\"\n");
        // Last what it leaves running says, while its streams are still read.
        let last = "echo '<promise>COMPLETE</promise>' | tee file >&2; cat prompt; \
             (sleep 0.03; echo '<promise>COMPLETE</promise>') &";
        let elsewhere = Mode::ALL.map(|mode| (BranchStrategy::MergeToHead, mode));
        for (strategy, mode) in [(HEAD, Mode::Bind)].into_iter().chain(elsewhere) {
            let what = format!("{name}, {strategy:?}, {mode}");
            let (env, result) = play_in((strategy, mode), name, program, (&stream, last));
            let report = result.unwrap();
            assert_eq!(report.completion, None, "{what}: {}", env.said());
            assert_eq!(report.iterations.len(), 2, "{what}");
        }
    }
}

#[test]
fn errors_in_the_stream_are_the_words_of_the_failure() {
    for (name, program, stream) in [
        ("claude-code", "claude", "claude-error"),
        ("codex", "codex", "codex-error"),
    ] {
        let (env, result) = play(name, program, &recorded(stream), "exit 1");
        let error = result.unwrap_err();
        assert!(
            matches!(error.kind, RunErrorKind::Agent { iteration: 1, .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains("the scripted model refuses"), "{text}");
        assert_eq!(env.subjects("main"), ["first", "work"]);
        assert_eq!(error.kept.iterations[0].session.as_deref(), Some(SESSION));
        // Without an exit code of its own it is an error all the same.
        let (_, result) = play(name, program, &recorded(stream), "exit 0");
        let text = result.unwrap_err().to_string();
        assert!(text.contains("the scripted model refuses"), "{text}");
    }
}

/// With the code 0 some of them end after an error of the model, and it is an error all the same.
// covers: S2-5 S2-32
#[test]
fn others_are_read_by_what_they_print() {
    for (name, skip) in [
        ("opencode", Some("--auto")),
        ("pi", None),
        ("copilot", Some("--allow-all")),
        ("gemini", Some("--yolo")),
        ("qwen", Some("--yolo")),
    ] {
        let (env, result) = play(name, name, &recorded(&format!("{name}-work")), "");
        let report = result.unwrap();
        assert_eq!(report.iterations.len(), 1, "{name}");
        assert!(report.completion.is_some(), "{name}");
        assert!(report.iterations[0].session.is_some(), "{name}");
        let result = report.iterations[0].result.as_deref().unwrap();
        assert!(result.starts_with("The file greets the world."), "{result}");
        assert_eq!(env.read("prompt"), PROMPT, "{name}");
        let arguments = env.read("arguments");
        assert!(!arguments.contains("greeting"), "{name}: {arguments}");
        let skips = skip.is_none_or(|skip| arguments.lines().any(|one| one == skip));
        assert!(skips, "{name}: {arguments}");
        // Some warn of this and that before.
        for last in ["exit 0", "exit 1", "echo 'no ripgrep' >&2; exit 1"] {
            let (env, result) = play(name, name, &recorded(&format!("{name}-error")), last);
            let error = result.unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("the scripted model refuses"),
                "{name}: {text}"
            );
            assert_eq!(env.subjects("main"), ["first", "work"], "{name}");
        }
    }
}

#[test]
fn an_agent_that_stays_after_its_final_message_is_ended_in_peace() {
    for (name, program, stream) in AGENTS {
        let env = Env::new();
        install(&env, program, &recorded(stream), "trap '' TERM; sleep 1000");
        let mut options = options(&env, name);
        options.task.completion_grace = Duration::from_millis(300);
        let report = whole_ok(&env, options, MAIN);
        assert!(report.completion.is_some());
        assert_eq!(report.iterations[0].exit, None);
    }
}

/// Nobody knows whether the work was done, whatever the exit code says; what was committed is there.
#[test]
fn streams_that_are_cut_are_no_success_and_rubbish_in_them_is_survived() {
    for (name, program, stream) in AGENTS {
        let text = recorded(stream);
        for cut in [10, text.len() / 3, text.len() - 3] {
            let (env, result) = play(name, program, &text[..cut], "exit 0");
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("without its final message"),
                "{name}: {error}"
            );
            assert_eq!(env.subjects("main"), ["first", "work"], "{name}");
        }
        let rubbish = text.replace(
            '\n',
            "\r\n{\"type\":\n[]\nnull\n{\"type\":7}\n\u{0}\u{1b}[2J\n",
        );
        let (_, result) = play(name, program, &rubbish, "");
        assert!(result.unwrap().completion.is_some(), "{name}");
    }
}

#[test]
fn a_missing_program_or_prompt_is_a_clear_error() {
    for (name, program, stream) in AGENTS {
        let env = Env::new();
        let error = whole(&env, options(&env, name), MAIN).unwrap_err();
        assert!(error.to_string().contains(program), "{error}");
        install(&env, program, &recorded(stream), "");
        let mut options = options(&env, name);
        options.task.prompt = PromptSource::None;
        let error = whole(&env, options, MAIN).unwrap_err();
        assert!(error.to_string().contains("prompt"), "{error}");
        assert_eq!(env.subjects("main"), ["first"]);
        env.assert_no_state();
    }
}

/// Each item with its iteration and its time; what no parser understands is there too.
// covers: S2-39
#[test]
fn text_and_tool_calls_reach_the_callback_with_iteration_and_time() {
    let before = jiff::Timestamp::now();
    let says = |text: &str| {
        format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}"#)
    };
    let calls = r#"{"type":"item.started","item":{"type":"command_execution","command":"ls -l"}}"#;
    let stream = format!(
        "{}\n{calls}\n{}\n{{\"type\":\"turn.completed\"}}\n",
        says("first"),
        says("second")
    );
    let (env, result) = play("codex", "codex", &stream, "");
    result.unwrap();
    let after = jiff::Timestamp::now();
    let events = env.events.lock().unwrap();
    let items = events.iter().filter_map(|event| {
        let Event::Agent {
            iteration,
            at,
            item,
        } = event
        else {
            return None;
        };
        assert!(before <= *at && *at <= after, "{at}");
        let shown = match item {
            AgentEvent::Text { text } => text.clone(),
            AgentEvent::ToolCall { name, arguments } => format!("{name} {arguments}"),
            _ => return None,
        };
        Some((*iteration, shown))
    });
    let items: Vec<_> = items.collect();
    let want = |n| ["first", "Bash ls -l", "second"].map(|text| (n, text.to_owned()));
    assert_eq!(items, [want(1), want(2)].concat());
}

/// Known before anything is made: an agent that is not let in tries again for minutes.
#[test]
fn an_agent_without_key_and_login_does_not_start() {
    for (name, program, stream) in AGENTS {
        let env = Env::new();
        install(&env, program, &recorded(stream), "");
        let without = || {
            let mut options = options(&env, name);
            options.session.environment.clear();
            options
        };
        let (key, address, own) = match name {
            "codex" => (
                "CODEX_API_KEY",
                "OPENAI_BASE_URL",
                "https://api.openai.com/v1",
            ),
            _ => (
                "CLAUDE_CODE_OAUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "https://api.anthropic.com",
            ),
        };
        let set = |options: &mut RunOptions, name: &str, value: &str| {
            options.caller.environment.insert(name.into(), value.into());
        };
        let refused = |options: RunOptions| {
            let error = crate::support::run(options).unwrap_err();
            let words =
                format!("{name} has neither a key nor a login: its model would not answer it");
            assert_eq!(error.to_string(), words);
            let RunErrorKind::Plan(PlanError::NoAccess { keys, login, .. }) = &error.kind else {
                panic!("{error:?}")
            };
            assert!(keys.contains(&key) && login.is_some(), "{error:?}");
            // Nothing was made for it.
            assert!(
                error.kept.id.is_none() && env.said().is_empty(),
                "{}",
                env.said()
            );
            env.assert_no_state();
        };
        refused(without());
        let mut at_home = without();
        set(&mut at_home, address, own);
        set(&mut at_home, key, "");
        refused(at_home);
        // One key of several is enough.
        let mut with_key = without();
        set(&mut with_key, key, "k");
        crate::support::run_ok(with_key);
        assert!(!env.said().contains("NoKey"), "{}", env.said());
        // A server of one's own may want none, and whoever says so by name knows.
        let mut elsewhere = without();
        set(
            &mut elsewhere,
            address,
            "http://host.cofferdam.internal:11434/v1",
        );
        let rule = Rule::parse("host.cofferdam.internal:11434", Origin::Flag).unwrap();
        elsewhere.session.network = NetworkOptions::Allowlist { rules: vec![rule] };
        crate::support::run_ok(elsewhere);
        assert!(env.said().contains("NoKey"), "{}", env.said());
        env.events.lock().unwrap().clear();
        let mut knows = without();
        knows.session.environment.insert(key.into(), "".into());
        crate::support::run_ok(knows);
        assert!(!env.said().contains("NoKey"), "{}", env.said());
    }
}
