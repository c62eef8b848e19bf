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

/// Whether the sources have a check or a function of this name.
fn is_there(name: &str) -> bool {
    let Some((place, name)) = name.rsplit_once("::") else {
        return false;
    };
    let top = crate::top().join("crates");
    let (file, wanted) = match place {
        "conformance" => {
            let file = top.join("cofferdam/src/sandbox/conformance/mod.rs");
            (file, format!("::{name} ["))
        }
        path => (top.join(path), format!("fn {name}(")),
    };
    file.is_file() && crate::read(&file).contains(&wanted)
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
    assert!(row("| number | attack | tried by |").is_none());
    assert!(row("| 7 | a | nothing |").is_some_and(|(_, names)| names.is_empty()));
}
