//! Sandboxes that live on in a checkout which they share with its user: somebody watches it, or nothing in them runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::living;
use cofferdam::session::{
    Caller, NetworkOptions, RunErrorKind, Session, SessionExec, SessionOptions, WatchError,
    Watcher, watch,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::living::{caller, delete, find, open, sh};
use crate::support::{Env, block_on, provider};

/// By which a process of this test program knows that it is to watch, and for which of Cofferdam's directories.
const HOME: &str = "COFFERDAM_TEST_WATCHES";
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

/// What watches in these tests: this program, as [`as_a_watcher`].
pub(crate) fn watcher(env: &Env) -> Watcher {
    let words = ["--exact", "--nocapture", "living_watch::as_a_watcher"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut watcher = Watcher::new(std::env::current_exe().unwrap());
    watcher.arguments = words.map(Into::into).to_vec();
    let known = [(HOME.into(), env.home.path().into()), ("PATH".into(), path)];
    watcher.environment = BTreeMap::from(known);
    watcher
}

/// No test, but where one starts it for that: the library gives it the sandbox's id as its last argument.
#[test]
fn as_a_watcher() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let id = std::env::args().next_back().unwrap().parse().unwrap();
    let caller = Caller::new(Home::new(PathBuf::from(home)));
    let input = std::io::stdin();
    let starter = std::os::fd::AsFd::as_fd(&input).try_clone_to_owned();
    let starter = starter.unwrap().into();
    let _ = block_on(watch(&caller, id, starter));
}

fn options(env: &Env) -> SessionOptions {
    let sandbox = BindMount::new(provider(), BranchStrategy::Head);
    let mut options = SessionOptions::new(&env.repo, sandbox);
    options.name = Some("one".to_owned());
    options.network = NetworkOptions::None;
    options
}

/// The processes that watch for this sandbox.
fn watchers(session: &Session) -> Vec<Pid> {
    let id = session.id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = numbers.filter(|number| {
        let said = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let mut words = said.split(|byte| *byte == 0);
        words.any(|word| word == b"living_watch::as_a_watcher")
            && said.windows(id.len()).any(|part| part == id.as_bytes())
    });
    ours.filter_map(Pid::from_raw).collect()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn beats(env: &Env) -> bool {
    let length = || {
        env.repo
            .join("beat")
            .metadata()
            .map_or(0, |found| found.len())
    };
    let before = length();
    std::thread::sleep(Duration::from_millis(300));
    length() != before
}

const BEAT: &str = "while :; do printf x >> beat; sleep 0.01; done";
/// A git directory whose settings name a program: any git of the user's that looks there would start it.
const TRAP: &str = "git init -q sub && git -C sub config core.fsmonitor 'touch /tmp/trapped'";

#[test]
fn what_appears_is_moved_out_between_commands() {
    let env = Env::new();
    block_on(async {
        let session = Session::create(&caller(&env), &options(&env))
            .await
            .unwrap();
        assert_eq!(watchers(&session).len(), 1);
        let mut detached = SessionExec::new(["sh", "-c", &format!("sleep 0.5; {TRAP}")]);
        detached.stdin = false;
        session.exec_detached(detached).await.unwrap();
        drop(session);
        // Nobody of ours is connected now but the one that watches.
        let state = env.home.path().join("state");
        let moved = || {
            let mut sandboxes = std::fs::read_dir(&state).unwrap().flatten();
            sandboxes.any(|one| {
                let there = std::fs::read_dir(one.path().join("nested"));
                there.is_ok_and(|mut there| there.next().is_some())
            })
        };
        eventually("nothing was moved out", moved);
        assert!(!env.repo.join("sub/.git").exists());
        // Whoever comes next is told, once.
        let collect = async || {
            let named = find(&env, "one").await.unwrap();
            let done = living::collect(&caller(&env), named, &provider()).await;
            done.unwrap().notes.join("\n")
        };
        let heard = collect().await;
        assert!(heard.contains("sub/.git"), "{heard}");
        assert_eq!(collect().await, "");
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

#[test]
fn nothing_runs_when_nobody_watches() {
    let env = Env::new();
    block_on(async {
        let session = Session::create(&caller(&env), &options(&env))
            .await
            .unwrap();
        let beat = SessionExec::new(["sh", "-c", BEAT]);
        session.exec_detached(beat).await.unwrap();
        eventually("no beat", || beats(&env));
        let [first] = watchers(&session)[..] else {
            panic!("{:?}", watchers(&session));
        };
        kill_process(first, Signal::KILL).unwrap();
        eventually("it goes on when nobody watches", || !beats(&env));
        assert!(!beats(&env));
        // The next command has it watched again, also one that was open all the time.
        assert_eq!(sh(&session, "echo in").await, "in");
        let [second] = watchers(&session)[..] else {
            panic!("{:?}", watchers(&session));
        };
        assert_ne!(first, second);
        eventually("it does not go on when somebody watches", || beats(&env));
        kill_process(second, Signal::KILL).unwrap();
        eventually("it goes on when nobody watches", || !beats(&env));
        drop(open(&env, "one").await.unwrap());
        eventually("it does not go on when somebody watches", || beats(&env));
        delete(&env, "one").await;
        assert_eq!(watchers(&session), []);
    });
    env.assert_no_state();
}

#[test]
fn each_start_has_a_watcher_of_its_own() {
    let env = Env::new();
    block_on(async {
        let session = Session::create(&caller(&env), &options(&env))
            .await
            .unwrap();
        let first = watchers(&session);
        for _ in 0..3 {
            let before = watchers(&session);
            let named = find(&env, "one").await.unwrap();
            living::stop(&caller(&env), &named, &provider())
                .await
                .unwrap();
            let named = find(&env, "one").await.unwrap();
            let again = living::start(&caller(&env), named, &provider())
                .await
                .unwrap();
            // Before anything is asked of it: whoever starts something sees to it by themselves.
            let now = watchers(&session);
            assert!(now.iter().any(|one| !before.contains(one)), "{now:?}");
            assert_eq!(sh(&again, "echo in").await, "in");
            eventually("more than one", || watchers(&session).len() == 1);
            assert_ne!(watchers(&session), first);
        }
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

#[test]
fn without_a_watcher_none_is_made() {
    let env = Env::new();
    let mut caller = caller(&env);
    caller.watcher = None;
    let error = block_on(Session::create(&caller, &options(&env))).unwrap_err();
    assert!(
        matches!(error.kind, RunErrorKind::Unwatched(WatchError::NoWatcher)),
        "{error}"
    );
    env.assert_no_state();
    // One that watches nothing.
    caller.watcher = Some(Watcher::new("/bin/false"));
    let error = block_on(Session::create(&caller, &options(&env))).unwrap_err();
    assert!(error.to_string().contains("ended at once"), "{error}");
    env.assert_no_state();
}
