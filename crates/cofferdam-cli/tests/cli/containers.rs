//! The same commands with sandboxes in containers: switching is one word.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::{sample, skip};

use crate::engine_faults::socket;
use crate::environment::{Done, TestEnvironment, finish, finish_within};
use crate::runs::CLAUDE;

/// An image with a shell and git. scripts/test makes it.
pub(crate) const IMAGE: &str = "git:latest";
/// Where this machine's engines are, as their own commands know it.
pub(crate) const SURROUNDINGS: [&str; 2] = ["DOCKER_HOST", "CONTAINER_HOST"];

/// Of a holder that waits.
pub(crate) const READY: &str = "label=io.cofferdam.role=ready";

/// A user who has sandboxes in containers of `engine`.
pub(crate) struct World {
    pub(crate) environment: TestEnvironment,
    pub(crate) engine: &'static str,
}

/// In a run of the whole suite one of so many tests is made in Podman too, which takes twice as long there. scripts/test says so.
const PODMAN_SHARE: u64 = 3;

/// One for each engine that this machine has; that it has not is said.
pub(crate) fn worlds() -> Vec<World> {
    let there = |engine: &&str| {
        let asked = own(engine, &["image", "inspect", IMAGE]);
        asked.inspect_err(|why| skip!("{engine}: {why}")).is_ok()
    };
    let mut engines: Vec<&str> = ["docker", "podman"].into_iter().filter(there).collect();
    let current = std::thread::current();
    let test = current.name().unwrap_or_default();
    // Where it is the only one, it is all that there is.
    if engines.len() > 1 && sample::leaves_out(test, PODMAN_SHARE) {
        engines.retain(|engine| *engine != "podman");
    }
    let engines = engines.into_iter();
    let worlds = engines.map(|engine| World {
        environment: TestEnvironment::with_repository(),
        engine,
    });
    worlds.collect()
}

/// The engine's own command.
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the command as a shell does"
)]
pub(crate) fn own(engine: &str, words: &[&str]) -> Result<String, String> {
    // Podman's own command would work beside its service, and leaves something wherever it is started.
    let remote: &[&str] = if engine == "podman" {
        &["--remote"]
    } else {
        &[]
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(engine);
    command
        .args(remote)
        .args(words)
        .env("TMPDIR", scratch.path());
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        command.env("XDG_RUNTIME_DIR", scratch.path());
    }
    let done = command.output();
    let done = done.map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(String::from_utf8(done.stdout).unwrap());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().next().unwrap_or("it failed").to_owned())
}

/// The words of `cofferdam COMMAND --sandbox ENGINE --image IMAGE REST`.
pub(crate) fn making<'w>(command: &'w str, engine: &'w str, rest: &[&'w str]) -> Vec<&'w str> {
    [&[command, "--sandbox", engine, "--image", IMAGE], rest].concat()
}

impl World {
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines are where this machine's user has them"
    )]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.command(arguments);
        for name in SURROUNDINGS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    #[track_caller]
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// A build of an image that is small: three minutes.
    #[track_caller]
    pub(crate) fn builds(&self, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish_within(command.spawn().unwrap(), Duration::from_secs(180)).expect_code(0)
    }

    /// What `cofferdam status` says of a field, without its quotes.
    #[track_caller]
    pub(crate) fn status(&self, name: &str, field: &str) -> String {
        let told = self.cofferdam(&["status", "--json", name]).expect_code(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let value = &told[field];
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    /// The agent's container of the one sandbox that there is. A holder may be about to go.
    #[track_caller]
    pub(crate) fn agents(&self) -> String {
        let began = Instant::now();
        loop {
            let mut all = self.containers();
            let agents = ["--all", "--filter", "label=io.cofferdam.role=agent"];
            let agents = self.filtered("engines", &agents);
            all.retain(|one| agents.contains(one));
            match &all[..] {
                [one] => return one.clone(),
                _ => assert!(began.elapsed().as_secs() < 10, "{all:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// As [`making`] has it.
    #[track_caller]
    pub(crate) fn make(&self, command: &str, rest: &[&str]) -> Done {
        self.cofferdam(&making(command, self.engine, rest))
    }

    #[track_caller]
    pub(crate) fn exec(&self, script: &str) -> Done {
        self.cofferdam(&["exec", "one", "--", "sh", "-c", script])
            .expect_code(0)
    }

    /// The ids of this home's containers, but for a holder that is ready for the next one.
    #[track_caller]
    pub(crate) fn containers(&self) -> Vec<String> {
        let mut all = self.filtered("engines", &["--all"]);
        // Asked for second: one may come meanwhile.
        let ready = self.filtered("engines", &["--all", "--filter", READY]);
        all.retain(|one| !ready.contains(one));
        all
    }

    /// Those in which it was tried what an engine can.
    #[track_caller]
    pub(crate) fn tried(&self) -> Vec<String> {
        self.filtered("engines/tried", &["--all"])
    }

    #[track_caller]
    pub(crate) fn filtered(&self, place: &str, more: &[&str]) -> Vec<String> {
        let home = self.environment.home().join(".cofferdam").join(place);
        let Ok(home) = home.canonicalize() else {
            return Vec::new();
        };
        let label = format!("label=io.cofferdam.home={}", home.display());
        let words = ["ps", "-q", "--no-trunc", "--filter", &label];
        let said = own(self.engine, &[&words, more].concat()).unwrap();
        said.lines().map(str::to_owned).collect()
    }

    /// Nothing is left, in the engine either.
    #[track_caller]
    pub(crate) fn expect_clean(&self) {
        self.environment.expect_clean();
        // A holder goes when its sandbox is up or gone, and its engine is done with it a moment later.
        let began = Instant::now();
        loop {
            let left = self.containers();
            if left.is_empty() {
                break;
            }
            let waited = began.elapsed().as_secs();
            assert!(waited < 10, "containers of {}: {left:?}", self.engine);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(self.tried(), [""; 0], "trials of {}", self.engine);
        let home = self.environment.home().join(".cofferdam/engines");
        // A holder that is ready for the next one stays.
        for part in ["meet", "mounts"] {
            let left = home.join(part).read_dir().into_iter().flatten();
            let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let ready = |name: &String| {
                let begins = ["ready-", "begins-"];
                name == "lock" || begins.into_iter().any(|begin| name.starts_with(begin))
            };
            let left: Vec<_> = left.filter(|name| !ready(name)).collect();
            assert_eq!(left, [""; 0], "{part} of {}", self.engine);
        }
    }
}

/// Whoever makes the holder of the next one works in this home, which goes with the test.
impl Drop for World {
    fn drop(&mut self) {
        let home = format!("HOME={}", self.environment.home().display());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) && is_one_being_made(&home) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_one_being_made(home: &str) -> bool {
    let words = |place: &std::path::Path, name: &str| {
        let text = std::fs::read(place.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(|one| {
        let place = one.path();
        words(&place, "cmdline").ends_with("\0keep-ready\0")
            && words(&place, "environ")
                .split('\0')
                .any(|word| word == home)
    })
}

/// What an agent does that renames what lies there, changes, adds and removes.
const WORK: &str = "set -e; mv src lib; echo three >>lib/lib.txt; rm README.md; mkdir -p a/b; echo x >a/b/c; chmod +x a/b/c
    git add -A; git commit -qm work; echo left >uncommitted";

// covers: S2-6
#[test]
fn a_run_brings_the_same_home_as_natively() {
    let native = TestEnvironment::with_repository();
    native.run(&["-q"], WORK).expect_code(0);
    let tree = native.git(&["rev-parse", "main^{tree}"]);
    for world in worlds() {
        let modes: &[&[&str]] = &[&[], &["--mode", "bind"], &["--mode", "copy"]];
        for mode in modes {
            let before = world.environment.git(&["rev-parse", "main"]);
            let done = world.make(
                "run",
                &[mode, &["--name", "one", "--", "sh", "-c", WORK][..]].concat(),
            );
            let done = done.expect_code(0).to_string();
            let what = format!("{} {mode:?}: {done}", world.engine);
            assert_eq!(
                world.environment.git(&["rev-parse", "main^{tree}"]),
                tree,
                "{what}"
            );
            assert_eq!(
                world.environment.read("lib/lib.txt"),
                "one\ntwo\nthree\n",
                "{what}"
            );
            let listed = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
            let expected = match mode.last() {
                Some(mode) => mode,
                None if world.has_layers() => "layer",
                None => "bind",
            };
            let expected = format!("\"mode\":\"{expected}\"");
            assert!(listed.contains(&expected), "{what}{listed}");
            if expected.contains("bind") {
                assert!(
                    done.contains("uncommitted work of the agent is kept"),
                    "{what}"
                );
            } else {
                let shown = world.cofferdam(&["diff", "--uncommitted", "one"]);
                assert!(shown.stdout.contains("+left"), "{what}{shown}");
            }
            world
                .cofferdam(&["delete", "--force", "one"])
                .expect_code(0);
            world.environment.git(&["reset", "--hard", "-q", &before]);
            world.expect_clean();
        }
    }
}

// covers: S4-FR1.4
#[test]
fn one_that_lives_on_is_used_as_any_other() {
    for world in worlds() {
        let made = world.make("create", &["one"]).expect_code(0);
        world.exec("echo a >file; git add file; git commit -qm living; echo in-memory >/tmp/kept");
        let collected = world.cofferdam(&["collect", "one"]).expect_code(0);
        assert!(collected.stdout.contains('1'), "{made}{collected}");
        let shown = world.cofferdam(&["diff", "one"]).expect_code(0);
        assert!(shown.stdout.contains("+a"), "{shown}");
        world.cofferdam(&["pause", "one"]).expect_code(0);
        let told = world.cofferdam(&["status", "one"]).expect_code(0).stdout;
        let why = "\npause:   by signals, as in every container\n";
        assert!(told.contains(why), "{told}");
        let listed = world.cofferdam(&["list"]).expect_code(0);
        assert!(listed.stdout.contains("paused"), "{listed}");
        world
            .cofferdam(&["exec", "one", "--", "true"])
            .expect_code(1);
        world.cofferdam(&["resume", "one"]).expect_code(0);
        assert_eq!(world.exec("cat /tmp/kept").stdout, "in-memory\n");
        world.exec("mv src lib; echo left >uncommitted");
        world.cofferdam(&["stop", "one"]).expect_code(0);
        let listed = world.cofferdam(&["list"]).expect_code(0);
        assert!(listed.stdout.contains("stopped"), "{listed}");
        world.cofferdam(&["start", "one"]).expect_code(0);
        // Processes have ended; files and the agent's home stay.
        assert_eq!(
            world
                .exec("cat uncommitted lib/lib.txt; ls /tmp/kept 2>/dev/null || true")
                .stdout,
            "left\none\ntwo\n"
        );
        world.cofferdam(&["merge", "one"]).expect_code(0);
        assert_eq!(world.environment.read("file"), "a\n");
        world.cofferdam(&["delete", "one"]).expect_code(1);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// What the kernel kills for the limit of memory is told: by the run, by `exec`, and by `status` to who looks later.
#[test]
fn that_memory_was_used_up_is_told() {
    let told = "the kernel killed a process of the sandbox, because its memory was used up";
    let fill = "dd if=/dev/zero of=/dev/null bs=200M count=1";
    for world in worlds() {
        let agent = ["--memory", "64m", "--agent", "command", "--", "sh", "-c"];
        let ran = world.make("run", &[&agent[..], &[&format!("{fill} || true")]].concat());
        let ran = ran.expect_code(0);
        assert!(ran.stderr.contains(told), "{ran}");
        world
            .make("create", &["one", "--memory", "64m"])
            .expect_code(0);
        assert_eq!(world.status("one", "killed_for_memory"), "0");
        let filled = world.cofferdam(&["exec", "one", "--", "sh", "-c", fill]);
        let filled = filled.expect_code(137);
        assert!(filled.stderr.contains(told), "{filled}");
        // No other program's end is for that.
        let other = world.cofferdam(&["exec", "one", "--", "false"]);
        assert_eq!(other.expect_code(1).stderr, "");
        assert_eq!(world.status("one", "killed_for_memory"), "1");
        // Files in memory count.
        let fill = "dd if=/dev/zero of=/dev/shm/full bs=1M count=50";
        let filled = world.cofferdam(&["exec", "one", "--", "sh", "-c", fill]);
        filled.expect_code(0);
        let used: u64 = world.status("one", "memory").parse().unwrap();
        assert!((50 << 20..64 << 20).contains(&used), "{used}");
        assert_eq!(world.status("one", "memory_limit"), "67108864");
        world.cofferdam(&["delete", "one"]).expect_code(0);
        world.expect_clean();
    }
}

/// Whoever is in the group of Docker's socket and is not root has all of it, over worktrees in place of layers.
#[test]
fn a_member_of_dockers_group_has_worktrees() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root becomes one");
    }
    for world in worlds().into_iter().filter(|one| one.engine == "docker") {
        let group = socket("docker").metadata().unwrap().gid().to_string();
        let id = 10_000 + std::process::id() % 50_000;
        let place = world.environment.home();
        let place = place.parent().unwrap();
        // Where they can execute it.
        let bin = place.join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_cofferdam"), bin.join("cofferdam")).unwrap();
        let owner = format!("{id}:{id}");
        let mut chown = world.environment.program("chown");
        let owned = chown.args(["-R", &owner]).arg(place).status();
        assert!(owned.unwrap().success());
        let id = id.to_string();
        let them = |words: &[&str]| {
            let ours = world.command(words);
            let mut command = world.environment.program("setpriv");
            command
                .args([
                    "--reuid",
                    &id,
                    "--regid",
                    &id,
                    "--groups",
                    &group,
                    "--inh-caps=-all",
                ])
                .arg(bin.join("cofferdam"))
                .args(words)
                .env_clear()
                .current_dir(world.environment.repository())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            for (name, value) in ours.get_envs() {
                if let Some(value) = value {
                    command.env(name, value);
                }
            }
            finish(command.spawn().unwrap())
        };
        let made = them(&making("create", "docker", &["one"])).expect_code(0);
        assert!(made.stdout.contains("mode bind"), "{made}");
        let script = "echo x >x && git add x && git commit -qm theirs";
        them(&["exec", "one", "--", "sh", "-c", script]).expect_code(0);
        them(&["stop", "one"]).expect_code(0);
        them(&["start", "one"]).expect_code(0);
        them(&["merge", "one"]).expect_code(0);
        them(&["delete", "one"]).expect_code(0);
        let ran = making(
            "run",
            "docker",
            &[
                "--",
                "sh",
                "-c",
                "echo y >y && git add y && git commit -qm ran",
            ],
        );
        let ran = them(&ran).expect_code(0);
        assert!(ran.stderr.contains("mode bind"), "{ran}");
        let file = world.environment.repository().join("y").metadata().unwrap();
        assert_eq!(file.uid().to_string(), id);
        assert_eq!(world.containers(), [""; 0]);
    }
}

impl World {
    pub(crate) fn is_rootless(&self) -> bool {
        let format = match self.engine {
            "docker" => "{{.SecurityOptions}}",
            _ => "rootless: {{.Host.Security.Rootless}}",
        };
        let said = own(self.engine, &["info", "--format", format]).unwrap();
        said.contains("name=rootless") || said.contains("rootless: true")
    }

    /// Whoever uses root's engine without being root works on a directory.
    fn has_layers(&self) -> bool {
        rustix::process::geteuid().is_root() || self.is_rootless()
    }
}

/// The holder that waits for the next sandbox, once it does.
pub(crate) fn ready(world: &World) -> String {
    let began = Instant::now();
    loop {
        if let [one] = &world.filtered("engines", &["--filter", READY])[..] {
            return one.clone();
        }
        assert!(began.elapsed().as_secs() < 60, "none waits");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a container has joined the network of this one.
fn is_joined(world: &World, holder: &str) -> bool {
    let format = ["inspect", "--format", "{{.HostConfig.NetworkMode}}"];
    world.filtered("engines", &[]).iter().any(|id| {
        // One that ended meanwhile is none.
        own(world.engine, &[&format[..], &[id]].concat()).is_ok_and(|mode| mode.contains(holder))
    })
}

/// Where its engine can: each command that uses the ready holder has the next one made.
#[test]
fn the_next_one_finds_its_holder_ready() {
    let keeps = |world: &World| world.engine == "docker" && !world.is_rootless();
    for world in worlds().into_iter().filter(keeps) {
        world.make("create", &["one"]).expect_code(0);
        world.cofferdam(&["stop", "one"]).expect_code(0);
        let second = ready(&world);
        world.cofferdam(&["start", "one"]).expect_code(0);
        assert!(is_joined(&world, &second));
        world.cofferdam(&["delete", "one"]).expect_code(0);
        let third = ready(&world);
        let done = world.make("run", &["--name", "one", "--", "sleep", "3"]);
        let done = done.expect_code(0).to_string();
        assert_ne!(ready(&world), third, "{done}");
        world.expect_clean();
    }
}

#[test]
fn what_was_left_uncommitted_is_brought_out() {
    for world in worlds() {
        world.make("create", &["one"]).expect_code(0);
        world.exec("mv src lib; echo left >uncommitted; echo more >>README.md");
        world.cofferdam(&["apply", "one"]).expect_code(0);
        assert_eq!(world.environment.read("uncommitted"), "left\n");
        assert_eq!(world.environment.read("README.md"), "hello\nmore\n");
        assert_eq!(world.environment.read("lib/lib.txt"), "one\ntwo\n");
        assert!(!world.environment.repository().join("src").exists());
        world.cofferdam(&["apply", "--undo", "one"]).expect_code(0);
        assert_eq!(world.environment.git(&["status", "--porcelain"]), "");
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

// covers: S3-94
#[test]
fn doctor_reads_back_how_one_is_kept_apart() {
    for world in worlds() {
        world.make("create", &["one"]).expect_code(0);
        let told = world.cofferdam(&["doctor", "one"]).expect_code(0);
        for part in ["capabilities", "its rights", "its network", "its limits"] {
            assert!(told.stdout.contains(part), "{part}: {told}");
        }
        assert!(!told.stdout.contains("malformed"), "{told}");
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        let gone = world.cofferdam(&["doctor", "one"]).expect_code(1);
        assert!(gone.stderr.contains("one"), "{gone}");
        world.expect_clean();
    }
}

/// Of the same name, and so are their sandboxes.
// covers: S3-44
#[test]
fn two_repositories_have_a_sandbox_each() {
    for first in worlds() {
        let second = World {
            environment: TestEnvironment::with_repository(),
            engine: first.engine,
        };
        for (world, word) in [(&first, "first"), (&second, "second")] {
            world.make("create", &["one"]).expect_code(0);
            world.exec(&format!("! test -e whose && echo {word} >whose"));
        }
        first
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        first.expect_clean();
        assert_eq!(second.status("one", "state"), "active");
        assert_eq!(second.exec("cat whose").stdout, "second\n");
        second
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        second.expect_clean();
    }
}

/// Nothing is committed there, and nothing is lost.
#[test]
fn what_an_agent_leaves_in_an_image_without_git_is_applied() {
    for world in worlds() {
        let environment = &world.environment;
        let sandbox = ["--sandbox", world.engine, "--image", "busybox:latest"];
        let run = ["run", "-q", "--name", "plain", "--agent", "command"];
        let script = "! command -v git && echo made >made && rm README.md";
        let agent = ["--", "sh", "-c", script];
        let done = world.cofferdam(&[&run[..], &sandbox, &agent].concat());
        let done = done.expect_code(0);
        assert!(
            done.stdout
                .contains("uncommitted work of the agent is kept"),
            "{done}"
        );
        world.cofferdam(&["apply", "plain"]).expect_code(0);
        assert_eq!(environment.read("made"), "made\n");
        assert_eq!(
            environment.git(&["status", "--porcelain"]),
            "D  README.md\nA  made"
        );
        environment.git(&["reset", "-q", "--hard"]);
        world
            .cofferdam(&["delete", "--force", "plain"])
            .expect_code(0);
        // The same while one runs that lives on, and it goes on.
        world
            .cofferdam(&[&["create", "one"], &sandbox[..]].concat())
            .expect_code(0);
        world.exec(script);
        world.cofferdam(&["apply", "one"]).expect_code(0);
        assert_eq!(
            environment.git(&["status", "--porcelain"]),
            "D  README.md\nA  made"
        );
        assert_eq!(world.status("one", "state"), "active");
        assert_eq!(world.exec("cat made").stdout, "made\n");
        environment.git(&["reset", "-q", "--hard"]);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
        world.expect_clean();
    }
}

/// A conversation is taken out of a container, and goes on in another one of the same engine and the same image.
#[test]
fn a_conversation_goes_on_in_another_container() {
    for world in worlds() {
        let program = world.environment.has_program("claude", CLAUDE);
        let mount = format!("{}:/mnt/bin", program.display());
        let run = |words: &[&str]| {
            let mut command = world.command(words);
            command
                .args(["--mount", &mount, "--env", "PATH=/mnt/bin:/usr/bin:/bin"])
                .env("ANTHROPIC_API_KEY", "k")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            finish(command.spawn().unwrap()).expect_code(0)
        };
        let agent = [
            "--branch",
            "work",
            "--agent",
            "claude-code",
            "--prompt",
            "begin",
        ];
        let named = [&["--name", "one"], &agent[..]].concat();
        run(&making("run", world.engine, &named));
        run(&["continue", "one", "--prompt", "more"]);
        let log = world.environment.git(&["log", "--format=%s", "main..work"]);
        let lines: Vec<&str> = log.split_whitespace().collect();
        assert_eq!(lines, ["2", "1"], "{}", world.engine);
        let listed = world.cofferdam(&["runs", "--json"]).expect_code(0).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        for run in listed.as_array().unwrap() {
            let place = (run["provider"].as_str(), run["image"].as_str());
            assert_eq!(place, (Some(world.engine), Some(IMAGE)), "{run}");
        }
        assert_eq!(listed.as_array().unwrap().len(), 2);
    }
}
