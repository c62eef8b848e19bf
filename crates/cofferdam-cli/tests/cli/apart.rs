//! What an agent could do to its user by a checkout that both share (threats 121, 122, 123, 125, 126, 130) is nothing that it
//! can do by default: its files are its sandbox's own, and what it plants stays there, while it lives and afterwards.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use crate::containers::World;
use crate::everywhere::{everywhere, native};

/// An agent that does `script` in a sandbox `box` and is gone; its sandbox goes on, with everything in place. `seen`: a
/// line of shell that proves it inside.
#[track_caller]
fn planted(world: &World, script: &str, seen: &str) {
    world
        .run(
            &["--keep", "--name", "box", "-q", "--network", "none"],
            script,
        )
        .expect_code(0);
    let look = ["exec", "box", "--", "sh", "-c", seen];
    world.cofferdam(&look).expect_code(0);
    let listed = world.cofferdam(&["list", "--json"]).stdout;
    assert!(listed.contains("\"mode\":\"layer\""), "{listed}");
}

/// The sandbox goes, and then too nothing of it is in the checkout, where git's own view is `status`.
#[track_caller]
fn end(world: &World, status: &str) {
    let environment = &world.environment;
    let now = || environment.git(&["status", "--porcelain", "--ignored=no"]);
    assert_eq!(now(), status);
    world
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    assert_eq!(now(), status);
    environment.expect_clean();
}

/// Threat 121.
#[test]
fn a_git_directory_below_is_not_where_the_user_stands() {
    let world = &native();
    let environment = &world.environment;
    environment
        .shell("mkdir ../private && echo secret > ../private/diary")
        .expect_code(0);
    planted(
        world,
        "git init -q src && git -C src config core.worktree ../../private && mkdir src/.cofferdam && echo HOME > src/.cofferdam/.env",
        "test -f src/.git/config && test -f src/.cofferdam/.env",
    );
    let top = environment.git(&["-C", "src", "rev-parse", "--show-toplevel"]);
    assert_eq!(top, environment.repository().to_str().unwrap());
    let done = environment
        .cofferdam(&[
            "-C",
            "src",
            "run",
            "-q",
            "--network",
            "none",
            "--",
            "sh",
            "-c",
            "test -e diary && exit 3; test -e ../private && exit 4; ls /workspace; echo $HOME",
        ])
        .expect_code(0);
    assert!(!done.stderr.contains("private"), "{done}");
    assert!(!environment.repository().join("src/.git").exists());
    end(world, "");
}

/// Threat 122.
#[test]
fn a_second_name_outside_is_not_written_through() {
    everywhere(122, |world| {
        let environment = &world.environment;
        environment
            .shell("ln src/lib.txt ../outside")
            .expect_code(0);
        planted(
            world,
            "echo owned > src/lib.txt; echo owned >> README.md",
            "grep owned src/lib.txt",
        );
        let outside = environment.repository().parent().unwrap().join("outside");
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "one\ntwo\n");
        assert_eq!(environment.read("src/lib.txt"), "one\ntwo\n");
        end(world, "");
    });
}

/// Threat 123.
#[test]
fn a_live_git_directory_with_a_command_runs_nothing_of_the_users() {
    let world = &native();
    let environment = &world.environment;
    let mark = environment.temporary().join("fired");
    planted(
        world,
        &format!(
            "git init -q src && git -C src config core.fsmonitor 'touch {}; true #'",
            mark.display()
        ),
        "git -C src config core.fsmonitor",
    );
    for directory in [".", "src"] {
        environment.git(&["-C", directory, "status", "--porcelain"]);
    }
    assert!(!mark.exists());
    // Where it lies in the checkout it does: the test can fail.
    environment.shell(&format!("git init -q twin && git -C twin config core.fsmonitor 'touch {}; true #' && git -C twin status && rm -r twin", mark.display())).expect_code(0);
    assert!(mark.exists());
    end(world, "");
}

/// Threat 125.
#[test]
fn hooks_of_the_users_in_the_tree_are_as_they_were() {
    everywhere(125, |world| {
        let environment = &world.environment;
        let mark = environment.temporary().join("fired");
        environment
        .shell("mkdir hooks && printf '#!/bin/sh\\n' > hooks/pre-commit && chmod +x hooks/pre-commit && git add hooks && git commit -qm hooks && git config core.hooksPath hooks")
        .expect_code(0);
        planted(
            world,
            &format!(
                "echo 'touch {}' >> hooks/pre-commit; echo 'touch {0}' > .envrc",
                mark.display()
            ),
            "grep touch hooks/pre-commit .envrc",
        );
        environment.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
        assert!(!mark.exists());
        assert!(!environment.repository().join(".envrc").exists());
        // In the checkout's own hook the line fires: the test can fail.
        let hook = environment.read("hooks/pre-commit");
        environment.write(
            "hooks/pre-commit",
            &format!("{hook}touch {}\n", mark.display()),
        );
        environment.git(&["commit", "-q", "--allow-empty", "-m", "control"]);
        assert!(mark.exists());
        environment.write("hooks/pre-commit", &hook);
        end(world, "");
    });
}

/// Threat 126.
#[test]
fn a_set_user_id_file_keeps_what_it_runs() {
    everywhere(126, |world| {
        let environment = &world.environment;
        environment
            .shell("cp /bin/true tool && git add tool && git commit -qm tool && chmod u+s tool")
            .expect_code(0);
        let tool = environment.repository().join("tool");
        let before = std::fs::read(&tool).unwrap();
        planted(
            world,
            "python3 -c \"import mmap; f=open('tool','r+b'); m=mmap.mmap(f.fileno(),0); m[:4]=b'EVIL'; m.flush()\"",
            "grep -q EVIL tool && test ! -u tool",
        );
        assert_eq!(std::fs::read(&tool).unwrap(), before);
        assert_eq!(tool.metadata().unwrap().mode() & 0o4000, 0o4000);
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        end(world, "");
    });
}

/// Threat 130.
#[test]
fn pipes_and_sockets_are_nowhere_for_the_users_programs() {
    everywhere(130, |world| {
        let environment = &world.environment;
        planted(
            world,
            "mkfifo pipe src/README; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
            "test -p pipe && test -S socket",
        );
        for name in ["pipe", "src/README", "socket"] {
            assert!(
                environment
                    .repository()
                    .join(name)
                    .symlink_metadata()
                    .is_err(),
                "{name}"
            );
        }
        let special =
            environment.shell("find . -path ./.git -prune -o ! -type d ! -type f ! -type l -print");
        assert_eq!(special.stdout, "", "{special}");
        // The state directory has them, and no command of the user's looks there with a program that opens files.
        let state = environment.home().join(".cofferdam/state");
        let sandbox = state.read_dir().unwrap().flatten().next().unwrap().path();
        let pipe = sandbox.join("layer/upper/pipe").symlink_metadata().unwrap();
        assert!(pipe.file_type().is_fifo());
        world.cofferdam(&["diff", "box"]).expect_code(0);
        world
            .cofferdam(&["diff", "--uncommitted", "box"])
            .expect_code(0);
        world.cofferdam(&["list"]).expect_code(0);
        end(world, "");
    });
}
