//! What the build script finds out for `--version`, in directories as packagers and users have them.

use std::path::Path;

use crate::environment::TestEnvironment;

#[path = "../../build.rs"]
#[expect(
    dead_code,
    clippy::print_stdout,
    reason = "the script's `main` speaks to cargo"
)]
mod script;

fn top(environment: &TestEnvironment) -> std::path::PathBuf {
    environment.repository()
}

#[test]
fn a_checkout_knows_its_commit() {
    let environment = TestEnvironment::with_repository();
    let top = top(&environment);
    let commit = script::commit(&top).unwrap();
    assert_eq!(
        commit,
        environment.git(&["rev-parse", "--short=10", "HEAD"])
    );
    // Neither does a dirty tree stand in the way.
    environment.write("README.md", "changed\n");
    assert_eq!(script::commit(&top), Some(commit));
    // The script runs again at the next commit, and not before: all of these exist.
    let watched = script::head_files(&top);
    assert_eq!(watched.len(), 2, "{watched:?}");
    assert!(watched.iter().all(|path| path.is_file()));
    environment.git(&["worktree", "add", "--quiet", "../tmp/tree"]);
    assert_eq!(
        script::head_files(&environment.temporary().join("tree")).len(),
        2
    );
}

#[test]
fn a_tarball_has_none_even_inside_of_another_project() {
    let environment = TestEnvironment::with_repository();
    environment.write("vendor/cofferdam/README.md", "unpacked\n");
    let unpacked = top(&environment).join("vendor/cofferdam");
    assert_eq!(script::commit(&unpacked), None);
    assert_eq!(
        script::head_files(&unpacked),
        Vec::<std::path::PathBuf>::new()
    );
    assert_eq!(script::commit(Path::new("/nonexistent")), None);
}

#[test]
fn only_a_commit_is_one() {
    assert!(script::is_commit("0123456789"));
    for text in [
        "",
        "unknown",
        "012345",
        "0123456789\n",
        "fatal: not a git repository",
    ] {
        assert!(!script::is_commit(text), "{text:?}");
    }
}
