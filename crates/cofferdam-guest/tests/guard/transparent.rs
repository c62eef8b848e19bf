//! Where the real git is found, and that nobody notices who has found it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::scene::gits;

const GUARD: &str = env!("CARGO_BIN_EXE_cofferdam-guest");

/// Directories with programs that are called `git`.
struct Places(TempDir);

impl Places {
    fn new() -> Self {
        let places = Self(tempfile::tempdir().unwrap());
        for name in ["guard", "copy", "real", "nothing"] {
            fs::create_dir(places.at(name)).unwrap();
        }
        symlink(GUARD, places.at("guard/git")).unwrap();
        fs::copy(GUARD, places.at("copy/git")).unwrap();
        // It tells what it was called with.
        let script = "#!/bin/sh\necho \"$@\" >>\"${0%/*}/calls\"\necho real \"$@\"\n";
        fs::write(places.at("real/git"), script).unwrap();
        fs::set_permissions(places.at("real/git"), Permissions::from_mode(0o755)).unwrap();
        // None of these can be executed.
        fs::write(places.at("nothing/git"), "").unwrap();
        places
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Calls what a search of `path` finds first.
    fn call(&self, path: &str, words: &[&[u8]]) -> Output {
        let first = path.split(' ').next().unwrap();
        self.command(&self.at(first).join("git"), path)
            .args(words.iter().map(|word| OsStr::from_bytes(word)))
            .output()
            .unwrap()
    }

    fn command(&self, program: &Path, path: &str) -> Command {
        let path = path.split(' ').map(|name| self.at(name));
        let path = std::env::join_paths(path.chain(["/bin".into()])).unwrap();
        let mut command = Command::new(program);
        command
            .arg0("git")
            .env_clear()
            .env("PATH", path)
            .current_dir(self.0.path());
        command
    }

    fn calls(&self) -> String {
        let file = self.at("real/calls");
        let calls = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        calls
    }
}

#[test]
fn it_finds_the_next_git_and_never_itself() {
    let places = Places::new();
    for path in [
        "guard real",
        "guard guard real",
        "guard copy real",
        "guard copy guard real",
        "copy guard real",
        "guard nothing real",
        "guard guard/git real",
        "guard missing real",
    ] {
        let output = places.call(path, &[b"status", b"-s"]);
        assert_eq!(output.stdout, b"real status -s\n", "{path}: {output:?}");
        assert_eq!(places.calls(), "status -s\n", "{path}");
    }
}

#[test]
fn without_a_git_it_says_so() {
    let places = Places::new();
    for path in [
        "guard",
        "guard copy",
        "copy guard copy",
        "guard nothing",
        "real2 guard",
    ] {
        // `/bin` is not searched here: it may have one.
        let all = path.split(' ').map(|name| places.at(name));
        let output = places
            .command(&places.at("guard/git"), "guard")
            .env("PATH", std::env::join_paths(all).unwrap())
            .arg("status")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{path}: {errors}");
        assert!(errors.contains("there is no git"), "{path}: {errors}");
    }
}

/// What is there and cannot be executed is another thing than nothing.
#[test]
fn what_cannot_be_executed_is_named() {
    let places = Places::new();
    // No program, and no script either.
    fs::write(places.at("nothing/git"), "\0").unwrap();
    fs::set_permissions(places.at("nothing/git"), Permissions::from_mode(0o755)).unwrap();
    let output = places.call("guard nothing real", &[b"status"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{errors}");
    assert!(
        errors.contains("nothing/git: Exec format error"),
        "{errors}"
    );
    assert_eq!(places.calls(), "");
}

/// A person may have put it last, and call it by its path.
#[test]
fn called_by_its_path_it_finds_those_before_it() {
    let places = Places::new();
    let guard = places.at("guard/git");
    let path = std::env::join_paths(["real", "guard"].map(|name| places.at(name)));
    let output = places
        .command(&guard, "")
        .arg0(&guard)
        .env("PATH", path.unwrap())
        .arg("status")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"real status\n", "{output:?}");
}

#[test]
fn any_bytes_arrive() {
    let places = Places::new();
    let output = places.call("guard real", &[b"log", b"\xff\xfe", b"", b"--grep=\n\x1b"]);
    assert_eq!(output.stdout, b"real log \xff\xfe  --grep=\n\x1b\n");
}

/// What it costs: nothing but itself, unless a word may be an alias and no program has that name.
#[test]
fn git_is_called_once() {
    let places = Places::new();
    for words in [
        "status",
        "commit -m x",
        "push origin main",
        "config a.b c",
        "log -n 5",
        "--version",
    ] {
        let bytes: Vec<_> = words.split(' ').map(str::as_bytes).collect();
        places.call("guard real", &bytes);
        assert_eq!(places.calls(), format!("{words}\n"));
    }
    places.call("guard real", &[b"-C", b".", b"-p", b"frob", b"-n"]);
    let asked = "-C . config -z --get alias.frob\n-C . -p frob -n\n";
    assert_eq!(places.calls(), asked);

    fs::write(places.at("real/git-frob"), "").unwrap();
    fs::set_permissions(places.at("real/git-frob"), Permissions::from_mode(0o755)).unwrap();
    places.call("guard real", &[b"frob", b"-n"]);
    assert_eq!(places.calls(), "frob -n\n");
}

#[test]
fn another_name_is_another_program() {
    let output = Command::new(GUARD).arg("no-such-role").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// The real git through both ways: by `path` and with `words`.
fn both(words: &[&str]) -> [Output; 2] {
    let places = Places::new();
    let git = &gits()[0];
    fs::remove_file(places.at("real/git")).unwrap();
    symlink(git, places.at("real/git")).unwrap();
    ["real", "guard real"].map(|path| {
        let first = places.at(path.split(' ').next().unwrap()).join("git");
        // The same in both, but for what is first in it.
        places
            .command(&first, "guard real")
            .env("HOME", places.0.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("VARIABLE", "a\nb")
            .args(words)
            .output()
            .unwrap()
    })
}

// covers: S3-73
#[test]
fn a_signal_is_the_real_gits() {
    for signal in ["KILL", "TERM", "INT"] {
        let alias = format!("alias.die=!kill -{signal} $PPID");
        let [real, guarded] = both(&["-c", &alias, "die"]);
        assert!(real.status.signal().is_some(), "{real:?}");
        assert_eq!(guarded.status, real.status, "{signal}");
    }
}

// covers: S3-73
#[test]
fn an_alias_ends_as_it_does_in_the_real_git() {
    for (text, code) in [
        ("!exit 7", 7),
        ("!exit 0", 0),
        ("rev-parse --verify nothing", 128),
    ] {
        let [real, guarded] = both(&["-c", &format!("alias.end={text}"), "end"]);
        assert_eq!(real.status.code(), Some(code), "{real:?}");
        assert_eq!(guarded.status, real.status, "{text}");
    }
}

/// What git starts has the same variables, and git itself was called by the same words.
#[test]
fn the_real_git_has_the_same_words_and_variables() {
    for text in [
        "!env",
        "!tr '\\0' ' ' </proc/$PPID/cmdline",
        "!ulimit -a",
        "!pwd",
    ] {
        let [real, guarded] = both(&["-c", &format!("alias.tell={text}"), "tell"]);
        assert!(real.status.success(), "{real:?}");
        let shown = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(shown(guarded), shown(real), "{text}");
    }
}

/// The process is the same one, with the same signals ignored and blocked, and no descriptor more.
#[test]
fn the_real_git_is_the_process_that_was_started() {
    let places = Places::new();
    // Nothing but what the shell does itself: it blocks signals while it starts others.
    let script = "#!/bin/sh\necho $$\n\
        while read -r line; do case $line in SigBlk* | SigIgn* | Umask*) echo \"$line\" ;; esac; done </proc/$$/status\n\
        for fd in /proc/$$/fd/*; do echo \"${fd##*/}\"; done\n";
    fs::write(places.at("real/git"), script).unwrap();
    let told = |path: &str| {
        let first = places.at(path.split(' ').next().unwrap()).join("git");
        let mut command = places.command(&first, path);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let number = child.id().to_string();
        let output = child.wait_with_output().unwrap().stdout;
        let output = String::from_utf8(output).unwrap();
        let (own, rest) = output.split_once('\n').unwrap();
        assert_eq!(own, number, "{path}");
        assert!(rest.contains("SigIgn"), "{rest}");
        rest.to_owned()
    };
    assert_eq!(told("guard real"), told("real"));
}
