//! Scripts of a repository that a command runs: who approves the command has seen them as they are.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::fsx::beneath;
use crate::text::hex;

/// The largest one in bytes; of what is larger only the name counts.
const LARGEST: u64 = 16 << 20;

/// Programs that run the file after their options.
const RUN_A_FILE: [&str; 17] = [
    ".", "bash", "command", "dash", "deno", "env", "exec", "node", "nice", "perl", "python",
    "python3", "ruby", "sh", "source", "time", "zsh",
];

/// The regular files below `top` that the command runs by a path, with the SHA-256 of each in hex digits: as a program of its own, as the
/// script of another one, or by a path that begins with `./`. What else a command reads, and what those files run, is not looked for.
pub fn named_files(top: &Path, command: &str) -> BTreeMap<String, String> {
    let Ok(root) = beneath::root(top) else {
        return BTreeMap::new();
    };
    let digests = words(command).filter_map(|word| {
        let bytes = beneath::read(&root, Path::new(&word), LARGEST).ok()??;
        Some((word, hex(&Sha256::digest(&bytes))))
    });
    digests.collect()
}

/// Paths, without `.` in them, of what a line for a shell may run.
fn words(command: &str) -> impl Iterator<Item = String> {
    let begins = |c: char| "\n\"'`;|&<>()$".contains(c);
    command.split(begins).flat_map(|simple| {
        let mut is_next = true;
        let mut runs = move |word: &str| {
            let runs = is_next || word.starts_with("./");
            // Before a program stand variables of it, before a script options.
            let goes_on = word.contains('=') || word.starts_with('-') || RUN_A_FILE.contains(&word);
            is_next &= goes_on;
            runs
        };
        simple
            .split_whitespace()
            .filter(move |word| runs(word))
            .filter_map(plain)
    })
}

fn plain(word: &str) -> Option<String> {
    let parts = Path::new(word).components();
    let parts = parts.filter(|part| *part != Component::CurDir);
    let path: Option<PathBuf> = parts
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let text = path?.to_str()?.to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_it_runs() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("ci")).unwrap();
        for (path, text) in [("ci/check.sh", "one"), ("run", "two")] {
            crate::fsx::write_private(&top.path().join(path), text.as_bytes()).unwrap();
        }
        std::os::unix::fs::symlink("run", top.path().join("link")).unwrap();
        let named = |command: &str| {
            let found = named_files(top.path(), command).into_keys();
            found.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named("./ci/check.sh --all"), "ci/check.sh");
        for both in [
            "sh -c 'ci/check.sh && CONF=a run'",
            "bash -e ci/check.sh; python3 run ci/check.sh",
            "timeout 60 ./run && (ci/check.sh)",
        ] {
            assert_eq!(named(both), "ci/check.sh run", "{both}");
        }
        for nothing in [
            "make test",
            "ci",
            "link",
            "/etc/passwd",
            "../run",
            "./",
            ".",
            "test -e run",
            "python3 -m run/x ci/check.sh",
        ] {
            assert_eq!(named(nothing), "", "{nothing}");
        }
        let digest = named_files(top.path(), "run").remove("run").unwrap();
        assert_eq!(
            digest,
            "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
        );
    }
}
