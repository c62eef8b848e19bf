//! `docs/requirements-map.md`: requirement, deviation, and the tests or the area that cover it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::register::{Id, Register};
use crate::tags::Claim;

/// What is wrong with the claims: unknown ids, and ids of ended areas that nothing covers.
fn problems(register: &Register, claims: &[Claim]) -> Vec<String> {
    let mut problems = Vec::new();
    for claim in claims {
        if !register.requirements.contains_key(&claim.id) {
            problems.push(format!(
                "{}: there is no requirement {}",
                claim.test, claim.id
            ));
        }
    }
    let claimed: BTreeSet<&Id> = claims.iter().map(|claim| &claim.id).collect();
    for (id, row) in &register.requirements {
        let covered = claimed.contains(id) || row.deviation.is_some();
        if register.ended.contains(&row.area) && !covered {
            problems.push(format!(
                "{id} ({}): no test covers it and no deviation is named",
                row.text
            ));
        }
    }
    problems
}

fn render(register: &Register, claims: &[Claim]) -> String {
    let mut tests: BTreeMap<&Id, BTreeSet<&str>> = BTreeMap::new();
    for claim in claims {
        tests.entry(&claim.id).or_default().insert(&claim.test);
    }
    let mut out = String::from(
        "# Requirements map\n\n\
         Generated from `requirements.toml` and the `covers:` comments of the tests; do not edit.\n\
         The last column names the tests that cover a line, or the area of work that will.\n\n\
         | area | lines | with a test | with a deviation | ended |\n|---|---:|---:|---:|---|\n",
    );
    let areas: BTreeSet<&str> = register
        .requirements
        .values()
        .map(|row| &*row.area)
        .collect();
    for area in areas {
        let rows = || {
            register
                .requirements
                .iter()
                .filter(move |(_, row)| row.area == area)
        };
        let _ = writeln!(
            out,
            "| {area} | {} | {} | {} | {} |",
            rows().count(),
            rows().filter(|(id, _)| tests.contains_key(id)).count(),
            rows().filter(|(_, row)| row.deviation.is_some()).count(),
            if register.ended.iter().any(|ended| ended == area) {
                "yes"
            } else {
                ""
            },
        );
    }
    let mut section = "";
    for (id, row) in &register.requirements {
        if id.section() != section {
            section = id.section();
            let _ = write!(
                out,
                "\n## {section}\n\n| id | what | ours differs | covered by |\n|---|---|---|---|\n"
            );
        }
        let covered = match tests.get(id) {
            Some(tests) => tests
                .iter()
                .map(|test| format!("`{test}`"))
                .collect::<Vec<_>>()
                .join("<br>"),
            None => format!("*{}*", row.area),
        };
        let deviation = row.deviation.as_deref().unwrap_or_default();
        let _ = writeln!(out, "| {id} | {} | {deviation} | {covered} |", row.text);
    }
    out
}

#[test]
fn every_line_of_an_ended_area_is_covered_and_the_map_is_current() {
    let top = crate::top();
    let register =
        crate::register::parse(&crate::read(&top.join("docs/requirements.toml"))).unwrap();
    let claims = crate::tags::scan(&top).unwrap_or_else(|errors| panic!("{}", errors.join("\n")));
    let problems = problems(&register, &claims);
    assert!(problems.is_empty(), "{}", problems.join("\n"));

    let path = top.join("docs/requirements-map.md");
    let want = render(&register, &claims);
    #[expect(
        clippy::disallowed_methods,
        reason = "the one switch that rewrites generated texts"
    )]
    if std::env::var_os("COFFERDAM_UPDATE").is_some() {
        std::fs::write(&path, &want).unwrap();
    }
    assert!(
        crate::read(&path) == want,
        "docs/requirements-map.md is stale: run \
         `COFFERDAM_UPDATE=1 cargo test -p cofferdam-cli --test requirements`"
    );
}

#[cfg(test)]
const REGISTER: &str = "ended = [\"done\"]\n[S1]\n\
    1 = { area = \"done\", text = \"tested\" }\n\
    2 = { area = \"done\", text = \"differs\", deviation = \"on purpose\" }\n\
    3 = { area = \"later\", text = \"not yet\" }\n[S2]\n[S3]\n[S4]\n";

#[cfg(test)]
fn claim(id: &str) -> Claim {
    Claim {
        id: Id::new(id),
        test: "f.rs::t".to_owned(),
    }
}

#[test]
fn uncovered_and_unknown_ids_are_problems() {
    let register = crate::register::parse(REGISTER).unwrap();
    assert!(problems(&register, &[claim("S1-1")]).is_empty());
    assert_eq!(problems(&register, &[]).len(), 1);
    assert_eq!(
        problems(&register, &[claim("S1-1"), claim("S9-1")]).len(),
        1
    );
}

#[test]
fn the_map_names_tests_deviations_and_areas() {
    let map = render(&crate::register::parse(REGISTER).unwrap(), &[claim("S1-1")]);
    assert!(
        map.contains("| done | 2 | 1 | 1 | yes |\n| later | 1 | 0 | 0 |  |\n"),
        "{map}"
    );
    assert!(map.contains("| S1-1 | tested |  | `f.rs::t` |\n"), "{map}");
    assert!(
        map.contains("| S1-2 | differs | on purpose | *done* |\n"),
        "{map}"
    );
    assert!(map.contains("| S1-3 | not yet |  | *later* |\n"), "{map}");
}
