//! What `init` with a template asks for and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::environment::TestEnvironment;
use crate::lives::Lives;
use crate::templates::{TEMPLATES, init, next, typed, world};

/// All files of a template, by their paths below the repository's top.
fn written(environment: &TestEnvironment) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut left = vec![environment.repository().join(".cofferdam")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(environment.repository()).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            files.insert(name.to_str().unwrap().to_owned(), text);
        }
    }
    files
}

/// The keys in double braces.
fn keys(text: &str) -> BTreeSet<&str> {
    let parts = text.split("{{").skip(1);
    parts
        .map(|part| part.split("}}").next().unwrap().trim())
        .collect()
}

// covers: S2-35
#[test]
fn what_was_chosen_is_filled_in() {
    let at_run_time = ["ID", "TITLE", "UNMERGED", "SOURCE_BRANCH", "TARGET_BRANCH"];
    for (backlog, [list, view, close, tool, asks]) in [
        (
            "github",
            [
                "gh issue list",
                "gh issue view",
                "gh issue close",
                "install -y --no-install-recommends gh",
                "GH_REPO: acme/tool",
            ],
        ),
        (
            "beads",
            [
                "bd ready",
                "bd show",
                "bd close",
                "@beads/bd@",
                "--copy .beads",
            ],
        ),
        (
            "custom",
            [
                "FILL-IN: a command that lists",
                "FILL-IN: a command that shows",
                "FILL-IN: a command that closes",
                "FILL-IN",
                "FILL-IN",
            ],
        ),
    ] {
        let environment = world(&[]);
        environment.git(&["remote", "add", "origin", "git@github.com:acme/tool.git"]);
        for template in TEMPLATES.into_iter().rev() {
            let done = init(&environment, template, backlog, "qwen");
            let place = format!(".cofferdam/prompts/{template}/");
            let all = written(&environment);
            let own: BTreeMap<_, _> = all
                .iter()
                .filter(|(path, _)| path.starts_with(&place))
                .collect();
            assert!(own.len() >= 2, "{own:?}");
            // None has anything run on the host.
            for (path, text) in &all {
                for hook in ["--on-worktree-ready", "--on-host-ready", "hook"] {
                    assert!(!text.to_lowercase().contains(hook), "{path}: {hook}");
                }
            }
            let mut together = String::new();
            for (path, text) in &own {
                let left: Vec<_> = keys(text)
                    .into_iter()
                    .filter(|key| !at_run_time.contains(key))
                    .collect();
                assert!(left.is_empty(), "{path}: {left:?}");
                together.push_str(text);
                let is = |end: &str| {
                    Path::new(path)
                        .extension()
                        .is_some_and(|found| found == end)
                };
                if is("json") {
                    serde_json::from_str::<serde_json::Value>(text).unwrap();
                } else if is("sh") {
                    typed(&environment, &format!("sh -n {path}")).expect_code(0);
                    if path.ends_with("run.sh") {
                        assert!(text.contains("--agent qwen --sandbox native"), "{text}");
                    }
                } else if is("md") {
                    let mut words = vec!["prompt", "check", path];
                    for key in keys(text)
                        .into_iter()
                        .filter(|key| !key.ends_with("_BRANCH"))
                    {
                        words.extend([
                            "--arg",
                            match key {
                                "ID" => "ID=1",
                                "TITLE" => "TITLE=t",
                                _ => "UNMERGED=none",
                            },
                        ]);
                    }
                    environment.cofferdam(&words).expect_code(0);
                }
            }
            if template != "blank" {
                for command in [list, view, close] {
                    assert!(together.contains(command), "{template}: {command}");
                }
            }
            let approves = next(&done)
                .iter()
                .any(|line| line.starts_with("cofferdam approve"));
            assert_eq!(
                approves,
                backlog == "github" && template != "blank",
                "{done}"
            );
        }
        let recipe = environment.read(".cofferdam/Dockerfile");
        assert!(recipe.contains(tool), "{recipe}");
        assert!(
            recipe.contains("npm install --global @qwen-code/qwen-code"),
            "{recipe}"
        );
        assert!(environment.read(".cofferdam/config.yaml").contains(asks));
        environment.cofferdam(&["config", "check"]).expect_code(0);
        // No key of the user's and nothing of runs is in the commit that it names.
        environment.write(".cofferdam/.env", "KEY=secret\n");
        environment.git(&["add", ".cofferdam"]);
        let added = environment.git(&["diff", "--cached", "--name-only"]);
        assert!(
            added.contains("config.yaml") && !added.contains(".env"),
            "{added}"
        );
    }
}

// covers: S2-34
#[test]
fn without_a_terminal_what_is_missing_is_named() {
    let environment = TestEnvironment::with_repository();
    for (given, missing) in [
        (
            &["--template", "simple-loop"][..],
            &["--agent", "--sandbox", "--backlog"][..],
        ),
        (
            &["--agent", "codex"],
            &["--template", "--sandbox", "--backlog"],
        ),
        (
            &["--backlog", "beads", "--sandbox", "native"],
            &["--template", "--agent"],
        ),
        (
            &["--template", "blank", "--sandbox", "docker"],
            &["--agent"],
        ),
        (
            &[
                "--template",
                "parallel-planner",
                "--agent",
                "pi",
                "--sandbox",
                "podman",
            ],
            &["--backlog"],
        ),
    ] {
        let done = environment
            .cofferdam(&[&["init", "."], given].concat())
            .expect_code(2);
        let first = done.stderr.lines().next().unwrap();
        let named = missing
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>();
        assert_eq!(
            first,
            format!(
                "error: there is no terminal to ask for {}",
                named.join(", ")
            )
        );
    }
    environment
        .cofferdam(&["init", ".", "--template", "none"])
        .expect_code(2);
    environment.expect_nothing_made();
    // The example of the hint is one that works.
    let hint = environment
        .cofferdam(&["init", ".", "--agent", "codex"])
        .stderr;
    let (_, words) = hint.split_once("`cofferdam ").unwrap();
    let words: Vec<_> = words.split('`').next().unwrap().split(' ').collect();
    environment.cofferdam(&words).expect_code(0);
    // A build's engine alone wants no template.
    let other = TestEnvironment::with_repository();
    other
        .cofferdam(&["init", ".", "--sandbox", "native"])
        .expect_code(0);
    assert!(!other.repository().join(".cofferdam/prompts").exists());
}

#[test]
fn nothing_of_the_users_is_overwritten() {
    let environment = world(&[]);
    environment.cofferdam(&["init", "."]).expect_code(0);
    // Nobody changed what it wrote before: it is replaced, with what the choice needs.
    init(&environment, "sequential-reviewer", "github", "codex");
    assert!(
        environment
            .read(".cofferdam/config.yaml")
            .contains("GH_TOKEN")
    );
    let first = written(&environment);
    let again = init(&environment, "sequential-reviewer", "github", "codex");
    assert_eq!(written(&environment), first);
    assert!(!again.stderr.contains("wrote"), "{again}");
    let quiet = again
        .stderr
        .lines()
        .filter(|line| line.contains("repository/.cofferdam/"));
    assert_eq!(quiet.count(), 0, "{again}");
    // What the user changed stays, byte for byte, whatever else is chosen.
    for path in [
        ".cofferdam/config.yaml",
        ".cofferdam/Dockerfile",
        ".cofferdam/prompts/sequential-reviewer/work.md",
        ".cofferdam/prompts/sequential-reviewer/run.sh",
    ] {
        environment.write(path, "# mine \u{7f}\r\n");
    }
    let mine = written(&environment);
    for backlog in ["github", "beads"] {
        let done = init(&environment, "sequential-reviewer", backlog, "codex");
        assert!(done.stderr.contains("stays as it is"), "{done}");
        let now = written(&environment);
        assert_eq!(
            now[".cofferdam/config.yaml"],
            mine[".cofferdam/config.yaml"]
        );
        assert_eq!(now, mine);
    }
    // By force what is the user's is kept beside.
    let words = [
        "init",
        ".",
        "--force",
        "--template",
        "sequential-reviewer",
        "--agent",
        "codex",
        "--sandbox",
        "native",
        "--backlog",
        "github",
    ];
    environment.cofferdam(&words).expect_code(0);
    let mut now = written(&environment);
    for (path, text) in &mine {
        if *text != first[path] {
            assert_eq!(now.remove(&format!("{path}.before")).unwrap(), *text);
        }
    }
    assert_eq!(now, first);
    // What leads elsewhere is nobody's place for prompts.
    let prompts = environment.repository().join(".cofferdam/prompts");
    std::fs::rename(&prompts, environment.home().join("elsewhere")).unwrap();
    symlink(environment.home().join("elsewhere"), &prompts).unwrap();
    let done = environment.cofferdam(&words).expect_code(1);
    assert!(done.stderr.contains("prompts is no directory"), "{done}");
}

// covers: S2-34
#[test]
fn a_person_at_a_terminal_is_asked() {
    let lives = Lives::new();
    let mut asked = lives.on_a_terminal(&["init", ".", "--backlog", "beads"]);
    asked.expect("prompts to begin with: 1) none  2) blank");
    asked.press("nonsense\r");
    asked.expect("prompts to begin with:");
    asked.press("simple-loop\r");
    asked.expect("the agent: 1) claude-code");
    asked.press("2\r");
    asked.expect("its sandbox: 1) native");
    asked.press("\r");
    asked.expect("build the image now? [y/N]");
    asked.press("n\r");
    asked.expect("--agent codex --sandbox native");
    asked.ends_with(0);
    assert!(
        lives
            .read(".cofferdam/prompts/simple-loop/loop.md")
            .contains("bd ready")
    );
    // Enter alone is none.
    let other = Lives::new();
    let mut asked = other.on_a_terminal(&["init", "."]);
    asked.expect("prompts to begin with:");
    asked.press("\r");
    asked.expect("build the image now? [y/N]");
    asked.press("\r");
    asked.ends_with(0);
    assert!(!other.repository().join(".cofferdam/prompts").exists());
}
