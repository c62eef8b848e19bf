//! The library's folders stand on one another, and no file takes anything from a folder above its own.
//!
//! The compiler lets any file use any other of a crate, so this reads what they name.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What `lib.rs` gives on to users of the crate, all of it from `session`.
const GIVEN_ON: [&str; 4] = ["RunError", "RunOptions", "RunReport", "run"];

/// From the ground up: a folder, and the folders that its files may use beside their own. Files that are in none
/// are the ground that all stand on.
const FOLDERS: &[(&str, &[&str])] = &[
    ("prompt", &[]),
    ("agent", &[]),
    ("config", &[]),
    ("git", &[]),
    ("registry", &["git"]),
    ("wall", &["config", "registry"]),
    ("sandbox", &["wall"]),
    (
        "session",
        &[
            "prompt", "agent", "config", "git", "registry", "wall", "sandbox",
        ],
    ),
];

#[test]
fn no_file_uses_a_folder_above_its_own() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut wrong, mut folders) = (Vec::new(), BTreeSet::new());
    for file in files_below(&source) {
        let path = file.strip_prefix(&source).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        // It has them all, and uses none.
        if path == Path::new("lib.rs") {
            let given_on = text.lines().filter(|line| line.starts_with("pub use "));
            let known = format!("pub use session::{{{}}};", GIVEN_ON.join(", "));
            assert_eq!(given_on.collect::<Vec<_>>(), [known]);
            continue;
        }
        let path = path.to_str().unwrap();
        folders.extend(folder_of(path).map(str::to_owned));
        wrong.extend(upwards(path, &text));
    }
    assert_eq!(wrong, <[String; 0]>::default());
    // A folder that nobody has put on a floor would pass for ground, and one that is gone for a floor.
    let listed = FOLDERS.iter().map(|(folder, _)| (*folder).to_owned());
    let listed: BTreeSet<_> = listed.collect();
    assert_eq!(folders, listed);
}

/// The control: the search finds what is wrong, however it is written, and the list goes one way.
#[test]
fn what_goes_upwards_is_found() {
    let found = |path: &str, text: &str| upwards(path, text).len();
    let ways = [
        "use crate::session::Event;",
        "pub(crate) use crate::session;",
        "use crate::{fsx, session::{self, Event}};",
        "use crate::{\n    fsx,\n    sandbox,\n};",
        "    let event = crate::session::Event::Planned;",
        "use super::super::session::Event;",
        "    use super::super::super::session::Event;",
        "use crate::{RunReport, names};",
    ];
    for text in ways {
        assert_eq!(found("git/refs.rs", text), 1, "{text}");
        assert_eq!(found("git/land/mod.rs", text), 1, "{text}");
    }
    assert_eq!(found("git/mod.rs", "use super::session::Event;"), 1);
    assert_eq!(found("text.rs", "use crate::git::Oid;"), 1);
    let fine = "//! See [`crate::session`].\nuse crate::git::Oid;\nuse crate::text::printable;\nuse super::session;";
    assert_eq!(found("git/refs.rs", fine), 0);
    for (at, (folder, below)) in FOLDERS.iter().enumerate() {
        let lower = |one: &&str| FOLDERS[..at].iter().any(|(other, _)| other == one);
        assert!(below.iter().all(lower), "{folder}");
    }
}

/// What a file names that it may not, one sentence each.
fn upwards(path: &str, text: &str) -> Vec<String> {
    let own = folder_of(path);
    let below = FOLDERS.iter().find(|(folder, _)| Some(*folder) == own);
    let below = below.map_or(&[][..], |(_, below)| below);
    let is_above = |name: &&str| {
        let is_folder = FOLDERS.iter().any(|(folder, _)| folder == name);
        is_folder && Some(*name) != own && !below.contains(name)
    };
    let named = named(path, text);
    let named = named.iter().map(String::as_str).filter(is_above);
    named
        .map(|name| format!("src/{path} uses {name}"))
        .collect()
}

/// The folder below `src` that a file is in. One beside a file of its name holds parts of that file.
fn folder_of(path: &str) -> Option<&str> {
    let first = path.split_once('/')?.0;
    let file = format!("{}/src/{first}.rs", env!("CARGO_MANIFEST_DIR"));
    (!Path::new(&file).exists()).then_some(first)
}

/// What the file takes from the top of the crate.
fn named(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start);
    let code: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
    let code = code.join(" ");
    // So many lead there from the file itself, and more from a module in it.
    let depth = path.trim_end_matches("/mod.rs").split('/').count();
    let mut found = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "_:$".contains(before)) {
                continue;
            }
            let tree = code[at + root.len()..].trim_start_matches("super::");
            for name in firsts(tree) {
                let is_given_on = root == "crate::" && GIVEN_ON.contains(&name.as_str());
                found.push(if is_given_on { "session".into() } else { name });
            }
        }
    }
    found
}

/// The first part of each path of a use tree.
fn firsts(tree: &str) -> Vec<String> {
    let word = |text: &str| {
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        text.trim_start().chars().take_while(is_part).collect()
    };
    let Some(group) = tree.strip_prefix('{') else {
        return vec![word(tree)];
    };
    let mut found = vec![word(group)];
    let mut open = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return found,
            '}' => open -= 1,
            ',' if open == 0 => found.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    panic!("a use tree without an end: {tree}");
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
