//! Files and folders that the repository's texts name are there.

use std::path::{Path, PathBuf};

/// The texts, and what their names may be relative to besides the repository's top. A folder: all texts in it.
const TEXTS: [(&str, &[&str]); 6] = [
    ("README.md", &[]),
    (
        "ARCHITECTURE.md",
        &["crates/cofferdam/src", "crates/cofferdam-cli/src"],
    ),
    ("CONTRIBUTING.md", &[]),
    ("docs/threat-model.md", &["docs"]),
    ("docs/benchmarks.md", &["docs"]),
    (
        "docs/decisions",
        &[
            "docs/decisions",
            "crates/cofferdam/src",
            "crates/cofferdam-cli/src",
        ],
    ),
];

/// First components of the repository's own paths: other code spans are commands and user files.
const OURS: [&str; 7] = [
    "crates", "docs", "scripts", ".ci", "session", "git", "sandbox",
];

/// Code spans and link targets of `markdown` that look like a path of this repository.
fn named(markdown: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in markdown.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2);
        let links = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for text in spans.chain(links) {
            let is_path = text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
            let first = text.split('/').next().unwrap_or_default();
            let is_ours = OURS.contains(&first) && text.contains('/');
            let is_text = text
                .rsplit('.')
                .next()
                .is_some_and(|ext| ["md", "toml"].contains(&ext));
            if is_path && (is_ours || is_text || is_source(text)) {
                found.push(text.to_owned());
            }
        }
    }
    found
}

/// Named by the end of its path: the text says before which crate and folder it speaks of.
fn is_source(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

#[test]
fn named_files_exist() {
    let top = crate::top();
    let sources = sources(&top.join("crates"));
    let mut missing = Vec::new();
    let mut seen = 0;
    for (place, bases) in TEXTS {
        for file in texts(&top.join(place)) {
            for name in named(&crate::read(&file)) {
                seen += 1;
                let mut places = std::iter::once("").chain(bases.iter().copied());
                let is_a_source = || sources.iter().any(|path| path.ends_with(&name));
                let is_there = places.any(|base| top.join(base).join(&name).exists())
                    || is_source(&name) && is_a_source();
                if !is_there {
                    missing.push(format!("{}: `{name}`", file.display()));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "named but not there:\n{}",
        missing.join("\n")
    );
    assert!(
        seen > 120,
        "the texts name too little to be checked: {seen}"
    );
}

pub(crate) fn texts(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.to_owned()];
    }
    let all = std::fs::read_dir(place).unwrap();
    all.map(|entry| entry.unwrap().path()).collect()
}

pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// A page that the list does not name is found by nobody.
#[test]
fn decisions_are_listed() {
    let folder = crate::top().join("docs/decisions");
    let list = crate::read(&folder.join("README.md"));
    let listed: Vec<_> = list
        .lines()
        .filter(|line| line.starts_with("- ["))
        .collect();
    let mut pages: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .map(|name| {
            let text = crate::read(&folder.join(&name));
            let (number, title) = text.lines().next().unwrap().split_once(". ").unwrap();
            assert_eq!(
                format!("# {}", name[..4].trim_start_matches('0')),
                number,
                "{name}"
            );
            format!("- [{}]({name}) {title}", &name[..4])
        })
        .collect();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn names_are_found_in_spans_and_links() {
    let text = "see `crates/x/a.rs`, `b/c.rs`, [b](docs/b.md) and `cofferdam run`\n```\n`docs/no.md`\n```\n`~/.x/y`";
    assert_eq!(named(text), ["crates/x/a.rs", "b/c.rs", "docs/b.md"]);
}
