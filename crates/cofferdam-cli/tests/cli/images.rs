//! Images: a repository's own, and what is said where there can be none.

use std::path::Path;
use std::process::Stdio;

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::containers::{IMAGE, World, own, worlds};
use crate::environment::{Done, TestEnvironment, finish};
use crate::readme::{AGENT, blocks};

/// An image with a shell alone; `scripts/test` makes it.
pub(crate) const SHELL: &str = "busybox:latest";
/// The base that is taken where nobody names another. All tests of an engine have one: [`Turn::of_image`].
pub(crate) const BASE: &str = "cofferdam-base:latest";
/// Any image, as README calls it.
const MINE: &str = "my-image";

pub(crate) fn dockerfile(environment: &TestEnvironment, text: &str) {
    environment.write(".cofferdam/Dockerfile", text);
}

/// The command that an unread Dockerfile's hint has, as printed.
#[track_caller]
pub(crate) fn hinted(shown: &Done) -> Vec<String> {
    let line = shown.stderr.lines().find(|line| line.contains(" --trust "));
    let line = line.unwrap_or_else(|| panic!("no command in: {shown}"));
    let (_, command) = line.split_once("cofferdam ").unwrap();
    // What comes after it is another command.
    let (command, _) = command.split_once(" && ").unwrap_or((command, ""));
    command.split(' ').map(str::to_owned).collect()
}

impl World {
    /// `cofferdam build` of a Dockerfile that somebody has read.
    #[track_caller]
    pub(crate) fn build_trusted(&self) -> Done {
        let shown = self.cofferdam(&["build", "--sandbox", self.engine]);
        let shown = shown.expect_code(1);
        let command = hinted(&shown);
        self.cofferdam(&command.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn image(&self) -> String {
        let top = self.environment.repository().canonicalize().unwrap();
        cofferdam::names::RepoPath::resolve(&top).unwrap().image()
    }

    #[track_caller]
    pub(crate) fn expect_no_image(&self) {
        own(self.engine, &["image", "inspect", &self.image()]).unwrap_err();
    }
}

// covers: S2-36 S3-18 S3-28 S3-35
#[test]
fn a_repositorys_image_is_read_built_used_and_removed() {
    for world in worlds() {
        let environment = &world.environment;
        dockerfile(
            environment,
            &format!(
                "FROM {SHELL}\nCOPY extra /extra\nRUN echo built >/built\nLABEL of=the-repository\n\
                 RUN printf '#!/bin/sh\\necho a tool\\n' >/bin/a-tool; chmod 755 /bin/a-tool\n\
                 RUN mkdir -p /home/agent; echo x >/home/agent/of-the-image; chown -R 77:77 /home/agent; chmod 1777 /home/agent\nENTRYPOINT [\"false\"]\n"
            ),
        );
        environment.write(".cofferdam/extra", "beside it\n");
        environment.write(".cofferdam/.env", "SECRET=1\n");
        let shown = world
            .cofferdam(&["build", "--sandbox", world.engine])
            .expect_code(1);
        for part in [
            "RUN echo built >/built",
            "extra (10 B)",
            "ENTRYPOINT is not used",
        ] {
            assert!(shown.stderr.contains(part), "{part}: {shown}");
        }
        assert!(!shown.stderr.contains(".env"), "{shown}");
        world.expect_no_image();
        let command = hinted(&shown);
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        // Something else lies there by now.
        environment.write(".cofferdam/extra", "changed!!\n");
        let other = world.cofferdam(&command).expect_code(1);
        assert!(other.stderr.contains("is not the digest"), "{other}");
        world.expect_no_image();
        environment.write(".cofferdam/extra", "beside it\n");
        let built = world.cofferdam(&command).expect_code(0);
        assert!(built.stdout.starts_with("built: cofferdam-"), "{built}");
        // Each step, as the engine comes to it.
        assert!(built.stderr.contains("RUN echo built"), "{built}");
        let label = "{{index .Config.Labels \"of\"}}";
        let label = ["image", "inspect", "--format", label, &world.image()];
        assert_eq!(own(world.engine, &label).unwrap().trim(), "the-repository");
        // It is this repository's: nobody has to name it.
        world
            .cofferdam(&["create", "one", "--sandbox", world.engine])
            .expect_code(0);
        let done = world.exec("cat /built /extra; a-tool; test ! -e /.env && echo none");
        assert_eq!(done.stdout, "built\nbeside it\na tool\nnone\n");
        // A home is the agent's own, whatever the image has there.
        let script = "cd; echo $(ls -A) and; mkdir -p a/b && touch mine && echo $(ls -A)";
        let words = [
            "run",
            "--sandbox",
            world.engine,
            "--agent",
            "command",
            "--",
            "sh",
            "-c",
            script,
        ];
        let done = world.cofferdam(&words).expect_code(0);
        assert!(
            done.to_string().contains("| .bashrc .zshrc a mine\n"),
            "{done}"
        );
        assert!(!done.to_string().contains("of-the-image"), "{done}");
        let used = world.cofferdam(&[world.engine, "remove-image"]);
        // Podman lets it go beneath a container that goes by itself; nobody does in silence.
        if used.status.success() {
            assert!(used.stderr.contains("removed"), "{used}");
        } else {
            assert!(used.stderr.contains("is used"), "{used}");
        }
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.expect_no_image();
        let again = world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        assert!(again.stderr.contains("nothing to remove"), "{again}");
        world.expect_clean();
    }
}

/// It is the repository's, whichever of its checkouts a sandbox is made from, and what is printed of the sandbox names it.
#[test]
fn a_linked_worktree_has_the_image_of_the_main_one() {
    for world in worlds() {
        let environment = &world.environment;
        let text = format!("FROM {SHELL}\nRUN echo main >/built\n");
        dockerfile(environment, &text);
        world.build_trusted().expect_code(0);
        let linked = environment.temporary().join("linked");
        let path = linked.to_str().unwrap();
        environment.git(&["worktree", "add", "--quiet", path]);
        let there = |words: &[&str]| {
            let mut command = world.command(words);
            command.current_dir(&linked);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(command.spawn().unwrap()).expect_code(0)
        };
        let (engine, image) = (world.engine, world.image());
        let made = there(&["create", "one", "--sandbox", engine]);
        let named = format!(", image {image}\n");
        assert!(
            made.stdout
                .lines()
                .next()
                .unwrap()
                .ends_with(named.trim_end()),
            "{made}"
        );
        let built = there(&["exec", "one", "--", "cat", "/built"]);
        assert_eq!(built.stdout, "main\n", "{built}");
        let told = there(&["status", "one"]);
        let line = format!("\nimage:   {image}\n");
        assert!(told.stdout.contains(&line), "{told}");
        assert_eq!(world.status("one", "image"), image);
        there(&["delete", "--force", "one"]);
        let ran = there(&["run", "--sandbox", engine, "--name", "two", "--", "true"]);
        let first = format!("sandbox two ({engine}, image {image}), agent ");
        assert!(ran.to_string().contains(&first), "{ran}");
        there(&[engine, "remove-image"]);
        world.expect_no_image();
        environment.git(&["worktree", "remove", "--force", path]);
        world.expect_clean();
    }
}

#[test]
fn programs_of_a_build_are_behind_the_wall() {
    for world in worlds() {
        dockerfile(
            &world.environment,
            &format!(
                "FROM {SHELL}\nRUN printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 192.0.2.7 80; exit 3\n"
            ),
        );
        let failed = world.build_trusted().expect_code(1);
        assert!(
            failed.stderr.contains("the wall refused 192.0.2.7:80"),
            "{failed}"
        );
        assert!(
            failed.stderr.contains("cofferdam allow 192.0.2.7:80"),
            "{failed}"
        );
        world.expect_no_image();
        dockerfile(
            &world.environment,
            &format!(
                "FROM {SHELL}\nRUN cat /proc/net/dev | sed 1,2d | sed 's/:.*//' | tr -d ' ' >/interfaces\n"
            ),
        );
        world.build_trusted().expect_code(0);
        world
            .cofferdam(&["create", "one", "--sandbox", world.engine])
            .expect_code(0);
        let seen = world.exec("cat /interfaces").stdout;
        // A kernel may have one of its own in every namespace, without a way out.
        let ways = ["eth", "en", "docker", "podman", "veth", "tap"];
        assert!(seen.contains("lo\n"), "{seen}");
        assert!(
            !seen
                .lines()
                .any(|name| ways.iter().any(|way| name.starts_with(way))),
            "{seen}"
        );
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.expect_clean();
    }
}

// covers: S3-23 S3-29
#[test]
fn a_base_that_is_not_there_is_named_and_not_looked_for_elsewhere() {
    let _turn = Turn::of_image(BASE).unwrap();
    for world in worlds() {
        dockerfile(
            &world.environment,
            "ARG BASE_IMAGE_TAG=latest\nFROM cofferdam-base:${BASE_IMAGE_TAG}\n",
        );
        for (rest, tag, more) in [
            (&["--base-tag", "no-such"][..], "no-such", " --tag no-such"),
            (&[], "latest", ""),
        ] {
            if own(
                world.engine,
                &["image", "inspect", &format!("cofferdam-base:{tag}")],
            )
            .is_ok()
            {
                skip!("{}: the machine has cofferdam-base:{tag}", world.engine);
                continue;
            }
            let words = [&["build", "--sandbox", world.engine], rest].concat();
            let mut failed = world.cofferdam(&words).expect_code(1);
            // What somebody has agreed to is not shown again.
            let is_shown = failed.stderr.contains(" --trust ");
            assert_eq!(is_shown, tag == "no-such", "{failed}");
            if is_shown {
                let command = hinted(&failed);
                let command: Vec<_> = command.iter().map(String::as_str).collect();
                failed = world.cofferdam(&command).expect_code(1);
            }
            let named = format!(" has no image `cofferdam-base:{tag}`");
            assert!(failed.stderr.contains(&named), "{failed}");
            // Without its name the command would build it in the other engine.
            let next = format!(
                "hint: build it with `cofferdam build-base --sandbox {}{more}`\n",
                world.engine
            );
            assert!(failed.stderr.contains(&next), "{failed}");
        }
        world.environment.expect_clean();
    }
}

#[test]
fn where_no_image_was_built_the_message_says_how() {
    let _turn = Turn::of_image(BASE).unwrap();
    for world in worlds() {
        let ours = [BASE, "debian:bookworm-slim"];
        if ours
            .iter()
            .any(|name| own(world.engine, &["image", "inspect", name]).is_ok())
        {
            skip!(
                "{}: the machine has an image that is taken by itself",
                world.engine
            );
            continue;
        }
        let failed = world
            .cofferdam(&["create", "one", "--sandbox", world.engine])
            .expect_code(1);
        for part in [
            "no image `debian:bookworm-slim`",
            "cofferdam build-base --sandbox",
            "--image",
        ] {
            assert!(failed.stderr.contains(part), "{part}: {failed}");
        }
        world.environment.expect_clean();
    }
}

#[test]
fn mistakes_of_builds_are_named() {
    let environment = TestEnvironment::with_repository();
    let cases: [(&[&str], i32, &[&str]); 4] = [
        (
            &["build"],
            1,
            &[
                "there is no Dockerfile at",
                ".cofferdam/Dockerfile",
                "FROM cofferdam-base",
            ],
        ),
        (
            &["build", "no-such-directory"],
            1,
            &["no-such-directory", "name the directory of a repository"],
        ),
        (
            &["build-base", "--small", "--ast-grep-version", "1.0.0"],
            2,
            &["the small image has neither", "leave out `--small`"],
        ),
        (&["docker", "build-image", "--base-tag"], 2, &["--base-tag"]),
    ];
    for (words, code, parts) in cases {
        let done = environment.cofferdam(words).expect_code(code);
        for part in parts {
            assert!(done.stderr.contains(part), "{part}: {done}");
        }
    }
    for world in worlds() {
        for (words, part) in [
            (["--tag", "a/b"], "the tag cannot be `a/b`"),
            (["--codex-version", "1;x"], "codex cannot be `1;x`"),
            (["--codex-version", "newest"], "a version is like 1.2.3"),
        ] {
            let all = [&["build-base", "--sandbox", world.engine][..], &words].concat();
            let done = world.cofferdam(&all).expect_code(1);
            assert!(done.stderr.contains(part), "{part}: {done}");
        }
    }
}

/// What the base is built on where nobody names another image.
fn base_of_a_day() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cofferdam/src/image/base/Dockerfile");
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("ARG BASE_IMAGE="));
    name.unwrap().to_owned()
}

/// The words of one of README's lines, without `cofferdam` and its comment, and more.
fn words_of(line: &str, more: &[&str]) -> Vec<String> {
    let line = line.split(" #").next().unwrap().trim_end();
    let line = line.strip_prefix("cofferdam ").unwrap();
    let (words, prompt) = line.split_once(" '").unwrap_or((line, ""));
    let prompt = prompt.trim_end_matches('\'');
    let words = words
        .split(' ')
        .chain((!prompt.is_empty()).then_some(prompt));
    let words = words.chain(more.iter().copied());
    words.map(str::to_owned).collect()
}

/// The same of lines that need no base: with an agent in an image that a repository builds on one that is there, and in any image.
#[test]
fn a_container_without_the_base_as_readme_has_it() {
    let _turn = Turn::of_image(MINE).unwrap();
    for world in worlds().iter().filter(|world| world.engine == "docker") {
        let environment = &world.environment;
        let typed = |line: &str| {
            let words = words_of(line, &[]);
            world.cofferdam(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let [in_a_container, of_a_repository] = &blocks("### In a container")[..] else {
            panic!("README has other blocks");
        };
        let line = |block: &[String], start: &str| {
            let found = block.iter().find(|line| line.starts_with(start));
            found.cloned().unwrap_or_else(|| panic!("no {start}"))
        };
        own("docker", &["tag", IMAGE, MINE]).unwrap();
        let text = format!("FROM {IMAGE}\nCOPY claude /bin/\nRUN chmod 755 /bin/claude\n");
        dockerfile(environment, &text);
        environment.write(".cofferdam/claude", AGENT);
        environment.write(".cofferdam/.env", "ANTHROPIC_API_KEY=secret\n");
        let shown = typed(&line(of_a_repository, "cofferdam build ")).expect_code(1);
        let command = hinted(&shown);
        world.builds(&command.iter().map(String::as_str).collect::<Vec<_>>());

        let ran = typed(&line(in_a_container, "cofferdam run ")).expect_code(0);
        let image = format!("image {}", world.image());
        assert!(ran.to_string().contains(&image), "{ran}");
        let landed = environment.git(&["log", "-1", "--format=%s", "main"]);
        assert_eq!(landed, "fixed", "{ran}");
        let prompt = environment.read("prompt.txt");
        assert!(prompt.starts_with("make the tests pass"), "{prompt}");

        typed(&line(in_a_container, "cofferdam create box ")).expect_code(0);
        let words = ["exec", "box", "--", "git", "log", "-1", "--format=%s"];
        let inside = world.cofferdam(&words).expect_code(0);
        assert_eq!(inside.stdout, "fixed\n");
        world.cofferdam(&["delete", "box"]).expect_code(0);

        let removed = typed(&line(of_a_repository, "cofferdam docker remove-image"));
        let removed = removed.expect_code(0);
        assert!(removed.stderr.contains("removed"), "{removed}");
        world.expect_no_image();
        own("docker", &["rmi", MINE]).unwrap();
        world.expect_clean();
    }
}

/// README's words, typed. Where its Debian cannot be pulled, the one that scripts/test makes has its name; who answers the agent is
/// missing (`agents::work` has a model for it).
// covers: S3-18 S3-31
#[test]
fn a_container_as_readme_has_it() {
    if !cofferdam_lab::sample::all() {
        skip!("builds an image: only with `scripts/test --all`");
        return;
    }
    let _turn = Turn::of_image(BASE).unwrap();
    let _mine = Turn::of_image(MINE).unwrap();
    let (base, of_a_day) = ("debian:bookworm-slim", base_of_a_day());
    for world in worlds().iter().filter(|world| world.engine == "docker") {
        if let Err(why) = own("docker", &["image", "inspect", base]) {
            skip!("docker: {why}");
            continue;
        }
        own("docker", &["tag", IMAGE, MINE]).unwrap();
        let is_pulled = own("docker", &["image", "inspect", &of_a_day]).is_ok();
        if !is_pulled {
            own("docker", &["tag", base, &of_a_day]).unwrap();
        }
        let typed = |line: &str, more: &[&str]| {
            let words = words_of(line, more);
            world.cofferdam(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let typed_within = |line: &str, more: &[&str]| {
            let words = words_of(line, more);
            world.builds(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let [base_of_ours, of_a_repository] = &blocks("### In a container")[..] else {
            panic!("README has other blocks");
        };
        for line in base_of_ours {
            match line.split(' ').nth(1).unwrap() {
                "build-base" => {
                    typed_within(line, &["--small", "--tag", "latest"]);
                    // It is what a sandbox has where nobody names another image.
                    let words = ["create", "based", "--sandbox", "docker"];
                    let made = world.cofferdam(&words).expect_code(0);
                    assert!(
                        made.stdout.contains(", image cofferdam-base:latest\n"),
                        "{made}"
                    );
                    let words = ["exec", "based", "--", "claude", "--version"];
                    world.cofferdam(&words).expect_code(0);
                    world.cofferdam(&["delete", "based"]).expect_code(0);
                }
                "run" => {
                    let done = typed(line, &[]).expect_code(1);
                    assert!(done.stderr.contains("ANTHROPIC_API_KEY"), "{done}");
                }
                "create" => {
                    typed(line, &[]).expect_code(0);
                    let words = ["exec", "box", "--", "git", "log", "--oneline"];
                    world.cofferdam(&words).expect_code(0);
                    world.cofferdam(&["delete", "box"]).expect_code(0);
                }
                other => panic!("nobody knows what `{other}` is to do: {line}"),
            }
        }
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let (_, text) = readme.split_once("```dockerfile\n").unwrap();
        dockerfile(&world.environment, text.split_once("```").unwrap().0);
        for line in of_a_repository {
            match line.split(" #").next().unwrap().trim_end() {
                "cofferdam build" => {
                    let shown = typed(line, &[]).expect_code(1);
                    let command = hinted(&shown);
                    let command: Vec<_> = command.iter().map(String::as_str).collect();
                    world.builds(&command);
                    let words = ["create", "mine", "--sandbox", "docker"];
                    world.cofferdam(&words).expect_code(0);
                    let words = ["exec", "mine", "--", "psql", "--version"];
                    world.cofferdam(&words).expect_code(0);
                    world.cofferdam(&["delete", "mine"]).expect_code(0);
                }
                "cofferdam docker remove-image" => {
                    let removed = typed(line, &[]).expect_code(0);
                    assert!(removed.stderr.contains("removed"), "{removed}");
                }
                other => panic!("nobody knows what `{other}` is to do"),
            }
        }
        own("docker", &["rmi", MINE]).unwrap();
        own("docker", &["rmi", BASE]).unwrap();
        if !is_pulled {
            own("docker", &["rmi", &of_a_day]).unwrap();
        }
        world.expect_clean();
    }
}
