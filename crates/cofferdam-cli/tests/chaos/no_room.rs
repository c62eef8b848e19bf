//! Sandboxes that live on, in a state directory that takes nothing more: a full disk, and one that is read-only. A small
//! file system in a mount namespace of the test's own (root only).

use std::io::Write;
use std::process::Command;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment};
use crate::full_disk::{Mounted, apart, mount, mount_again};
use crate::keeper::End;

const NAME: &str = "one";
/// What a disk can have left, in KiB; with nothing it is tried always.
const LEFT: [usize; 8] = [4, 8, 16, 32, 64, 96, 128, 192];
const SHARE: u64 = 8;

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy)]
enum Lack {
    /// It has so many KiB left.
    Room(usize),
    /// For the command alone: what was open stays so, as where a disk is mounted anew.
    Writing,
}

impl Lack {
    fn said(self) -> &'static str {
        match self {
            Self::Room(_) => "No space left on device",
            Self::Writing => "Read-only file system",
        }
    }
}

/// An environment whose state lies on a disk of its own.
struct Place {
    /// Goes first: a directory in which something is mounted stays.
    _mounted: Mounted,
    environment: Environment,
}

impl Place {
    fn new() -> Self {
        let environment = Environment::new();
        std::fs::create_dir(environment.home()).unwrap();
        mount(&environment.home(), "mode=700,size=32m");
        let mounted = Mounted(environment.home());
        Self {
            _mounted: mounted,
            environment,
        }
    }

    /// Runs `cofferdam` where the disk lacks something, and looks at `list` meanwhile.
    fn lacking(&self, lack: Lack, arguments: &[&str]) -> (End, Option<String>) {
        let filler = self.environment.home().join("filler");
        if let Lack::Room(left) = lack {
            fill(&filler, left);
        }
        let done = self.command(lack, arguments);
        let state = self.state(lack);
        if matches!(lack, Lack::Room(_)) {
            std::fs::remove_file(&filler).unwrap();
        }
        (done, state)
    }

    fn command(&self, lack: Lack, arguments: &[&str]) -> End {
        let own = self.environment.command(arguments);
        let mut command = match lack {
            Lack::Room(_) => own,
            Lack::Writing => {
                let home = self.environment.home();
                let script =
                    "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
                let mut command = Command::new("unshare");
                command
                    .args(["--mount", "--propagation", "private", "sh", "-c", script])
                    .arg(home)
                    .arg(own.get_program())
                    .args(own.get_args())
                    .env_clear()
                    .envs(
                        own.get_envs()
                            .filter_map(|(key, value)| Some((key, value?))),
                    )
                    .current_dir(self.environment.repo())
                    .stdin(std::process::Stdio::null());
                command
            }
        };
        let done = command.output().unwrap();
        End {
            status: done.status.code().unwrap_or(i32::MIN),
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    fn state(&self, lack: Lack) -> Option<String> {
        let done = self.command(lack, &["list", "--json"]);
        assert_eq!(done.status, 0, "list: {}", done.stderr);
        let all: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
        let one = all.iter().find(|one| one["name"] == NAME)?;
        Some(one["state"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn fill(filler: &std::path::Path, left: usize) {
    let mut file = std::fs::File::create(filler).unwrap();
    let chunk = vec![b'x'; 4096];
    while file.write_all(&chunk).is_ok() {}
    let length = file.metadata().unwrap().len();
    let left = u64::try_from(left).unwrap() * 1024;
    file.set_len(length.saturating_sub(left)).unwrap();
}

/// Says why, and what to do; both name what they are about.
#[track_caller]
fn assert_told(done: &End, lack: Lack, what: &str) {
    assert!(done.stderr.contains(lack.said()), "{what}: {}", done.stderr);
    assert!(done.stderr.contains("\nhint: "), "{what}: {}", done.stderr);
    assert_ne!(done.status, i32::MIN, "{what}");
}

/// A whole life of one; each step is tried while the disk lacks something, and again when it does not.
fn live(lack: Lack, network: &str, refused: &mut Vec<String>) {
    let place = Place::new();
    let environment = &place.environment;
    let before = User::of(environment);
    let created = environment.cofferdam(&["create", NAME, "--network", network]);
    assert_eq!(created.status, 0, "{}", created.stderr);
    let worked = environment.cofferdam(&["exec", NAME, "--", "sh", "-c", AGENT]);
    assert!(worked.stdout.contains("all-committed"), "{worked:?}");
    let detach = ["exec", "--detach", NAME, "--", "sh", "-c", "echo left"];
    // What comes, and the state after it.
    let run = ["run", "--in", NAME, "--", "sh", "-c", "true"];
    let steps: [(&[&str], &[&str]); 11] = [
        (&["exec", NAME, "--", "true"], &["active"]),
        (&detach, &["active"]),
        (&["pause", NAME], &["paused"]),
        (&["resume", NAME], &["active"]),
        (&["collect", NAME], &["active"]),
        (&["merge", NAME], &["active"]),
        (&["status", NAME], &["active"]),
        (&run, &["active"]),
        (&["stop", NAME], &["stopped"]),
        (&["start", NAME], &["active"]),
        (&["delete", "--force", NAME], &[]),
    ];
    let mut state = "active".to_owned();
    for (arguments, after) in steps {
        let what = format!("{} with {lack:?}", arguments[0]);
        let kept = Work::of(environment);
        let (done, now) = place.lacking(lack, arguments);
        kept.assert_kept_or_inside(environment, &what);
        let after = after.first().map(|state| (*state).to_owned());
        if done.status == 0 {
            assert_eq!(now, after, "{what}");
        } else {
            refused.push(arguments[0].to_owned());
            assert_told(&done, lack, &what);
            // That leaves it alone.
            assert!(!done.stderr.contains("cofferdam gc"), "{what}: {done:?}");
            // `delete` may have ended its programs by then.
            let may = [Some(state.clone()), Some("stopped".to_owned())];
            let fine = if arguments[0] == "delete" {
                &may[..]
            } else {
                &may[..1]
            };
            assert!(fine.contains(&now), "{what}: {now:?}: {}", done.stderr);
            let again = environment.cofferdam(arguments);
            assert_eq!(again.status, 0, "{what}, again: {}", again.stderr);
            kept.assert_kept_or_inside(environment, &what);
        }
        state = after.unwrap_or_default();
    }
    let what = format!("a life with {lack:?}");
    assert_eq!(checker::subjects(environment).len(), 3, "{what}");
    checker::gc(environment, &what);
    checker::assert_clean(environment, &before, &what, "");
    assert!(environment.states().is_empty(), "{what}");
}

#[test]
fn around_one_that_lives_on() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_room::around_one_that_lives_on") {
        return;
    }
    let mut sample = Sample::new("living without room");
    let mut refused = Vec::new();
    for (lack, network) in [
        (Lack::Writing, "none"),
        (Lack::Room(0), "none"),
        (Lack::Room(0), "allowlist"),
    ] {
        live(lack, network, &mut refused);
        // These cannot do anything without it. On a full disk the end of a sandbox makes room for its own record.
        let without: &[&str] = match lack {
            Lack::Writing => &["collect", "start", "delete"],
            Lack::Room(_) => &["collect", "start"],
        };
        for command in without {
            assert!(
                refused.iter().any(|one| one == command),
                "{lack:?}: {refused:?}"
            );
        }
        // These need none.
        for command in ["pause", "resume"] {
            assert!(
                !refused.iter().any(|one| one == command),
                "{lack:?}: {refused:?}"
            );
        }
        refused.clear();
    }
    for left in sample.of(LEFT, SHARE) {
        live(Lack::Room(left), "none", &mut refused);
    }
}

/// One that cannot be made leaves nothing but what `list` shows and `gc` clears, and its name is free again.
#[test]
fn around_one_that_is_made() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_room::around_one_that_is_made") {
        return;
    }
    let mut sample = Sample::new("creating without room");
    let mut lacks = vec![Lack::Writing, Lack::Room(0)];
    lacks.extend(sample.of(LEFT, SHARE / 2).into_iter().map(Lack::Room));
    for lack in lacks {
        let place = Place::new();
        let environment = &place.environment;
        let before = User::of(environment);
        let create = ["create", NAME, "--network", "none"];
        let what = format!("create with {lack:?}");
        let (done, now) = place.lacking(lack, &create);
        if done.status == 0 {
            assert_eq!(now.as_deref(), Some("active"), "{what}");
        } else {
            assert_told(&done, lack, &what);
            assert_ne!(now.as_deref(), Some("active"), "{what}");
            checker::gc(environment, &what);
            checker::assert_clean(environment, &before, &what, &done.stderr);
            let again = environment.cofferdam(&create);
            assert_eq!(again.status, 0, "{what}, again: {}", again.stderr);
        }
        let used = environment.cofferdam(&["exec", NAME, "--", "sh", "-c", AGENT]);
        assert_eq!(used.status, 0, "{what}: {}", used.stderr);
        mount_again(&environment.home(), "size=64m");
        let deleted = environment.cofferdam(&["delete", "--force", NAME]);
        assert_eq!(deleted.status, 0, "{what}: {}", deleted.stderr);
        assert_eq!(checker::subjects(environment).len(), 3, "{what}");
        checker::assert_clean(environment, &before, &what, "");
    }
}

/// What a program prints that was left running goes on being told, where it is missing and how much.
#[test]
fn output_of_what_was_left_running() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_room::output_of_what_was_left_running") {
        return;
    }
    let place = Place::new();
    let environment = &place.environment;
    let done = environment.cofferdam(&["create", NAME, "--network", "none"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let program = "echo begun; for n in X Q Z; do until test -e /tmp/$n; do sleep 0.01; done; \
                   head -c 9000 /dev/zero | tr '\\0' $n; done; exit 7";
    let detach = ["exec", "--detach", NAME, "--", "sh", "-c", program];
    let started = environment.cofferdam(&detach);
    assert_eq!(started.status, 0, "{}", started.stderr);
    let id = started.stdout.trim();
    let logs = || {
        let done = environment.cofferdam(&["logs", NAME, id]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        (done.stdout, done.stderr)
    };
    let prints = |n: &str| {
        let done = environment.cofferdam(&["exec", NAME, "--", "touch", &format!("/tmp/{n}")]);
        assert_eq!(done.status, 0, "{}", done.stderr);
    };
    let until = |what: &str, is: &dyn Fn(&(String, String)) -> bool| {
        let began = std::time::Instant::now();
        loop {
            let now = logs();
            if is(&now) {
                return now;
            }
            assert!(began.elapsed().as_secs() < 20, "never {what}: {now:?}");
        }
    };
    let missing = |log: &str, n: &str| 9000 - log.matches(n).count();
    let note = |lost| {
        format!(
            "note: the next {lost} bytes are missing: they could not be written, as on a full disk\n"
        )
    };
    until("begun", &|(log, _)| log == "begun\n");
    let filler = environment.home().join("filler");
    fill(&filler, 0);
    prints("X");
    let (log, _) = until("lost", &|(log, said)| *said == note(missing(log, "X")));
    let lost = missing(&log, "X");
    assert!(lost > 0);
    // Where there is room again, it stands where it is missing.
    std::fs::remove_file(&filler).unwrap();
    prints("Q");
    let (log, said) = until("room", &|(log, _)| missing(log, "Q") == 0);
    assert_eq!(said, "");
    let kept = "X".repeat(9000 - lost);
    let told = format!("[cofferdam: {lost} bytes are missing here, they could not be written]");
    let whole = format!("begun\n{kept}\n{told}\n{}", "Q".repeat(9000));
    assert_eq!(log, whole);
    // And at its end, which is told as well.
    fill(&filler, 0);
    prints("Z");
    let (log, _) = until("its end", &|(log, said)| *said == note(missing(log, "Z")));
    let lost = missing(&log, "Z");
    let list = || environment.cofferdam(&["logs", NAME, "--list"]).stdout;
    let began = std::time::Instant::now();
    while !list().contains("exit 7") {
        assert!(began.elapsed().as_secs() < 20, "{}", list());
    }
    std::fs::remove_file(&filler).unwrap();
    let stopped = environment.cofferdam(&["stop", NAME]);
    assert_eq!(stopped.status, 0, "{}", stopped.stderr);
    assert_eq!(logs(), (log, note(lost)));
    let deleted = environment.cofferdam(&["delete", "--force", NAME]);
    assert_eq!(deleted.status, 0, "{}", deleted.stderr);
}
