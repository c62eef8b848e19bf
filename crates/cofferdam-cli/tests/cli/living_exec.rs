//! Programs in sandboxes that stay: their streams, their signals, their ends.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam_lab::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{check, commit_script, finish};
use crate::lives::Lives;

#[test]
fn exec_is_the_program() {
    let lives = Lives::with("box", &["--network", "none"]);
    let done = lives.exec("box", "echo out; echo err >&2; exit 7");
    check!(lives, done, @"
    code: 7
    --- stdout
    out
    --- stderr
    err
    ");
    lives.exec("box", "kill -KILL $$").expect_code(137);
    lives.exec("box", "kill -USR1 $$").expect_code(138);
    let done = lives
        .cofferdam(&["exec", "box", "--", "no-such-program"])
        .expect_code(127);
    assert!(
        done.stderr.contains("cannot run `no-such-program`"),
        "{done}"
    );
    lives
        .cofferdam(&["exec", "box", "--", "./README.md"])
        .expect_code(126);
    // Variables and the place where it starts.
    let done = lives.cofferdam(&[
        "exec",
        "-e",
        "A=1",
        "-e",
        "TERM",
        "-w",
        "src",
        "box",
        "--",
        "sh",
        "-c",
        "echo $A $TERM $(basename $PWD)",
    ]);
    assert_eq!(done.expect_code(0).stdout, "1 xterm src\n");
    // Bytes come through as they are.
    let line = format!(
        "head -c 3000000 /dev/urandom > in; '{}' exec -i box -- cat < in | cmp in - && rm in",
        env!("CARGO_BIN_EXE_cofferdam")
    );
    lives.shell(&line).expect_code(0);
    let done = lives.cofferdam(&["exec", "box", "ls"]).expect_code(2);
    assert!(
        done.stderr.contains("the program goes after `--`"),
        "{done}"
    );
}

#[test]
fn exec_passes_standard_input_on_only_where_it_is_asked_to() {
    let lives = Lives::with("box", &["--network", "none"]);
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    let line = |options: &str| format!("echo piped | '{cofferdam}' exec {options} box -- wc -c");
    assert_eq!(lives.shell(&line("-i")).expect_code(0).stdout, "6\n");
    assert_eq!(lives.shell(&line("")).expect_code(0).stdout, "0\n");
    // Its end is passed on while the output stays open.
    let mut child = lives
        .command(&[
            "exec",
            "-i",
            "box",
            "--",
            "sh",
            "-c",
            "cat; echo end; exec cat /dev/null",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let mut first = [0; 4];
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"one\n");
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "end\n");
    assert!(child.wait().unwrap().success());
    // A reader that goes away ends the program in its own way.
    let line = format!("'{cofferdam}' exec box -- yes | head -1; echo ${{PIPESTATUS[0]}}");
    assert_eq!(lives.shell(&line).expect_code(0).stdout, "y\n141\n");
    // Programs that stay behind with the streams hold nobody up.
    let began = Instant::now();
    let done = lives.exec("box", "sleep 30 & echo first").expect_code(0);
    assert_eq!(done.stdout, "first\n");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn signals_are_the_programs() {
    let lives = Lives::with("box", &["--network", "none"]);
    let told = |script: &str, signals: &[Signal]| {
        let mut child = lives
            .command(&["exec", "box", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).unwrap();
        for &signal in signals {
            kill_process(Pid::from_child(&child), signal).unwrap();
            // Two at once may arrive as one.
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut rest = String::new();
        let reader = std::thread::spawn(move || {
            stdout.read_to_string(&mut rest).unwrap();
            rest
        });
        let done = finish(child);
        (done.status.code(), reader.join().unwrap())
    };
    let wait = "echo ready; while :; do sleep 0.05; done";
    for (name, signal, number) in [
        ("INT", Signal::INT, 2),
        ("TERM", Signal::TERM, 15),
        ("HUP", Signal::HUP, 1),
        ("QUIT", Signal::QUIT, 3),
        ("USR1", Signal::USR1, 10),
        ("USR2", Signal::USR2, 12),
        ("ALRM", Signal::ALARM, 14),
    ] {
        let caught = format!("trap 'echo {name}; exit 9' {name}; {wait}");
        assert_eq!(
            told(&caught, &[signal]),
            (Some(9), format!("{name}\n")),
            "{name}"
        );
        assert_eq!(told(wait, &[signal]).0, Some(128 + number), "{name}");
    }
    // A program hears of the size of a window that it is not in, and most make nothing of it.
    let caught = format!("trap 'echo WINCH; exit 9' WINCH; {wait}");
    let heard = (Some(9), "WINCH\n".to_owned());
    assert_eq!(told(&caught, &[Signal::WINCH]), heard);
    let ended = told(wait, &[Signal::WINCH, Signal::TERM]).0;
    assert_eq!(ended, Some(143));
    // The second Ctrl-C is not to be ignored.
    let deaf = format!("trap '' INT; {wait}");
    assert_eq!(told(&deaf, &[Signal::INT; 2]).0, Some(137));
}

/// Lets anybody trace it, and lives.
const TRACED: &str = "syscall(157, 0x59616d61, -1, 0, 0, 0); open(F, '>', '/tmp/pid'); print F $$; close F; $| = 1; print qq(ready\\n); sleep";
/// Traces it, holds it in its end (PTRACE_SEIZE with PTRACE_O_TRACEEXIT) and never lets go.
const HOLDS: &str = "open(F, '<', '/tmp/pid'); $pid = <F>; syscall(101, 0x4206, $pid + 0, 0, 0x40) == 0 or die $!; sleep";

/// SIGTERM ends the waiting too: what does not hear it, or is kept from its end, is killed.
#[test]
fn who_is_told_to_end_does_not_go_on_for_ever() {
    let lives = Lives::with("box", &["--network", "none"]);
    let start = |program: &[&str]| {
        let mut child = lives
            .command(&[&["exec", "box", "--"], program].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut [0; 6]).unwrap();
        child
    };
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut told = vec![start(&["sh", "-c", deaf])];
    if cfg!(target_arch = "x86_64") {
        told.push(start(&["perl", "-e", TRACED]));
        lives
            .cofferdam(&["exec", "--detach", "box", "--", "perl", "-e", HOLDS])
            .expect_code(0);
        let wait =
            "until grep -q 'TracerPid:.[1-9]' /proc/$(cat /tmp/pid)/status; do sleep 0.01; done";
        lives.exec("box", wait).expect_code(0);
    } else {
        skip!("a program that is traced: the numbers of system calls are another machine's");
    }
    for child in &told {
        kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    }
    for child in told {
        finish(child).expect_code(137);
    }
}

#[test]
fn programs_that_are_left_running_are_found_again() {
    let lives = Lives::with("box", &["--network", "none"]);
    let none = lives.cofferdam(&["logs", "box"]).expect_code(1);
    assert!(
        none.stderr.contains("cofferdam exec --detach box"),
        "{none}"
    );
    let detach = |script: &str| {
        let done = lives
            .cofferdam(&["exec", "--detach", "box", "--", "sh", "-c", script])
            .expect_code(0);
        done.stdout.trim_end().to_owned()
    };
    let slow = detach("while [ ! -e go ]; do sleep 0.05; done; printf 'last \\033[31m\\n'; exit 4");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(
        status.stdout.contains(&format!("\n  {slow}  sh -c ")),
        "{status}"
    );
    let quick = detach("echo quick");
    assert_ne!(slow, quick);
    // The newest, unless one is named.
    let newest = lives.cofferdam(&["logs", "box", "--follow"]).expect_code(0);
    assert_eq!(newest.stdout, "quick\n");
    let follower = lives
        .command(&["logs", "box", &slow, "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lives.exec("box", "touch go").expect_code(0);
    // In a pipe it comes as it is.
    assert_eq!(finish(follower).expect_code(0).stdout, "last \u{1b}[31m\n");
    let mut shown = lives.on_a_terminal(&["logs", "box", &slow]);
    shown.expect("last \\u{1b}[31m");
    shown.ends_with(0);
    let list = lives.cofferdam(&["logs", "box", "--list"]).expect_code(0);
    assert!(list.stdout.contains(&format!("{slow}  exit 4")), "{list}");
    assert!(list.stdout.contains(&format!("{quick}  exit 0")), "{list}");
    let unknown = lives.cofferdam(&["logs", "box", "9.9"]).expect_code(1);
    assert!(
        unknown.stderr.contains("`cofferdam logs box --list`"),
        "{unknown}"
    );
    // A start later they are still known, and what did not end says so.
    let lost = detach("echo begun; sleep 600");
    let until = Instant::now() + Duration::from_secs(20);
    while lives.cofferdam(&["logs", "box", &lost]).stdout != "begun\n" {
        assert!(Instant::now() < until);
    }
    lives
        .cofferdam(&["stop", "--time", "0", "box"])
        .expect_code(0);
    let done = lives.cofferdam(&["logs", "box", &lost, "--follow"]);
    assert_eq!(done.expect_code(0).stdout, "begun\n");
    let list = lives.cofferdam(&["logs", "box", "--list"]).expect_code(0);
    assert!(
        list.stdout
            .contains(&format!("{lost}  ended with the sandbox")),
        "{list}"
    );
}

#[test]
fn logs_of_a_run() {
    let lives = Lives::new();
    lives
        .run(&["--branch", "b", "--name", "one"], &commit_script(&["a"]))
        .expect_code(0);
    let done = lives.cofferdam(&["logs", "one"]).expect_code(0);
    assert!(done.stdout.contains("--- Run started"), "{done}");
    let by_id = lives.cofferdam(&["logs", "one", "run"]).expect_code(0);
    assert_eq!(by_id.stdout, done.stdout);
    let list = lives.cofferdam(&["logs", "one", "--list"]).expect_code(0);
    let last = list.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("run  -") && last.ends_with("agents"),
        "{list}"
    );
    let unknown = lives.cofferdam(&["logs", "one", "1.1"]).expect_code(1);
    let hint = "`cofferdam logs one --list`";
    assert!(unknown.stderr.contains(hint), "{unknown}");
    lives
        .run(
            &["--branch", "c", "--name", "two", "--no-log"],
            &commit_script(&["c"]),
        )
        .expect_code(0);
    let done = lives.cofferdam(&["logs", "two"]).expect_code(1);
    assert!(done.stderr.contains("no log of the run"), "{done}");
}

/// The next step of each can be taken as it stands there.
#[test]
fn what_cannot_be_started_says_why_and_what_helps() {
    let lives = Lives::with("box", &["--network", "none"]);
    let hint = |arguments: &[&str], code: i32| {
        let done = lives.cofferdam(arguments).expect_code(code);
        let line = done
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("hint: "));
        line.unwrap_or_else(|| panic!("{done}")).to_owned()
    };
    assert_eq!(
        hint(&["exec", "-w", "nowhere", "box", "--", "true"], 127),
        "see which directories there are with `cofferdam exec box -- ls`; a relative one counts from the top of the \
         repository"
    );
    assert_eq!(
        hint(&["exec", "box", "--", "./README.md"], 126),
        "it must be a file that may be executed: `cofferdam exec box -- chmod +x ./README.md`"
    );
    lives.write(
        "prog",
        "#!/bin/sh\necho ran; [ -z \"$1\" ] || git commit -qm new --allow-empty\n",
    );
    let said = hint(&["exec", "box", "--", "./prog"], 127);
    let words = "./prog is not in sandbox box: take the one of this checkout there with `";
    let command = said.strip_prefix(words).unwrap_or_else(|| panic!("{said}"));
    // An agent is started by the same file, which the sandbox alone has or has not.
    let run = ["run", "--in", "box", "--", "./prog", "x"];
    assert_eq!(hint(&run, 1), said);
    let line = format!(
        "cofferdam() {{ '{}' \"$@\"; }}; {}",
        env!("CARGO_BIN_EXE_cofferdam"),
        command.trim_end_matches('`')
    );
    lives.shell(&line).expect_code(0);
    std::fs::remove_file(lives.repository().join("prog")).unwrap();
    let done = lives.cofferdam(&["exec", "box", "--", "./prog"]);
    assert_eq!(done.expect_code(0).stdout, "ran\n");
    let done = lives.cofferdam(&run).expect_code(0);
    assert!(done.stdout.contains("landed: 1 commit"), "{done}");
    // It is there, and what its first line names is not.
    let broken = "printf '#!/no/such\\n' > broken; chmod +x broken";
    lives.exec("box", broken).expect_code(0);
    for arguments in [
        &["exec", "box", "--", "./broken"][..],
        &["run", "--in", "box", "--", "./broken"],
    ] {
        let done = lives.cofferdam(arguments);
        assert!(done.stderr.contains("the program after `#!`"), "{done}");
        assert!(!done.stderr.contains("--copy"), "{done}");
    }
}

#[test]
fn a_program_that_was_installed_later_is_there_after_another_start() {
    let lives = Lives::with("box", &["--network", "none"]);
    let bin = lives.temporary().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/echo", bin.join("claude")).unwrap();
    let usual = lives.shell("printf %s \"$PATH\"").expect_code(0).stdout;
    let path = format!("{}:{usual}", bin.display());
    let done = |arguments: &[&str]| {
        let mut command = lives.command(arguments);
        command.env("PATH", &path).stdout(Stdio::piped());
        finish(command.stderr(Stdio::piped()).spawn().unwrap())
    };
    let missed = done(&["exec", "box", "--", "claude", "here"]).expect_code(127);
    let hint = "`cofferdam stop box && cofferdam start box`";
    assert!(missed.stderr.contains(hint), "{missed}");
    done(&["stop", "box"]).expect_code(0);
    done(&["start", "box"]).expect_code(0);
    let found = done(&["exec", "box", "--", "claude", "here"]);
    assert_eq!(found.expect_code(0).stdout, "here\n");
}
