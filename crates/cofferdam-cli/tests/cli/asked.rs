//! A sandbox that is taken away from whoever works in it: asked, and not by a signal to a program that has more to do.

use std::process::{Child, Stdio};

use crate::environment::{TestEnvironment, finish};
use crate::living_home::eventually;

fn start(environment: &TestEnvironment, words: &[&str]) -> Child {
    let mut command = environment.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The other task of a plan goes on in the same process.
#[test]
fn one_task_of_a_plan_is_ended_and_the_others_go_on() {
    let environment = TestEnvironment::with_repository();
    environment.write(
        "plan.yaml",
        "tasks:\n  - name: gone\n    prompt: |\n      git commit -qm gone --allow-empty; touch begun; sleep 1000\n  \
         - name: stays\n    prompt: |\n      touch begun; while [ ! -e go ]; do sleep 0.1; done; git commit -qm stays --allow-empty\n",
    );
    let words = [
        "run",
        "--plan",
        "plan.yaml",
        "--mode",
        "bind",
        "--jobs",
        "2",
        "--",
        "sh",
        "-s",
    ];
    let running = start(&environment, &words);
    let worktrees = environment.repository().join(".cofferdam/worktrees");
    let places = || -> Vec<_> {
        let found = std::fs::read_dir(&worktrees)
            .into_iter()
            .flatten()
            .flatten();
        found
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    };
    eventually("both are at work", || {
        places()
            .iter()
            .filter(|place| place.join("begun").exists())
            .count()
            == 2
    });
    let list = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let list: Vec<serde_json::Value> = serde_json::from_str(&list.stdout).unwrap();
    let name_of = |task: &str| {
        let named = |one: &&serde_json::Value| one["branch"].as_str().unwrap().contains(task);
        list.iter().find(named).unwrap()["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let gone = name_of("gone");
    environment
        .cofferdam(&["delete", "--force", &gone])
        .expect_code(0);
    for place in places() {
        std::fs::File::create(place.join("go")).unwrap();
    }
    let done = finish(running).expect_code(1);
    let row = |task: &str| {
        let begin = format!("{task} ");
        done.stdout
            .lines()
            .find(|line| line.starts_with(&begin))
            .unwrap()
    };
    assert!(row("stays").contains("1 commit"), "{done}");
    assert!(row("gone").contains("stopped"), "{done}");
    let kept = environment.git(&["log", "--all", "--format=%s"]);
    assert!(kept.contains("stays") && kept.contains("gone"), "{kept}");
}
