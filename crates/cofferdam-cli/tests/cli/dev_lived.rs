//! A person's shell in a dev sandbox that is a container: what they see there, what they leave, and what they find again.

use crate::containers::{World, own, worlds};
use crate::lives::OnTerminal;

/// An image with git, bash and zsh.
const SHELLS: &str = "shells:latest";

fn on_a_terminal(world: &World, words: &[&str]) -> OnTerminal {
    OnTerminal::start(&world.command(words), (40, 100))
}

#[track_caller]
fn subject(world: &World) -> String {
    let subject = world.environment.git(&["log", "-1", "--format=%s", "main"]);
    subject.trim().to_owned()
}

// covers: S3-12 S3-39 S3-40 S3-47 S3-48
#[test]
fn a_shell_in_a_container_is_lived_in() {
    for world in worlds() {
        let engine = world.engine;
        if let Err(why) = own(engine, &["image", "inspect", SHELLS]) {
            cofferdam_lab::skip!("{engine}: {why}");
            continue;
        }
        // Nothing is there yet.
        let place = ["--sandbox", engine, "--image", SHELLS];
        let shell = [&["shell"], &place[..]].concat();
        let mut shell = on_a_terminal(&world, &shell);
        // The image has a prompt of its own.
        shell.expect("of-image> ");
        shell.press("stty si''ze\r");
        shell.expect("40 100");
        shell.resize((25, 90));
        // The program hears of it a moment later.
        shell.press(
            "until test \"$(stty size)\" = '25 90'; do sleep 0.1; done; echo now $(stty size)\r",
        );
        shell.expect("now 25 90");
        shell.press("echo rem''embered-by-zsh\r");
        shell.expect("remembered-by-zsh");
        shell.press("sleep 4711 & git commit -q --allow-empty -m typed && echo do''ne\r");
        shell.expect("done");
        shell.press("exit\r");
        shell.expect("typed");
        shell.ends_with(0);
        assert_eq!(subject(&world), "typed", "{engine}");
        let goes_on = "grep -qs '[4]711' /proc/[0-9]*/cmdline && echo it runs";
        let seen = world.exec_in("dev", goes_on).expect_code(0);
        assert_eq!(seen.stdout, "it runs\n", "{engine}");

        // Without a word it is opened again, and started where it is stopped.
        world.cofferdam(&["stop"]).expect_code(0);
        let mut again = on_a_terminal(&world, &[]);
        again.expect("of-image> ");
        again.press("echo in $(pwd) $((40+2))\r");
        again.expect("in /workspace/repository 42");
        again.press("exit\r");
        again.ends_with(0);
        let mut bash = on_a_terminal(&world, &["exec", "-t", "dev", "--", "bash", "-i"]);
        bash.press("echo rem''embered-by-bash\r");
        bash.expect("remembered-by-bash");
        bash.press("exit\r");
        bash.ends_with(0);

        // What was typed outlives the container.
        let before = world.agents();
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        let start = [&["start"], &place[..]].concat();
        world.cofferdam(&start).expect_code(0);
        assert_ne!(world.agents(), before);
        for shell in ["bash", "zsh"] {
            let file = format!("cat /commandhistory/.{shell}_history");
            let seen = world.exec_in("dev", &file).expect_code(0).stdout;
            let typed = format!("embered-by-{shell}");
            assert!(seen.contains(&typed), "{engine}: {seen}");
        }
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world.expect_clean();
    }
}
