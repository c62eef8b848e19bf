//! Repositories of every make.

use std::path::Path;

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::Landing;

use super::{HEAD, branch, exercise, whole, whole_ok};
use crate::support::{Env, run};

/// A run at `path` is refused with these words, and nothing was made.
fn refused(env: &Env, path: &Path, strategy: BranchStrategy, words: &[&str]) {
    let mut options = env.script(strategy, "git commit -qm never --allow-empty");
    path.clone_into(&mut options.session.repository);
    let text = run(options).unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text}");
    }
    env.assert_no_state();
}

#[test]
fn what_is_no_checkout_is_refused_by_name() {
    let env = Env::new();
    let plain = env.dir.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    refused(&env, &plain, HEAD, &["plain", "not in a git repository"]);
    refused(
        &env,
        &env.dir.path().join("none"),
        HEAD,
        &["none", "does not exist"],
    );
    refused(&env, &env.repo.join("README.md"), HEAD, &["README.md"]);
    refused(&env, &env.repo.join(".git"), HEAD, &[".git"]);
    let bare = env.dir.path().join("bare.git");
    let path = bare.to_str().unwrap();
    env.git(&["clone", "-q", "--bare", ".", path]);
    refused(&env, &bare, HEAD, &["bare.git", "bare repository"]);
    let unborn = env.dir.path().join("unborn");
    env.git(&["init", "-q", unborn.to_str().unwrap()]);
    for strategy in [HEAD, BranchStrategy::MergeToHead, branch("x")] {
        refused(&env, &unborn, strategy, &["unborn", "no commit yet"]);
    }
}

#[test]
fn a_broken_repository_is_refused_in_words() {
    let env = Env::new();
    std::fs::write(env.repo.join(".git/HEAD"), "garbage\n").unwrap();
    refused(&env, &env.repo, HEAD, &["repo"]);
    std::fs::write(env.repo.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(env.repo.join(".git/index"), "garbage").unwrap();
    refused(&env, &env.repo, HEAD, &["index"]);
}

#[test]
fn a_detached_head_moves_itself_only() {
    let env = Env::new();
    env.git(&["checkout", "-q", "--detach"]);
    let report = whole_ok(
        &env,
        env.script(HEAD, "echo x > x; git add x; git commit -qm x"),
        &[],
    );
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.git(&["log", "-1", "--format=%s"]), "x");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.subjects("main"), ["first"]);
    refused(&env, &env.repo, BranchStrategy::MergeToHead, &["detached"]);
    let options = env.script(branch("new"), "git commit -qm y --allow-empty");
    whole_ok(&env, options, &["refs/heads/new"]);
    assert_eq!(env.subjects("new"), ["first", "x", "y"]);
}

#[test]
fn a_dirty_tree_keeps_every_byte_and_the_staged_set() {
    let env = Env::new();
    env.write("src/a.txt", "staged\n");
    env.git(&["add", "src/a.txt"]);
    env.write("src/a.txt", "unstaged\n");
    env.write("untracked", "u\n");
    let before = env.git(&["status", "--porcelain"]);
    let agent = "echo agent > agent.txt; git add agent.txt; git commit -qm work agent.txt";
    whole_ok(&env, env.script(HEAD, agent), &["refs/heads/main"]);
    assert_eq!(env.git(&["status", "--porcelain"]), before);
    assert_eq!(env.git(&["show", ":src/a.txt"]), "staged");
    assert_eq!(env.read("src/a.txt"), "unstaged\n");
    assert_eq!(env.git(&["show", "main:src/a.txt"]), "one\ntwo\nthree");
    let options = env.script(
        BranchStrategy::MergeToHead,
        agent.replace("agent.txt", "b").as_str(),
    );
    whole_ok(&env, options, &["refs/heads/main"]);
    assert_eq!(env.git(&["status", "--porcelain"]), before);
    // What would overwrite the user's edits stays on its branch.
    let overlap = "echo other > src/a.txt; git commit -qam overlap";
    let report = run(env.script(BranchStrategy::MergeToHead, overlap)).unwrap();
    assert!(
        matches!(report.landing, Landing::Kept { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.git(&["status", "--porcelain"]), before);
    assert_eq!(env.read("src/a.txt"), "unstaged\n");
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_is_refused() {
    let env = Env::new();
    let other = env.dir.path().join("other");
    env.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "feature",
        other.to_str().unwrap(),
    ]);
    refused(
        &env,
        &env.repo,
        branch("feature"),
        &["feature", "checked out", "other"],
    );
    refused(
        &env,
        &env.repo,
        branch("main"),
        &["main", "checked out", "repo"],
    );
    let copy = cofferdam::sandbox::CopyStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let error = run(env.copy(copy, "true")).unwrap_err().to_string();
    assert!(error.contains("checked out"), "{error}");
    env.assert_no_state();
}

/// A repository with a populated submodule `sub`.
fn with_submodule() -> Env {
    let env = Env::new();
    let library = env.dir.path().join("library");
    env.git(&["clone", "-q", ".", library.to_str().unwrap()]);
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    env.git(&[&add[..], &[library.to_str().unwrap(), "sub"]].concat());
    env.commit_all("submodule");
    env
}

#[test]
fn repositories_with_submodules_work() {
    let env = with_submodule();
    exercise(&env);
    assert_eq!(
        env.git(&["submodule", "status"]).split(' ').next(),
        Some("")
    );
}

#[test]
fn a_submodule_cannot_be_written() {
    let env = with_submodule();
    let before = env.git(&["ls-tree", "HEAD", "sub"]);
    let agent = "
        echo x > sub/README.md && exit 11
        echo x > sub/new && exit 12
        rm -rf sub 2>/dev/null; mv sub other 2>/dev/null && exit 13
        printf '[core]\\n\\tfsmonitor = touch /tmp/x\\n' > sub/.git 2>/dev/null && exit 14
        echo x > x; git add x; git commit -qm x";
    whole_ok(&env, env.script(HEAD, agent), &["refs/heads/main"]);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.git(&["ls-tree", "HEAD", "sub"]), before);
    assert_eq!(env.git(&["-C", "sub", "status", "--porcelain"]), "");

    // Where it is not populated it is an empty directory: what is put there never lands, and in a directory of the
    // host's it is not even written.
    let agent = "git update-index --cacheinfo 160000,$(git rev-parse HEAD),sub
        git commit -qm 'moved the submodule'";
    let writes = format!("echo x > sub/x && exit 11; {agent}");
    for options in [
        env.bind(BranchStrategy::MergeToHead, &writes),
        env.script(BranchStrategy::MergeToHead, agent),
    ] {
        let report = whole_ok(&env, options, &[]);
        let landed = matches!(report.landing, Landing::Landed { .. });
        assert!(!landed, "{}", report.landing);
    }
    assert_eq!(env.git(&["ls-tree", "main", "sub"]), before);
}

#[test]
fn lfs_pointers_stay_pointers_without_the_program() {
    let env = Env::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    env.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    );
    env.write("big.bin", pointer);
    // An old file: git trusts the index and does not read it again.
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
    let file = std::fs::File::options()
        .write(true)
        .open(env.repo.join("big.bin"));
    file.unwrap().set_modified(old).unwrap();
    env.commit_all("lfs");
    for (key, value) in [
        ("filter.lfs.required", "true"),
        ("filter.lfs.process", "no-such-git-lfs filter-process"),
        ("filter.lfs.smudge", "no-such-git-lfs smudge -- %f"),
        ("filter.lfs.clean", "no-such-git-lfs clean -- %f"),
    ] {
        env.git(&["config", key, value]);
    }
    // The user's own git cannot look at that file either, so nothing here may touch it.
    let seen = |name: &str| {
        format!(
            "grep -q 'oid sha256' big.bin || exit 7; echo {name} >> w; git add w; git commit -qm {name}"
        )
    };
    whole_ok(&env, env.script(HEAD, &seen("head")), &["refs/heads/main"]);
    let merge = env.script(BranchStrategy::MergeToHead, &seen("merge"));
    let report = whole_ok(&env, merge, &["refs/heads/main"]);
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    let report = whole_ok(&env, env.script(branch("b"), &seen("b")), &["refs/heads/b"]);
    assert_eq!(report.preserved_worktree, None, "{}", env.said());
    assert_eq!(env.read("big.bin"), pointer);
}

#[test]
fn sparse_checkouts_of_both_kinds() {
    for kinds in [&["--cone", "src"][..], &["--no-cone", "src", "/work.txt"]] {
        let env = Env::new();
        env.write("other/b.txt", "b\n");
        env.write("other/deep/c.txt", "c\n");
        env.commit_all("more");
        env.git(&[&["sparse-checkout", "set"], kinds].concat());
        assert!(!env.repo.join("other").exists());
        exercise(&env);
        assert!(!env.repo.join("other").exists(), "{kinds:?}");
        assert_eq!(env.git(&["show", "main:other/b.txt"]), "b");
    }
}

#[test]
fn indexes_of_other_makes() {
    let makes: [&[&str]; 4] = [
        &["update-index", "--split-index"],
        &["update-index", "--index-version", "4"],
        &["config", "index.sparse", "true"],
        &["config", "core.untrackedCache", "true"],
    ];
    for make in makes {
        let env = Env::new();
        env.git(make);
        env.git(&["status"]);
        exercise(&env);
    }
}

#[test]
fn sha256_and_reftable_repositories() {
    exercise(&Env::at("repo".as_ref(), &["--object-format=sha256"]));
    let env = Env::new();
    let probe = env.dir.path().join("probe");
    let probe = [
        "init",
        "-q",
        "--ref-format=reftable",
        probe.to_str().unwrap(),
    ];
    // Before git 2.45 there are no reftables, and nothing to work in.
    let host = std::process::Command::new(crate::support::host_git().program())
        .args(probe)
        .output();
    if host.is_ok_and(|done| done.status.success()) {
        exercise(&Env::at("repo".as_ref(), &["--ref-format=reftable"]));
        let both = ["--ref-format=reftable", "--object-format=sha256"];
        exercise(&Env::at("repo".as_ref(), &both));
    }
}

/// Puts a clone of the repository, made with these options, in its place.
fn reclone(env: &Env, options: &[&str]) {
    let origin = env.dir.path().join("origin");
    std::fs::rename(&env.repo, &origin).unwrap();
    for key in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        env.try_git(&origin, &["config", key, "true"]);
    }
    let url = format!("file://{}", origin.display());
    let target = env.repo.to_str().unwrap();
    let clone = [&["clone", "-q"], options, &[&url, target]].concat();
    let done = env.try_git(env.dir.path(), &clone);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    env.git(&["config", "user.name", "User"]);
    env.git(&["config", "user.email", "user@example.com"]);
}

#[test]
fn shallow_clones() {
    let env = Env::new();
    for number in 0..5 {
        env.write("n", &number.to_string());
        env.commit_all("n");
    }
    reclone(&env, &["--depth", "2"]);
    exercise(&env);
    assert!(env.repo.join(".git/shallow").exists());
}

#[test]
fn partial_clones_that_lack_objects_are_refused_in_words() {
    let env = Env::new();
    env.write("old", "gone later\n");
    env.commit_all("old");
    std::fs::remove_file(env.repo.join("old")).unwrap();
    env.commit_all("new");
    reclone(&env, &["--filter=blob:none"]);
    for strategy in [HEAD, BranchStrategy::MergeToHead] {
        refused(&env, &env.repo, strategy, &["partial clone"]);
    }
    let objects = std::fs::read_dir(env.dir.path().join("origin")).unwrap();
    assert!(objects.count() > 0);
}

#[test]
fn a_checkout_that_is_a_linked_worktree() {
    let mut env = Env::new();
    let linked = env.dir.path().join("linked");
    env.git(&["checkout", "-q", "-b", "side"]);
    env.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    env.repo = linked;
    exercise_linked(&env);
}

/// As [`exercise`], but lock files are elsewhere in a linked worktree.
fn exercise_linked(env: &Env) {
    let script = "echo $(git rev-parse --abbrev-ref HEAD) >> w; git add w; git commit -qm w";
    for strategy in [HEAD, BranchStrategy::MergeToHead] {
        let report = run(env.script(strategy, script)).unwrap();
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
    }
    env.assert_no_state();
    run(env.script(branch("feature"), script)).unwrap();
    let work = env.read("w");
    assert!(work.starts_with("main\ncofferdam/"), "{work}");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 2);
    env.git(&["fsck", "--full", "--strict", "--no-dangling"]);
}

#[test]
fn a_git_directory_behind_a_symlink() {
    let env = Env::new();
    let elsewhere = env.dir.path().join("elsewhere.git");
    std::fs::rename(env.repo.join(".git"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, env.repo.join(".git")).unwrap();
    let error = whole(&env, env.script(HEAD, "true"), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains(".git is a symlink"), "{error}");
    let options = env.script(
        BranchStrategy::MergeToHead,
        "git commit -qm x --allow-empty",
    );
    whole_ok(&env, options, &["refs/heads/main"]);
    assert_eq!(env.subjects("main"), ["first", "x"]);
    env.assert_no_state();
    // A pointer file is a different thing, and fine.
    std::fs::remove_file(env.repo.join(".git")).unwrap();
    let pointer = format!("gitdir: {}\n", elsewhere.display());
    std::fs::write(env.repo.join(".git"), pointer).unwrap();
    env.git(&["status"]);
    let options = env.script(HEAD, "git commit -qm y --allow-empty");
    let report = run(options).unwrap();
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.subjects("main"), ["first", "x", "y"]);
}
