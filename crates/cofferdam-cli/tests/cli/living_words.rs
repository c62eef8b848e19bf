//! What commands on sandboxes that stay say, where somebody who is new to them would be led astray.

use cofferdam_lab::skip;

use crate::environment::TestEnvironment;
use crate::lives::Lives;

/// What somebody named to be in the sandbox did not stay outside of it.
#[test]
fn a_copied_file_has_not_stayed_outside() {
    let environment = TestEnvironment::with_repository();
    environment.write("given.txt", "x\n");
    for copy in ["given.txt", "./given.txt"] {
        let ran = environment
            .run(&["--copy", copy], "cat given.txt")
            .expect_code(0);
        assert!(!ran.stderr.contains("outside"), "{ran}");
    }
    environment.write("other.txt", "x\n");
    let ran = environment.run(&["--copy", "given.txt"], "sleep 2");
    let ran = ran.expect_code(0);
    assert!(ran.stderr.contains("1 uncommitted change"), "{ran}");
    let options = ["--keep", "--name", "box", "--copy", "given.txt"];
    let ran = environment.run(&options, "sleep 2").expect_code(0);
    assert!(ran.stderr.contains("1 uncommitted change"), "{ran}");
    environment.cofferdam(&["delete", "box"]).expect_code(0);
}

/// What is in the user's working tree is nowhere lost with the sandbox; what was changed inside since is.
#[test]
fn what_was_applied_is_not_lost_with_its_sandbox() {
    for mode in ["layer", "copy"] {
        let lives = Lives::with("box", &["--network", "none", "--mode", mode]);
        let delete = |code: i32| {
            let done = lives.cofferdam(&["delete", "box"]).expect_code(code);
            assert_eq!(
                done.stderr.contains("uncommitted changes"),
                code != 0,
                "{mode}: {done}"
            );
        };
        lives.exec("box", "echo one > new.txt").expect_code(0);
        delete(1);
        lives.cofferdam(&["apply", "box"]).expect_code(0);
        assert_eq!(lives.read("new.txt"), "one\n");
        lives.exec("box", "echo two >> new.txt").expect_code(0);
        delete(1);
        lives.exec("box", "echo one > new.txt").expect_code(0);
        // Taken back it is inside alone.
        lives.cofferdam(&["apply", "--undo", "box"]).expect_code(0);
        delete(1);
        lives.cofferdam(&["apply", "box"]).expect_code(0);
        lives.git(&["add", "-A"]);
        lives.git(&["commit", "-q", "-m", "taken"]);
        delete(0);
        assert_eq!(lives.listed("box"), None, "{mode}");
        assert_eq!(lives.read("new.txt"), "one\n");
        lives.expect_clean();
    }
}

/// Nor is what is staged otherwise than the files are, or what nothing will be kept of.
#[test]
fn what_was_applied_in_part_is_lost_with_its_sandbox() {
    let lives = Lives::with("box", &["--network", "none"]);
    let delete = |options: &[&str], code: i32| {
        let words = [&["delete"][..], options, &["box"]].concat();
        let done = lives.cofferdam(&words).expect_code(code);
        assert_eq!(
            done.stderr.contains("uncommitted changes"),
            code != 0,
            "{done}"
        );
    };
    let staged = "echo staged > new.txt && git add new.txt && echo later > new.txt";
    lives.exec("box", staged).expect_code(0);
    let applied = lives.cofferdam(&["apply", "box"]).expect_code(0);
    assert!(applied.stderr.contains("staged"), "{applied}");
    assert_eq!(lives.read("new.txt"), "later\n");
    delete(&[], 1);
    // As the files are it is in them.
    lives.cofferdam(&["apply", "--undo", "box"]).expect_code(0);
    lives
        .exec("box", "git add new.txt; echo x > other.txt")
        .expect_code(0);
    let applied = lives.cofferdam(&["apply", "box"]).expect_code(0);
    assert!(!applied.stderr.contains("staged"), "{applied}");
    delete(&["--purge"], 1);
    // A merge that is not done is in no commit and in no file.
    lives
        .exec("box", "git rev-parse HEAD > .git/MERGE_HEAD")
        .expect_code(0);
    delete(&[], 1);
    lives.exec("box", "rm .git/MERGE_HEAD").expect_code(0);
    delete(&[], 0);
    lives.expect_clean();
}

/// A pipe of that name would be waited for.
#[test]
fn no_pipe_holds_up_who_looks_at_what_is_uncommitted() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives
        .exec("box", "mkfifo .mailmap; echo x > new.txt")
        .expect_code(0);
    let began = std::time::Instant::now();
    let shown = lives
        .cofferdam(&["diff", "--uncommitted", "box"])
        .expect_code(0);
    assert!(shown.stdout.contains("+x"), "{shown}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}

/// Who only looks while it is being started looks at one that runs then, and ends nothing.
#[test]
fn nobody_who_looks_ends_one_that_was_just_started() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives.exec("box", "echo x > new.txt").expect_code(0);
    let begin = |words: &[&str]| {
        let mut command = lives.command(words);
        let child = command.stdout(std::process::Stdio::piped());
        child.stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    for look in [
        &["status", "box"][..],
        &["diff", "box"],
        &["diff", "--uncommitted", "box"],
        &["collect", "box"],
        &["merge", "box"],
        &["status", "box"],
    ] {
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        let starting = begin(&["start", "box"]);
        let looks: Vec<_> = (0..4).map(|_| begin(look)).collect();
        crate::environment::finish(starting).expect_code(0);
        for look in looks {
            crate::environment::finish(look);
        }
        assert_eq!(lives.state("box"), "active", "{look:?}");
    }
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}

/// Between two starts of its agent no program runs inside, and somebody works there all the same.
#[test]
fn an_agent_that_waits_for_its_next_start_is_at_work() {
    let lives = Lives::with("box", &["--network", "none"]);
    let lock = lives.home().join(".cofferdam/state");
    let lock = lock
        .join(lives.listed("box").unwrap()["id"].as_str().unwrap())
        .join("agent");
    let held = std::fs::File::create(lock).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let done = lives.cofferdam(&["delete", "box"]).expect_code(1);
    assert!(done.stderr.contains("an agent at work"), "{done}");
    assert!(
        done.stderr.contains("cofferdam delete --force box"),
        "{done}"
    );
    assert_eq!(lives.state("box"), "active");
    drop(held);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
}

/// Both are told where an agent failed and its commits do not come home.
#[test]
fn an_agent_that_failed_does_not_hide_that_nothing_came_home() {
    let lives = Lives::with("box", &["--network", "none"]);
    // A git of the host's that fails where commits come home.
    let places = lives.temporary().join("programs");
    std::fs::create_dir(&places).unwrap();
    let script = "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n\
                  case \"$*\" in *--verify*refs/cofferdam/*) echo broken >&2; exit 99;; esac\nexec git \"$@\"\n";
    cofferdam::fsx::write_with_mode(&places.join("git"), script.as_bytes(), 0o755).unwrap();
    let work = format!("{}\nexit 3", crate::environment::commit_script(&["a"]));
    let mut run = lives.command(&["run", "--in", "box", "--", "sh", "-c", &work]);
    run.env("PATH", format!("{}:/usr/bin:/bin", places.display()));
    run.stdout(std::process::Stdio::piped());
    let run = run.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let ran = crate::environment::finish(run).expect_code(1);
    assert!(
        ran.stderr.contains("its commits are not home yet: "),
        "{ran}"
    );
    assert!(ran.stderr.contains("exit code 3"), "{ran}");
    assert!(ran.to_string().contains("cofferdam collect box"), "{ran}");
    let collected = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(
        collected.to_string().contains("landed: 1 commit"),
        "{collected}"
    );
}

/// The lines of `--json` in one that stays are those of every run.
#[test]
fn how_it_landed_is_told_by_a_run_in_one_that_stays() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = crate::environment::commit_script(&["a"]);
    let ran = lives.cofferdam(&["run", "--json", "--in", "box", "--", "sh", "-c", &script]);
    let ran = ran.expect_code(0);
    let lines = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let at = |event: &str| lines.iter().position(|line| line["event"] == event);
    let landed = at("landed").unwrap();
    assert!(at("iteration_finished").unwrap() < landed, "{ran}");
    let log = lives.cofferdam(&["logs", "box", "run"]).expect_code(0);
    assert!(log.stdout.contains("result: "), "{log}");
}

/// Its programs go on while the commits are checked, and no more than they stood still is told.
#[test]
fn nothing_stands_still_while_commits_are_checked() {
    let user = crate::configured::User::new("gate: {checks: [{cmd: \"sleep 4\"}]}\n");
    user.git(&["branch", "mine"]);
    let create = ["create", "box", "--network", "none", "--branch", "mine"];
    user.cofferdam(&create).expect_code(0);
    let count = "while :; do echo x; sleep 0.1; done";
    let words = ["exec", "--detach", "box", "--", "sh", "-c", count];
    let id = user.cofferdam(&words).expect_code(0).stdout;
    let change = "echo x > new; git add new; git commit -qm new";
    user.cofferdam(&["exec", "box", "--", "sh", "-c", change])
        .expect_code(0);
    let counted = || {
        let log = user.cofferdam(&["logs", "box", id.trim()]).expect_code(0);
        log.stdout.lines().count()
    };
    let before = counted();
    let collected = user.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(counted() > before, "{before}");
    // A busy machine makes it longer, and the checks alone take four seconds.
    let still = collected.stderr.split_once("stood still for ");
    let still = still.and_then(|(_, rest)| rest.split_once(" s "));
    let seconds = still.map_or(0.0, |(seconds, _)| seconds.parse::<f32>().unwrap());
    assert!(seconds < 4.0, "{collected}");
    user.cofferdam(&["delete", "box"]).expect_code(0);
}

/// What lands after all is not told before as kept.
#[test]
fn what_became_of_a_commit_is_told_once() {
    let lives = Lives::with("box", &["--network", "none"]);
    let change = "echo x > new; git add new; git commit -qm new";
    lives.exec("box", change).expect_code(0);
    lives.git(&["switch", "-q", "cofferdam/box"]);
    lives.write("new", "in the way\n");
    let told = |code: i32, how: &str, other: &str| {
        let merged = lives.cofferdam(&["merge", "box"]).expect_code(code);
        let all = merged.to_string();
        assert_eq!(all.matches(how).count(), 1, "{merged}");
        assert!(!all.contains(other), "{merged}");
    };
    told(1, "kept: 1 commit", "landed: ");
    std::fs::remove_file(lives.repository().join("new")).unwrap();
    told(0, "landed: 1 commit", "kept: ");
    lives.git(&["switch", "-q", "main"]);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
}

/// A branch has a slash, and is no path for that.
#[test]
fn the_branch_of_a_sandbox_is_no_path() {
    let lives = Lives::with("box", &["--network", "none"]);
    for command in [
        &["status", "cofferdam/box"][..],
        &["exec", "cofferdam/box", "--", "true"],
        &["collect", "cofferdam/box"],
        &["pause", "cofferdam/box"],
        &["logs", "cofferdam/box"],
    ] {
        let done = lives.cofferdam(command);
        assert!(!done.status.success(), "{command:?}: {done}");
        let told = "the sandbox on that branch is `box`";
        assert!(done.stderr.contains(told), "{command:?}: {done}");
    }
    let done = lives
        .cofferdam(&["status", "cofferdam/none"])
        .expect_code(1);
    assert!(done.stderr.contains("cofferdam list"), "{done}");
}

/// One by one, by the id that `exec --detach` printed.
#[test]
fn a_program_that_was_left_running_is_ended_by_its_id() {
    let lives = Lives::with("box", &["--network", "none"]);
    let leave = |script: &str| {
        let words = ["exec", "--detach", "box", "--", "sh", "-c", script];
        let done = lives.cofferdam(&words).expect_code(0);
        done.stdout.trim_end().to_owned()
    };
    let running = || lives.status("box", "programs").as_array().unwrap().len();
    let heard = leave("trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.1; done");
    let deaf = leave("trap '' TERM; echo ready; while :; do sleep 0.1; done");
    let wait = |id: &str, until: &str| {
        let began = std::time::Instant::now();
        while !lives.cofferdam(&["logs", "box", id]).stdout.contains(until) {
            assert!(began.elapsed().as_secs() < 60, "{id} says no {until}");
        }
    };
    wait(&heard, "ready");
    wait(&deaf, "ready");
    // One that nobody knows: none is ended.
    for unknown in ["9.9", "nonsense"] {
        let done = lives
            .cofferdam(&["kill", "box", &heard, unknown])
            .expect_code(1);
        assert!(done.stderr.contains("cofferdam logs box --list"), "{done}");
    }
    assert_eq!(running(), 2);
    let done = lives
        .cofferdam(&["kill", "box", &heard, &deaf])
        .expect_code(0);
    assert!(
        done.stderr.contains(&format!("asked to end: {heard}\n")),
        "{done}"
    );
    assert!(done.stderr.contains("cofferdam status box"), "{done}");
    wait(&heard, "heard");
    lives
        .cofferdam(&["logs", "--follow", "box", &heard])
        .expect_code(0);
    assert_eq!(running(), 1);
    let done = lives.cofferdam(&["kill", "--force", "box", &heard, &deaf]);
    let want = format!("{heard} had ended before\nkilled: {deaf}\n");
    assert_eq!(done.expect_code(0).stderr, want);
    lives
        .cofferdam(&["logs", "--follow", "box", &deaf])
        .expect_code(0);
    let listed = lives.cofferdam(&["logs", "--list", "box"]).expect_code(0);
    let has = |id: &str, how: &str| {
        let mut lines = listed.stdout.lines();
        lines.any(|line| line.starts_with(id) && line.contains(how))
    };
    assert!(has(&heard, "exit 3") && has(&deaf, "signal 9"), "{listed}");
    let last = leave("sleep 1000");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    let done = lives.cofferdam(&["kill", "box", &last]).expect_code(1);
    assert!(done.stderr.contains("cofferdam resume box"), "{done}");
    lives.cofferdam(&["resume", "box"]).expect_code(0);
    assert_eq!(running(), 1);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let done = lives.cofferdam(&["kill", "box", &last]).expect_code(1);
    assert!(done.stderr.contains("cofferdam start box"), "{done}");
}

/// Commits of a sandbox that stays wait for `merge`, and the first line says no other thing.
#[test]
fn who_merges_what_an_agent_does_in_one_that_stays() {
    let lives = Lives::new();
    let script = crate::environment::commit_script(&["a"]);
    let head = lives.git(&["rev-parse", "HEAD"]);
    let told = "and `cofferdam merge box` brings its commits to main";
    let ran = lives
        .run(&["--keep", "--name", "box"], &script)
        .expect_code(0);
    assert!(ran.stderr.contains(told), "{ran}");
    let again = crate::environment::commit_script(&["b"]);
    let again = lives.cofferdam(&["run", "--in", "box", "--", "sh", "-c", &again]);
    let again = again.expect_code(0);
    assert!(again.stderr.contains(told), "{again}");
    assert_eq!(lives.git(&["rev-parse", "HEAD"]), head);
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    assert_ne!(lives.git(&["rev-parse", "HEAD"]), head);
}

/// A program of a directory that no sandbox shows is not there after the next start either.
#[test]
fn a_hint_does_not_go_in_a_circle() {
    let lives = Lives::with("box", &["--network", "none"]);
    let places = [("mine", false), (".local/bin", true)];
    for (place, helps) in places {
        let directory = lives.home().join(place);
        std::fs::create_dir_all(&directory).unwrap();
        cofferdam::fsx::write_with_mode(
            &directory.join("my-tool"),
            b"#!/bin/sh\necho mine\n",
            0o755,
        )
        .unwrap();
        let cofferdam = |words: &[&str]| {
            let mut command = lives.command(words);
            command.env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin", directory.display()),
            );
            let child = command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            crate::environment::finish(child.spawn().unwrap())
        };
        let exec = ["exec", "box", "--", "my-tool"];
        let refused = cofferdam(&exec).expect_code(127);
        assert_eq!(
            refused.stderr.contains("put it into one of those"),
            !helps,
            "{refused}"
        );
        assert!(
            refused
                .stderr
                .contains("`cofferdam stop box && cofferdam start box`"),
            "{refused}"
        );
        cofferdam(&["stop", "box"]).expect_code(0);
        cofferdam(&["start", "box"]).expect_code(0);
        let done = cofferdam(&exec);
        assert_eq!(done.status.success(), helps, "{place}: {done}");
    }
}

/// What is full of files in memory says so to who asks, and nothing inside is started for an answer and killed.
#[test]
fn one_whose_memory_is_nearly_used_up_is_only_looked_at() {
    let lives = Lives::new();
    let words = ["create", "box", "--network", "none", "--memory", "96m"];
    let made = lives.cofferdam(&words);
    if !made.status.success() {
        assert!(made.stderr.starts_with("error: "), "{made}");
        return skip!("limits of memory: {}", made.stderr.trim_end());
    }
    lives.exec("box", "echo x > new.txt").expect_code(0);
    assert_eq!(lives.status("box", "changes"), true);
    assert_eq!(lives.status("box", "memory_limit"), 96 << 20);
    let before = lives.status("box", "memory").as_u64().unwrap();
    lives
        .exec("box", "head -c 70M /dev/zero > /tmp/full")
        .expect_code(0);
    let used = lives.status("box", "memory").as_u64().unwrap();
    assert!(
        used >= before + (65 << 20) && used < 96 << 20,
        "{before}, {used}"
    );
    let listed = lives.listed("box").unwrap();
    assert!(listed["memory"].as_u64().unwrap() >= 65 << 20, "{listed}");
    let shown = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(shown.stdout.contains(" of 100.6 MB"), "{shown}");
    assert_eq!(lives.status("box", "changes"), serde_json::Value::Null);
    assert_eq!(lives.status("box", "killed_for_memory"), 0);
    // Once there is room it is looked at again.
    lives.exec("box", "rm /tmp/full").expect_code(0);
    assert_eq!(lives.status("box", "changes"), true);
}
