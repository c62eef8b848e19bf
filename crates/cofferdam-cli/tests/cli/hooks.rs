//! Hooks of the user's that fail or hang, and what is left of it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{TestEnvironment, finish, finish_within};
use crate::interactive;
use crate::lives::{Lives, OnTerminal};

/// What hooks made is nobody's work: after one that failed, the same command is run again once it is mended.
#[test]
fn a_hook_that_failed_leaves_nothing_in_the_way() {
    let environment = TestEnvironment::with_repository();
    let run = |name: &str, hook: &str| {
        let options = [
            "--branch",
            "p/1",
            "--name",
            name,
            "--on-worktree-ready",
            "touch made",
            "--on-sandbox-ready",
            hook,
        ];
        environment.run(&options, "echo a > a.txt; git add a.txt; git commit -qm a")
    };
    let done = run("one", "touch inside; exit 3").expect_code(1);
    assert!(done.stderr.contains("exit code 3"), "{done}");
    assert!(!done.stdout.contains("uncommitted work"), "{done}");
    let worktrees = environment.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 1, "{worktrees}");
    let list = environment.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stdout.contains("one"), "{list}");
    environment.git(&["fsck", "--strict"]);
    assert_eq!(environment.git(&["branch", "--list", "p/1"]), "");
    // The control: what an agent left stays, and so does what a hook made beside it.
    let done = run("one", "true").expect_code(0);
    assert!(
        done.stdout.contains("uncommitted work of the agent"),
        "{done}"
    );
    let held = run("two", "true").expect_code(1);
    let hint = "or, when nothing of it is needed, `cofferdam delete --force one`";
    assert!(held.stderr.contains(hint), "{held}");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    run("two", "true").expect_code(0);
}

/// Where each is given, and what it is called.
const POINTS: [(&str, &str); 3] = [
    ("--on-worktree-ready", "host.onWorktreeReady"),
    ("--on-host-ready", "host.onSandboxReady"),
    ("--on-sandbox-ready", "sandbox.onSandboxReady"),
];
/// A hook has a minute. A busy machine may need as long to tell it.
const ITS_TIME: Duration = Duration::from_secs(120);

/// A hook that hangs, and what it is known by: nothing else sleeps for so long.
struct Hanging {
    seconds: String,
    command: String,
}

impl Hanging {
    fn new(number: usize) -> Self {
        let seconds = format!("{number}.{}", std::process::id());
        let command = format!("sleep {seconds}");
        Self { seconds, command }
    }

    /// Whether it runs, in a sandbox or outside.
    fn runs(&self) -> bool {
        let words = format!("sleep\0{}\0", self.seconds);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.map(|one| std::fs::read(one.path().join("cmdline")));
        lines.any(|line| line.is_ok_and(|line| line == words.as_bytes()))
    }

    #[track_caller]
    fn begins(&self) {
        wait_until(Duration::from_secs(60), "it begins", || self.runs());
    }

    #[track_caller]
    fn is_gone(&self) {
        wait_until(Duration::from_secs(30), "it is gone", || !self.runs());
    }
}

#[track_caller]
fn wait_until(limit: Duration, what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `cofferdam run` on a branch of its own, with this hook.
fn run_with(environment: &TestEnvironment, option: &str, hook: &Hanging) -> Child {
    let options = ["run", "--branch", "work", "--network", "none", option];
    let agent = [hook.command.as_str(), "--", "sh", "-c", "true"];
    start(environment, &[&options[..], &agent].concat())
}

/// A plan of one task, with this hook.
fn plan_with(environment: &TestEnvironment, option: &str, hook: &Hanging) -> Child {
    environment.write("plan.yaml", "tasks:\n  - name: one\n    prompt: 'true'\n");
    let options = ["run", "--plan", "plan.yaml", "--network", "none", option];
    let agent = [hook.command.as_str(), "--", "sh", "-s"];
    start(environment, &[&options[..], &agent].concat())
}

fn interactive_with(lives: &Lives, option: &str, hook: &Hanging) -> OnTerminal {
    let options = ["--branch", "work", "--network", "none", option];
    let agent = [hook.command.as_str(), "--", "sh", "-c", "true"];
    interactive::at(lives, &[&options[..], &agent].concat())
}

fn start(environment: &TestEnvironment, words: &[&str]) -> Child {
    let mut command = environment.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// As after a command that never was.
#[track_caller]
fn expect_nothing_left(environment: &TestEnvironment, before: &str, hook: &Hanging) {
    hook.is_gone();
    environment.expect_clean();
    assert_eq!(environment.references(), before);
}

/// By every command that has hooks: which one it was is said, and none of it is left.
#[test]
fn one_that_hangs_ends_by_ctrl_c() {
    for (number, (option, point)) in POINTS.into_iter().enumerate() {
        let environment = TestEnvironment::with_repository();
        let before = environment.references();
        let hook = Hanging::new(610 + number);
        let named = format!("hook {point}: {}", hook.command);
        for is_plan in [false, true] {
            let with = if is_plan { plan_with } else { run_with };
            let child = with(&environment, option, &hook);
            hook.begins();
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let done = finish(child).expect_code(130);
            assert!(done.stderr.contains(&named), "{done}");
            assert!(done.stderr.contains("the run was stopped"), "{done}");
            expect_nothing_left(&environment, &before, &hook);
        }
        let lives = Lives::new();
        let before = lives.references();
        let hook = Hanging::new(620 + number);
        let mut terminal = interactive_with(&lives, option, &hook);
        terminal.expect(&format!("hook {point}: {}", hook.command));
        hook.begins();
        terminal.press("\u{3}");
        terminal.expect("the run was stopped");
        terminal.ends_with(130);
        expect_nothing_left(&lives, &before, &hook);
    }
}

/// All at once, as each takes its minute.
#[test]
fn one_that_hangs_ends_by_its_own_time() {
    let [on_worktree, on_host, on_sandbox] = POINTS;
    let [first, second, third] = [630, 631, 632].map(Hanging::new);
    let failed = |point: &str, hook: &Hanging| {
        let command = &hook.command;
        format!("the {point} hook `{command}` failed: it did not finish within 60 s")
    };
    let (alone, planned) = (
        TestEnvironment::with_repository(),
        TestEnvironment::with_repository(),
    );
    let seated = Lives::new();
    let before = [&alone, &planned, &*seated].map(TestEnvironment::references);
    let run = run_with(&alone, on_worktree.0, &first);
    let plan = plan_with(&planned, on_host.0, &second);
    let mut terminal = interactive_with(&seated, on_sandbox.0, &third);

    let run = finish_within(run, ITS_TIME).expect_code(1);
    let said = format!("error: {}", failed(on_worktree.1, &first));
    assert!(run.stderr.contains(&said), "{run}");
    let hint = "no agent was started; correct the command after `--on-worktree-ready`";
    assert!(run.stderr.contains(hint), "{run}");
    let plan = finish_within(plan, ITS_TIME).expect_code(1);
    let said = format!("error: {}", failed(on_host.1, &second));
    assert!(plan.stderr.contains(&said), "{plan}");
    assert!(plan.stderr.contains("`--on-host-ready`"), "{plan}");
    let began = Instant::now();
    while terminal.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < ITS_TIME, "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.expect(&failed(on_sandbox.1, &third));
    terminal.expect("`--on-sandbox-ready`");
    terminal.ends_with(1);

    let [of_alone, of_planned, of_seated] = before;
    expect_nothing_left(&alone, &of_alone, &first);
    expect_nothing_left(&planned, &of_planned, &second);
    expect_nothing_left(&seated, &of_seated, &third);
}
