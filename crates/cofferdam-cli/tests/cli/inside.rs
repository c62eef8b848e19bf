//! Cofferdam inside a container, as in continuous integration: the recipe of docs/containers.md, and what is said without it.

use std::path::Path;

use cofferdam_lab::skip;

use crate::containers::{own, worlds};

/// The machine's programs and libraries, as the container's: read-only.
const SYSTEM: [&str; 5] = ["/usr", "/lib", "/lib64", "/bin", "/etc"];
/// A repository, a run in it, and what became of it.
const SCRIPT: &str = "export HOME=/work/home; mkdir -p $HOME; git init -q /work/r; cd /work/r
    git -c user.name=a -c user.email=a@localhost commit -q --allow-empty -m first
    /cofferdam doctor; echo \"doctor: $?\"
    /cofferdam run -q --agent command -- sh -c 'echo x >file; git add file; git commit -qm from-inside'; echo \"run: $?\"
    git log --format=%s";

struct Inside<'a> {
    engine: &'a str,
    /// What `docker run` gets beside what is always the same.
    options: &'a [&'a str],
    /// `--user`.
    user: &'a str,
}

impl Inside<'_> {
    /// What was printed, on both streams.
    fn run(&self) -> String {
        let place = tempfile::Builder::new()
            .prefix("cofferdam-test-")
            .tempdir()
            .unwrap();
        std::fs::set_permissions(
            place.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let mut words = vec!["run", "--rm", "--network", "none", "--user", self.user];
        words.extend(self.options);
        let mounts: Vec<_> = SYSTEM
            .iter()
            .filter(|path| Path::new(path).exists())
            .map(|path| format!("{path}:{path}:ro"))
            .chain([
                format!("{}:/cofferdam:ro", env!("CARGO_BIN_EXE_cofferdam")),
                format!("{}:/work", place.path().display()),
            ])
            .collect();
        for mount in &mounts {
            words.extend(["--volume", mount]);
        }
        let script = format!("{{ {SCRIPT}\n}} 2>&1");
        words.extend(["git:latest", "bash", "-c", &script]);
        let said = own(self.engine, &words).unwrap_or_else(|error| error);
        // What its root made is root's.
        let clear = [
            "run",
            "--rm",
            "--network",
            "none",
            "--user",
            "0:0",
            "--volume",
            &mounts[mounts.len() - 1],
        ];
        let _ = own(
            self.engine,
            &[
                &clear[..],
                &["busybox:latest", "sh", "-c", "rm -rf /work/* /work/.[!.]*"],
            ]
            .concat(),
        );
        said
    }
}

fn profile() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/seccomp.json");
    format!("seccomp={}", path.canonicalize().unwrap().display())
}

/// docs/containers.md, and the words of its line for this engine between `run` and `--user`: the recipe as people copy it.
fn recipe(engine: &str) -> Vec<String> {
    let line = format!("$ {engine} run ");
    let text = documented();
    let line = text
        .lines()
        .find_map(|one| one.strip_prefix(&line))
        .unwrap();
    let (options, _) = line.split_once(" --user ").unwrap();
    let options = options.split(' ').map(str::to_owned).collect();
    here(options)
}

fn documented() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/containers.md");
    std::fs::read_to_string(path).unwrap()
}

/// With the profile's file where it is.
fn here(mut options: Vec<String>) -> Vec<String> {
    for option in &mut options {
        if option.starts_with("seccomp=") {
            assert!(option.ends_with("seccomp.json"), "{option}");
            *option = profile();
        }
    }
    options
}

pub(crate) fn unmasked(engine: &str) -> &'static str {
    match engine {
        "docker" => "systempaths=unconfined",
        _ => "unmask=ALL",
    }
}

#[test]
fn with_the_recipe_it_works_as_a_user_and_as_root() {
    for world in worlds() {
        let recipe = recipe(world.engine);
        let recipe: Vec<&str> = recipe.iter().map(String::as_str).collect();
        let as_root = [&recipe[..], &["--cap-add", "SYS_ADMIN"]].concat();
        for (user, options) in [("1000:1000", &recipe[..]), ("0:0", &as_root)] {
            let said = Inside {
                engine: world.engine,
                options,
                user,
            }
            .run();
            let what = format!("{} {user}: {said}", world.engine);
            if user == "0:0" && said.contains("does not map owners") {
                skip!(
                    "{}: root's files lie where owners are not mapped",
                    world.engine
                );
                continue;
            }
            assert!(
                said.contains("doctor: 0") && said.contains("run: 0"),
                "{what}"
            );
            assert!(said.ends_with("from-inside\nfirst\n"), "{what}");
        }
    }
}

#[test]
fn without_it_doctor_and_run_name_the_same_thing() {
    for world in worlds() {
        let profile = profile();
        let masked = ["--security-opt", &profile];
        let filtered = ["--security-opt", unmasked(world.engine)];
        let both = [masked, filtered].concat();
        for (user, options, names) in [
            (
                "1000:1000",
                &[][..],
                // What is met first of the two.
                match world.engine {
                    "docker" => [
                        "a filter of system calls forbids it",
                        "seccomp=seccomp.json",
                    ],
                    _ => ["cannot mount a `/proc`", "systempaths=unconfined"],
                },
            ),
            (
                "1000:1000",
                &masked[..],
                ["cannot mount a `/proc`", "systempaths=unconfined"],
            ),
            (
                "1000:1000",
                &filtered[..],
                [
                    "a filter of system calls forbids it",
                    "seccomp=seccomp.json",
                ],
            ),
            (
                "0:0",
                &both[..],
                ["root needs CAP_SYS_ADMIN", "or run as an ordinary user"],
            ),
        ] {
            let said = Inside {
                engine: world.engine,
                options,
                user,
            }
            .run();
            let what = format!("{} {user} {options:?}: {said}", world.engine);
            assert!(
                said.contains("doctor: 1") && said.contains("run: 1"),
                "{what}"
            );
            for name in names {
                let (doctor, run) = said.split_once("doctor: 1").unwrap();
                assert!(doctor.contains(name), "doctor: {name}: {what}");
                assert!(run.contains(name), "run: {name}: {what}");
            }
        }
    }
}

/// What goes into a file of a development container is what goes on the command line.
#[test]
fn a_development_container_has_the_same_options() {
    let text = documented();
    let (_, file) = text.split_once("```json\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let file: serde_json::Value = serde_json::from_str(file).unwrap();
    let options: Vec<String> = serde_json::from_value(file["runArgs"].clone()).unwrap();
    assert_eq!(here(options), recipe("docker"));
}
