//! Syncs of sandboxes in containers that end meanwhile, stand still, or do not run.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::sample::all;
use cofferdam_lab::skip;

use crate::containers::{World, own, worlds};
use crate::environment::finish;
use crate::synced_inputs::{HANGS, MENDED};

fn says(world: &World, config: &str) {
    world.environment.puts(".cofferdam/config.yaml", config);
}

fn syncing(world: &World) -> Child {
    let mut command = world.command(&["sync", "one"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// By whomever it is ended, the engine's own user or ours.
#[test]
fn one_that_ends_while_a_command_runs_in_it_has_all_of_it_when_it_is_started() {
    for world in worlds() {
        world.make("create", &["one"]).expect_code(0);
        for is_ours in [false, true] {
            says(&world, HANGS);
            let child = syncing(&world);
            let words = ["exec", "one", "--", "test", "-e", "/home/agent/started"];
            until("it never began", || {
                world.cofferdam(&words).status.success()
            });
            if is_ours {
                world.cofferdam(&["stop", "one"]).expect_code(0);
            } else {
                own(world.engine, &["kill", &world.agents()]).unwrap();
            }
            let done = finish(child).expect_code(1);
            // Ours asks its programs to end first, and the command did.
            let said = ["hanging", "`cofferdam start one`"];
            for said in &said[..2 - usize::from(is_ours)] {
                assert!(done.stderr.contains(said), "{said}: {done}");
            }
            until("it still runs", || {
                world.status("one", "state") == "stopped"
            });
            // It is started with what is said by then.
            says(&world, MENDED);
            world.cofferdam(&["start", "one"]).expect_code(0);
            let seen = world.exec("cd; cat order; rm order started").stdout;
            assert_eq!(seen, "first\nfirst\nthird\n", "{done}");
        }
        // Into one that stands still nothing goes.
        world.cofferdam(&["pause", "one"]).expect_code(0);
        world.environment.puts(".cofferdam/home/note", "note\n");
        let refused = world.cofferdam(&["sync", "one"]).expect_code(1);
        let said = "`cofferdam resume one`";
        assert!(refused.stderr.contains(said), "{refused}");
        world.cofferdam(&["resume", "one"]).expect_code(0);
        world.cofferdam(&["sync", "one"]).expect_code(0);
        assert_eq!(world.exec("cat ~/note").stdout, "note\n");
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// Those that are there are whole, and the rest comes when it is started.
#[test]
fn one_that_ends_while_files_come_has_whole_ones() {
    const FILES: usize = 30;
    const LINES: usize = 1 << 16;
    if !all() {
        return skip!(
            "natively it is tried each time, in containers only with `scripts/test --all`"
        );
    }
    let text = |number: usize| format!("{number:07}\n").repeat(LINES);
    for world in worlds() {
        world.make("create", &["one"]).expect_code(0);
        for number in 0..FILES {
            let path = format!(".cofferdam/home/d/f{number}");
            world.environment.puts(&path, &text(number));
        }
        let state = world.environment.home().join(".cofferdam/state");
        let inside = state.join(world.status("one", "id")).join("home/d");
        let agents = world.agents();
        let child = syncing(&world);
        until("none came", || inside.join("f1").exists());
        own(world.engine, &["kill", &agents]).unwrap();
        let done = finish(child);
        // Before anybody brings it again.
        let there = (0..FILES).filter(|&number| {
            let found = std::fs::read_to_string(inside.join(format!("f{number}")));
            found.is_ok_and(|found| {
                assert!(found == text(number), "f{number}: {done}");
                true
            })
        });
        assert!(there.count() > 0, "{done}");
        until("it still runs", || {
            world.status("one", "state") == "stopped"
        });
        world.cofferdam(&["start", "one"]).expect_code(0);
        let see =
            "cd ~/d && ls -A | wc -l; for f in f*; do uniq $f | wc -l; done | sort -u; wc -l < f7";
        let expected = format!("{FILES}\n1\n{LINES}\n");
        assert_eq!(world.exec(see).stdout, expected, "{done}");
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}
