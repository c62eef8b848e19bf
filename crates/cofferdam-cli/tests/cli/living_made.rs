//! What sandboxes that stay are made with, and that looking at them moves nothing.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMount, BranchStrategy};
use cofferdam::session::{Caller, NetworkOptions, Session, SessionOptions};
use cofferdam_lab::skip;

use crate::environment::{commit_script, finish};
use crate::lives::Lives;

/// Who looks at layers from the host sees half of the files.
#[test]
fn a_hook_on_the_host_needs_a_directory() {
    let lives = Lives::new();
    for hook in ["--on-worktree-ready", "--on-host-ready"] {
        let done = lives.cofferdam(&["create", "box", "--mode", "layer", hook, "true"]);
        assert_eq!(
            done.expect_code(1).stderr,
            "error: a hook on the host needs the files in a directory, and with layers they are in none\n\
             hint: use `--mode bind`\n"
        );
    }
    assert_eq!(lives.listed("box"), None);
    lives.expect_clean();
}

/// In every mode: it is found under its name, nobody takes that, and it goes again where nothing came onto it.
#[test]
fn its_branch_is_there_from_the_start() {
    for mode in ["bind", "layer", "copy"] {
        for strategy in [&[][..], &["--branch", "feature"], &["--merge-to-head"]] {
            let lives = Lives::new();
            let options = [&["--mode", mode, "--network", "none"], strategy].concat();
            let branch = match strategy {
                ["--branch", name] => name,
                _ => "cofferdam/box",
            };
            let there = format!("refs/heads/{branch}");
            let at = || lives.git(&["for-each-ref", "--format=%(objectname)", &there]);
            for (round, ends) in [["a"].as_slice(), &[]].into_iter().enumerate() {
                let case = format!("{mode} {strategy:?} {round}");
                lives.create("box", &options);
                assert_eq!(at(), lives.git(&["rev-parse", "main"]), "{case}");
                let listed = lives.listed("box").unwrap();
                assert_eq!(listed["ahead"], 0, "{case}: {listed}");
                let taken = lives.shell(&format!("git branch {branch}"));
                assert_ne!(taken.status.code(), Some(0), "{case}");
                if round == 0 {
                    // The control: what comes home moves it.
                    lives.exec("box", &commit_script(ends)).expect_code(0);
                    lives.cofferdam(&["collect", "box"]).expect_code(0);
                    assert_eq!(lives.git(&["log", "-1", "--format=%s", branch]), "a");
                    lives.cofferdam(&["merge", "box"]).expect_code(0);
                }
                lives.cofferdam(&["delete", "box"]).expect_code(0);
                assert_eq!(at(), "", "{case}");
            }
            lives.expect_clean();
        }
    }
}

/// Whoever made a branch of that name meanwhile keeps it.
#[test]
fn a_branch_that_is_made_meanwhile_is_not_taken() {
    let lives = Lives::new();
    let hook = "touch ~/started; until test -e ~/go; do sleep 0.05; done";
    let making = lives
        .command(&["create", "box", "--mode", "layer", "--network", "none"])
        .args(["--on-sandbox-ready", hook])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = lives.home().join(".cofferdam/state");
    let until = Instant::now() + Duration::from_secs(30);
    let home = loop {
        assert!(Instant::now() < until, "it never began");
        let mut all = state.read_dir().into_iter().flatten().flatten();
        if let Some(one) = all.find(|one| one.path().join("home/started").exists()) {
            break one.path().join("home");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    lives.git(&["branch", "cofferdam/box"]);
    cofferdam::fsx::write_private(&home.join("go"), b"").unwrap();
    let done = finish(making).expect_code(1);
    assert!(
        done.stderr
            .contains("branch `cofferdam/box` was made by someone else"),
        "{done}"
    );
    assert_eq!(lives.listed("box"), None);
    let main = lives.git(&["rev-parse", "main"]);
    assert_eq!(lives.git(&["rev-parse", "cofferdam/box"]), main);
    // As the hint says: it works on that one.
    lives.create("box", &["--mode", "layer", "--network", "none"]);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "cofferdam/box"]),
        "a"
    );
}

/// All of it holds after a start too.
#[test]
fn its_programs_have_what_it_was_made_with() {
    for mode in ["bind", "layer", "copy"] {
        let lives = Lives::new();
        lives.write("secret.txt", "hidden\n");
        lives.git(&["add", "secret.txt"]);
        lives.git(&["commit", "--quiet", "--message=second"]);
        lives.git(&["commit", "--quiet", "--message=third", "--allow-empty"]);
        lives.write("draft.txt", "asked for\n");
        let options = [
            "--mode",
            mode,
            "--branch",
            "feature",
            "--base",
            "main~1",
            "--copy",
            "draft.txt",
            "--hide",
            "secret.txt",
            "--env",
            "GIVEN=once",
            "--pids",
            "77",
            "--network",
            "none",
            "--on-sandbox-ready",
            "id -un > by-agent",
        ];
        // Only where there is a directory for it.
        let on_host = [
            "--on-worktree-ready",
            "cat draft.txt > hooked",
            "--on-host-ready",
            "cp hooked by-host",
        ];
        let hooks = if mode == "layer" { &[][..] } else { &on_host };
        lives.create("box", &[&options, hooks].concat());
        // One process is the sandbox's own. The hooks of both places run at once.
        let look = "git branch --show-current; git log -1 --format=%s; cat draft.txt; cat secret.txt 2>/dev/null; \
                    echo $GIVEN; bash -c 'ulimit -Hu'; cat by-host by-agent 2>/dev/null; true";
        let hooked = if mode == "layer" { "" } else { "asked for\n" };
        let want = format!("feature\nsecond\nasked for\nonce\n78\n{hooked}agent\n");
        let done = lives.exec("box", look).expect_code(0);
        assert_eq!(done.stdout, want, "{mode}");
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let done = lives.exec("box", look).expect_code(0);
        assert_eq!(done.stdout, want, "{mode}, started again");
    }
}

/// What it may take of the machine is in force inside, after a start too.
#[test]
fn it_takes_no_more_of_the_machine_than_it_was_given() {
    let limits = ["--memory", "64m", "--cpus", "0.05"];
    if !rustix::process::geteuid().is_root() {
        let lives = Lives::new();
        let done = lives.cofferdam(&[&["create", "box"], &limits[..]].concat());
        if done.status.code() == Some(1) {
            // Nothing is made that would take more.
            assert!(done.stderr.starts_with("error: "), "{done}");
            assert_eq!(lives.listed("box"), None);
            lives.expect_clean();
            return skip!(
                "limits that hold, as an ordinary user: {}",
                done.stderr.trim_end()
            );
        }
    }
    let lives = Lives::with("box", &[&["--network", "none"], &limits[..]].concat());
    let fill = |mib: u32| {
        let script = format!("$x = qq(x) x ({mib} << 20); print length $x");
        lives.cofferdam(&["exec", "box", "--", "perl", "-e", &script])
    };
    // So much of a processor takes a twentieth of one 4 s, and nothing makes it less than that.
    let busy = "use Time::HiRes q(time); $s = time; 1 while (times)[0] + (times)[1] < 0.2; print time - $s";
    for start in ["made", "started"] {
        assert_eq!(fill(8).expect_code(0).stdout, (8u32 << 20).to_string());
        let done = fill(200);
        assert_eq!(done.status.code(), Some(137), "{start}: {done}");
        // Whose limit it was is told there, and by who looks later.
        let told = "the kernel killed a process of the sandbox, because its memory was used up";
        assert!(done.stderr.contains(told), "{start}: {done}");
        let status = lives.cofferdam(&["status", "box"]).expect_code(0);
        assert!(status.stdout.contains(told), "{start}: {status}");
        let took = lives.cofferdam(&["exec", "box", "--", "perl", "-e", busy]);
        let took: f64 = took.expect_code(0).stdout.parse().unwrap();
        assert!(took > 2.0, "{start}: 0.2 s of work in {took} s");
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        lives.cofferdam(&["start", "box"]).expect_code(0);
    }
}

/// Who asks how it is, or lets it rest, brings nothing home. Who looks at its work moves what is its own.
#[test]
fn looking_moves_nothing_but_its_own() {
    for strategy in [&[][..], &["--merge-to-head"]] {
        let lives = Lives::with("box", &[&["--network", "none"], strategy].concat());
        lives.exec("box", &commit_script(&["a"])).expect_code(0);
        let before = lives.references();
        for command in [
            &["list"][..],
            &["status", "box"],
            &["logs", "--list", "box"],
            &["pause", "box"],
            &["list", "--json"],
            &["resume", "box"],
            &["stop", "box"],
            &["status", "box", "--json"],
            &["start", "box"],
            &["gc"],
        ] {
            lives.cofferdam(command).expect_code(0);
            assert_eq!(lives.references(), before, "{command:?}");
        }
        let (mut before, mut moved) = (before, 0);
        for command in ["diff", "log", "collect"] {
            lives.cofferdam(&[command, "box"]).expect_code(0);
            let after = lives.references();
            let new = after.lines().filter(|line| !before.contains(line));
            for line in new {
                let (_, name) = line.split_once('\t').unwrap();
                let own = name == "refs/heads/cofferdam/box" || name.starts_with("refs/cofferdam/");
                assert!(own, "{command}: {line}");
                moved += 1;
            }
            before = after;
            lives
                .exec("box", "git commit -qm more --allow-empty")
                .expect_code(0);
        }
        assert!(moved >= 3, "{moved}");
        assert_eq!(lives.git(&["status", "--porcelain"]), "");
    }
}

/// Nor does it move what is checked out where the sandbox works there.
#[test]
fn looking_moves_no_checkout() {
    let lives = Lives::new();
    let mut options = SessionOptions::new(
        lives.repository(),
        BindMount::new(Native::default(), BranchStrategy::Head),
    );
    options.name = Some("box".to_owned());
    options.network = NetworkOptions::None;
    let mut caller = Caller::new(Home::new(lives.home().join(".cofferdam")));
    caller.watcher = Some(lives.watcher());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { Session::create(&caller, &options).await.unwrap().detach() });
    let tip = || lives.git(&["log", "-1", "--format=%s", "main"]);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    for command in [
        &["status", "box"][..],
        &["log", "box"],
        &["diff", "--name-status", "box"],
        &["diff", "--uncommitted", "box"],
        &["apply", "box"],
        &["gc"],
        &["list"],
    ] {
        let done = lives.cofferdam(command);
        assert_eq!(tip(), "start", "{command:?}: {done}");
        if let ["log" | "diff", ..] = command {
            let done = done.expect_code(0);
            let is_shown = done.stdout.contains(" a\n") || done.stdout == "A\ta.txt\n";
            assert_eq!(
                is_shown,
                command[1] != "--uncommitted",
                "{command:?}: {done}"
            );
            assert!(
                done.stderr.contains("`collect` moves what is checked out"),
                "{done}"
            );
        }
    }
    // The control: both of these move it.
    for (command, name) in [("collect", "a"), ("merge", "b")] {
        if name != "a" {
            lives.exec("box", &commit_script(&[name])).expect_code(0);
        }
        lives.cofferdam(&[command, "box"]).expect_code(0);
        assert_eq!(tip(), name, "{command}");
        assert_eq!(lives.git(&["status", "--porcelain"]), "");
    }
}

/// Whoever works in it is not left to wonder.
#[test]
fn a_long_standstill_is_told() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    let slow = lives.temporary().join("slow");
    std::fs::create_dir(&slow).unwrap();
    let script = "#!/bin/sh\nPATH=${PATH#*:}\ncase \"$*\" in *index-pack*) sleep 1.1;; esac\nexec git \"$@\"\n";
    cofferdam::fsx::write_with_mode(&slow.join("git"), script.as_bytes(), 0o755).unwrap();
    let slowly = |what: &str| {
        let line = format!(
            "PATH='{}':$PATH; exec '{}' {what}",
            slow.display(),
            env!("CARGO_BIN_EXE_cofferdam")
        );
        lives.shell(&line).expect_code(0)
    };
    let done = slowly("collect box");
    let said = "note: the programs in box stood still for ";
    assert!(done.stderr.starts_with(said), "{done}");
    // Others wait for an agent's commits, too.
    let done = slowly("run --in box -- git commit -q --allow-empty -m agents");
    let told = done.stderr.lines().any(|line| line.starts_with(said));
    assert!(told, "{done}");
    lives.exec("box", &commit_script(&["b"])).expect_code(0);
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(done.stderr, "");
}

/// Whoever happens to name a branch that is there is told so.
#[test]
fn a_branch_that_was_there_is_named() {
    let lives = Lives::new();
    lives.git(&["branch", "cofferdam/one"]);
    let head = lives.git(&["rev-parse", "--short=10", "HEAD"]);
    let made = lives.create("one", &["--network", "none"]).stdout;
    let said = format!("on cofferdam/one (which was there already, at {head}),");
    assert!(made.contains(&said), "{made}");
    let made = lives.create("two", &["--network", "none"]).stdout;
    assert!(!made.contains("already"), "{made}");
    for name in ["one", "two"] {
        lives.cofferdam(&["delete", name]).expect_code(0);
    }
}

/// A configuration that cannot be used makes no sandbox that lacks what it asks for, whoever makes it; where nobody can tell what it
/// asks for, that it counts for nothing is said.
#[test]
fn a_broken_configuration_makes_nothing_weaker_in_silence() {
    let lives = Lives::new();
    let mut client = crate::mcp_client::Client::start(&lives);
    let mut create = |name: &str| client.call("sandbox-create", &serde_json::json!({"name": name}));
    for broken in [
        "hide: - x\n",
        "limits: {memory: [}\n",
        "hide: [a]\nsetup: x\n  y: z\n",
    ] {
        lives.write(".cofferdam/config.yaml", broken);
        for words in [&["create", "one"][..], &["run", "--", "true"]] {
            let refused = lives.cofferdam(words).expect_code(1).stderr;
            assert!(refused.contains("config.yaml:"), "{broken}: {refused}");
            assert!(refused.contains("cofferdam config check"), "{refused}");
        }
        let (refused, is_error) = create("one");
        assert!(is_error && refused.contains("config.yaml:"), "{refused}");
    }
    lives.write(".cofferdam/config.yaml", "setup: [\n");
    let told =
        "config.yaml:1:8: setup: it is not text; nothing of that file counts, a `setup` neither";
    let made = lives.create("one", &["--network", "none"]);
    assert!(made.stderr.contains(told), "{made}");
    let (made, is_error) = create("two");
    assert!(!is_error && made.contains(told), "{made}");
    drop(client);
    for name in ["one", "two"] {
        lives.cofferdam(&["delete", "--force", name]).expect_code(0);
    }
}
