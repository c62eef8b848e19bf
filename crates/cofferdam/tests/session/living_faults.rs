//! Sandboxes that live on, when something goes wrong around them, and very many of them.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use cofferdam::git::Git;
use cofferdam::sandbox::{CopyStrategy, Exit, PrivateCopy};
use cofferdam::session::living::{self, Named};
use cofferdam::session::{NetworkOptions, Session, SessionError, SessionExec};
use cofferdam_lab::sample::Sample;

use crate::living::{COMMIT, bound, caller, delete, find, open, options, sh};
use crate::support::{Env, block_on, provider};

/// A gateway without sandboxes waits 20 s for another one.
const GATEWAY_ENDS: Duration = Duration::from_secs(45);

/// Rules of the user's, as a person edits them.
fn write_rules(env: &Env, names: &[&str]) {
    let mut text = "firewall:\n  allow:\n".to_owned();
    for name in names {
        text.push_str(&format!("    - domain: {name}\n"));
    }
    let path = env.home.path().join("config.yaml");
    cofferdam::fsx::write_private(&path, text.as_bytes()).unwrap();
}

/// Attack 95: what is edited while it is paused counts before the first instruction after that.
#[test]
fn rules_that_were_narrowed_while_it_was_paused_are_in_force_at_once() {
    for narrowed in [true, false] {
        let env = Env::new();
        cofferdam::fsx::private_dir(env.home.path()).unwrap();
        write_rules(&env, &["one.example.com", "two.example.com"]);
        block_on(async {
            let mut options = options(&env, "one");
            options.network = NetworkOptions::default();
            let session = Session::create(&caller(&env), &options).await.unwrap();
            let ask = "gethostbyname(q(two.example.com)) ? qq(found\\n) : qq(refused\\n)";
            let first = sh(&session, &format!("perl -e 'print {ask}'")).await;
            assert_eq!(first, "found");
            // It asks as soon as it sees the file, which comes while it is paused.
            let script = format!(
                "open my $f, q(>), q(/home/agent/ready); close $f; \
                 select(undef, undef, undef, 0.001) while !-e q(/home/agent/go); print {ask}"
            );
            let program = session
                .exec_detached(SessionExec::new(["perl", "-e", &script]))
                .await
                .unwrap();
            let home = env.home.sandbox(session.id()).join("home");
            until("it waits", || home.join("ready").exists()).await;
            session.pause().await.unwrap();
            if narrowed {
                write_rules(&env, &["one.example.com"]);
            }
            sh_on_host(&home.join("go"));
            session.resume().await.unwrap();
            until("it has asked", || program.exit().unwrap().is_some()).await;
            assert_eq!(program.exit().unwrap(), Some(Exit::Code(0)));
            let said = std::fs::read_to_string(&program.output).unwrap();
            assert_eq!(said, if narrowed { "refused\n" } else { "found\n" });
            drop(session);
            delete(&env, "one").await;
        });
        env.assert_no_state();
    }
}

/// Rules that cannot be read let nothing go on that has older ones, and begin nothing with those.
#[test]
fn older_rules_do_not_outlive_a_list_that_cannot_be_read() {
    let env = Env::new();
    cofferdam::fsx::private_dir(env.home.path()).unwrap();
    write_rules(&env, &["two.example.com"]);
    let broken = || {
        let path = env.home.path().join("config.yaml");
        cofferdam::fsx::write_private(&path, b"firewall: [").unwrap();
    };
    let ask = "perl -e 'print gethostbyname(q(two.example.com)) ? q(found) : q(refused)'";
    block_on(async {
        let mut options = options(&env, "one");
        options.network = NetworkOptions::default();
        let session = Session::create(&caller(&env), &options).await.unwrap();
        assert_eq!(sh(&session, ask).await, "found");
        session.pause().await.unwrap();
        broken();
        let refused = session.resume().await;
        assert!(
            matches!(refused, Err(SessionError::Rules { .. })),
            "{refused:?}"
        );
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("`one` stays paused"), "{said}");
        let now = session.condition().await.unwrap();
        assert_eq!(now, living::Condition::Paused);
        write_rules(&env, &["two.example.com"]);
        session.resume().await.unwrap();
        assert_eq!(sh(&session, ask).await, "found");
        drop(session);
        // A start has what can be read then, and so has whoever takes its place over.
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        broken();
        let session = living::start(&caller(&env), named, &provider())
            .await
            .unwrap();
        assert_eq!(sh(&session, ask).await, "refused");
        crate::living::kill(crate::living::supervisor(&env, &session).await);
        drop(session);
        let session = open(&env, "one").await.unwrap();
        assert_eq!(sh(&session, ask).await, "refused");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// Here because somebody else has stopped it meanwhile.
// covers: S4-E9, S4-E12
#[test]
fn what_cannot_be_paused_or_resumed_says_how_it_is() {
    let env = Env::new();
    block_on(async {
        let session = Session::create(&caller(&env), &options(&env, "one")).await;
        let session = session.unwrap();
        session.pause().await.unwrap();
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let refused = session.resume().await.unwrap_err().to_string();
        assert!(
            refused.starts_with("sandbox `one` could not be resumed: ")
                && refused.ends_with("; it is stopped, and none of its programs lives"),
            "{refused}"
        );
        let refused = session.pause().await.unwrap_err().to_string();
        assert!(
            refused.starts_with("sandbox `one` could not be paused: ")
                && refused.ends_with("; it is stopped, and none of its programs lives"),
            "{refused}"
        );
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// It is made again as it was made first.
#[test]
fn what_it_was_made_with_holds_after_a_start() {
    let env = Env::new();
    env.write(".gitignore", "ignored\n");
    env.write("secret", "hidden\n");
    env.commit_all("more");
    env.write("ignored", "but asked for\n");
    // Hidden by what is mounted, and by what never came.
    for mut made in [options(&env, "one"), bound(&env, "two")] {
        let name = made.name.clone().unwrap();
        block_on(async {
            made.network = NetworkOptions::None;
            made.limits.open_files = Some(77);
            made.hide = vec!["secret".into()];
            made.copy = vec!["ignored".into()];
            let session = Session::create(&caller(&env), &made).await.unwrap();
            let look = "ulimit -n; cat ignored; cat secret 2>/dev/null || true";
            let want = "77\nbut asked for";
            assert_eq!(sh(&session, look).await, want);
            drop(session);
            let named = find(&env, &name).await.unwrap();
            living::stop(&caller(&env), &named, &provider())
                .await
                .unwrap();
            let session = living::start(&caller(&env), named, &provider()).await;
            assert_eq!(sh(&session.unwrap(), look).await, want);
            delete(&env, &name).await;
        });
    }
}

fn sh_on_host(path: &std::path::Path) {
    std::fs::write(path, "").unwrap();
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A start that fails leaves it stopped, and takes no program's name from an earlier one.
#[test]
fn a_start_that_fails_is_counted_and_leaves_nothing() {
    let env = Env::new();
    block_on(async {
        let mut made = options(&env, "one");
        made.network = NetworkOptions::None;
        let session = Session::create(&caller(&env), &made).await.unwrap();
        let first = session
            .exec_detached(SessionExec::new(["sh", "-c", "echo first"]))
            .await
            .unwrap();
        until("it ended", || first.exit().unwrap().is_some()).await;
        drop(session);
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let cut_short = caller(&env);
        cut_short.cancel.cancel();
        let provider = provider();
        // Found before it is cancelled.
        let failed = living::start(&cut_short, named, &provider).await;
        assert!(failed.is_err(), "{failed:?}");
        let stopped = open(&env, "one").await;
        assert!(
            matches!(stopped, Err(SessionError::Stopped { .. })),
            "{stopped:?}"
        );
        let named = find(&env, "one").await.unwrap();
        let session = living::start(&caller(&env), named, &provider)
            .await
            .unwrap();
        let again = session
            .exec_detached(SessionExec::new(["sh", "-c", "echo again"]))
            .await
            .unwrap();
        assert_ne!(first.id, again.id);
        assert_eq!(std::fs::read_to_string(&first.output).unwrap(), "first\n");
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// Nothing runs that nobody keeps: where its supervisor cannot be started, neither is it.
#[test]
fn without_a_supervisor_nothing_starts() {
    let env = Env::new();
    block_on(async {
        let mut made = options(&env, "one");
        made.network = NetworkOptions::None;
        drop(Session::create(&caller(&env), &made).await.unwrap());
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        let errors = env.home.sandbox(named.id()).join("supervisor.stderr");
        std::fs::remove_file(&errors).unwrap();
        std::fs::create_dir(&errors).unwrap();
        let failed = living::start(&caller(&env), named.clone(), &provider()).await;
        let Err(SessionError::Supervisor { .. }) = failed else {
            panic!("{failed:?}");
        };
        let now = living::condition(&caller(&env), &named, &provider()).await;
        assert_eq!(now.unwrap(), living::Condition::Stopped);
        std::fs::remove_dir(&errors).unwrap();
        let session = living::start(&caller(&env), named, &provider()).await;
        assert_eq!(sh(&session.unwrap(), "echo on").await, "on");
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// A supervisor that somebody stopped answers nobody: whoever looks hears so, and whoever ends the sandbox ends it.
#[test]
fn a_supervisor_that_answers_nobody_is_ended_with_its_sandbox() {
    let env = Env::new();
    block_on(async {
        let mut made = options(&env, "one");
        made.network = NetworkOptions::default();
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        let pid = crate::living::supervisor(&env, &session).await;
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let silent = session.wall().await.unwrap_err();
        assert!(silent.to_string().contains("did not answer"), "{silent}");
        drop(session);
        let named = find(&env, "one").await.unwrap();
        living::stop(&caller(&env), &named, &provider())
            .await
            .unwrap();
        // Nobody may have asked for its end yet.
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        assert!(status.is_err() || status.is_ok_and(|text| text.contains("(zombie)")));
        let named = find(&env, "one").await.unwrap();
        let session = living::start(&caller(&env), named, &provider()).await;
        let session = session.unwrap();
        session.collect().await.unwrap();
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

/// One that never ends where it reads what a sandbox keeps.
pub(crate) fn git_that_hangs(env: &Env) -> std::path::PathBuf {
    let hangs = env.dir.path().join("git");
    let script = "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n\
                  case \"$*\" in *--verify*refs/cofferdam/*) exec sleep 600;; esac\nexec git \"$@\"\n";
    cofferdam::fsx::write_with_mode(&hangs, script.as_bytes(), 0o755).unwrap();
    hangs
}

/// The caller says how long its programs may stand still for it. Where that is not enough they go on, and nothing is lost.
#[test]
fn collecting_takes_no_longer_than_its_caller_says() {
    let env = Env::new();
    let hangs = git_that_hangs(&env);
    block_on(async {
        let mut made = bound(&env, "one");
        made.network = NetworkOptions::None;
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, &format!("{COMMIT} w1")).await;
        drop(session);
        let mut hurried = caller(&env);
        hurried.git = Git::new(&hangs);
        hurried.collect_limit = Duration::from_secs(1);
        let named = Named::find(&hurried, &env.repo, "one").await.unwrap();
        // Whether it is opened for it or is open already.
        let late = [
            living::collect(&hurried, named.clone(), &provider()).await,
            (Session::open(&hurried, named, &provider()).await.unwrap())
                .collect()
                .await,
        ];
        for late in late {
            let Err(SessionError::Collect { source, .. }) = late else {
                panic!("{late:?}");
            };
            assert_eq!(source.to_string(), "collecting did not finish within 1 s");
        }
        let session = open(&env, "one").await.unwrap();
        assert_eq!(sh(&session, "echo on").await, "on");
        assert_eq!(env.subjects("b-one"), ["first"]);
        // Whoever says nothing waits for longer than that.
        let home = session.collect().await.unwrap();
        assert_eq!(home.commits.len(), 1, "{home:?}");
        assert_eq!(env.subjects("b-one"), ["first", "w1"]);
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
    env.assert_sound();
}

/// One that is opened while it starts: whoever comes first keeps it, and neither loses it.
#[test]
fn opening_while_it_starts() {
    let env = Env::new();
    block_on(async {
        let mut made = options(&env, "one");
        made.network = NetworkOptions::default();
        drop(Session::create(&caller(&env), &made).await.unwrap());
        for round in 0..5 {
            let named = find(&env, "one").await.unwrap();
            living::stop(&caller(&env), &named, &provider())
                .await
                .unwrap();
            let opened = async {
                let began = Instant::now();
                loop {
                    match open(&env, "one").await {
                        Err(SessionError::Stopped { .. }) => {}
                        other => return other,
                    }
                    assert!(began.elapsed() < Duration::from_secs(30), "round {round}");
                    tokio::task::yield_now().await;
                }
            };
            let (caller, provider) = (caller(&env), provider());
            let start = living::start(&caller, named, &provider);
            let (started, opened) = tokio::join!(start, opened);
            let (started, opened) = (started.unwrap(), opened.unwrap());
            assert_eq!(sh(&started, "echo a").await, "a");
            assert_eq!(sh(&opened, "echo b").await, "b");
        }
        delete(&env, "one").await;
    });
    env.assert_no_state();
}

#[test]
fn fifty_at_once() {
    side_by_side(50, &NetworkOptions::None);
}

/// Each has a place of its own at the gateway. As many as without a wall where everything is tried.
#[test]
fn many_at_once_behind_the_wall() {
    let everything = Sample::new("behind the wall").is_everything();
    side_by_side(if everything { 50 } else { 8 }, &NetworkOptions::default());
}

/// Side by side, each used; all end without a trace.
fn side_by_side(many: usize, network: &NetworkOptions) {
    let env = Env::new();
    let names: Vec<String> = (0..many).map(|number| format!("n{number}")).collect();
    let mut ids = Vec::new();
    block_on(async {
        for (number, name) in names.iter().enumerate() {
            let mut made = options(&env, name);
            made.network = network.clone();
            // Every other one with layers, which have the tree below them in common.
            if number % 2 == 1 {
                let branch = format!("b-{name}").parse().unwrap();
                let strategy = CopyStrategy::Branch { branch, base: None };
                made.sandbox = PrivateCopy::layered(provider(), strategy).into();
            }
            let session = Session::create(&caller(&env), &made).await.unwrap();
            ids.push(session.id());
            let mut sleeper = SessionExec::new(["sleep", "600"]);
            sleeper.stdin = false;
            session.exec_detached(sleeper).await.unwrap();
        }
        for directory in ids.iter().map(|id| env.home.sandbox(*id)) {
            // Nobody else gets to what is in it, the ways in among that.
            let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode();
            for place in [&directory, env.home.path(), &env.home.state()] {
                assert_eq!(mode(place) & 0o777, 0o700, "{}", place.display());
            }
            for socket in ["guest.sock", "supervisor.sock"] {
                assert_eq!(mode(&directory.join(socket)) & 0o777, 0o600, "{socket}");
            }
        }
        // The last has not taken anything from the first.
        for name in &names {
            let session = open(&env, name).await.unwrap();
            // Behind Docker's wall it is that of who made the wall.
            let docker = provider().name() == "docker";
            let walled = !matches!(network, NetworkOptions::None);
            let hostname = if docker && walled {
                "cofferdam".to_owned()
            } else {
                format!("cofferdam-repo-{name}")
            };
            assert_eq!(sh(&session, "hostname").await, hostname);
        }
    });
    let place = env
        .dir
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    // The control: this is how they would be found.
    assert!(
        shown_in(&place).len() >= many,
        "{:?}",
        shown_in(&place).len()
    );
    block_on(async {
        for name in &names {
            delete(&env, name).await;
        }
    });
    env.assert_no_state();
    let began = Instant::now();
    while !shown_in(&place).is_empty() {
        assert!(began.elapsed() < GATEWAY_ENDS, "{:?}", shown_in(&place));
        std::thread::sleep(Duration::from_millis(5));
    }
    // Nor does the gateway keep a list of rules for it. The log of its connections is its user's, until `gc`.
    let mut left = walk_files(env.home.path());
    left.retain(|path| std::path::Path::new(path).extension() != Some("jsonl".as_ref()));
    for id in &ids {
        let of_it: Vec<_> = (left.iter())
            .filter(|path| path.contains(&id.to_string()))
            .collect();
        assert!(of_it.is_empty(), "{of_it:?}");
    }
    let groups = walk("/sys/fs/cgroup".as_ref(), 4);
    for id in ids {
        let id = id.to_string();
        assert!(!groups.iter().any(|group| group.contains(&id)), "{id}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&place));
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&place), "{sockets}");
    env.assert_sound();
}

/// Processes that see files of this place: in a sandbox, or keeping one.
fn shown_in(place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let opened = std::fs::read_dir(path.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let keeps = opened
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|to| to.to_string_lossy().contains(place));
        let sees =
            std::fs::read_to_string(path.join("mountinfo")).is_ok_and(|text| text.contains(place));
        if (keeps || sees) && entry.file_name() != std::process::id().to_string().as_str() {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

fn walk_files(directory: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        found.push(path.display().to_string());
        if path.is_dir() {
            found.extend(walk_files(&path));
        }
    }
    found
}

fn walk(directory: &std::path::Path, depth: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.file_name().to_string_lossy().into_owned());
            if depth > 0 {
                found.extend(walk(&entry.path(), depth - 1));
            }
        }
    }
    found
}
