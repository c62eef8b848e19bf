//! A checkout that the agent and the user share: what is said of the user's work, and hints that are
//! run as they are printed.

use crate::environment::{Done, TestEnvironment, commit_script};
use crate::lives::Lives;

/// Runs what a summary printed after `next: `.
#[track_caller]
fn follow(environment: &TestEnvironment, done: &Done) -> Done {
    let next = done
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("next: "));
    let next = next.unwrap_or_else(|| panic!("no hint: {done}"));
    let program = env!("CARGO_BIN_EXE_cofferdam");
    environment.shell(&format!("cofferdam() {{ '{program}' \"$@\"; }}; {next}"))
}

/// The sandbox ends with its run, or goes on and is deleted.
const LIVES: [&[&str]; 2] = [&["--head"], &["--head", "--keep", "--name", "k"]];
const MAY_TAKE: &str = "2 uncommitted changes of yours may go into them";

#[test]
fn the_first_line_and_the_summary_name_the_users_own_work() {
    for options in LIVES {
        let lives = Lives::new();
        lives.write("src/lib.txt", "mine\n");
        lives.write("it's new", "n\n");
        let done = lives
            .run(options, "git add -A; git commit -qm all")
            .expect_code(0);
        let first =
            format!("head: the agent works in this checkout, its commits land on main; {MAY_TAKE}");
        assert!(done.stderr.lines().any(|line| line == first), "{done}");
        assert_eq!(
            done.stderr.starts_with(&first),
            options.len() == 1,
            "{done}"
        );
        let line =
            "yours: the agent committed uncommitted work of yours: 'it'\\''s new' src/lib.txt";
        assert!(done.stdout.lines().any(|one| one == line), "{done}");
    }
}

/// The command that a note names for what was taken, with these paths.
#[track_caller]
fn way_back(done: &Done, paths: &str) -> String {
    let mut notes = done.stderr.lines();
    let way = notes.find_map(|line| line.split_once("before, for 30 days: "));
    let way = way.unwrap_or_else(|| panic!("{done}")).1;
    way.replace("PATH", paths)
}

/// What was staged, by the record that a way back names.
fn staged(way: &str, path: &str) -> String {
    let reference = way.split_once("--source=").unwrap().1;
    let reference = reference.split(' ').next().unwrap();
    format!("{reference}^2:{path}")
}

/// The agent's commit is not the user's: what they had, and what of it was staged, can be had again.
#[test]
fn what_the_agent_committed_of_the_users_has_a_way_back() {
    for options in LIVES {
        let lives = Lives::new();
        let environment = &lives;
        environment.write("src/lib.txt", "half\n");
        environment.git(&["add", "src/lib.txt"]);
        environment.write("src/lib.txt", "half done\n");
        environment.write("note", "n\n");
        let done = environment
            .run(options, "git add -A; git commit -qm all")
            .expect_code(0);
        let way = way_back(&done, "src/lib.txt note");
        if options.len() > 1 {
            environment.cofferdam(&["delete", "k"]).expect_code(0);
        }
        environment.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        environment.shell(&way).expect_code(0);
        assert_eq!(environment.read("src/lib.txt"), "half done\n");
        assert_eq!(environment.read("note"), "n\n");
        let staged = staged(&way, "src/lib.txt");
        assert_eq!(environment.git(&["show", &staged]), "half");
        // Where the agent left it alone, nothing is kept and nothing said.
        let lives = Lives::new();
        let environment = &lives;
        environment.write("note", "n\n");
        let mut done = environment
            .run(options, &commit_script(&["a"]))
            .expect_code(0);
        if options.len() > 1 {
            assert!(environment.references().contains("/before"), "{done}");
            done = environment.cofferdam(&["delete", "k"]).expect_code(0);
        }
        assert!(!done.stderr.contains("for 30 days"), "{done}");
        assert!(!environment.references().contains("/before"), "{done}");
    }
}

/// Each agent in a sandbox that goes on may take what the user has at that moment.
#[test]
fn every_agent_in_one_that_goes_on_leaves_a_way_back() {
    let lives = Lives::with("box", &["--head", "--network", "none"]);
    let takes = "git add -A; git commit -qm taken";
    for (first, second) in [("a.txt", "b.txt"), ("c.txt", "a.txt")] {
        let (one, two) = (format!("{first}\n"), format!("{second} after {first}\n"));
        lives.write(first, &one);
        lives.git(&["add", first]);
        lives.write(second, &two);
        let done = lives.run(&["--in", "box"], takes).expect_code(0);
        assert!(done.stderr.contains(MAY_TAKE), "{done}");
        let mut names = [first, second];
        names.sort_unstable();
        let line = format!(
            "yours: the agent committed uncommitted work of yours: {}",
            names.join(" ")
        );
        assert!(done.stdout.lines().any(|one| one == line), "{done}");
        let way = way_back(&done, second);
        // What is committed is nobody's uncommitted work any more.
        let more = format!("echo more >> {second}; git commit -qam more");
        let done = lives.run(&["--in", "box"], &more).expect_code(0);
        assert!(!done.stdout.contains("yours:"), "{done}");
        lives.shell(&way).expect_code(0);
        assert_eq!(lives.read(second), two);
        assert_eq!(lives.git(&["show", &staged(&way, first)]) + "\n", one);
        lives.git(&["checkout", "--quiet", "--", second]);
    }
    // Whoever brings it home says it.
    lives.write("by hand", "mine\n");
    lives.run(&["--in", "box"], "true").expect_code(0);
    lives.exec("box", takes).expect_code(0);
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(done.stderr.contains("work of yours: 'by hand'\n"), "{done}");
    let way = way_back(&done, "'by hand'");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.write("by hand", "");
    lives.shell(&way).expect_code(0);
    assert_eq!(lives.read("by hand"), "mine\n");
}

/// Later nothing tells it from work of the user's own.
#[test]
fn what_the_agent_left_uncommitted_is_named() {
    const SAID: &str = "changed in this checkout during the run, and in no commit: ";
    let environment = TestEnvironment::with_repository();
    environment.write(".gitignore", "/build/\n");
    environment.git(&["add", ".gitignore"]);
    environment.git(&["commit", "--quiet", "--message=ignore"]);
    environment.write("mine", "m\n");
    let commits = "echo a > a.txt; git add a.txt; git commit -qm a; mkdir build; echo b > build/b";
    let clean = environment.run(&["--head"], commits).expect_code(0);
    assert!(!clean.stderr.contains(SAID), "{clean}");
    let leaves = "echo c > c.txt; git add c.txt; git commit -qm c; touch a.txt; mkdir new; echo d > new/d; \
                  echo end >> src/lib.txt; echo b > build/c";
    let done = environment.run(&["--head"], leaves).expect_code(0);
    let line = format!("note: {SAID}src/lib.txt, new/d");
    assert!(done.stderr.lines().any(|one| one == line), "{done}");
    // One that is ended says it, too.
    let ended = "for n in 1 2 3 4 5 6 7; do echo $n > left$n; done; exit 3";
    let done = environment.run(&["--head"], ended).expect_code(1);
    let line = format!("note: {SAID}left1, left2, left3, left4, left5 and 2 more");
    assert!(done.stderr.lines().any(|one| one == line), "{done}");
}

#[test]
fn after_a_commit_of_the_users_the_hint_works_as_printed() {
    let environment = TestEnvironment::with_repository();
    // That commit has a change that is not on the disk, so that the merge has one of each.
    let mine = "f=$(sed 's/^one$/ONE/' src/lib.txt | git hash-object -w --stdin); \
                git update-index --cacheinfo 100644,$f,src/lib.txt; \
                echo mine > mine.txt; git add mine.txt; git commit -qm mine";
    let agent = "echo end >> src/lib.txt; git mv README.md moved.md; echo a > a.txt; \
                 git add a.txt src; git commit -qm theirs";
    // So that both change the file without a conflict.
    environment.write("src/lib.txt", "one\n2\n3\n4\n5\n6\n7\n");
    environment.git(&["commit", "--quiet", "--all", "--message=longer"]);
    environment.write("note", "untracked\n");
    let done = environment
        .run(
            &["--head", "--name", "late", "--on-host-ready", mine],
            agent,
        )
        .expect_code(1);
    assert!(done.stdout.contains("kept: 1 commit on "), "{done}");
    assert!(
        done.stdout.contains("next: cofferdam merge late\n"),
        "{done}"
    );
    let merged = follow(&environment, &done).expect_code(0);
    assert!(merged.stdout.starts_with("landed: "), "{merged}");
    assert_eq!(
        environment.read("src/lib.txt"),
        "ONE\n2\n3\n4\n5\n6\n7\nend\n"
    );
    assert_eq!(environment.read("a.txt"), "a\n");
    assert_eq!(environment.read("mine.txt"), "mine\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "?? note");
    assert_eq!(
        environment.git(&["ls-files"]),
        "a.txt\nmine.txt\nmoved.md\nsrc/lib.txt"
    );
    environment.cofferdam(&["delete", "late"]).expect_code(0);
    environment.expect_clean();
}

#[test]
fn two_runs_in_one_checkout_both_come_home() {
    let environment = TestEnvironment::with_repository();
    let program = env!("CARGO_BIN_EXE_cofferdam");
    let inner = format!(
        "'{program}' run --head --no-log --name inner -- sh -c 'echo b > b.txt; git add b.txt; git commit -qm b'"
    );
    let done = environment
        .run(
            &["--head", "--name", "outer", "--on-host-ready", &inner],
            &commit_script(&["a"]),
        )
        .expect_code(1);
    assert!(done.stdout.contains("kept: 1 commit on "), "{done}");
    follow(&environment, &done).expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    for name in ["a.txt", "b.txt"] {
        assert!(environment.git(&["ls-files"]).contains(name), "{name}");
    }
}

#[test]
fn a_file_that_changed_since_is_never_overwritten() {
    let environment = TestEnvironment::with_repository();
    let mine = "echo mine > mine.txt; git add mine.txt; git commit -qm mine";
    let done = environment
        .run(
            &["--head", "--name", "late", "--on-host-ready", mine],
            "echo theirs >> src/lib.txt; echo a > a.txt; git add -A; git commit -qm theirs",
        )
        .expect_code(1);
    environment.write("a.txt", "the user went on\n");
    let status = environment.git(&["status", "--porcelain"]);
    let tip = environment.git(&["rev-parse", "main"]);
    let refused = follow(&environment, &done).expect_code(1);
    assert!(refused.stdout.contains("a.txt"), "{refused}");
    assert_eq!(environment.read("a.txt"), "the user went on\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), status);
    assert_eq!(environment.git(&["rev-parse", "main"]), tip);
    // The next hint puts it aside, and git merges.
    follow(&environment, &refused).expect_code(0);
    assert_eq!(environment.read("a.txt"), "a\n");
    assert_eq!(
        environment.git(&["show", "stash@{0}^3:a.txt"]),
        "the user went on"
    );
}

#[test]
fn a_conflict_is_handed_to_git_by_the_printed_hint() {
    let environment = TestEnvironment::with_repository();
    let mine = "echo mine > README.md; git commit -qam mine";
    let done = environment
        .run(
            &["--head", "--name", "late", "--on-host-ready", mine],
            "echo theirs > README.md; git commit -qam theirs",
        )
        .expect_code(1);
    let conflict = follow(&environment, &done).expect_code(1);
    assert!(conflict.stdout.contains("README.md"), "{conflict}");
    let merge = follow(&environment, &conflict).expect_code(1);
    assert!(merge.stdout.contains("CONFLICT"), "{merge}");
    environment.git(&["rev-parse", "--verify", "MERGE_HEAD"]);
}

/// `git stash` would forget the merge, so it is not offered.
#[test]
fn in_the_middle_of_a_merge_the_hints_leave_the_merge_alone() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["checkout", "--quiet", "-b", "side"]);
    environment.write("side.txt", "s\n");
    environment.git(&["add", "side.txt"]);
    environment.git(&["commit", "--quiet", "--message=side"]);
    environment.git(&["checkout", "--quiet", "main"]);
    let tip = environment.git(&["rev-parse", "main"]);
    let merge = "git merge --quiet --no-ff --no-commit side";
    let done = environment
        .run(
            &["--head", "--name", "late", "--on-host-ready", merge],
            "echo a > a.txt; git add a.txt; git commit -qm theirs",
        )
        .expect_code(1);
    let why = "a merge is under way in ";
    assert!(done.stdout.contains(why), "{done}");
    follow(&environment, &done).expect_code(0);
    let again = environment.cofferdam(&["merge", "late"]).expect_code(1);
    assert!(again.stdout.contains(why), "{again}");
    assert!(!again.stdout.contains("stash"), "{again}");
    follow(&environment, &again).expect_code(0);
    environment.git(&["rev-parse", "--verify", "MERGE_HEAD"]);
    assert_eq!(environment.git(&["rev-parse", "main"]), tip);
    // The user ends it, and then what was printed last.
    environment.git(&["commit", "--quiet", "--message=merged"]);
    let next = again.stdout.split("then: ").nth(1).unwrap().trim();
    assert_eq!(next, "cofferdam merge late");
    environment.cofferdam(&["merge", "late"]).expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    assert_eq!(
        environment.git(&["ls-files", "a.txt", "side.txt"]),
        "a.txt\nside.txt"
    );
}

/// What conflicts as well cannot be merged by hand either before the user is done.
#[test]
fn a_conflict_in_the_middle_of_a_merge_waits_too() {
    let environment = TestEnvironment::with_repository();
    for (branch, text) in [("side", "theirs\n"), ("main", "mine\n")] {
        if branch == "side" {
            environment.git(&["checkout", "--quiet", "-b", branch, "main"]);
        } else {
            environment.git(&["checkout", "--quiet", branch]);
        }
        environment.write("both.txt", text);
        environment.git(&["add", "both.txt"]);
        environment.git(&["commit", "--quiet", "--message=both"]);
    }
    environment
        .run(
            &["--branch", "work", "--base", "main~1", "--name", "late"],
            "echo agent > both.txt; git add both.txt; git commit -qm agent",
        )
        .expect_code(0);
    environment.shell("git merge -q side").expect_code(1);
    let done = environment.cofferdam(&["merge", "late"]).expect_code(1);
    assert!(
        done.stdout
            .contains("it conflicts with `main` in both.txt; a merge is under way in "),
        "{done}"
    );
    assert!(!done.stdout.contains("git merge"), "{done}");
    environment.git(&["merge", "--abort"]);
    let done = environment.cofferdam(&["merge", "late"]).expect_code(1);
    assert!(done.stdout.contains("next: git merge work"), "{done}");
}

/// What docs and README say about references that a mirror takes along.
#[test]
fn a_mirror_without_references_of_ours() {
    let environment = TestEnvironment::with_repository();
    environment.write("note", "n\n");
    environment.run(&["--head"], "echo x > note").expect_code(0);
    environment.git(&["tag", "v1"]);
    let far = environment.temporary().join("far.git");
    let far = far.to_str().unwrap();
    environment.git(&["init", "--quiet", "--bare", far]);
    let there = || environment.git(&["-C", far, "for-each-ref", "--format=%(refname)"]);
    environment.git(&["push", "--quiet", "--mirror", far]);
    assert!(there().contains("refs/cofferdam/"), "{}", there());
    let readme = include_str!("../../../../README.md");
    let line = "push --prune REMOTE 'refs/heads/*:refs/heads/*' 'refs/tags/*:refs/tags/*'";
    assert!(
        readme.contains(&format!("git {line}")),
        "the README names another command"
    );
    environment.git(&["-C", far, "for-each-ref", "--format=delete %(refname)"]);
    let done = environment.shell(&format!(
        "rm -rf '{far}' && git init --quiet --bare '{far}' && git {}",
        line.replace("REMOTE", &format!("'{far}'"))
    ));
    done.expect_code(0);
    assert_eq!(there(), "refs/heads/main\nrefs/tags/v1");
}
