//! Runs and plans of which nothing can be written down: a full disk where the records are, as a small file system in a mount
//! namespace of the test's own (root only).

use std::path::PathBuf;

use cofferdam_lab::skip;

use crate::checker::{self, User};
use crate::environment::{AGENT, Environment};
use crate::full_disk::{Mounted, apart, mount};
use crate::keeper::End;
use crate::no_room::fill;

/// An environment of which one directory of the state lies on a disk of its own.
struct Place {
    /// Goes first: a directory in which something is mounted stays.
    _mounted: Mounted,
    environment: Environment,
    directory: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let environment = Environment::new();
        let directory = environment.home().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        mount(&directory, "mode=700,size=256k");
        Self {
            _mounted: Mounted(directory.clone()),
            environment,
            directory,
        }
    }

    fn filler(&self) -> PathBuf {
        self.directory.join("filler")
    }

    /// A hook that fills it just before an agent starts.
    fn fills(&self) -> String {
        format!("cat /dev/zero > '{}'; true", self.filler().display())
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    /// What is there but the filler.
    fn left(&self) -> Vec<String> {
        let found = self.directory.read_dir().unwrap().flatten();
        let names = found.map(|one| one.file_name().into_string().unwrap());
        names.filter(|name| name != "filler").collect()
    }

    /// It names the file, says why it was not written, and what to do.
    #[track_caller]
    fn assert_told(&self, end: &End, file: &str, what: &str) {
        let begin = format!("cannot write {}/", self.directory.display());
        let why = format!("{file}: No space left on device");
        let named = |line: &str| line.contains(&begin) && line.contains(&why);
        assert!(end.stderr.lines().any(named), "{what}: {}", end.stderr);
        let hint =
            "\nhint: nothing is lost: make room on that disk, then give the same command again\n";
        assert!(end.stderr.contains(hint), "{what}: {}", end.stderr);
        assert_eq!(end.status, 1, "{what}: {}", end.stderr);
    }
}

const WAYS: [&[&str]; 3] = [&["--head"], &["--branch", "feature"], &["--merge-to-head"]];
const MORE: &str = "git commit -q --allow-empty -m w4";

/// Nothing is made for a run of which nobody would know.
#[test]
fn a_run_that_cannot_be_written_down_does_not_begin() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_record::a_run_that_cannot_be_written_down_does_not_begin") {
        return;
    }
    for way in WAYS {
        let place = Place::new("runs");
        let environment = &place.environment;
        let before = User::of(environment);
        fill(&place.filler(), 0);
        let what = format!("{way:?} without room");
        let end = environment.start_run(way, AGENT).finish();
        place.assert_told(&end, "/run.json", &what);
        assert!(!end.stdout.contains("all-committed"), "{what}");
        assert!(environment.states().is_empty(), "{what}: {}", end.stderr);
        assert_eq!(place.left(), [""; 0], "{what}");
        checker::assert_clean(environment, &before, &what, "");
        place.make_room();
        let end = environment.start_run(way, AGENT).finish();
        assert_eq!(end.status, 0, "{what}, again: {}", end.stderr);
        assert_eq!(checker::subjects(environment).len(), 3, "{what}");
        checker::assert_clean(environment, &before, &what, "");
    }
}

/// Its disk is full by the time that the agent has worked: what it committed is where the end says.
#[test]
fn a_run_whose_end_cannot_be_written_down_keeps_its_commits() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_record::a_run_whose_end_cannot_be_written_down_keeps_its_commits") {
        return;
    }
    for way in WAYS {
        let place = Place::new("runs");
        let environment = &place.environment;
        let before = User::of(environment);
        let fills = place.fills();
        let options = [way, &["--on-host-ready", &fills]].concat();
        let what = format!("{way:?} that lost its room");
        let end = environment.start_run(&options, AGENT).finish();
        assert!(
            end.stdout.contains("all-committed"),
            "{what}: {}",
            end.stderr
        );
        place.assert_told(&end, "/run.json", &what);
        assert!(
            end.stderr.contains(": 3 commits on "),
            "{what}: {}",
            end.stderr
        );
        assert_eq!(checker::subjects(environment).len(), 3, "{what}");
        let unwritten = "the record of the run was not written: cannot write ";
        assert!(end.stdout.contains(unwritten), "{what}: {}", end.stdout);
        // What there is of it says that it never ended.
        let runs = environment.cofferdam(&["runs"]);
        assert_eq!(runs.status, 0, "{what}: {}", runs.stderr);
        assert!(
            runs.stdout.contains("interrupted"),
            "{what}: {}",
            runs.stdout
        );
        place.make_room();
        let end = environment.start_run(way, MORE).finish();
        assert_eq!(end.status, 0, "{what}, again: {}", end.stderr);
        assert_eq!(checker::subjects(environment).len(), 4, "{what}");
        checker::assert_clean(environment, &before, &what, "");
    }
}

/// The same in a sandbox that lives on. That nothing begins there is in `no_room`.
#[test]
fn an_agent_in_one_that_lives_on_keeps_its_commits() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_record::an_agent_in_one_that_lives_on_keeps_its_commits") {
        return;
    }
    let place = Place::new("runs");
    let environment = &place.environment;
    let before = User::of(environment);
    let created = environment.cofferdam(&["create", "one", "--network", "none"]);
    assert_eq!(created.status, 0, "{}", created.stderr);
    let script = format!("{AGENT}; echo at-''work; until test -e ~/go; do sleep 0.05; done");
    let mut run = environment.start_run(&["--in", "one"], &script);
    run.wait_until_said("at-work");
    fill(&place.filler(), 0);
    let went = environment.cofferdam(&["exec", "one", "--", "sh", "-c", "touch ~/go"]);
    assert_eq!(went.status, 0, "{}", went.stderr);
    let end = run.finish();
    let what = "in one that lives on";
    place.assert_told(&end, "/run.json", what);
    assert!(
        end.stderr.contains("landed: 3 commits on cofferdam/one"),
        "{}",
        end.stderr
    );
    assert_eq!(checker::subjects(environment).len(), 3, "{}", end.stderr);
    place.make_room();
    let end = environment.start_run(&["--in", "one"], MORE).finish();
    assert_eq!(end.status, 0, "{}", end.stderr);
    assert_eq!(checker::subjects(environment).len(), 4, "{}", end.stderr);
    let deleted = environment.cofferdam(&["delete", "--force", "one"]);
    assert_eq!(deleted.status, 0, "{}", deleted.stderr);
    checker::assert_clean(environment, &before, what, "");
}

/// One task, which is through as soon as it finds its commits.
fn plan(environment: &Environment) {
    let plan = format!(
        "tasks:\n  - name: one\n    prompt: |\n      test -e agent/3.txt && exit 0\n      {AGENT}\n"
    );
    environment.write("plan.yaml", plan);
}

fn run_plan(environment: &Environment, options: &[&str]) -> End {
    let agent = ["--", "sh", "-s"];
    environment.cofferdam(&[&["run", "--plan", "plan.yaml"], options, &agent].concat())
}

/// The plan goes on where it was, and what it says at the end merges all of it.
#[track_caller]
fn goes_on(environment: &Environment, what: &str) {
    let end = run_plan(environment, &[]);
    assert_eq!(end.status, 0, "{what}, again: {}{}", end.stdout, end.stderr);
    assert!(end.stdout.contains("3 commits"), "{what}: {}", end.stdout);
    let (_, merge) = end.stdout.split_once("cofferdam merge ").unwrap();
    let name = merge.split_whitespace().next().unwrap();
    let merged = environment.cofferdam(&["merge", name]);
    assert_eq!(merged.status, 0, "{what}: {}", merged.stderr);
    let main = environment.git(&["log", "--format=%s", "main"]);
    assert!(main.contains("w3\nw2\nw1\n"), "{what}: {main}");
}

#[test]
fn a_plan_that_cannot_be_written_down_does_not_begin() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_record::a_plan_that_cannot_be_written_down_does_not_begin") {
        return;
    }
    let place = Place::new("plans");
    let environment = &place.environment;
    plan(environment);
    let before = User::of(environment);
    fill(&place.filler(), 0);
    let end = run_plan(environment, &[]);
    let what = "a plan without room";
    place.assert_told(&end, ".json", what);
    assert!(environment.states().is_empty(), "{what}: {}", end.stderr);
    assert_eq!(checker::subjects(environment).len(), 0, "{what}");
    place.make_room();
    goes_on(environment, what);
    checker::assert_clean(environment, &before, what, "");
}

#[test]
fn a_plan_whose_end_cannot_be_written_down_keeps_its_commits() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("no_record::a_plan_whose_end_cannot_be_written_down_keeps_its_commits") {
        return;
    }
    let place = Place::new("plans");
    let environment = &place.environment;
    plan(environment);
    let before = User::of(environment);
    let fills = place.fills();
    let end = run_plan(environment, &["--on-host-ready", &fills]);
    let what = "a plan that lost its room";
    place.assert_told(&end, ".json", what);
    let says = "its commits are on branch `cofferdam/one`, and that could not be written down: ";
    assert!(end.stderr.contains(says), "{what}: {}", end.stderr);
    let there = environment.git(&["log", "--format=%s", "cofferdam/one"]);
    assert!(there.starts_with("w3\nw2\nw1\n"), "{what}: {there}");
    place.make_room();
    goes_on(environment, what);
    checker::assert_clean(environment, &before, what, "");
}
