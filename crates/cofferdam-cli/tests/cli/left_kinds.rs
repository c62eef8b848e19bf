//! What else than files and links is in the files of a sandbox's own: devices, set-user-id files, files with several names.
//! None of it is opened, and what comes out of it are plain files.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use cofferdam_lab::skip;

use crate::environment::TestEnvironment;

/// Fails where an agent could make a device, even one that says of a file that it is gone, or a set-user-id file.
pub(crate) const KINDS: &str = "set -e; ln README.md second; echo more >> second; ln second src/third
    cp /bin/true tool; chmod u+s tool 2>/dev/null && exit 8
    for device in 'c 1 3' 'c 1 5' 'b 7 0' 'c 0 0'; do mknod made $device 2>/dev/null && exit 9; done; test ! -e made";
/// What git makes of that.
pub(crate) const SEEN: &str = "M\tREADME.md\nA\tsecond\nA\tsrc/third\nA\ttool\n";

/// What an agent cannot make, in the directory where [`KINDS`] has run. `false`: there is no device, because only root makes one.
pub(crate) fn plant(place: &Path) -> bool {
    let rights = std::fs::Permissions::from_mode(0o6755);
    std::fs::set_permissions(place.join("tool"), rights).unwrap();
    if !rustix::process::geteuid().is_root() {
        skip!("devices among an agent's files: only root can make them");
        return false;
    }
    // `zero` has no end: who read it would never come back.
    for (name, minor) in [("zero", 5), ("src/null", 3)] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.join(name),
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::from_raw_mode(0o666),
            rustix::fs::makedev(1, minor),
        )
        .unwrap();
    }
    true
}

/// What was applied are plain files, each with one name.
#[track_caller]
pub(crate) fn came_out_plain(environment: &TestEnvironment) {
    for name in ["README.md", "second", "src/third"] {
        assert_eq!(environment.read(name), "hello\nmore\n", "{name}");
        let found = environment.repository().join(name).metadata().unwrap();
        assert_eq!(found.nlink(), 1, "{name}");
    }
    let tool = environment.repository().join("tool").metadata().unwrap();
    assert_eq!(tool.mode() & 0o7111, 0o111);
    assert!(!environment.repository().join("zero").exists());
}

/// Where they are all the same, git has no devices and no such rights, and none is opened.
#[test]
fn devices_and_rights_and_second_names_stay_inside() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--name", "left", "-q"], KINDS)
        .expect_code(0);
    let state = environment.home().join(".cofferdam/state");
    let state = state.read_dir().unwrap().flatten().next().unwrap().path();
    let planted = plant(&state.join("layer/upper"));
    let shown = environment
        .cofferdam(&["diff", "--uncommitted", "left", "--name-status"])
        .expect_code(0);
    assert_eq!(shown.stdout, SEEN, "{shown}");
    environment.cofferdam(&["list"]).expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    came_out_plain(&environment);
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
    // Inside no device opens either: nothing there is one.
    environment.cofferdam(&["start", "left"]).expect_code(0);
    if planted {
        let open = "test -c zero && ! head -c 1 zero";
        environment
            .cofferdam(&["exec", "left", "--", "sh", "-c", open])
            .expect_code(0);
    }
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
    assert!(!state.exists());
}

/// Each makes a link that leads out of the repository. `key`: a file of the user's.
pub(crate) fn links(key: &Path) -> [String; 5] {
    [
        "ln -s /etc/passwd out".to_owned(),
        format!("ln -s {} out", key.display()),
        "ln -s ../../../etc/passwd out".to_owned(),
        "mkdir deep; ln -s ../../home deep/out".to_owned(),
        // In the place of a directory with a file of the commit's.
        "mv src moved; ln -s /etc src".to_owned(),
    ]
}

/// A link that leads out of the repository comes out by nothing, and nothing comes out through it.
#[test]
fn links_that_lead_out_stay_inside() {
    let environment = TestEnvironment::with_repository();
    let cases = links(&environment.puts(".ssh/id_rsa", "SECRET\n"));
    for mode in ["layer", "copy"] {
        for script in &cases {
            let script = format!("echo new > new; {script}");
            environment
                .run(&["--name", "left", "-q", "--mode", mode], &script)
                .expect_code(0);
            for words in [
                &["diff", "--uncommitted", "left"][..],
                &["apply", "left"],
                &["worktree", "left"],
            ] {
                let done = environment.cofferdam(words).expect_code(1);
                assert!(
                    done.stderr.contains("its target "),
                    "{script} {words:?}: {done}"
                );
                assert!(!done.to_string().contains("SECRET"), "{script}: {done}");
                assert_eq!(environment.git(&["status", "--porcelain"]), "", "{script}");
            }
            environment
                .cofferdam(&["delete", "--force", "left"])
                .expect_code(0);
        }
        // The control: one that stays in it comes out as what it is.
        environment
            .run(
                &["--name", "left", "-q", "--mode", mode],
                "ln -s src/lib.txt within",
            )
            .expect_code(0);
        environment.cofferdam(&["apply", "left"]).expect_code(0);
        let within = environment.repository().join("within");
        let target = std::fs::read_link(within).unwrap();
        assert_eq!(target.to_str(), Some("src/lib.txt"));
        environment
            .cofferdam(&["apply", "--undo", "left"])
            .expect_code(0);
        environment
            .cofferdam(&["delete", "--force", "left"])
            .expect_code(0);
    }
    environment.expect_clean();
}

/// For ten times as much as anybody has, on a machine that has something else to do.
pub(crate) const LONG: std::time::Duration = std::time::Duration::from_secs(300);

/// Makes a list of names of 5 MB with `--all`, else of half of one, and a file below 200 levels. How many names those are without it.
pub(crate) fn many_names() -> (usize, String) {
    let number = if cofferdam_lab::sample::all() {
        21_000
    } else {
        2_100
    };
    let script = format!(
        "perl -e 'for (1..{number}) {{ open(F, q(>), sprintf(q(%0240d), $_)) or die }}
        for (1..200) {{ mkdir q(d); chdir q(d) or die }} open(F, q(>), q(bottom)) or die; print F 1'"
    );
    (number, script)
}

#[test]
fn deep_and_very_many_names_come_out_in_their_time() {
    let (number, script) = many_names();
    let environment = TestEnvironment::with_repository();
    let long = |words: &[&str]| environment.cofferdam_within(words, LONG).expect_code(0);
    let named = ["--name", "left", "-q"];
    let mode = crate::environment::open_mode(&named);
    long(&[&["run"], &named[..], mode, &["--", "sh", "-c", &script]].concat());
    long(&["apply", "left"]);
    let staged = environment.git(&["diff", "--cached", "--name-only"]);
    assert_eq!(staged.lines().count(), number + 1);
    let bottom = format!("{}bottom", "d/".repeat(200));
    assert_eq!(environment.read(&bottom), "1");
    long(&["apply", "--undo", "left"]);
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

#[test]
fn what_git_cannot_take_is_said() {
    for mode in ["layer", "copy"] {
        cannot_take(mode);
    }
}

/// What git can take into no commit is counted, and goes with the sandbox only when its user says so.
#[track_caller]
pub(crate) fn cannot_take(mode: &str) {
    for (script, shown) in [
        ("rm README.md; mkfifo README.md", None),
        (
            "rm README.md; mkfifo README.md; echo new > new",
            Some("A\tnew\n"),
        ),
        (DEEP, None),
    ] {
        let environment = TestEnvironment::with_repository();
        environment
            .cofferdam(&["create", "left", "--mode", mode])
            .expect_code(0);
        environment
            .cofferdam(&["exec", "left", "--", "sh", "-ec", script])
            .expect_code(0);
        for stop in [false, true] {
            if stop {
                environment.cofferdam(&["stop", "left"]).expect_code(0);
            }
            let what = format!("{mode}, {script}, stopped: {stop}");
            let done = environment.cofferdam(&["diff", "--uncommitted", "left", "--name-status"]);
            let (code, said) = match shown {
                Some(_) => (0, UNREAD),
                None => (1, "its git cannot read a path"),
            };
            let done = done.expect_code(code);
            assert_eq!(done.stdout, shown.unwrap_or_default(), "{what}");
            assert!(done.stderr.contains(said), "{what}: {done}");
        }
        environment.cofferdam(&["delete", "left"]).expect_code(1);
        environment
            .cofferdam(&["delete", "--force", "left"])
            .expect_code(0);
        environment.expect_clean();
    }
}

/// The last path that the gate takes, others up to the last one that the kernel opens, and one more. There is no room for a
/// `.gitignore` in some of the directories.
#[test]
fn paths_as_long_as_the_kernels_are_work() {
    const GATE: &str = "it is longer than 4000 bytes";
    const GIT: &str = "its git cannot read a path";
    for (above, directory, file, length, refused) in [
        (19, 80, 100, 4000, None),
        (19, 80, 101, 4001, Some(GATE)),
        (20, 68, 1, 4090, Some(GATE)),
        (20, 68, 6, 4095, Some(GATE)),
        (20, 68, 7, 4096, Some(GIT)),
    ] {
        let directories = format!(
            "{}{}",
            format!("{}/", "d".repeat(200)).repeat(above),
            "e".repeat(directory)
        );
        let path = format!("{directories}/{}", "f".repeat(file));
        assert_eq!(path.len(), length);
        let script = format!(
            "perl -e 'for ((q(d) x 200) x {above}, q(e) x {directory}) {{ mkdir; chdir $_ or die }} open(F, qq(>), q(f) x {file}) or die; print F 1'"
        );
        for mode in ["layer", "copy"] {
            let environment = TestEnvironment::with_repository();
            environment
                .cofferdam(&["create", "left", "--mode", mode])
                .expect_code(0);
            environment
                .cofferdam(&["exec", "left", "--", "sh", "-ec", &script])
                .expect_code(0);
            for stop in [false, true] {
                if stop {
                    environment.cofferdam(&["stop", "left"]).expect_code(0);
                }
                let what = format!("{mode}, {length}, stopped: {stop}");
                let done =
                    environment.cofferdam(&["diff", "--uncommitted", "left", "--name-status"]);
                match refused {
                    None => {
                        assert_eq!(done.expect_code(0).stdout, format!("A\t{path}\n"), "{what}");
                    }
                    Some(why) => {
                        let done = done.expect_code(1);
                        assert!(done.stderr.contains(why), "{what}: {done}");
                    }
                }
            }
            environment.cofferdam(&["delete", "left"]).expect_code(1);
        }
    }
}

/// Said beside what git could take.
pub(crate) const UNREAD: &str = "note: 1 path that its git cannot read stays inside";
/// A file below 2,000 directories.
pub(crate) const DEEP: &str = "perl -e 'for (1..2000) { mkdir qq(dddd); chdir qq(dddd) } open(F, qq(>), qq(bottom)) or die; print F qq(x)'";

/// Git opens these by their names, and would wait for ever: nobody does, and what is wrong is said.
#[test]
fn pipes_that_git_would_wait_at_are_named() {
    for mode in ["layer", "copy"] {
        for name in [".gitignore", "src/.gitattributes"] {
            let environment = TestEnvironment::with_repository();
            environment
                .cofferdam(&["create", "left", "--mode", mode])
                .expect_code(0);
            let script = format!("echo new > new; rm -f {name}; mkfifo {name}");
            environment
                .cofferdam(&["exec", "left", "--", "sh", "-c", &script])
                .expect_code(0);
            let why = format!("{name} is a pipe");
            for stop in [false, true] {
                if stop {
                    environment.cofferdam(&["stop", "left"]).expect_code(0);
                }
                let shown = environment
                    .cofferdam(&["diff", "--uncommitted", "left"])
                    .expect_code(1);
                assert!(shown.stderr.contains(&why), "{mode} {name}: {shown}");
            }
            environment.cofferdam(&["delete", "left"]).expect_code(1);
            environment
                .cofferdam(&["delete", "--force", "left"])
                .expect_code(0);
            environment.expect_clean();
        }
    }
}
