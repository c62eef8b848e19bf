//! What goes wrong around a sandbox in a container: two commands at once, images with nothing in them, names that are taken, a full
//! disk. Each is a clear error or done, nothing is half made, and nothing of somebody else's is touched.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cofferdam_lab::skip;

use crate::containers::{IMAGE, SURROUNDINGS, World, making, own, worlds};
use crate::environment::{Done, finish};

impl World {
    /// Both at once.
    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines are where this machine's user has them"
    )]
    fn both(&self, commands: [&[&str]; 2]) -> [Done; 2] {
        let start = |words: &[&str]| {
            let mut command = self.environment.command(words);
            for name in SURROUNDINGS {
                if let Some(value) = std::env::var_os(name) {
                    command.env(name, value);
                }
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        commands.map(start).map(finish)
    }
}

fn succeeded(all: &[Done; 2]) -> usize {
    all.iter().filter(|one| one.status.success()).count()
}

#[test]
fn two_commands_at_once_end_as_one_after_the_other() {
    for world in worlds() {
        let create = making("create", world.engine, &["one"]);
        let made = world.both([&create, &create]);
        assert_eq!(succeeded(&made), 1, "{}{}", made[0], made[1]);
        let refused = made.iter().find(|one| !one.status.success()).unwrap();
        assert!(refused.stderr.contains("already exists"), "{refused}");
        let first = world.agents();
        world.exec("echo x >file; git add file; git commit -qm two-at-once");
        world.cofferdam(&["stop", "one"]).expect_code(0);
        let start = ["start", "one"];
        for _ in 0..2 {
            let started = world.both([&start, &start]);
            assert!(succeeded(&started) >= 1, "{}{}", started[0], started[1]);
            for one in started.iter().filter(|one| !one.status.success()) {
                assert!(one.stderr.contains("running already"), "{one}");
            }
            // One container, whoever was first.
            assert_ne!(world.agents(), first);
            world.exec("cat file");
            world.cofferdam(&["stop", "one"]).expect_code(0);
            assert_eq!(world.containers(), [""; 0]);
        }
        let [deleted, started] = world.both([&["delete", "--force", "one"], &start]);
        let both = format!("{deleted}{started}");
        if !deleted.status.success() {
            // It was refused whole, and says what is in its way.
            assert!(deleted.stderr.contains("hint: "), "{both}");
            world
                .cofferdam(&["delete", "--force", "one"])
                .expect_code(0);
        }
        let kept = world.environment.git(&["log", "--all", "--format=%s"]);
        assert!(kept.contains("two-at-once"), "{both}{kept}");
        world.expect_clean();
    }
}

/// An image with this in it and nothing else; removed with this value.
struct Image<'a> {
    world: &'a World,
    name: String,
}

impl<'a> Image<'a> {
    /// One static program that prints a word.
    fn of_one_program(world: &'a World) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let (source, files) = (place.path().join("it.c"), place.path().join("files"));
        std::fs::create_dir(&files).unwrap();
        write(
            &source,
            "#include <stdio.h>\nint main(void) { puts(\"alone\"); return 7; }\n",
        );
        let built = world.environment.program("cc");
        let built = with(built, &["-static", "-o"])
            .args([&files.join("only"), &source])
            .status();
        if !built.is_ok_and(|built| built.success()) {
            return None;
        }
        let archive = place.path().join("image.tar");
        let packed = with(world.environment.program("tar"), &["-cf"])
            .arg(&archive)
            .arg("-C")
            .args([&files, Path::new("only")])
            .status();
        assert!(packed.unwrap().success());
        let name = format!("localhost/cofferdam-test-alone-{}:1", std::process::id());
        own(world.engine, &["import", archive.to_str().unwrap(), &name]).unwrap();
        Some(Self { world, name })
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = own(self.world.engine, &["rmi", "--force", &self.name]);
    }
}

fn with(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own file needs no private mode"
)]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

// covers: S1-126, S1-127
#[test]
fn an_image_without_a_shell_runs_what_it_has() {
    for world in worlds() {
        let Some(image) = Image::of_one_program(&world) else {
            return skip!("no static program can be made here");
        };
        let engine = world.engine;
        let making = ["--sandbox", engine, "--image", &image.name];
        let run = [&["run"][..], &making, &["--", "/only"]].concat();
        let ran = world.cofferdam(&run);
        assert!(
            ran.to_string().contains("| alone") && ran.to_string().contains("exit code 7"),
            "{ran}"
        );
        let missed = [&["run"][..], &making, &["--", "nothing"]].concat();
        let missed = world.cofferdam(&missed);
        let next = format!("`cofferdam build-base --sandbox {engine}`\n");
        assert!(missed.stderr.contains(&next), "{missed}");
        world
            .cofferdam(&[&["create", "one"][..], &making].concat())
            .expect_code(0);
        let done = world
            .cofferdam(&["exec", "one", "--", "/only"])
            .expect_code(7);
        assert_eq!(done.stdout, "alone\n", "{done}");
        for missing in [
            &["exec", "one", "--", "sh", "-c", "true"][..],
            &["exec", "one", "--", "nothing"],
        ] {
            let refused = world.cofferdam(missing).expect_code(127);
            assert!(refused.stderr.contains("does not exist there"), "{refused}");
            assert!(refused.stderr.contains("--image IMAGE"), "{refused}");
        }
        let terminal = world.environment.program("script");
        let mut shell = with(terminal, &["--quiet", "--return", "--command"]);
        shell.arg(format!("{} shell one", env!("CARGO_BIN_EXE_cofferdam")));
        shell
            .arg("/dev/null")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let refused = finish(shell.spawn().unwrap());
        assert!(!refused.status.success(), "{refused}");
        assert!(
            refused.stdout.contains("does not exist there") || refused.stdout.contains("no shell"),
            "{refused}"
        );
        world.cofferdam(&["stop", "one"]).expect_code(0);
        world.cofferdam(&["delete", "one"]).expect_code(0);
        drop(image);
        world.expect_clean();
    }
}

// covers: S4-FR1.11, S4-AC1.7, S1-120, S1-121, S1-122, S3-43
#[test]
fn a_name_that_somebody_else_has_is_left_to_them() {
    for world in worlds() {
        let one = format!("taken-{}", std::process::id());
        let taken = format!("cofferdam-repository-{one}");
        let theirs = own(world.engine, &["create", "--name", &taken, IMAGE, "true"]).unwrap();
        world.make("create", &[&one]).expect_code(0);
        let name = || {
            let said = own(
                world.engine,
                &["inspect", "--format", "{{.Name}}", &world.agents()],
            );
            said.unwrap().trim().trim_start_matches('/').to_owned()
        };
        let made = name();
        let hash8 = made.strip_prefix(&format!("{taken}-")).unwrap();
        assert!(
            hash8.len() == 8 && hash8.chars().all(|c| c.is_ascii_hexdigit()),
            "{made}"
        );
        // Who joins a holder in Docker has the name of all behind its wall.
        let hostname = world
            .cofferdam(&["exec", &one, "--", "hostname"])
            .expect_code(0);
        let wanted = if world.engine == "docker" {
            "cofferdam"
        } else {
            &*taken
        };
        assert_eq!(hostname.stdout.trim(), wanted);
        // It is its repository's: the same whenever it is started.
        world.cofferdam(&["stop", &one]).expect_code(0);
        world.cofferdam(&["start", &one]).expect_code(0);
        assert_eq!(name(), made);
        world.cofferdam(&["delete", &one]).expect_code(0);
        let still = own(world.engine, &["inspect", "--format", "{{.Id}}", &taken]).unwrap();
        assert_eq!(still, theirs);
        own(world.engine, &["rm", theirs.trim()]).unwrap();
        world.expect_clean();
    }
}

/// Whatever the engine says of it. One that is a name, and of no image that is there, is another error.
#[test]
fn what_is_no_name_of_an_image_is_named() {
    for world in worlds() {
        let create = ["create", "one", "--sandbox", world.engine, "--image"];
        let refused = |image| {
            let done = world.cofferdam(&[&create[..], &[image]].concat());
            let done = done.expect_code(1);
            world.environment.expect_nothing_made();
            done.stderr
        };
        let hint = format!(
            "hint: one is like debian:bookworm-slim, in small letters; `{} images` lists those that are there\n",
            world.engine
        );
        for image in ["Bad:Name:x", "git:latest@@", "UPPER", "http://x/y"] {
            let wanted = format!(
                "error: Container Provisioning Failed: `{image}` is no name of an image\n{hint}"
            );
            assert_eq!(refused(image), wanted);
        }
        let missing = refused("no-such:image");
        assert!(
            missing.contains("has no image `no-such:image`"),
            "{missing}"
        );
    }
}

/// A small disk where the engine sees it too. Goes with this value.
pub(crate) struct Small(PathBuf);

impl Small {
    pub(crate) fn mount(world: &World, at: PathBuf, size: &str) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        let small = Self(at);
        small.change(world, &format!("size={size},mode=700"));
        small
    }

    #[track_caller]
    fn change(&self, world: &World, options: &str) {
        let command = with(
            world.environment.program("mount"),
            &["-t", "tmpfs", "-o", options, "tmpfs"],
        );
        assert!({ command }.arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Small {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test unmounts what it has mounted"
    )]
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Whatever step has no room: it is said, nothing is half made, and with room the same command works.
#[test]
fn a_sandbox_for_which_the_disk_has_no_room_is_not_made() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    for world in worlds() {
        let mut refused = 0;
        let small = Small::mount(&world, world.environment.home().join(".cofferdam"), "16k");
        for size in ["16k", "96k", "1m", "4m", "8m", "32m"] {
            small.change(&world, &format!("remount,size={size}"));
            let made = world.make("create", &["one"]);
            let what = format!("{}, {size}: {made}", world.engine);
            if made.status.success() {
                world.exec("cat README.md");
                world.cofferdam(&["delete", "one"]).expect_code(0);
                continue;
            }
            refused += 1;
            assert!(made.stderr.contains("No space left on device"), "{what}");
            assert_eq!(world.containers(), [""; 0], "{what}");
            world.environment.git(&["fsck", "--strict"]);
            small.change(&world, "remount,size=64m");
            world.cofferdam(&["gc"]).expect_code(0);
            let listed = world.cofferdam(&["list"]).expect_code(0);
            assert!(
                listed.to_string().contains("no sandboxes"),
                "{what}{listed}"
            );
        }
        assert!(refused > 0);
        small.change(&world, "remount,size=200m");
        world.make("create", &["one"]).expect_code(0);
        world.cofferdam(&["delete", "one"]).expect_code(0);
        world.expect_clean();
    }
}
