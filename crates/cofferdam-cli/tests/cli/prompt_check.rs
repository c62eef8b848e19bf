//! `prompt check`: what an agent would get, and what of it stays where shell expressions run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::{Done, TestEnvironment, finish};

const ATTEMPT: &str = "echo in > new.txt; git add new.txt; git commit -qm in; echo left > left.txt; git branch left; \
                       git symbolic-ref --short HEAD";

fn check(environment: &TestEnvironment, options: &[&str]) -> Done {
    environment.cofferdam(&[&["prompt", "check"], options].concat())
}

// covers: S2-26, S2-27, S2-29, S2-30
#[test]
fn a_template_is_shown_with_its_arguments_and_its_expressions_are_not_run() {
    let environment = TestEnvironment::with_repository();
    let place = environment.temporary().join("ran");
    let template = format!(
        "Fix {{{{ISSUE}}}} of {{{{ SOURCE_BRANCH }}}} for {{{{TARGET_BRANCH}}}}.\n!`touch {}; gh issue view {{{{ISSUE}}}}`\nEnd\n",
        place.display()
    );
    environment.write("task.md", &template);
    let before = environment.references();
    let given = "ISSUE=it's !`id` and {{OTHER}}";
    let options = [
        "task.md", "--branch", "fix", "--arg", given, "--arg", "NONE=1",
    ];
    let done = check(&environment, &options).expect_code(0);
    let want = format!(
        "Fix it's !`id` and {{{{OTHER}}}} of fix for main.\n\
         [not run, line 2, column 1: !`COFFERDAM_ARG_ISSUE='it'\\''s !`id` and {{{{OTHER}}}}'\n\
         touch {}; gh issue view \"${{COFFERDAM_ARG_ISSUE}}\"`]\nEnd\n",
        place.display()
    );
    assert_eq!(done.stdout, want);
    let notes: Vec<_> = done.stderr.lines().collect();
    assert_eq!(notes[0], "warning: prompt argument `NONE` is not used");
    assert!(
        notes[1].starts_with("not run: 1 shell expression;"),
        "{done}"
    );
    assert!(!place.exists());
    assert_eq!(environment.references(), before);
    environment.expect_nothing_made();
    // Without a branch a run names one itself, and the configuration counts as it does there.
    let done = check(&environment, &["task.md", "--arg", "ISSUE=1"]).expect_code(0);
    assert!(done.stdout.starts_with("Fix 1 of cofferdam/2"), "{done}");
    environment.configure("run: {strategy: head}\n");
    let done = check(&environment, &["task.md", "--arg", "ISSUE=1"]).expect_code(0);
    assert!(done.stdout.starts_with("Fix 1 of main for main."), "{done}");
}

// covers: S2-28, S2-30
#[test]
fn all_that_is_missing_is_named() {
    let environment = TestEnvironment::with_repository();
    environment.write("task.md", "{{ONE}} {{TWO}}\n!`echo {{THREE}}` {{ONE}}\n");
    let done = check(&environment, &["task.md", "--arg", "TWO=2"]).expect_code(1);
    assert_eq!(done.stdout, "");
    assert!(
        done.stderr
            .contains("task.md: line 1, column 1: `{{ONE}}` has no argument (nor have: THREE)"),
        "{done}"
    );
    assert!(
        done.stderr.contains("`--arg ONE=VALUE --arg THREE=VALUE`"),
        "{done}"
    );
    let done = check(&environment, &["task.md", "--arg", "SOURCE_BRANCH=x"]).expect_code(1);
    assert!(
        done.stderr.contains("`SOURCE_BRANCH` is built in"),
        "{done}"
    );
    // What says how a sandbox is made has nothing to say where none is.
    for option in [&["--network", "none"][..], &["--sandbox", "native"]] {
        let done = check(&environment, &[&["task.md"], option].concat()).expect_code(2);
        assert!(done.stderr.contains("--run"), "{done}");
    }
    let done = check(&environment, &["none.md"]).expect_code(1);
    assert!(done.stderr.contains("none.md"), "{done}");
    environment.expect_nothing_made();
}

/// Each expression runs as before an iteration: nothing of it comes home, in whatever way the sandbox has its files.
// covers: S2-26, S2-27
#[test]
fn expressions_run_in_a_sandbox_of_which_nothing_stays() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["branch", "there"]);
    let template = format!("Now: !`cat README.md; echo {{{{WORD}}}}`\nOn: !`{ATTEMPT}`\n");
    environment.write("task.md", &template);
    let before = environment.references();
    let word = "WORD=$(id) '\"` x";
    for (options, on) in [
        (&["--mode", "layer", "--branch", "there"][..], "there"),
        (&["--mode", "bind", "--branch", "there"], "there"),
        (&["--mode", "copy", "--branch", "fresh"], "fresh"),
        (&["--mode", "bind"], "cofferdam/2"),
        (&["--head"], "cofferdam/2"),
    ] {
        let options = [&["task.md", "--run", "--arg", word], options].concat();
        let done = check(&environment, &options).expect_code(0);
        let want = format!("Now: hello\n$(id) '\"` x\nOn: {on}");
        assert!(done.stdout.starts_with(&want), "{options:?}: {done}");
        assert_eq!(done.stderr, "", "{options:?}");
        assert_eq!(environment.references(), before, "{options:?}");
        assert!(!environment.repository().join("new.txt").exists());
        assert!(!environment.repository().join("left.txt").exists());
        assert_eq!(environment.cofferdam(&["list"]).stdout, "");
        environment.expect_clean();
    }
    assert_eq!(environment.git(&["status", "--porcelain"]), "?? task.md");
    // One that fails is named, and leaves as little.
    environment.write(
        "task.md",
        "!`git commit --allow-empty -qm x; echo why >&2; exit 3`",
    );
    let done = check(&environment, &["task.md", "--run"]).expect_code(1);
    assert!(done.stderr.contains("why"), "{done}");
    assert_eq!(done.stdout, "");
    assert_eq!(environment.references(), before);
    environment.expect_clean();
}

/// What its command leaves when it is killed is nobody's work.
#[test]
fn a_killed_one_leaves_nothing_that_counts() {
    let environment = TestEnvironment::with_repository();
    let shared = environment.temporary().join("shared");
    cofferdam::fsx::private_dir(&shared).unwrap();
    // Whoever is in there is another user of this machine's.
    environment
        .shell(&format!("chmod 0777 {}", shared.display()))
        .expect_code(0);
    let mount = format!("{}:/mnt/shared:rw", shared.display());
    let template = format!("!`{ATTEMPT}; touch /mnt/shared/committed; sleep 600`");
    environment.write("task.md", &template);
    let before = environment.references();
    let options = ["prompt", "check", "task.md", "--run", "--mount", &mount];
    let child = environment
        .command(&options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let began = Instant::now();
    while !shared.join("committed").exists() {
        if child.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_mins(1) {
            child.kill().unwrap();
            panic!("{}", finish(child));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(environment.references(), before);
    environment.expect_clean();
}

// covers: S2-31
#[test]
fn a_script_reads_it_as_json() {
    let environment = TestEnvironment::with_repository();
    environment.write("task.md", "Do {{WHAT}}: !`printf 'a\\033b'`");
    let options = [
        "task.md", "--json", "--head", "--arg", "WHAT=it", "--arg", "X=1",
    ];
    let read = |options: &[&str]| -> Value {
        let done = check(&environment, options).expect_code(0);
        serde_json::from_str(&done.stdout).unwrap()
    };
    let mut want = json!({
        "source_branch": "main",
        "target_branch": "main",
        "unused": ["X"],
        "parts": [
            {"text": "Do it: "},
            {"expression": "printf 'a\\033b'", "line": 1, "column": 14, "output": null},
        ],
    });
    assert_eq!(read(&options), want);
    want["parts"][1]["output"] = "a\u{1b}b".into();
    assert_eq!(read(&[&options[..], &["--run"]].concat()), want);
    // A person sees it safely.
    let shown = check(&environment, &["task.md", "--run", "--arg", "WHAT=it"]).expect_code(0);
    assert_eq!(shown.stdout, "Do it: a\\u{1b}b\n");
    // Where there is nothing to fill in and nothing to run, it is as it is.
    environment.write("plain.md", "plain {{ a.b }}\n");
    let shown = check(&environment, &["plain.md", "--run"]).expect_code(0);
    assert_eq!(shown.stdout, "plain {{ a.b }}\n");
}

/// 5 MB: whatever takes more time than it has parts would not end before the test's patience does.
#[test]
fn a_large_template_is_no_trouble() {
    let environment = TestEnvironment::with_repository();
    let line = "line {{WHAT}} {{ ! ` {{{{WHAT}} {{\n";
    let many = line.repeat(160_000) + &"!`echo {{WHAT}}` {{\n".repeat(1000);
    assert!(many.len() > 5_000_000);
    environment.write("many.md", &many);
    let done = check(&environment, &["many.md", "--arg", "WHAT=it", "--json"]).expect_code(0);
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    let text = told["parts"].as_array().unwrap().last().unwrap();
    assert_eq!(text["text"], " {{\n");
    // Each is missing.
    let keys: Vec<String> = (0..100_000).map(|key| format!("{{{{K{key}}}}}")).collect();
    environment.write("keys.md", &keys.join("\n"));
    let done = check(&environment, &["keys.md"]).expect_code(1);
    assert!(done.stderr.contains(", K99999)"));
}
