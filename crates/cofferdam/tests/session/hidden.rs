//! `--hide`: what a sandbox must not see, under every strategy and mode.

use std::path::PathBuf;

use cofferdam::RunOptions;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::Landing;
use cofferdam_lab::way::{Mode, Strategy, Way};

use crate::support::{Env, run, run_ok};

const SECRET: &str = "SECRET-OF-THE-USER";

/// Tracked and untracked secrets, in files and directories.
fn env() -> Env {
    let env = Env::new();
    env.write("keys/tracked", SECRET);
    env.write("all/tracked", SECRET);
    env.write("all/deep/tracked", SECRET);
    env.write("few/public", "public\n");
    env.commit_all("keys");
    env.write(".gitignore", "untracked\n");
    env.commit_all("ignore");
    env.write("keys/untracked", SECRET);
    env.write("few/untracked", SECRET);
    env.write("pl [a] in*", SECRET);
    env
}

const HIDDEN: [&str; 5] = [
    "keys/tracked",
    "keys/untracked",
    "all",
    "./pl [a] in*",
    "few/untracked",
];

fn hiding(mut options: RunOptions) -> RunOptions {
    options.session.hide = HIDDEN.map(PathBuf::from).to_vec();
    options
}

/// All strategies and modes with this agent.
fn every(env: &Env, script: &str) -> Vec<(String, RunOptions)> {
    let copies = ["pl [a] in*", "keys/untracked"].map(PathBuf::from);
    let mut all = Vec::new();
    for way in Way::ALL {
        let mut options = env.in_way(way, script);
        if way.mode == Mode::Bind {
            // With copies too, where there is a directory for them.
            if way.strategy == Strategy::Branch {
                let mut copied = env.in_way(way, script);
                copied.session.copy = copies.to_vec();
                all.push((format!("{way} with copies"), copied));
            }
        } else {
            options.session.copy = vec!["pl [a] in*".into(), "keys".into()];
        }
        all.push((way.to_string(), options));
    }
    all
}

#[test]
fn nothing_of_it_is_seen_and_nothing_of_it_is_lost() {
    let look = "grep -rqF SECRET-OF-THE-USER . --exclude-dir=.git && exit 11
        rm -rf keys all pl* 2>/dev/null
        mv keys other 2>/dev/null && exit 12
        mv all other 2>/dev/null && exit 13
        ln keys/tracked other 2>/dev/null && exit 14
        echo x 2>/dev/null > all/new && exit 15
        umount keys/tracked all 2>/dev/null && exit 16
        grep -rqF SECRET-OF-THE-USER . --exclude-dir=.git && exit 17
        test -z \"$(git status --porcelain)\" || exit 18
        echo work > work; git add -A || exit 19
        git commit -qam work || exit 20
        git reset -q --hard || exit 21
        grep -rqF SECRET-OF-THE-USER . --exclude-dir=.git && exit 22
        exit 0";
    let cases = every(&env(), "true").len();
    for case in 0..cases {
        let env = env();
        // One of them is neither tracked nor ignored.
        let status = env.git(&["status", "--porcelain"]);
        assert_eq!(status, "?? \"pl [a] in*\"");
        let (what, options) = every(&env, look).swap_remove(case);
        let report = run_ok(hiding(options));
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{what}: {}",
            report.landing
        );
        let changed = env.git(&["diff", "--name-only", "main~0", report.base.as_str(), "--"]);
        assert!(changed == "work" || changed.is_empty(), "{what}: {changed}");
        for name in [
            "keys/tracked",
            "keys/untracked",
            "all/deep/tracked",
            "pl [a] in*",
        ] {
            assert_eq!(env.read(name), SECRET, "{what}: {name}");
        }
        assert_eq!(env.git(&["status", "--porcelain"]), status, "{what}");
        // The history goes in, and that is said.
        let said = env.said();
        assert!(said.contains("HiddenInHistory"), "{what}: {said}");
        assert!(
            said.contains("keys/tracked") && said.contains("\"all\""),
            "{said}"
        );
        assert!(!said.contains("pl [a]"), "{said}");
        env.assert_sound();
    }
    // The control: without the option the same agent sees it.
    let env = env();
    let error = run(env.script(BranchStrategy::Head, look)).unwrap_err();
    assert!(error.to_string().contains("exit code 11"), "{error}");
}

#[test]
fn a_commit_that_changes_it_is_refused() {
    let blob = "$(echo evil | git hash-object -w --stdin)";
    let attempts = [
        "git update-index --no-skip-worktree keys/tracked; git commit -qam x".to_owned(),
        "git rm -q --cached -r --sparse all; git commit -qm x".to_owned(),
        format!("git update-index --cacheinfo 100644,{blob},keys/tracked; git commit -qm x"),
        format!(
            "git update-index --add --cacheinfo 100644,{blob},keys/untracked; git commit -qm x"
        ),
        format!("git update-index --add --cacheinfo 100644,{blob},all/new; git commit -qm x"),
        // A file in the place of the directory that holds it.
        format!(
            "git rm -q --cached -r few; git update-index --add --cacheinfo 100644,{blob},few; git commit -qm x"
        ),
    ];
    for attempt in attempts {
        for what in Way::ALL.map(|way| way.to_string()) {
            let env = env();
            let mut options = every(&env, &attempt);
            options.retain(|(name, _)| *name == what);
            let report = run_ok(hiding(options.remove(0).1));
            let Landing::Refused { why, .. } = &report.landing else {
                panic!("{what}: {attempt}: {}", report.landing);
            };
            assert!(why.contains("hidden from the sandbox"), "{why}");
            assert_eq!(env.read("keys/tracked"), SECRET);
            assert_eq!(env.read("few/untracked"), SECRET);
            let status = env.git(&["status", "--porcelain"]);
            assert_eq!(status, "?? \"pl [a] in*\"", "{what}: {attempt}");
        }
    }
    // The control: beside it everything may change.
    let env = env();
    let beside = "echo x > keys/new; git rm -q src/a.txt; git add -A; git commit -qm x";
    let report = run_ok(hiding(env.script(BranchStrategy::Head, beside)));
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
}

/// What the README says of them.
#[test]
fn a_hidden_file_is_empty_a_hidden_directory_too_and_a_copy_has_neither() {
    let covered = "test -f keys/tracked && test ! -s keys/tracked && ! echo x > keys/tracked || exit 9; \
        test -d all && test -z \"$(ls -A all)\" && ! touch all/x || exit 8; test -s README.md";
    for strategy in [BranchStrategy::Head, BranchStrategy::MergeToHead] {
        let env = env();
        run_ok(hiding(env.bind(strategy, covered)));
    }
    let env = env();
    let absent = "test ! -e keys/tracked && test ! -e all && test -s README.md";
    run_ok(hiding(env.copy(CopyStrategy::MergeToHead, absent)));
    run_ok(hiding(env.layered(CopyStrategy::MergeToHead, absent)));
}

#[test]
fn what_cannot_be_hidden_is_refused_before_anything_is_made() {
    let env = env();
    std::os::unix::fs::symlink("keys", env.repo.join("link")).unwrap();
    let outside = env.dir.path().join("user");
    for (path, word) in [
        ("../user", "leads out"),
        ("keys/../../user", "leads out"),
        (outside.to_str().unwrap(), "not in the repository"),
        ("none", "nothing is tracked"),
        ("keys/none", "nothing is tracked"),
        (".", "whole repository"),
        ("", "whole repository"),
        (".git/config", "git's own"),
        (".cofferdam/.env", "no sandbox sees"),
        ("link", "symbolic link"),
        ("link/tracked", "symbolic link"),
    ] {
        let mut options = env.script(BranchStrategy::Head, "true");
        options.session.hide = vec![path.into()];
        let error = run(options).unwrap_err().to_string();
        assert!(error.contains(word), "{path}: {error}");
        assert!(error.contains("cannot be hidden"), "{path}: {error}");
        env.assert_no_state();
    }
    // Deleted in the checkout, but tracked: the history has it.
    std::fs::remove_file(env.repo.join("keys/tracked")).unwrap();
    let mut options = env.layered(CopyStrategy::MergeToHead, "test ! -s keys/tracked");
    options.session.hide = vec![env.repo.join("keys/tracked"), "keys/tracked".into()];
    run_ok(options);
    // Another name of the same file is told.
    std::fs::hard_link(
        env.repo.join("pl [a] in*"),
        env.repo.join("keys/untracked2"),
    )
    .unwrap();
    let mut options = env.script(BranchStrategy::Head, "true");
    options.session.hide = vec!["pl [a] in*".into()];
    run_ok(options);
    assert!(env.said().contains("other names too"), "{}", env.said());
}
