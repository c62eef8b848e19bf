//! Files of commits on disk: each is all of its tree or not there, whoever died.

use std::fs;
use std::path::{Path, PathBuf};

use crate::environment::{AGENT, Environment};

fn entries(path: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(path).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

/// The layers that stand on no other: those with all files of a tree, whose name is its id.
fn bases(environment: &Environment) -> Vec<PathBuf> {
    let stores = entries(&environment.home().join("trees"));
    let layers = stores.iter().flat_map(|store| entries(store));
    let is_base = |layer: &PathBuf| {
        let about = fs::read_to_string(layer.join("about"));
        about.is_ok_and(|about| !about.lines().any(|line| line.starts_with("below ")))
    };
    // What is without `about` is no layer; what has the name of one has to have it.
    let is_named = |layer: &PathBuf| {
        let name = layer.file_name().unwrap().to_string_lossy();
        name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let named = layers.filter(is_named);
    named
        .inspect(|layer| assert!(layer.join("about").exists(), "{}", layer.display()))
        .filter(is_base)
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
