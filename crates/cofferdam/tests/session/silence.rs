//! The library takes values: a whole run prints nothing and reads nothing of its process's environment
//! (invariant 7).
//!
//! The run is in a process of its own, whose environment is a trap: every directory that it names is watched,
//! and every program that it offers tells that it was started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam::git::Git;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};

use crate::support::{Env, run_ok};

/// Where the inner process works, and with which git.
const PLACE: &str = "COFFERDAM_TEST_SILENT_PLACE";
const GIT: &str = "COFFERDAM_TEST_SILENT_GIT";
/// What the inner process says when its runs are done. Only then it may.
const DONE: &str = "the runs are done";

#[test]
fn a_whole_run_says_nothing_and_reads_no_environment() {
    if let Some(place) = std::env::var_os(PLACE) {
        return inner(Path::new(&place));
    }
    let place = tempfile::tempdir().unwrap();
    // The control: the trap shuts, and what is printed is seen.
    let control = trapped(
        place.path(),
        &["sh", "-c", "echo x; git; true > \"$HOME/x\""],
    );
    assert_eq!((control.said.as_str(), control.touched.len()), ("x\n", 2));

    let program = std::env::current_exe().unwrap();
    let name = "silence::a_whole_run_says_nothing_and_reads_no_environment";
    let program = program.to_str().unwrap();
    let end = trapped(place.path(), &[program, "--exact", name, "--nocapture"]);
    // Around it the test harness speaks. It may name the test before it runs it, or after.
    let (before, after) = end.said.split_once(DONE).unwrap_or((&end.said, ""));
    let before = before.replace(&format!("test {name} ..."), "");
    assert_eq!(before.trim(), "running 1 test", "{}", end.said);
    assert!(after.contains("1 passed"), "{}", end.said);
    assert_eq!(end.touched, <[PathBuf; 0]>::default());
}

/// Whole runs, of each kind.
#[expect(
    clippy::print_stdout,
    reason = "says to the process around it that the runs are done"
)]
fn inner(place: &Path) {
    let env = Env::below(place, "repo".as_ref(), &[]);
    env.write(".cofferdam/.env", "A=b\n");
    env.write(".gitignore", ".cofferdam/\n");
    env.commit_all("ignore");
    let work = "echo x >> README.md; git commit -qam work";
    let mut options = [
        env.script(BranchStrategy::Head, work),
        env.bind(BranchStrategy::MergeToHead, work),
        env.copy(CopyStrategy::MergeToHead, work),
        env.layered(CopyStrategy::MergeToHead, work),
    ];
    for options in &mut options {
        options.caller.git = Git::new(std::env::var_os(GIT).unwrap());
    }
    for options in options {
        run_ok(options);
    }
    assert_eq!(env.subjects("main")[2..], ["work"; 4]);
    drop(env);
    print!("{DONE}");
}

struct End {
    /// On either stream.
    said: String,
    /// What was made or started in the trap.
    touched: Vec<PathBuf>,
}

/// Runs a command with an environment that nothing may follow.
fn trapped(place: &Path, command: &[&str]) -> End {
    let trap = tempfile::tempdir_in(place).unwrap();
    let (empty, programs) = (trap.path().join("empty"), trap.path().join("bin"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::create_dir(&programs).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin";
    for program in ["git", "sh", "cofferdam", "setpriv", "newuidmap", "mount"] {
        let file = programs.join(program);
        let told = empty.join("started").display().to_string();
        let script = format!("#!/bin/sh\necho x > '{told}'\nexit 1\n");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let git = std::env::split_paths(path).map(|entry| entry.join("git"));
    let git = git.into_iter().find(|git| git.is_file()).unwrap();
    let git = std::env::var_os("COFFERDAM_TEST_GIT")
        .filter(|git| Path::new(git).is_absolute())
        .unwrap_or_else(|| git.into());
    let shell = command[0] == "sh";
    let program = if shell { "/bin/sh" } else { command[0] };
    let done = Command::new(program)
        .args(&command[1..])
        .env_clear()
        .env(PLACE, place)
        .env(GIT, git)
        .env("PATH", &programs)
        .envs(
            [
                "HOME",
                "TMPDIR",
                "TMP",
                "TEMP",
                "PWD",
                "COFFERDAM_HOME",
                "GIT_DIR",
                "GIT_WORK_TREE",
                "GIT_CONFIG_GLOBAL",
                "GIT_CONFIG_SYSTEM",
                "GIT_INDEX_FILE",
                "GIT_OBJECT_DIRECTORY",
                "GIT_EXEC_PATH",
                "XDG_CONFIG_HOME",
                "XDG_CACHE_HOME",
                "XDG_DATA_HOME",
                "XDG_RUNTIME_DIR",
                "XDG_STATE_HOME",
            ]
            .map(|name| (name, &empty)),
        )
        .env("GIT_TRACE", "1")
        .env("LC_ALL", "de_DE.UTF-8")
        .output()
        .unwrap();
    let mut said = String::from_utf8_lossy(&done.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&done.stderr));
    let touched = std::fs::read_dir(&empty).unwrap().flatten();
    let touched = touched.map(|entry| entry.path()).collect();
    End { said, touched }
}
