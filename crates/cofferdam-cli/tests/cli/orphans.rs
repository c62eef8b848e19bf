//! Sandboxes whose repository was removed or moved.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{TestEnvironment, commit_script, finish};

/// A sandbox that ended, with nothing of it outside of the repository.
fn stopped(environment: &TestEnvironment) {
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
}

/// A sandbox whose command died before its commits came home.
fn killed(environment: &TestEnvironment) {
    killed_as(environment, "one");
}

pub(crate) fn killed_as(environment: &TestEnvironment, name: &str) {
    let script = "echo a > a.txt; git add a.txt; git commit -qm a; touch committed; sleep 600";
    let mut child = environment
        .command(&["run", "--head", "--name", name, "--", "sh", "-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let committed = environment.repository().join("committed");
    for _ in 0..6000 {
        if committed.exists() || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(committed.exists());
    child.kill().unwrap();
    finish(child);
}

/// Removes the checkout, or moves it away; the commands work in another directory then.
fn take_away(environment: &TestEnvironment) -> [String; 2] {
    let moved = environment.home().join("moved");
    std::fs::rename(environment.repository(), moved).unwrap();
    std::fs::create_dir(environment.repository()).unwrap();
    let elsewhere = environment.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    ["-C".to_owned(), elsewhere.to_str().unwrap().to_owned()]
}

fn listed(environment: &TestEnvironment) -> Vec<Value> {
    let done = environment.cofferdam(&["list", "--all-repos", "--json"]);
    serde_json::from_str(&done.expect_code(0).stdout).unwrap()
}

#[test]
fn one_that_keeps_nothing_goes_with_gc_or_by_its_name() {
    let delete = |environment: &TestEnvironment, at: &[String; 2], name: &str| {
        environment.cofferdam(&[&at[0], &at[1], "delete", name])
    };
    let environment = TestEnvironment::with_repository();
    stopped(&environment);
    // The control: as long as the repository is there, gc keeps it, and no other place deletes it.
    environment.cofferdam(&["gc"]).expect_code(0);
    let outside = environment.home();
    let outside = ["-C".to_owned(), outside.to_str().unwrap().to_owned()];
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    delete(&environment, &outside, "one").expect_code(1);
    delete(&environment, &outside, &id).expect_code(1);
    let at = take_away(&environment);
    assert_eq!(listed(&environment)[0]["orphaned"], true);
    let done = environment
        .cofferdam(&["list", "--all-repos"])
        .expect_code(0);
    assert!(done.stdout.contains("  orphaned  "), "{done}");
    let words = format!(
        "the repository of one is gone: put it back, or end it with `cofferdam delete {id}`\n"
    );
    assert!(done.stderr.contains(&words), "{done}");
    // The journal of a merge that was killed is work too: the checkout may come back.
    let journal = outside[1].clone() + "/.cofferdam/state/" + &id + "/landing.json";
    let there = Path::new(&journal);
    cofferdam::fsx::write_private(there, b"{}").unwrap();
    let done = environment.cofferdam(&["gc"]).expect_code(1);
    assert!(done.stderr.contains(&id) && there.exists(), "{done}");
    std::fs::remove_file(there).unwrap();
    let done = environment.cofferdam(&["gc", "--dry-run"]).expect_code(0);
    assert!(
        done.stdout.contains("would be removed: sandbox one, whose"),
        "{done}"
    );
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    let removed = |line: &str| line.starts_with("removed: sandbox one, whose");
    assert!(done.stdout.lines().any(removed), "{done}");
    assert!(listed(&environment).is_empty());
    delete(&environment, &at, "one").expect_code(1);

    for by_name in [true, false] {
        let environment = TestEnvironment::with_repository();
        stopped(&environment);
        let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
        let at = take_away(&environment);
        let name = if by_name { "one" } else { &id };
        let done = delete(&environment, &at, name).expect_code(0);
        assert_eq!(done.stderr, "deleted one\n");
        assert!(listed(&environment).is_empty());
    }
}

#[test]
fn one_that_keeps_work_is_a_problem_that_names_the_command_that_ends_it() {
    let environment = TestEnvironment::with_repository();
    killed(&environment);
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let at = take_away(&environment);
    let state = environment.home().join(".cofferdam/state").join(&id);
    let ends = format!("cofferdam delete --force {id}");
    for _ in 0..2 {
        let done = environment.cofferdam(&["gc"]).expect_code(1);
        let problems: Vec<&str> = done.stderr.lines().collect();
        let [problem] = problems.as_slice() else {
            panic!("{done}");
        };
        assert!(
            problem.starts_with("problem: ") && problem.contains(&format!("`{ends}`")),
            "{done}"
        );
    }
    assert_eq!(listed(&environment)[0]["orphaned"], true);
    assert_eq!(listed(&environment)[0]["interrupted"], false);
    let done = environment
        .cofferdam(&[&at[0], &at[1], "delete", &id])
        .expect_code(1);
    let ends_here = format!("`cofferdam -C {} delete --force {id}`", at[1]);
    assert!(done.stderr.contains(&ends_here), "{done}");
    assert!(state.join("git").is_dir());
    let forced = [&at[0], &at[1], "delete", "--force", &id];
    environment.cofferdam(&forced).expect_code(0);
    assert!(!state.exists());
    environment.cofferdam(&["gc"]).expect_code(0);

    // What the hint says first: the repository comes back, and its commits come home.
    let environment = TestEnvironment::with_repository();
    killed(&environment);
    take_away(&environment);
    environment.cofferdam(&["gc"]).expect_code(1);
    std::fs::remove_dir(environment.repository()).unwrap();
    std::fs::rename(environment.home().join("moved"), environment.repository()).unwrap();
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert!(done.stdout.contains("recovered: one, 1 commit"), "{done}");
}

/// Also what is in no commit, and lies over files of the repository that is gone.
#[test]
fn what_was_changed_over_layers_is_work() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--mode", "layer", "--name", "one"], "echo draft > draft")
        .expect_code(0);
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let at = take_away(&environment);
    let draft = environment.home().join(".cofferdam/state").join(&id);
    let draft = draft.join("layer/upper/draft");
    environment.cofferdam(&["gc"]).expect_code(1);
    environment
        .cofferdam(&[&at[0], &at[1], "delete", &id])
        .expect_code(1);
    assert!(draft.exists());
    std::fs::remove_dir(environment.repository()).unwrap();
    std::fs::rename(environment.home().join("moved"), environment.repository()).unwrap();
    environment.cofferdam(&["gc"]).expect_code(0);
    environment.cofferdam(&["apply", "one"]).expect_code(0);
    assert_eq!(environment.read("draft"), "draft\n");
}

/// `list` names the command that ends it or says why it does not, and what is left in a repository that comes back is told.
#[test]
fn one_that_lives_is_ended_by_the_command_that_is_printed() {
    let environment = TestEnvironment::with_repository();
    let create = ["create", "one", "--network", "none"];
    environment.cofferdam(&create).expect_code(0);
    let script = commit_script(&["a"]);
    let exec = ["exec", "one", "--", "sh", "-c", &script];
    environment.cofferdam(&exec).expect_code(0);
    environment.cofferdam(&["collect", "one"]).expect_code(0);
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let at = take_away(&environment);
    let list = environment
        .cofferdam(&["list", "--all-repos"])
        .expect_code(0);
    let words = format!("or end it with `cofferdam delete {id}`\n");
    assert!(list.stderr.contains(&words), "{list}");
    let delete = |options: &[&str]| {
        environment.cofferdam(&[&[&at[0], &at[1], "delete"], options, &[&id]].concat())
    };
    let refused = delete(&[]).expect_code(1);
    let ends = format!(" delete --force {id}`");
    assert!(refused.stderr.contains(&ends), "{refused}");
    let done = delete(&["--force"]).expect_code(0);
    let references = format!("refs/cofferdam/{id}/");
    assert!(done.stderr.contains(&references), "{done}");
    assert!(listed(&environment).is_empty());
}

#[test]
fn a_name_that_two_have_is_not_guessed() {
    let environment = TestEnvironment::with_repository();
    stopped(&environment);
    let second = environment.home().join("second");
    let clone = format!(
        "git clone -q . {0} && git -C {0} config user.name U && git -C {0} config user.email u@u",
        second.display()
    );
    environment.shell(&clone).expect_code(0);
    let script = commit_script(&["a"]);
    let place = second.to_str().unwrap();
    let run = [
        "-C", place, "run", "--branch", "b", "--name", "one", "--", "sh", "-c", &script,
    ];
    environment.cofferdam(&run).expect_code(0);
    // In a repository its own name is meant, whatever else has it.
    std::fs::rename(&second, environment.home().join("second-moved")).unwrap();
    environment.cofferdam(&["delete", "one"]).expect_code(0);
    let left = listed(&environment);
    assert_eq!((left.len(), &left[0]["orphaned"]), (1, &Value::from(true)));
    // And a name of another repository's is not.
    let done = environment.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(done.stderr.contains("Sandbox 'one' not found."), "{done}");
    stopped(&environment);
    let at = take_away(&environment);
    let done = environment
        .cofferdam(&[&at[0], &at[1], "delete", "one"])
        .expect_code(1);
    let both = listed(&environment);
    assert_eq!(both.len(), 2);
    for one in both {
        let id = one["id"].as_str().unwrap();
        assert!(
            done.stderr
                .contains(&format!("`cofferdam -C {} delete {id}`", at[1])),
            "{done}"
        );
        environment
            .cofferdam(&[&at[0], &at[1], "delete", id])
            .expect_code(0);
    }
    assert!(listed(&environment).is_empty());
}

/// Moves the repository to `saved`, and another is at its place.
fn replace(environment: &TestEnvironment) {
    let saved = environment.home().join("saved");
    std::fs::rename(environment.repository(), saved).unwrap();
    std::fs::create_dir(environment.repository()).unwrap();
    let line = "git init -q -b main && git config user.name U && git config user.email u@u && \
                git commit -q --allow-empty -m other";
    environment.shell(line).expect_code(0);
}

fn put_back(environment: &TestEnvironment) {
    std::fs::remove_dir_all(environment.repository()).unwrap();
    let saved = environment.home().join("saved");
    std::fs::rename(saved, environment.repository()).unwrap();
}

/// A run in the checkout whose commits are kept on a reference of ours: the branch moved meanwhile.
fn kept(environment: &TestEnvironment) {
    let mine = "git commit -q --allow-empty -m mine";
    let options = ["--head", "--name", "one", "--on-host-ready", mine];
    environment
        .run(&options, &commit_script(&["a"]))
        .expect_code(1);
}

#[test]
fn another_repository_at_its_place_gets_nothing_of_it() {
    let environment = TestEnvironment::with_repository();
    killed(&environment);
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let work = environment
        .home()
        .join(".cofferdam/state")
        .join(&id)
        .join("git");
    replace(&environment);
    let before = environment.references();
    for arguments in [&["gc"][..], &["gc", "--dry-run"]] {
        let done = environment.cofferdam(arguments).expect_code(1);
        assert!(done.stderr.contains("is another repository now"), "{done}");
        let ends = format!("`cofferdam delete --force {id}`");
        assert!(done.stderr.contains(&ends), "{done}");
        assert!(!done.stdout.contains("recovered"), "{done}");
    }
    // Nor by a run that would finish what died in its place.
    let done = environment.run(&["--head", "--name", "two"], "true");
    assert!(done.stderr.contains("is another repository now"), "{done}");
    assert_eq!(environment.references(), before);
    environment.git(&["fsck", "--strict"]);
    assert!(work.is_dir());
    // The control: in its own the commits come home.
    put_back(&environment);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert!(done.stdout.contains("recovered: one, 1 commit"), "{done}");
}

#[test]
fn beside_another_repository_it_can_be_given_up() {
    for option in ["--force", "--purge"] {
        let environment = TestEnvironment::with_repository();
        killed(&environment);
        let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
        replace(&environment);
        let before = environment.references();
        let done = environment.cofferdam(&["delete", &id]).expect_code(1);
        let hint = format!("`cofferdam delete --force {id}`");
        assert!(done.stderr.contains(&hint), "{done}");
        environment
            .cofferdam(&["delete", option, &id])
            .expect_code(0);
        assert!(listed(&environment).is_empty());
        assert_eq!(environment.references(), before);
    }
}

#[test]
fn commits_kept_in_a_repository_that_comes_back_are_not_forgotten() {
    let away = |environment: &TestEnvironment| {
        let saved = environment.home().join("saved");
        std::fs::rename(environment.repository(), saved).unwrap();
        std::fs::create_dir(environment.repository()).unwrap();
    };
    for leave in [away as fn(&TestEnvironment), replace] {
        let environment = TestEnvironment::with_repository();
        kept(&environment);
        let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
        leave(&environment);
        let done = environment.cofferdam(&["gc"]).expect_code(1);
        let tip = format!("refs/cofferdam/{id}/tip");
        assert!(done.stderr.contains(&tip), "{done}");
        put_back(&environment);
        environment.cofferdam(&["gc"]).expect_code(0);
        environment.cofferdam(&["merge", "one"]).expect_code(0);
        assert_eq!(environment.read("a.txt"), "a\n");
    }
}

/// The checkout goes, the repository with the commits stays: only the record names them.
#[test]
fn commits_kept_beside_a_removed_worktree_are_not_forgotten() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["worktree", "add", "-q", "../linked", "-b", "side"]);
    let linked = environment.repository().parent().unwrap().join("linked");
    let script = commit_script(&["a"]);
    let mine = "git commit -q --allow-empty -m mine";
    let place = linked.to_str().unwrap();
    let run = [
        "-C",
        place,
        "run",
        "--head",
        "--name",
        "one",
        "--on-host-ready",
        mine,
        "--",
        "sh",
        "-c",
        &script,
    ];
    environment.cofferdam(&run).expect_code(1);
    environment.git(&["worktree", "remove", "--force", place]);
    let id = listed(&environment)[0]["id"].as_str().unwrap().to_owned();
    let done = environment.cofferdam(&["gc"]).expect_code(1);
    assert!(
        done.stderr.contains(&format!("refs/cofferdam/{id}/tip")),
        "{done}"
    );
    assert_eq!(listed(&environment).len(), 1);
}

/// A bind mount gives the checkout a second name: what died in it is looked after before another agent works there.
#[test]
fn a_checkout_by_another_name_is_the_same() {
    let environment = TestEnvironment::with_repository();
    killed(&environment);
    let other = environment.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let program = environment.command(&[]).get_program().to_owned();
    // Sandboxes in a namespace with one id are root's own affair: that it is found is what counts.
    let run = "run --head --name two -- true";
    let line = format!(
        "unshare --user --map-root-user --mount sh -c 'mount --bind . {0} && {1} -C {0} {run}'",
        other.display(),
        program.to_str().unwrap()
    );
    let done = environment.shell(&line);
    let words = "sandbox `one`, whose command ";
    assert!(done.stderr.contains(words), "{done}");
    // The control: beside a checkout that is another, nothing died.
    let unbound = line.replace("mount --bind . ", "git clone -q . ");
    let done = environment.shell(&unbound);
    assert!(!done.stderr.contains(words), "{done}");
}
