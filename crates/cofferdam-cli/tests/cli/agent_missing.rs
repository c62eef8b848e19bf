//! An agent's own program that is opened where it is not: the sandbox that was made for it does not stay in the way.

use crate::configured::{CLAUDE, User};
use crate::containers::worlds;
use crate::environment::TestEnvironment;
use crate::lives::OnTerminal;

#[test]
fn a_sandbox_made_for_a_program_that_is_not_inside_goes_again() {
    let everybodys = ["/usr/bin/claude", "/bin/claude"].map(std::path::Path::new);
    if everybodys.into_iter().any(std::path::Path::exists) {
        return cofferdam_lab::skip!("this machine has the program for everybody");
    }
    let user = User::new("");
    let open = |words: &[&str], path: &str| {
        let mut command = user.command(words);
        command.env("PATH", path);
        OnTerminal::start(&command, (40, 200))
    };
    let refused = |words: &[&str], command: &str| {
        let mut claude = open(words, "/usr/bin:/bin");
        claude.expect("nor in your PATH: install it");
        claude.expect(&format!("then `{command}`"));
        claude.ends_with(127);
    };
    refused(&["claude"], "cofferdam claude");
    refused(&["claude", "box"], "cofferdam claude box");
    let options = ["claude", "box", "--sandbox", "native"];
    refused(&options, "cofferdam claude box --sandbox native");
    let other = TestEnvironment::with_repository();
    let place = other.repository();
    let place = place.to_str().unwrap();
    let there = format!("cofferdam -C {place} claude");
    refused(&["claude", place], &there);
    let left = user.cofferdam(&["list", "--names"]).expect_code(0);
    assert_eq!(left.stdout, "");
    // Then the command that is named works.
    let bin = user.has_program("claude", CLAUDE);
    let mut claude = open(
        &["claude", "box"],
        &format!("{}:/usr/bin:/bin", bin.display()),
    );
    claude.expect("here: ");
    claude.press("\r");
    claude.ends_with(5);
    // One that was there before stays.
    let mut other = open(&["create", "other"], "/usr/bin:/bin");
    other.ends_with(0);
    let mut claude = open(&["claude", "other"], "/usr/bin:/bin");
    claude.expect("`cofferdam stop other && cofferdam start other`");
    claude.ends_with(127);
    assert_eq!(user.state("other"), "active");
    user.cofferdam(&["delete", "--force", "other"])
        .expect_code(0);
    user.ends();
}

/// The same of an image.
#[test]
fn an_image_without_the_program_leaves_no_sandbox() {
    for world in worlds() {
        let engine = world.engine;
        let sandbox = ["--sandbox", engine, "--image", "busybox:latest"];
        let words = [&["claude", "one"], &sandbox[..]].concat();
        let mut claude = OnTerminal::start(&world.command(&words), (40, 200));
        claude.expect("does not have `claude`");
        claude.expect(&format!(
            "`cofferdam claude one --sandbox {engine} --image IMAGE`"
        ));
        claude.ends_with(127);
        world.expect_clean();
    }
}
