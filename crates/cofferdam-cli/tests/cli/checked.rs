//! `protect`, `setup` and `gate.checks` of the configuration: what commits may not change, what runs before anybody works, and what must
//! succeed before a branch moves.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::configured::User;
use crate::environment::Done;

const WORK: &str = "echo work > work; git add work; git commit -qm work";

#[track_caller]
fn says(done: &Done, text: &str) {
    assert!(done.to_string().contains(text), "{text:?}\n{done}");
}

/// Nothing of a check's sandbox is left.
#[track_caller]
fn no_check_is_left(user: &User) {
    let list = user.cofferdam(&["list", "--wide"]).expect_code(0);
    assert!(!list.stdout.contains("check-"), "{list}");
    assert!(!user.references().contains("check-"));
}

// covers: S3-63, S3-92
#[test]
fn protected_paths_are_not_changed_whichever_file_says_so() {
    let user = User::new("protect: [ci, .cofferdam]\n");
    user.write(".cofferdam/config.yaml", "protect: [./README.md]\n");
    for (mode, path) in [
        ("layer", "ci/new"),
        ("bind", "CI/new"),
        ("copy", "README.md"),
    ] {
        let change = format!("mkdir -p ci CI; echo x > {path}; git add -A; git commit -qm x");
        let done = user.run(&["--mode", mode], &change).expect_code(1);
        says(&done, "it is protected");
        // The control: what is beside it is not.
        user.run(
            &["--mode", mode],
            "date +%N > beside; git add -A; git commit -qm x",
        )
        .expect_code(0);
    }
    // What a sandbox sees of the host's own files is read-only.
    let write = "echo x > README.md";
    says(&user.run(&["--head"], write), "Read-only file system");
    assert_eq!(user.read("README.md"), "hello\n");
    user.run(&["--head"], "echo x > beside").expect_code(0);
    user.says("protect: [.git]\n");
    let done = user.run(&[], "true").expect_code(1);
    says(
        &done,
        ".git cannot be protected: git's own files do not travel",
    );
    says(&done, "correct `protect` in the configuration");
}

/// It is on no branch, which every command says; it is kept once, and what is printed works.
#[test]
fn what_the_gate_refused_is_told_for_what_it_is() {
    let user = User::new("protect: [ci]\n");
    let change = "mkdir ci; echo x > ci/new; git add -A; git commit -qm x";
    let why = "it is protected";
    user.run(&["--name", "one", "--network", "none"], change)
        .expect_code(1);
    for command in ["diff", "log", "merge"] {
        let done = user.cofferdam(&[command, "one"]).expect_code(1);
        says(
            &done,
            "error: the gate refused what sandbox `one` committed: ",
        );
        says(&done, why);
        says(&done, "hint: it is kept in ");
    }
    let status = user.cofferdam(&["status", "one"]).expect_code(0);
    says(&status, "ended:   with its run: the commits were refused: ");
    let delete = "cofferdam delete --force one";
    for told in [status, user.cofferdam(&["list"]).expect_code(0)] {
        says(
            &told,
            &format!("when nothing of them is needed: {delete}\n"),
        );
    }
    let words: Vec<&str> = delete.split(' ').skip(1).collect();
    user.cofferdam(&words).expect_code(0);
    // What lies uncommitted on it stays inside, where it is mended.
    let done = user.run(
        &["--name", "one", "--network", "none"],
        &format!("{change}; echo left > left"),
    );
    says(&done.expect_code(1), "next: cofferdam shell one ");
    for words in [
        &["diff", "one"][..],
        &["delete", "one"],
        &["list"],
        &["status", "one"],
    ] {
        let done = user.cofferdam(words);
        says(&done, "`cofferdam shell one`");
        assert!(!done.to_string().contains("diff --uncommitted"), "{done}");
    }
    user.cofferdam(&["start", "one"]).expect_code(0);
    says(
        &user.cofferdam(&["list"]),
        "one: the gate refused what it committed: ",
    );
    user.exec("one", "git reset -q HEAD~1; git add left; git commit -qm y")
        .expect_code(0);
    user.cofferdam(&["collect", "one"]).expect_code(0);
    let list = user.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stderr.contains("refused"), "{list}");
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
    // One that goes on is asked each time.
    user.make().expect_code(0);
    user.inside(change);
    for command in ["collect", "diff", "log", "merge", "collect"] {
        says(&user.cofferdam(&[command, "box"]), why);
    }
    let state = user.home().join(".cofferdam/state");
    let files = std::fs::read_dir(state).unwrap().flat_map(|one| {
        let inside = std::fs::read_dir(one.unwrap().path()).unwrap();
        inside.map(|one| one.unwrap().file_name())
    });
    let packs = files.filter(|name| name.to_string_lossy().starts_with("refused"));
    assert_eq!(packs.collect::<Vec<_>>(), ["refused.pack"]);
    let list = user.cofferdam(&["list"]).expect_code(0);
    says(&list, "box: the gate refused what it committed: ");
    let status = user.cofferdam(&["status", "box"]).expect_code(0);
    says(&status, "new:       refused by the gate: ");
    user.inside("git reset -q --hard HEAD~1; echo w > w; git add w; git commit -qm w");
    user.cofferdam(&["collect", "box"]).expect_code(0);
    let list = user.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stderr.contains("refused"), "{list}");
    user.ends();
}

// covers: S4-FR1.7
#[test]
fn set_up_runs_once_before_anybody_works() {
    let user = User::new("env: {OF_USER: $HOME}\nsetup: echo own ${OF_USER-none} >> ~/set-up\n");
    user.make().expect_code(0);
    assert_eq!(user.inside("cut -c 1-5 ~/set-up"), "own /\n");
    user.cofferdam(&["stop", "box"]).expect_code(0);
    user.cofferdam(&["start", "box"]).expect_code(0);
    user.cofferdam(&["sync", "box"]).expect_code(0);
    assert_eq!(user.inside("cat ~/set-up").lines().count(), 1);
    user.cofferdam(&["delete", "--force", "box"]).expect_code(0);
    // A repository's has no value of its user's, and takes the other's place.
    user.write(
        ".cofferdam/config.yaml",
        "setup: echo theirs ${OF_USER-none} >> ~/set-up; pwd >> ~/set-up\n",
    );
    let seen = user
        .run(&["--network", "none"], "cat ~/set-up")
        .expect_code(0);
    says(&seen, "theirs none\n");
    says(&seen, "/workspace/");
    // One that fails leaves the sandbox for a look.
    user.write(".cofferdam/config.yaml", "setup: echo broken >&2; exit 7\n");
    let made = user
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(1);
    says(&made, "broken");
    says(&made, "exit code 7");
    let list = user.cofferdam(&["list"]).expect_code(0);
    says(&list, "failed-setup");
    user.ends();
}

#[test]
fn commits_are_merged_once_their_checks_succeed() {
    let user = User::new(
        "env: {OF_USER: $HOME}\nsetup: touch ~/set-up\ngate:\n  checks:\n    - cmd: test -z \"$OF_USER\" -a ! -e ~/set-up -a ! -e ~/of-home\n    - cmd: grep -rqw good --include=w* .\n      name: work is good\n",
    );
    user.puts(".cofferdam/home/of-home", "");
    let head = || user.git(&["rev-parse", "HEAD"]);
    let before = head();
    // Whichever way a commit is made that no hook of git's sees.
    let no_verify = WORK.replace("git commit", "git commit --no-verify");
    let by_tree = "echo work > work; git add work; git reset -q --soft $(git commit-tree -p HEAD -m work $(git write-tree))";
    for (options, work) in [
        (&[][..], WORK),
        (&["--mode", "bind"], &no_verify),
        (&["--mode", "copy"], by_tree),
    ] {
        let done = user
            .run(
                &[&["--name", "bad", "--network", "none"], options].concat(),
                work,
            )
            .expect_code(1);
        says(
            &done,
            "1 commit on cofferdam/bad: the check `work is good` failed: exit code 1",
        );
        says(
            &done,
            "cofferdam diff bad   # `cofferdam merge --no-checks bad`",
        );
        assert_eq!(head(), before);
        no_check_is_left(&user);
        // What was held back is offered for a look, and by nothing that goes around the check.
        let listed = user.cofferdam(&["list"]).expect_code(0);
        says(
            &listed,
            "bad: the commits are kept on cofferdam/bad: the check `work is good` failed",
        );
        says(&listed, "; look at them with: cofferdam diff bad\n");
        assert!(!listed.stderr.contains("git merge"), "{listed}");
        says(&user.cofferdam(&["diff", "bad"]).expect_code(0), "+work");
        user.cofferdam(&["delete", "--force", "bad"]).expect_code(0);
    }
    let good = WORK.replace("echo work", "echo good");
    // What lies about in the agent's sandbox, and in no commit, is no help.
    let lies = "echo work > work; git add work; git commit -qm w; echo good > work; cp work /tmp";
    user.run(&["--name", "lies", "--network", "none"], lies)
        .expect_code(1);
    let merged = user.cofferdam(&["merge", "lies"]).expect_code(1);
    says(&merged, "the check `work is good` failed");
    assert_eq!(head(), before);
    user.cofferdam(&["merge", "--no-checks", "lies"])
        .expect_code(0);
    assert_ne!(head(), before);
    user.git(&["reset", "--quiet", "--hard", before.trim()]);
    let done = user.run(&["--network", "none"], &good).expect_code(0);
    says(&done, "hook sandbox.check: test -z");
    assert_eq!(user.read("work"), "good\n");
    no_check_is_left(&user);
    // What passed is not checked again.
    user.git(&["reset", "--quiet", "--hard", before.trim()]);
    let again = user.run(&["--network", "none"], &good).expect_code(0);
    assert!(!again.stderr.contains("sandbox.check"), "{again}");
    assert_eq!(user.read("work"), "good\n");
    // A branch that the user names moves by the same.
    user.git(&["branch", "named"]);
    let at = || user.git(&["rev-parse", "named"]);
    let was = at();
    let named = |work: &str| {
        user.run(
            &["--branch", "named", "--name", "named", "--network", "none"],
            work,
        )
    };
    let failed = named(WORK).expect_code(1);
    says(&failed, "the check `work is good` failed");
    assert_eq!(at(), was);
    user.cofferdam(&["delete", "--force", "named"])
        .expect_code(0);
    named("echo very good > work; git commit -qam good").expect_code(0);
    assert_ne!(at(), was);
    // One that lives on is merged by `merge`.
    user.make().expect_code(0);
    user.inside("echo bad > work; git commit -qam bad");
    user.cofferdam(&["merge", "box"]).expect_code(1);
    user.inside("echo good again > work; git commit -qam good");
    user.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(user.read("work"), "good again\n");
    user.ends();
}

/// What a repository wants to run before a merge waits for its user, with the files that it names; and commits that replace such a file
/// are not judged by it.
#[test]
fn a_repositorys_checks_are_approved_with_the_files_they_name() {
    let user = User::new("");
    user.commits("ci.sh", "exit 3\n");
    user.write(
        ".cofferdam/config.yaml",
        "gate: {checks: [{cmd: sh ci.sh}]}\n",
    );
    let approve = || {
        let asked = user.cofferdam(&["approve"]).expect_code(1);
        let words = asked.stderr.split_whitespace();
        let trust = words.skip_while(|word| *word != "--trust").nth(1).unwrap();
        let trust = trust.trim_end_matches('`').to_owned();
        user.cofferdam(&["approve", "--trust", &trust])
            .expect_code(0);
        asked
    };
    let run = |script: &str| user.run(&["--network", "none", "--name", "one"], script);
    // Nobody has approved it.
    let done = run(WORK).expect_code(0);
    says(&done, "move without 1 of the `gate.checks`");
    let asked = approve();
    says(&asked, "gate.checks: \"sh ci.sh\", \"ci.sh\" with SHA-256 ");
    let failed = run("echo more >> work; git commit -qam more").expect_code(1);
    says(&failed, "the check `sh ci.sh` failed: exit code 3");
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
    // An agent that makes its own judge.
    let own = "echo exit 0 > ci.sh; git commit -qam judge";
    let failed = run(own).expect_code(1);
    let replaced = "`ci.sh`, which the check `sh ci.sh` names, is another file in the commits";
    says(&failed, replaced);
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
    // In the user's own checkout too, whether it commits that or not.
    let head = user.git(&["rev-parse", "HEAD"]);
    for (script, why) in [
        (own, replaced),
        (
            "echo exit 0 > ci.sh; echo y > y; git add y; git commit -qm y",
            "failed: exit code 3",
        ),
    ] {
        let failed = user
            .run(&["--head", "--network", "none", "--name", "one"], script)
            .expect_code(1);
        says(&failed, why);
        assert_eq!(user.git(&["rev-parse", "HEAD"]), head);
        let merged = user.cofferdam(&["merge", "one"]);
        assert_eq!(user.git(&["rev-parse", "HEAD"]), head, "{merged}");
        user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
        user.git(&["reset", "--quiet", "--hard"]);
    }
    // Another file of that name is another one to approve, and until then nothing moves.
    user.commits("ci.sh", "exit 0\n");
    let more = "echo more >> work; git commit -qam more";
    let failed = run(more).expect_code(1);
    says(
        &failed,
        "what was approved is another one now, and waits for `cofferdam approve`: gate.checks: ",
    );
    approve();
    user.cofferdam(&["merge", "one"]).expect_code(0);
    no_check_is_left(&user);
}

/// What one leaves behind does not judge for the next, and nobody changes the file that judges.
#[test]
fn each_check_has_its_own_files() {
    let user = User::new("");
    user.commits("judge.sh", "exit 3\n");
    user.says(
        "gate:\n  checks:\n    - cmd: touch left; echo exit 0 > judge.sh || true\n    - cmd: test ! -e left\n\
         \x20   - cmd: sh judge.sh; test $? = 3\n",
    );
    for mode in ["layer", "bind", "copy"] {
        let work = format!("echo {mode} > work; git add work; git commit -qm work");
        let done = user
            .run(&["--mode", mode, "--network", "none"], &work)
            .expect_code(0);
        says(&done, "hook sandbox.check: sh judge.sh");
    }
    // A program that one check starts does not write over the script that is running.
    user.says(
        "gate: {checks: [{cmd: 'sh -c \"echo exit 0 > judge.sh\"; sh judge.sh; test $? = 3'}]}\n",
    );
    user.run(
        &["--network", "none"],
        "echo more > work; git commit -qam more",
    )
    .expect_code(0);
    no_check_is_left(&user);
}

/// A configuration that nobody can read is none that wants nothing.
#[test]
fn no_branch_moves_while_it_is_not_known_what_is_to_be_checked() {
    let user = User::new("");
    user.make().expect_code(0);
    user.inside(WORK);
    user.says("gate : {checks: [\n");
    let merged = user.cofferdam(&["merge", "box"]).expect_code(1);
    says(&merged, "what is to be checked cannot be read: ");
    let refused = user.run(&[], "true").expect_code(1);
    says(&refused, "config.yaml:");
    let path = user.puts(
        ".cofferdam/config.yaml",
        "gate: {checks: [{cmd: 'true'}]}\n",
    );
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, open).unwrap();
    says(&user.run(&[], "true").expect_code(1), "config.yaml");
    user.cofferdam(&["merge", "box"]).expect_code(1);
    user.says("");
    user.cofferdam(&["merge", "box"]).expect_code(0);
    user.ends();
}

/// What was not checked because its command died lands nowhere, and what the check left is nobody's work.
#[test]
fn a_death_while_commits_are_checked_moves_no_branch() {
    let user = User::new(
        "gate: {checks: [{cmd: 'touch x; git add x; git commit -qm x; echo checking; sleep 1000'}]}\n",
    );
    user.git(&["branch", "named"]);
    let at = || user.git(&["rev-parse", "named", "main"]);
    let before = at();
    for (name, strategy) in [("one", &["--branch", "named"][..]), ("two", &["--head"])] {
        let run = ["run", "--json", "--network", "none", "--name", name];
        let command = [&run[..], strategy, &["--", "sh", "-c", WORK]].concat();
        let mut command = user.command(&command);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let checks = |line: &String| line.contains("hook_output") && line.contains("checking");
        assert!(lines.map(Result::unwrap).any(|line| checks(&line)));
        child.kill().unwrap();
        child.wait().unwrap();
        user.cofferdam(&["gc"]).expect_code(0);
        assert_eq!(at(), before);
        no_check_is_left(&user);
        // The work is there, and is checked before it is merged.
        let log = user.cofferdam(&["log", name]).expect_code(0);
        says(&log, "work");
        user.says("gate: {checks: [{cmd: 'false'}]}\n");
        user.cofferdam(&["merge", name]).expect_code(1);
        assert_eq!(at(), before);
        user.cofferdam(&["delete", "--force", name]).expect_code(0);
        user.git(&["reset", "--quiet", "--hard"]);
        user.git(&["clean", "--quiet", "--force"]);
        user.says(
            "gate: {checks: [{cmd: 'touch x; git add x; git commit -qm x; echo checking; sleep 1000'}]}\n",
        );
    }
}

/// What a check's sandbox has is nobody's work: it is told as what it is, and not as commits that have to come home.
#[test]
fn what_is_left_of_a_check_is_told_as_that() {
    let user = User::new("gate: {checks: [{cmd: 'false'}]}\n");
    user.run(&["--network", "none", "--name", "one"], WORK)
        .expect_code(1);
    user.says("gate: {checks: [{cmd: sleep 1000}]}\n");
    let mut merge = user.command(&["merge", "one"]);
    merge.stdout(Stdio::null()).stderr(Stdio::null());
    let mut merge = merge.spawn().unwrap();
    let check = || {
        let mut all = user.all().into_iter();
        all.find(|one| one["name"].as_str().unwrap().starts_with("check-"))
    };
    let until = Instant::now() + Duration::from_secs(60);
    while check().is_none_or(|one| one["state"] != "active") {
        assert!(Instant::now() < until, "nothing is checked");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The control: while it is at work nothing is left of it.
    let list = user.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stderr.contains("check-"), "{list}");
    merge.kill().unwrap();
    merge.wait().unwrap();
    while check().unwrap()["interrupted"] != true {
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let name = check().unwrap()["name"].as_str().unwrap().to_owned();
    let list = user.cofferdam(&["list"]).expect_code(0);
    let told = "it is left of a check, or of a prompt that was tried, whose command died, and has no work; \
                remove it with: cofferdam gc";
    says(&list, &format!("{name}: {told}\n"));
    assert!(!list.stderr.contains("not home yet"), "{list}");
    let status = user.cofferdam(&["status", &name]).expect_code(0);
    says(
        &status,
        " its command died while something was tried in it\n",
    );
    says(&status, told);
    user.cofferdam(&["gc"]).expect_code(0);
    no_check_is_left(&user);
    user.cofferdam(&["delete", "--force", "one"]).expect_code(0);
}
