//! A person's terminal in a sandbox that stays.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::lives::Lives;

#[test]
fn a_shell_has_the_terminal_and_gives_it_back() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.press("stty size; echo \"$TERM\" \"$COLORTERM\"\r");
    shell.expect("40 100");
    shell.expect("xterm truecolor");
    assert!(shell.is_raw());
    shell.resize((33, 77));
    shell.press("echo si''ze; stty size\r");
    shell.expect("size");
    shell.expect("33 77");
    // Job control, and Ctrl-C is the program's.
    let waits = "trap \"exit 130\" INT; echo fore\"\"ground; while :; do sleep 0.05; done";
    shell.press(&format!("sh -c '{waits}'\r"));
    shell.expect("foreground");
    shell.press("\u{3}");
    shell.press("echo ag''ain $?\r");
    shell.expect("again 130");
    shell.press("exit 5\r");
    shell.ends_with(5);
}

#[test]
fn a_shell_says_where_it_is() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.expect("box:");
    shell.press("cd src; echo \"<$COFFERDAM_SHELL>\"\r");
    shell.expect("<>");
    shell.expect("/src");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(status.stdout.contains("sh -i\n"), "{status}");
    shell.press("exit\r");
    shell.ends_with(0);
    // What the sandbox's own file says counts more.
    lives
        .exec("box", "echo \"PS1='mi''ne> '\" | tee ~/.bashrc > ~/.zshrc")
        .expect_code(0);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.expect("mine> ");
    shell.press("exit\r");
    shell.ends_with(0);
}

#[test]
fn a_program_hears_of_another_size_by_itself() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = "trap 'stty size' WINCH; trap 'echo use''r' USR1; echo re''ady; while :; do sleep 0.05; done";
    let mut program = lives.on_a_terminal(&["exec", "-t", "-i", "box", "--", "sh", "-c", script]);
    program.expect("ready");
    program.resize((21, 81));
    program.expect("21 81");
    // The command's own signals are for its program too.
    let command = Pid::from_child(&program.child);
    kill_process(command, Signal::USR1).unwrap();
    program.expect("user");
    program.resize((22, 82));
    program.expect("22 82");
    kill_process(command, Signal::TERM).unwrap();
    program.ends_with(143);
}

#[test]
fn two_shells_at_once_see_the_same_files() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut one = lives.on_a_terminal(&["shell", "box"]);
    let mut two = lives.on_a_terminal(&["shell", "box"]);
    one.press("echo from-one > shared; echo do''ne\r");
    one.expect("done");
    two.press("cat shared\r");
    two.expect("from-one");
    // The end of one is not the other's.
    one.press("exit\r");
    one.ends_with(0);
    two.press("echo al''ive\r");
    two.expect("alive");
    two.press("exit 3\r");
    two.ends_with(3);
}

#[test]
fn a_terminal_is_sane_after_a_sandbox_that_was_stopped_or_deleted() {
    let lives = Lives::with("box", &["--network", "none"]);
    for (command, said) in [
        (&["stop", "box"][..], "sandbox `box` is stopped"),
        (&["delete", "--force", "box"], "sandbox `box` was deleted"),
    ] {
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let mut shell = lives.on_a_terminal(&["shell", "box"]);
        shell.press("echo re''ady\r");
        shell.expect("ready");
        lives.cofferdam(command).expect_code(0);
        shell.expect(said);
        shell.ends_with(1);
    }
}

#[test]
fn a_paused_sandbox_is_told_and_can_be_left() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.press("echo re''ady\r");
    shell.expect("ready");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    shell.press("echo af''ter\r");
    shell.expect("box is paused; it goes on with: cofferdam resume box");
    lives.cofferdam(&["resume", "box"]).expect_code(0);
    shell.expect("after");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    shell.press("x");
    shell.expect("box is paused");
    shell.press("\u{3}\u{3}\u{3}");
    shell.ends_with(130);
    lives.cofferdam(&["resume", "box"]).expect_code(0);
    lives.exec("box", "true").expect_code(0);
}

/// The terminal itself shows what is typed there: that is no answer of the program.
#[test]
fn a_paused_program_in_front_can_be_left() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.press("echo fore''ground; sleep 100\r");
    shell.expect("foreground");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    shell.press("\u{3}");
    shell.expect("^C");
    shell.press("\u{3}");
    shell.expect("box is paused; it goes on with: cofferdam resume box");
    shell.press("\u{3}");
    shell.ends_with(130);
    assert_eq!(shell.text().matches("box is paused").count(), 1);
    assert_eq!(lives.state("box"), "paused");
}

#[test]
fn a_terminal_that_goes_away_hangs_up_its_programs() {
    let lives = Lives::with("box", &["--network", "none"]);
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.press("sleep 4321 & echo re''ady\r");
    shell.expect("ready");
    let running = "pgrep -f 'sleep [4]321' || echo gone";
    assert_ne!(lives.exec("box", running).stdout, "gone\n");
    kill_process(Pid::from_child(&shell.child), Signal::HUP).unwrap();
    shell.ends_with(lives.hung_up("box"));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while lives.exec("box", running).stdout != "gone\n" {
        assert!(std::time::Instant::now() < until);
    }
}

/// Ticks of the processor that a process has had.
fn ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    let fields = fields.split_ascii_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

/// The window is closed, the command is told so, or is killed: its program hears the hang-up and has a second, whatever
/// it does with that; nothing of ours stays behind or spins, and the sandbox goes on.
#[test]
fn a_program_ends_with_its_terminal_whatever_it_ignores() {
    let lives = Lives::with("box", &["--network", "none"]);
    let status = lives.cofferdam(&["status", "box", "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let init = status["process"].as_u64().unwrap();
    for way in ["closed", "hung up", "killed"] {
        let said = format!("heard-{}", way.replace(' ', "-"));
        // One says good-bye, one floods, and one is deaf.
        let polite = format!(
            "trap 'sleep 0.2; echo so > {said}; exit' HUP; echo re''ady; while :; do sleep 0.05; done # 13571"
        );
        let floods = "echo re''ady; yes 13572";
        let deaf = "trap '' HUP TERM INT; echo re''ady; while :; do sleep 0.05; done # 13573";
        for script in [&*polite, floods, deaf] {
            let mut program = lives.on_a_terminal(&["exec", "-t", "box", "--", "sh", "-c", script]);
            program.expect("ready");
            let command = Pid::from_child(&program.child);
            match way {
                "closed" => program.close(),
                "hung up" => kill_process(command, Signal::HUP).unwrap(),
                _ => kill_process(command, Signal::KILL).unwrap(),
            }
            let began = Instant::now();
            program.ends();
            while lives.exec("box", "pgrep -f '[1]357'").status.success() {
                let since = began.elapsed();
                assert!(since < Duration::from_secs(15), "{way}: {script} goes on");
            }
        }
        let heard = lives.exec("box", &format!("cat {said}")).expect_code(0);
        assert_eq!(heard.stdout, "so\n", "{way}");
    }
    let before = ticks(init);
    std::thread::sleep(Duration::from_secs(1));
    let spent = ticks(init) - before;
    assert!(spent < 10, "it spins: {spent} of 100");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(!status.stdout.contains("programs:"), "{status}");
    assert_eq!(lives.state("box"), "active");
}

#[test]
fn a_terminal_is_needed_where_one_is_asked_for() {
    let lives = Lives::with("box", &["--network", "none"]);
    let done = lives
        .cofferdam(&["exec", "-t", "box", "--", "true"])
        .expect_code(2);
    assert_eq!(
        done.stderr,
        "error: standard input is no terminal that the program could have\n\
         hint: leave out `-t`; what is piped in is passed on with `-i`\n"
    );
    let done = lives.cofferdam(&["shell", "box"]).expect_code(2);
    assert!(
        done.stderr.contains("`cofferdam exec -i box -- sh`"),
        "{done}"
    );
    // Without a name it is one that may not be there yet, and the command makes it.
    let done = lives
        .cofferdam(&["shell", "--branch", "work"])
        .expect_code(2);
    let hint = "`cofferdam start --branch work`, then `cofferdam exec -i --branch work -- sh`";
    assert!(done.stderr.contains(hint), "{done}");
}
