//! What counts as work in no commit, at the end of a run and before a `delete`: nothing that the sandbox's own git is told
//! hides it.

use crate::environment::TestEnvironment;

/// An agent's script that ends well only where its own git sees nothing.
fn unseen(work: &str, hide: &str) -> String {
    format!(
        "set -e; git=$(git rev-parse --absolute-git-dir); {hide}; {work}; git status --porcelain >/tmp/seen; cat /tmp/seen; test ! -s /tmp/seen"
    )
}

/// The paths of the commit of uncommitted work.
#[track_caller]
fn diff(environment: &TestEnvironment) -> String {
    let show = ["diff", "--uncommitted", "left", "--name-status"];
    environment.cofferdam(&show).expect_code(0).stdout
}

/// The same, of a sandbox that then goes.
#[track_caller]
fn shown(environment: &TestEnvironment) -> String {
    let shown = diff(environment);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    shown
}

#[test]
fn nothing_that_the_agents_git_is_told_hides_its_work() {
    const FSMONITOR: &str = "printf '#!/bin/sh\\nprintf \"now\\\\0\"' > $git/hook; chmod +x $git/hook; git config core.fsmonitor $git/hook
        git config core.fsmonitorHookVersion 2; git update-index --fsmonitor; git status >/tmp/first";
    // An attribute for which the layers do not say what was changed.
    const SPLIT: &str = "git update-index --split-index --assume-unchanged src/lib.txt
        python3 -c 'import os; os.setxattr(\"src\", \"user.overlay.redirect\", b\"x\")' || true";
    let forged = "touch -r src/lib.txt /tmp/time; printf 'ONE\\ntwo\\n' > src/lib.txt; touch -r /tmp/time src/lib.txt";
    let changed = "echo three >> src/lib.txt";
    let cases = [
        (
            changed,
            "git update-index --assume-unchanged src/lib.txt",
            "M\tsrc/lib.txt\n",
        ),
        (
            changed,
            "git update-index --skip-worktree src/lib.txt",
            "M\tsrc/lib.txt\n",
        ),
        (
            "rm src/lib.txt",
            "git update-index --skip-worktree src/lib.txt",
            "D\tsrc/lib.txt\n",
        ),
        (changed, FSMONITOR, "M\tsrc/lib.txt\n"),
        ("echo x > new", "echo new >> $git/info/exclude", "A\tnew\n"),
        (
            "mkdir -p a/b; echo x > a/b/new",
            "git config core.excludesFile /workspace/rules; git config core.excludesFile $git/rules; echo a > $git/rules",
            "A\ta/b/new\n",
        ),
        (
            "chmod +x src/lib.txt",
            "git config core.fileMode false",
            "M\tsrc/lib.txt\n",
        ),
        (
            forged,
            "git config core.trustctime false",
            "M\tsrc/lib.txt\n",
        ),
        (changed, SPLIT, "M\tsrc/lib.txt\n"),
    ];
    let environment = TestEnvironment::with_repository();
    let modes = ["layer", "copy"].into_iter();
    for (mode, (work, hide, paths)) in modes.flat_map(|mode| cases.map(|case| (mode, case))) {
        // A copy is so young that git looks at its files, and may be that of a sparse checkout: what is not there is nobody's loss.
        if mode == "copy" && [forged, "rm src/lib.txt"].contains(&work) {
            continue;
        }
        environment
            .run(
                &["--name", "left", "-q", "--mode", mode],
                &unseen(work, hide),
            )
            .expect_code(0);
        let list = environment.cofferdam(&["list", "--json"]).stdout;
        assert!(list.contains("\"changes\":true"), "{hide}: {list}");
        environment.cofferdam(&["delete", "left"]).expect_code(1);
        assert_eq!(shown(&environment), paths, "{hide}");
        // One that lives on is looked at while it runs too.
        environment
            .cofferdam(&["create", "left", "--network", "none", "--mode", mode])
            .expect_code(0);
        let script = unseen(work, hide);
        let inside = ["exec", "left", "--", "sh", "-c", &script];
        environment.cofferdam(&inside).expect_code(0);
        assert_eq!(diff(&environment), paths, "{hide}");
        environment.cofferdam(&["stop", "left"]).expect_code(0);
        environment.cofferdam(&["delete", "left"]).expect_code(1);
        assert_eq!(shown(&environment), paths, "{hide}");
    }
    environment.expect_clean();
}

/// In each of these git says, without any of that, whether there is work.
#[test]
fn what_git_sees_is_work_and_nothing_else() {
    let environment = TestEnvironment::with_repository();
    environment.write(".gitignore", "*.o\n");
    environment.write("dir/deep/a", "a\n");
    environment.write("dir/b", "b\n");
    environment.shell("ln -s b dir/link; git add -A; git commit -qm more");
    let commit = "git add -A; git commit -qm work";
    let clean = [
        "git commit -q --allow-empty -m empty; git reset -q --soft HEAD~".to_owned(),
        format!("echo x > new; echo x >> dir/b; {commit}"),
        format!("git mv dir moved; {commit}"),
        format!("git mv dir moved; {commit}; git mv moved/deep dir; {commit}"),
        format!("git rm -qr dir; echo file > dir; {commit}"),
        format!("rm dir/b; mkdir dir/b; echo x > dir/b/x; {commit}"),
        format!("rm -r dir; mkdir dir; echo x > dir/x; {commit}"),
        format!("rm dir/link; ln -s deep dir/link; chmod +x dir/b; {commit}"),
        format!(
            "echo x > 'a\tb\nc'; {commit}; echo o > x.o; mkdir -p out; echo o > out/y.o; mkdir -p none/at/all"
        ),
        format!("echo x > :top; echo x > '*'; {commit}"),
        "echo x >> dir/b; printf 'b\\n' > dir/b".to_owned(),
        "mkdir venv; echo '*' > venv/.gitignore; echo x > venv/x".to_owned(),
    ];
    let left = [
        "git rm -q --cached dir/b; git commit -qm gone; echo b > dir/b".to_owned(),
        "git update-index --chmod=+x dir/b".to_owned(),
        "echo o > x.o; git add -N -f x.o".to_owned(),
        "echo o > x.o; git add -f x.o".to_owned(),
        format!("echo x >> dir/b; {commit}; git reset -q --soft HEAD~"),
        format!("echo x >> dir/b; {commit}; git reset -q HEAD~"),
        format!("echo x > new; {commit}; rm new"),
        format!("echo x > new; {commit}; rm new; git update-index --assume-unchanged new"),
        format!("echo x >> dir/b; {commit}; printf 'b\\n' > dir/b"),
        format!("git mv dir moved; {commit}; rm -r moved/deep"),
        format!("git mv dir moved; {commit}; echo x > moved/deep/new"),
        "rm -r dir; mkdir dir".to_owned(),
        "rm -r dir; echo file > dir".to_owned(),
        "rm dir/b; mkdir -p dir/b/x.o; echo x > dir/b/y".to_owned(),
        "rm dir/b; mkfifo dir/b".to_owned(),
        "rm dir/link; ln -s deep dir/link".to_owned(),
        "chmod +x dir/b".to_owned(),
        "git init -q nested; git -C nested -c user.name=a -c user.email=a@b commit -q --allow-empty -m x".to_owned(),
        "echo 'b' > dir/deep/.gitignore".to_owned(),
        "git checkout -q --orphan other; git rm -rqf .; echo x > x".to_owned(),
    ];
    let cases = clean.iter().map(|script| (script, 0));
    for (script, code) in cases.chain(left.iter().map(|script| (script, 1))) {
        environment
            .cofferdam(&["create", "left", "--network", "none"])
            .expect_code(0);
        let inside = ["exec", "left", "--", "sh", "-ec", script];
        let done = environment.cofferdam(&inside);
        assert!(done.status.success(), "{script}: {done}");
        environment.cofferdam(&["stop", "left"]).expect_code(0);
        // What is committed is asked for after what is not.
        let done = environment.cofferdam(&["delete", "left"]);
        let uncommitted = done.stderr.contains("has uncommitted changes");
        assert_eq!(uncommitted, code == 1, "{script}: {done}");
        let shown = environment.cofferdam(&["diff", "--uncommitted", "left"]);
        if code == 0 && done.status.code() == Some(1) {
            assert_eq!(shown.stdout, "", "{script}: {shown}");
        }
        if done.status.code() == Some(1) {
            environment
                .cofferdam(&["delete", "--force", "left"])
                .expect_code(0);
        }
        environment.shell("git branch | grep -v main | xargs -r git branch -qD");
    }
}
