//! `kill -9` of the command at any moment while it has an engine make a sandbox. What a killed `create` left goes with `gc`, in the engine
//! too. A killed `start` leaves no program: at most a container that never ran, which goes with the next `start` or the sandbox.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;

use crate::containers::{READY, World, making, worlds};

const KEPT: &str = "echo kept >kept; git add kept; git commit -qm kept";

/// How the sandbox is now; `None`: there is none.
fn state(world: &World) -> Option<String> {
    let listed = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let one = listed.iter().find(|one| one["name"] == "one")?;
    Some(one["state"].as_str().unwrap().to_owned())
}

/// An engine goes on with what it was asked for, and what comes up then finds nobody and ends.
#[track_caller]
fn expect_none(world: &World, which: impl Fn(&World) -> Vec<String>, what: &str) {
    let began = Instant::now();
    while !which(world).is_empty() {
        assert!(began.elapsed().as_secs() < 60, "{what}: containers stay");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn running(world: &World) -> Vec<String> {
    let mut all = world.filtered("engines", &[]);
    let ready = world.filtered("engines", &["--filter", READY]);
    all.retain(|one| !ready.contains(one));
    all
}

#[test]
fn what_a_killed_command_had_begun_is_cleared_and_its_name_is_free() {
    for world in worlds() {
        let engine = world.engine;
        let create = making("create", engine, &["one"]);
        let cases = [("create", create.clone()), ("start", vec!["start", "one"])];
        let prepare = |name: &str| {
            if name == "start" {
                world.cofferdam(&create).expect_code(0);
                world.exec(KEPT);
                world.cofferdam(&["stop", "one"]).expect_code(0);
            }
        };
        let clear = |what: &str| {
            if state(&world).is_some() {
                let done = world.cofferdam(&["delete", "--force", "one"]);
                assert!(done.status.success(), "{what}: {done}");
            }
            expect_none(&world, World::containers, what);
        };
        for (name, words) in &cases {
            prepare(name);
            let began = Instant::now();
            world.cofferdam(words).expect_code(0);
            let whole = u64::try_from(began.elapsed().as_micros()).unwrap();
            clear(name);
            let mut sample = Sample::new(&format!("killed {name} with {engine}"));
            let moments = if sample.is_everything() { 8 } else { 3 };
            for _ in 0..moments {
                prepare(name);
                let after = Duration::from_micros(sample.below(whole));
                let what = format!(
                    "{name} with {engine}, killed after {after:?} ({})",
                    sample.again()
                );
                let mut command = world.command(words);
                command.stdout(Stdio::null()).stderr(Stdio::null());
                let mut child = command.spawn().unwrap();
                std::thread::sleep(after);
                child.kill().unwrap();
                child.wait().unwrap();
                let cleared = world.cofferdam(&["gc"]);
                assert!(cleared.status.success(), "{what}: {cleared}");
                match state(&world).as_deref() {
                    // It was whole by then.
                    Some("active") => {
                        world.exec("true");
                    }
                    Some("stopped") => expect_none(&world, running, &what),
                    None => expect_none(&world, World::containers, &what),
                    other => panic!("{what}: it is {other:?}: {cleared}"),
                }
                if *name == "start" {
                    let started = world.cofferdam(words);
                    assert!(started.status.success(), "{what}: {started}");
                    assert_eq!(world.exec("cat kept").stdout, "kept\n", "{what}");
                    // One alone.
                    world.agents();
                }
                clear(&what);
                world.cofferdam(&create).expect_code(0);
                world.exec("true");
                clear(&what);
            }
        }
        world.cofferdam(&["gc"]).expect_code(0);
        world.expect_clean();
    }
}
