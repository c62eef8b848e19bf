//! `scripts/test --mutants` removes a check of every invariant, and the tests that must notice are
//! there. Whether they do notice is said by running it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const INVARIANTS: std::ops::RangeInclusive<u32> = 1..=11;

/// The values of `field` in a patch's header.
fn header<'a>(patch: &'a str, field: &str) -> Vec<&'a str> {
    patch
        .lines()
        .take_while(|line| !line.starts_with("diff --git"))
        .filter_map(|line| line.strip_prefix(field)?.strip_prefix(": "))
        .collect()
}

fn patches() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(crate::top().join("scripts/mutants")).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    let is_patch = |path: &PathBuf| path.extension().is_some_and(|end| end == "patch");
    let mut found: Vec<PathBuf> = entries.filter(is_patch).collect();
    found.sort();
    assert!(found.len() > 50, "only {} mutants are there", found.len());
    found
}

/// Whether this patch fits the tree as it is, by the call that `scripts/test --mutants` makes.
fn applies(patch: &Path) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "a test that starts git")]
    let done = Command::new("git")
        .args(["apply", "--check", "-C1", "--whitespace=nowarn"])
        .arg(patch)
        .current_dir(crate::top())
        .output()
        .unwrap();
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// What a patch does: its files, and the lines that it takes and gives with their neighbours. Not the
/// lines' numbers, nor how much stands around them.
fn change(patch: &str) -> Vec<&str> {
    let lines: Vec<&str> = patch.lines().collect();
    let is_change = |at: usize| {
        let line = lines.get(at).copied().unwrap_or_default();
        line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
    };
    let is_part = |&at: &usize| {
        lines[at].starts_with("+++ ")
            || is_change(at)
            || (lines[at].starts_with(' ') && (is_change(at + 1) || is_change(at.wrapping_sub(1))))
    };
    (0..lines.len())
        .filter(is_part)
        .map(|at| lines[at])
        .collect()
}

/// All sources of the tests, and of the crates for their unit tests.
fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&crate::read(&path));
        }
    }
}

#[test]
fn every_invariant_has_a_mutant_and_every_mutant_a_test() {
    let mut all = String::new();
    sources(&crate::top().join("crates"), &mut all);
    let mut missing: BTreeSet<u32> = INVARIANTS.collect();
    for path in patches() {
        let (name, patch) = (path.display(), crate::read(&path));
        let invariants = header(&patch, "invariant");
        let tests = header(&patch, "test");
        assert_eq!(header(&patch, "removes").len(), 1, "{name}");
        assert!(!invariants.is_empty() && !tests.is_empty(), "{name}");
        for invariant in invariants {
            let number: u32 = invariant.parse().unwrap();
            assert!(INVARIANTS.contains(&number), "{name}: {invariant}");
            missing.remove(&number);
        }
        for test in tests {
            // A module (`silence::`), or a function of which the beginning is enough.
            let path = test.rsplit(' ').next().unwrap();
            let wanted = match path.strip_suffix("::") {
                Some(module) => format!("mod {module};"),
                None => format!("fn {}", path.rsplit("::").next().unwrap()),
            };
            assert!(all.contains(&wanted), "{name}: there is no `{wanted}`");
        }
    }
    assert!(missing.is_empty(), "no mutant of invariants {missing:?}");
}

#[test]
fn every_mutant_applies_and_no_two_are_the_same() {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<Vec<String>, PathBuf> = BTreeMap::new();
    for path in patches() {
        if let Err(why) = applies(&path) {
            problems.push(format!("{} does not apply: {why}", path.display()));
        }
        let text = crate::read(&path);
        let change: Vec<String> = change(&text).into_iter().map(str::to_owned).collect();
        assert!(change.len() > 1, "{} changes nothing", path.display());
        if let Some(same) = seen.insert(change, path.clone()) {
            let (one, other) = (same.display(), path.display());
            problems.push(format!("{one} and {other} are the same change"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_patch_that_does_not_fit_is_noticed_and_numbers_do_not_tell_patches_apart() {
    let patch = crate::read(&patches()[0]);
    let moved = patch.replace("@@ -", "@@ -1");
    assert_ne!(patch, moved);
    assert_eq!(change(&patch), change(&moved));
    let taken = patch.lines().find(|line| line.starts_with("-  ")).unwrap();
    let broken = patch.replace(taken, &format!("{taken}no such line"));
    assert_ne!(change(&patch), change(&broken));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.patch");
    #[expect(clippy::disallowed_methods, reason = "a test that writes a patch")]
    std::fs::write(&file, broken).unwrap();
    assert!(applies(&file).is_err());
}
