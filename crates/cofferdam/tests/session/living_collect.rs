//! What collecting from a sandbox that lives on does to the repository: again and again, also where its agent rewrote,
//! branched, broke or fought it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam::git::Git;
use cofferdam::git::land::Landing;
use cofferdam::registry::Mode;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BranchStrategy, CopyStrategy, PrivateCopy, Stopping};
use cofferdam::session::living::{self, Condition, Named};
use cofferdam::session::manage::{self, DiffStyle};
use cofferdam::session::{Caller, Recorded, Session, SessionError, SessionExec, SessionOptions};
use cofferdam_lab::{skip, stuck};

use crate::living::{COMMIT, branch, caller, delete, find, open, options, sh};
use crate::support::{Env, block_on, in_this_mode, provider};

fn with(env: &Env, name: &str, strategy: BranchStrategy) -> SessionOptions {
    let mut options = SessionOptions::new(&env.repo, in_this_mode(provider(), strategy));
    options.name = Some(name.to_owned());
    options.network = cofferdam::session::NetworkOptions::None;
    options
}

/// Whose programs are stopped by the freezer, where there is one, or by signals.
async fn made_by(env: &Env, freezer: bool) -> Session {
    let mut native = NativeOptions::default();
    native.freezer = freezer;
    let native = Native::new(native);
    let mut options = SessionOptions::new(&env.repo, in_this_mode(native, branch("b-one")));
    options.name = Some("one".to_owned());
    options.network = cofferdam::session::NetworkOptions::None;
    let session = Session::create(&caller(env), &options).await.unwrap();
    let stopping = session.sandbox().status().await.unwrap().stopping;
    assert!(freezer || stopping == Stopping::Signals);
    session
}

async fn made(env: &Env) -> Session {
    let mut options = options(env, "one");
    options.network = cofferdam::session::NetworkOptions::None;
    Session::create(&caller(env), &options).await.unwrap()
}

#[test]
fn its_own_branch_follows_what_its_agent_rewrote() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1; {COMMIT} w2")).await;
        session.collect().await.unwrap();
        let before = env.git(&["rev-parse", "b-one"]);
        sh(&session, "echo other > new; git commit -qa --amend -m w2b").await;
        let again = session.collect().await.unwrap();
        assert!(matches!(again.landing, Landing::Landed { .. }), "{again:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1", "w2b"]);
        // What was there has a name, and is told.
        let [kept] = &again.beside[..] else {
            panic!("{again:?}");
        };
        assert_eq!(env.git(&["rev-parse", &kept.at]), before);
        sh(&session, &format!("{COMMIT} w3")).await;
        let next = session.collect().await.unwrap();
        assert!(next.beside.is_empty(), "{next:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1", "w2b", "w3"]);
        // The control: what the user put there is theirs, and stays.
        env.git(&["update-ref", "refs/heads/b-one", &before]);
        sh(&session, "git commit -q --amend -m w3b").await;
        let kept = session.collect().await.unwrap();
        assert!(matches!(kept.landing, Landing::Kept { .. }), "{kept:?}");
        assert_eq!(env.git(&["rev-parse", "b-one"]), before);
        let tip = env.git(&["rev-parse", &format!("refs/cofferdam/{}/tip", session.id())]);
        assert_eq!(env.subjects(&tip), ["first", "w1", "w2b", "w3b"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

/// Whoever changed nothing waits for no look at what they could have changed.
#[test]
fn nobody_looks_where_nothing_was_changed() {
    let env = Env::new();
    block_on(async {
        let strategy = CopyStrategy::Branch {
            branch: "b-one".parse().unwrap(),
            base: None,
        };
        let kind = PrivateCopy::or_layers(provider(), strategy);
        let mut options = SessionOptions::new(&env.repo, kind);
        options.name = Some("one".to_owned());
        options.network = cofferdam::session::NetworkOptions::None;
        let session = Session::create(&caller(&env), &options).await.unwrap();
        let record = async || session.record_changes("test").await.unwrap();
        for word in ["one", "two"] {
            // As large as before, and as old, where that is no matter.
            let old = match session.record().mode {
                Mode::Layer => "touch -d 2020-01-01 new",
                _ => "",
            };
            sh(&session, &format!("echo {word} > new; {old}")).await;
            let (recorded, collection) = record().await;
            assert!(matches!(recorded, Recorded::Commit { .. }), "{recorded:?}");
            assert_eq!(collection.unwrap().commits.len(), 1);
            // What was just written is looked at once more: it could be written again at what is the same time.
            let mut looks = 0;
            loop {
                tokio::time::sleep(Duration::from_millis(60)).await;
                let (recorded, collection) = record().await;
                assert_eq!(recorded, Recorded::Nothing);
                if collection.is_none() {
                    break;
                }
                looks += 1;
                assert!(looks < 50, "{collection:?}");
            }
        }
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

/// A branch that was there before is the user's: rewritten commits are kept beside it.
#[test]
fn a_branch_of_the_users_is_never_rewritten() {
    let env = Env::new();
    env.git(&["branch", "theirs"]);
    let strategy = BranchStrategy::Branch {
        branch: "theirs".parse().unwrap(),
        base: None,
    };
    block_on(async {
        let made = with(&env, "one", strategy);
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        session.collect().await.unwrap();
        sh(&session, "git commit -q --amend -m w1b").await;
        let kept = session.collect().await.unwrap();
        assert!(matches!(kept.landing, Landing::Kept { .. }), "{kept:?}");
        assert_eq!(env.subjects("theirs"), ["first", "w1"]);
        assert!(env.git(&["log", "--all", "--format=%s"]).contains("w1b"));
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

/// A command may die between the branch's move and the record's.
#[test]
fn a_record_that_is_older_than_the_branch_is_no_obstacle() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let record = env.home.sandbox(session.id()).join("record.json");
        let before = std::fs::read(&record).unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        session.collect().await.unwrap();
        std::fs::write(&record, before).unwrap();
        drop(session);
        let session = open(&env, "one").await.unwrap();
        sh(&session, &format!("{COMMIT} w2")).await;
        let next = session.collect().await.unwrap();
        assert!(matches!(next.landing, Landing::Landed { .. }), "{next:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1", "w2"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

#[test]
fn what_could_not_land_lands_the_next_time() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w0")).await;
        session.collect().await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        let elsewhere = env.dir.path().join("elsewhere");
        let at = elsewhere.to_str().unwrap();
        env.git(&["worktree", "add", "-q", "--force", at, "b-one"]);
        let kept = session.collect().await.unwrap();
        assert!(matches!(kept.landing, Landing::Kept { .. }), "{kept:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w0"]);
        env.git(&["worktree", "remove", "--force", at]);
        let landed = session.collect().await.unwrap();
        assert!(
            matches!(landed.landing, Landing::Landed { .. }),
            "{landed:?}"
        );
        assert_eq!(env.subjects("b-one"), ["first", "w0", "w1"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

#[test]
fn what_lies_beside_comes_home_once() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let work = format!(
            "git checkout -qb side; {COMMIT} s1; git checkout -q b-one; {COMMIT} w1; \
             git checkout -q --detach; {COMMIT} t1; git tag v9; git checkout -q b-one; \
             echo x > new; git stash -q; git tag blob $(git hash-object -w README.md)"
        );
        sh(&session, &work).await;
        let first = session.collect().await.unwrap();
        let names: Vec<&str> = (first.beside.iter())
            .flat_map(|one| one.names.iter().map(String::as_str))
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(
            names.contains(&"side") && names.contains(&"refs/tags/v9"),
            "{names:?}"
        );
        let refs = env.refs();
        for _ in 0..2 {
            let again = session.collect().await.unwrap();
            assert!(
                again.beside.is_empty() && again.commits.is_empty(),
                "{again:?}"
            );
            assert_eq!(env.refs(), refs);
        }
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        // What is new beside is told, and what was beside lands where it is merged.
        sh(
            &session,
            &format!("git checkout -q side; {COMMIT} s2; git checkout -q b-one"),
        )
        .await;
        let next = session.collect().await.unwrap();
        assert_eq!(next.beside.len(), 1, "{next:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        sh(
            &session,
            "git reset -q --hard; git merge -q -X ours -m merged side",
        )
        .await;
        let merged = session.collect().await.unwrap();
        assert!(
            matches!(merged.landing, Landing::Landed { .. }),
            "{merged:?}"
        );
        assert!(env.subjects("b-one").contains(&"s2".to_owned()));
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

#[test]
fn the_target_of_a_merge_stays_where_it_is() {
    let env = Env::new();
    block_on(async {
        let made = with(&env, "one", BranchStrategy::MergeToHead);
        let session = Session::create(&caller(&env), &made).await.unwrap();
        for number in [1, 2] {
            sh(&session, &format!("{COMMIT} w{number}")).await;
            let kept = session.collect().await.unwrap();
            assert_eq!(kept.commits.len(), 1, "{kept:?}");
            assert_eq!(env.subjects("main"), ["first"]);
        }
        assert_eq!(env.subjects("cofferdam/one"), ["first", "w1", "w2"]);
        drop(session);
        let named = find(&env, "one").await.unwrap();
        living::end(&caller(&env), &named, &provider())
            .await
            .unwrap();
    });
    crate::support::target(&env, &"one").delete();
    assert_eq!(env.subjects("main"), ["first"]);
    env.assert_no_state();
    env.assert_sound();
}

#[test]
fn what_is_checked_out_follows_each_collecting() {
    let env = Env::new();
    block_on(async {
        let made = with(&env, "one", BranchStrategy::Head);
        let session = Session::create(&caller(&env), &made).await.unwrap();
        for number in [1, 2, 3] {
            sh(&session, &format!("{COMMIT} w{number}")).await;
            let done = session.collect().await.unwrap();
            assert!(matches!(done.landing, Landing::Landed { .. }), "{done:?}");
            assert_eq!(done.commits.len(), 1, "{done:?}");
            assert_eq!(env.git(&["status", "--porcelain"]), "");
        }
        assert_eq!(env.subjects("main"), ["first", "w1", "w2", "w3"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

/// Under `head` what is checked out moves when its user says so, and never because somebody looked.
#[test]
fn what_is_checked_out_stays_for_who_looks() {
    let env = Env::new();
    let look = async || {
        let named = find(&env, "one").await.unwrap();
        living::look(&caller(&env), named, &provider())
            .await
            .unwrap()
    };
    let target = crate::support::target(&env, &"one").0;
    let shown = async || {
        let commits = manage::log(&target).await.unwrap().what;
        let diff = manage::diff(&target, DiffStyle::NameStatus)
            .await
            .unwrap()
            .what;
        let subjects: Vec<_> = commits.into_iter().map(|one| one.subject).collect();
        (subjects.join(" "), diff)
    };
    let checkout = || {
        let commands = [
            &["rev-parse", "HEAD", "main"][..],
            &["ls-files", "--stage"],
            &["status", "--porcelain"],
        ];
        commands.map(|command| env.git(command)).join("\n")
    };
    let with_work = |subjects: &str| (subjects.to_owned(), "A\tnew\n".to_owned());
    block_on(async {
        let made = with(&env, "one", BranchStrategy::Head);
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        // What the agent wrote lies there already.
        let before = checkout();
        assert!(before.contains("?? new"), "{before}");
        for _ in 0..2 {
            let seen = look().await;
            assert!(seen.landing.is_held_back(), "{seen:?}");
            assert_eq!(seen.commits.len(), 1, "{seen:?}");
            assert_eq!(shown().await, with_work("w1"));
            assert_eq!(checkout(), before);
        }
        // One that goes on, and one that does not run.
        sh(&session, &format!("{COMMIT} w2")).await;
        drop(session);
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        look().await;
        assert_eq!(shown().await, with_work("w1 w2"));
        assert_eq!(env.subjects("main"), ["first"]);
        // The control: it moves when it is collected, and what was collected is shown all the same.
        let named = find(&env, "one").await.unwrap();
        let collected = living::collect(&caller(&env), named.clone(), &provider())
            .await
            .unwrap();
        assert!(
            matches!(collected.landing, Landing::Landed { .. }),
            "{collected:?}"
        );
        assert_eq!(env.subjects("main"), ["first", "w1", "w2"]);
        assert_eq!(env.git(&["status", "--porcelain"]), "");
        assert_eq!(shown().await, with_work("w1 w2"));
        assert!(look().await.commits.is_empty());
        // Nor does a merge of what was only looked at go over files that are being written; collected, it is there.
        let session = living::start(&caller(&env), named, &provider())
            .await
            .unwrap();
        sh(&session, &format!("{COMMIT} w3")).await;
        assert!(session.look().await.unwrap().landing.is_held_back());
        let merged = manage::merge(&target, manage::MergeOptions::default(), &|_| {}, None)
            .await
            .unwrap();
        assert!(
            matches!(merged[0].landing, Landing::Kept { .. }),
            "{merged:?}"
        );
        assert_eq!(env.subjects("main"), ["first", "w1", "w2"]);
        session.collect().await.unwrap();
        let merged = manage::merge(&target, manage::MergeOptions::default(), &|_| {}, None)
            .await
            .unwrap();
        assert_eq!(merged[0].landing, Landing::Nothing, "{merged:?}");
        assert_eq!(merged[0].commits.len(), 3, "{merged:?}");
        assert_eq!(env.subjects("main"), ["first", "w1", "w2", "w3"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

/// Each landing is a state that the agent's branch was in, and what it says it had committed before is in it.
#[test]
fn collecting_from_one_that_never_rests() {
    let env = Env::new();
    block_on(async {
        let session = made(&env).await;
        let busy = "n=0; while [ ! -e ~/stop ]; do n=$((n+1)); echo $n > new; git add new; \
                    git commit -qm c$n; echo $n > ~/done; done";
        session
            .exec_detached(SessionExec::new(["sh", "-c", busy]))
            .await
            .unwrap();
        let done = env.home.sandbox(session.id()).join("home/done");
        let number = || -> usize {
            let said = std::fs::read_to_string(&done).unwrap_or_default();
            said.trim().parse().unwrap_or(0)
        };
        let mut landed = 0;
        for round in 0..10 {
            let began = Instant::now();
            // It goes on between two.
            while number() <= landed {
                assert!(began.elapsed() < Duration::from_secs(60), "round {round}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let said = number();
            let collected = session.collect().await.unwrap();
            assert!(!collected.ended, "{collected:?}");
            let subjects = env.subjects("b-one");
            landed = subjects.len() - 1;
            assert!(landed >= said, "round {round}: {landed} of {said}");
            let want: Vec<_> = (1..=landed).map(|n| format!("c{n}")).collect();
            assert_eq!(subjects[1..], want[..], "round {round}");
            assert_eq!(env.git(&["show", "b-one:new"]), landed.to_string());
        }
        sh(&session, "touch ~/stop").await;
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}

/// As when this machine hangs: nobody inside waits longer than for whoever collects, and what was to come home comes the
/// next time.
#[test]
fn a_collecting_that_is_cancelled_lets_its_programs_go_on() {
    let env = Env::new();
    let slow = env.dir.path().join("git");
    let waits = env.dir.path().join("waits");
    block_on(async {
        let session = made(&env).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        let script = format!(
            "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n\
             case \"$*\" in *index-pack*) touch {}; exec sleep 600;; esac\nexec git \"$@\"\n",
            waits.display()
        );
        std::fs::write(&slow, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&slow, mode).unwrap();
        let mut hanging = caller(&env);
        hanging.git = Git::new(&slow);
        let cancel = hanging.cancel.clone();
        let named = Named::find(&hanging, &env.repo, "one").await.unwrap();
        let collecting = Session::open(&hanging, named, &provider()).await.unwrap();
        let stop = async {
            while !waits.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(session.sandbox().status().await.unwrap().frozen);
            cancel.cancel();
        };
        let both = async { tokio::join!(collecting.collect(), stop) };
        let (collected, ()) = tokio::time::timeout(Duration::from_secs(30), both)
            .await
            .expect("it ends when it is cancelled");
        assert!(collected.is_err(), "{collected:?}");
        assert!(!session.sandbox().status().await.unwrap().frozen);
        assert_eq!(sh(&session, "echo on").await, "on");
        let again = session.collect().await.unwrap();
        assert_eq!(again.commits.len(), 1, "{again:?}");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

/// A caller whose git says of a file, each time it is called, whether it grows.
struct Watched {
    caller: Caller,
    said: PathBuf,
}

impl Watched {
    fn new(env: &Env, file: &Path) -> Self {
        let said = env.dir.path().join("said");
        let slow = env.dir.path().join("git");
        let (count, to) = (file.display(), said.display());
        let script = format!(
            "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\na=$(wc -c < {count}); sleep 0.05; b=$(wc -c < {count})\n\
             if [ $a = $b ]; then echo still; else echo runs; fi >> {to}\nexec git \"$@\"\n"
        );
        cofferdam::fsx::write_with_mode(&slow, script.as_bytes(), 0o755).unwrap();
        let mut caller = caller(env);
        caller.git = Git::new(&slow);
        Self { caller, said }
    }

    /// Since it was asked last.
    fn said(&self) -> String {
        let said = std::fs::read_to_string(&self.said).unwrap();
        std::fs::remove_file(&self.said).unwrap();
        said
    }
}

/// Each call of git finds it standing still.
#[test]
fn nothing_runs_while_it_is_collected() {
    for freezer in [true, false] {
        let env = Env::new();
        block_on(async {
            let session = made_by(&env, freezer).await;
            sh(&session, &format!("{COMMIT} w1")).await;
            let writes = "while :; do echo x >> ~/count; done";
            session
                .exec_detached(SessionExec::new(["sh", "-c", writes]))
                .await
                .unwrap();
            let count = env.home.sandbox(session.id()).join("home/count");
            sh(&session, "until test -s ~/count; do sleep 0.01; done").await;
            drop(session);
            let watched = Watched::new(&env, &count);
            let named = Named::find(&watched.caller, &env.repo, "one")
                .await
                .unwrap();
            let session = Session::open(&watched.caller, named, &provider())
                .await
                .unwrap();
            // The control: until then it runs.
            living::uncollected(&watched.caller, session.named()).await;
            assert!(watched.said().contains("runs"));
            let done = session.collect().await.unwrap();
            assert_eq!(done.commits.len(), 1, "{done:?}");
            let during = watched.said();
            assert!(
                during.contains("still") && !during.contains("runs"),
                "{during}"
            );
            drop(session);
            delete(&env, "one").await;
        });
        env.assert_no_state();
        env.assert_sound();
    }
}

/// So many processes that write, and wake each other.
const FIGHTERS: usize = 24;
const FIGHT: &str = "perl -e 'for (2..24) { last unless fork } open my $up, q(>>), q(/home/agent/up); \
                     syswrite $up, q(x); open my $count, q(>>), q(/home/agent/count); \
                     while (1) { syswrite $count, q(x); kill CONT => $_ for 2..200 }'";

/// Whether they come to stand still, or are ended because they do not, nobody knows before.
#[test]
fn one_that_fights_standing_still_loses_nothing_but_its_programs() {
    let env = Env::new();
    block_on(async {
        let session = made_by(&env, false).await;
        sh(&session, &format!("{COMMIT} w1")).await;
        session
            .exec_detached(SessionExec::new(["sh", "-c", FIGHT]))
            .await
            .unwrap();
        let wait =
            format!("until test $(wc -c < ~/up) = {FIGHTERS}; do sleep 0.01; done 2>/dev/null");
        sh(&session, &wait).await;
        let home = env.home.sandbox(session.id()).join("home");
        drop(session);
        let watched = Watched::new(&env, &home.join("count"));
        let named = Named::find(&watched.caller, &env.repo, "one")
            .await
            .unwrap();
        let session = Session::open(&watched.caller, named, &provider())
            .await
            .unwrap();
        // The control: until then they run.
        living::uncollected(&watched.caller, session.named()).await;
        assert!(watched.said().contains("runs"));
        let collected = session.collect().await.unwrap();
        assert_eq!(collected.commits.len(), 1, "{collected:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        // None of them did anything while its work was taken.
        let during = watched.said();
        assert!(
            during.contains("still") && !during.contains("runs"),
            "{during}"
        );
        drop(session);
        let named = find(&env, "one").await.unwrap();
        let now = living::condition(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let want = if collected.ended {
            Condition::Stopped
        } else {
            Condition::Running
        };
        assert_eq!(now, want);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// With a commit that is not home, and programs that nothing stops but their end.
async fn with_what_never_stands_still(env: &Env, freezer: bool) -> Session {
    let session = made_by(env, freezer).await;
    let writes = format!("{COMMIT} w1; touch ~/ready; while :; do echo x >> ~/count; done");
    session
        .exec_detached(SessionExec::new(["sh", "-c", &writes]))
        .await
        .unwrap();
    let program = [stuck::PYTHON, "-c", stuck::PROGRAM, "/home/agent"];
    session
        .exec_detached(SessionExec::new(program))
        .await
        .unwrap();
    sh(&session, "until test -e ~/ready; do sleep 0.01; done").await;
    sh(&session, &format!("cd; {}", stuck::WAIT)).await;
    session
}

/// Whoever cannot be stopped for a moment is ended, and what it did is home.
#[test]
fn one_that_never_stands_still_is_ended_with_its_work_kept() {
    if let Some(why) = stuck::missing() {
        return skip!("{why}");
    }
    for freezer in [true, false] {
        let env = Env::new();
        block_on(async {
            let session = with_what_never_stands_still(&env, freezer).await;
            let home = env.home.sandbox(session.id()).join("home");
            let collected = session.collect().await.unwrap();
            assert!(collected.ended, "{collected:?}");
            assert!(
                matches!(collected.landing, Landing::Landed { .. }),
                "{collected:?}"
            );
            assert_eq!(env.subjects("b-one"), ["first", "w1"]);
            let count = std::fs::metadata(home.join("count")).unwrap().len();
            drop(session);
            let named = find(&env, "one").await.unwrap();
            let now = living::condition(&caller(&env), &named, &provider()).await;
            assert_eq!(now.unwrap(), Condition::Stopped);
            // Its programs are gone, its files are not.
            let session = living::start(&caller(&env), named, &provider()).await;
            let session = session.unwrap();
            assert_eq!(sh(&session, "git log -1 --format=%s").await, "w1");
            assert_eq!(
                std::fs::metadata(home.join("count")).unwrap().len(),
                count,
                "it still writes"
            );
            // The control: where nothing is stuck it stands still.
            let again = session.collect().await.unwrap();
            assert!(!again.ended, "{again:?}");
            drop(session);
            delete(&env, "one").await;
        });
        env.assert_no_state();
        env.assert_sound();
    }
}

/// What is to come of a repository that its agent broke.
#[derive(Debug, Clone, Copy)]
enum Broken {
    /// It cannot come home: it stays where it is, with these words.
    Refused(&'static str),
    /// It is home all the same; what else there may be is told of with these words.
    Home(Option<&'static str>),
}

/// A repository inside that nobody can read keeps nobody from going on, and is named.
#[test]
fn what_its_agent_broke_is_said_and_kept() {
    for (ruin, broken) in [
        (
            "rm -rf .git/refs .git/packed-refs; mkdir .git/refs",
            Broken::Refused("names no commit any more"),
        ),
        (
            "rm -f .git/objects/pack/* ; find .git/objects -type f -delete",
            Broken::Refused("git cannot pack them, exit code 128: fatal: bad object"),
        ),
        (
            "mkfifo .git/refs/heads/pipe; ln -s /etc/passwd .git/refs/heads/link; chmod 0 .git/refs/heads",
            // Rights keep nothing from root.
            if rustix::process::geteuid().is_root() {
                Broken::Home(None)
            } else {
                Broken::Refused("`refs/heads` in the sandbox's git directory cannot be read")
            },
        ),
        (
            "git rev-parse HEAD > /tmp/h; h=$(cat /tmp/h); for n in $(seq 1 20000); do echo \"$h refs/heads/x$n\"; done > .git/packed-refs",
            Broken::Home(Some("too many files or refs")),
        ),
        (
            "echo nonsense > .git/HEAD",
            Broken::Home(Some(
                "`HEAD` in the sandbox's git directory is not what git writes",
            )),
        ),
        (
            "rm -f .git/HEAD; mkdir -p .git/HEAD/x",
            Broken::Home(Some("`HEAD` in the sandbox's git directory cannot be read")),
        ),
    ] {
        let env = Env::new();
        block_on(async {
            let session = made(&env).await;
            sh(&session, &format!("{COMMIT} w1")).await;
            session.collect().await.unwrap();
            let ruin = ruin.replace(".git/", "$G/");
            sh(
                &session,
                &format!("{COMMIT} w2; G=$(git rev-parse --absolute-git-dir); {ruin}"),
            )
            .await;
            let git = env.home.sandbox(session.id()).join("git");
            let done = session.collect().await.unwrap();
            // What had come home stays.
            let home = match (broken, &done.landing) {
                (Broken::Refused(words), Landing::Refused { pack, why }) => {
                    assert!(why.contains(words), "{ruin}: {done:?}");
                    assert_eq!(pack.as_ref(), Some(&git), "{ruin}");
                    &["first", "w1"][..]
                }
                (Broken::Home(words), Landing::Landed { .. }) => {
                    let told = done.beside.iter().map(|one| one.refused.clone().unwrap());
                    let told: Vec<String> = told.collect();
                    let fits = words.map_or(told.is_empty(), |words| told[0].contains(words));
                    assert!(fits && told.len() < 2, "{ruin}: {done:?}");
                    &["first", "w1", "w2"]
                }
                _ => panic!("{ruin}: {done:?}"),
            };
            assert_eq!(env.subjects("b-one"), home, "{ruin}");
            // And it goes on, with its files and its repository as they are.
            assert_eq!(sh(&session, "echo on").await, "on", "{ruin}");
            assert!(git.is_dir(), "{ruin}");
            drop(session);
            let named = find(&env, "one").await.unwrap();
            living::stop(&caller(&env), &named, &provider())
                .await
                .unwrap();
            living::end(&caller(&env), &named, &provider())
                .await
                .unwrap();
        });
        env.assert_sound();
        // What the agent locked goes with the rest.
        let state = env.home.state();
        let opened = std::process::Command::new("chmod")
            .args(["-R", "u+rwx"])
            .arg(state)
            .status();
        assert!(opened.unwrap().success());
    }
}

/// Its user has to start it again, also where its work did not come home.
#[test]
fn that_it_was_ended_is_told_where_collecting_fails() {
    if let Some(why) = stuck::missing() {
        return skip!("{why}");
    }
    let env = Env::new();
    let hangs = crate::living_faults::git_that_hangs(&env);
    block_on(async {
        drop(with_what_never_stands_still(&env, false).await);
        // Without a freezer it is native, whatever the others are in.
        let provider = Native::default;
        let mut hurried = caller(&env);
        hurried.git = Git::new(&hangs);
        hurried.collect_limit = Duration::from_secs(1);
        let named = Named::find(&hurried, &env.repo, "one").await.unwrap();
        let failed = living::collect(&hurried, named, &provider()).await;
        let failed = failed.unwrap_err();
        let ended = matches!(failed, SessionError::Collect { ended: true, .. });
        assert!(ended, "{failed:?}");
        // The control: then it is stopped, and nothing more is ended for it.
        let named = Named::find(&hurried, &env.repo, "one").await.unwrap();
        let failed = living::collect(&hurried, named, &provider()).await;
        let failed = failed.unwrap_err();
        let ended = matches!(failed, SessionError::Collect { ended: false, .. });
        assert!(ended, "{failed:?}");
        let named = find(&env, "one").await.unwrap();
        let home = living::collect(&caller(&env), named, &provider()).await;
        assert_eq!(home.unwrap().commits.len(), 1);
        let named = find(&env, "one").await.unwrap();
        living::end(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let target = crate::support::target(&env, &"one").0;
        manage::delete(&target, manage::DeleteOptions::forced())
            .await
            .unwrap();
    });
    env.assert_no_state();
}

/// A check that does not end holds the commits back as one that fails does, and the sandbox goes on.
#[test]
fn a_check_has_its_time() {
    let env = Env::new();
    env.git(&["branch", "theirs"]);
    let strategy = BranchStrategy::Branch {
        branch: "theirs".parse().unwrap(),
        base: None,
    };
    let says = |text: &str| {
        cofferdam::fsx::private_dir(env.home.path()).unwrap();
        let own = env.home.path().join("config.yaml");
        cofferdam::fsx::write_private(&own, text.as_bytes()).unwrap();
    };
    says("gate: {checks: [{cmd: sleep 600}]}\n");
    block_on(async {
        let mut hurried = caller(&env);
        assert_eq!(hurried.check_limit, Duration::from_hours(1));
        hurried.check_limit = Duration::from_secs(2);
        let made = with(&env, "one", strategy);
        let session = Session::create(&hurried, &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        let began = Instant::now();
        let kept = session.collect().await.unwrap().landing;
        let why = match &kept {
            Landing::Kept { why, .. } => why.clone(),
            other => panic!("{other:?}"),
        };
        assert!(kept.has_failed_checks(), "{why}");
        assert!(why.contains("`sleep 600`") && why.contains("2 s"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(env.subjects("theirs"), ["first"]);
        // The control: what ends in time is home.
        says("gate: {checks: [{cmd: sleep 0}]}\n");
        sh(&session, &format!("{COMMIT} w2")).await;
        let landed = session.collect().await.unwrap().landing;
        assert!(matches!(landed, Landing::Landed { .. }), "{landed:?}");
        assert_eq!(env.subjects("theirs"), ["first", "w1", "w2"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_sound();
}
