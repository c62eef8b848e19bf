//! Rules about one path, without any I/O: names that are `.git` on some file system, protected
//! paths, paths that execute on the user's machine, symlink targets.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization;

/// The form in which names are compared: what case-insensitive, Unicode-normalising or
/// Windows-like file systems take for the same name.
pub(super) fn fold(component: &[u8]) -> String {
    let text = String::from_utf8_lossy(component);
    let folded: String = text
        .chars()
        .filter(|&c| !ignored_by_hfs(c))
        .nfkd()
        .flat_map(char::to_lowercase)
        .nfc()
        .collect();
    let stem = folded.split(':').next().unwrap_or_default();
    stem.trim_end_matches(['.', ' ']).to_owned()
}

/// [`fold`] for a whole path.
pub(super) fn fold_path(path: &[u8]) -> String {
    path.split(|&b| b == b'/')
        .map(fold)
        .collect::<Vec<_>>()
        .join("/")
}

fn ignored_by_hfs(c: char) -> bool {
    matches!(c,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

fn is_dot_git(component: &[u8]) -> bool {
    let folded = fold(component);
    folded == ".git" || folded == "git~1" || component.eq_ignore_ascii_case(b".git")
}

/// Why no commit may contain this path, if so.
pub(crate) fn forbidden(path: &[u8]) -> Option<&'static str> {
    if path.len() > 4000 {
        return Some("it is longer than 4000 bytes");
    }
    for component in path.split(|&b| b == b'/') {
        match component {
            b"" => return Some("it has an empty component"),
            b"." | b".." => return Some("it has a component `.` or `..`"),
            _ if component.len() > 255 => return Some("a component is longer than 255 bytes"),
            _ if component.contains(&b'\\') => return Some("it contains a backslash"),
            _ if component.contains(&0) => return Some("it contains a zero byte"),
            _ if is_dot_git(component) => return Some("a component is `.git` in some form"),
            _ => {}
        }
    }
    None
}

/// Whether the name could mislead a reader: control bytes, or characters nobody sees.
pub(super) fn misleading(path: &[u8]) -> bool {
    let text = String::from_utf8_lossy(path);
    text.contains(['\n', '\t']) || crate::text::printable(&text) != text
}

/// Whether the folded path is one of `protected` (folded) or below it.
pub(super) fn is_protected(folded: &str, protected: &[String]) -> bool {
    protected.iter().any(|one| {
        folded
            .strip_prefix(one.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether one of `hidden` (folded) lies below the folded path: a file, a link or a submodule there stands in the
/// place of a directory that holds it.
pub(super) fn holds(folded: &str, hidden: &[String]) -> bool {
    let mut below = hidden.iter().filter_map(|one| one.strip_prefix(folded));
    below.any(|rest| rest.starts_with('/'))
}

/// `.gitmodules` in the top directory, in any form git or a file system takes for it.
pub(super) fn is_gitmodules(folded: &str) -> bool {
    matches!(
        folded,
        ".gitmodules" | "gitmod~1" | "gitmod~2" | "gitmod~3" | "gitmod~4" | "gi7eba~1"
    )
}

/// The directories among `paths` that git takes for bare repositories: with `HEAD`, and `commondir` or
/// both `objects` and `refs`. The top directory has its own git directory and never counts.
pub(super) fn bare_repositories<'a>(paths: impl Iterator<Item = &'a [u8]>) -> BTreeSet<&'a [u8]> {
    const MARKS: [&[u8]; 4] = [b"head", b"commondir", b"objects", b"refs"];
    let mut marks: BTreeMap<&[u8], [bool; 4]> = BTreeMap::new();
    for path in paths {
        let Some(slash) = path.iter().rposition(|&b| b == b'/') else {
            continue;
        };
        let name = &path[slash + 1..];
        let mark = if name.is_ascii() {
            MARKS
                .iter()
                .position(|mark| name.eq_ignore_ascii_case(mark))
        } else {
            let folded = fold(name);
            MARKS.iter().position(|mark| folded.as_bytes() == *mark)
        };
        if let Some(mark) = mark {
            marks.entry(&path[..slash]).or_default()[mark] = true;
        }
    }
    let bare = |[head, common, objects, refs]: [bool; 4]| head && (common || objects && refs);
    let bare = marks.into_iter().filter(|(_, has)| bare(*has));
    bare.map(|(directory, _)| directory).collect()
}

/// File names that run, or make something run, on the machine of whoever opens or builds the tree.
const EXECUTING_NAMES: &[&str] = &[
    ".bazelrc",
    ".cargo-husky",
    ".envrc",
    ".gitattributes",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".lfsconfig",
    ".mcp.json",
    ".mise.toml",
    ".npmrc",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".travis.yml",
    ".yarnrc",
    ".yarnrc.yml",
    "agents.md",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "claude.md",
    "cmakelists.txt",
    "compose.yaml",
    "compose.yml",
    "conftest.py",
    "containerfile",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "gnumakefile",
    "gradlew",
    "gradlew.bat",
    "jenkinsfile",
    "justfile",
    "lefthook.yml",
    "makefile",
    "mise.toml",
    "mvnw",
    "mvnw.cmd",
    "noxfile.py",
    "package.json",
    "pyproject.toml",
    "rakefile",
    "rust-toolchain",
    "rust-toolchain.toml",
    "setup.py",
    "sitecustomize.py",
    "tasks.py",
    "taskfile.yml",
    "tox.ini",
    "usercustomize.py",
    "vagrantfile",
];

/// Directories whose whole content counts so.
const EXECUTING_DIRECTORIES: &[&str] = &[
    ".cargo",
    ".circleci",
    ".claude",
    ".codex",
    ".cofferdam",
    ".cursor",
    ".devcontainer",
    ".fleet",
    ".githooks",
    ".gitlab",
    ".husky",
    ".idea",
    ".vscode",
    ".zed",
];

const EXECUTING_ENDINGS: &[&str] = &[
    ".code-workspace",
    ".csproj",
    ".mk",
    ".pth",
    ".sln",
    ".vcxproj",
];

/// Whether a change of this path (folded) can make something run on the user's machine.
pub(super) fn executes(folded: &str) -> bool {
    let mut components = folded.split('/').peekable();
    let mut before = "";
    while let Some(component) = components.next() {
        let last = components.peek().is_none();
        if EXECUTING_DIRECTORIES.contains(&component) && !last {
            return true;
        }
        if before == ".github" && matches!(component, "workflows" | "actions") && !last {
            return true;
        }
        if last {
            return EXECUTING_NAMES.contains(&component)
                || component.starts_with("dockerfile.")
                || EXECUTING_ENDINGS
                    .iter()
                    .any(|ending| component.ends_with(ending));
        }
        before = component;
    }
    false
}

/// Why a symlink at `path` with this target may not come home, if so.
///
/// A target may climb (`../`) only at its start, by at most the depth of the link itself, and never
/// names `.git`. By induction over the links on the way, a path through such links stays in the
/// tree: climbing starts at a real directory, and what follows only descends.
pub(super) fn bad_symlink(path: &[u8], target: &[u8]) -> Option<&'static str> {
    if target.is_empty() {
        return Some("its target is empty");
    }
    if target.contains(&0) {
        return Some("its target contains a zero byte");
    }
    if target.starts_with(b"/") {
        return Some("its target is absolute");
    }
    let depth = path.split(|&b| b == b'/').count() - 1;
    let (mut climbed, mut descended) = (0usize, false);
    for component in target.split(|&b| b == b'/') {
        match component {
            b"" | b"." => {}
            b".." if descended => return Some("its target climbs after it descended"),
            b".." => climbed += 1,
            _ if is_dot_git(component) => return Some("its target leads into `.git`"),
            _ => descended = true,
        }
        if climbed > depth {
            return Some("its target leaves the tree");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_dot_git() {
        for bad in [
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git...",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            ".gi\u{200d}t",
            "\u{feff}.git",
            ".git:x",
            "\u{ff0e}git",
        ] {
            assert!(forbidden(bad.as_bytes()).is_some(), "{bad:?}");
            assert!(
                forbidden(format!("a/{bad}/b").as_bytes()).is_some(),
                "{bad:?}"
            );
        }
        for fine in [
            ".gitignore",
            ".github/x",
            "git",
            "a.git",
            ".gitattributes",
            "größe",
            "git~10x",
        ] {
            assert_eq!(forbidden(fine.as_bytes()), None, "{fine:?}");
        }
        for bad in [
            "a\\b",
            "",
            "a//b",
            "/a",
            "a/",
            "..",
            "a/../b",
            "./a",
            &"x".repeat(256),
        ] {
            assert!(forbidden(bad.as_bytes()).is_some(), "{bad:?}");
        }
        assert_eq!(forbidden(b"\xff\xfe"), None);
    }

    #[test]
    fn protected_in_any_form() {
        let protected = vec![
            fold_path(b".husky"),
            fold_path("\u{e9}t\u{e9}/x".as_bytes()),
        ];
        for bad in [
            ".husky",
            ".husky/pre-commit",
            ".Husky/x",
            ".HUSKY",
            ".husky./x",
            ".husky /x",
        ] {
            assert!(
                is_protected(&fold_path(bad.as_bytes()), &protected),
                "{bad:?}"
            );
        }
        assert!(is_protected(
            &fold_path("e\u{301}te\u{301}/X/y".as_bytes()),
            &protected
        ));
        for fine in [".huskyrc", "a/.husky/x", "husky"] {
            assert!(
                !is_protected(&fold_path(fine.as_bytes()), &protected),
                "{fine:?}"
            );
        }
    }

    #[test]
    fn what_executes() {
        for yes in [
            "Makefile",
            "sub/MAKEFILE",
            ".vscode/tasks.json",
            ".envrc",
            "a/build.rs",
            ".VSCode/x",
            ".github/workflows/ci.yml",
            ".cargo/config.toml",
            "x.code-workspace",
            "Dockerfile.dev",
        ] {
            assert!(executes(&fold_path(yes.as_bytes())), "{yes:?}");
        }
        for no in [
            "src/main.rs",
            ".github/CODEOWNERS",
            "makefile.rs",
            ".vscode",
            "README.md",
        ] {
            assert!(!executes(&fold_path(no.as_bytes())), "{no:?}");
        }
    }

    fn check_link(path: &str, target: &str, fine: bool) {
        let got = bad_symlink(path.as_bytes(), target.as_bytes());
        assert_eq!(got.is_none(), fine, "{path} -> {target}: {got:?}");
    }

    #[test]
    fn symlinks() {
        check_link("l", "a/b", true);
        check_link("a/l", "../b", true);
        check_link("a/l", "./..", true);
        check_link("node_modules/.bin/x", "../x/bin.js", true);
        check_link("l", "..", false);
        check_link("l", "../x", false);
        check_link("a/l", "../../x", false);
        check_link("a/l", "x/../y", false);
        check_link("l", "/etc/passwd", false);
        check_link("l", "", false);
        check_link("l", ".git/hooks", false);
        check_link("a/l", "../.GIT", false);
    }
}
