//! Programs of the user's home in a sandbox: whatever `PATH` finds, with what it needs and with nothing else.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use crate::environment::{Done, TestEnvironment, finish};

/// Says what it could load, and each file of the user's home that it sees.
const AGENT: &str = r"#!/usr/bin/env node
const fs = require('fs'), path = require('path');
console.log('loaded', require('./lib/words.js'), require('inner'), require('sibling'), require('deeper'));
const walk = (at) => {
  for (const one of fs.readdirSync(at, { withFileTypes: true })) {
    const below = path.join(at, one.name);
    if (one.isDirectory()) walk(below); else console.log('sees', path.relative(HOME, below));
  }
};
const HOME = process.argv[2];
walk(HOME);
";

struct User {
    environment: TestEnvironment,
}

impl User {
    fn new() -> Self {
        let environment = TestEnvironment::with_repository();
        let user = Self { environment };
        for secret in [
            ".ssh/id",
            ".agent/login.json",
            ".config/agent/settings",
            ".cache/agent/x",
            "notes.txt",
        ] {
            user.write(secret, "secret\n", 0o600);
        }
        user
    }

    fn path(&self, below: &str) -> PathBuf {
        self.environment.home().join(below)
    }

    fn write(&self, below: &str, text: &str, mode: u32) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        cofferdam::fsx::write_with_mode(&path, text.as_bytes(), mode).unwrap();
    }

    fn link(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(text, path).unwrap();
    }

    fn package(&self, below: &str, manifest: &str) {
        self.write(&format!("{below}/package.json"), manifest, 0o644);
        let name = below.rsplit('/').next().unwrap();
        let text = format!("module.exports = '{name}';\n");
        self.write(&format!("{below}/index.js"), &text, 0o644);
    }

    /// As npm does below a prefix, and one package beside it that nothing needs.
    fn install(&self, prefix: &str) {
        let modules = format!("{prefix}/lib/node_modules");
        let own = format!("{modules}/@own/agent");
        let manifest = r#"{"name": "@own/agent", "bin": {"agent": "cli.js"},
            "dependencies": {"inner": "1", "sibling": "1", "deeper": "1", "../../../.ssh": "1"}}"#;
        self.package(&own, manifest);
        self.write(&format!("{own}/cli.js"), AGENT, 0o755);
        self.write(
            &format!("{own}/lib/words.js"),
            "module.exports = 'words';\n",
            0o644,
        );
        self.package(&format!("{own}/node_modules/inner"), "{}");
        self.package(
            &format!("{modules}/sibling"),
            r#"{"dependencies": {"deeper": "1"}}"#,
        );
        self.package(&format!("{modules}/deeper"), "{}");
        self.package(&format!("{modules}/unrelated"), "{}");
        self.link(
            &format!("{prefix}/bin/agent"),
            "../lib/node_modules/@own/agent/cli.js",
        );
    }

    /// `cofferdam run … -- agent HOME` with these directories first in `PATH`.
    #[track_caller]
    fn run(&self, entries: &[PathBuf]) -> Done {
        self.run_with(entries, &[])
    }

    #[track_caller]
    fn run_with(&self, entries: &[PathBuf], variables: &[(&str, PathBuf)]) -> Done {
        let home = self.environment.home();
        let arguments = [
            "run",
            "--network",
            "none",
            "--",
            "agent",
            home.to_str().unwrap(),
        ];
        let mut command = self.environment.command(&arguments);
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(entries.iter().chain(&system)).unwrap();
        command.env("PATH", path);
        for (name, value) in variables {
            command.env(name, value);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }
}

/// What the agent said in lines that begin so.
fn said(done: &Done, first: &str) -> Vec<String> {
    let lines = done.stderr.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("  | "));
    let mut found: Vec<String> = lines
        .filter_map(|line| line.strip_prefix(first))
        .map(|rest| rest.trim().to_owned())
        .collect();
    found.sort();
    found
}

const PACKAGES: [&str; 9] = [
    "lib/node_modules/@own/agent/cli.js",
    "lib/node_modules/@own/agent/index.js",
    "lib/node_modules/@own/agent/lib/words.js",
    "lib/node_modules/@own/agent/node_modules/inner/index.js",
    "lib/node_modules/@own/agent/node_modules/inner/package.json",
    "lib/node_modules/@own/agent/package.json",
    "lib/node_modules/deeper/index.js",
    "lib/node_modules/deeper/package.json",
    "lib/node_modules/sibling/index.js",
];

#[track_caller]
fn sees_only(done: &Done, prefix: &str) {
    let mut want: Vec<String> = PACKAGES
        .iter()
        .map(|one| format!("{prefix}/{one}"))
        .collect();
    want.push(format!("{prefix}/lib/node_modules/sibling/package.json"));
    want.push(format!("{prefix}/bin/agent"));
    want.sort();
    assert_eq!(said(done, "sees"), want, "{done}");
    assert_eq!(
        said(done, "loaded"),
        ["words inner sibling deeper"],
        "{done}"
    );
}

#[test]
fn a_package_of_npms_prefix_is_there_with_what_it_depends_on_and_nothing_else() {
    for prefix in [".local", "apps/npm"] {
        let user = User::new();
        user.install(prefix);
        let done = user
            .run(&[user.path(&format!("{prefix}/bin"))])
            .expect_code(0);
        sees_only(&done, prefix);
    }
}

/// Symlinks of directories and of programs on the way, and a home that is one itself.
#[test]
fn symlinks_are_followed_to_the_package() {
    let user = User::new();
    user.install("apps/1.2");
    user.link("apps/current", "1.2");
    user.link(".local/bin/agent", "../../apps/current/bin/agent");
    let done = user.run(&[user.path(".local/bin")]).expect_code(0);
    assert_eq!(
        said(&done, "loaded"),
        ["words inner sibling deeper"],
        "{done}"
    );

    let other = user.environment.temporary().join("home");
    symlink(user.environment.home(), &other).unwrap();
    let variables = [
        ("HOME", other.clone()),
        ("COFFERDAM_HOME", user.environment.temporary().join("own")),
    ];
    let done = user
        .run_with(&[other.join(".local/bin")], &variables)
        .expect_code(0);
    assert_eq!(
        said(&done, "loaded"),
        ["words inner sibling deeper"],
        "{done}"
    );
    assert!(!done.stderr.contains(".ssh"), "{done}");
}

/// A script without a package is shown without what lies beside it, and that is said where it misses something.
#[test]
fn a_program_without_a_package_is_one_file_and_an_error_says_so() {
    let user = User::new();
    user.write(
        "tools/agent",
        "#!/bin/sh\n. \"$(dirname \"$0\")/words.sh\"\n",
        0o755,
    );
    user.write("tools/words.sh", "echo loaded\n", 0o644);
    let done = user.run(&[user.path("tools")]).expect_code(1);
    let hint = format!(
        "hint: of {} the sandbox shows that one file, nothing beside it: if it needs more, put it into the \
         repository, or install it as a package\n",
        user.path("tools/agent").display()
    );
    assert!(done.stderr.contains(&hint), "{done}");
    // The controls: another failure of it, and a program of the system.
    user.write("tools/agent", "#!/bin/sh\nexit 3\n", 0o755);
    let done = user.run(&[user.path("tools")]).expect_code(1);
    assert!(!done.stderr.contains("the sandbox shows"), "{done}");
    let done = user.environment.run(&[], ". /nowhere.sh").expect_code(1);
    assert!(!done.stderr.contains("the sandbox shows"), "{done}");
}

/// `#!/usr/bin/env node` means whichever node the user has.
#[test]
fn the_runtime_is_the_one_that_the_users_path_finds() {
    for (place, entry) in [
        ("node-22/bin/node", "node-22/bin"),
        (
            ".nvm/versions/node/v22/bin/node",
            ".nvm/versions/node/v22/bin",
        ),
        (".asdf/installs/nodejs/22.1.0/bin/node", ".asdf/shims"),
        (
            ".local/share/mise/installs/node/22.1.0/bin/node",
            ".local/share/mise/shims",
        ),
    ] {
        let user = User::new();
        user.write("apps/bin/agent", "#!/usr/bin/env node\n", 0o755);
        user.write(place, "#!/bin/sh\necho loaded by \"$0\"\n", 0o755);
        if entry.ends_with("shims") {
            let older = place.replace("22.1.0", "9.9.9");
            user.write(&older, "#!/bin/sh\necho loaded by an old one\n", 0o755);
            user.write(&format!("{entry}/node"), "#!/bin/sh\nexit 9\n", 0o755);
        }
        let done = user
            .run(&[user.path("apps/bin"), user.path(entry)])
            .expect_code(0);
        let path = user.path(place);
        assert_eq!(
            said(&done, "loaded by"),
            [path.to_str().unwrap()],
            "{place}: {done}"
        );
    }
}

/// A program beside the secrets of a home is one file of it, even where the home calls itself a package.
#[test]
fn a_program_right_in_the_home_brings_nothing_of_the_home() {
    let user = User::new();
    let tells = "#!/usr/bin/env node\nconst fs = require('fs');\n\
                 for (const one of fs.readdirSync(process.argv[2], { recursive: true })) console.log('sees', one);\n";
    // Elsewhere: else the home is not shown for its sake.
    let own = [("COFFERDAM_HOME", user.environment.temporary().join("own"))];
    let run = |entry: PathBuf| {
        let done = user.run_with(&[entry], &own).expect_code(0);
        said(&done, "sees")
    };
    user.write("package.json", r#"{"bin": "agent.js"}"#, 0o644);
    user.write("agent.js", tells, 0o755);
    user.link("apps/bin/agent", "../../agent.js");
    let linked = ["agent.js", "apps", "apps/bin", "apps/bin/agent"];
    assert_eq!(run(user.path("apps/bin")), linked);
    // The home itself in `PATH`.
    std::fs::rename(user.path("agent.js"), user.path("agent")).unwrap();
    assert_eq!(run(user.environment.home()), ["agent"]);
    // A program among settings.
    user.write(".agent/package.json", r#"{"bin": "agent"}"#, 0o644);
    std::fs::rename(user.path("agent"), user.path(".agent/agent")).unwrap();
    assert_eq!(run(user.path(".agent")), [".agent", ".agent/agent"]);
}

/// An agent that worked in the checkout could have put or linked anything there.
#[test]
fn what_lies_in_the_workspace_or_is_linked_through_it_is_not_shown() {
    let user = User::new();
    user.install("apps");
    user.write("private/run.sh", "#!/bin/sh\necho loaded secret\n", 0o755);
    let repository = user.environment.repository();
    let inside = repository.join("node_modules/.bin");
    std::fs::create_dir_all(&inside).unwrap();
    symlink(user.path("private/run.sh"), inside.join("agent")).unwrap();
    let done = user.run(std::slice::from_ref(&inside)).expect_code(1);
    assert!(!done.stderr.contains("loaded"), "{done}");
    let place = inside.join("agent");
    let words = format!(
        "hint: {} is in the repository, where an agent may have put it: if you mean that one, write \
         `./node_modules/.bin/agent`",
        place.display()
    );
    assert!(done.stderr.contains(&words), "{done}");
    // The next one in `PATH` is the user's own.
    let done = user
        .run(&[inside.clone(), user.path("apps/bin")])
        .expect_code(0);
    sees_only(&done, "apps");

    // A link of the user's that goes through there.
    user.link("links/bin/agent", place.to_str().unwrap());
    let done = user.run(&[user.path("links/bin")]).expect_code(1);
    assert!(!done.stderr.contains("loaded"), "{done}");
    let words = format!(
        "hint: this machine has {}",
        user.path("links/bin/agent").display()
    );
    assert!(done.stderr.contains(&words), "{done}");
    // The same link is followed where no agent works. The repository is another one.
    let elsewhere = user.environment.temporary().join("other");
    std::fs::rename(&repository, &elsewhere).unwrap();
    std::fs::create_dir(&repository).unwrap();
    user.environment.git(&["init", "--quiet"]);
    user.environment
        .shell("git -c user.name=a -c user.email=b commit -q --allow-empty -m a");
    std::fs::remove_file(user.path("links/bin/agent")).unwrap();
    let place = elsewhere.join("node_modules/.bin/agent");
    user.link("links/bin/agent", place.to_str().unwrap());
    let done = user.run(&[user.path("links/bin")]).expect_code(0);
    assert_eq!(said(&done, "loaded"), ["secret"], "{done}");
}

/// A dependency that is a link into the workspace, and from there to wherever an agent wanted it.
#[test]
fn dependencies_are_not_followed_through_the_workspace() {
    let user = User::new();
    user.install("apps");
    let private = "node_modules/private";
    user.package(private, "{}");
    let repository = user.environment.repository();
    symlink(user.path(private), repository.join("linked")).unwrap();
    let sibling = user.path("apps/lib/node_modules/sibling");
    std::fs::remove_dir_all(&sibling).unwrap();
    symlink(user.path(private), &sibling).unwrap();
    let done = user.run(&[user.path("apps/bin")]).expect_code(0);
    assert_eq!(
        said(&done, "loaded"),
        ["words inner private deeper"],
        "{done}"
    );
    std::fs::remove_file(&sibling).unwrap();
    symlink(repository.join("linked"), &sibling).unwrap();
    let done = user.run(&[user.path("apps/bin")]).expect_code(1);
    assert!(
        done.stderr.contains("Cannot find module 'sibling'"),
        "{done}"
    );
}

/// An agent writes in every repository that has a sandbox, not only in the one of this run.
#[test]
fn what_lies_in_another_agents_repository_or_is_linked_through_it_is_not_shown() {
    let user = User::new();
    let other = user.path("work/other");
    let script = format!(
        "git init -q {0} && git -C {0} -c user.name=a -c user.email=b commit -q --allow-empty -m a",
        other.display()
    );
    user.environment.shell(&script);
    user.write(
        "work/private/run.sh",
        "#!/bin/sh\necho loaded secret\n",
        0o755,
    );
    user.link("work/other/bin/agent", "../../private/run.sh");
    user.link("links/bin/agent", "../../work/other/bin/agent");
    let entries = [user.path("work/other/bin"), user.path("links/bin")];
    // The control: no agent has worked there.
    for entry in &entries {
        let done = user.run(std::slice::from_ref(entry)).expect_code(0);
        assert_eq!(said(&done, "loaded"), ["secret"], "{done}");
    }
    let script = "git -c user.name=a -c user.email=b commit -q --allow-empty -m work";
    let arguments = [
        "-C",
        other.to_str().unwrap(),
        "run",
        "--network",
        "none",
        "--branch",
        "work",
        "--name",
        "one",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut command = user.environment.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap()).expect_code(0);
    let not_shown = || {
        for entry in &entries {
            let done = user.run(std::slice::from_ref(entry)).expect_code(1);
            assert!(!done.stderr.contains("loaded"), "{done}");
            let words = format!(
                "hint: this machine has {}, which no sandbox shows because it, or a link to it, is in {}, where an \
                 agent may have written",
                entry.join("agent").display(),
                other.display()
            );
            assert!(done.stderr.contains(&words), "{done}");
        }
    };
    not_shown();
    // What it wrote outlives its sandbox.
    let at = |arguments: &[&str]| {
        let here = ["-C", other.to_str().unwrap()];
        let done = user.environment.cofferdam(&[&here[..], arguments].concat());
        done.expect_code(0)
    };
    at(&["delete", "--force", "--purge", "one"]);
    at(&["gc"]);
    assert_eq!(at(&["list", "--all-repos", "--json"]).stdout, "[]\n");
    not_shown();
    // The control: another repository that came to its place later is no agent's.
    let elsewhere = user.path("work/moved");
    std::fs::rename(&other, &elsewhere).unwrap();
    user.environment.cofferdam(&["gc"]).expect_code(0);
    std::fs::rename(&elsewhere, &other).unwrap();
    for entry in &entries {
        let done = user.run(std::slice::from_ref(entry)).expect_code(0);
        assert_eq!(said(&done, "loaded"), ["secret"], "{done}");
    }
}

/// A directory that somebody works in has more in it than what was installed.
#[test]
fn a_package_that_is_a_checkout_is_not_shown() {
    for mark in [".git", ".cofferdam"] {
        let user = User::new();
        user.install("apps");
        let bin = user.path("apps/bin");
        let own = "apps/lib/node_modules/@own/agent";
        let deeper = "apps/lib/node_modules/deeper";
        user.write(&format!("{deeper}/{mark}/config"), "secret\n", 0o600);
        let done = user.run(std::slice::from_ref(&bin)).expect_code(1);
        let words = "Cannot find module 'deeper'";
        assert!(done.stderr.contains(words), "{done}");
        std::fs::remove_dir_all(user.path(&format!("{deeper}/{mark}"))).unwrap();
        let done = user.run(std::slice::from_ref(&bin)).expect_code(0);
        sees_only(&done, "apps");

        user.write(&format!("{own}/{mark}/config"), "secret\n", 0o600);
        let done = user.run(std::slice::from_ref(&bin)).expect_code(1);
        let words = format!(
            "its package {} has a {mark} of its own, so it is a checkout and not installed: install a copy of it, \
             with `npm install --global --install-links .` in that directory",
            user.path(own).display()
        );
        assert!(done.stderr.contains(&words), "{done}");
    }
}

/// What a link in `node_modules` leads to is a dependency only where packages are installed.
#[test]
fn a_dependency_that_is_linked_from_anywhere_is_not_shown() {
    let user = User::new();
    user.install("apps");
    user.package("work/private", "{}");
    let sibling = user.path("apps/lib/node_modules/sibling");
    std::fs::remove_dir_all(&sibling).unwrap();
    symlink(user.path("work/private"), &sibling).unwrap();
    let done = user.run(&[user.path("apps/bin")]).expect_code(1);
    let words = "Cannot find module 'sibling'";
    assert!(done.stderr.contains(words), "{done}");
    // The control: a store of packages.
    std::fs::remove_file(&sibling).unwrap();
    user.package("store/node_modules/private", "{}");
    symlink(user.path("store/node_modules/private"), &sibling).unwrap();
    let done = user.run(&[user.path("apps/bin")]).expect_code(0);
    let loaded = ["words inner private deeper"];
    assert_eq!(said(&done, "loaded"), loaded, "{done}");
}

#[test]
fn a_package_around_cofferdams_own_directory_is_not_shown_whole() {
    let user = User::new();
    user.install("apps");
    let own = user.path("apps/lib/node_modules/@own/agent/state");
    let done = user
        .run_with(&[user.path("apps/bin")], &[("COFFERDAM_HOME", own.clone())])
        .expect_code(1);
    assert!(
        done.stderr.contains("Cannot find module './lib/words.js'"),
        "{done}"
    );
    // A tool directory of the list is not either.
    let own = user.path(".local/bin/own");
    user.write(
        ".local/bin/agent",
        "#!/bin/sh\nls -d \"$1\"/.local/bin/*\n",
        0o755,
    );
    user.write(".local/bin/other", "", 0o755);
    let bin = user.path(".local/bin");
    let done = user
        .run_with(std::slice::from_ref(&bin), &[("COFFERDAM_HOME", own)])
        .expect_code(0);
    let text = bin.to_str().unwrap();
    assert_eq!(said(&done, text), ["/agent"], "{done}");
    let done = user.run(std::slice::from_ref(&bin)).expect_code(0);
    assert_eq!(said(&done, text), ["/agent", "/other", "/own"], "{done}");
}

#[test]
fn what_is_no_program_is_none() {
    let user = User::new();
    user.link("apps/bin/agent", "../../.ssh/id");
    let done = user.run(&[user.path("apps/bin")]).expect_code(1);
    assert!(
        done.stderr
            .contains("hint: install `agent`: nothing in your PATH has that name"),
        "{done}"
    );
    // With its mode it would be one.
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(user.path(".ssh/id"), mode).unwrap();
    let done = user.run(&[user.path("apps/bin")]).expect_code(1);
    assert!(!done.stderr.contains("nothing in your PATH"), "{done}");
}
