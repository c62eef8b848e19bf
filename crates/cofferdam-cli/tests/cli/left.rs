//! What agents leave in files of their sandbox's own and in no commit: it is shown, applied and taken back, made a
//! worktree, and opened again.

use std::path::Path;

use crate::environment::{TestEnvironment, check};
use crate::lives::Lives;

/// Commits `new`, and leaves a changed, a removed and two new files in no commit, and one that is ignored.
const AGENT: &str = "set -e
    echo new > new; git add new; git commit -qm new
    echo three >> src/lib.txt; rm README.md; mkdir -p deep/er; echo u > deep/er/u; printf '#!/bin/sh\\n' > run; chmod +x run
    echo object > a.o";

/// Its user leaves out what that agent's compiler makes.
fn repository() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment.write(".git/info/exclude", "*.o\n");
    environment
}

/// A sandbox `left` of that agent, which ended.
#[track_caller]
fn left(options: &[&str]) -> TestEnvironment {
    let environment = repository();
    environment
        .run(&[&["--name", "left", "-q"], options].concat(), AGENT)
        .expect_code(0);
    environment
}

#[test]
fn the_summary_says_how_to_see_it() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(&["--name", "left", "-q"], "echo x > x")
        .expect_code(0);
    check!(environment, done, @r"
    code: 0
    --- stdout

    nothing: the agent made no commit
    1 iteration, [TIME]
    uncommitted work of the agent is kept in the sandbox
    next: cofferdam diff --uncommitted left   # `cofferdam apply left` brings it here
    when nothing of it is needed: cofferdam delete --force left
    --- stderr
    ");
    let list = environment.cofferdam(&["list", "--json"]).stdout;
    assert!(list.contains("\"changes\":true"), "{list}");
    let done = environment.cofferdam(&["delete", "left"]).expect_code(1);
    check!(environment, done, @r"
    code: 1
    --- stdout
    --- stderr
    error: sandbox `left` has uncommitted changes
    hint: see it with `cofferdam diff --uncommitted left`, bring it here with `cofferdam apply left` before you delete it; when nothing of it is needed: `cofferdam delete --force left`
    ");
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
    assert_eq!(environment.git(&["for-each-ref", "refs/cofferdam/"]), "");
}

#[test]
fn it_is_shown_without_its_commits() {
    for mode in [&["--mode", "layer"], &["--mode", "copy"]] {
        let environment = left(mode);
        for _ in 0..2 {
            let done = environment
                .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
                .expect_code(0);
            assert_eq!(
                done.stdout, "D\tREADME.md\nA\tdeep/er/u\nA\trun\nM\tsrc/lib.txt\n",
                "{done}"
            );
        }
        let done = environment
            .cofferdam(&["diff", "--uncommitted", "left"])
            .expect_code(0);
        assert!(done.stdout.contains("\n+three\n"), "{done}");
        // It came through the gate, which leaves nothing behind that git finds fault with.
        environment.git(&["fsck", "--strict"]);
        assert_eq!(environment.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn one_that_ended_in_a_worktree_says_where() {
    let environment = left(&["--mode", "bind"]);
    let done = environment
        .cofferdam(&["diff", "--uncommitted", "left"])
        .expect_code(1);
    let hint = done
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("hint: see it with `"))
        .unwrap();
    let shown = environment.shell(hint.trim_end_matches('`')).expect_code(0);
    assert!(shown.stdout.contains("deleted:    README.md"), "{shown}");
}

#[test]
fn it_is_applied_and_taken_back_as_one() {
    let environment = left(&["--branch", "work"]);
    let before = environment.git(&["rev-parse", "HEAD"]);
    // What the user has in the works stays as it is.
    environment.write("mine", "mine\n");
    environment.write("staged", "staged\n");
    environment.git(&["add", "staged"]);
    let done = environment.cofferdam(&["apply", "left"]).expect_code(0);
    check!(environment, done, @r"
    code: 0
    --- stdout
    applied: the work of left, staged and not committed
      README.md   | 1 -
      deep/er/u   | 1 +
      new         | 1 +
      run         | 1 +
      src/lib.txt | 1 +
      5 files changed, 4 insertions(+), 1 deletion(-)
    undo: cofferdam apply --undo left
    when you have committed it: cofferdam delete left   # removes the sandbox
    --- stderr
    ");
    assert_eq!(environment.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(environment.read("src/lib.txt"), "one\ntwo\nthree\n");
    assert!(!environment.repository().join("README.md").exists());
    assert_eq!(
        environment.git(&["status", "--porcelain"]),
        "D  README.md\nA  deep/er/u\nA  new\nA  run\nM  src/lib.txt\nA  staged\n?? mine"
    );
    // Again changes nothing.
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
    assert_eq!(
        environment.git(&["status", "--porcelain"]),
        "A  staged\n?? mine"
    );
    assert_eq!(environment.read("src/lib.txt"), "one\ntwo\n");
    assert!(!environment.repository().join("deep").exists());
    let done = environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(1);
    assert!(
        done.stderr.contains("nothing of left is applied here"),
        "{done}"
    );
}

#[test]
fn what_the_user_changed_is_never_overwritten() {
    let environment = left(&["--branch", "work"]);
    let check = |line: &str, said: &str| {
        environment.shell(line).expect_code(0);
        let before = environment.git(&["status", "--porcelain"]);
        let done = environment.cofferdam(&["apply", "left"]).expect_code(1);
        assert!(
            done.stderr.contains("nothing was changed") && done.stderr.contains(said),
            "{done}"
        );
        assert_eq!(environment.git(&["status", "--porcelain"]), before);
        environment.git(&["reset", "--hard", "-q"]);
        environment.git(&["clean", "-fdqx", "-e", ".cofferdam"]);
    };
    check("echo mine >> src/lib.txt", "src/lib.txt");
    check(
        "echo mine >> src/lib.txt; git add src/lib.txt",
        "src/lib.txt",
    );
    check("echo mine > new", "new");
    check("mkdir deep; echo mine > deep/er", "deep/er");
    // Ignored files are somebody's bytes as well.
    check("echo run >> .git/info/exclude; echo mine > run", "run");
    environment
        .shell("echo other > src/lib.txt; git commit -qam other")
        .expect_code(0);
    check(
        "true",
        "it conflicts with what is checked out in src/lib.txt",
    );
    check(
        "git reset -q --hard HEAD~1; git rev-parse HEAD > .git/MERGE_HEAD",
        "is under way",
    );
}

/// Git removes an ignored file, an entry that is staged and a link without a word where a directory is to be.
#[test]
fn what_lies_in_the_place_of_a_directory_is_never_removed() {
    let theirs: [(&str, &str); 4] = [
        (
            "echo place > .git/info/exclude; echo secret > place",
            "secret\n",
        ),
        (
            "echo place > .git/info/exclude; echo secret > place; git add -f place",
            "secret\n",
        ),
        (
            "mkdir ../else; echo secret > ../else/mine; ln -s ../else place",
            "",
        ),
        (
            "git init -q place; git -C place -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git add place 2>/dev/null",
            "",
        ),
    ];
    for (line, content) in theirs {
        for command in ["apply", "merge"] {
            let environment = TestEnvironment::with_repository();
            environment
                .run(
                    &[
                        "--name",
                        "left",
                        "-q",
                        "--branch",
                        "work",
                        "--network",
                        "none",
                    ],
                    "mkdir place; echo theirs > place/x; git add -f place; git commit -qm place",
                )
                .expect_code(0);
            environment.shell(line).expect_code(0);
            let before = environment.git(&["status", "--porcelain", "--ignored"]);
            let done = environment.cofferdam(&[command, "left"]);
            assert!(!done.status.success(), "{command}: {line}: {done}");
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(
                said.contains("place") && !said.contains("landed"),
                "{command}: {line}: {done}"
            );
            let after = environment.git(&["status", "--porcelain", "--ignored"]);
            assert_eq!(after, before, "{command}: {line}");
            if !content.is_empty() {
                assert_eq!(environment.read("place"), content, "{command}: {line}");
            }
        }
    }
}

#[test]
fn what_was_changed_or_committed_since_is_not_taken_back() {
    let environment = left(&["--branch", "work"]);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment.write("new", "mine\n");
    let done = environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(1);
    assert!(
        done.stderr
            .contains("not as before, because they were changed since: new"),
        "{done}"
    );
    assert_eq!(environment.read("new"), "mine\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "?? new");
    std::fs::remove_file(environment.repository().join("new")).unwrap();
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment.git(&["commit", "-qm", "all of it"]);
    let done = environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(1);
    assert!(done.stderr.contains("something was committed"), "{done}");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    let done = environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert!(
        done.stdout
            .starts_with("nothing: all work of left is here already"),
        "{done}"
    );
}

#[test]
fn an_apply_that_was_cut_short_is_finished_or_taken_back() {
    let environment = left(&["--branch", "work"]);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    // As a death leaves it that came after some of the files and before the index.
    let cut_short = || {
        environment.git(&["reset", "-q"]);
        environment.write("README.md", "hello\n");
        std::fs::remove_file(environment.repository().join("run")).unwrap();
        environment.write("deep/er/u", "");
    };
    cut_short();
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment.git(&["reset", "-q"]);
    environment.write("README.md", "hello\n");
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert_eq!(
        environment.git(&["status", "--porcelain"]),
        "D  README.md\nA  deep/er/u\nA  new\nA  run\nM  src/lib.txt"
    );
}

/// A layer of an earlier boot may be torn: it is never mounted, and nothing is taken away from below who stands on one.
#[test]
fn after_a_power_cut_it_stands_on_whole_files() {
    let environment = repository();
    environment
        .cofferdam(&["create", "left", "--network", "none"])
        .expect_code(0);
    let inside = |line: &str| {
        let line = ["exec", "left", "--", "sh", "-ec", line];
        environment.cofferdam(&line).expect_code(0).stdout
    };
    inside("echo new > new");
    environment.cofferdam(&["stop", "left"]).expect_code(0);
    let trees = environment.home().join(".cofferdam/trees");
    for store in trees.read_dir().unwrap().flatten() {
        for layer in store.path().read_dir().into_iter().flatten().flatten() {
            let about = layer.path().join("about");
            let Ok(text) = std::fs::read_to_string(&about) else {
                continue;
            };
            let boot = text.lines().find(|line| line.starts_with("boot "));
            let other = text.replace(boot.unwrap(), "boot another");
            cofferdam::fsx::write_private(&about, other.as_bytes()).unwrap();
            let torn = layer.path().join("files/README.md");
            cofferdam::fsx::write_with_mode(&torn, b"\0\0\0\0\0\0", 0o644).unwrap();
        }
    }
    environment.cofferdam(&["start", "left"]).expect_code(0);
    let files = "cat README.md new; ls | wc -l";
    let seen = inside(files);
    assert!(seen.starts_with("hello\nnew\n"), "{seen}");
    environment.cofferdam(&["gc"]).expect_code(0);
    environment.run(&["-q"], "true").expect_code(0);
    assert_eq!(inside(files), seen);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
}

#[test]
fn a_worktree_is_made_of_it_when_asked() {
    let environment = left(&[]);
    let worktrees = environment.git(&["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
    let done = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    let path = done.stdout.trim();
    let status = environment.git(&["-C", path, "status", "--porcelain"]);
    assert_eq!(
        status.trim_start(),
        "D README.md\n M src/lib.txt\n?? deep/\n?? run"
    );
    assert_eq!(
        environment.git(&["-C", path, "branch", "--show-current"]),
        "cofferdam/left"
    );
    assert!(Path::new(path).join("new").exists());
    // That one is it from now on.
    let again = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    assert_eq!(again.stdout, done.stdout);
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

#[test]
fn one_that_ended_is_opened_again_over_its_files() {
    let environment = left(&[]);
    environment
        .cofferdam(&["exec", "left", "--", "true"])
        .expect_code(1);
    let done = environment.cofferdam(&["start", "left"]).expect_code(0);
    assert!(
        done.stderr
            .contains("left had ended, and stays now until you delete it"),
        "{done}"
    );
    // What no commit ever sees is there, too.
    let done = environment
        .cofferdam(&[
            "exec",
            "left",
            "--",
            "sh",
            "-c",
            "cat a.o deep/er/u; git commit -qam rest; git status --short",
        ])
        .expect_code(0);
    assert_eq!(done.stdout, "object\nu\n?? deep/\n?? run\n");
    environment.cofferdam(&["merge", "left"]).expect_code(0);
    assert_eq!(environment.git(&["log", "-1", "--format=%s"]), "rest");
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

/// By a shell on a terminal too, over the same files.
#[test]
fn a_shell_opens_one_that_ended() {
    let lives = Lives::new();
    lives.run(&["--name", "left", "-q"], AGENT).expect_code(0);
    let mut shell = lives.on_a_terminal(&["shell", "left"]);
    shell.expect("note: left had ended, and stays now until you delete it");
    shell.press("cat src/lib.txt deep/er/u | tr '\\n' ,; pwd\r");
    shell.expect("one,two,three,u,/workspace/repository");
    shell.press("exit 3\r");
    shell.ends_with(3);
    assert_eq!(lives.state("left"), "active");
    let done = lives.exec("left", "cat a.o").expect_code(0);
    assert_eq!(done.stdout, "object\n");
}

/// Files of the commit that have to be written again are counted for who waits at a terminal.
#[test]
fn what_is_written_again_tells_how_far_it_is() {
    let lives = Lives::new();
    let many = "mkdir many; for i in $(seq 1200); do echo $i > many/$i; done; git add -A; git commit -qm many";
    lives.shell(many).expect_code(0);
    let network = ["--network", "none", "--mode", "layer"];
    lives.create("box", &network);
    let trees = lives.home().join(".cofferdam/trees");
    for is_gone in [false, true] {
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        if is_gone {
            std::fs::remove_dir_all(&trees).unwrap();
        }
        let mut start = lives.on_a_terminal(&["start", "box"]);
        start.expect("started box");
        start.ends_with(0);
        let said = start.text();
        assert_eq!(said.contains("of 1,202 files"), is_gone, "{said}");
    }
}

#[test]
fn what_is_staged_alone_is_work() {
    let environment = TestEnvironment::with_repository();
    let script = "echo x > x; git add x; rm x";
    environment
        .run(&["--name", "left", "-q"], script)
        .expect_code(0);
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    environment.cofferdam(&["start", "left"]).expect_code(0);
    let staged = environment.cofferdam(&["exec", "left", "--", "git", "show", ":x"]);
    assert_eq!(staged.stdout, "x\n", "{staged}");
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
}

/// Somebody removes files of commits by hand.
#[test]
fn what_a_sandbox_stands_on_is_written_again() {
    let environment = left(&[]);
    let trees = environment.home().join(".cofferdam/trees");
    let shown = || {
        environment
            .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
            .expect_code(0)
            .stdout
    };
    let before = shown();
    assert!(before.contains("src/lib.txt"), "{before}");
    std::fs::remove_dir_all(&trees).unwrap();
    assert_eq!(shown(), before);
    std::fs::remove_dir_all(&trees).unwrap();
    environment.cofferdam(&["start", "left"]).expect_code(0);
    let look = ["exec", "left", "--", "cat", "src/lib.txt", "a.o"];
    let seen = "one\ntwo\nthree\nobject\n";
    assert_eq!(environment.cofferdam(&look).stdout, seen);
    // Under a living one, which has its files open: what it needs is there again after a stop.
    std::fs::remove_dir_all(&trees).unwrap();
    environment.cofferdam(&["stop", "left"]).expect_code(0);
    environment.cofferdam(&["start", "left"]).expect_code(0);
    assert_eq!(environment.cofferdam(&look).stdout, seen);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

/// Overlay attributes are of one family, which depends on who mounts.
#[test]
fn nobody_of_the_other_kind_mounts_what_one_changed() {
    let environment = left(&[]);
    let state = environment.home().join(".cofferdam/state");
    let sandbox = state.read_dir().unwrap().flatten().next().unwrap().path();
    let family = sandbox.join("layer/family");
    let made = std::fs::read_to_string(&family).unwrap();
    let other = if made == "root" { "user" } else { "root" };
    cofferdam::fsx::write_private(&family, other.as_bytes()).unwrap();
    for command in [
        &["diff", "--uncommitted", "left"][..],
        &["apply", "left"],
        &["start", "left"],
        &["diff", "--uncommitted", "left"],
    ] {
        let done = environment.cofferdam(command).expect_code(1);
        assert!(
            done.stderr
                .contains("made this sandbox, and no other mounts it"),
            "{done}"
        );
    }
    cofferdam::fsx::write_private(&family, made.as_bytes()).unwrap();
    environment.cofferdam(&["start", "left"]).expect_code(0);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
}

#[test]
fn a_living_one_shows_it_whether_it_runs_or_not() {
    let environment = repository();
    environment
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(0);
    for command in ["diff", "log", "merge"] {
        let done = environment.cofferdam(&[command, "box"]).expect_code(0);
        let nothing = ["", "nothing: the agent made no commit\n"];
        assert!(nothing.contains(&done.stdout.as_str()), "{done}");
    }
    environment
        .cofferdam(&["exec", "box", "--", "sh", "-c", AGENT])
        .expect_code(0);
    let shown = |code| {
        environment
            .cofferdam(&["diff", "--uncommitted", "box", "--name-status"])
            .expect_code(code)
    };
    let want = "D\tREADME.md\nA\tdeep/er/u\nA\trun\nM\tsrc/lib.txt\n";
    assert_eq!(shown(0).stdout, want);
    // Nothing is staged inside, or committed, for that.
    let inside = environment.cofferdam(&["exec", "box", "--", "git", "status", "--short"]);
    assert_eq!(
        inside.stdout,
        " D README.md\n M src/lib.txt\n?? deep/\n?? run\n"
    );
    environment.cofferdam(&["pause", "box"]).expect_code(0);
    assert!(shown(1).stderr.contains("is paused"));
    environment.cofferdam(&["resume", "box"]).expect_code(0);
    environment.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(shown(0).stdout, want);
    environment.cofferdam(&["apply", "box"]).expect_code(0);
    assert!(environment.repository().join("run").exists());
    let done = environment.cofferdam(&["worktree", "box"]).expect_code(1);
    assert!(
        done.stderr
            .contains("hint: bring its work here with `cofferdam apply box`"),
        "{done}"
    );
    environment
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    environment
        .cofferdam(&["apply", "--undo", "box"])
        .expect_code(1);
}

/// A sandbox that lives on and has been applied with a first step of work, and then did a second.
fn twice() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let inside = |line: &str| {
        let line = ["exec", "box", "--", "sh", "-ec", line];
        environment.cofferdam(&line).expect_code(0);
    };
    environment
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(0);
    inside("echo one > gone; echo one > stays; echo one > changed; echo more >> README.md");
    environment.cofferdam(&["apply", "box"]).expect_code(0);
    environment.write("mine", "mine\n");
    environment.git(&["add", "mine"]);
    // An index as a second one finds it.
    let index = environment.repository().join(".git/index");
    std::fs::copy(&index, index.with_extension("first")).unwrap();
    inside("rm gone; echo two > changed; git checkout -q README.md; echo two > late");
    environment
}

const SECOND: &str = "A  changed\nA  late\nA  mine\nA  stays";

#[test]
fn a_second_time_brings_what_was_done_since() {
    let environment = twice();
    let done = environment.cofferdam(&["apply", "box"]).expect_code(0);
    check!(environment, done, @r"
    code: 0
    --- stdout
    applied: the work of box, staged and not committed
      README.md | 1 -
      changed   | 2 +-
      gone      | 1 -
      late      | 1 +
      4 files changed, 2 insertions(+), 3 deletions(-)
    undo: cofferdam apply --undo box
    --- stderr
    ");
    let status = || environment.git(&["status", "--porcelain"]);
    assert_eq!(status(), SECOND);
    assert_eq!(environment.read("changed"), "two\n");
    // What their user changed in it since is in the way, and nothing is done.
    let inside = [
        "exec",
        "box",
        "--",
        "sh",
        "-c",
        "echo three > changed; echo three > late",
    ];
    environment.cofferdam(&inside).expect_code(0);
    environment.write("late", "theirs\n");
    let done = environment.cofferdam(&["apply", "box"]).expect_code(1);
    assert!(
        done.stderr.contains("local changes are in the way: ") && done.stderr.contains("late"),
        "{done}"
    );
    assert_eq!(environment.read("changed"), "two\n");
    environment.write("late", "two\n");
    environment
        .cofferdam(&["apply", "--undo", "box"])
        .expect_code(0);
    assert_eq!(status(), "A  mine");
    assert_eq!(environment.read("README.md"), "hello\n");
}

#[test]
fn a_second_time_that_was_cut_short_is_finished_or_taken_back() {
    for undo in [false, true] {
        let environment = twice();
        environment.cofferdam(&["apply", "box"]).expect_code(0);
        // As a death leaves it that came after some of the files and before the index.
        let index = environment.repository().join(".git/index");
        std::fs::rename(index.with_extension("first"), &index).unwrap();
        environment.write("changed", "one\n");
        environment.write("gone", "one\n");
        let status = || environment.git(&["status", "--porcelain"]);
        if undo {
            environment
                .cofferdam(&["apply", "--undo", "box"])
                .expect_code(0);
            assert_eq!(status(), "A  mine");
        } else {
            environment.cofferdam(&["apply", "box"]).expect_code(0);
            assert_eq!(status(), SECOND);
            assert_eq!(environment.read("changed"), "two\n");
        }
    }
}

#[test]
fn a_rename_that_was_killed_leaves_nothing_to_commit() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["-q", "--network", "none", "--mode", "layer"],
            "set -e; mkdir .cofferdam-unfinished-rename-7 src/.cofferdam-unfinished-rename-8; echo n > n; \
             cp README.md .cofferdam-unfinished-rename-7; cp README.md src/.cofferdam-unfinished-rename-8; \
             test \"$(git status --porcelain)\" = '?? n'; git add -A; git commit -qm all",
        )
        .expect_code(0);
    let files = environment.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(files, "README.md\nn\nsrc/lib.txt");
}

#[test]
fn what_git_may_not_read_is_said() {
    let environment = left(&["--branch", "work"]);
    let inside = |line: &str| {
        let line = ["exec", "left", "--", "sh", "-ec", line];
        environment.cofferdam(&line).expect_code(0);
    };
    environment.cofferdam(&["start", "left"]).expect_code(0);
    inside("echo secret > shut; chmod 000 shut; mkdir closed; echo x > closed/x; chmod 000 closed");
    for stop in [false, true] {
        if stop {
            environment.cofferdam(&["stop", "left"]).expect_code(0);
        }
        let done = environment
            .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
            .expect_code(0);
        assert_eq!(
            done.stdout,
            "D\tREADME.md\nA\tdeep/er/u\nA\trun\nM\tsrc/lib.txt\n"
        );
        assert_eq!(
            done.stderr,
            "note: 2 paths that its git cannot read stay inside: `cofferdam shell left`\n"
        );
    }
    environment.cofferdam(&["start", "left"]).expect_code(0);
    inside("rm -rf README.md deep run; git checkout -q .");
    let done = environment.cofferdam(&["apply", "left"]).expect_code(1);
    assert!(
        done.stderr.contains("its git cannot read 2 paths"),
        "{done}"
    );
    inside("chmod 700 shut closed; rm -r shut closed");
    let done = environment
        .cofferdam(&["diff", "--uncommitted", "left"])
        .expect_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
}

#[test]
fn what_the_gate_refuses_does_not_come_out_uncommitted_either() {
    for (script, said) in [
        (
            "mkdir .husky; echo evil > .husky/pre-commit",
            Some("protected"),
        ),
        (
            "git init -q sub; echo x > sub/x; git -C sub add x; git -C sub -c user.name=a -c user.email=b commit -qm x",
            None,
        ),
    ] {
        let environment = TestEnvironment::with_repository();
        environment
            .run(&["--name", "left", "-q"], script)
            .expect_code(0);
        let done = environment.cofferdam(&["apply", "left"]);
        if let Some(said) = said {
            assert!(done.stderr.contains(said), "{done}");
            assert_eq!(done.status.code(), Some(1), "{done}");
        }
        assert!(!environment.repository().join(".husky").exists());
        assert!(!environment.repository().join("sub/.git").exists());
    }
}

/// What the user copied in and nobody touched is theirs, and no work of the agent's.
#[test]
fn what_was_copied_in_is_no_work() {
    for mode in ["layer", "copy", "bind"] {
        let environment = TestEnvironment::with_repository();
        environment.write(".env", "key=1\n");
        environment.write("deep/data", "data\n");
        environment.write("deep/more/data", "data\n");
        let copies = [
            "--mode", mode, "--name", "copies", "--copy", ".env", "--copy", "deep",
        ];
        let reads = "cat .env deep/data deep/more/data; git status >/dev/null";
        let done = environment.run(&copies, reads).expect_code(0);
        assert!(!done.stdout.contains("uncommitted"), "{mode}: {done}");
        environment.expect_clean();
        let copies = [&copies[..], &["--branch", "work"]].concat();
        let works = "echo work > work; echo more >> README.md";
        let done = environment.run(&copies, works).expect_code(0);
        assert!(done.stdout.contains("uncommitted"), "{mode}: {done}");
        if mode == "bind" {
            continue;
        }
        environment.cofferdam(&["apply", "copies"]).expect_code(0);
        let status = environment.git(&["status", "--porcelain"]);
        assert_eq!(status, "M  README.md\nA  work\n?? .env\n?? deep/", "{mode}");
        environment
            .cofferdam(&["apply", "--undo", "copies"])
            .expect_code(0);
        environment
            .cofferdam(&["delete", "--force", "copies"])
            .expect_code(0);
        // One that somebody changed is work, whatever its size and its times are.
        let touches = "cp -p .env was; echo key=2 > .env; touch -r was .env; rm was";
        let done = environment.run(&copies, touches).expect_code(0);
        assert!(done.stdout.contains("uncommitted"), "{mode}: {done}");
        let done = environment
            .cofferdam(&["diff", "--uncommitted", "copies"])
            .expect_code(0);
        assert!(done.stdout.contains("+key=2"), "{mode}: {done}");
        assert!(!done.stdout.contains("deep/data"), "{mode}: {done}");
    }
}

/// What the user did to something that was brought in makes it theirs: undo leaves it, names it, and can be given again.
#[test]
fn what_the_user_touched_is_named_and_left() {
    let touched = [
        (
            "git rm -q --cached src/lib.txt",
            "src/lib.txt",
            "git reset -q src/lib.txt",
        ),
        ("chmod +x new", "new", "chmod -x new"),
        (
            "chmod +x src/lib.txt; git reset -q",
            "src/lib.txt",
            "chmod -x src/lib.txt",
        ),
        ("git reset -q; git add -N new", "new", "git reset -q new"),
    ];
    for (touch, name, back) in touched {
        let environment = left(&["--branch", "work"]);
        environment.cofferdam(&["apply", "left"]).expect_code(0);
        let brought = environment.read(name);
        environment.shell(touch).expect_code(0);
        let done = environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(1);
        let said = format!("error: not as before, because they were changed since: {name}\n");
        assert!(done.stderr.starts_with(&said), "{touch}: {done}");
        assert_eq!(environment.read(name), brought, "{touch}");
        let others = environment.git(&["status", "--porcelain", "--", ".", &format!(":!{name}")]);
        assert_eq!(others, "", "{touch}");
        environment.shell(back).expect_code(0);
        environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(0);
        assert_eq!(environment.git(&["status", "--porcelain"]), "", "{touch}");
    }
}

/// Uncommitted work alone keeps the sandbox: nothing of it is missing.
#[test]
fn one_with_uncommitted_work_alone_is_stopped() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--name", "left", "-q"], "echo x > x")
        .expect_code(0);
    let list = environment.cofferdam(&["list", "--json"]).stdout;
    assert!(list.contains("\"state\":\"stopped\""), "{list}");
    let done = environment
        .cofferdam(&["exec", "left", "--", "true"])
        .expect_code(1);
    let hint = "hint: what it committed: `cofferdam log left`; what it did not: `cofferdam diff --uncommitted left`;";
    assert!(done.stderr.contains(hint), "{done}");
}

/// Whatever the agent committed or did not, the user hears that it did not have their work.
#[test]
fn a_quick_agent_without_commits_is_told_of_too() {
    let environment = TestEnvironment::with_repository();
    environment.write("README.md", "mine\n");
    let done = environment
        .run(&["--branch", "work"], "true")
        .expect_code(0);
    assert!(done.stderr.contains("1 uncommitted change of"), "{done}");
}

/// A filter is run where the work is committed, and that is inside: what comes out is what is in the files, or what the
/// filter of the sandbox made of it, and on the host nobody ran it.
#[test]
fn a_filter_of_the_sandboxs_runs_nothing_here() {
    let environment = TestEnvironment::with_repository();
    let mark = environment.temporary().join("fired");
    let script = format!(
        "git config filter.evil.clean 'touch {0}; cat'; git config filter.evil.smudge 'touch {0}; cat'
         git config filter.evil.required true; echo '* filter=evil' > .gitattributes; echo mine > mine",
        mark.display()
    );
    environment
        .run(&["--name", "left", "-q"], &script)
        .expect_code(0);
    let shown = environment
        .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
        .expect_code(0);
    assert_eq!(shown.stdout, "A\t.gitattributes\nA\tmine\n", "{shown}");
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert_eq!(environment.read("mine"), "mine\n");
    assert!(!mark.exists());
    let settings = environment.git(&["config", "--local", "--list"]);
    assert!(!settings.contains("filter"), "{settings}");
    // The control: with such a setting the user's own git runs it.
    environment
        .shell(&format!(
            "git config filter.evil.clean 'touch {}; cat' && echo more >> mine && git add mine",
            mark.display()
        ))
        .expect_code(0);
    assert!(mark.exists());
}

/// Git tells an index of the directories as they are now, and then another content of a file leaves its size as it was.
#[test]
fn what_is_only_staged_is_kept() {
    let stage = "b=$(echo staged-only | git hash-object -w --stdin)
        git update-index --cacheinfo 100644,$b,README.md; git write-tree >/dev/null";
    let environment = repository();
    environment
        .run(&["--name", "left", "-q"], stage)
        .expect_code(0);
    environment
        .cofferdam(&["create", "living", "--network", "none"])
        .expect_code(0);
    environment
        .cofferdam(&["exec", "living", "--", "sh", "-c", stage])
        .expect_code(0);
    for name in ["left", "living"] {
        let refused = environment.cofferdam(&["delete", name]).expect_code(1);
        assert!(refused.stderr.contains("uncommitted"), "{name}: {refused}");
        environment
            .cofferdam(&["delete", "--force", name])
            .expect_code(0);
    }
    environment.expect_clean();
}
