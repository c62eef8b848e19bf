//! `docs/requirements.toml`: one line for each requirement.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// `S2-17`: ordered as a person counts, so that S2-9 comes before S2-17.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id(String);

impl Id {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The document, "S2".
    pub(crate) fn section(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// Words and the numbers behind them: "S4-FR2.9" is ("S", 4), ("-FR", 2), (".", 9).
    fn order(&self) -> Vec<(String, u32)> {
        let mut parts = Vec::new();
        let mut rest = self.0.as_str();
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (word, tail) = rest.split_at(digits);
            let end = tail
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(tail.len());
            parts.push((word.to_owned(), tail[..end].parse().unwrap_or_default()));
            rest = &tail[end..];
        }
        parts
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requirement {
    /// The piece of work that covers it.
    pub(crate) area: String,
    pub(crate) text: String,
    /// Where and why ours differs on purpose.
    pub(crate) deviation: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    ended: Vec<String>,
    #[serde(rename = "S1")]
    s1: BTreeMap<String, Requirement>,
    #[serde(rename = "S2")]
    s2: BTreeMap<String, Requirement>,
    #[serde(rename = "S3")]
    s3: BTreeMap<String, Requirement>,
    #[serde(rename = "S4")]
    s4: BTreeMap<String, Requirement>,
}

#[derive(Debug)]
pub(crate) struct Register {
    /// Areas whose work has ended.
    pub(crate) ended: Vec<String>,
    pub(crate) requirements: BTreeMap<Id, Requirement>,
}

pub(crate) fn parse(text: &str) -> Result<Register, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let sections = [
        ("S1", file.s1),
        ("S2", file.s2),
        ("S3", file.s3),
        ("S4", file.s4),
    ];
    let requirements: BTreeMap<Id, Requirement> = sections
        .into_iter()
        .flat_map(|(section, rows)| {
            rows.into_iter()
                .map(move |(key, row)| (Id::new(format!("{section}-{key}")), row))
        })
        .collect();
    for area in &file.ended {
        if !requirements.values().any(|row| row.area == *area) {
            return Err(format!(
                "`{area}` ended, but no requirement is in that area"
            ));
        }
    }
    for (id, row) in &requirements {
        for text in [Some(&row.text), row.deviation.as_ref()]
            .into_iter()
            .flatten()
        {
            if text.trim().is_empty() || text.contains(['|', '\n']) {
                return Err(format!(
                    "{id}: empty text, or a `|` or line feed that breaks its table"
                ));
            }
        }
    }
    Ok(Register {
        ended: file.ended,
        requirements,
    })
}

#[test]
fn ids_are_ordered_as_a_person_counts() {
    let mut ids = [
        "S2-17",
        "S2-9",
        "S1-140",
        "S4-FR10.2",
        "S4-FR2.10",
        "S4-FR2.9",
        "S4-AC1.1",
    ]
    .map(Id::new);
    ids.sort();
    let sorted = ids.map(|id| id.to_string());
    assert_eq!(
        sorted,
        [
            "S1-140",
            "S2-9",
            "S2-17",
            "S4-AC1.1",
            "S4-FR2.9",
            "S4-FR2.10",
            "S4-FR10.2"
        ]
    );
}

#[test]
fn a_mistyped_field_is_an_error() {
    let good = "ended = []\n[S1]\n1 = { area = \"a\", text = \"b\" }\n[S2]\n[S3]\n[S4]\n";
    assert_eq!(parse(good).unwrap().requirements.len(), 1);
    assert!(parse(&good.replace("text =", "test =")).is_err());
    assert!(parse(&good.replace("[]", "[\"none\"]")).is_err());
    assert!(parse(&good.replace("\"b\"", "\"b|c\"")).is_err());
}
