//! Branches whose names become alike where a directory, a sandbox or a container is called after them.

use std::collections::BTreeSet;

use crate::containers::{IMAGE, World, own, worlds};
use crate::environment::{Done, TestEnvironment};
use crate::lives::Lives;

/// A directory would be `a__b` for each, and a sandbox `dev-a-b`.
const ALIKE: [&str; 2] = ["a/b", "a__b"];

/// As somebody types it, natively or in an engine.
type Cofferdam<'a> = &'a dyn Fn(&[&str]) -> Done;

#[track_caller]
fn inside(cofferdam: Cofferdam<'_>, branch: &str, script: &str) -> String {
    let words = ["exec", "--branch", branch, "--", "sh", "-c", script];
    cofferdam(&words).expect_code(0).stdout
}

#[track_caller]
fn start_both(environment: &TestEnvironment, cofferdam: Cofferdam<'_>, place: &[&str]) {
    for branch in ALIKE {
        environment.git(&["branch", branch]);
        let start = [&["start", "--branch", branch][..], place].concat();
        cofferdam(&start).expect_code(0);
    }
}

/// Each has a directory and a name of its own, and what is done in one, or to one, is not done in the other.
#[track_caller]
fn live_apart(environment: &TestEnvironment, cofferdam: Cofferdam<'_>) {
    let places = ALIKE.map(|branch| {
        let seen = inside(cofferdam, branch, "git branch --show-current; pwd");
        let (current, place) = seen.split_once('\n').unwrap();
        assert_eq!(current, branch);
        place.trim_end().to_owned()
    });
    let [plain, digested] = &places;
    assert_eq!(plain, "/repo-shelf/worktrees/a__b");
    // SHA-256 of the branch's name begins so.
    assert_eq!(digested, "/repo-shelf/worktrees/a__b-63e5c1c4");
    let listed = cofferdam(&["list", "--names"]).expect_code(0).stdout;
    let names: BTreeSet<&str> = listed.lines().collect();
    assert_eq!(names, BTreeSet::from(["dev-a-b", "dev-a-b-2"]));

    // Both have committed before one of them pushes.
    for branch in ALIKE {
        let commit =
            format!("echo {branch} > mine && git add mine && git commit -qm 'of {branch}'");
        inside(cofferdam, branch, &commit);
    }
    for branch in ALIKE {
        inside(cofferdam, branch, &format!("git push -q host {branch}"));
    }
    for branch in ALIKE {
        let subjects = environment.git(&["log", "--format=%s", branch, "--"]);
        assert_eq!(subjects, format!("of {branch}\nstart"));
        let mine = environment.git(&["show", &format!("{branch}:mine")]);
        assert_eq!(mine, branch);
    }
    let subjects = environment.git(&["log", "--format=%s", "main", "--"]);
    assert_eq!(subjects, "start");

    let [first, second] = ALIKE;
    cofferdam(&["stop", "--branch", first]).expect_code(0);
    let words = ["exec", "--branch", first, "--", "true"];
    let stopped = cofferdam(&words).expect_code(1);
    let next = "`cofferdam start dev-a-b`";
    assert!(stopped.stderr.contains(next), "{stopped}");
    let mine = inside(cofferdam, second, "cat mine");
    assert_eq!(mine, format!("{second}\n"));
    cofferdam(&["start", "--branch", first]).expect_code(0);
    let mine = inside(cofferdam, first, "cat mine");
    assert_eq!(mine, format!("{first}\n"));
    cofferdam(&["delete", "--force", "dev-a-b", "dev-a-b-2"]).expect_code(0);
}

/// The names of their containers.
fn containers(world: &World) -> BTreeSet<String> {
    let agents = world.filtered("engines", &["--filter", "label=io.cofferdam.role=agent"]);
    let named = agents.iter().map(|id| {
        let said = own(world.engine, &["inspect", "--format", "{{.Name}}", id]);
        said.unwrap().trim().trim_start_matches('/').to_owned()
    });
    named.collect()
}

// covers: S3-118
#[test]
fn branches_with_names_alike_live_apart() {
    let lives = Lives::new();
    let cofferdam = |words: &[&str]| lives.cofferdam(words);
    start_both(&lives, &cofferdam, &[]);
    live_apart(&lives, &cofferdam);
    lives.expect_clean();
}

// covers: S3-118
#[test]
fn their_containers_are_called_apart() {
    for world in worlds() {
        let cofferdam = |words: &[&str]| world.cofferdam(words);
        let place = ["--sandbox", world.engine, "--image", IMAGE];
        start_both(&world.environment, &cofferdam, &place);
        let hosts = ALIKE.map(|branch| {
            let host = inside(&cofferdam, branch, "hostname");
            host.trim_end().to_owned()
        });
        let hosts = BTreeSet::from(hosts);
        assert_eq!(hosts.len(), 2, "{}: {hosts:?}", world.engine);
        assert_eq!(containers(&world), hosts, "{}", world.engine);
        live_apart(&world.environment, &cofferdam);
        world.expect_clean();
    }
}
