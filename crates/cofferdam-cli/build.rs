//! Says which commit is built, for `--version`: in `COFFERDAM_VERSION`.
//!
//! Only a release build asks: else each commit would build the command and its tests anew. Without git,
//! from a tarball, or below another project's repository the version stands alone. Packagers set
//! `COFFERDAM_COMMIT`.

#![expect(
    clippy::disallowed_methods,
    reason = "the bans are the command's: a build script speaks to cargo"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=COFFERDAM_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let top = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let commit = match env::var("COFFERDAM_COMMIT") {
        Ok(given) => Some(given).filter(|given| is_commit(given)),
        Err(_) if env::var("PROFILE").is_ok_and(|profile| profile == "release") => {
            for path in head_files(&top) {
                println!("cargo::rerun-if-changed={}", path.display());
            }
            commit(&top)
        }
        Err(_) => None,
    };
    let known = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=COFFERDAM_VERSION={version}{known}");
}

/// The commit that is checked out in `top`, if that is the top of a repository.
pub(crate) fn commit(top: &Path) -> Option<String> {
    git(top, &["rev-parse", "--short=10", "HEAD"]).filter(|commit| is_commit(commit))
}

pub(crate) fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What changes when another commit is checked out or made. A file that does not exist would have this
/// script run at each build.
pub(crate) fn head_files(top: &Path) -> Vec<PathBuf> {
    let found = ["HEAD", "logs/HEAD"]
        .into_iter()
        .filter_map(|name| git(top, &["rev-parse", "--git-path", name]))
        .map(|path| top.join(path));
    found.filter(|path| path.is_file()).collect()
}

/// The line that git answers.
fn git(top: &Path, arguments: &[&str]) -> Option<String> {
    // A tarball that was unpacked inside of another project's repository is not that project.
    if !top.join(".git").exists() {
        return None;
    }
    let done = Command::new("git")
        .args(arguments)
        .current_dir(top)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .output();
    let done = done.ok().filter(|done| done.status.success())?;
    let text = String::from_utf8(done.stdout).ok()?;
    Some(text.trim_end().to_owned())
}
