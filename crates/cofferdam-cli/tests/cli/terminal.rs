//! What a person sees: the live view on a terminal, and the same words without one.

use std::time::{Duration, Instant};

use crate::environment::{Done, TestEnvironment, finish};
use crate::lives::OnTerminal;
use crate::runs::Claude;

const SPINNER: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

const HOSTILE: &str =
    r"printf 'red \033[31mRED \302\2332J\n'; echo a > a; git add a; git commit -qm a";

/// Runs the command on a pseudo-terminal of its own; both streams come back as standard output.
#[track_caller]
fn on_a_terminal(environment: &TestEnvironment, options: &str, variables: &str) -> Done {
    says_on_a_terminal(environment, HOSTILE, options, variables)
}

#[track_caller]
fn says_on_a_terminal(
    environment: &TestEnvironment,
    script: &str,
    options: &str,
    variables: &str,
) -> Done {
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    environment.write("agent.sh", script);
    // In the checkout itself it is there.
    let copy = if options.contains("--head") {
        ""
    } else {
        "--copy agent.sh"
    };
    environment.shell(&format!(
        "script --quiet --return --command \
         \"{variables} '{cofferdam}' run {options} {copy} -- sh ./agent.sh\" \
         /dev/null"
    ))
}

// covers: S2-38
#[test]
fn a_terminal_gets_spinner_styles_and_summary() {
    let environment = TestEnvironment::with_repository();
    let done = on_a_terminal(&environment, "", "").expect_code(0);
    assert!(done.stdout.chars().any(|c| SPINNER.contains(c)), "{done}");
    assert!(
        done.stdout.contains("\u{1b}[1mmerge-to-head, mode layer"),
        "{done}"
    );
    assert!(done.stdout.contains("iteration 1 of 1"), "{done}");
    assert!(
        done.stdout.contains("landed:\u{1b}[0m 1 commit on main"),
        "{done}"
    );
    // The agent's own control bytes are words on this terminal, not commands; its colours are dropped.
    assert!(done.stdout.contains("red RED \\u{9b}2J"), "{done}");
    assert!(!done.stdout.contains("\u{1b}[31mRED"), "{done}");
    assert!(!done.stdout.contains('\u{9b}'), "{done}");
}

/// The last ones that were drawn whole of the line that moves, each in the place of the one before.
fn last_drawn(text: &str) -> Vec<&str> {
    let drawn = text.rsplit("\r\u{1b}[2K").skip(1);
    let drawn = drawn.filter(|line| line.starts_with(|c: char| SPINNER.contains(c)));
    drawn.take(5).collect()
}

/// The line of an agent at work has its tokens, its last call, and since when it is at work. It is as wide as the terminal is by now.
#[test]
fn the_line_that_moves_fits_a_terminal_that_changes_its_size() {
    let call = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"cargo test --locked --workspace --all-targets --all-features --no-fail-fast"}}],"usage":{"input_tokens":700,"output_tokens":50}},"session_id":"s"}"#;
    let user = Claude::that_does(&format!("echo '{call}'; sleep 600"));
    let words = ["run", "--agent", "claude-code", "--prompt", "x"];
    let command = user.command(&[&words[..], &["--network", "open"]].concat());
    let mut terminal = OnTerminal::start(&command, (24, 100));
    terminal.expect("iteration 1 of 1 · 750 tokens · Bash cargo test --locked");
    let seconds = |line: &str| {
        let last = line
            .rsplit(' ')
            .next()
            .and_then(|word| word.strip_suffix('s'));
        last.and_then(|number| number.parse::<u32>().ok())
    };
    for columns in [100, 40, 70] {
        terminal.resize((24, columns));
        let fits =
            |line: &&str| line.chars().count() == usize::from(columns) && seconds(line) > Some(0);
        let began = Instant::now();
        loop {
            let text = terminal.text();
            let drawn = last_drawn(&text);
            if drawn.len() == 5 && drawn.iter().all(fits) {
                break;
            }
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{columns}: {drawn:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    terminal.press("\x03");
    terminal.ends_with(130);
}

/// Clipboard, title, a question that the terminal answers as if typed, pasting, a link, a bell, a NUL, and the same with one byte of C1.
const OBEYED: &str = r"printf 'a\033]52;c;eA==\007b\033]0;title\007c\033P$qm\033\\d\033[?2004he\033]8;;http://x\033\\f\000g\302\220h\302\235i\n' | tee /dev/stderr";

#[test]
fn nothing_that_a_terminal_obeys_is_shown_or_logged() {
    let on = [
        ("", ""),
        ("", "NO_COLOR=1"),
        ("", "TERM=dumb"),
        ("--json", ""),
        ("--mode bind", ""),
        ("--mode copy", ""),
    ];
    nothing_is_obeyed(&on, &[&[], &["--json"]]);
}

/// What these runs show and log: `on` a terminal, with options and variables, and `off` it, with options.
#[track_caller]
pub(crate) fn nothing_is_obeyed(on: &[(&str, &str)], off: &[&[&str]]) {
    let environment = TestEnvironment::with_repository();
    let is_inert = |what: &str, text: &str| {
        assert!(text.contains("title"), "{what}: {text:?}");
        for obeyed in [
            "\u{1b}]",
            "\u{1b}P",
            "\u{1b}[?2004",
            "\u{7}",
            "\0",
            "\u{90}",
            "\u{9d}",
        ] {
            assert!(!text.contains(obeyed), "{what}: {obeyed:?} in {text:?}");
        }
    };
    for (options, variables) in on {
        let done = says_on_a_terminal(&environment, OBEYED, options, variables).expect_code(0);
        is_inert(&format!("{options} {variables}"), &done.stdout);
    }
    for options in off {
        let done = environment.run(options, OBEYED).expect_code(0);
        let what = format!("no terminal: {options:?}");
        is_inert(&what, &format!("{}{}", done.stdout, done.stderr));
    }
    let logs = environment.repository().join(".cofferdam/logs");
    let logs = std::fs::read_dir(logs)
        .unwrap()
        .flatten()
        .map(|one| one.path());
    let logs: Vec<_> = logs
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .collect();
    assert!(!logs.is_empty());
    for log in logs {
        is_inert("the log", &std::fs::read_to_string(log).unwrap());
    }
}

#[test]
fn a_terminal_without_colour_is_readable() {
    let environment = TestEnvironment::with_repository();
    let done = on_a_terminal(&environment, "", "NO_COLOR=1").expect_code(0);
    assert!(done.stdout.contains("landed: 1 commit on main"), "{done}");
    assert!(!done.stdout.contains("\u{1b}[1m"), "{done}");
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let environment = TestEnvironment::with_repository();
    let done = on_a_terminal(&environment, "", "TERM=dumb").expect_code(0);
    assert!(!done.stdout.contains('\u{1b}'), "{done}");
    assert!(done.stdout.contains("landed: 1 commit on main"), "{done}");
}

#[test]
fn json_has_no_view_on_a_terminal_either() {
    let environment = TestEnvironment::with_repository();
    let done = on_a_terminal(&environment, "--json", "").expect_code(0);
    assert!(!done.stdout.contains(['\u{1b}', '\u{9b}']), "{done}");
    assert!(
        done.stdout.lines().all(|line| line.starts_with('{')),
        "{done}"
    );
}

#[test]
fn nobody_listening_does_not_stop_a_run() {
    let environment = TestEnvironment::with_repository();
    let mut child = environment
        .command(&["run", "--json", "--", "sh", "-c", HOSTILE])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Both readers go away before the first word.
    drop(child.stdout.take());
    drop(child.stderr.take());
    finish(child).expect_code(0);
    assert_eq!(environment.git(&["log", "-1", "--format=%s"]), "a");
}

/// A line that does not end for long, and very many.
pub(crate) const FLOOD: &str =
    "head -c 30000000 /dev/zero | tr '\\0' x; echo; yes line | head -n 100000";

#[test]
fn a_flood_is_shown_bounded_and_ends() {
    is_bounded(&[], FLOOD);
}

/// What a run with these options shows of an agent that does `script`.
#[track_caller]
pub(crate) fn is_bounded(options: &[&str], script: &str) {
    let environment = TestEnvironment::with_repository();
    let options = [&["--no-log"][..], options].concat();
    let done = environment.run(&options, script).expect_code(0);
    let longest = done
        .stderr
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap();
    assert!(longest < 3000, "{longest}");
    assert!(!done.stderr.contains('\0'));
}

#[test]
fn a_diff_on_a_terminal_has_colours_of_ours_alone() {
    let environment = TestEnvironment::with_repository();
    let script = r"printf 'a\n\033[31mred\n--- a/x\n' > a; git add a; git commit -qm a";
    environment
        .run(&["--branch", "b", "--name", "one"], script)
        .expect_code(0);
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    let line = |variables: &str| {
        format!(
            "script --quiet --return --command \"{variables} '{cofferdam}' diff one\" /dev/null"
        )
    };
    let done = environment.shell(&line("")).expect_code(0);
    assert!(done.stdout.contains("\u{1b}[32m+a\u{1b}[0m"), "{done}");
    // What is in a file is shown as it is, and obeyed by nobody.
    assert!(done.stdout.contains("+\\u{1b}[31mred"), "{done}");
    assert!(done.stdout.contains("\u{1b}[32m+--- a/x"), "{done}");
    let done = environment.shell(&line("NO_COLOR=1")).expect_code(0);
    assert!(!done.stdout.contains('\u{1b}'), "{done}");
    let done = environment.cofferdam(&["diff", "one"]).expect_code(0);
    assert!(!done.stdout.contains('\u{1b}'), "{done}");
}
