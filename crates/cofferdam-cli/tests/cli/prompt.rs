//! Where a prompt may come from, and what is refused before anything starts.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{Done, TestEnvironment, finish};

/// `cofferdam run OPTIONS -- cat` with `input` piped to it: the agent says its prompt.
#[track_caller]
fn piped(environment: &TestEnvironment, options: &[&str], input: &[u8]) -> Done {
    let arguments = [&["run"], options, &["--", "cat"]].concat();
    let mut child = environment
        .command(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    finish(child)
}

#[track_caller]
fn refused(done: Done, words: &str) {
    let done = done.expect_code(2);
    assert!(
        done.stderr.starts_with(&format!("error: {words}")),
        "{done}"
    );
    assert!(done.stderr.contains("\nhint: "), "{done}");
}

#[test]
fn a_prompt_may_begin_with_a_dash() {
    let environment = TestEnvironment::with_repository();
    for prompt in ["- fix the tests", "--head is a word here", "--"] {
        let done = environment
            .cofferdam(&["run", "--prompt", prompt, "--", "cat"])
            .expect_code(0);
        assert!(done.stderr.contains(&format!("  | {prompt}")), "{done}");
    }
}

#[test]
fn standard_input_is_the_prompt_where_there_is_no_other() {
    let environment = TestEnvironment::with_repository();
    // As it is: nothing in it is a placeholder.
    let done = piped(&environment, &[], b"fix {{THIS}}\n").expect_code(0);
    assert!(done.stderr.contains("  | fix {{THIS}}"), "{done}");
    // A file, and a line of a shell.
    environment.write("task", "from a file\n");
    let line = format!("'{}' run -- cat < task", env!("CARGO_BIN_EXE_cofferdam"));
    let done = environment.shell(&line).expect_code(0);
    assert!(done.stderr.contains("  | from a file"), "{done}");
}

/// Where the work is merged into what is checked out the agent's branch is made for it, under the name that the prompt says.
#[test]
fn a_template_names_the_branch_that_is_made_for_the_run() {
    let merged: &[&str] = &["--merge-to-head"];
    for (options, named) in [
        (merged, None),
        (&["--merge-to-head", "--name", "one"], Some("cofferdam/one")),
        (&["--head"], Some("work/target")),
    ] {
        let environment = TestEnvironment::with_repository();
        environment.git(&["switch", "-qc", "work/target"]);
        environment.write(
            "task.md",
            "{{SOURCE_BRANCH}} for {{TARGET_BRANCH}}: !`git symbolic-ref --short HEAD; echo {{SOURCE_BRANCH}} {{TARGET_BRANCH}}`\n",
        );
        environment.git(&["add", "task.md"]);
        environment.git(&["commit", "-qm", "template"]);
        let options = [options, &["--prompt-file", "task.md"]].concat();
        let script =
            "cat > said; git symbolic-ref --short HEAD > on; git add said on; git commit -qm said";
        environment.run(&options, script).expect_code(0);
        let (said, on) = (environment.read("said"), environment.read("on"));
        let on = on.trim_end();
        assert!(named.is_none_or(|name| name == on), "{options:?}: {on}");
        assert!(named.is_some() || on.starts_with("cofferdam/"), "{on}");
        assert_eq!(
            said.trim_end(),
            format!("{on} for work/target: {on}\n{on} work/target"),
            "{options:?}"
        );
    }
}

/// `git log | cofferdam run --prompt 'explain'`: both count, and what is piped is nobody's template.
#[test]
fn what_is_piped_in_is_added_to_the_prompt_of_an_option() {
    let environment = TestEnvironment::with_repository();
    let said = |options: &[&str], input: &str| {
        let done = piped(&environment, options, input.as_bytes()).expect_code(0);
        let lines = done.stderr.lines().map(ToOwned::to_owned);
        let lines: Vec<String> = lines.filter(|line| line.starts_with("  | ")).collect();
        lines.join("\n")
    };
    let log = "error in {{LINE}} of !`id`\n";
    let want = "  | fix it\n  | error in {{LINE}} of !`id`";
    assert_eq!(said(&["--prompt", "fix it"], log), want);
    environment.write("task.md", "fix {{WHAT}}\n");
    let template = ["--head", "--prompt-file", "task.md", "--arg", "WHAT=it"];
    assert_eq!(said(&template, log), want);
    assert_eq!(said(&["--prompt", "fix it"], ""), "  | fix it");
    // A pipe that nobody writes and nobody closes.
    let child = environment
        .command(&["run", "--prompt", "fix it", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let held = child.stdin.take();
    let done = finish(child).expect_code(0);
    drop(held);
    let note = "note: nothing came on standard input, so nothing is added to the prompt";
    assert!(done.stderr.starts_with(note), "{done}");
    assert!(done.stderr.contains("  | fix it"), "{done}");
}

#[test]
fn a_dash_as_prompt_is_standard_input_as_it_is() {
    let environment = TestEnvironment::with_repository();
    let done = piped(&environment, &["--prompt", "-"], b"fix {{THIS}}\n").expect_code(0);
    assert!(done.stderr.contains("  | fix {{THIS}}"), "{done}");
    let done = piped(&environment, &["--prompt=-"], b" \n");
    refused(done, "standard input holds no prompt");
}

#[test]
fn a_dash_as_prompt_file_is_a_template_on_standard_input() {
    let environment = TestEnvironment::with_repository();
    let options = ["--prompt-file", "-", "--arg", "WHAT=the tests"];
    let done = piped(&environment, &options, b"fix {{WHAT}} on !`echo main`\n").expect_code(0);
    assert!(done.stderr.contains("  | fix the tests on main"), "{done}");
    let done = piped(&environment, &["--prompt-file", "-"], b"fix {{WHAT}}\n").expect_code(1);
    let words = "error: standard input: line 1, column 5: `{{WHAT}}`";
    assert!(done.stderr.starts_with(words), "{done}");
}

#[test]
fn an_agent_that_needs_no_prompt_goes_without() {
    let environment = TestEnvironment::with_repository();
    let done = piped(&environment, &[], b"").expect_code(0);
    assert!(!done.stderr.contains("  | "), "{done}");
    // A pipe that nobody writes and nobody closes, as scripts leave it: the run begins all the same.
    let child = environment
        .command(&["run", "--", "sh", "-c", "echo started"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let held = child.stdin.take();
    let done = finish(child).expect_code(0);
    drop(held);
    assert!(
        done.stderr
            .starts_with("note: nothing came on standard input"),
        "{done}"
    );
    assert!(done.stderr.contains("  | started"), "{done}");
}

#[test]
fn what_is_empty_is_refused() {
    let environment = TestEnvironment::with_repository();
    for prompt in ["", " \n\t"] {
        let done = environment.cofferdam(&["run", "--prompt", prompt, "--", "cat"]);
        refused(done, "`--prompt` is empty");
    }
    refused(
        piped(&environment, &["--prompt-file", "-"], b" \n"),
        "standard input holds no prompt",
    );
    for text in ["", "\n \n", "{{NOTHING}}\n"] {
        environment.write("empty.md", text);
        let mut arguments = vec!["run", "--prompt-file", "empty.md"];
        if text.contains("NOTHING") {
            arguments.extend(["--arg", "NOTHING="]);
        }
        let done = environment
            .cofferdam(&[&arguments[..], &["--", "cat"]].concat())
            .expect_code(1);
        assert!(
            done.stderr
                .contains("empty.md: the prompt is empty\nhint: "),
            "{done}"
        );
    }
    environment.expect_nothing_made();
}

#[test]
fn what_is_no_text_or_no_end_is_refused() {
    let environment = TestEnvironment::with_repository();
    refused(
        piped(&environment, &[], b"fix \xff\n"),
        "the prompt on standard input is not UTF-8 text (at byte 4)",
    );
    let endless = format!("yes | '{}' run -- cat", env!("CARGO_BIN_EXE_cofferdam"));
    refused(
        environment.shell(&endless),
        "the prompt on standard input is larger than 10 MiB",
    );
    environment.expect_nothing_made();
}

/// An agent that needs a prompt waits for it; Ctrl-C ends the wait, and nothing was made.
#[test]
fn a_wait_for_a_prompt_is_over_at_once() {
    let environment = TestEnvironment::with_repository();
    let mut child = environment
        .command(&["run", "--agent", "claude-code"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let held = child.stdin.take();
    let id = i32::try_from(child.id()).unwrap();
    // It sleeps in poll(2): only then is there a wait to end.
    let stat = format!("/proc/{id}/wchan");
    let began = Instant::now();
    while !std::fs::read_to_string(&stat).is_ok_and(|at| at.contains("poll")) {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not wait"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let asked = Instant::now();
    let done = finish(child);
    assert!(asked.elapsed() < Duration::from_secs(5));
    drop(held);
    assert_eq!(done.status.code(), None, "{done}");
    environment.expect_nothing_made();
}

/// Not a byte of it is lost on its way to the agent.
#[test]
fn a_prompt_of_5_mb_is_read_whole() {
    let environment = TestEnvironment::with_repository();
    let line = "0123456789 {{WHAT}} abcdefgh\n";
    environment.write("large.md", &line.repeat(200_000));
    let large = ["--head", "--prompt-file", "large.md", "--arg", "WHAT=it"];
    let arguments = [&["run"], &large[..], &["--", "wc", "-lc"]].concat();
    let done = environment.cofferdam(&arguments).expect_code(0);
    let bytes = 200_000 * (line.len() - "{{WHAT}}".len() + "it".len());
    let counted = done.stderr.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words == ["|", "200000", &bytes.to_string()]
    });
    assert!(counted, "{bytes}: {done}");
}

/// A template, with an agent that says its prompt.
fn expanded(environment: &TestEnvironment, options: &[&str], template: &str) -> Done {
    environment.write("it.md", template);
    let with = ["--head", "--prompt-file", "it.md"];
    let arguments = [&["run"], &with[..], options, &["--", "cat"]].concat();
    environment.cofferdam(&arguments)
}

/// Each waits until eight have begun; none ever sees a ninth.
#[test]
fn so_many_expressions_run_at_once() {
    let environment = TestEnvironment::with_repository();
    let one = "mkdir -p /tmp/run /tmp/all; touch /tmp/run/$$ /tmp/all/$$; \
               while [ $(ls /tmp/all | wc -l) -lt 8 ]; do sleep 0.01; done; \
               echo at-once=$(ls /tmp/run | wc -l)=; rm /tmp/run/$$";
    let template = format!("!`{one}`\n").repeat(40);
    let done = expanded(&environment, &[], &template).expect_code(0);
    let counts = done.stderr.split("at-once=").skip(1);
    let counts: Vec<u32> = counts
        .map(|rest| rest[..rest.find('=').unwrap()].parse().unwrap())
        .collect();
    assert_eq!(counts.len(), 40, "{done}");
    assert!(counts.iter().all(|&count| count <= 8), "{counts:?}");
}

#[test]
fn an_expression_without_end_is_ended() {
    let environment = TestEnvironment::with_repository();
    // What it prints is counted while it is read: `yes` ends when it has printed too much.
    let done = expanded(&environment, &[], "!`yes`\n").expect_code(1);
    assert!(
        done.stderr.contains("it printed more than 1048576 bytes"),
        "{done}"
    );
    // The run's time counts while they run, and the others of its prompt are ended too.
    let template = "!`sleep 600`\n".repeat(20);
    let done = expanded(&environment, &["--max-time", "1s"], &template).expect_code(1);
    assert!(done.stderr.contains("1 s"), "{done}");
}
