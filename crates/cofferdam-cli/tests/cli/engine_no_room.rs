//! The engine's own disk is full, in an engine of the test's own.

use std::io::Write;
use std::path::Path;

use cofferdam_lab::skip;

use crate::containers::{IMAGE, World, making, worlds};
use crate::daemon::Daemon;
use crate::engine_bad_input::Small;
use crate::environment::Done;
use crate::fake_engine::with_engine;

/// What the disk has left when a sandbox is made, in KiB.
const LEFT: [usize; 5] = [0, 8, 32, 128, 512];

/// Takes all of the disk but so many KiB.
fn fill(filler: &Path, left: usize) {
    let mut file = std::fs::File::create(filler).unwrap();
    let block = [b'x'; 4096];
    let mut blocks: u64 = 0;
    while file.write_all(&block).is_ok() {
        blocks += 1;
    }
    let kept = blocks.saturating_sub(left as u64 / 4);
    file.set_len(kept * 4096).unwrap();
}

#[test]
fn where_the_engine_has_no_room_that_is_said_and_nothing_is_half_made() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start an engine of their own");
    }
    for world in worlds() {
        has_no_room(&world);
    }
}

fn has_no_room(world: &World) {
    let engine = world.engine;
    let daemon = Daemon::not_yet(engine);
    let data = daemon.data();
    let _small = Small::mount(world, data.clone(), "128m");
    let daemon = daemon.started();
    daemon.get(IMAGE);
    let filler = data.join("filler");
    let name = ["Docker", "Podman"][usize::from(engine != "docker")];
    let mut refused = 0;
    for left in LEFT {
        fill(&filler, left);
        let made = cofferdam(world, &daemon, &making("create", engine, &["one"]));
        std::fs::remove_file(&filler).unwrap();
        if made.status.success() {
            cofferdam(world, &daemon, &["delete", "one"]).expect_code(0);
        } else {
            refused += 1;
            let what = format!("{left} KiB: {made}");
            let line = made.stderr.lines().find(|line| line.starts_with("error: "));
            assert!(
                line.is_some_and(|line| line.contains("no space left on device")),
                "{what}"
            );
            assert!(line.is_some_and(|line| line.contains(name)), "{what}");
            let listed = cofferdam(world, &daemon, &["list"]).expect_code(0);
            assert!(!listed.stdout.contains("one"), "{what}: {listed}");
            let branches = world.environment.git(&["branch", "--list", "cofferdam/*"]);
            assert_eq!(branches, "", "{what}");
        }
        world.environment.expect_clean();
        let held = daemon
            .ask(&["ps", "--all", "--quiet", "--filter", AGENTS])
            .unwrap();
        assert_eq!(held, "", "{left} KiB");
    }
    assert!(refused > 0, "the disk is never full");
    // The control, and the same name again: with room there is one.
    cofferdam(world, &daemon, &making("create", engine, &["one"])).expect_code(0);
    cofferdam(world, &daemon, &["exec", "one", "--", "true"]).expect_code(0);
    cofferdam(world, &daemon, &["delete", "one"]).expect_code(0);
    world.environment.expect_clean();
}

/// Containers of sandboxes; a holder that waits for the next one is of none.
const AGENTS: &str = "label=io.cofferdam.id";

#[track_caller]
fn cofferdam(world: &World, daemon: &Daemon, words: &[&str]) -> Done {
    with_engine(&world.environment, world.engine, &daemon.socket(), words)
}
