//! Sandboxes that live on: made, found by others, used, collected from, stopped and started, ended.

use std::time::Duration;

use cofferdam::git::land::Landing;
use cofferdam::registry;
use cofferdam::sandbox::{BindMount, BranchStrategy, Execution, Exit};
use cofferdam::session::living::{self, Condition, Named};
use cofferdam::session::manage::{self, DeleteOptions};
use cofferdam::session::{Caller, Hook, Hooks, Session, SessionError, SessionExec, SessionOptions};
use cofferdam::wall::supervisor::Supervisor;
use tokio::io::AsyncReadExt;

use crate::living_watch::watcher;
use crate::support::{Env, block_on, in_this_mode, provider};

pub(crate) fn caller(env: &Env) -> Caller {
    let mut caller = Caller::new(env.home.clone());
    caller.user_home = Some(env.dir.path().join("user"));
    caller
        .environment
        .insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    caller.watcher = Some(watcher(env));
    caller
}

pub(crate) fn branch(name: &str) -> BranchStrategy {
    BranchStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    }
}

pub(crate) fn options(env: &Env, name: &str) -> SessionOptions {
    let sandbox = in_this_mode(provider(), branch(&format!("b-{name}")));
    let mut options = SessionOptions::new(&env.repo, sandbox);
    options.name = Some(name.to_owned());
    options
}

/// In a linked worktree, for what is about one.
pub(crate) fn bound(env: &Env, name: &str) -> SessionOptions {
    let sandbox = BindMount::new(provider(), branch(&format!("b-{name}")));
    let mut options = options(env, name);
    options.sandbox = sandbox.into();
    options
}

/// One called `one`, behind the wall.
async fn made(env: &Env) -> Session {
    let made = Session::create(&caller(env), &options(env, "one")).await;
    made.unwrap()
}

pub(crate) async fn find(env: &Env, name: &str) -> Result<Named, SessionError> {
    Named::find(&caller(env), &env.repo, name).await
}

pub(crate) async fn open(env: &Env, name: &str) -> Result<Session, SessionError> {
    let named = find(env, name).await?;
    Session::open(&caller(env), named, &provider()).await
}

/// What a line of shell prints in the sandbox; it must succeed.
pub(crate) async fn sh(session: &Session, line: &str) -> String {
    let mut program = session
        .exec(SessionExec::new(["sh", "-c", line]))
        .await
        .unwrap();
    let (status, out, err) = finish(program.as_mut()).await;
    assert_eq!(status, Exit::Code(0), "{line}: {out}{err}");
    out.trim_end().to_owned()
}

pub(crate) async fn finish(program: &mut dyn Execution) -> (Exit, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    let (mut stdout, mut stderr) = (
        program.take_stdout().unwrap(),
        program.take_stderr().unwrap(),
    );
    let read = async {
        tokio::try_join!(
            stdout.read_to_string(&mut out),
            stderr.read_to_string(&mut err)
        )
    };
    read.await.unwrap();
    (program.wait().await.unwrap(), out, err)
}

pub(crate) const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";

pub(crate) async fn delete(env: &Env, name: &str) {
    let named = find(env, name).await.unwrap();
    living::end(&caller(env), &named, &provider())
        .await
        .unwrap();
    let target = crate::support::target(env, &name).0;
    manage::delete(&target, DeleteOptions::forced())
        .await
        .unwrap();
}

#[test]
fn closed_as_a_run_ends() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        let waits = session.exec(SessionExec::new(["sleep", "600"])).await;
        let mut waits = waits.unwrap();
        let again = open(&env, "one").await.unwrap();
        let refused = again.close(&provider()).await.unwrap_err();
        assert!(
            matches!(&refused, SessionError::InUse { program, .. } if program == "sleep 600"),
            "{refused}"
        );
        waits.kill(9).await.unwrap();
        waits.wait().await.unwrap();
        // Work that is in no commit keeps it as well.
        sh(&session, "echo draft > draft").await;
        let again = open(&env, "one").await.unwrap();
        again.close(&provider()).await.unwrap_err();
        sh(&session, "rm draft").await;

        let closed = session.close(&provider()).await.unwrap().unwrap();
        assert_eq!(closed.preserved, None);
        assert_eq!(env.git(&["show", "-s", "--format=%s", "b-one"]), "w1");
        let error = open(&env, "one").await.unwrap_err();
        assert!(matches!(error, SessionError::Ended { .. }), "{error}");
        let worktrees = env.git(&["worktree", "list", "--porcelain"]);
        assert_eq!(worktrees.matches("worktree ").count(), 1, "{worktrees}");
    });
}

#[test]
fn a_whole_life() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        assert_eq!(
            sh(&session, "pwd; cat README.md").await,
            "/workspace/repo\nhello"
        );
        sh(&session, &format!("touch ~/mine; {COMMIT} w1")).await;
        // As another command finds it.
        session.detach();
        let session = open(&env, "one").await.unwrap();
        assert_eq!(session.condition().await.unwrap(), Condition::Running);
        let first = session.collect().await.unwrap();
        assert_eq!(first.commits.len(), 1, "{first:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        // Nothing new; then something again.
        let none = session.collect().await.unwrap();
        assert!(none.commits.is_empty(), "{none:?}");
        sh(&session, &format!("{COMMIT} w2; {COMMIT} w3")).await;
        let second = session.collect().await.unwrap();
        let subjects: Vec<_> = second
            .commits
            .iter()
            .map(|one| one.subject.as_str())
            .collect();
        assert_eq!(subjects, ["w2", "w3"], "{second:?}");
        assert!(
            matches!(second.landing, Landing::Landed { .. }),
            "{second:?}"
        );
        assert_eq!(env.subjects("b-one"), ["first", "w1", "w2", "w3"]);
        assert_eq!(env.subjects("main"), ["first"]);

        session.pause().await.unwrap();
        session.pause().await.unwrap();
        assert_eq!(session.condition().await.unwrap(), Condition::Paused);
        let refused = session.exec(SessionExec::new(["true"])).await;
        assert!(
            matches!(refused, Err(SessionError::Paused { .. })),
            "{refused:?}"
        );
        session.collect().await.unwrap();
        assert_eq!(session.condition().await.unwrap(), Condition::Paused);
        session.resume().await.unwrap();
        session.resume().await.unwrap();
        assert_eq!(sh(&session, "echo again").await, "again");
        drop(session);

        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let stopped = open(&env, "one").await;
        assert!(
            matches!(stopped, Err(SessionError::Stopped { .. })),
            "{stopped:?}"
        );
        let session = living::start(&caller(&env), named, &provider())
            .await
            .unwrap();
        assert_eq!(
            sh(&session, "ls ~/mine; git log --format=%s | head -1").await,
            "/home/agent/mine\nw3"
        );
        let again =
            living::start(&caller(&env), find(&env, "one").await.unwrap(), &provider()).await;
        assert!(
            matches!(again, Err(SessionError::Running { .. })),
            "{again:?}"
        );
        sh(&session, &format!("{COMMIT} w4")).await;
        drop(session);
        // What is not home comes home when it ends.
        delete(&env, "one").await;
    });
    assert!(env.refs().contains("w4") || env.git(&["log", "--all", "--format=%s"]).contains("w4"));
    env.assert_no_state();
    env.assert_sound();
}

fn task(script: &str) -> cofferdam::session::Task {
    let mut task = cofferdam::session::Task::new(crate::support::command(&["sh", "-c", script]));
    task.log = cofferdam::session::RunLog::None;
    task
}

#[test]
fn agents_work_in_it_as_often_as_wanted() {
    let env = Env::new();
    block_on(async {
        let made = options(&env, "one");
        let session = Session::create(&caller(&env), &made).await.unwrap();
        for number in [1, 2] {
            // With files of its own it has a branch from its first commit on.
            let begins = if number == 1 { "main" } else { "b-one" };
            let before = env.git(&["rev-parse", begins]);
            let script = format!("touch ~/saw{number}; ls ~; {COMMIT} a{number}");
            let done = session.agent(&task(&script)).await.unwrap();
            let subjects: Vec<_> = done.commits.iter().map(|one| &*one.subject).collect();
            assert_eq!(subjects, [format!("a{number}")], "{done:?}");
            assert!(done.diffstat.contains("new"), "{}", done.diffstat);
            // Each tells of its own work alone.
            assert_eq!(done.base.as_str(), before);
        }
        assert_eq!(sh(&session, "ls ~").await, "saw1\nsaw2");
        // One that fails loses nothing, and the sandbox goes on.
        let failed = session.agent(&task(&format!("{COMMIT} a3; exit 7"))).await;
        let failed = failed.unwrap_err();
        assert_eq!(failed.kept.commits.len(), 1, "{failed:?}");
        assert_eq!(env.subjects("b-one"), ["first", "a1", "a2", "a3"]);
        assert_eq!(sh(&session, "echo on").await, "on");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

/// The process that keeps the sandbox's place.
pub(crate) async fn supervisor(env: &Env, session: &Session) -> u32 {
    let found = Supervisor::connect(&env.home.sandbox(session.id())).await;
    found.unwrap().unwrap().1.process
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn killed_supervisors_are_replaced() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        let first = supervisor(&env, &session).await;
        drop(session);
        kill(first);
        // Whoever comes next: two at once, and one supervisor.
        let (one, two) = tokio::join!(open(&env, "one"), open(&env, "one"));
        let (one, two) = (one.unwrap(), two.unwrap());
        let second = supervisor(&env, &one).await;
        assert_ne!(first, second);
        assert_eq!(supervisor(&env, &two).await, second);
        assert_eq!(sh(&two, "git log --format=%s | head -1").await, "w1");
        assert_eq!(registry::owner(&env.home, one.id()), Some(second));
        drop((one, two));
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

#[test]
fn a_killed_guest_is_a_stopped_sandbox() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1; touch ~/kept")).await;
        let descriptor = session.sandbox().process().unwrap();
        rustix::process::pidfd_send_signal(descriptor, rustix::process::Signal::KILL).unwrap();
        let gone = session.exec(SessionExec::new(["true"])).await;
        assert!(gone.is_err(), "{gone:?}");
        drop(session);
        let named = find(&env, "one").await.unwrap();
        let now = living::condition(&caller(&env), &named, &provider())
            .await
            .unwrap();
        assert_eq!(now, Condition::Stopped);
        // Its work is collected as it lies, and it starts again.
        let home = living::collect(&caller(&env), named, &provider())
            .await
            .unwrap();
        assert_eq!(home.commits.len(), 1, "{home:?}");
        let named = find(&env, "one").await.unwrap();
        let session = living::start(&caller(&env), named, &provider())
            .await
            .unwrap();
        assert_eq!(sh(&session, "ls ~").await, "kept");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// Whatever clears up after dead commands leaves it alone, and so do other runs.
#[test]
fn nobody_takes_it_for_dead() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        kill(supervisor(&env, &session).await);
    });
    let report = crate::support::gc(&env);
    assert!(report.recovered.is_empty(), "{report:?}");
    block_on(async {
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
    });
    let report = crate::support::gc(&env);
    assert!(report.recovered.is_empty(), "{report:?}");
    block_on(async {
        let named = find(&env, "one").await.unwrap();
        let session = living::start(&caller(&env), named, &provider())
            .await
            .unwrap();
        assert_eq!(sh(&session, "git log --format=%s | head -1").await, "w1");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// A hook of the host that fails or hangs leaves nothing, and one inside a sandbox to look at; a name that is taken changes nothing.
#[test]
fn what_cannot_be_made_leaves_nothing() {
    let env = Env::new();
    block_on(async {
        let set: [fn(&mut Hooks, Hook); 3] = [
            |hooks, hook| hooks.host_worktree_ready = vec![hook],
            |hooks, hook| hooks.host_sandbox_ready = vec![hook],
            |hooks, hook| hooks.sandbox_ready = vec![hook],
        ];
        for put in set {
            for (command, said) in [("exit 3", "exit code 3"), ("sleep 1000", "did not finish")] {
                let mut bad = bound(&env, "one");
                let mut hook = Hook::new(command);
                hook.timeout = Duration::from_millis(300);
                put(&mut bad.hooks, hook);
                let inside = !bad.hooks.sandbox_ready.is_empty();
                let failed = Session::create(&caller(&env), &bad).await.unwrap_err();
                assert!(failed.to_string().contains(said), "{failed}");
                assert_eq!(failed.kept.lives_on, inside, "{failed}");
                if inside {
                    delete(&env, "one").await;
                }
                env.assert_no_state();
            }
        }
        let session = made(&env).await;
        let again = Session::create(&caller(&env), &options(&env, "one"))
            .await
            .unwrap_err();
        assert!(again.to_string().contains("already exists"), "{again}");
        assert_eq!(sh(&session, "echo on").await, "on");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

#[test]
fn programs_that_go_on_by_themselves() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let line = "echo begun; while [ ! -e ~/go ]; do sleep 0.02; done; echo done; exit 5";
        let started = session
            .exec_detached(SessionExec::new(["sh", "-c", line]))
            .await
            .unwrap();
        assert_eq!(started.id.start, 1);
        drop(session);
        let session = open(&env, "one").await.unwrap();
        // A copy was made ready by a program of its own.
        let mut listed = session.programs().await.unwrap();
        listed.retain(|one| one.detached);
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert!(listed[0].exit.is_none(), "{listed:?}");
        sh(&session, "touch ~/go").await;
        let end = loop {
            let said = std::fs::read(&started.end).unwrap_or_default();
            if let Some(end) = cofferdam::sandbox::Detached::read_end(&said) {
                break end;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        assert_eq!(end, Exit::Code(5));
        assert_eq!(
            std::fs::read_to_string(&started.output).unwrap(),
            "begun\ndone\n"
        );
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}
