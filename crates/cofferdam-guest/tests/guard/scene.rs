//! A repository with a remote that has moved on, hooks that say what they are told, and two ways to a git.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The hooks that can say no and that an option skips.
pub(crate) const SKIPPABLE: &str =
    "pre-commit commit-msg pre-merge-commit pre-push pre-rebase applypatch-msg pre-applypatch";

/// It obeys the variables of common programs that run hooks, as theirs do.
const HOOK: &str = r#"#!/bin/sh
case "$HUSKY$HUSKY_SKIP_HOOKS$LEFTHOOK" in 0 | 1 | true | false) exit 0 ;; esac
name=${0##*/}
echo "$name" >>"$HOOK_LOG"
case " $FAILING " in *" $name "*) echo "no, says $name" >&2; exit 1 ;; esac
"#;

/// `main` and its remote have each a commit that the other has not; `side` has one more. A file is changed and not committed.
const MADE_BY: &str = r#"
git init -q -b main --template= repo
git init -q -b main --bare --template= remote.git
mkdir repo/.husky
for hook in pre-commit commit-msg pre-merge-commit pre-push pre-rebase applypatch-msg pre-applypatch prepare-commit-msg; do
    cp hook "repo/.husky/$hook"
    chmod 755 "repo/.husky/$hook"
done
cd repo
commit() { echo "$1" >"$1"; git add .; git commit -q -m "$1"; }
commit file
git remote add origin ../remote.git
commit upstream
git push -q origin main
git reset -q --hard HEAD~1
git branch -q -u origin/main
git checkout -q -b side
commit side
git format-patch -q -1 --stdout >../side.patch
git checkout -q main
commit own
git tag v1
echo changed >>file
git repack -adq
git -C ../remote.git repack -adq
git config core.hooksPath .husky
git config pull.rebase false
git config alias.ci commit
git config alias.nv 'commit --no-verify'
git config alias.nv2 'nv -q'
git config alias.off '-c core.hooksPath=/dev/null commit'
git config alias.pf 'push --force'
git config alias.sh '!git commit --no-verify -am'
git config alias.function '!f() { git commit "$@" --no-verify; }; f'
git config alias.code '!exit 7'
git config alias.count '!printf "%s\n" "$@" | wc -l; :'
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    Real,
    Guard,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// The hooks that ran.
    pub(crate) hooks: String,
    /// What the repository and its remote refer to, and the settings of the repository.
    pub(crate) state: String,
}

impl Outcome {
    /// The guard has said so, and why, and what to do.
    pub(crate) fn is_refused(&self) -> bool {
        let parts = ["error: ", " is refused in this sandbox", "\nhint: "];
        parts.iter().all(|part| self.errors.contains(part))
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    top: TempDir,
    /// What is there before a command.
    pub(crate) before: String,
    /// The last command has changed nothing.
    is_as_before: Cell<bool>,
}

/// Every git of this machine, the first in `PATH` first.
pub(crate) fn gits() -> Vec<PathBuf> {
    let path = std::env::var("PATH").unwrap();
    let places = path.split(':').chain(["/usr/local/bin", "/usr/bin"]);
    let mut known = BTreeSet::new();
    // Not one that guards, where these tests run in a sandbox.
    let is_new = |git: &PathBuf| {
        !git.starts_with("/.cofferdam")
            && fs::metadata(git).is_ok_and(|found| known.insert((found.dev(), found.ino())))
    };
    let all = places.map(|place| Path::new(place).join("git"));
    all.filter(is_new).collect()
}

/// Major and minor version.
pub(crate) fn version(git: &Path) -> (u32, u32) {
    let output = Command::new(git).arg("version").output().unwrap().stdout;
    let output = String::from_utf8(output).unwrap();
    let mut numbers = output
        .split([' ', '.'])
        .filter_map(|part| part.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(&gits()[0])
    }

    pub(crate) fn with(git: &Path) -> Self {
        let top = tempfile::tempdir().unwrap();
        for folder in ["home", "guard", "real", "template"] {
            fs::create_dir(top.path().join(folder)).unwrap();
        }
        symlink(
            env!("CARGO_BIN_EXE_cofferdam-guest"),
            top.path().join("guard/git"),
        )
        .unwrap();
        symlink(git, top.path().join("real/git")).unwrap();
        fs::write(top.path().join("template/hook"), HOOK).unwrap();
        let mut scene = Self {
            top,
            before: String::new(),
            is_as_before: Cell::new(false),
        };
        let made = scene.shell(MADE_BY, Through::Real, "template", "").status();
        assert!(made.unwrap().success());
        scene.renew();
        scene.before = scene.state();
        scene
    }

    /// What the command line does where nothing has been done yet. `failing`: the hooks that say no.
    pub(crate) fn outcome(&self, line: &str, through: Through, failing: &str) -> Outcome {
        if !self.is_as_before.get() {
            self.renew();
        }
        let mut command = self.shell(line, through, "row/repo", failing);
        let output = command.output().unwrap();
        let hooks = fs::read_to_string(self.top.path().join("row/hooks"));
        let outcome = Outcome {
            code: output.status.code(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            hooks: hooks.unwrap_or_default(),
            state: self.state(),
        };
        // Hundreds of copies take their time on a disk.
        let nothing_ran = outcome.is_refused() && outcome.hooks.is_empty();
        self.is_as_before
            .set(nothing_ran && outcome.state == self.before);
        outcome
    }

    fn renew(&self) {
        let [template, row] = ["template", "row"].map(|name| self.top.path().join(name));
        let _ = fs::remove_dir_all(&row);
        let copied = Command::new("cp").arg("-a").args([template, row]).status();
        assert!(copied.unwrap().success());
    }

    /// Read from the files: hundreds of calls of git would say the same.
    fn state(&self) -> String {
        let row = self.top.path().join("row");
        let places = [
            "repo/.git/HEAD",
            "repo/.git/config",
            "repo/.git/refs",
            "remote.git/refs",
        ];
        let packed = ["repo/.git/packed-refs", "remote.git/packed-refs"];
        let mut state = String::new();
        for place in places.iter().chain(&packed) {
            add(&row.join(place), place, &mut state);
        }
        state
    }

    fn shell(&self, line: &str, through: Through, place: &str, failing: &str) -> Command {
        let top = self.top.path().to_str().unwrap();
        let guard = match through {
            Through::Real => String::new(),
            Through::Guard => format!("{top}/guard:"),
        };
        let mut command = Command::new("/bin/sh");
        command
            .args(["-euc", line])
            .current_dir(self.top.path().join(place))
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", format!("{guard}{top}/real:/usr/bin:/bin"))
            .env("HOME", format!("{top}/home"))
            .env("HOOK_LOG", format!("{top}/row/hooks"))
            .env("FAILING", failing);
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@example.com"),
            // Whoever does the same makes the same commit.
            ("GIT_AUTHOR_DATE", "1700000000 +0000"),
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@example.com"),
            ("GIT_COMMITTER_DATE", "1700000000 +0000"),
            ("GIT_EDITOR", "true"),
            ("LC_ALL", "C"),
        ] {
            command.env(name, value);
        }
        command
    }
}

/// The file, or the files below the directory, in the order of their names.
fn add(path: &Path, name: &str, state: &mut String) {
    if let Ok(text) = fs::read_to_string(path) {
        *state += &format!("{name}: {text}");
    }
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    let names = entries.map(|entry| entry.unwrap().file_name());
    for below in names.collect::<BTreeSet<_>>() {
        let name = format!("{name}/{}", below.display());
        add(&path.join(below), &name, state);
    }
}
