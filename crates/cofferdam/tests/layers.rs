//! The library's folders stand on one another, and no file takes anything from a folder above its own.
//!
//! The compiler lets any file use any other of a crate, so this reads what they name.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What `lib.rs` gives on to users of the crate, all of it from `session`.
const GIVEN_ON: [&str; 5] = ["RunError", "RunOptions", "RunReport", "interactive", "run"];

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
    ("image", &["wall", "sandbox"]),
    ("sync", &["config", "sandbox"]),
    ("volumes", &["registry"]),
    ("runs", &["agent", "registry"]),
    (
        "session",
        &[
            "prompt", "agent", "config", "git", "registry", "wall", "sandbox", "sync", "volumes",
            "runs",
        ],
    ),
    (
        "plan",
        &["agent", "config", "git", "registry", "sandbox", "session"],
    ),
];

// covers: S4-D3
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

/// Within a crate, a folder and those that stand on it: it names none of them.
const FLOORS: &[(&str, &str, &[&str])] = &[
    (
        "cofferdam",
        "session/plan",
        &["prepare", "collect", "living"],
    ),
    (
        "cofferdam",
        "session/prepare",
        &["collect", "manage", "living"],
    ),
    (
        "cofferdam",
        "session/collect",
        &["plan", "prepare", "manage", "living"],
    ),
    ("cofferdam-cli", "ui", &["commands"]),
    ("cofferdam-cli", "error", &["commands"]),
    ("cofferdam-wall", "dns", &["gateway", "supervisor"]),
    ("cofferdam-wall", "gateway", &["supervisor"]),
];

#[test]
fn folders_of_a_crate_stand_on_one_another() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, folder, above) in FLOORS {
        let files = files_below(&crates.join(name).join("src").join(folder));
        assert!(files.len() > 1, "{name}: {folder}");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for upper in *above {
                assert!(!names(&text, upper), "{} names {upper}", file.display());
            }
        }
    }
}

/// The control.
#[test]
fn a_folder_that_names_one_above_is_found() {
    for text in [
        "use crate::session::manage::gc;",
        "    super::manage::gc(&home)",
        "use crate::session::{self, collect, manage::gc};",
        "use super::{\n    emitter,\n    manage,\n};",
    ] {
        assert!(names(text, "manage"), "{text}");
    }
    let fine = "//! See [`super::manage`].\nuse crate::other_manage::x;\nlet manage = 1;\nmanage(super::x);";
    assert!(!names(fine, "manage"));
}

/// Whether code takes something from the module `name` by a path that leads out of its own.
fn names(text: &str, name: &str) -> bool {
    let text = without_tests(text);
    ["crate::", "super::"].iter().any(|root| {
        text.match_indices(root).any(|(at, _)| {
            let path = text[at..].split([';', '(', ' ']).next().unwrap_or_default();
            let tree = text[at..].split(';').next().unwrap_or_default();
            let whole = if path.ends_with('{') || path.contains("::{") {
                tree
            } else {
                path
            };
            let mut words = whole.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| word == name)
        })
    })
}

/// Git is called by its folder alone, and what lies in a git directory has its name there.
#[test]
fn a_session_leaves_git_to_its_folder() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in files_below(&source.join("session")) {
        let path = file.strip_prefix(&source).unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        wrong.extend(git_by_hand(path, &text));
    }
    assert_eq!(wrong, <[String; 0]>::default());
}

/// The control, and what is no such thing: what a sandbox's own git does, and a checkout's `.git`.
#[test]
fn git_by_hand_is_found() {
    for text in [
        "    let done = Command::new(\"git\").arg(\"status\").output();",
        "    Invocation::new(\"/usr/bin/git\", directory)",
        "    let line = repo.command().args([\"rev-parse\"]).line(cancel).await?;",
        "    repo.command_in_tree()",
        "use crate::git::command::GitCommand;",
        "    let git = state.join(\"git\");",
        "    let git = state\n        .join(\"git/index\");",
        "    (state.join(\"vault\"), INSIDE_VAULT.into()),",
        "    let shallow = repo.common_dir.join(\"shallow\");",
        "    let path = Path::new(\"/.cofferdam/git/objects\");",
    ] {
        let found = git_by_hand("session/run.rs", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
    let fine = "// As `repo.command()` did.\n    let clone = PrivateClone::at(state);\n    repo.resolve(name, cancel).await?;\n\
                arguments: [\"git\", \"reset\", \"--hard\"],\n    let dot_git = workspace.join(\".git\");\n\
                self.agent.command(&self.request)?;\nmod tests {\n    let git = Command::new(\"git\");";
    let fine = fine.replace("mod tests", "#[cfg(test)]\nmod tests");
    assert_eq!(
        git_by_hand("session/run.rs", &fine),
        <[String; 0]>::default()
    );
}

/// How a file calls git, or names what is in a git directory, past the folder that does, one sentence each.
fn git_by_hand(path: &str, text: &str) -> Vec<String> {
    let code = without_tests(text).replace(" .join(", ".join(");
    let calls = ["Command", "Invocation"]
        .iter()
        .flat_map(|starter| ["", "/usr/bin/"].map(|at| format!("{starter}::new(\"{at}git\"")));
    let hardened = [".command()", ".command_in_tree()", "GitCommand"];
    let inside = ["\"/.cofferdam/git", "\"/.cofferdam/vault"];
    // In a git directory, and beside it in a state directory.
    let parts = [
        "git",
        "vault",
        "hooks",
        "pointer",
        "objects",
        "refs",
        "info",
        "HEAD",
        "packed-refs",
        "shallow",
        "worktrees",
    ];
    let joined = parts
        .iter()
        .flat_map(|part| ["\"", "/"].map(|end| format!(".join(\"{part}{end}")));
    let words = hardened
        .iter()
        .chain(&inside)
        .map(|word| (*word).to_owned());
    let by_hand = calls.chain(words).chain(joined);
    by_hand
        .filter(|one| code.contains(one))
        .map(|one| format!("src/{path} has `{one}`: git/ does that, or has a name for it"))
        .collect()
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

/// No files of a crate go round in a circle: whoever reads one finds a last one. The file that declares modules and
/// gives them on may use them, and they it.
#[test]
fn no_files_need_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut circles, mut needed) = (Vec::new(), BTreeMap::new());
    for one in std::fs::read_dir(crates).unwrap() {
        let source = one.unwrap().path().join("src");
        let files = files_below(&source).into_iter().map(|file| {
            let text = std::fs::read_to_string(&file).unwrap();
            let path = file.strip_prefix(&source).unwrap();
            (path.to_str().unwrap().to_owned(), text)
        });
        let needs = needs(&files.collect());
        needed.insert(source.clone(), (files_below(&source).len(), needs.len()));
        circles.extend(circle(&needs).map(|found| format!("{}: {found}", source.display())));
    }
    assert_eq!(circles, <[String; 0]>::default());
    // None of a larger crate would mean that nobody looked.
    for (source, (files, needs)) in needed {
        assert!(
            files < 5 || needs >= files / 2,
            "{}: {needs}",
            source.display()
        );
    }
}

/// The control: a circle is found, however its files name each other.
#[test]
fn what_goes_round_is_found() {
    let found = |files: &[(&str, &str)]| {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        circle(&needs(&files.iter().map(owned).collect()))
    };
    let all = ("lib.rs", "mod git;");
    let declared = "mod one;\nmod two;\npub use one::{One, Other};\npub(crate) use two::Two;";
    let declared = ("git/mod.rs", declared);
    let two = ("git/two.rs", "use super::one::One;");
    for back in [
        "use super::two::Two;",
        "use super::Two;",
        "use super::{Other, two};",
        "use crate::git::Two;",
        "    let two = super::two::make();",
        "use crate::{names, git::{Other, Two}};",
    ] {
        let files = [all, declared, ("git/one.rs", back), two];
        assert!(found(&files).is_some(), "{back}");
    }
    let part = ("git/three/part.rs", "use super::super::two::Two;");
    let three = [
        all,
        ("git/mod.rs", "mod one;\nmod two;\nmod three;"),
        ("git/one.rs", "use super::three::T;"),
        two,
        ("git/three/mod.rs", "mod part;\npub use part::T;"),
        part,
    ];
    assert!(found(&three).is_some());
    assert!(found(&three[..5]).is_none());
    // Given on under a path that is not the file's own.
    for given in [
        "pub use self::two::Two;",
        "pub use super::git::two::Two;",
        "pub use crate::git::two::Two;",
    ] {
        let declared = format!("mod one;\nmod two;\n{given}");
        let files = [
            all,
            ("git/mod.rs", declared.as_str()),
            ("git/one.rs", "use crate::git::Two;"),
            two,
        ];
        assert!(found(&files).is_some(), "{given}");
    }
    // Through one that declares others, unless those are its own.
    let two_folders = ("lib.rs", "mod git;\nmod wall;");
    let git = (
        "git/mod.rs",
        "mod one;\nuse crate::wall::Wall;\npub struct Git;",
    );
    let wall = ("wall/mod.rs", "mod it;\npub use it::Wall;");
    let it = ("wall/it.rs", "use crate::git::Git;");
    assert!(found(&[two_folders, git, wall, it]).is_some());
    let own = (
        "git/mod.rs",
        "mod one;\nuse self::one::One;\npub struct Git;",
    );
    let one = ("git/one.rs", "use super::Git;");
    assert!(found(&[two_folders, own, one, wall, it]).is_none());
    let fine = "//! See [`super::two`].\nuse super::Shared;\n#[cfg(test)]\nmod tests {\n    use crate::git::two;\n}\n";
    assert!(found(&[all, declared, ("git/one.rs", fine), two]).is_none());
}

type Files = BTreeMap<String, String>;

/// Which file needs which other one.
fn needs(files: &Files) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, text) in files {
        if TOPS.contains(&path.as_str()) || path.ends_with("tests.rs") {
            continue;
        }
        let code = without_tests(text);
        let own: Vec<&str> = module(path).split('/').collect();
        for (root, prefix) in (0..own.len())
            .map(|up| ("super::".repeat(own.len() - up), own[..up].to_vec()))
            .chain([("crate::".to_owned(), Vec::new())])
        {
            for (at, _) in code.match_indices(&root) {
                let before = code[..at].chars().next_back();
                let tree = &code[at + root.len()..];
                let in_a_path = before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c));
                if in_a_path || tree.starts_with("super::") {
                    continue;
                }
                for named in paths(tree) {
                    let full: Vec<String> = prefix.iter().map(|&part| part.to_owned()).collect();
                    let to = resolve(files, &[full, named].concat(), 4);
                    let other =
                        to.filter(|to| to != path && !is_part(to, path) && !is_part(path, to));
                    found.extend(other.map(|other| (path.clone(), other)));
                }
            }
        }
    }
    found
}

/// They have all of a crate, and nobody takes anything from them.
const TOPS: [&str; 2] = ["lib.rs", "main.rs"];

/// The path of a file's module, with slashes.
fn module(path: &str) -> &str {
    path.strip_suffix("/mod.rs")
        .unwrap_or(path.trim_end_matches(".rs"))
}

/// Whether `one` declares `other`, or has it as a part below its own name: both are one.
fn is_part(one: &str, other: &str) -> bool {
    let below = module(other)
        .strip_prefix(module(one))
        .and_then(|rest| rest.strip_prefix('/'));
    below.is_some_and(|below| !one.ends_with("/mod.rs") || !below.contains('/'))
}

/// The file that a path from the top of its crate leads to; not the one that only gives it on. `depth`: so many files may give it
/// on.
fn resolve(files: &Files, path: &[String], depth: u32) -> Option<String> {
    let mut at = String::new();
    for (index, part) in path.iter().enumerate() {
        let here = if at.is_empty() {
            part.clone()
        } else {
            format!("{at}/{part}")
        };
        let is_there = |path: &str| {
            files.contains_key(path) || files.keys().any(|one| one.starts_with(&format!("{here}/")))
        };
        if is_there(&format!("{here}.rs")) {
            at = here;
            continue;
        }
        // Something in the file that we are at: its own, or given on.
        let own = format!("{at}.rs");
        if files.contains_key(&own) {
            return Some(own);
        }
        let declaring = if at.is_empty() {
            "lib.rs".to_owned()
        } else {
            format!("{at}/mod.rs")
        };
        let code = without_tests(files.get(&declaring)?);
        let Some(given) = code.match_indices("use ").find_map(|(start, word)| {
            let given = paths(&code[start + word.len()..]).into_iter();
            given
                .into_iter()
                .find(|given| given.last() == Some(part) && given.len() > 1)
        }) else {
            return (!TOPS.contains(&&*declaring)).then_some(declaring);
        };
        if depth == 0 || given[0] == "std" {
            return None;
        }
        let folder = at.split('/').filter(|part| !part.is_empty());
        let mut folder: Vec<String> = folder.map(str::to_owned).collect();
        let ups = given.iter().take_while(|part| *part == "super").count();
        match given[0].as_str() {
            "crate" => folder.clear(),
            _ => folder.truncate(folder.len().saturating_sub(ups)),
        }
        let is_way = |part: &String| ["crate", "self", "super"].contains(&part.as_str());
        let given = given.into_iter().skip_while(is_way);
        let rest = path[index + 1..].iter().cloned();
        let full: Vec<String> = folder.into_iter().chain(given).chain(rest).collect();
        return resolve(files, &full, depth - 1);
    }
    [format!("{at}.rs"), format!("{at}/mod.rs")]
        .into_iter()
        .find(|own| files.contains_key(own))
}

/// All paths of a use tree, or the one that stands in an expression.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim_start();
    if let Some(group) = tree.strip_prefix('{') {
        let mut found = paths(group);
        let mut open = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => open += 1,
                '}' if open == 0 => break,
                '}' => open -= 1,
                ',' if open == 0 => found.extend(paths(&group[at + 1..])),
                _ => {}
            }
        }
        return found;
    }
    let word: String = tree
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let rest = &tree[word.len()..];
    match rest.strip_prefix("::") {
        _ if word.is_empty() => Vec::new(),
        None => vec![vec![word]],
        Some(rest) => {
            let deeper = paths(rest);
            if deeper.is_empty() {
                return vec![vec![word]];
            }
            let joined = |path: Vec<String>| [vec![word.clone()], path].concat();
            deeper.into_iter().map(joined).collect()
        }
    }
}

/// The code of a file in one line.
fn without_tests(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = text.lines().map(str::trim_start);
    let code: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
    code.join(" ") + " "
}

/// The ways of all circles, where there is any.
fn circle(needs: &BTreeSet<(String, String)>) -> Option<String> {
    // Whatever nobody needs, or needs nobody, is in no circle.
    let mut left = needs.clone();
    loop {
        let (from, to): (BTreeSet<_>, BTreeSet<_>) = left.iter().cloned().unzip();
        let before = left.len();
        left.retain(|(one, other)| to.contains(one) && from.contains(other));
        if left.len() == before {
            break;
        }
    }
    let shown: Vec<String> = (left.iter())
        .map(|(one, other)| format!("{one} -> {other}"))
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// These had several meanings once. Each is the name of one type at most.
const WORDS: [&str; 6] = [
    "Place",
    "Outcome",
    "Target",
    "Gate",
    "Registration",
    "Connection",
];

/// Others of the name, each with why it stays.
const NAMESAKES: [(&str, &str); 1] = [
    // Public, and its own module's: what a check came to, for who writes a provider. The record's is never beside it.
    ("Outcome", "cofferdam/src/sandbox/conformance/mod.rs"),
];

#[test]
fn a_word_has_one_meaning() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut declared = Vec::new();
    for one in std::fs::read_dir(crates).unwrap() {
        let one = one.unwrap().path();
        if one.ends_with("cofferdam-lab") {
            continue;
        }
        for file in files_below(&one.join("src")) {
            let path = file.strip_prefix(crates).unwrap().to_str().unwrap();
            if path.ends_with("tests.rs") || path.contains("/tests/") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            for word in WORDS {
                let times = declarations(&text, word);
                declared.extend((0..times).map(|_| (word, path.to_owned())));
            }
        }
    }
    for (word, path) in NAMESAKES {
        let at = declared
            .iter()
            .position(|(one, at)| *one == word && at == path);
        let at = at.unwrap_or_else(|| panic!("no {word} is declared in {path} any more"));
        declared.remove(at);
    }
    for word in WORDS {
        let of: Vec<_> = declared.iter().filter(|(one, _)| *one == word).collect();
        assert!(of.len() <= 1, "{of:?}");
    }
    // None at all would mean that nobody looked.
    assert!(declared.len() > 2, "{declared:?}");
}

/// The control.
#[test]
fn a_declaration_is_found() {
    for text in [
        "pub struct Gate {",
        "    pub(crate) enum Gate<'a> {",
        "struct Gate;",
        "pub trait Gate: Send {",
        "type Gate = u32;",
        "use crate::wall::Wall as Gate;",
        "use crate::{One as Gate, Two};",
    ] {
        assert_eq!(declarations(text, "Gate"), 1, "{text}");
    }
    let fine = "/// A struct Gate {\nuse crate::git::Gate;\nstruct GateKeeper;\nlet x: Gate = y as u32;\nstruct Other(Gate);\n\
                #[cfg(test)]\nmod tests {\n    struct Gate;\n}\n";
    assert_eq!(declarations(fine, "Gate"), 0);
}

/// How often code gives a type this name.
fn declarations(text: &str, word: &str) -> usize {
    let code = without_tests(text);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<_> = code
        .split(|c: char| !is_part(c))
        .filter(|part| !part.is_empty())
        .collect();
    let declares = ["struct", "enum", "union", "trait", "type", "as"];
    words
        .windows(2)
        .filter(|pair| pair[1] == word && declares.contains(&pair[0]))
        .count()
}
