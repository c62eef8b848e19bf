//! Files of a repository that a command names: who approves the command has seen them as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::fsx::beneath;
use crate::text::hex;

/// The largest one in bytes that is read; of what is larger, or a link, only the name counts.
const LARGEST: u64 = 1 << 20;
/// So many different words one command may have: each may be a file, and is looked for.
pub(super) const MOST: usize = 1000;

/// So many directories of one command are gone to.
const MOST_PLACES: usize = 8;

/// The files below `top` that are words of the command, with the SHA-256 of each in hex digits, or what else it is. What those read and
/// run in turn is not looked for.
pub fn named_files(top: &Path, command: &str) -> BTreeMap<String, String> {
    let Ok(root) = beneath::root(top) else {
        return BTreeMap::new();
    };
    let found = words(command).into_iter().filter_map(|word| {
        let path = Path::new(&word);
        let there = top.join(path).symlink_metadata().ok()?;
        let what = match beneath::read(&root, path, LARGEST) {
            Ok(Some(bytes)) => hex(&Sha256::digest(&bytes)),
            _ if there.is_symlink() => "of what its link leads to".to_owned(),
            _ if there.is_dir() => return None,
            _ => "that is not read".to_owned(),
        };
        Some((word, what))
    });
    found.collect()
}

/// What of a line for a shell may be paths, without `.` in them; also below the directories that it goes to.
pub(crate) fn words(command: &str) -> BTreeSet<String> {
    let words = command.split(|c: char| c.is_whitespace() || "\"'`;|&<>(){}=$!".contains(c));
    let mut found = BTreeSet::new();
    let mut places: Vec<String> = Vec::new();
    let mut goes = false;
    for word in words.filter(|word| !word.is_empty()) {
        // Its options say nothing of where it goes.
        if goes && word.starts_with('-') {
            continue;
        }
        let was_going = std::mem::replace(&mut goes, word == "cd");
        let Some(path) = plain(word) else {
            continue;
        };
        let below = places.iter().map(|place| format!("{place}/{path}"));
        let mut all: Vec<String> = below.collect();
        all.push(path);
        if was_going {
            let new: Vec<String> = all
                .iter()
                .filter(|one| !places.contains(one))
                .cloned()
                .collect();
            places.extend(new);
            places.truncate(MOST_PLACES);
        }
        found.extend(all);
    }
    found
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
    fn a_command_names_what_is_there() {
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
            "sh -c 'ci/check.sh && CONF=run true'",
            "bash -eo pipefail ci/check.sh; python3.12 run ci/check.sh",
            "timeout 60 ./run && (ci/check.sh)",
            "if ci/check.sh; then ! run; fi",
        ] {
            assert_eq!(named(both), "ci/check.sh run", "{both}");
        }
        assert_eq!(named("cd ci && sh ./check.sh"), "ci/check.sh");
        assert_eq!(named("cd ./ci; sh check.sh run"), "ci/check.sh run");
        std::fs::create_dir_all(top.path().join("tools/ci")).unwrap();
        crate::fsx::write_private(&top.path().join("tools/ci/deep.sh"), b"x").unwrap();
        for deep in [
            "cd tools && cd ci && sh deep.sh",
            "cd tools; cd -- ci; sh deep.sh",
        ] {
            assert_eq!(named(deep), "tools/ci/deep.sh");
        }
        for nothing in ["make test", "ci", "/etc/passwd", "../run", "./", "."] {
            assert_eq!(named(nothing), "", "{nothing}");
        }
        let digest = named_files(top.path(), "run").remove("run").unwrap();
        assert_eq!(
            digest,
            "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
        );
        assert_eq!(named("link"), "link");
        // One that is named very often is read once, and no word is too late to be one.
        let often = "./run ".repeat(300_000);
        assert_eq!(named(&often), "run");
        let late: String = (0..MOST).map(|number| format!("word-{number}\n")).collect();
        assert_eq!(named(&format!("{late}ci/check.sh")), "ci/check.sh");
    }
}
