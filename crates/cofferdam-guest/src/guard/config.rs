//! `git config`: whether it moves the hooks.

use super::Word;
use super::options::Meaning::{self, Reads, Unsets, Writes, WritesSection};
use super::options::{Entry, Order, flag, read, takes};
use super::settings::is_hooks_path;

const OPTIONS: &[Entry] = &[
    flag("global"),
    flag("system"),
    flag("local"),
    flag("worktree"),
    takes("file").short(b'f'),
    takes("blob"),
    flag("get").means(Reads),
    flag("get-all").means(Reads),
    flag("get-regexp").means(Reads),
    flag("get-urlmatch").means(Reads),
    flag("replace-all").means(Writes),
    flag("add").means(Writes),
    flag("unset").means(Unsets),
    flag("unset-all").means(Unsets),
    flag("rename-section").means(WritesSection),
    flag("remove-section").means(WritesSection),
    flag("list").short(b'l').means(Reads),
    flag("fixed-value"),
    flag("edit").short(b'e').means(Reads),
    flag("get-color").means(Reads),
    flag("get-colorbool").means(Reads),
    takes("type").short(b't'),
    flag("bool").without_negation(),
    flag("int").without_negation(),
    flag("bool-or-int").without_negation(),
    flag("bool-or-str").without_negation(),
    flag("path").without_negation(),
    flag("expiry-date").without_negation(),
    flag("null").short(b'z'),
    flag("name-only"),
    flag("includes"),
    flag("show-origin"),
    flag("show-scope"),
    takes("default"),
    takes("comment"),
];

/// Of `git config set` and the like (2.46 and newer).
const OPTIONS_OF_SUBCOMMANDS: &[Entry] = &[
    flag("global"),
    flag("system"),
    flag("local"),
    flag("worktree"),
    takes("file").short(b'f'),
    takes("blob"),
    takes("type").short(b't'),
    flag("all"),
    takes("value"),
    flag("fixed-value"),
    takes("comment"),
    flag("append"),
];

/// Where husky keeps hooks. `npm install` moves them there, which is how such a repository comes to have any.
const OF_HUSKY: &[&[u8]] = &[b".husky", b".husky/_"];

/// The words after `config`.
pub(super) fn moves_hooks(words: &[Word]) -> bool {
    let first = words.first().map_or(&[][..], Vec::as_slice);
    let rest = words.get(1..).unwrap_or_default();
    let of_subcommand = |what| {
        let given = read(rest, OPTIONS_OF_SUBCOMMANDS, Order::BeforeOperands)?;
        Some((what, given.operands))
    };
    let read = match first {
        b"get" | b"list" | b"edit" => None,
        b"set" => of_subcommand(Writes),
        b"unset" => of_subcommand(Unsets),
        b"rename-section" | b"remove-section" => of_subcommand(WritesSection),
        _ => by_options(words),
    };
    let Some((what, operands)) = read else {
        return false;
    };
    let key = operands.first().copied().unwrap_or_default();
    match what {
        WritesSection => operands
            .iter()
            .any(|section| section.eq_ignore_ascii_case(b"core")),
        Unsets => is_hooks_path(key),
        Writes => is_hooks_path(key) && !operands.get(1).is_some_and(|value| is_of_husky(value)),
        _ => false,
    }
}

/// As it was before there were words: an option says what is done, or else the number of operands.
fn by_options(words: &[Word]) -> Option<(Meaning, Vec<&[u8]>)> {
    let given = read(words, OPTIONS, Order::BeforeOperands)?;
    let said = given.said.iter().rev().find(|said| said.is_on);
    let what = said.map(|said| said.meaning);
    let otherwise = if given.operands.len() > 1 {
        Writes
    } else {
        Reads
    };
    Some((what.unwrap_or(otherwise), given.operands))
}

fn is_of_husky(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"./").unwrap_or(value);
    OF_HUSKY.contains(&value.strip_suffix(b"/").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_hooks_is_found() {
        let check = |text: &str, expected: bool| {
            let words = text.split_whitespace().map(|word| word.as_bytes().to_vec());
            assert_eq!(moves_hooks(&words.collect::<Vec<_>>()), expected, "{text}");
        };
        for text in [
            "core.hooksPath /dev/null",
            "CORE.hookspath /dev/null",
            "--global core.hooksPath x",
            "--add core.hooksPath x",
            "--ad core.hooksPath x",
            "--replace-all core.hooksPath x y",
            "--unset core.hooksPath",
            "--unset-all core.hooksPath",
            "--local --unset core.hooksPath .husky",
            "-f .git/config core.hooksPath x",
            "-f.git/config core.hooksPath x",
            "--file=.git/config core.hooksPath x",
            "--type path core.hooksPath x",
            "--path core.hooksPath x",
            "-- core.hooksPath x",
            "set core.hooksPath x",
            "set --global --type=path core.hooksPath x",
            "set --comment why core.hooksPath x",
            "unset core.hooksPath",
            "unset --all core.hooksPath",
            "--remove-section core",
            "--rename-section CORE other",
            "rename-section other core",
            "core.hooksPath .husky/../x",
        ] {
            check(text, true);
        }
        for text in [
            "",
            "core.hooksPath",
            "--get core.hooksPath",
            "--get-all core.hooksPath x",
            "--get-regexp core.hooksPath x",
            "get core.hooksPath",
            "get --all core.hooksPath",
            "list",
            "-l",
            "-e",
            "user.name core.hooksPath",
            "--add alias.x core.hooksPath",
            "-f core.hooksPath user.name x",
            "set user.name core.hooksPath",
            "--default core.hooksPath --get user.name",
            "--remove-section alias",
            "core.hooksPath .husky",
            "core.hooksPath ./.husky/_/",
            "set core.hooksPath .husky/_",
            // Ambiguous: git says so.
            "--uns core.hooksPath",
        ] {
            check(text, false);
        }
    }
}
