//! `--mount`: what a sandbox sees of this machine beside its files, what of it can be changed, and what is never shown.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cofferdam::fsx::write_private;
use cofferdam_lab::{skip, stuck};

use crate::configured::User;
use crate::containers::{World, worlds};
use crate::environment::{Done, TestEnvironment, finish};
use crate::lives::Lives;

const MODES: [&str; 3] = ["bind", "layer", "copy"];

/// Makes a directory in the user's home with one file, `file`, that says its name.
fn data(environment: &TestEnvironment, name: &str) -> PathBuf {
    let path = environment.home().join(name);
    fs::create_dir_all(&path).unwrap();
    put(&path.join("file"), name);
    path
}

fn put(path: &Path, text: &str) {
    write_private(path, text.as_bytes()).unwrap();
    // As files are that nobody made private.
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn words(parts: &[&str]) -> String {
    parts.join(":")
}

/// A script of which each line has to fail.
fn all_fail(lines: &[&str]) -> String {
    let mut script = String::new();
    for line in lines {
        script.push_str(&format!(
            "if ({line}) 2>/dev/null; then echo \"it went: {line}\"; exit 9; fi; "
        ));
    }
    script
}

fn run(environment: &TestEnvironment, options: &[&str], script: &str) -> Done {
    let options = [&["--network", "none"], options].concat();
    environment.run(&options, script)
}

/// The control is in it: what is writable is written, by the same script.
#[test]
fn read_only_unless_it_is_asked_for() {
    for mode in MODES {
        let environment = TestEnvironment::with_repository();
        let seen = data(&environment, "seen");
        let shared = data(&environment, "shared");
        let single = data(&environment, "single").join("file");
        let owner = fs::metadata(&shared).unwrap().uid();
        let script = all_fail(&[
            "echo >/mnt/seen/new",
            "echo >/mnt/seen/file",
            "rm /mnt/seen/file",
            "chmod 777 /mnt/seen",
            "mv /mnt/seen /mnt/gone",
            "echo >/mnt/one",
        ]) + "set -e; cat /mnt/seen/file /mnt/one /shared/file; \
              echo changed >/shared/file; mkdir /shared/made; echo new >/shared/made/new; \
              echo >>README.md; git commit -qam one";
        let done = run(
            &environment,
            &[
                "--mode",
                mode,
                "--mount",
                seen.to_str().unwrap(),
                "--mount",
                &words(&[shared.to_str().unwrap(), "/shared", "rw"]),
                "--mount",
                &words(&[single.to_str().unwrap(), "/mnt/one"]),
            ],
            &script,
        );
        let done = done.expect_code(0);
        assert!(done.stderr.contains("seensingleshared"), "{done}");
        assert_eq!(text(&seen.join("file")), "seen", "{mode}");
        assert_eq!(fs::read_dir(&seen).unwrap().count(), 1, "{mode}");
        assert_eq!(text(&single), "single", "{mode}");
        assert_eq!(text(&shared.join("file")), "changed\n", "{mode}");
        let made = shared.join("made/new");
        assert_eq!(text(&made), "new\n", "{mode}");
        assert_eq!(fs::metadata(&made).unwrap().uid(), owner, "{mode}");
        // Nothing of it is in the commit.
        let files = environment.git(&["ls-tree", "-r", "--name-only", "main"]);
        assert_eq!(files, "README.md\nsrc/lib.txt", "{mode}");
        environment.expect_clean();
    }
}

#[test]
fn a_path_is_relative_to_where_the_command_works() {
    let environment = TestEnvironment::with_repository();
    data(&environment, "data");
    environment.write("src/deep/file", "deep");
    let cases: [(&[&str], &str, &str, &str); 3] = [
        (&[], "~/data:~/data", "~/data/file", "data"),
        (&["-C", "src"], "deep", "/mnt/deep/file", "deep"),
        (&[], "src=src/deep,dst=/in", "/in/file", "deep"),
    ];
    for (before, mount, shown, want) in cases {
        let cat = format!("cat {shown}; echo");
        let rest = ["run", "--network", "none", "--mount", mount];
        let command = ["--", "sh", "-c", &cat];
        let done = environment.cofferdam(&[before, &rest[..], &command[..]].concat());
        let done = done.expect_code(0);
        assert!(done.stderr.contains(&format!("| {want}\n")), "{done}");
    }
}

/// What is said about the words themselves, before anything is looked at.
#[test]
fn words_that_say_no_mount() {
    let environment = TestEnvironment::with_repository();
    let done = run(&environment, &["--mount", "src:to"], "true");
    assert_eq!(
        done.expect_code(2).stderr,
        "error: `--mount`: `src:to` says no mount: `to` is no place in a sandbox: DST begins with `/` or `~/`\n\
         hint: for example `--mount ~/data`, `--mount ~/data:/mnt/in:rw`, or `--mount src=/a:b,dst=/mnt/b` where a path has a \
         colon\n"
    );
    for bad in [
        "",
        ":/in",
        "src:",
        "src:/in:ro",
        "src:/a:/b",
        "src=src,to=/in",
    ] {
        let done = run(&environment, &["--mount", bad], "true").expect_code(2);
        assert!(
            done.stderr.contains(&format!("`{bad}` says no mount")),
            "{done}"
        );
    }
    let done = environment.cofferdam(&["run", "--in", "box", "--mount", "src", "--", "true"]);
    let done = done.expect_code(2);
    assert!(done.stderr.contains("cannot be used with"), "{done}");
    environment.expect_nothing_made();
}

// covers: S1-137
#[test]
fn no_file_can_say_it() {
    let environment = TestEnvironment::with_repository();
    environment.write(".cofferdam/config.yaml", "mount: [/etc]\n");
    let done = environment.cofferdam(&["config", "check"]).expect_code(1);
    assert!(done.stderr.contains("unknown field `mount`"), "{done}");
}

/// With the control that the same words are taken where nothing is wrong.
#[test]
fn what_no_sandbox_is_shown() {
    let environment = TestEnvironment::with_repository();
    let home = environment.home();
    for name in [".ssh", ".config/gh", ".cofferdam", "repo/src", "repo/.git"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    put(&home.join("repo/.git/HEAD"), "ref: refs/heads/main\n");
    data(&environment, "data");
    let _bound = UnixListener::bind(home.join("socket")).unwrap();
    symlink(home.join(".ssh"), home.join("link")).unwrap();
    environment.write("secret/key", "x");
    let many: Vec<String> = (0..65).map(|n| format!("~/data:/mnt/{n}")).collect();
    let many: Vec<&str> = many.iter().flat_map(|one| ["--mount", one]).collect();
    let cases: [(&[&str], &str); 24] = [
        (&["--mount", "~/gone"], "nothing is there"),
        (&["--mount", "~/socket"], "no directory and no regular file"),
        (&["--mount", "/:/mnt/all"], "whole file system"),
        (&["--mount", "/etc"], "this machine's own"),
        (&["--mount", "/proc/self"], "this machine's own"),
        (&["--mount", "/var/run"], "services of this machine"),
        (&["--mount", "~:/mnt/home"], "Cofferdam's own directory"),
        (&["--mount", "~/.cofferdam"], "Cofferdam's own directory"),
        (&["--mount", "~/.ssh"], "keys and logins"),
        (&["--mount", "~/link"], "keys and logins"),
        (&["--mount", "~/.config"], "keys and logins"),
        (
            &["--mount", "secret", "--hide", "secret"],
            "hidden from this sandbox",
        ),
        (&["--mount", "src:rw"], "in the git repository"),
        (&["--mount", "~/repo:rw"], "in the git repository"),
        (&["--mount", "~/repo/src:rw"], "in the git repository"),
        (&["--mount", "~/repo/.git:rw"], "in the git repository"),
        (
            &["--mount", "~/data:/usr/share/x"],
            "/usr is the sandbox's own",
        ),
        (
            &["--mount", "~/data:/workspace/x"],
            "/workspace is the sandbox's own",
        ),
        (
            &["--mount", "~/data:/.cofferdam/vault"],
            "/.cofferdam is the sandbox's own",
        ),
        (&["--mount", "~/data:/home/agent"], "the agent's whole home"),
        (&["--mount", "~/data:~/a/b"], "right below `~/`"),
        (
            &["--mount", "~/data:/a", "--mount", "~/data:/a/b:rw"],
            "the same place",
        ),
        (
            &["--mount", "~/data:/a", "--mount", "~/repo:/a"],
            "the same place",
        ),
        (&many, "65 mounts are too many"),
    ];
    for (options, why) in cases {
        let done = run(&environment, options, "true").expect_code(1);
        assert!(done.stderr.contains(why), "{options:?}: {done}");
        assert!(done.stderr.contains("hint: "), "{done}");
    }
    // What can be told only when it has been looked through.
    fs::create_dir_all(home.join("data/deep/.git")).unwrap();
    let done = run(&environment, &["--mount", "~/data:rw"], "true").expect_code(1);
    assert!(done.stderr.contains("a git repository is in it"), "{done}");
    environment.expect_clean();
    for fine in ["~/data", "~/repo", "src", "secret"] {
        run(&environment, &["--mount", fine], "true").expect_code(0);
    }
    environment.expect_clean();
}

/// Wherever it lies: what an agent writes there would be run by the user's next git command.
#[test]
fn what_the_users_git_runs_is_not_writable() {
    let environment = TestEnvironment::with_repository();
    for name in [
        "hooks",
        "more",
        "objects",
        "attributes",
        "excludes",
        "template",
    ] {
        let path = data(&environment, name);
        let path = path.to_str().unwrap();
        let mount = format!("{path}:rw");
        let tried = |code| run(&environment, &["--mount", &mount], "true").expect_code(code);
        tried(0);
        let included = format!("{path}/settings");
        match name {
            "hooks" => drop(environment.git(&["config", "core.hooksPath", path])),
            "more" => drop(environment.git(&["config", "include.path", &included])),
            "attributes" => drop(environment.git(&["config", "core.attributesFile", &included])),
            "excludes" => drop(environment.git(&["config", "core.excludesFile", &included])),
            "template" => drop(environment.git(&["config", "init.templateDir", path])),
            _ => environment.write(".git/objects/info/alternates", &format!("{path}\n")),
        }
        let refused = tried(1);
        assert!(
            refused.stderr.contains("your git runs"),
            "{name}: {refused}"
        );
        run(&environment, &["--mount", path], "true").expect_code(0);
    }
    environment.expect_clean();
}

/// Wherever somebody has mounted it, by whatever name: with the control that another file system at that place is not taken for one.
#[test]
fn the_kernels_own_is_not_shown_by_another_name() {
    let environment = TestEnvironment::with_repository();
    let place = data(&environment, "place");
    for (kind, is_refused) in [("proc", true), ("tmpfs", false)] {
        let done = environment.shell(&format!(
            "unshare --user --map-root-user --mount --pid --fork sh -c 'mount -t {kind} none {0} && exec {1} run \
             --network none --mount {0} -- true'",
            place.display(),
            env!("CARGO_BIN_EXE_cofferdam")
        ));
        let said = "it is in a file system of the kernel's (proc)";
        assert_eq!(done.stderr.contains(said), is_refused, "{kind}: {done}");
        assert!(!done.stderr.contains("mount: "), "{kind}: {done}");
    }
}

/// Answers the mount and nothing else, as a server that went away; the command is interrupted once it waits for it.
const SILENT: &str = "
import ctypes, os, select, signal, struct, sys
fd = os.open('/dev/fuse', os.O_RDWR)
options = b'fd=%d,rootmode=40755,user_id=0,group_id=0' % fd
assert ctypes.CDLL(None).mount(b'silent', sys.argv[1].encode(), b'fuse', 0, options) == 0, 'no mount'
child = os.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
unique = os.read(fd, 1 << 17)[8:16]
os.write(fd, struct.pack('<Ii8sIIIIHHI', 40, 0, unique, 7, 12, 0, 0, 0, 0, 4096))
waits = select.poll()
waits.register(fd, select.POLLIN)
assert waits.poll(30000), 'nobody asks'
os.kill(child, signal.SIGINT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

#[test]
fn a_server_that_is_gone_is_not_waited_for_at_ctrl_c() {
    if let Some(why) = stuck::missing() {
        return skip!("{why}");
    }
    if fs::File::open("/dev/fuse").is_err() {
        return skip!("/dev/fuse cannot be opened");
    }
    let environment = TestEnvironment::with_repository();
    let place = data(&environment, "place");
    let below = place.join("below");
    let command = [
        "--user",
        "--map-root-user",
        "--mount",
        stuck::PYTHON,
        "-c",
        SILENT,
        place.to_str().unwrap(),
        env!("CARGO_BIN_EXE_cofferdam"),
        "run",
        "--network",
        "none",
        "--mount",
        below.to_str().unwrap(),
        "--",
        "true",
    ];
    let mut command_of = environment.program("unshare");
    let started = command_of
        .args(command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let done = finish(started.spawn().unwrap()).expect_code(130);
    assert!(!done.stderr.contains("Traceback"), "{done}");
    // By the signal, and not because its time was over.
    assert!(!done.stderr.contains("could not be looked"), "{done}");
    environment.expect_nothing_made();
}

/// The rule and the place are named, and files beside them come.
#[test]
fn nothing_is_synced_to_this_machine() {
    let user =
        User::new("sync:\n  - {src: ~/one, dest: /shared/one}\n  - {src: ~/one, dest: ~/one}\n");
    let (shared, cache) = (data(&user, "shared"), data(&user, "cache"));
    user.puts("one", "1");
    user.puts(".cofferdam/home/cache/deep", "2");
    let options = [
        "--network",
        "none",
        "--mount",
        &words(&[shared.to_str().unwrap(), "/shared", "rw"]),
        "--mount",
        &words(&[cache.to_str().unwrap(), "~/cache", "rw"]),
    ];
    let made = user.create("box", &options);
    for (begin, place) in [
        (
            "not synced: `sync` rule of config.yaml at line 2: /shared is ",
            &shared,
        ),
        (
            "not synced: /home/agent/cache/deep: /home/agent/cache is ",
            &cache,
        ),
    ] {
        let place = place.canonicalize().unwrap();
        let line = format!(
            "{begin}{} of this machine, mounted writable",
            place.display()
        );
        assert!(made.stderr.contains(&line), "{made}");
        assert_eq!(fs::read_dir(place).unwrap().count(), 1);
    }
    assert_eq!(user.inside("cat ~/one"), "1");
    user.ends();
}

/// An agent that could write beside a path puts a link in its place, and the next sandbox is to have what that leads to.
#[test]
fn a_link_of_an_earlier_agents_is_not_followed() {
    let environment = TestEnvironment::with_repository();
    let cache = data(&environment, "cache");
    fs::create_dir_all(cache.join("models")).unwrap();
    let private = data(&environment, "private");
    let plant = format!(
        "cd /mnt/cache && mv models old && ln -s {} models",
        private.display()
    );
    run(&environment, &["--mount", "~/cache:rw"], &plant).expect_code(0);
    let refused = run(&environment, &["--mount", "~/cache/models"], "true").expect_code(1);
    assert!(
        refused.stderr.contains("an agent could write in"),
        "{refused}"
    );
    run(&environment, &["--mount", "~/cache/old"], "true").expect_code(0);
    environment.expect_clean();
}

/// A program of the user's serves whoever reaches its socket, and a change of a file with another name is seen there too.
#[test]
fn doors_are_closed_and_second_names_are_read_only() {
    for mode in MODES {
        let environment = TestEnvironment::with_repository();
        let shared = data(&environment, "shared");
        let elsewhere = data(&environment, "elsewhere").join("file");
        fs::hard_link(&elsewhere, shared.join("linked")).unwrap();
        fs::create_dir_all(shared.join("deep/.cofferdam")).unwrap();
        put(&shared.join("deep/.cofferdam/.env"), "KEY=secret");
        fs::create_dir_all(shared.join("settings")).unwrap();
        put(&shared.join("settings/.env"), "KEY=secret");
        fs::create_dir_all(shared.join("linked-to")).unwrap();
        symlink("../settings", shared.join("linked-to/.cofferdam")).unwrap();
        let _bound = UnixListener::bind(shared.join("deep/socket")).unwrap();
        let script = all_fail(&[
            "test -S /mnt/shared/deep/socket",
            "test -S /read/deep/socket",
            "cat /mnt/shared/deep/.cofferdam/.env",
            "cat /read/deep/.cofferdam/.env",
            "cat /read/linked-to/.cofferdam/.env",
            "cat /read/settings/.env",
            "cat /mnt/shared/settings/.env",
            "echo >/mnt/shared/settings/new",
            "echo >/mnt/shared/linked",
            "mv /mnt/shared/linked /mnt/shared/other",
        ]) + "test -f /mnt/shared/deep/socket && echo x >/mnt/shared/file";
        let source = shared.to_str().unwrap();
        let options = [
            "--mode",
            mode,
            "--mount",
            &words(&[source, "rw"]),
            "--mount",
            &words(&[source, "/read"]),
        ];
        let done = run(&environment, &options, &script).expect_code(0);
        assert!(
            done.stderr.contains("read-only in the sandbox")
                && done.stderr.contains("/mnt/shared/linked"),
            "{done}"
        );
        assert_eq!(text(&elsewhere), "elsewhere", "{mode}");
        assert_eq!(text(&shared.join("file")), "x\n", "{mode}");
        environment.expect_clean();
    }
}

#[test]
fn one_that_stays_has_them_after_each_start() {
    for mode in MODES {
        let lives = Lives::new();
        let shared = data(&lives, "shared");
        let seen = data(&lives, "seen");
        let one = |shared: &Path| words(&[shared.to_str().unwrap(), "~/shared", "rw"]);
        lives.create(
            "box",
            &[
                "--mode",
                mode,
                "--network",
                "none",
                "--mount",
                &one(&shared),
                "--mount",
                seen.to_str().unwrap(),
            ],
        );
        lives
            .exec("box", "echo a >~/shared/a && cat /mnt/seen/file")
            .expect_code(0);
        let status = lives.cofferdam(&["status", "box"]).expect_code(0).stdout;
        let (shared_at, seen_at) = (shared.canonicalize().unwrap(), seen.canonicalize().unwrap());
        let lines = [
            format!(
                "mount:   {} at /home/agent/shared, writable\n",
                shared_at.display()
            ),
            format!("mount:   {} at /mnt/seen, read-only\n", seen_at.display()),
        ];
        assert!(lines.iter().all(|line| status.contains(line)), "{status}");
        let told = lives.cofferdam(&["status", "--json", "box"]).expect_code(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let first = &told["mounts"][0];
        assert_eq!(first["source"], shared_at.to_str().unwrap(), "{told}");
        assert_eq!(first["target"], "/home/agent/shared", "{told}");
        assert_eq!(
            (&first["writable"], &told["mounts"][1]["writable"]),
            (&true.into(), &false.into())
        );
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        // It is looked through anew.
        let _bound = UnixListener::bind(seen.join("socket")).unwrap();
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let script = all_fail(&["echo >/mnt/seen/new", "test -S /mnt/seen/socket"])
            + "test -f /mnt/seen/socket && cat ~/shared/a && echo b >~/shared/b";
        lives.exec("box", &script).expect_code(0);
        assert_eq!(text(&shared.join("b")), "b\n", "{mode}");
        lives.cofferdam(&["delete", "box"]).expect_code(0);
        assert!(
            shared.join("a").exists() && seen.join("file").exists(),
            "{mode}"
        );
        lives.expect_clean();
    }
}

#[test]
fn a_start_refuses_what_is_gone_or_has_become_something_else() {
    let lives = Lives::new();
    let shared = data(&lives, "shared");
    let kept = lives.home().join("kept");
    fs::create_dir(lives.home().join(".ssh")).unwrap();
    let mount = words(&[shared.to_str().unwrap(), "/shared", "rw"]);
    lives.create("box", &["--network", "none", "--mount", &mount]);
    lives
        .exec("box", "mkdir -p '/shared/deep er/.git'")
        .expect_code(0);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let refused = |why: &str| {
        let done = lives.cofferdam(&["start", "box"]).expect_code(1);
        assert!(done.stderr.contains(why), "{done}");
        assert!(done.stderr.contains("hint: "), "{done}");
        assert_eq!(lives.state("box"), "stopped");
        done
    };
    let found = refused("a git repository is in it");
    // What is printed works as it is.
    let printed: Vec<&str> = found.stderr.split('`').skip(1).step_by(2).collect();
    let [sandbox, remove, start, collect, diff, delete] = printed[..] else {
        panic!("{found}");
    };
    assert_eq!((sandbox, start), ("box", "cofferdam start box"), "{found}");
    assert_eq!(delete, "cofferdam delete box", "{found}");
    for command in [collect, diff] {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        lives.cofferdam(&words).expect_code(0);
    }
    lives.shell(remove).expect_code(0);
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    fs::rename(&shared, &kept).unwrap();
    let gone = refused("nothing is there");
    let named = shared.canonicalize().unwrap_or(shared.clone());
    assert!(gone.stderr.contains(named.to_str().unwrap()), "{gone}");
    assert!(gone.stderr.contains("bring back what was there"), "{gone}");
    symlink(lives.home().join(".ssh"), &shared).unwrap();
    refused("keys and logins");
    fs::remove_file(&shared).unwrap();
    symlink(&kept, &shared).unwrap();
    refused("it leads to");
    fs::remove_file(&shared).unwrap();
    // The control: it is back.
    fs::rename(&kept, &shared).unwrap();
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.exec("box", "cat /shared/file").expect_code(0);
}

/// Host git looks for no repository where an agent can have made one, and what an agent can replace is not mounted.
#[test]
fn what_an_agent_makes_there_is_the_agents() {
    let lives = Lives::new();
    let shared = data(&lives, "shared");
    let mount = words(&[shared.to_str().unwrap(), "/shared", "rw"]);
    lives.create("box", &["--network", "none", "--mount", &mount]);
    let made = "cd /shared && git init -q . && git config core.fsmonitor 'touch /tmp/it-ran' && mkdir deep";
    lives.exec("box", made).expect_code(0);
    let directory = shared.to_str().unwrap();
    let done = lives.cofferdam(&["-C", directory, "list"]);
    assert_ne!(done.status.code(), Some(0), "{done}");
    assert!(done.stderr.contains("box"), "{done}");
    let deep = shared.join("deep");
    let options = ["--network", "none", "--mount", deep.to_str().unwrap()];
    let done = lives.run(&options, "true").expect_code(1);
    assert!(
        done.stderr
            .contains("the agent of sandbox `box` can put something else in its place"),
        "{done}"
    );
}

/// The same in containers, in each mode.
#[test]
fn containers_have_them_too() {
    for world in worlds() {
        for mode in MODES {
            in_a_container(&world, mode);
        }
        world.expect_clean();
    }
}

fn in_a_container(world: &World, mode: &str) {
    let environment = &world.environment;
    let name = format!("shared-{mode}");
    let shared = data(environment, &name);
    let elsewhere = data(environment, &format!("elsewhere-{mode}")).join("file");
    fs::hard_link(&elsewhere, shared.join("linked")).unwrap();
    let _bound = UnixListener::bind(shared.join("socket")).unwrap();
    let seen = data(environment, &format!("seen-{mode}"));
    let owner = fs::metadata(&shared).unwrap().uid();
    let case = format!("{} {mode}", world.engine);
    let options = [
        "one",
        "--mode",
        mode,
        "--network",
        "none",
        "--mount",
        &words(&[shared.to_str().unwrap(), "/shared", "rw"]),
        "--mount",
        &words(&[seen.to_str().unwrap(), "~/seen"]),
    ];
    let made = world.make("create", &options);
    if mode == "layer"
        && made
            .stderr
            .contains("layers in containers of root's engine are root's alone")
    {
        return;
    }
    made.expect_code(0);
    let script = all_fail(&[
        "echo >~/seen/new",
        "test -S /shared/socket",
        "echo >/shared/linked",
    ]) + "cat ~/seen/file && echo x >>/shared/file && echo y >/shared/made";
    world.exec(&script);
    world.cofferdam(&["stop", "one"]).expect_code(0);
    world.cofferdam(&["start", "one"]).expect_code(0);
    world.exec(&script);
    assert_eq!(
        text(&shared.join("file")),
        format!("{name}x\nx\n"),
        "{case}"
    );
    let made = fs::metadata(shared.join("made")).unwrap();
    assert_eq!(made.uid(), owner, "{case}");
    assert!(text(&elsewhere).starts_with("elsewhere"), "{case}");
    assert!(!seen.join("new").exists(), "{case}");
    world.cofferdam(&["delete", "one"]).expect_code(0);
    let at = words(&[shared.to_str().unwrap(), "~/shared", "rw"]);
    let command = [
        "--mode",
        mode,
        "--network",
        "none",
        "--mount",
        &at,
        "--",
        "sh",
        "-c",
        "echo z >~/shared/made",
    ];
    world.make("run", &command).expect_code(0);
    assert_eq!(text(&shared.join("made")), "z\n", "{case}");
}
