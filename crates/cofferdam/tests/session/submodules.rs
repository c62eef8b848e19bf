//! Submodules inside: their files and history for reading, nothing of the user's settings.

use std::path::PathBuf;

use cofferdam::RunOptions;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::Landing;

use crate::support::{Env, run, run_ok};

/// `sub` with `sub/inner` in it, as `git submodule` makes them; `own` with a `.git` directory of its own;
/// `empty`, which is not populated.
fn env() -> Env {
    let env = Env::new();
    let library = |name: &str| env.dir.path().join(name).to_str().unwrap().to_owned();
    let (inner, outer) = (library("inner"), library("outer"));
    for path in [&inner, &outer] {
        env.git(&["clone", "-q", ".", path]);
        env.git(&["-C", path, "config", "user.name", "User"]);
        env.git(&["-C", path, "config", "user.email", "user@example.com"]);
    }
    let add = |at: &str, from: &str, to: &str| {
        env.git(&[
            "-C",
            at,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            from,
            to,
        ]);
    };
    add(&outer, &inner, "inner");
    env.git(&["-C", &outer, "commit", "-q", "-m", "outer with inner"]);
    add(".", &outer, "sub");
    add(".", &inner, "empty");
    env.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "update",
        "--init",
        "--recursive",
    ]);
    env.git(&["clone", "-q", &inner, "own"]);
    add(".", &inner, "own");
    env.commit_all("submodules");
    env.git(&["submodule", "--quiet", "deinit", "-f", "empty"]);
    // What must not go in: another branch, and a token.
    for sub in ["sub", "own"] {
        env.git(&["-C", sub, "checkout", "-q", "-b", "other"]);
        env.write(&format!("{sub}/secret"), "SECRET-BLOB\n");
        env.git(&["-C", sub, "add", "secret"]);
        env.git(&[
            "-C",
            sub,
            "-c",
            "user.name=U",
            "-c",
            "user.email=u@u",
            "commit",
            "-q",
            "-m",
            "secret",
        ]);
        env.git(&["-C", sub, "checkout", "-q", "-"]);
        env.git(&["-C", sub, "checkout", "-q", "--detach"]);
        env.git(&[
            "-C",
            sub,
            "config",
            "remote.origin.url",
            "https://user:TOKEN@example.com/x",
        ]);
    }
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    env
}

const LOOK: &str = "set -eu
    test -z \"$(git status --porcelain)\"
    for sub in sub sub/inner own; do
        test -z \"$(git -C $sub status --porcelain)\"
        git -C $sub log --oneline | grep -q first
        git -C $sub show HEAD:src/a.txt | grep -q two
        test \"$(cat $sub/README.md)\" = hello
        if git -C $sub config --get remote.origin.url; then exit 31; fi
        if git -C $sub commit -q --allow-empty -m x 2>/dev/null; then exit 32; fi
        if git -C $sub checkout -q HEAD~0 2>/dev/null; then exit 33; fi
        test \"$(git -C $sub for-each-ref)\" = ''
    done
    git submodule status > /dev/null
    git diff --submodule=log HEAD > /dev/null
    echo work > work; git add -A; git commit -qam work
    test -z \"$(git status --porcelain)\"";

#[test]
fn they_can_be_read_and_the_parent_works() {
    let env = env();
    let secrets: Vec<String> = ["sub", "own"]
        .map(|sub| env.git(&["-C", sub, "rev-parse", "other:secret"]))
        .to_vec();
    let head = env.git(&["-C", "sub", "rev-parse", "HEAD"]);
    let links = env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]);
    // The control: the user can read what the agent may not.
    for (sub, secret) in ["sub", "own"].into_iter().zip(&secrets) {
        assert_eq!(
            env.git(&["-C", sub, "cat-file", "-p", secret]),
            "SECRET-BLOB"
        );
    }
    let look = format!(
        "{LOOK}
        test \"$(git -C sub rev-parse HEAD)\" = {head}
        for sub in sub own; do
            if git -C $sub cat-file -e {} 2>/dev/null; then exit 34; fi
            if git -C $sub cat-file -e {} 2>/dev/null; then exit 35; fi
        done
        if grep -rqs TOKEN .git sub own /.cofferdam; then exit 36; fi",
        secrets[0], secrets[1]
    );
    for _ in 0..2 {
        let report = run_ok(env.script(BranchStrategy::Head, &look));
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
        assert_eq!(env.git(&["status", "--porcelain"]), "");
        assert_eq!(env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]), links);
        assert_eq!(env.git(&["-C", "sub", "rev-parse", "HEAD"]), head);
        env.git(&["rm", "-q", "work"]);
        env.git(&["commit", "-q", "-m", "again"]);
    }
    env.assert_no_state();
}

#[test]
fn where_they_are_not_populated_they_are_empty() {
    let env = env();
    let look = "set -eu
        test -z \"$(git status --porcelain)\"
        test -z \"$(ls -A sub)$(ls -A own)$(ls -A empty)\"
        git submodule status > /dev/null
        echo work > work; git add -A; git commit -qam work
        test -z \"$(git status --porcelain)\"";
    let branch = |name: &str| BranchStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    };
    for options in [
        env.script(branch("a"), look),
        env.script(BranchStrategy::MergeToHead, look),
        env.copy(
            CopyStrategy::Branch {
                branch: "b".parse().unwrap(),
                base: Some("main~1".into()),
            },
            look,
        ),
        env.layered(
            CopyStrategy::Branch {
                branch: "c".parse().unwrap(),
                base: Some("main~1".into()),
            },
            look,
        ),
    ] {
        let report = run_ok(options);
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
    }
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn one_that_stands_elsewhere_or_cannot_be_read_stops_nothing() {
    let env = env();
    // The user looks at an older commit of `sub`, and at one of `own` that its repository does not have.
    env.git(&["-C", "sub", "checkout", "-q", "HEAD~1"]);
    let gone = "1".repeat(40);
    env.git(&["update-index", "--cacheinfo", &format!("160000,{gone},own")]);
    env.git(&["commit", "-q", "-m", "own is gone"]);
    let links = env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]);
    let before = env.git(&["status", "--porcelain"]);
    let look = "set -eu
        git status --porcelain > /dev/null
        test -z \"$(ls -A own)\"
        git -C sub log -1 > /dev/null
        echo work > work; git add work; git commit -qam work";
    let report = run_ok(env.script(BranchStrategy::Head, look));
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]), links);
    assert_eq!(env.git(&["status", "--porcelain"]), before);
    assert!(env.said().contains("empty inside"), "{}", env.said());
}

/// Another agent made the missing directory and put a repository into it: git would obey its settings.
#[test]
fn one_that_another_sandbox_made_is_not_opened() {
    let env = Env::new();
    let first = env.git(&["rev-parse", "HEAD"]);
    let link = format!("160000,{first},sub");
    env.git(&["update-index", "--add", "--cacheinfo", &link]);
    env.git(&["commit", "-q", "-m", "a submodule that is not there"]);
    let make = "git clone -q file://$PWD sub && git -C sub checkout -q HEAD~1 && touch made
        for i in $(seq 1200); do test -e go && break; sleep 0.05; done
        rm made go; rm -rf sub";
    let options = env.script(BranchStrategy::Head, make);
    let other = std::thread::spawn(move || run(options).map(|_| ()));
    while !env.repo.join("made").exists() {
        assert!(!other.is_finished(), "{}", env.said());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let report = run(env.script(BranchStrategy::Head, "test -z \"$(ls -A sub)\""));
    std::fs::write(env.repo.join("go"), "").unwrap();
    other.join().unwrap().unwrap();
    report.unwrap();
    assert!(env.said().contains("empty inside"), "{}", env.said());
    // The control: the same repository, put there by the user, is read.
    env.git(&["clone", "-q", ".", "sub"]);
    env.git(&["-C", "sub", "checkout", "-q", "HEAD~1"]);
    run_ok(env.script(
        BranchStrategy::Head,
        "test -e sub/README.md && git -C sub status",
    ));
}

fn hiding(mut options: RunOptions, paths: &[&str]) -> RunOptions {
    options.session.hide = paths.iter().map(PathBuf::from).collect();
    options
}

/// A file that is tracked in a submodule, one that is not, and a whole submodule in it.
const HIDDEN: [&str; 4] = [
    "sub/src/a.txt",
    "sub/untracked",
    "sub/inner",
    "own/README.md",
];

#[test]
fn what_is_hidden_in_one_is_not_seen_there() {
    let look = "set -eu
        for path in sub/src/a.txt own/README.md; do test ! -s $path || exit 11; done
        test ! -s sub/untracked || exit 12
        test -z \"$(ls -A sub/inner)\" || exit 13
        test \"$(ls /.cofferdam/modules | wc -l)\" = 2 || exit 14
        for path in sub/src/a.txt own/README.md; do if (echo x > $path) 2>/dev/null; then exit 15; fi; done
        if rm -rf sub/src 2>/dev/null; then exit 16; fi
        if mv sub/src sub/other 2>/dev/null; then exit 17; fi
        if (echo x > sub/src/new) 2>/dev/null; then exit 18; fi
        test \"$(git -C sub ls-files -t src/a.txt)\" = 'S src/a.txt' || exit 19
        test \"$(git -C own ls-files -t README.md)\" = 'S README.md' || exit 20
        test -z \"$(git status --porcelain; git -C sub status --porcelain; git -C own status --porcelain)\" || exit 21
        # That is what the notice says.
        git -C sub show HEAD:src/a.txt | grep -q two || exit 22
        echo work > work; git add -A; git commit -qam work";
    let env = env();
    env.write("sub/untracked", "secret\n");
    let links = env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]);
    let report = run_ok(hiding(env.script(BranchStrategy::Head, look), &HIDDEN));
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.git(&["ls-tree", "HEAD", "sub", "own", "empty"]), links);
    assert_eq!(env.read("sub/untracked"), "secret\n");
    assert_eq!(env.read("sub/src/a.txt"), "one\ntwo\nthree\n");
    let told = "HiddenInHistory { paths: [\"own/README.md\", \"sub/src/a.txt\"] }";
    let other = "HiddenInHistory { paths: [\"sub/src/a.txt\", \"own/README.md\"] }";
    let said = env.said();
    assert!(said.contains(told) || said.contains(other), "{said}");
    // Where submodules are empty there is nothing to hide.
    let empty = "test -z \"$(ls -A sub)$(ls -A own)\"";
    run_ok(hiding(
        env.script(BranchStrategy::MergeToHead, empty),
        &HIDDEN,
    ));
    run_ok(hiding(env.copy(CopyStrategy::MergeToHead, empty), &HIDDEN));
    run_ok(hiding(
        env.layered(CopyStrategy::MergeToHead, empty),
        &HIDDEN,
    ));
    // The control: without the option the same agent sees it.
    let error = run(env.script(BranchStrategy::Head, look)).unwrap_err();
    assert!(error.to_string().contains("exit code 11"), "{error}");
}

#[test]
fn a_hidden_path_in_one_that_is_empty_inside_stops_nothing() {
    let env = env();
    let gone = "1".repeat(40);
    env.git(&["update-index", "--cacheinfo", &format!("160000,{gone},own")]);
    env.git(&["commit", "-q", "-m", "own is gone"]);
    let look = "test -z \"$(ls -A own)\" && test ! -s sub/src/a.txt";
    let paths = ["own/README.md", "own", "sub/src/a.txt"];
    for hidden in [&paths[..1], &paths] {
        let script = if hidden.len() == 1 { "true" } else { look };
        run_ok(hiding(env.script(BranchStrategy::Head, script), hidden));
    }
}

#[test]
fn a_commit_that_removes_one_with_a_hidden_path_is_refused() {
    let env = env();
    let remove = "git rm -q --cached own && git commit -qm x";
    let report = run_ok(hiding(
        env.script(BranchStrategy::Head, remove),
        &HIDDEN[3..],
    ));
    let Landing::Refused { why, .. } = &report.landing else {
        panic!("{}", report.landing);
    };
    assert!(why.contains("below it was hidden"), "{why}");
    // The control: nothing is hidden.
    let branch = BranchStrategy::Branch {
        branch: "b".parse().unwrap(),
        base: None,
    };
    let report = run_ok(env.script(branch, remove));
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
}
