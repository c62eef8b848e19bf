//! An engine of the lab's own, so that its containers are processes of the lab, and the same attacks are made from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Names the provider of the sandboxes behind the wall; the native one where nothing does.
const WANTED: &str = "COFFERDAM_TEST_SANDBOX";
/// A shell and what the hostile program is linked with.
const IMAGE: &str = "lab:1";
const START: Duration = Duration::from_secs(60);

static KNOWN: OnceLock<Known> = OnceLock::new();

/// What those who start sandboxes are told.
struct Known {
    words: [&'static str; 4],
    variable: &'static str,
    host: String,
}

/// Which engine the sandboxes behind the wall are to be in.
pub(crate) fn wanted() -> Option<&'static str> {
    let wanted = std::env::var_os(WANTED)?;
    let known = ["native", "docker", "podman"].into_iter();
    let found = known.clone().find(|name| wanted == *name);
    let found = found.unwrap_or_else(|| panic!("{WANTED} is {}", wanted.display()));
    (found != "native").then_some(found)
}

/// How commands find it.
pub(crate) fn variable() -> Option<(&'static str, &'static str)> {
    let known = KNOWN.get()?;
    Some((known.variable, &known.host))
}

/// What `cofferdam run` is told with these options. The control that has no wall has no container either.
pub(crate) fn words(options: &[&str]) -> &'static [&'static str] {
    match KNOWN.get() {
        Some(known) if !options.contains(&"open") => &known.words,
        _ => &[],
    }
}

/// Ends with this value.
pub(crate) struct Engine {
    name: &'static str,
    place: PathBuf,
    daemon: Child,
}

impl Engine {
    pub(crate) fn start(name: &'static str, directory: &Path) -> Self {
        let place = directory.join("d");
        fs::create_dir(&place).unwrap();
        let socket = place.join("s");
        let host = format!("unix://{}", socket.display());
        let said = fs::File::create(place.join("said")).unwrap();
        let below = |part: &str| place.join(part).into_os_string().into_string().unwrap();
        let mut command;
        if name == "docker" {
            command = Command::new("dockerd");
            for (option, part) in [
                ("--data-root", "data"),
                ("--exec-root", "exec"),
                ("--pidfile", "pid"),
            ] {
                command.args([option, &below(part)]);
            }
            command.args([
                "--host",
                &host,
                "--bridge",
                "none",
                "--iptables=false",
                "--ip6tables=false",
            ]);
        } else {
            let settings = "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
                            [containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n";
            fs::write(place.join("containers.conf"), settings).unwrap();
            let storage = format!(
                "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
                below("data"),
                below("exec")
            );
            fs::write(place.join("storage.conf"), storage).unwrap();
            command = own(name, &place);
            // Its monitors write where it was started.
            command.current_dir(&place);
            command.args(["system", "service", "--time", "0", &host]);
        }
        let daemon = command
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        let mut engine = Self {
            name,
            place,
            daemon,
        };
        let begun = Instant::now();
        while !socket.exists() || engine.ask(&["version"]).is_none() {
            let ended = engine.daemon.try_wait().unwrap();
            let said = fs::read_to_string(engine.place.join("said")).unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < START,
                "{name} does not start: {said}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let archive = image(&engine.place);
        let import = [
            "import",
            "--change",
            "ENV PATH=/bin",
            archive.to_str().unwrap(),
            IMAGE,
        ];
        assert!(engine.ask(&import).is_some());
        let known = Known {
            words: ["--sandbox", name, "--image", IMAGE],
            variable: if name == "docker" {
                "DOCKER_HOST"
            } else {
                "CONTAINER_HOST"
            },
            host,
        };
        assert!(KNOWN.set(known).is_ok());
        engine
    }

    /// How many containers run: sandboxes that say they are in some are.
    pub(crate) fn containers(&self) -> usize {
        self.ask(&["ps", "--quiet"]).unwrap().lines().count()
    }

    /// What its own command answers.
    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let mut command = own(self.name, &self.place);
        command.args(arguments).stdin(Stdio::null());
        let done = command.output().unwrap();
        done.status
            .success()
            .then(|| String::from_utf8(done.stdout).unwrap())
    }
}

/// The engine's own command, for the one whose files are there.
fn own(name: &str, place: &Path) -> Command {
    let mut command = Command::new(name);
    // With one the command would ask another engine.
    command
        .env_remove("CONTAINER_HOST")
        .env_remove("DOCKER_HOST")
        .env("TMPDIR", place);
    if name == "docker" {
        command.args(["--host", &format!("unix://{}", place.join("s").display())]);
    } else {
        command.env("CONTAINERS_CONF", place.join("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", place.join("storage.conf"));
    }
    command
}

impl Drop for Engine {
    fn drop(&mut self) {
        let pid = i32::try_from(self.daemon.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // It takes its control groups and mounts away.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.daemon.wait();
    }
}

/// An archive of the files of an image.
fn image(place: &Path) -> PathBuf {
    let root = place.join("root");
    let script = "set -e; mkdir -p \"$1/bin\" \"$1/etc\" \"$1/tmp\"; chmod 1777 \"$1/tmp\"
        cp \"$(command -v busybox)\" \"$1/bin/busybox\"
        for name in $(busybox --list); do test $name = busybox || ln -s busybox \"$1/bin/$name\"; done
        for file in $(ldd \"$2\" | grep -o '/[^ ]*'); do mkdir -p \"$1${file%/*}\"; cp -L \"$file\" \"$1$file\"; done
        tar -C \"$1\" -cf \"$1.tar\" .";
    let done = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&root)
        .arg(std::env::current_exe().unwrap())
        .status()
        .unwrap();
    assert!(done.success());
    place.join("root.tar")
}
