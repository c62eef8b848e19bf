//! Files and folders that the repository's texts name are there.

/// The texts, and what their names may be relative to besides the repository's top.
const TEXTS: [(&str, &[&str]); 4] = [
    ("README.md", &[]),
    (
        "ARCHITECTURE.md",
        &["crates/cofferdam/src", "crates/cofferdam-cli/src"],
    ),
    ("CONTRIBUTING.md", &[]),
    ("docs/threat-model.md", &["docs"]),
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
            if is_path && (is_ours || is_text) {
                found.push(text.to_owned());
            }
        }
    }
    found
}

#[test]
fn named_files_exist() {
    let top = crate::top();
    let mut missing = Vec::new();
    let mut seen = 0;
    for (file, bases) in TEXTS {
        for name in named(&crate::read(&top.join(file))) {
            seen += 1;
            let mut places = std::iter::once("").chain(bases.iter().copied());
            if !places.any(|base| top.join(base).join(&name).exists()) {
                missing.push(format!("{file}: `{name}`"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "named but not there:\n{}",
        missing.join("\n")
    );
    assert!(seen > 20, "the texts name too little to be checked: {seen}");
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
    let text =
        "see `crates/x/a.rs`, [b](docs/b.md) and `cofferdam run`\n```\n`docs/no.md`\n```\n`~/.x/y`";
    assert_eq!(named(text), ["crates/x/a.rs", "docs/b.md"]);
}
