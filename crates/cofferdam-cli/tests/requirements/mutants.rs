//! `scripts/test --mutants` removes a check of every invariant, and the tests that must notice are
//! there. Whether they do notice is said by running it.

use std::collections::BTreeSet;
use std::path::Path;

const INVARIANTS: std::ops::RangeInclusive<u32> = 1..=11;

/// The values of `field` in a patch's header.
fn header<'a>(patch: &'a str, field: &str) -> Vec<&'a str> {
    patch
        .lines()
        .take_while(|line| !line.starts_with("diff --git"))
        .filter_map(|line| line.strip_prefix(field)?.strip_prefix(": "))
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
    for entry in std::fs::read_dir(crate::top().join("scripts/mutants")).unwrap() {
        let path = entry.unwrap().path();
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
