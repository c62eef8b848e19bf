//! Where Docker is that no variable names: as its own command finds it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cofferdam_lab::skip;

use crate::containers::{SURROUNDINGS, World, making, worlds};
use crate::environment::{Done, finish};

/// With the socket that `DOCKER_HOST` names for this run of the tests.
#[expect(
    clippy::disallowed_methods,
    reason = "the engines are where this machine's user has them"
)]
fn with_docker() -> Option<(World, PathBuf)> {
    let world = worlds()
        .into_iter()
        .find(|world| world.engine == "docker")?;
    let host = std::env::var(SURROUNDINGS[0]).unwrap_or_default();
    let Some(socket) = host.strip_prefix("unix://") else {
        skip!("Docker is not where DOCKER_HOST says");
        return None;
    };
    Some((world, PathBuf::from(socket)))
}

/// By a command whose surroundings name no engine, but for these.
#[track_caller]
fn cofferdam(world: &World, around: &[(&str, &str)], words: &[&str]) -> Done {
    let mut command = world.environment.command(words);
    command.envs(around.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// Docker's own command in the user's home.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the command as a shell does"
)]
fn docker(world: &World, words: &[&str]) {
    let mut command = Command::new("docker");
    command.args(words).env("HOME", world.environment.home());
    for name in SURROUNDINGS {
        command.env_remove(name);
    }
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "docker {words:?}: {said}");
}

#[test]
fn a_context_of_dockers_is_where_sandboxes_are() {
    let Some((world, socket)) = with_docker() else {
        return;
    };
    let host = |path: &Path| format!("host=unix://{}", path.display());
    docker(
        &world,
        &["context", "create", "mine", "--docker", &host(&socket)],
    );
    let gone = world.environment.home().join("gone.sock");
    docker(
        &world,
        &["context", "create", "other", "--docker", &host(&gone)],
    );
    // Named for one command, and chosen for all.
    let by_name = [("DOCKER_CONTEXT", "mine")];
    let create = making("create", "docker", &["one"]);
    cofferdam(&world, &by_name, &create).expect_code(0);
    docker(&world, &["context", "use", "mine"]);
    let create = making("create", "docker", &["two"]);
    cofferdam(&world, &[], &create).expect_code(0);
    let told = cofferdam(&world, &[], &["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&told.stdout).unwrap();
    let found = findings.iter().find(|one| one["name"] == "docker").unwrap();
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("named by the context `mine`"), "{detail}");

    // Whoever chooses another one since finds those that are, and makes none there.
    docker(&world, &["context", "use", "other"]);
    for name in ["one", "two"] {
        let done = cofferdam(&world, &[], &["exec", name, "--", "echo", "there"]);
        assert_eq!(done.expect_code(0).stdout, "there\n");
    }
    let create = making("create", "docker", &["three"]);
    let refused = cofferdam(&world, &[], &create).expect_code(1);
    assert!(refused.stderr.contains("gone.sock"), "{refused}");
    // As is who names one that there is not.
    let refused = cofferdam(&world, &[("DOCKER_CONTEXT", "none")], &create).expect_code(1);
    assert!(
        refused.stderr.contains("context `none` cannot be read")
            && refused.stderr.contains("docker context ls"),
        "{refused}"
    );
    cofferdam(&world, &[], &["delete", "one", "two"]).expect_code(0);
    world.environment.expect_clean();
}
