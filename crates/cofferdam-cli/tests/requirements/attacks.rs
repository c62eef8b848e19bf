//! Each attack on a sandbox has something that tries it: `docs/attacks.md` against the sources that it names.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// What was to be tried of a sandbox. Other numbers are about other things.
const NUMBERS: [RangeInclusive<u32>; 3] = [1..=76, 78..=95, 121..=135];

/// The numbers of a row, and what is named in it.
fn row(line: &str) -> Option<(RangeInclusive<u32>, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let (numbers, _, tried) = (cells.next()?, cells.next()?, cells.next()?);
    let (first, last) = numbers.split_once(" to ").unwrap_or((numbers, numbers));
    let numbers = first.parse().ok()?..=last.parse().ok()?;
    Some((numbers, tried.split('`').skip(1).step_by(2).collect()))
}

/// Whether the sources have a check or a test of this name.
fn is_there(name: &str) -> bool {
    let Some((place, name)) = name.rsplit_once("::") else {
        return false;
    };
    let top = crate::top().join("crates");
    if place == "conformance" {
        let file = top.join("cofferdam/src/sandbox/conformance/mod.rs");
        return crate::read(&file).contains(&format!("::{name} ["));
    }
    let file = top.join(place);
    if !file.is_file() {
        return false;
    }
    // Of the attacks on the wall one test runs a table.
    if let Some(module) = place.strip_prefix(WALL) {
        let called = format!("{}::{name}", module.trim_end_matches(".rs"));
        let callers = ["table.rs", "main.rs"].map(|one| crate::read(&top.join(WALL).join(one)));
        return callers.iter().any(|text| text.contains(&called));
    }
    is_test(&crate::read(&file), name)
}

const WALL: &str = "cofferdam-cli/tests/wall/";

/// Whether this function is a test, by what stands above it, or by the macro that it is in and that makes tests of it.
fn is_test(source: &str, name: &str) -> bool {
    let wanted = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_it =
        |line: &&str| line.starts_with(&wanted) || line.starts_with(&format!("async {wanted}"));
    let Some(at) = lines.iter().position(is_it) else {
        return false;
    };
    let above = lines[..at].iter().rev();
    let mut own = above
        .clone()
        .take_while(|line| line.starts_with("//") || line.starts_with("#["));
    let around = above
        .clone()
        .find(|line| !line.starts_with("//") && !line.starts_with("#["));
    own.any(|line| ["#[test]", "#[tokio::test]"].contains(line))
        || around.is_some_and(|line| ["each! {", "both! {"].contains(line))
}

#[test]
fn every_attack_is_tried_by_something_that_is_there() {
    let table = crate::read(&crate::top().join("docs/attacks.md"));
    let rows: Vec<_> = table.lines().filter_map(row).collect();
    let mut found = BTreeSet::new();
    for (numbers, names) in rows {
        assert!(!names.is_empty(), "nothing tries {numbers:?}");
        for name in names {
            assert!(is_there(name), "{numbers:?}: there is no `{name}`");
        }
        found.extend(numbers);
    }
    let wanted: BTreeSet<u32> = NUMBERS.into_iter().flatten().collect();
    assert_eq!(found, wanted);
}

#[test]
fn what_is_not_there_is_noticed() {
    assert!(is_there("conformance::memory_is_bounded"));
    assert!(!is_there("conformance::memory_is"));
    assert!(!is_there("conformance::is_bounded"));
    assert!(!is_there(
        "cofferdam/tests/engines/attacks.rs::no_such_test"
    ));
    assert!(!is_there("cofferdam/tests/no_such_file.rs::run"));
    // One that some test calls is none.
    assert!(is_test("/// Says\n#[test]\n#[cfg(unix)]\nfn a() {\n", "a"));
    assert!(is_test(
        "each! {\n    /// Says\n    async fn a(world: World) {\n",
        "a"
    ));
    assert!(!is_test("#[test]\nfn b() {\n}\n\nfn a() {\n", "a"));
    assert!(!is_there(
        "cofferdam-cli/tests/requirements/attacks.rs::is_test"
    ));
    assert!(!is_there(
        "cofferdam-cli/tests/wall/table.rs::no_such_attack"
    ));
    assert!(row("| number | attack | tried by |").is_none());
    assert!(row("| 7 | a | nothing |").is_some_and(|(_, names)| names.is_empty()));
}
