//! What belongs to a commit's files and is not in its repository: the files of submodules, and those that Git LFS keeps.
//! A sandbox with files of its own has none of it, and who works there is to know.

use std::path::Path;

use super::event::Notice;
use crate::text::printable_bytes_line;

/// Which files tell of that.
pub(super) const FILES: [&str; 2] = [MODULES, ATTRIBUTES];
const MODULES: &str = ".gitmodules";
const ATTRIBUTES: &str = ".gitattributes";
/// Bytes of `.gitmodules` and `.gitattributes` that are looked at.
pub(super) const LONGEST: u64 = 1 << 20;
/// So many are named.
const NAMED: usize = 5;
/// Characters of a name.
const LONGEST_NAME: usize = 100;

/// `read`: the content of a file at the top, of which [`LONGEST`] bytes are enough.
pub(super) fn notices(read: impl Fn(&Path) -> Option<Vec<u8>>) -> Vec<Notice> {
    let lines = |name| {
        let text = read(Path::new(name)).unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        lines.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let mut notices = Vec::new();
    let modules = lines(MODULES);
    let modules = modules.iter().filter_map(|line| path_of(line));
    if let Some(names) = named(modules) {
        notices.push(Notice::Other {
            text: format!(
                "submodules are empty directories inside, because their files are in other repositories: {names}"
            ),
        });
    }
    let attributes = lines(ATTRIBUTES);
    let kept = attributes.iter().filter_map(|line| kept_by_lfs(line));
    if let Some(names) = named(kept) {
        notices.push(Notice::Other {
            text: format!(
                "files that Git LFS keeps are pointers inside, without their contents: {names}"
            ),
        });
    }
    notices
}

/// `path = some/where`
fn path_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"path")?.trim_ascii_start();
    let value = rest.strip_prefix(b"=")?.trim_ascii();
    let bare = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    Some(bare.unwrap_or(value))
}

/// The pattern of a line such as `*.bin filter=lfs diff=lfs merge=lfs -text`.
fn kept_by_lfs(line: &[u8]) -> Option<&[u8]> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let pattern = words.next().filter(|first| !first.starts_with(b"#"))?;
    words.any(|word| word == b"filter=lfs").then_some(pattern)
}

/// A name that passes for nothing else: cut, and in quotes that it does not have itself.
fn quoted(name: &[u8]) -> String {
    let shown = printable_bytes_line(&name[..name.len().min(4 * LONGEST_NAME)]);
    let cut: String = shown.replace('`', "'").chars().take(LONGEST_NAME).collect();
    format!("`{cut}`")
}

fn named<'a>(all: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let all: Vec<String> = all.map(quoted).collect();
    let more = all.len().saturating_sub(NAMED);
    let first = all.get(..all.len() - more)?.join(", ");
    match (all.is_empty(), more) {
        (true, _) => None,
        (_, 0) => Some(first),
        _ => Some(format!("{first} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(modules: &str, attributes: &str) -> Vec<String> {
        let notices = notices(|name| {
            Some(match name.to_str() {
                Some(".gitmodules") => modules.as_bytes().to_vec(),
                _ => attributes.as_bytes().to_vec(),
            })
        });
        notices.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn submodules_and_lfs_are_named() {
        assert!(notices(|_| None).is_empty());
        assert!(told("", "*.txt text\n# *.bin filter=lfs\n*.md filter=other\n").is_empty());
        let modules =
            "[submodule \"a\"]\n\tpath = lib/a\n\turl = ../a\n[submodule \"b\"]\n\tpath=\"b c\"\n";
        let attributes = "* text=auto\n*.bin filter=lfs diff=lfs merge=lfs -text\n";
        assert_eq!(
            told(modules, attributes),
            [
                "submodules are empty directories inside, because their files are in other repositories: `lib/a`, `b c`",
                "files that Git LFS keeps are pointers inside, without their contents: `*.bin`",
            ]
        );
        let many: String = (0..7).map(|n| format!("*.{n} filter=lfs\n")).collect();
        let said = told("", &many);
        assert!(
            said[0].ends_with(": `*.0`, `*.1`, `*.2`, `*.3`, `*.4` and 2 more"),
            "{said:?}"
        );
        let long = format!("{} filter=lfs\n", "`x\u{1b}".repeat(100_000));
        let said = told("", &long);
        assert!(
            said[0].len() < 300 && !said[0].contains('\u{1b}'),
            "{said:?}"
        );
    }
}
