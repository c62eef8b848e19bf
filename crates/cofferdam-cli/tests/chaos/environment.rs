//! A sealed user with a repository in which they have staged, unstaged and untracked work, and a `git`
//! in front of the real one that counts its calls and kills its caller at a chosen one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::keeper::{End, Kept};

/// Three commits, one file each.
pub(crate) const AGENT: &str = "mkdir -p agent; for n in 1 2 3; do \
     echo w$n > agent/$n.txt; git add agent/$n.txt; git commit -qm w$n || exit 1; done; echo all-committed";

/// What is killed at a git call: the caller before it, the caller while git goes on, or the caller
/// when git is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    During,
    After,
    /// Nobody is killed: the user does something (`user.sh`), then git goes on.
    User,
}

#[derive(Debug)]
pub(crate) struct Environment {
    place: TempDir,
    started: std::cell::Cell<u32>,
}

impl Environment {
    /// The user's work is in place.
    pub(crate) fn new() -> Self {
        // In memory: what lies on a disk as long as this program runs stays there when it ends.
        static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
        let template = TEMPLATE.get_or_init(template);
        let place = directory();
        unpack(template, place.path());
        let this = Self {
            place,
            started: std::cell::Cell::new(0),
        };
        for name in ["home", "tmp", "bin"] {
            fs::create_dir(this.path(name)).unwrap();
        }
        this.shim();
        this
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.path("repo")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home/.cofferdam")
    }

    fn shim(&self) {
        let place = self.place.path().display();
        let real = real_git().display();
        let script = format!(
            "#!/bin/sh\nn=0; m=\nread -r kill m < {place}/kill || exec {real} \"$@\"\n\
             echo x >> {place}/calls\n\
             while read -r _; do n=$((n+1)); done < {place}/calls\n\
             case $kill in [0-9]*) ;; *) case \" $* \" in *\" $kill \"*) n=$kill;; esac;; esac\n\
             [ \"$n\" = \"$kill\" ] && mkdir {place}/taken 2>/dev/null || exec {real} \"$@\"\n\
             echo \"$n $m $PPID $*\" > {place}/killed\n\
             case $m in\n\
             Before) kill -9 $PPID; exit 1;;\n\
             User) env -i PATH=\"$PATH\" HOME={place}/home GIT_CONFIG_NOSYSTEM=1 sh {place}/user.sh; exec {real} \"$@\";;\n\
             During) kill -9 $PPID; exec {real} \"$@\";;\n\
             *) {real} \"$@\"; code=$?; kill -9 $PPID; exit $code;;\n\
             esac\n"
        );
        let path = self.path("bin/git");
        fs::write(&path, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        self.write_place("kill", "");
    }

    /// From now on the caller of the `call`th git (1 is the next one) is killed.
    pub(crate) fn kill_at(&self, call: u32, moment: Moment) {
        self.kill_where(&call.to_string(), moment);
    }

    /// The same for the first call that has `word` as an argument.
    pub(crate) fn kill_where(&self, word: &str, moment: Moment) {
        let _ = fs::remove_file(self.path("calls"));
        // Git calls that run beside each other may read the same number: one of them takes it.
        let _ = fs::remove_dir(self.path("taken"));
        let _ = fs::remove_file(self.path("killed"));
        self.write_place("kill", &format!("{word} {moment:?}\n"));
    }

    /// From now on git only counts.
    pub(crate) fn count_calls(&self) {
        self.kill_at(0, Moment::After);
    }

    pub(crate) fn calls(&self) -> u32 {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        u32::try_from(text.lines().count()).unwrap()
    }

    /// The git call at which it was killed.
    pub(crate) fn killed_at(&self) -> Option<String> {
        self.write_place("kill", "");
        let text = fs::read_to_string(self.path("killed")).ok()?;
        let number = text.split(' ').next()?;
        let (head, call) = text.split_once(" --no-pager ").unwrap_or(("", &text));
        let moment = head.split(' ').nth(1).unwrap_or_default();
        Some(format!("{number} ({moment} `{}`)", call.trim()))
    }

    /// Which process it was: who watches a checkout calls git as well.
    pub(crate) fn killed_process(&self) -> Option<u32> {
        let text = fs::read_to_string(self.path("killed")).ok()?;
        text.split(' ').nth(2)?.parse().ok()
    }

    fn write_place(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn seal(&self, command: &mut Command) {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("TERM", "dumb")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(self.repo())
            .stdin(Stdio::null());
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        self.seal(&mut command);
        command.args(arguments);
        command
    }

    /// The same on a terminal of its own, at which somebody types `exit` until it ends.
    pub(crate) fn on_a_terminal(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        self.seal(&mut command);
        // What is typed before the terminal is the program's may be lost.
        let typed = "while sleep 0.2; do echo exit || break; done 2>/dev/null";
        let line = format!(
            "{} {}",
            env!("CARGO_BIN_EXE_cofferdam"),
            arguments.join(" ")
        );
        command.args([
            "-c",
            &format!("({typed}) | script -qefc '{line}' /dev/null"),
        ]);
        command
    }

    /// Starts `cofferdam` under a keeper.
    pub(crate) fn start(&self, arguments: &[&str]) -> Kept {
        let number = self.started.get();
        self.started.set(number + 1);
        let plan = self.path(&format!("command-{number}"));
        Kept::start(&self.command(arguments), &plan)
    }

    /// Starts `cofferdam run OPTIONS -- sh -c SCRIPT`.
    pub(crate) fn start_run(&self, options: &[&str], script: &str) -> Kept {
        let mut arguments = vec!["run", "--json"];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(&["--", "sh", "-c", script]);
        self.start(&arguments)
    }

    /// Runs `cofferdam` to its end.
    #[track_caller]
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> End {
        let done = self.command(arguments).output().unwrap();
        End {
            status: done.status.code().unwrap_or(i32::MIN),
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    /// `list --json`.
    #[track_caller]
    pub(crate) fn list(&self) -> Vec<serde_json::Value> {
        let done = self.cofferdam(&["list", "--json"]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// The user's own git, in the repository.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(real_git());
        self.seal(&mut command);
        let done = command.args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if done.status.success() {
            Ok(text(&done.stdout))
        } else {
            Err(text(&done.stderr))
        }
    }

    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.try_git(arguments)
            .unwrap_or_else(|error| panic!("git {arguments:?}: {error}"))
    }

    /// The state directories of sandboxes.
    pub(crate) fn states(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.home().join("state"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        found.sort();
        found
    }
}

/// A directory whose name is in no other process.
pub(crate) fn directory() -> TempDir {
    tempfile::Builder::new()
        .prefix("cofferdam-chaos-")
        .tempdir()
        .unwrap()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(done.success());
}

fn real_git() -> &'static Path {
    static REAL: OnceLock<PathBuf> = OnceLock::new();
    REAL.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap();
        std::env::split_paths(&path)
            .map(|entry| entry.join("git"))
            .find(|git| git.is_file())
            .unwrap()
    })
}

fn unpack(archive: &[u8], place: &Path) {
    let mut tar = Command::new("tar")
        .args(["-xf", "-"])
        .current_dir(place)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(archive).unwrap();
    assert!(tar.wait().unwrap().success());
}

/// An archive of a repository in which the user is in the middle of something.
fn template() -> Vec<u8> {
    let place = directory();
    let script = "set -e; git init -q -b main repo; cd repo
        git config user.name User; git config user.email user@example.com
        mkdir src; echo one > src/lib.txt; echo hello > README.md
        for f in staged unstaged deleted both; do printf 'old %s\\n' $f > $f.txt; done
        git add -A; git commit -qm first; echo two >> src/lib.txt; git commit -qam start
        git branch other HEAD~1; git tag v1 HEAD~1
        echo staged > staged.txt; git add staged.txt; echo after >> staged.txt
        echo new > new.txt; git add new.txt; git rm -q deleted.txt
        echo changed > unstaged.txt; printf 'a\\0b\\377' > untracked.bin; mkdir notes; echo n > notes/n";
    let done = Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", place.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(place.path())
        .status()
        .unwrap();
    assert!(done.success());
    let packed = Command::new("tar")
        .args(["-cf", "-", "repo"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(packed.status.success());
    packed.stdout
}
