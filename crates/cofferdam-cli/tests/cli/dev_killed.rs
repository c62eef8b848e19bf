//! First starts of dev sandboxes that were killed: whoever starts next has nothing to clear up.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::containers::{IMAGE, World, worlds};
use crate::everywhere::native;

/// What `list` says of it.
fn listed(world: &World, name: &str) -> Option<serde_json::Value> {
    let done = world.cofferdam(&["list", "--json"]).expect_code(0);
    let found: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    found.into_iter().find(|one| one["name"] == name)
}

/// Begins one, and kills it while the sandbox is up and is set up.
#[track_caller]
fn killed(world: &World, start: &[&str], name: &str) {
    let began = world.environment.repository().join("began");
    world
        .environment
        .configure("setup: touch /workspace/repository/began; sleep 600\n");
    let mut first = world.command(start);
    first.stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = first.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !began.exists() {
        assert!(Instant::now() < until, "{}: it is not made", world.engine);
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    while listed(world, name).unwrap()["interrupted"] != true {
        assert!(Instant::now() < until, "{}: it goes on", world.engine);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(began).unwrap();
    world.environment.configure("");
}

#[test]
fn a_killed_first_start_is_in_nobodys_way() {
    for world in std::iter::once(native()).chain(worlds()) {
        let place = ["--network", "none", "--sandbox", world.engine];
        let image: &[&str] = match world.engine {
            "native" => &[],
            _ => &["--image", IMAGE],
        };
        for (branch, name) in [(&[][..], "dev"), (&["--branch", "two"], "dev-two")] {
            let start = [&["start"], &place[..], image, branch].concat();
            killed(&world, &start, name);
            // What is left of it is no sandbox, and the way to one is said.
            let none = world.cofferdam(&[&["stop"], branch].concat());
            let none = none.expect_code(1);
            assert!(none.stderr.contains("has no dev sandbox"), "{none}");
            assert!(none.stderr.contains("`cofferdam start"), "{none}");

            let made = world.cofferdam(&start).expect_code(0);
            for part in [
                format!("the making of sandbox `{name}` was cut short here"),
                format!("made and started {name} for "),
            ] {
                assert!(made.stderr.contains(&part), "{part}: {made}");
            }
            let names = world.cofferdam(&["list", "--names"]).expect_code(0);
            assert_eq!(names.stdout, format!("{name}\n"), "{}", world.engine);
            assert_eq!(listed(&world, name).unwrap()["state"], "active");
            world.exec_in(name, "true").expect_code(0);
            // Once is enough.
            let again = world.cofferdam(&start).expect_code(0);
            assert!(!again.stderr.contains("cut short"), "{again}");
            world.cofferdam(&["delete", name]).expect_code(0);
            assert!(!world.environment.repository().join(".husky").exists());
        }
        world.cofferdam(&["gc"]).expect_code(0);
        match world.engine {
            "native" => world.environment.expect_clean(),
            _ => world.expect_clean(),
        }
    }
}
