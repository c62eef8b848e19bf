//! Attacks 34 to 43 of docs/attacks.md: what an agent has its own repository run (hooks, settings, drivers of its tree) runs nothing of
//! its user's, whatever they do next: no command on the sandbox, and not their own git in their checkout.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::environment::TestEnvironment;
use crate::lives::Lives;

const HOOKS: &str = "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive \
    post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman \
    p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change";

/// Commits what the settings name. `MARKS/NAME` comes to be where NAME runs; `TOP` is where the tree is on this machine.
const TREE: &str = r#"set -e
    mkdir -p tools/h
    for name in HOOKS; do printf '#!/bin/sh\ntouch MARKS/core.hooksPath\n' > tools/h/$name; done
    printf '#!/bin/sh\ntouch MARKS/core.askPass\nexit 1\n' > tools/ask
    printf '#!/bin/sh\ntouch MARKS/gpg.program\nexit 1\n' > tools/gpg
    chmod +x tools/ask tools/gpg tools/h/*
    printf '[core]\n\tfsmonitor = "touch MARKS/include; true #"\n' > one.inc
    printf '[alias]\n\tinc = !touch MARKS/includeIf\n' > two.inc
    printf '*.x filter=x diff=x\n*.y diff=y\n*.p filter=p\n' > .gitattributes
    touch -d '1 hour ago' a.p
    for n in 1 2; do for file in a.x a.y a.z; do echo $n > $file; done; git add -A; git commit -qm planted-$n; done
    echo left > left
"#;

/// Most of it. A sandbox's directory of hooks is read-only.
const FIRST: &str = r#"
    hooks=$(git rev-parse --git-dir)/hooks
    { for name in HOOKS; do printf '#!/bin/sh\ntouch MARKS/hooks\n' > $hooks/$name; chmod +x $hooks/$name; done; } 2>/dev/null || true
    runs() { git config "$1" "touch MARKS/$1; $2"; }
    runs core.fsmonitor 'true #'
    runs filter.x.clean cat; runs filter.x.smudge cat
    runs diff.external 'true #'; runs diff.x.command 'true #'; runs diff.y.textconv cat
    runs core.pager cat; runs pager.log cat; runs core.editor true; runs sequence.editor true
    git config alias.mine '!touch MARKS/alias.mine'
    runs core.sshCommand 'false #'
    git config remote.origin.url file:///nowhere; runs remote.origin.uploadpack 'false #'
    git config protocol.ext.allow always; git config 'url.ext::touch MARKS/insteadOf .insteadOf' x://
    git config credential.helper '!touch MARKS/credential.helper; true'; git config core.askPass tools/ask
    git config commit.gpgSign true; git config gpg.program tools/gpg
"#;
const FIRST_MARKS: [&str; 17] = [
    "hooks",
    "core.fsmonitor",
    "filter.x.clean",
    "filter.x.smudge",
    "diff.external",
    "diff.x.command",
    "diff.y.textconv",
    "core.pager",
    "pager.log",
    "core.editor",
    "sequence.editor",
    "alias.mine",
    "core.sshCommand",
    "remote.origin.uploadpack",
    "insteadOf",
    "credential.helper",
    "core.askPass",
];

/// What takes the place of some of that.
const SECOND: &str = r"
    git config --unset core.fsmonitor; git config core.hooksPath ./tools/h
    git config include.path TOP/one.inc; git config 'includeIf.gitdir:/.path' TOP/two.inc
    git config filter.p.process 'touch MARKS/filter.p.process; false'
    git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand 'touch MARKS/defaultKeyCommand'
";
const SECOND_MARKS: [&str; 5] = [
    "filter.p.process",
    "core.hooksPath",
    "include",
    "includeIf",
    "defaultKeyCommand",
];

/// What a user does with git in a checkout. Who asks for a name and a password gets neither, and does not wait.
const USER: &str = r#"
    exec < /dev/null > /dev/null 2>&1
    export GIT_TERMINAL_PROMPT=0
    for words in status diff 'diff HEAD~1' 'log -p -2' 'add -n .' 'stash list' 'worktree list' fsck mine inc; do git $words; done
    for from in --all origin x://y ssh://nowhere.invalid/x http://127.0.0.1:PORT/x; do git fetch $from; done
    rm -f a.x README.md; git checkout -- .
    echo more >> a.x; git add -A; git reset -q --hard
    git commit -q --allow-empty -m mine; git commit -q --amend --allow-empty; git rebase -i HEAD~1
    git checkout -q --detach cofferdam/box && git checkout -q main
    for words in 'log -1' 'diff HEAD~1'; do script -qec "git $words" /dev/null; done
    bash -ic '. /usr/lib/git-core/git-sh-prompt; __git_ps1'
"#;
/// After what was planted second: no git goes on once that filter ran.
const LAST: &str = "echo more >> a.p; git add a.p; git reset -q; rm -f a.p; git checkout -q -- .";

/// In a directory where an agent works and a user only looks.
const LOOKS: &str = "for words in status diff 'log -p -2' 'add -n .' 'stash list' fsck; do git $words; done > /dev/null 2>&1";

const COMMANDS: [&[&str]; 13] = [
    &["list"],
    &["status", "box"],
    &["diff", "box"],
    &["diff", "--uncommitted", "box"],
    &["log", "box"],
    &["collect", "box"],
    &["merge", "box"],
    &["apply", "box"],
    &["pause", "box"],
    &["resume", "box"],
    &["stop", "box"],
    &["start", "box"],
    &["gc"],
];

fn in_place(script: &str, marks: &Path, top: &Path) -> String {
    script
        .replace("HOOKS", HOOKS)
        .replace("MARKS", marks.to_str().unwrap())
        .replace("TOP", top.to_str().unwrap())
}

/// What ran, which is forgotten.
fn ran(marks: &Path) -> BTreeSet<String> {
    let found = std::fs::read_dir(marks).unwrap().flatten();
    let found = found.inspect(|one| std::fs::remove_file(one.path()).unwrap());
    found
        .map(|one| one.file_name().into_string().unwrap())
        .collect()
}

/// A server of this machine that wants to know who comes. It ends with the test's process.
fn wants_a_password() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let says = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                        Content-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(says.as_bytes());
        }
    });
    port
}

/// Where a user works in a repository with all that in it, each of it runs.
#[track_caller]
fn control(environment: &TestEnvironment, marks: &Path, user: &str) {
    let own = environment.temporary().join("own");
    environment.git(&["clone", "-q", ".", own.to_str().unwrap()]);
    let there = |script: &str| {
        let script = in_place(script, marks, &own);
        environment.shell(&format!("cd '{}'\n{script}", own.display()))
    };
    for (name, value) in [("user.name", "U"), ("user.email", "u@example.com")] {
        there(&format!("git config {name} {value}")).expect_code(0);
    }
    there(&format!("{TREE}{FIRST}")).expect_code(0);
    ran(marks);
    there(user);
    let mut wanted = BTreeSet::from(FIRST_MARKS.map(str::to_owned));
    wanted.insert("gpg.program".to_owned());
    assert_eq!(ran(marks), wanted);
    there(SECOND).expect_code(0);
    ran(marks);
    there(&format!("{user}{LAST}"));
    let found = ran(marks);
    for mark in SECOND_MARKS {
        assert!(found.contains(mark), "{mark}: {found:?}");
    }
}

#[track_caller]
fn runs_nothing(options: &[&str]) {
    let lives = Lives::new();
    let marks = lives.temporary().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let user = USER.replace("PORT", &wants_a_password().to_string());
    control(&lives, &marks, &user);
    // What would keep a user of this test waiting.
    for (name, value) in [
        ("core.sshCommand", "false"),
        ("core.editor", "true"),
        ("sequence.editor", "true"),
        ("core.pager", "cat"),
    ] {
        lives.git(&["config", name, value]);
    }
    let origin = lives.temporary().join("origin");
    lives.git(&["clone", "-q", "--bare", ".", origin.to_str().unwrap()]);
    lives.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
    let top = lives.repository();
    lives.create("box", &[options, &["--network", "none"]].concat());
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    for (script, last) in [(&*format!("{TREE}{FIRST}"), ""), (SECOND, LAST)] {
        lives
            .exec("box", &in_place(script, &marks, &top))
            .expect_code(0);
        for words in COMMANDS {
            let done = lives.cofferdam(words);
            assert_eq!(ran(&marks), BTreeSet::new(), "{words:?}: {done}");
            // What is uncommitted in a checkout is there already.
            let of_rest = words[0] == "apply" || words.contains(&"--uncommitted");
            if !(of_rest && options == ["--head"]) {
                assert!(done.status.success(), "{words:?}: {done}");
            }
            // What is to be seen is shown all the same.
            let seen = match words {
                ["diff", "box"] => &[
                    "+++ b/a.x\n@@ -0,0 +1 @@\n+2\n",
                    "+++ b/a.y\n@@ -0,0 +1 @@\n+2\n",
                ][..],
                ["log", "box"] => &["planted-1", "planted-2"],
                _ => &[],
            };
            for seen in seen.iter().filter(|_| last.is_empty()) {
                assert!(done.stdout.contains(seen), "{seen}: {done}");
            }
        }
        for words in ["diff box", "log box"] {
            lives.shell(&format!("script -qec \"'{cofferdam}' {words}\" /dev/null"));
            assert_eq!(ran(&marks), BTreeSet::new(), "{words} on a terminal");
        }
        lives.shell(&format!("{user}{last}"));
        assert_eq!(ran(&marks), BTreeSet::new(), "the user's own git");
        if let Some(place) = lives.listed("box").unwrap()["workdir"].as_str() {
            lives.shell(&format!("cd '{place}' && {LOOKS}"));
            assert_eq!(ran(&marks), BTreeSet::new(), "in {place}");
        }
    }
    // What it committed came home.
    assert_eq!(lives.git(&["show", "main:a.x"]), "2");
    lives.git(&["fetch", "--all"]);
    lives.git(&["fsck", "--strict"]);
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    lives.shell(&user);
    assert_eq!(ran(&marks), BTreeSet::new(), "once it is gone");
}

#[test]
fn settings_and_hooks_of_one_over_layers_run_nothing_of_the_users() {
    runs_nothing(&["--mode", "layer"]);
}

#[test]
fn settings_and_hooks_of_one_in_a_worktree_run_nothing_of_the_users() {
    runs_nothing(&["--mode", "bind"]);
}

#[test]
fn settings_and_hooks_of_one_in_a_copy_run_nothing_of_the_users() {
    runs_nothing(&["--mode", "copy"]);
}

#[test]
fn settings_and_hooks_of_one_in_the_checkout_run_nothing_of_the_users() {
    runs_nothing(&["--head"]);
}
