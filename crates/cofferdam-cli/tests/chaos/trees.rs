//! Files of commits on disk: each is all of its tree or not there, whoever died.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_lab::sample::Sample;
use rustix::process::{Signal, kill_process};

use crate::checker;
use crate::environment::{AGENT, Environment, Moment};
use crate::kill::moment;

fn entries(path: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(path).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

/// The layers that stand on no other: those with all files of a tree, whose name is its id.
fn bases(environment: &Environment) -> Vec<PathBuf> {
    layers(environment, false)
}

/// The layers that stand on others, or those that do not.
fn layers(environment: &Environment, on_others: bool) -> Vec<PathBuf> {
    let stores = entries(&environment.home().join("trees"));
    let layers = stores.iter().flat_map(|store| entries(store));
    let is_wanted = |layer: &PathBuf| {
        let about = fs::read_to_string(layer.join("about"));
        about.is_ok_and(|about| about.lines().any(|line| line.starts_with("below ")) == on_others)
    };
    // What is without `about` is no layer; what has the name of one has to have it.
    let is_named = |layer: &PathBuf| {
        let name = layer.file_name().unwrap().to_string_lossy();
        name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let named = layers.filter(is_named);
    named
        .inspect(|layer| assert!(layer.join("about").exists(), "{}", layer.display()))
        .filter(is_wanted)
        .collect()
}

/// What is not as its name says, by git's own reckoning of the files; and what is left of unfinished ones.
fn faults(environment: &Environment) -> Vec<String> {
    let mut faults = Vec::new();
    for store in entries(&environment.home().join("trees")) {
        for left in entries(&store.join("tmp")) {
            faults.push(format!("half written: {}", left.display()));
        }
    }
    for layer in bases(environment) {
        let scratch = tempfile::tempdir().unwrap();
        let (git_dir, files) = (scratch.path().to_owned(), layer.join("files"));
        let (git_dir, files) = (git_dir.display().to_string(), files.display().to_string());
        environment.git(&["init", "-q", "--bare", &git_dir]);
        // Whatever the files themselves ask for: they are to be hashed as they are.
        let attributes = "* -text -filter -ident -working-tree-encoding\n";
        fs::create_dir_all(scratch.path().join("info")).unwrap();
        fs::write(scratch.path().join("info/attributes"), attributes).unwrap();
        let (git_dir, work_tree) = (
            format!("--git-dir={git_dir}"),
            format!("--work-tree={files}"),
        );
        let git = |words: &[&str]| {
            let first = ["-C", &files, "-c", "core.bare=false", &git_dir, &work_tree];
            environment.git(&[&first[..], words].concat())
        };
        git(&["add", "--all", "--force", "."]);
        let is = git(&["write-tree"]);
        let name = layer.file_name().unwrap().to_string_lossy();
        if is != name {
            faults.push(format!("{} is tree {is}", layer.display()));
        }
    }
    faults
}

#[track_caller]
pub(crate) fn assert_whole(environment: &Environment, what: &str) {
    assert_eq!(faults(environment), Vec::<String>::new(), "{what}");
}

/// The check can fail: for a file that is short, one that is gone, a mode, and what a dead writer leaves.
#[test]
fn what_is_torn_is_seen() {
    let environment = Environment::new();
    let options = ["--merge-to-head", "--mode", "layer"];
    let done = environment.start_run(&options, AGENT).finish();
    assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
    assert_whole(&environment, "as it should be");
    let base = bases(&environment).pop().unwrap();
    let mut files = entries(&base.join("files"));
    files.retain(|path| path.is_file() && path.metadata().unwrap().len() > 0);
    let file = files.pop().unwrap();
    let was = fs::read(&file).unwrap();
    for tear in ["short", "gone", "mode"] {
        match tear {
            "short" => fs::write(&file, &was[1..]).unwrap(),
            "gone" => fs::remove_file(&file).unwrap(),
            _ => set_mode(&file, 0o755),
        }
        let found = faults(&environment);
        assert_eq!(found.len(), 1, "{tear}: {found:?}");
        fs::write(&file, &was).unwrap();
        set_mode(&file, 0o644);
        assert_whole(&environment, tear);
    }
    fs::create_dir(base.parent().unwrap().join("tmp/half")).unwrap();
    assert_eq!(faults(&environment).len(), 1);
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Git inside reckons all files that it sees, by an index of its own, and comes to the commit's tree.
const WHOLE: &str = "export GIT_INDEX_FILE=/tmp/fresh; git add --all --force . && \
    test \"$(git write-tree)\" = \"$(git rev-parse 'HEAD^{tree}')\"";

/// A commit that differs little from one whose files are on disk.
fn second_commit() -> Environment {
    let environment = Environment::new();
    for number in 0..100 {
        environment.write(&format!("many/{number}"), format!("{number}\n"));
    }
    environment.write("many/below/file", "x\n");
    let commit = |what: &str| {
        environment.git(&["add", "--all", "many"]);
        environment.git(&["commit", "-qm", what]);
    };
    commit("many");
    let done = environment.cofferdam(&RUN);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let many = environment.repo().join("many");
    environment.write("many/0", "changed\n");
    environment.write("many/new/file", "new\n");
    set_mode(&many.join("1"), 0o755);
    for gone in ["2", "3"] {
        fs::remove_file(many.join(gone)).unwrap();
    }
    // A directory where a file was, and the other way round.
    environment.write("many/3/file", "below\n");
    fs::remove_dir_all(many.join("below")).unwrap();
    environment.write("many/below", "file\n");
    commit("second");
    environment
}

const RUN: [&str; 8] = [
    "run",
    "--merge-to-head",
    "--mode",
    "layer",
    "--network",
    "none",
    "--",
    "true",
];
const CREATE: [&str; 6] = ["create", "two", "--mode", "layer", "--network", "none"];

/// Makes a sandbox over the files of the second commit, which have to be what git says.
#[track_caller]
fn assert_served(environment: &Environment, what: &str) {
    for arguments in [
        &CREATE[..],
        &["exec", "two", "--", "sh", "-c", WHOLE],
        &["delete", "--force", "two"],
    ] {
        let done = environment.cofferdam(arguments);
        let (code, said) = (done.status, done.stderr);
        assert_eq!(code, 0, "{what}: {arguments:?}: {said}");
    }
    assert_eq!(layers(environment, true).len(), 1, "{what}");
    checker::gc(environment, what);
    checker::assert_sound(environment, what);
    assert_whole(environment, what);
}

/// What differs from a tree that is there is written, and whoever writes it is killed: the next one has all of it.
#[test]
fn what_differs_is_whole_or_not_there() {
    let environment = second_commit();
    environment.count_calls();
    let done = environment.cofferdam(&RUN);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let calls = environment.calls();
    environment.killed_at();
    assert_served(&environment, "as it should be");
    let killed = |call: &str, moment: Moment| {
        let environment = second_commit();
        environment.kill_where(call, moment);
        let end = environment.start(&RUN).finish();
        let at = environment.killed_at()?;
        assert_eq!(end.status, -9, "killed at {at}: {}", end.stderr);
        assert_served(&environment, &format!("killed at {at}"));
        Some(())
    };
    // Before and while git gives the files, and with all of them, but with nothing else of the layer.
    for moment in [Moment::Before, Moment::During, Moment::After] {
        killed("cat-file", moment).expect("no call gave the files");
    }
    let mut sample = Sample::new("what differs");
    // Some run beside each other, and the last ones may not be made.
    for call in sample.of(1..=calls, 4) {
        let moment = moment(sample.below(3));
        killed(&call.to_string(), moment);
    }
    for _ in sample.of(0..8, 4) {
        let environment = second_commit();
        let run = environment.start(&RUN);
        let delay = Duration::from_micros(sample.below(100_000));
        std::thread::sleep(delay);
        let _ = kill_process(run.pid(), Signal::KILL);
        run.finish();
        assert_served(&environment, &format!("killed after {delay:?}"));
    }
}

/// The check can fail, for what is torn of such a layer: a file, a mode, and a name that is to be gone.
#[test]
fn what_is_torn_of_what_differs_is_seen() {
    let environment = second_commit();
    assert_served(&environment, "as it should be");
    let files = layers(&environment, true)[0].join("files/many");
    for tear in ["file", "mode", "whiteout"] {
        let (from, to) = (files.join("2"), environment.path("aside"));
        match tear {
            "file" => fs::write(files.join("0"), "other\n").unwrap(),
            "mode" => set_mode(&files.join("1"), 0o644),
            _ => fs::rename(&from, &to).unwrap(),
        }
        assert_eq!(environment.cofferdam(&CREATE).status, 0);
        let look = ["exec", "two", "--", "sh", "-c", WHOLE];
        assert_ne!(environment.cofferdam(&look).status, 0, "{tear}");
        assert_eq!(
            environment.cofferdam(&["delete", "--force", "two"]).status,
            0
        );
        match tear {
            "file" => fs::write(files.join("0"), "changed\n").unwrap(),
            "mode" => set_mode(&files.join("1"), 0o755),
            _ => fs::rename(&to, &from).unwrap(),
        }
    }
    assert_served(&environment, "as it was");
}
