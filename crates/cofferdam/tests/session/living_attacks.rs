//! What a program in a sandbox that lives on tries against whoever comes back to it.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::sandbox::BindMountProvider;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BindMount, BranchStrategy, Contained, Stopping};
use cofferdam::session::living::{self, Named};
use cofferdam::session::manage::{self, DeleteOptions};
use cofferdam::session::{
    NetworkOptions, PlanError, Session, SessionError, SessionExec, SessionOptions,
};

use crate::living::{branch, caller, delete, find, open, sh};
use crate::support::{Env, block_on, in_this_mode, provider};

async fn in_the_checkout(env: &Env) -> Session {
    made(env, BindMount::new(provider(), BranchStrategy::Head)).await
}

/// For what does not depend on where its files are.
async fn of_this_pass(env: &Env, provider: impl BindMountProvider + 'static) -> Session {
    made(env, in_this_mode(provider, branch("b-one"))).await
}

async fn made(env: &Env, sandbox: impl Into<Contained>) -> Session {
    let mut options = SessionOptions::new(&env.repo, sandbox);
    options.name = Some("one".to_owned());
    options.network = NetworkOptions::None;
    Session::create(&caller(env), &options).await.unwrap()
}

async fn again(env: &Env, session: Session) -> Session {
    drop(session);
    let named = find(env, "one").await.unwrap();
    living::stop(&caller(env), &named, &provider())
        .await
        .unwrap();
    let named = find(env, "one").await.unwrap();
    living::start(&caller(env), named, &provider())
        .await
        .unwrap()
}

/// A directory is moved while it runs: what was mounted over something in it is there again after a start.
#[test]
fn what_was_moved_aside_is_covered_after_a_start() {
    let env = Env::new();
    std::fs::create_dir_all(env.repo.join("a")).unwrap();
    let listener = UnixListener::bind(env.repo.join("a/s")).unwrap();
    let outside = env.dir.path().join("store");
    std::fs::write(&outside, "as it was\n").unwrap();
    std::fs::hard_link(&outside, env.repo.join("a/linked")).unwrap();
    let connect = "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); \
                   print connect($s, sockaddr_un($ARGV[0])) ? qq(in\\n) : qq(no\\n)'";
    block_on(async {
        let session = in_the_checkout(&env).await;
        let attack = |at: &str| {
            format!("{connect} {at}/s; echo bad 2>/dev/null >> {at}/linked && echo written; true")
        };
        assert_eq!(sh(&session, &attack("a")).await, "no");
        sh(&session, "mv a b; mkdir a; touch a/s a/linked").await;
        assert_eq!(sh(&session, &attack("b")).await, "no");
        let session = again(&env, session).await;
        assert_eq!(sh(&session, &attack("b")).await, "no");
        // The control: its own files in their places are its own.
        assert_eq!(
            sh(&session, "echo good >> a/linked; cat a/linked").await,
            "good"
        );
        drop(session);
        delete(&env, "one").await;
    });
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was\n");
    drop(listener);
}

/// What it was made with is looked at again: the user may have moved their own directory into the checkout.
#[test]
fn a_start_shows_no_home_of_ours() {
    let env = Env::new();
    let moved = Home::new(env.repo.join("ours"));
    block_on(async {
        drop(in_the_checkout(&env).await);
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        std::fs::rename(env.home.path(), moved.path()).unwrap();
        let mut there = caller(&env);
        there.home = moved.clone();
        let named = Named::find(&there, &env.repo, "one").await.unwrap();
        let refused = living::start(&there, named, &provider()).await;
        let why = PlanError::ShowsHome {
            directory: env.repo.clone(),
            home: moved.path().to_owned(),
        };
        let refused = refused.unwrap_err().to_string();
        assert_eq!(refused, why.to_string());
        // The control: where it was, it is started.
        // Its gateway may have written down where it was, what it was at.
        let _ = std::fs::remove_dir_all(env.home.path());
        std::fs::rename(moved.path(), env.home.path()).unwrap();
        let named = find(&env, "one").await.unwrap();
        let session = living::start(&caller(&env), named, &provider()).await;
        assert_eq!(sh(&session.unwrap(), "echo on").await, "on");
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// Whoever used the sandbox is gone, and another program inside traces what they ran and never hears of its end.
#[test]
fn what_is_traced_does_not_keep_its_sandbox() {
    if cfg!(not(target_arch = "x86_64")) {
        return cofferdam_lab::skip!("the numbers of system calls are another machine's");
    }
    let env = Env::new();
    block_on(async {
        let session = of_this_pass(&env, provider()).await;
        let user = open(&env, "one").await.unwrap();
        let traced = "syscall(157, 0x59616d61, -1, 0, 0, 0); open(F, '>', '/tmp/traced'); print F $$; close F; sleep";
        let program = user.exec(SessionExec::new(["perl", "-e", traced])).await;
        sh(&session, "until test -s /tmp/traced; do sleep 0.01; done").await;
        let traces = "syscall(101, 0x4206, `cat /tmp/traced` + 0, 0, 0) == 0 or die; sleep";
        let tracer = SessionExec::new(["perl", "-e", traces]);
        session.exec_detached(tracer).await.unwrap();
        let seen =
            "until grep -q 'TracerPid:.[1-9]' /proc/$(cat /tmp/traced)/status; do sleep 0.01; done";
        sh(&session, seen).await;
        let named = find(&env, "one").await.unwrap();
        // The control: as long as its user is there it is in use.
        let refused = living::end_if_safe(&caller(&env), &named, &provider()).await;
        assert!(
            matches!(refused, Err(SessionError::InUse { .. })),
            "{refused:?}"
        );
        drop((program, user));
        let began = Instant::now();
        while let Err(error) = living::end_if_safe(&caller(&env), &named, &provider()).await {
            // That they are gone is not heard at once.
            assert!(matches!(error, SessionError::InUse { .. }), "{error}");
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "it is in use for ever"
            );
        }
        drop(session);
        let ended = crate::support::target(&env, &"one").0;
        let options = DeleteOptions::forced();
        manage::delete(&ended, options).await.unwrap();
    });
    env.assert_no_state();
}

/// Has itself woken several times after whatever stops it, again and again, and writes while it runs.
const WAKES: &str = r#"
import ctypes, signal, time
libc = ctypes.CDLL(None)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
class Time(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("again_s", "again_ns", "first_s", "first_ns")]
event = Event(None, signal.SIGCONT, 0, b"")
timers = [(ctypes.c_int(0), after) for after in (20, 60, 120, 250, 400, 600, 800)]
for timer, _ in timers:
    assert libc.syscall(222, 1, ctypes.byref(event), ctypes.byref(timer)) == 0
signal.signal(signal.SIGCONT, lambda *_: None)
count = open("/home/agent/count", "ab", 0)
while True:
    for timer, after in timers:
        libc.syscall(223, timer, 0, ctypes.byref(Time(0, 0, 0, after * 1000000)), None)
    count.write(b"x")
    time.sleep(0.0002)
"#;

#[test]
fn what_wakes_itself_does_not_go_on_while_it_is_paused() {
    if cfg!(not(target_arch = "x86_64")) {
        return cofferdam_lab::skip!("the numbers of system calls are another machine's");
    }
    for freezer in [true, false] {
        wakes_itself(freezer);
    }
}

/// Where it is stopped by signals it is stopped again, and ended if it goes on. Frozen, it does not run at all.
fn wakes_itself(freezer: bool) {
    let env = Env::new();
    let mut options = NativeOptions::default();
    options.freezer &= freezer;
    block_on(async {
        let session = of_this_pass(&env, Native::new(options)).await;
        let found = sh(&session, "command -v /usr/bin/python3 || true").await;
        if found.is_empty() {
            drop(session);
            delete(&env, "one").await;
            return cofferdam_lab::skip!("there is no python3 inside");
        }
        // Of its own children init would hear.
        let start = ["sh", "-c", "/usr/bin/python3 -c \"$0\"; true", WAKES];
        let program = SessionExec::new(start);
        session.exec_detached(program).await.unwrap();
        let home = env.home.sandbox(session.id()).join("home");
        let count = || std::fs::metadata(home.join("count")).map_or(0, |file| file.len());
        while count() < 100 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The control: it would go on.
        let pid = "pgrep -n python3";
        sh(&session, &format!("kill -STOP $({pid}); sleep 0.2")).await;
        let first = count();
        sh(&session, "sleep 0.2").await;
        assert!(count() > first);
        session.pause().await.unwrap();
        let frozen = session.stopping().await.unwrap() == Stopping::Freezer;
        assert!(freezer || !frozen);
        let paused = count();
        let began = Instant::now();
        let (mut seen, mut since) = (count(), Instant::now());
        while since.elapsed() < Duration::from_secs(3) {
            assert!(began.elapsed() < Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(50)).await;
            if count() != seen {
                (seen, since) = (count(), Instant::now());
            }
        }
        assert!(!frozen || count() == paused, "it ran while frozen");
        session.resume().await.unwrap();
        while frozen && count() == paused {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(session);
        delete(&env, "one").await;
    });
}
