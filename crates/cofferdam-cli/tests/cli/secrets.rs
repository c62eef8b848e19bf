//! Attack 76 of docs/attacks.md: a value that an agent is given by name is in its programs, and nowhere that anybody else looks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::containers::{World, own, worlds};
use crate::environment::{Done, TestEnvironment, finish};
use crate::lives::OnTerminal;

/// Where a sandbox is: natively, or in containers.
enum Where {
    Native(TestEnvironment),
    Engine(World),
}

/// A user with a value that nobody else has.
struct Place {
    at: Where,
    secret: String,
}

impl Place {
    /// `name`: the test's, which may run beside others.
    fn all(name: &str) -> Vec<Self> {
        let native = Where::Native(TestEnvironment::with_repository());
        let engines = worlds().into_iter().map(Where::Engine);
        let secret = format!("canary-{name}-{}", std::process::id());
        let place = |at| Self {
            at,
            secret: secret.clone(),
        };
        std::iter::once(native).chain(engines).map(place).collect()
    }

    fn environment(&self) -> &TestEnvironment {
        match &self.at {
            Where::Native(environment) => environment,
            Where::Engine(world) => &world.environment,
        }
    }

    /// `cofferdam FIRST … REST` with the value in the caller's own environment, from where it is taken by name.
    fn cofferdam(&self, first: &str, rest: &[&str]) -> Done {
        finish(pipes(&mut self.command(first, rest)).spawn().unwrap())
    }

    fn command(&self, first: &str, rest: &[&str]) -> Command {
        let mut words = vec![first];
        if let (Where::Engine(world), "run" | "create") = (&self.at, first) {
            words.extend(["--sandbox", world.engine, "--image", "git:latest"]);
        }
        words.extend(rest);
        let mut command = match &self.at {
            Where::Native(environment) => environment.command(&words),
            Where::Engine(world) => world.command(&words),
        };
        command.env("OF_THE_CALLER", &self.secret);
        command
    }

    /// What the engine says of its containers and images, and has written about them.
    fn told(&self) -> String {
        let Where::Engine(world) = &self.at else {
            return String::new();
        };
        let mut told = own(world.engine, &["history", "--no-trunc", "git:latest"]).unwrap();
        told += &own(world.engine, &["inspect", &world.agents()]).unwrap();
        for id in world.containers() {
            // A holder may be gone by now.
            told += &own(world.engine, &["inspect", &id]).unwrap_or_else(|error| error);
            // There are none: an engine keeps nothing of what is said inside.
            told += &own(world.engine, &["logs", &id]).unwrap_or_else(|error| error);
        }
        told
    }

    /// The environments and words of all processes of this machine but those in the sandbox, and this one.
    fn processes(&self) -> Vec<String> {
        self.processes_with(&["cmdline", "environ"])
    }

    /// Those in which one of these files of /proc has it.
    fn processes_with(&self, files: &[&str]) -> Vec<String> {
        let (mut found, secret) = (Vec::new(), self.secret.as_bytes());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            let read = |file: &str| fs::read(path.join(file)).unwrap_or_default();
            let has = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
            if files.iter().any(|file| has(&read(file))) {
                found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
            }
        }
        found
    }
}

fn pipes(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// The files below that have it.
fn files_with(secret: &str, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files_with(secret, &path, found);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            if text.contains(secret) {
                found.push(path);
            }
        }
    }
}

fn written(place: &Place) -> Vec<PathBuf> {
    let (mut found, environment) = (Vec::new(), place.environment());
    for below in [
        environment.home(),
        environment.repository(),
        environment.temporary(),
    ] {
        files_with(&place.secret, &below, &mut found);
    }
    found
}

/// One file has it, which is its user's alone.
#[track_caller]
fn one_of_its_user_has_it(place: &Place) {
    let found = written(place);
    let [form] = &found[..] else {
        panic!("{found:?}");
    };
    let (file, directory) = (form.metadata().unwrap(), form.parent().unwrap().metadata());
    assert_eq!(file.mode() & 0o777, 0o600, "{}", form.display());
    assert_eq!(directory.unwrap().mode() & 0o077, 0, "{}", form.display());
}

#[test]
fn a_value_of_one_that_lives_on_is_in_its_programs_and_in_what_starts_it_again() {
    for place in Place::all("create") {
        let made = place.cofferdam("create", &["one", "--env", "OF_THE_CALLER"]);
        let made = made.expect_code(0).to_string();
        // The control: it is there.
        let script = "test \"$OF_THE_CALLER\" = \"$1\" && sleep 1000 & sleep 0.3; kill -0 $! && echo there; kill $!";
        let done = place.cofferdam(
            "exec",
            &["one", "--", "sh", "-c", script, "sh", &place.secret],
        );
        assert!(done.stdout.contains("there"), "{done}");
        let told = place.told() + &made;
        assert!(!told.contains(&place.secret), "{told}");
        for (command, rest) in [("doctor", "one"), ("status", "one"), ("list", "--json")] {
            let said = place.cofferdam(command, &[rest]).expect_code(0).to_string();
            assert!(!said.contains(&place.secret), "{said}");
        }
        assert_eq!(place.processes(), [""; 0], "processes that show it");
        // It is started again with the same.
        one_of_its_user_has_it(&place);
        place
            .cofferdam("delete", &["--force", "one"])
            .expect_code(0);
        assert_eq!(written(&place), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn a_value_of_a_run_is_in_none_of_its_logs() {
    for place in Place::all("run") {
        let script = "test -n \"$OF_THE_CALLER\" && echo there; echo x >file; git add file; git commit -qm work";
        let words = [
            "--env",
            "OF_THE_CALLER",
            "--name",
            "one",
            "--",
            "sh",
            "-c",
            script,
        ];
        let done = place.cofferdam("run", &words).expect_code(0).to_string();
        assert!(
            done.contains("there") && !done.contains(&place.secret),
            "{done}"
        );
        assert_eq!(written(&place), [""; 0].map(PathBuf::from));
    }
}

/// While it runs, its engine, its command lines and its files say nothing of it.
#[test]
fn a_value_of_a_run_that_goes_on_is_told_to_nobody() {
    for place in Place::all("going") {
        let script = "test -n \"$OF_THE_CALLER\" && echo the''re; sleep 1000";
        let words = ["--env", "OF_THE_CALLER", "--", "sh", "-c", script];
        let mut run = OnTerminal::start(&place.command("run", &words), (80, 24));
        run.expect("there");
        let told = place.told();
        assert!(!told.contains(&place.secret), "{told}");
        assert_eq!(place.processes_with(&["cmdline"]), [""; 0]);
        // The control: its environment has it, and that is looked at.
        assert_ne!(place.processes(), [""; 0]);
        // Whoever clears up after it gives hooks the same.
        one_of_its_user_has_it(&place);
        run.press("\u{3}");
        run.ends_with(130);
        let shown = run.text();
        assert!(!shown.contains(&place.secret), "{shown}");
        assert_eq!(written(&place), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn a_value_of_the_configuration_is_on_no_command_line_and_in_no_log() {
    for place in Place::all("configured") {
        let own = place.environment().home().join(".cofferdam");
        cofferdam::fsx::private_dir(&own).unwrap();
        let config = b"env: {OF_CONFIG: $OF_THE_CALLER}\n";
        cofferdam::fsx::write_private(&own.join("config.yaml"), config).unwrap();
        let made = place.cofferdam("create", &["one"]).expect_code(0);
        // The control: it is there, in a program and in the file for shells.
        let script =
            "test \"$OF_CONFIG\" = \"$1\" && grep -q \"$1\" ~/.cofferdam-env && echo there";
        let words = ["one", "--", "sh", "-c", script, "sh", &place.secret];
        let done = place.cofferdam("exec", &words);
        assert!(done.stdout.contains("there"), "{done}");
        let told = place.told() + &made.to_string();
        assert!(!told.contains(&place.secret), "{told}");
        assert_eq!(place.processes(), [""; 0], "processes that show it");
        place
            .cofferdam("delete", &["--force", "one"])
            .expect_code(0);
        let script =
            "test -n \"$OF_CONFIG\" && echo there; echo x >file; git add file; git commit -qm work";
        let words = ["--name", "one", "--", "sh", "-c", script];
        let done = place.cofferdam("run", &words).expect_code(0).to_string();
        assert!(
            done.contains("there") && !done.contains(&place.secret),
            "{done}"
        );
        assert_eq!(written(&place), [""; 0].map(PathBuf::from));
    }
}
