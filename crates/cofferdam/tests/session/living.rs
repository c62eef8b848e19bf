//! Sandboxes that live on: made, found by others, used, collected from, stopped and started, ended.

use cofferdam::git::land::Landing;
use cofferdam::sandbox::{BranchStrategy, Execution, Exit};
use cofferdam::session::living::{self, Condition, Named};
use cofferdam::session::manage::{self, DeleteOptions};
use cofferdam::session::{Caller, Session, SessionError, SessionExec, SessionOptions};
use tokio::io::AsyncReadExt;

use crate::support::{Env, block_on, native};

fn caller(env: &Env) -> Caller {
    let mut caller = Caller::new(env.home.clone());
    caller.user_home = Some(env.dir.path().join("user"));
    caller
        .environment
        .insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    caller
}

fn branch(name: &str) -> BranchStrategy {
    BranchStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    }
}

fn options(env: &Env, name: &str) -> SessionOptions {
    let sandbox = cofferdam::sandbox::BindMount::new(native(), branch(&format!("b-{name}")));
    let mut options = SessionOptions::new(&env.repo, sandbox);
    options.name = Some(name.to_owned());
    options
}

async fn find(env: &Env, name: &str) -> Result<Named, SessionError> {
    Named::find(&caller(env), &env.repo, name).await
}

async fn open(env: &Env, name: &str) -> Result<Session, SessionError> {
    let named = find(env, name).await?;
    Session::open(&caller(env), named, &native()).await
}

/// What a line of shell prints in the sandbox; it must succeed.
async fn sh(session: &Session, line: &str) -> String {
    let mut program = session
        .exec(SessionExec::new(["sh", "-c", line]))
        .await
        .unwrap();
    let (status, out, err) = finish(program.as_mut()).await;
    assert_eq!(status, Exit::Code(0), "{line}: {out}{err}");
    out.trim_end().to_owned()
}

async fn finish(program: &mut dyn Execution) -> (Exit, String, String) {
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

const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";

async fn delete(env: &Env, name: &str) {
    let named = find(env, name).await.unwrap();
    living::end(&caller(env), &named, &native()).await.unwrap();
    let target = crate::support::target(env, &name).0;
    manage::delete(
        &target,
        DeleteOptions {
            force: true,
            purge: false,
        },
    )
    .await
    .unwrap();
}

#[test]
fn a_whole_life() {
    let env = Env::new();
    block_on(async {
        let session = Session::create(&caller(&env), &options(&env, "one"))
            .await
            .unwrap();
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
        living::stop(&caller(&env), &named, &native())
            .await
            .unwrap();
        living::stop(&caller(&env), &named, &native())
            .await
            .unwrap();
        let stopped = open(&env, "one").await;
        assert!(
            matches!(stopped, Err(SessionError::Stopped { .. })),
            "{stopped:?}"
        );
        let session = living::start(&caller(&env), named, &native())
            .await
            .unwrap();
        assert_eq!(
            sh(&session, "ls ~/mine; git log --format=%s | head -1").await,
            "/home/agent/mine\nw3"
        );
        let again = living::start(&caller(&env), find(&env, "one").await.unwrap(), &native()).await;
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
