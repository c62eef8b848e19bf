//! The host's git directory, around each command on dev sandboxes: it is read, and what is written there is what comes home.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::containers::{IMAGE, World, worlds};
use crate::environment::TestEnvironment;
use crate::everywhere::native;
use crate::lives::OnTerminal;

/// Empty, and there from the first sandbox on: who holds them says that one is at work.
const LOCKS: [&str; 2] = ["cofferdam.lock", "cofferdam-beside.lock"];

/// All that is in it.
pub(crate) struct GitDirectory(BTreeMap<PathBuf, Seen>);

#[derive(PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Of a file; of a link where it leads.
    content: Vec<u8>,
}

impl GitDirectory {
    #[track_caller]
    pub(crate) fn of(environment: &TestEnvironment) -> Self {
        let mut all = BTreeMap::new();
        let top = environment.repository().join(".git");
        look(&top, Path::new(""), &mut all);
        assert!(all.len() > 10, "nobody looked");
        Self(all)
    }

    /// Each path that is not as it was then: new, gone or another one. The directory itself is "".
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<String> {
        let paths: BTreeSet<&PathBuf> = self.0.keys().chain(before.0.keys()).collect();
        let changed = paths
            .into_iter()
            .filter(|&path| self.0.get(path) != before.0.get(path));
        changed.map(|path| path.display().to_string()).collect()
    }
}

fn look(top: &Path, below: &Path, all: &mut BTreeMap<PathBuf, Seen>) {
    let path = top.join(below);
    let found = path.symlink_metadata().unwrap();
    let mut content = Vec::new();
    if found.is_dir() {
        for entry in std::fs::read_dir(&path).unwrap() {
            look(top, &below.join(entry.unwrap().file_name()), all);
        }
    } else if found.is_symlink() {
        let target = std::fs::read_link(&path).unwrap();
        content = target.as_os_str().as_bytes().to_vec();
    } else {
        content = std::fs::read(&path).unwrap();
    }
    let seen = Seen {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        modified: (found.mtime(), found.mtime_nsec()),
        content,
    };
    all.insert(below.to_owned(), seen);
}

/// Nothing but this is another one, and this is.
#[track_caller]
fn only(environment: &TestEnvironment, before: &GitDirectory, parts: &[&str], reference: &str) {
    let changed = GitDirectory::of(environment).changed_since(before);
    let others: Vec<&String> = changed
        .iter()
        .filter(|path| !parts.contains(&path.split('/').next().unwrap()))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(changed.iter().any(|path| path == reference), "{changed:?}");
}

#[test]
fn commands_leave_it_as_it_is_but_for_what_comes_home() {
    for world in std::iter::once(native()).chain(worlds()) {
        leave_it_as_it_is(&world);
        what_comes_home_is_all(&world);
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}

/// The words of a command that makes a sandbox of this world's.
fn making<'w>(world: &World, words: &[&'w str]) -> Vec<&'w str> {
    let place = ["--network", "none", "--sandbox", world.engine];
    let image: &[&str] = match world.engine {
        "native" => &[],
        _ => &["--image", IMAGE],
    };
    [words, &place[..], image].concat()
}

/// As long as nothing is committed inside.
fn leave_it_as_it_is(world: &World) {
    let environment = &world.environment;
    environment.git(&["branch", "feature/one"]);
    let origin = "https://me:token@example.com/a.git";
    environment.git(&["remote", "add", "origin", origin]);
    for lock in LOCKS {
        environment.write(&format!(".git/{lock}"), "");
    }
    let before = GitDirectory::of(environment);
    let leaves = |what: &str| {
        let changed = GitDirectory::of(environment).changed_since(&before);
        assert_eq!(changed, [""; 0], "{what} in {}", world.engine);
    };
    let ends = |words: &[&str], code: i32| {
        world.cofferdam(words).expect_code(code);
        leaves(&words.join(" "));
    };
    // No engine is asked for one that is native.
    let asked = i32::from(world.engine == "native");

    ends(&making(world, &["show-run"]), asked);
    ends(&["checkout", "feature/one"], 0);
    ends(&making(world, &["start"]), 0);
    ends(&["start"], 0);
    for words in [&["list"][..], &["list", "--wide"], &["status", "."]] {
        ends(words, 0);
    }
    let volumes = world.cofferdam(&["volume"]).expect_code(0).stdout;
    leaves("volume");
    ends(&["volume", "list"], 0);
    for volume in volumes.lines().filter(|name| name.contains("-shelf-")) {
        ends(&["volume", "inspect", volume], 0);
    }
    let script = "git status && git log && git branch && git diff --stat";
    ends(&["exec", "dev", "--", "sh", "-c", script], 0);
    let mut shell = OnTerminal::start(&world.command(&["shell"]), (40, 100));
    shell.expect("dev:");
    shell.press("git status >/dev/null; echo lo''oked\r");
    shell.expect("looked");
    shell.press("exit\r");
    shell.ends_with(0);
    leaves("shell");
    ends(&["show-run"], asked);
    ends(&["checkout", "feature/one"], 0);
    ends(&making(world, &["start", "--branch", "feature/one"]), 0);
    ends(&["exec", "dev-feature-one", "--", "git", "status"], 0);
    ends(&["restart"], 0);
    ends(&["stop"], 0);
    ends(&["start"], 0);
}

/// The control: it is seen, and it is on its branch, in the log of that, in objects, and for what is checked out in the index.
fn what_comes_home_is_all(world: &World) {
    let environment = &world.environment;
    let before = GitDirectory::of(environment);
    let push = "git commit -q --allow-empty -m pushed && git push -q host feature/one";
    world.exec_in("dev-feature-one", push).expect_code(0);
    let parts = ["", "logs", "objects", "refs"];
    only(environment, &before, &parts, "refs/heads/feature/one");
    world
        .cofferdam(&["delete", "--force", "dev-feature-one"])
        .expect_code(0);

    let before = GitDirectory::of(environment);
    let commit = "echo new > new && git add new && git commit -qm inside";
    world.exec_in("dev", commit).expect_code(0);
    let parts = ["", "index", "logs", "objects", "refs"];
    only(environment, &before, &parts, "refs/heads/main");
}
