//! `doctor NAME` against containers that are weaker than ours: it reads them back from the engine, and names each part.

use crate::containers::{IMAGE, World, own, worlds};
use crate::inside::unmasked;

/// What `doctor` says is weaker.
fn malformed(world: &World, code: i32) -> Vec<String> {
    let told = world.cofferdam(&["doctor", "one"]).expect_code(code);
    let lines = told.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("malformed "))
        .map(str::to_owned)
        .collect()
}

/// A container that is all that ours is not, with the labels of ours.
fn weak(world: &World) -> String {
    let format = "{{range $name, $value := .Config.Labels}}{{$name}}={{$value}}\n{{end}}";
    let labels = own(
        world.engine,
        &["inspect", "--format", format, &world.agents()],
    )
    .unwrap();
    let mut words = vec![
        "run",
        "--detach",
        "--rm",
        "--user",
        "0",
        "--cap-add",
        "SYS_ADMIN",
        "--security-opt",
        "seccomp=unconfined",
        "--pid",
        "host",
        "--network",
        "none",
        "--pids-limit",
        "-1",
        "--cgroupns",
        "host",
        "--security-opt",
        unmasked(world.engine),
        "--volume",
        "cofferdam-test-weak:/else",
        "--volume",
        "/etc:/host",
        "--device",
        "/dev/null:/dev/more",
        "--entrypoint",
        "sleep",
    ];
    for label in labels
        .lines()
        .filter(|label| label.starts_with("io.cofferdam."))
    {
        words.extend(["--label", label]);
    }
    words.extend([IMAGE, "1000"]);
    own(world.engine, &words).unwrap().trim().to_owned()
}

/// Which containers are the sandbox's says its state, and not their labels; where one took the place of ours all the same, whatever
/// is weaker is named.
#[test]
fn one_that_takes_the_place_of_ours_is_told_for_what_it_is() {
    for world in worlds() {
        if world.engine == "docker" && world.is_rootless() {
            cofferdam_lab::skip!(
                "docker: one of an ordinary user's makes none with this machine's processes"
            );
            continue;
        }
        world.make("create", &["one"]).expect_code(0);
        assert_eq!(malformed(&world, 0), [""; 0]);
        let ours = world.agents();
        let weak = weak(&world);
        assert_eq!(malformed(&world, 0), [""; 0]);
        let state = world.environment.home().join(".cofferdam/state");
        let state = state.join(world.status("one", "id")).join("engine.json");
        let text = std::fs::read_to_string(&state).unwrap();
        assert!(text.contains(&ours), "{text}");
        write(&state, &text.replace(&ours, &weak));
        let found = malformed(&world, 1).join("\n");
        // An ordinary user's has neither, and says nothing of them.
        let of_root = |part: &&str| !["its devices", "its limits"].contains(part);
        let rootless = world.is_rootless();
        for part in [
            "its rights",
            "its filter",
            "its namespaces",
            "its devices",
            "its mounts",
            "its limits",
            "system calls",
            "its /proc",
        ]
        .into_iter()
        .filter(|part| !rootless || of_root(part))
        {
            assert!(found.contains(part), "{}: {part}: {found}", world.engine);
        }
        assert!(found.contains("/etc at /host"), "{found}");
        if world.engine == "docker" {
            assert!(found.contains("cgroup host"), "{found}");
        }
        let volume = "the volume cofferdam-test-weak at /else";
        assert!(found.contains(volume), "{found}");
        // One that is gone is no sandbox.
        own(world.engine, &["rm", "--force", &weak]).unwrap();
        own(world.engine, &["volume", "rm", "cofferdam-test-weak"]).unwrap();
        let found = malformed(&world, 1).join("\n");
        assert!(found.contains("none that was made for it"), "{found}");
        write(&state, &text);
        assert_eq!(malformed(&world, 0), [""; 0]);
        world.cofferdam(&["delete", "one"]).expect_code(0);
        world.expect_clean();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what another one wrote is no file of ours"
)]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Docker changes limits of a container that runs.
#[test]
fn limits_that_were_loosened_by_hand_are_told() {
    for world in worlds()
        .into_iter()
        .filter(|world| world.engine == "docker")
    {
        if world.is_rootless() {
            continue;
        }
        world
            .make("create", &["one", "--pids", "200"])
            .expect_code(0);
        assert_eq!(malformed(&world, 0), [""; 0]);
        own(
            "docker",
            &["update", "--pids-limit", "5000", &world.agents()],
        )
        .unwrap();
        let found = malformed(&world, 1);
        assert!(
            found[0].contains("its limits") && found[0].contains("200 were meant"),
            "{found:?}"
        );
        world.cofferdam(&["stop", "one"]).expect_code(0);
        world.cofferdam(&["start", "one"]).expect_code(0);
        assert_eq!(malformed(&world, 0), [""; 0]);
        world.cofferdam(&["delete", "one"]).expect_code(0);
        world.expect_clean();
    }
}
