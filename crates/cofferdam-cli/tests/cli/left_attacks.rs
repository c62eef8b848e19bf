//! What a hostile agent leaves, and what its user does meanwhile: nothing of the user's goes with it, and nothing comes out
//! that was not shown.

use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use cofferdam::fsx::{write_private, write_with_mode};

use crate::environment::{TestEnvironment, finish};

/// A sandbox `left` on branch `work`, in which that was done in files `base` of the repository.
#[track_caller]
fn left(base: &str, script: &str, options: &[&str]) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment.shell(base).expect_code(0);
    let all = [&["--name", "left", "--branch", "work", "-q"], options].concat();
    environment.run(&all, script).expect_code(0);
    environment
}

/// Git opens what settings include, and waits at a pipe for ever.
#[test]
fn settings_that_include_a_pipe_hold_up_nothing() {
    let environment = left(
        "true",
        // Where our own look has the files.
        "echo work > work; git add work; git commit -qm work; echo more > more; mkfifo pipe; git config include.path /workspace/copy/pipe",
        &[],
    );
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "work"]),
        "work"
    );
    let shown = environment
        .cofferdam(&["diff", "--uncommitted", "left"])
        .expect_code(1);
    let why = "the git settings inside cannot be read";
    assert!(shown.stderr.contains(why), "{shown}");
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
}

/// What the agent did may be what the user did: they gave it the file, or brought the change in by hand.
#[test]
fn what_the_user_has_already_is_never_taken_back() {
    let environment = left(
        "echo .env > .gitignore; git add .gitignore; git commit -qm ignored; echo secret > .env",
        "git add -f .env; git commit -qm env; echo more > more",
        &["--copy", ".env"],
    );
    let refused = environment.cofferdam(&["apply", "left"]).expect_code(1);
    assert!(
        refused.stderr.contains("would be overwritten: .env"),
        "{refused}"
    );
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(1);
    assert_eq!(environment.read(".env"), "secret\n");

    for (theirs, said) in [
        ("true", "local changes are in the way"),
        ("git add src/lib.txt", "the same is staged already"),
    ] {
        let environment = left("true", "echo three >> src/lib.txt; echo more > more", &[]);
        environment
            .shell(&format!("echo three >> src/lib.txt; {theirs}"))
            .expect_code(0);
        let refused = environment.cofferdam(&["apply", "left"]).expect_code(1);
        assert!(
            refused.stderr.contains(said) && refused.stderr.contains("src/lib.txt"),
            "{refused}"
        );
        environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(1);
        assert_eq!(environment.read("src/lib.txt"), "one\ntwo\nthree\n");
        assert!(!environment.repository().join("more").exists());
    }
}

#[test]
fn nothing_behind_a_link_is_taken_back() {
    let environment = TestEnvironment::with_repository();
    let outside = environment.home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    symlink(&outside, environment.repository().join("out")).unwrap();
    environment.git(&["add", "out"]);
    environment.git(&["commit", "-qm", "a link that leads out"]);
    let script = "rm out; mkdir out; echo whole > out/whole; echo the beginning > out/begun";
    environment
        .run(&["--name", "left", "--branch", "work", "-q"], script)
        .expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment.git(&["reset", "-q", "--hard"]);
    write_private(&outside.join("whole"), b"whole\n").unwrap();
    write_private(&outside.join("begun"), b"the").unwrap();
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
    assert!(outside.join("whole").exists() && outside.join("begun").exists());
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_the_user_put_in_a_directorys_place_stays() {
    for link in [false, true] {
        let environment = left("true", "echo three >> src/lib.txt", &[]);
        environment.cofferdam(&["apply", "left"]).expect_code(0);
        let place = environment.repository().join("src");
        std::fs::remove_dir_all(&place).unwrap();
        if link {
            symlink("mine", &place).unwrap();
        } else {
            environment.write("src", "mine\n");
        }
        let done = environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(1);
        assert!(done.stderr.contains("changed since: src/lib.txt"), "{done}");
        if link {
            assert_eq!(place.read_link().unwrap().to_str(), Some("mine"));
        } else {
            assert_eq!(environment.read("src"), "mine\n");
        }
    }
}

#[test]
fn what_the_user_made_shorter_stays() {
    let environment = left("true", "seq 100 > new; seq 100 >> src/lib.txt", &[]);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    environment.write("new", "1\n");
    environment.write("src/lib.txt", "one\ntwo\n1\n");
    let done = environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(1);
    assert!(
        done.stderr.contains("changed since: new, src/lib.txt"),
        "{done}"
    );
    assert_eq!(environment.read("new"), "1\n");
    assert_eq!(environment.read("src/lib.txt"), "one\ntwo\n1\n");
}

#[test]
fn other_kinds_and_other_attributes_are_taken_back_too() {
    for script in [
        "rm README.md; mkdir README.md; echo x > README.md/x; rm -r src; ln -s README.md src",
        "echo '* text eol=crlf' > .gitattributes; echo a > a; echo z > z; echo three >> src/lib.txt",
    ] {
        let environment = left("true", script, &[]);
        environment.cofferdam(&["apply", "left"]).expect_code(0);
        environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(0);
        assert_eq!(environment.git(&["status", "--porcelain"]), "");
        assert_eq!(environment.read("README.md"), "hello\n");
        assert_eq!(environment.read("src/lib.txt"), "one\ntwo\n");
    }
}

#[test]
fn it_is_taken_back_where_it_was_applied() {
    let environment = left("git worktree add -q ../other", "echo new > new", &[]);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    let elsewhere = format!(
        "cd ../other && {} apply --undo left",
        env!("CARGO_BIN_EXE_cofferdam")
    );
    let done = environment.shell(&elsewhere).expect_code(1);
    assert!(
        done.stderr.contains("nothing of left is applied here"),
        "{done}"
    );
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}

/// The commit of what is uncommitted is made inside, and so may stand on one that nobody was ever shown.
#[test]
fn what_applies_is_shown_before() {
    let environment = TestEnvironment::with_repository();
    environment
        .cofferdam(&["create", "box", "--network", "none", "--mode", "bind"])
        .expect_code(0);
    // In a linked worktree the git inside is asked. Answers in the place of who asks, and ends the honest answer.
    let script = r"
        echo shown > shown; mkdir hidden; echo hidden > hidden/Makefile
        git add hidden; one=$(git write-tree); git add shown; two=$(git write-tree); git reset -q
        below=$(git commit-tree -p HEAD -m hidden $one); answer=$(git commit-tree -p $below -m rest $two)
        cat > ~/lie <<END
#!/bin/sh
for one in /proc/[0-9]*; do
    if grep -qa COMMITTER \$one/cmdline; then echo $answer 0 > \$one/fd/1; kill -9 \$PPID; break; fi
done
END
        chmod +x ~/lie; git config core.fsmonitor ~/lie";
    environment
        .cofferdam(&["exec", "box", "--", "sh", "-c", script])
        .expect_code(0);
    let shown = environment
        .cofferdam(&["diff", "--uncommitted", "box", "--name-status"])
        .expect_code(0);
    assert_eq!(shown.stdout, "A\thidden/Makefile\nA\tshown\n", "{shown}");
    // It was that answer.
    let subject = environment.git(&["for-each-ref", "--format=%(refname:lstrip=3) %(subject)"]);
    assert!(subject.contains("uncommitted rest"), "{subject}");
    environment
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}

/// What git would not take is in no worktree and in no working tree, and stays what it was: work.
#[test]
fn what_git_does_not_take_keeps_its_sandbox() {
    for (script, options) in [
        (
            "git config filter.x.clean false; git config filter.x.required true; echo '*.bin filter=x' >.gitattributes
                echo more >>src/lib.txt; echo x >a.bin",
            &[][..],
        ),
        ("echo more >>src/lib.txt; echo x >'git~1'", &[]),
        (
            "echo '*.txt working-tree-encoding=UTF-16' >.gitattributes; printf odd >odd.txt; echo more >>README.md",
            &[],
        ),
        (
            "git config core.safecrlf true; git config core.autocrlf true; printf 'a\\n' >lines; echo more >>src/lib.txt",
            &[],
        ),
        ("echo more >>src/lib.txt; echo x >'git~1'", &["--mode", "copy"]),
        (
            "git config filter.x.clean 'git show HEAD:src/lib.txt #'; echo '*.txt filter=x' >$(git rev-parse --git-path info/attributes)
                printf 'ONE\\n' >src/lib.txt",
            &[],
        ),
    ] {
        for takes in [["worktree", "left"], ["apply", "left"]] {
            let script = format!("echo c >c; git add c; git commit -qm c; {script}");
            let environment = left("true", &script, options);
            environment.cofferdam(&takes);
            environment.shell("git reset -q --hard; git clean -fdqx -e .cofferdam; git worktree list --porcelain |
                sed -n 's/^worktree //p' | tail -n +2 | xargs -r -n1 git worktree remove --force");
            environment.shell("git merge -q work").expect_code(0);
            environment.cofferdam(&["gc"]).expect_code(0);
            let done = environment.cofferdam(&["delete", "left"]).expect_code(1);
            assert!(done.stderr.contains("uncommitted"), "{script} {takes:?}: {done}");
        }
    }
}

/// What lies in a sandbox's git directory is nothing that the host opens, or waits at.
#[test]
fn an_index_that_is_a_pipe_or_a_link_stops_nobody() {
    let environment = TestEnvironment::with_repository();
    environment
        .cofferdam(&["create", "box", "--network", "none"])
        .expect_code(0);
    for script in [
        "rm .git/index; mkfifo .git/index",
        "rm .git/index; ln -s /dev/tty .git/index",
        "rm .git/index; mkdir .git/index",
    ] {
        let script = format!(
            "cd $(git rev-parse --show-toplevel); git=$(git rev-parse --absolute-git-dir); {}",
            script.replace(".git/", "$git/")
        );
        environment
            .cofferdam(&["exec", "box", "--", "sh", "-ec", &script])
            .expect_code(0);
        for looks in [&["list"][..], &["status", "box"]] {
            environment.cofferdam(looks).expect_code(0);
        }
        environment
            .cofferdam(&[
                "exec",
                "box",
                "--",
                "sh",
                "-ec",
                "rm -r $(git rev-parse --absolute-git-dir)/index; git reset -q",
            ])
            .expect_code(0);
    }
    environment
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
}

#[test]
fn a_worktree_that_was_cut_short_does_not_pass_for_whole() {
    let environment = left("true", "echo new > new", &[]);
    // An earlier one had it all.
    let first = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    let remove = format!("git worktree remove --force {}", first.stdout.trim());
    environment.shell(&remove).expect_code(0);
    let programs = environment.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let git = programs.join("git");
    let script = "#!/bin/sh\nPATH=${PATH#*:}\nfor one; do if [ \"$one\" = restore ]; then kill -9 $PPID; exit 1; fi; done\n\
                  exec git \"$@\"\n";
    write_with_mode(&git, script.as_bytes(), 0o755).unwrap();
    let killed = format!(
        "PATH={}:$PATH {} worktree left; exit $?",
        programs.display(),
        env!("CARGO_BIN_EXE_cofferdam")
    );
    environment.shell(&killed).expect_code(137);
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    environment.cofferdam(&["gc"]).expect_code(0);
    let done = environment.cofferdam(&["worktree", "left"]).expect_code(1);
    assert!(done.stderr.contains("it was cut short"), "{done}");
    let hint = done
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("hint: move it away: `"))
        .unwrap();
    environment.shell(hint.trim_end_matches('`')).expect_code(0);
    let done = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    let made = std::path::Path::new(done.stdout.trim()).join("new");
    assert!(made.exists(), "{done}");
}

#[test]
fn a_worktree_stays_where_its_sandbox_is_not_deleted() {
    let environment = left("echo ignored > .git/info/exclude", "echo new > new", &[]);
    let done = environment.cofferdam(&["worktree", "left"]).expect_code(0);
    let path = std::path::PathBuf::from(done.stdout.trim());
    write_private(&path.join("ignored"), b"mine\n").unwrap();
    environment.cofferdam(&["delete", "left"]).expect_code(1);
    assert!(path.join("ignored").exists());
    // And nothing moves its branch under it.
    let done = environment.cofferdam(&["start", "left"]).expect_code(1);
    assert!(done.stderr.contains("is in the worktree"), "{done}");
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

#[test]
fn what_runs_by_itself_is_told_when_it_is_applied() {
    let environment = left("true", "echo 'rm -rf ~' > .envrc; echo x > x", &[]);
    let done = environment.cofferdam(&["apply", "left"]).expect_code(0);
    assert!(
        done.stderr
            .contains("these changed files run on your machine: .envrc\n"),
        "{done}"
    );
}

#[test]
fn settings_inside_do_not_make_new_files_vanish() {
    for mode in ["layer", "copy"] {
        let script = "git config status.showUntrackedFiles no; echo new > new";
        let environment = left("true", script, &["--mode", mode]);
        let done = environment
            .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
            .expect_code(0);
        assert_eq!(done.stdout, "A\tnew\n", "{done}");
    }
}

/// A git that a killed `apply` left running is waited for: else it writes after the undo.
#[test]
fn what_a_killed_apply_still_writes_is_waited_for() {
    let environment = left("true", "echo new > new; echo more >> README.md", &[]);
    let programs = environment.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let script = "#!/bin/sh\nPATH=${PATH#*:}\nhere=${0%/*}\ncase \"$*\" in\n\
                  *'read-tree -m -u -n'*) ;;\n\
                  *'read-tree -m -u'*) cp \"$GIT_INDEX_FILE\" \"$here/index\"; kill -9 $PPID; while ! test -e \"$here/go\"; do sleep 0.01; done; \
                  GIT_INDEX_FILE=$here/index git \"$@\"; : > \"$here/written\"; exit;;\nesac\nexec git \"$@\"\n";
    write_with_mode(&programs.join("git"), script.as_bytes(), 0o755).unwrap();
    let killed = format!(
        "PATH={}:$PATH {} apply left; exit $?",
        programs.display(),
        env!("CARGO_BIN_EXE_cofferdam")
    );
    environment.shell(&killed).expect_code(137);
    // It has read the index already.
    let mut undo = environment
        .command(&["apply", "--undo", "left"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that does not wait has ended by then, mostly; one that waits is there however long this takes.
    for _ in 0..200 {
        if undo.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    write_private(&programs.join("go"), b"").unwrap();
    finish(undo).expect_code(0);
    let written = format!(
        "until test -e {}; do sleep 0.01; done",
        programs.join("written").display()
    );
    environment.shell(&written).expect_code(0);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}
