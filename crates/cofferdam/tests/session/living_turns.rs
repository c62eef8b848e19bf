//! Sandboxes that live on, and several who change one: a turn each, one name each, nothing done to what has ended.

use std::time::Duration;

use cofferdam::names::SandboxId;
use cofferdam::registry::{Owned, RegistryError};
use cofferdam::session::living::{self, Condition, Named};
use cofferdam::session::manage::{self, DeleteOptions, ManageError};
use cofferdam::session::{NetworkOptions, Session, SessionError, SessionExec};

use crate::living::{COMMIT, caller, delete, find, open, options, sh};
use crate::support::{Env, block_on, provider};

async fn made(env: &Env) -> Session {
    let mut options = options(env, "one");
    options.network = NetworkOptions::None;
    Session::create(&caller(env), &options).await.unwrap()
}

/// Longer than anything takes that does not wait.
const BUSY: Duration = Duration::from_millis(1500);

/// Who has the turn is waited for; what runs inside is not held up.
#[test]
fn one_command_at_a_time_changes_it() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        let turn = env.home.sandbox(session.id()).join("turn");
        let (caller, provider) = (caller(&env), provider());
        let named = find(&env, "one").await.unwrap();
        for what in ["collect", "stop", "start", "end"] {
            let lock = std::fs::File::create(&turn).unwrap();
            #[expect(clippy::disallowed_methods, reason = "as another process has it")]
            lock.lock().unwrap();
            let changed = async {
                match what {
                    "collect" => drop(session.collect().await.unwrap()),
                    "stop" => living::stop(&caller, &named, &provider).await.unwrap(),
                    "start" => {
                        drop(
                            living::start(&caller, named.clone(), &provider)
                                .await
                                .unwrap(),
                        );
                    }
                    _ => living::end(&caller, &named, &provider).await.unwrap(),
                }
            };
            let mut changed = std::pin::pin!(changed);
            let early = tokio::time::timeout(BUSY, &mut changed).await;
            assert!(early.is_err(), "{what} did not wait");
            drop(lock);
            changed.await;
        }
    });
    crate::support::target(&env, &"one").delete();
    env.assert_no_state();
}

/// Somebody else ended it after this one had found it.
#[test]
fn what_ended_meanwhile_is_left_alone() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        drop(session);
        let (caller, provider) = (caller(&env), provider());
        let found = find(&env, "one").await.unwrap();
        living::end(&caller, &found, &provider).await.unwrap();
        let ended = |done: Result<(), SessionError>| {
            assert!(matches!(done, Err(SessionError::Ended { .. })), "{done:?}");
        };
        let started = living::start(&caller, found.clone(), &provider).await;
        ended(started.map(drop));
        ended(living::stop(&caller, &found, &provider).await);
        ended(
            living::collect(&caller, found.clone(), &provider)
                .await
                .map(drop),
        );
        ended(living::end(&caller, &found, &provider).await);
        // And nothing of it runs.
        let now = living::condition(&caller, &found, &provider).await.unwrap();
        assert_eq!(now, Condition::Stopped);
    });
    // The end of it is that of a run whose command died.
    let report = crate::support::gc(&env);
    assert_eq!(report.recovered.len(), 1, "{report:?}");
    assert_eq!(env.subjects("b-one"), ["first", "w1"]);
    env.assert_sound();
}

/// Its lock is its supervisor's, whom nobody may tell to stop for its sake.
#[test]
fn by_force_it_is_not_taken_for_a_run() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let before = crate::living::supervisor(&env, &session).await;
        let target = crate::support::target(&env, &"one").0;
        let mut force = DeleteOptions::forced();
        force.purge = true;
        let done = manage::delete(&target, force).await;
        assert!(matches!(done, Err(ManageError::Running { .. })), "{done:?}");
        assert_eq!(crate::living::supervisor(&env, &session).await, before);
        assert_eq!(sh(&session, "echo on").await, "on");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// Two that delete it, by force: the second waits for the first, and tells it nothing.
#[test]
fn who_only_clears_up_is_not_told_to_stop() {
    let env = Env::new();
    block_on(async {
        drop(made(&env).await);
        let (caller, provider) = (caller(&env), provider());
        let found = find(&env, "one").await.unwrap();
        living::end(&caller, &found, &provider).await.unwrap();
        let target = crate::support::target(&env, &"one").0;
        let force = DeleteOptions::forced();
        // This process would be told.
        let first = Owned::adopt(&env.home, found.record().clone()).unwrap();
        let second = manage::delete(&target, force);
        let mut second = std::pin::pin!(second);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
        assert!(early.is_err(), "{early:?}");
        drop(first);
        second.await.unwrap();
    });
    env.assert_no_state();
}

/// A name is the repository's, also where two are made at once from two of its checkouts: neither has seen the other's.
#[test]
fn two_checkouts_have_no_name_twice() {
    let env = Env::new();
    let other = env.dir.path().join("other");
    env.git(&["worktree", "add", "-q", other.to_str().unwrap(), "-b", "x"]);
    block_on(async {
        let session = made(&env).await;
        let mut record = session.record().clone();
        record.id = SandboxId::random().unwrap();
        record.repository = other.canonicalize().unwrap();
        let taken = Owned::create(&env.home, record.clone());
        assert!(
            matches!(taken, Err(RegistryError::NameTaken(_))),
            "{taken:?}"
        );
        // The control: another repository has names of its own.
        let strange = Env::new();
        record.repository = strange.repo.canonicalize().unwrap();
        Owned::create(&env.home, record).unwrap().forget().unwrap();
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// A command that was killed between a program's start and the name of its files: the program has them all the same.
#[test]
fn programs_whose_starter_was_killed_keep_their_output() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let line = "echo begun; while [ ! -e ~/go ]; do sleep 0.02; done; echo done; exit 5";
        let script = |line: &str| SessionExec::new(["sh", "-c", line]);
        let quick = session.exec_detached(script("echo quick")).await.unwrap();
        let slow = session.exec_detached(script(line)).await.unwrap();
        let programs = slow.output.parent().unwrap().to_owned();
        let nameless = |start: u32, end: &str| programs.join(format!("new-{start}.{end}"));
        let kill = || {
            std::fs::rename(&slow.output, nameless(1, "log")).unwrap();
            std::fs::rename(&slow.end, nameless(1, "end")).unwrap();
        };
        kill();
        // Whoever looks names it, and whoever starts another one.
        session.programs().await.unwrap();
        assert!(slow.output.exists() && slow.end.exists());
        // Its end had its name already.
        std::fs::rename(&slow.output, nameless(1, "log")).unwrap();
        let third = session.exec_detached(script("echo third")).await.unwrap();
        assert!(slow.output.exists() && third.output.exists());
        sh(&session, "touch ~/go").await;
        while slow.exit().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            std::fs::read_to_string(&slow.output).unwrap(),
            "begun\ndone\n"
        );
        // One that was never started leaves nothing.
        for end in ["log", "end"] {
            std::fs::write(nameless(1, end), "").unwrap();
        }
        session.programs().await.unwrap();
        assert!(!nameless(1, "log").exists() && !nameless(1, "end").exists());
        // What nobody asked for before the sandbox ended is found at its next start.
        kill();
        drop(session);
        let named: Named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let started = living::start(&caller(&env), named.clone(), &provider()).await;
        drop(started.unwrap());
        let left = living::left_running(&caller(&env), &named).unwrap();
        let said: Vec<String> = (left.iter())
            .map(|one| std::fs::read_to_string(&one.output).unwrap())
            .collect();
        assert_eq!(said, ["quick\n", "third\n", "begun\ndone\n"], "{left:?}");
        assert_eq!(quick.id.start, 1);
        let session = open(&env, "one").await.unwrap();
        let again = session.exec_detached(script("echo again")).await.unwrap();
        assert_eq!(again.id.start, 2);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}
