//! The base on which a dev sandbox's image is built is the one that its user names.

use crate::containers::{IMAGE, World, own, worlds};
use crate::images::{dockerfile, hinted};
use crate::lives::OnTerminal;

/// As `cofferdam init` begins it, without a tag of its own.
const RECIPE: &str = "ARG BASE_IMAGE_TAG\nFROM cofferdam-base:${BASE_IMAGE_TAG}\n";

/// Makes a base that says which it is. Its tag.
#[track_caller]
fn base(world: &World, which: &str) -> String {
    let text = format!("FROM {IMAGE}\nRUN echo {which} >/base\n");
    dockerfile(&world.environment, &text);
    world.build_trusted().expect_code(0);
    let tag = format!("{which}-of-{}", std::process::id());
    let name = format!("cofferdam-base:{tag}");
    own(world.engine, &["tag", &world.image(), &name]).unwrap();
    tag
}

// covers: S3-119
#[test]
fn its_user_says_on_which_base_it_is_built() {
    for world in worlds() {
        let engine = world.engine;
        let [one, other] = ["one", "other"].map(|which| base(&world, which));
        dockerfile(&world.environment, RECIPE);
        let start = |tag: &str| {
            let words = ["start", "--sandbox", engine, "--build", "--base-tag", tag];
            world.cofferdam(&words)
        };
        let is_on = |which: &str| {
            let seen = world.exec_in("dev", "cat /base").expect_code(0);
            assert_eq!(seen.stdout, format!("{which}\n"), "{engine}");
        };

        // Nothing is made of what nobody has read, and the printed command has the tag.
        let shown = start(&one).expect_code(1);
        let command = hinted(&shown);
        let named = format!(" --base-tag {one} ");
        assert!(command.join(" ").contains(&named), "{shown}");
        let listed = world.cofferdam(&["list", "--names"]).expect_code(0);
        assert_eq!(listed.stdout, "", "{engine}");
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        world.cofferdam(&command).expect_code(0);

        start(&other).expect_code(0);
        is_on("other");
        let restart = ["restart", "--build", "--base-tag", &one];
        world.cofferdam(&restart).expect_code(0);
        is_on("one");

        // One that is not there is named, and the sandbox is as it was.
        let none = format!("none-of-{}", std::process::id());
        let failed = start(&none).expect_code(1);
        let said = format!(" has no image `cofferdam-base:{none}`");
        assert!(failed.stderr.contains(&said), "{failed}");
        is_on("one");

        let words = ["shell", "--build", "--base-tag", &other];
        let mut shell = OnTerminal::start(&world.command(&words), (40, 100));
        shell.expect("built:");
        shell.expect("dev:");
        shell.press("echo it is $(cat /base)\r");
        shell.expect("it is other");
        shell.press("exit\r");
        shell.ends_with(0);

        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world.cofferdam(&[engine, "remove-image"]).expect_code(0);
        for tag in [one, other] {
            own(engine, &["rmi", &format!("cofferdam-base:{tag}")]).unwrap();
        }
        world.expect_clean();
    }
}
