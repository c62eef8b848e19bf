//! What the administrator of an engine gives to every container, and no agent gets.

use cofferdam_lab::skip;

use crate::containers::{IMAGE, making, worlds};
use crate::daemon::Daemon;
use crate::fake_engine::with_engine;

/// By each of the ways that Podman has.
#[test]
fn no_agent_gets_what_podman_gives_to_all_containers() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start a service of their own");
    }
    let Some(world) = worlds().into_iter().find(|world| world.engine == "podman") else {
        return;
    };
    let host = tempfile::tempdir().unwrap();
    let key = host.path().join("key");
    cofferdam::fsx::write_with_mode(&key, b"of the host", 0o644).unwrap();
    let secret = host.path().to_str().unwrap();
    let cofferdam = |service: &Daemon, words: &[&str]| {
        with_engine(&world.environment, "podman", &service.socket(), words)
    };
    let create = making("create", "podman", &["one"]);
    // Where distributions have it by themselves there is nothing.
    let service = Daemon::podman_that_gives(&format!("{secret}:/run/secrets\n"), "");
    let plain = ["run", "--rm", "--network", "none", "busybox:latest"];
    let there = [&plain[..], &["cat", "/run/secrets/key"]].concat();
    assert_eq!(service.ask(&there).unwrap(), "of the host");
    cofferdam(&service, &create).expect_code(0);
    let seen = cofferdam(&service, &["exec", "one", "--", "ls", "-A", "/run/secrets"]);
    assert_eq!(seen.expect_code(0).stdout, "");
    cofferdam(&service, &["delete", "one"]).expect_code(0);
    drop(service);
    // Anywhere else it is no sandbox.
    for (mounts, settings) in [
        (format!("{secret}:/opt/given\n"), String::new()),
        (
            String::new(),
            format!("volumes = [\"{secret}:/opt/given:ro\"]"),
        ),
    ] {
        let service = Daemon::podman_that_gives(&mounts, &settings);
        let there = [&plain[..], &["cat", "/opt/given/key"]].concat();
        assert_eq!(service.ask(&there).unwrap(), "of the host");
        let refused = cofferdam(&service, &create).expect_code(1);
        assert!(
            refused
                .stderr
                .contains("mounts `/opt/given` in its container")
                && refused.stderr.contains("mounts.conf"),
            "{refused}"
        );
        assert_eq!(
            cofferdam(&service, &["list", "--names"])
                .expect_code(0)
                .stdout,
            ""
        );
    }
    world.environment.expect_clean();
}

/// Wherever an engine was told to keep its files.
#[test]
fn the_files_of_an_engine_are_no_workspace() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start a daemon of their own");
    }
    for world in worlds() {
        let engine = world.engine;
        let daemon = Daemon::not_yet(engine).started();
        daemon.get(IMAGE);
        let place = daemon.data().join("repository");
        let place = place.to_str().unwrap();
        let clone = ["clone", "-q", ".", place];
        world.environment.git(&clone);
        let link = world.environment.temporary().join("link");
        std::os::unix::fs::symlink(place, &link).unwrap();
        let link = link.to_str().unwrap();
        // Also where it is only asked what would be made.
        for (place, words) in [
            (place, making("create", engine, &["one", "--mode", "bind"])),
            (link, making("create", engine, &["one", "--mode", "bind"])),
            (place, making("show-run", engine, &[])),
        ] {
            let words = [&["-C", place], &words[..]].concat();
            let refused = with_engine(&world.environment, engine, &daemon.socket(), &words);
            let refused = refused.expect_code(1);
            assert!(
                refused.stderr.contains("keeps its own files in")
                    && refused
                        .stderr
                        .contains("a clone of the repository elsewhere"),
                "{engine} {words:?}: {refused}"
            );
        }
        world.environment.expect_clean();
    }
}
