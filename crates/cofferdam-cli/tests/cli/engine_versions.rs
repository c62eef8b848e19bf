//! Engines that take other versions of their API than the ones of this machine, and some with which there is nothing to be done.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::containers::{making, worlds};
use crate::engine_faults::socket;
use crate::environment::TestEnvironment;
use crate::fake_engine::{FakeEngine, OF_PODMAN, docker};

/// Docker 29 takes nothing before 1.44; 20.10 nothing after 1.41.
#[test]
fn a_whole_life_in_the_versions_that_an_engine_takes() {
    for world in worlds() {
        for (server, window, expected) in [
            ("Docker/29.0.0 (linux)", (44, 52), "1.52"),
            ("Docker/20.10.24 (linux)", (12, 41), "1.41"),
            // Of after this one.
            ("Docker/40.0.0 (linux)", (50, 80), "1.53"),
        ] {
            let mut played = docker(server, window);
            played.real = Some(socket(world.engine));
            let engine = FakeEngine::new(played);
            let run = |words: &[&str]| {
                let done = engine.cofferdam(&world.environment, world.engine, words);
                done.expect_code(0)
            };
            let rest = ["one", "--mode", "bind"];
            run(&making("create", world.engine, &rest));
            run(&[
                "exec",
                "one",
                "--",
                "sh",
                "-c",
                "echo x >x && git add x && git commit -qm x",
            ]);
            assert!(run(&["list"]).stdout.contains("one"));
            run(&["doctor", "one"]);
            run(&["stop", "one"]);
            run(&["start", "one"]);
            run(&["delete", "one"]);
            world.expect_clean();
            let asked = engine.asked();
            let begin = format!("/v{expected}/");
            let version = |one: &&String| {
                let of_podman = world.engine == "podman" && one.contains(OF_PODMAN);
                !of_podman && !one.contains(&begin)
            };
            let others: Vec<_> = asked.iter().filter(version).collect();
            let greetings = ["GET /_ping", "GET /version"];
            assert!(
                others.iter().all(|one| greetings.contains(&one.as_str())),
                "{server}: {others:?}"
            );
            for needed in ["POST", "DELETE", "/containers/json", "/info"] {
                assert!(
                    asked.iter().any(|one| one.contains(needed)),
                    "{needed}: {asked:?}"
                );
            }
        }
    }
}

/// The control of the test above.
#[test]
fn what_is_asked_in_another_version_is_refused() {
    let engine = FakeEngine::new(docker("Docker/29.0.0 (linux)", (44, 52)));
    for (path, refused) in [
        ("/v1.41/info", true),
        ("/info", true),
        ("/v1.53/info", true),
        ("/v1.44/info", false),
    ] {
        let mut stream = UnixStream::connect(engine.socket()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(
            answer.starts_with("HTTP/1.1 400"),
            refused,
            "{path}: {answer}"
        );
    }
}

/// Nothing of a sandbox is said or made that cannot be.
#[test]
fn an_engine_that_is_of_no_use_is_the_first_line_and_leaves_nothing() {
    let environment = TestEnvironment::with_repository();
    let elsewhere = |mut played: crate::fake_engine::Played| {
        played.info = played
            .info
            .replace("\"KernelVersion\":\"", "\"KernelVersion\":\"0.");
        played
    };
    let weaker = |from: &str, to: &str| {
        let mut played = docker("Docker/28.0.0 (linux)", (24, 48));
        assert!(played.info.contains(from));
        played.info = played.info.replace(from, to);
        played
    };
    for (played, what, hint) in [
        (
            docker("Docker/19.03.15 (linux)", (12, 40)),
            "Docker 19.03.15 is too old: its API is 1.40, and 1.41 is needed",
            "install Docker 20.10 or newer",
        ),
        (
            docker("Docker/60.0.0 (linux)", (70, 90)),
            "Docker 60.0.0 is too new: it takes no API older than 1.70",
            "install a newer cofferdam",
        ),
        (
            elsewhere(docker("Docker/28.0.0 (linux)", (24, 48))),
            "Docker's containers run on another machine (Linux 0.",
            "install the engine on this machine, or leave out `--sandbox docker`",
        ),
        (
            weaker("name=seccomp,profile=builtin", "name=apparmor"),
            "Docker has no filter of system calls",
            "use a build of Docker and a kernel that have seccomp",
        ),
    ] {
        let engine = FakeEngine::new(played);
        for words in [
            &["run", "--sandbox", "docker", "--", "true"][..],
            &["run", "--sandbox", "docker", "--head", "--", "true"],
            &["create", "one", "--sandbox", "docker"],
            &making(
                "create",
                "docker",
                &["one", "--network", "none", "--mode", "bind"],
            ),
        ] {
            let done = engine
                .cofferdam(&environment, "docker", words)
                .expect_code(1);
            let first = done.stderr.lines().next().unwrap();
            let step = match words[0] {
                "create" => "Container Provisioning Failed: ",
                _ => "",
            };
            let says = format!("error: {step}{what}");
            assert!(first.starts_with(&says), "{done}");
            assert!(done.stderr.contains(&format!("hint: {hint}")), "{done}");
            environment.expect_nothing_made();
        }
        let asked = engine.asked();
        assert!(asked.iter().all(|one| one.starts_with("GET ")), "{asked:?}");
    }
}

/// Attack 93: an engine takes such a limit with a warning, and drops it.
#[test]
fn a_limit_that_an_engine_would_drop_is_refused_before_anything_is_made() {
    for (lacks, option, what) in [
        ("MemoryLimit", ["--memory", "64m"], "memory"),
        ("CpuCfsQuota", ["--cpus", "0.5"], "CPUs"),
        ("PidsLimit", ["--pids", "64"], "processes"),
    ] {
        // An ordinary user's own engine leaves processes to the guest.
        if lacks == "PidsLimit" && !rustix::process::geteuid().is_root() {
            continue;
        }
        let played = |gives: bool| {
            let mut played = docker("Docker/28.0.0 (linux)", (24, 48));
            let (has, lacks) = (format!("\"{lacks}\":true"), format!("\"{lacks}\":{gives}"));
            assert!(played.info.contains(&has));
            played.info = played.info.replace(&has, &lacks);
            FakeEngine::new(played)
        };
        let environment = TestEnvironment::with_repository();
        let words = [&["create", "one", "--sandbox", "docker"][..], &option].concat();
        let engine = played(false);
        let done = engine
            .cofferdam(&environment, "docker", &words)
            .expect_code(1);
        assert!(
            done.stderr
                .contains(&format!("cannot limit {what}: Docker")),
            "{done}"
        );
        assert!(done.stderr.contains("leave the limit out"), "{done}");
        environment.expect_nothing_made();
        let asked = engine.asked();
        assert!(asked.iter().all(|one| one.starts_with("GET ")), "{asked:?}");
        let about = asked.iter().filter(|one| one.ends_with("/info"));
        assert_eq!(about.count(), 1, "{asked:?}");
        // The control: one that says it can is asked for more.
        let engine = played(true);
        let done = engine.cofferdam(&environment, "docker", &words);
        assert!(!done.stderr.contains("cannot limit"), "{done}");
        let asked = engine.asked();
        assert!(
            asked.iter().any(|one| one.starts_with("POST ")),
            "{asked:?}"
        );
    }
}

#[test]
fn a_runtime_that_an_engine_has_not_is_refused_before_anything_is_made() {
    let environment = TestEnvironment::with_repository();
    let engine = FakeEngine::new(docker("Docker/28.0.0 (linux)", (24, 48)));
    let words = [
        "create",
        "one",
        "--sandbox",
        "docker",
        "--runtime",
        "no-such",
    ];
    let done = engine
        .cofferdam(&environment, "docker", &words)
        .expect_code(1);
    assert!(
        done.stderr.contains("Docker has no runtime `no-such`"),
        "{done}"
    );
    assert!(done.stderr.contains("hint: it has `runc`"), "{done}");
    environment.expect_nothing_made();
    let asked = engine.asked();
    assert!(asked.iter().all(|one| one.starts_with("GET ")), "{asked:?}");
}
