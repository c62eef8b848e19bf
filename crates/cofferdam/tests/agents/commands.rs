//! A request becomes a command, or is refused.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cofferdam::agent::{AGENTS, AgentError, AgentKind, AgentOptions, AgentRequest, by_name};

use crate::world::{agent, request};

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

fn resuming(id: &str) -> AgentRequest {
    let mut request = request("do it");
    request.resume = Some(id.into());
    request
}

// covers: S2-5 S2-32
#[test]
fn commands() {
    let mut options = AgentOptions::with_arguments(["--extra", "a b"]);
    options.model = Some("m-1".into());
    options.effort = Some("high".into());
    let plain = request("do it");
    let mut careful = plain.clone();
    careful.skip_permissions = false;
    let resumed = resuming("0a-b");
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

    let own = AgentOptions::with_arguments(["./a", "-x"]);
    check_command("command", own.clone(), &plain, &["./a", "-x"]);
    check_command("command", own, &request(""), &["./a", "-x"]);
}

/// `codex exec` itself looks for neither of them.
#[test]
fn codex_is_told_the_key_and_the_address_of_its_environment() {
    let with = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(k, v)| (k.into(), v.into()));
        let mut request = request("do it");
        request.environment = pairs.collect();
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
    let mut logged_in = request("do it");
    logged_in.logged_in = true;
    logged_in.environment = [("OPENAI_API_KEY".into(), "k".into())].into();
    let command = agent("codex", &[]).command(&logged_in).unwrap();
    assert!(command.environment.is_empty());
}

/// What names the versions of the programs in the base image, agents among them, and the commands that open one for a person.
const BASE_IMAGE: [&str; 5] = [
    "image/base.rs",
    "commands/build_base.rs",
    "commands/claude.rs",
    "commands/codex.rs",
    "commands/codex_config.rs",
];

/// Its module line, its re-export and its place in the list: nothing else of the library or of the command knows an
/// agent, neither its name, its program, its variables nor its files; but the base image, in which it is installed, and commands that are called so.
// covers: S2-33
#[test]
fn every_agent_is_one_file_and_three_lines() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = |kind: &AgentKind| {
        let module = kind.name.replace('-', "_");
        here.join(format!("src/agent/{module}.rs"))
    };
    let others_own: Vec<PathBuf> = AGENTS.iter().map(file).collect();
    for kind in AGENTS {
        let agent = agent(kind.name, &["x"]);
        let module = kind.name.replace('-', "_");
        let own = file(kind);
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
        let mut words = vec![
            kind.name.to_owned(),
            program.name.to_str().unwrap().to_owned(),
        ];
        words.extend(agent.environment().iter().map(|&name| name.to_owned()));
        words.extend(program.directories.iter().map(|&path| path.to_owned()));
        if let Some(login) = agent.login() {
            words.push(login.path.to_owned());
            words.extend(login.renewed.iter().map(|&path| path.to_owned()));
        }
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
            // Several may take the same key.
            .filter(|path| !others_own.contains(path))
            .filter(|path| !path.ends_with("agent/fuzz.rs"))
            .filter(|path| !BASE_IMAGE.iter().any(|one| path.ends_with(one)));
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
    for kind in AGENTS.iter().filter(|kind| !kind.install.is_empty()) {
        let agent = agent(kind.name, &[]);
        assert!(matches!(
            agent.command(&request(" \n")),
            Err(AgentError::NoPrompt { .. })
        ));
        for id in ["", "-x", "--help", "a b", "a\nb", "../x", &"a".repeat(129)] {
            for refused in [
                agent.command(&resuming(id)),
                agent.interactive(&resuming(id)),
            ] {
                let refused = refused.unwrap_err();
                assert!(matches!(refused, AgentError::BadSession { .. }), "{id:?}");
                assert!(!refused.to_string().contains('\n'));
            }
        }
    }
    let refused = agent("command", &["x"]).command(&resuming("a"));
    assert!(matches!(refused, Err(AgentError::NoResume { .. })));
    let options = |arguments: &[&str], model: Option<&str>| {
        let mut options = AgentOptions::with_arguments(arguments);
        options.model = model.map(str::to_owned);
        options
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
        "no agent is called `gpt\\u{1b}` (there are: claude-code, codex, opencode, pi, copilot, gemini, qwen, cursor, command)"
    );
}
