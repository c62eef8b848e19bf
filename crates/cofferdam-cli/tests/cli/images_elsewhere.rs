//! A repository's image, built and removed from elsewhere: the path is a word of the commands, and of those that they print.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::containers::{World, own, worlds};
use crate::environment::{Done, finish};
use crate::images::{BASE, SHELL, dockerfile, hinted};
use crate::lives::OnTerminal;

// covers: S3-28
#[test]
fn a_path_names_the_repository_and_each_command_works_as_printed() {
    for world in worlds() {
        let (environment, engine) = (&world.environment, world.engine);
        dockerfile(environment, &format!("FROM {SHELL}\nRUN touch /there\n"));
        let elsewhere = environment.temporary();
        let repository = environment.repository();
        let path = repository.to_str().unwrap();
        let there = |words: &[&str]| -> Done {
            let mut command = world.command(words);
            command.current_dir(&elsewhere);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(command.spawn().unwrap())
        };
        let typed = |done: &Done| {
            let command = hinted(done);
            there(&command.iter().map(String::as_str).collect::<Vec<_>>())
        };
        // Where Debian is there, or the base, that is what it has until then.
        let turn = Turn::of_image(BASE).unwrap();
        let made = world.cofferdam(&["create", "early", "--sandbox", engine]);
        if made.status.success() {
            let own = world.image();
            let next = format!(" and not {own}: cofferdam build --sandbox {engine}\n");
            assert!(made.stderr.contains(&next), "{made}");
            world.cofferdam(&["delete", "early"]).expect_code(0);
        } else {
            assert!(
                made.stderr.contains(" has no image `debian:bookworm-slim`"),
                "{made}"
            );
            skip!("{engine}: it has neither Debian nor the base");
        }
        drop(turn);
        let shown = there(&[engine, "build-image", path]).expect_code(1);
        assert!(shown.stderr.contains("RUN touch /there"), "{shown}");
        world.expect_no_image();
        typed(&shown).expect_code(0);
        own(engine, &["image", "inspect", &world.image()]).unwrap();
        let removed = there(&[engine, "remove-image", path]).expect_code(0);
        assert!(removed.stderr.contains("removed"), "{removed}");
        world.expect_no_image();
        // What was agreed to once is built by either name; what was not, by neither.
        there(&["build", path, "--sandbox", engine]).expect_code(0);
        own(engine, &["image", "inspect", &world.image()]).unwrap();
        dockerfile(environment, &format!("FROM {SHELL}\nRUN touch /other\n"));
        let shown = there(&["build", path, "--sandbox", engine]).expect_code(1);
        typed(&shown).expect_code(0);
        world
            .cofferdam(&["create", "one", "--sandbox", engine])
            .expect_code(0);
        world.exec("test -e /other && ! test -e /there");
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        each_step_is_told_as_it_begins(&world);
        // Podman is done with a build that nobody waits for a while later, and the next build takes the rest away.
        let began = Instant::now();
        while !there(&[engine, "remove-image", path]).status.success() {
            assert!(began.elapsed() < Duration::from_secs(90), "{engine}");
            std::thread::sleep(Duration::from_secs(1));
            dockerfile(environment, &format!("FROM {SHELL}\nRUN touch /other\n"));
            there(&["build", path, "--sandbox", engine]).expect_code(0);
        }
        world.expect_no_image();
        world.expect_clean();
    }
}

/// Where it has the sandbox's image made anew, by a step that takes its time.
#[track_caller]
fn each_step_is_told_as_it_begins(world: &World) {
    let text = format!("FROM {SHELL}\nRUN touch /other\nRUN sleep 60\nRUN touch /after\n");
    dockerfile(&world.environment, &text);
    let shown = world
        .cofferdam(&["build", "--sandbox", world.engine])
        .expect_code(1);
    let command = hinted(&shown);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut build = OnTerminal::start(&world.command(&command), (80, 24));
    build.expect("RUN sleep 60");
    build.press("\u{3}");
    build.ends_with(130);
}
