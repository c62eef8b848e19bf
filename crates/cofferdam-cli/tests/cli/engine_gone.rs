//! An engine that will never be there again, with sandboxes of which nobody can say how they are.

use crate::containers::{making, own, worlds};
use crate::engine_faults::socket;
use crate::environment::TestEnvironment;
use crate::fake_engine::{FakeEngine, docker, with_engine};

/// It cannot be made, and what there is of it cannot be looked at either.
#[test]
fn one_that_was_never_made_is_called_so_and_can_be_deleted() {
    let environment = TestEnvironment::with_repository();
    let engine = FakeEngine::new(docker("Docker/28.0.0 (linux)", (24, 48)));
    let rest = ["one", "--network", "none", "--mode", "bind"];
    let create = making("create", "docker", &rest);
    let made = engine
        .cofferdam(&environment, "docker", &create)
        .expect_code(1);
    assert!(made.stderr.contains("the disk is on fire"), "{made}");
    assert!(
        made.stderr
            .contains("next: cofferdam delete one   # removes what there is of it\n"),
        "{made}"
    );
    assert!(!made.stderr.contains("agent"), "{made}");
    for words in [["start", "one"], ["status", "one"]] {
        let done = engine
            .cofferdam(&environment, "docker", &words)
            .expect_code(1);
        assert!(
            done.stderr
                .starts_with("error: the making of sandbox `one` was never finished"),
            "{done}"
        );
        assert!(done.stderr.contains("`cofferdam delete one`"), "{done}");
    }
    let place = engine.socket();
    engine.goes();
    let run = |words: &[&str]| with_engine(&environment, "docker", &place, words);
    let done = run(&["delete", "one"]).expect_code(1);
    assert!(
        done.stderr.contains("Docker is not there: nothing is at ")
            && done.stderr.contains("`cofferdam delete --force one`"),
        "{done}"
    );
    run(&["gc"]).expect_code(1);
    let done = run(&["delete", "--force", "one"]).expect_code(0);
    assert!(
        done.stderr.starts_with("note: Docker is not there: ")
            && done
                .stderr
                .contains("containers of this sandbox, if there are any, stay in Docker"),
        "{done}"
    );
    environment.expect_clean();
}

/// What it had committed is home, and no program of it goes on.
#[test]
fn one_that_lives_is_ended_and_its_commits_come_home() {
    for world in worlds() {
        let (environment, name) = (&world.environment, world.engine);
        let mut played = docker("Docker/28.0.0 (linux)", (24, 48));
        played.real = Some(socket(name));
        let engine = FakeEngine::new(played);
        let create = making("create", name, &["one", "--mode", "bind"]);
        let work = "echo x >x && git add x && git commit -qm came-home && echo y >y; sleep 1000 >/dev/null 2>&1 &";
        for words in [&create[..], &["exec", "one", "--", "sh", "-c", work]] {
            engine.cofferdam(environment, name, words).expect_code(0);
        }
        let place = engine.socket();
        engine.goes();
        let run = |words: &[&str]| with_engine(environment, name, &place, words);
        let done = run(&["delete", "one"]).expect_code(1);
        assert!(done.stderr.contains("uncommitted"), "{done}");
        // Nothing but a word from its user lets go of it.
        run(&["gc"]);
        assert!(run(&["list"]).expect_code(0).stdout.contains("one"));
        let containers = world.containers();
        let running = || own(name, &["ps", "-q", "--no-trunc"]).unwrap();
        let runs = || containers.iter().any(|one| running().contains(one));
        assert!(runs());
        let done = run(&["delete", "--force", "one"]).expect_code(0);
        assert!(
            done.stderr
                .contains("containers of this sandbox, if there are any, stay in"),
            "{done}"
        );
        let log = environment.git(&["log", "--all", "--format=%s"]);
        assert!(log.contains("came-home"), "{log}");
        // The engine is there all the same, and sees that.
        let began = std::time::Instant::now();
        while runs() {
            assert!(began.elapsed().as_secs() < 60, "it goes on: {done}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(!run(&["list", "--all-repos"]).stdout.contains("one"));
        // Podman keeps the holder's, without a program in it: that is what was said.
        for left in world.containers() {
            let _ = own(name, &["rm", "--force", &left]);
        }
        environment.expect_clean();
    }
}
