//! What the commit before this one has made is listed, collected, started and deleted by this one. `scripts/test --all` builds it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam_lab::skip;

use crate::containers::{SURROUNDINGS, worlds};
use crate::environment::{Done, TestEnvironment, commit_script, finish};

/// Both commands in one environment.
struct Both<'a> {
    environment: &'a TestEnvironment,
    previous: &'a Path,
    options: Vec<&'a str>,
}

impl Both<'_> {
    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines are where this machine's user has them"
    )]
    fn finish(mut command: Command, words: &[&str]) -> Done {
        for name in SURROUNDINGS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    #[track_caller]
    fn before(&self, words: &[&str]) -> Done {
        let program = self.environment.program(self.previous.to_str().unwrap());
        Self::finish(program, words).expect_code(0)
    }

    #[track_caller]
    fn this(&self, words: &[&str]) -> Done {
        Self::finish(self.environment.command(&[]), words)
    }

    fn list(&self) -> String {
        self.this(&["list"]).expect_code(0).stdout
    }

    /// One that runs, one that is stopped and one whose run kept uncommitted work.
    #[track_caller]
    fn check(&self) {
        let run = |name: &str, script: &str| {
            self.before(&[&["exec", name, "--"], &["sh", "-c", script][..]].concat());
        };
        for name in ["runs", "stopped"] {
            self.before(&[&["create", name][..], &self.options].concat());
            run(name, &commit_script(&[name]));
        }
        self.before(&["stop", "stopped"]);
        let left = ["run", "-q", "--name", "left"];
        let agent = ["--agent", "command", "--", "sh", "-c", "echo left > left"];
        self.before(&[&left[..], &self.options, &agent].concat());

        let list = self.list();
        for line in [("runs", "active"), ("stopped", "stopped"), ("left", "")] {
            let found = list
                .lines()
                .find(|text| text.split_whitespace().next() == Some(line.0));
            assert!(found.is_some_and(|text| text.contains(line.1)), "{list}");
        }
        // A guest or a supervisor of another version is named, with the way out.
        let used = self.this(&["exec", "runs", "--", "true"]);
        if used.status.code() != Some(0) {
            assert!(used.stderr.contains("cofferdam stop runs"), "{used}");
            self.this(&["stop", "runs"]).expect_code(0);
            self.this(&["start", "runs"]).expect_code(0);
            self.this(&["exec", "runs", "--", "true"]).expect_code(0);
        }
        for name in ["runs", "stopped"] {
            self.this(&["collect", name]).expect_code(0);
            let file = format!("cofferdam/{name}:{name}.txt");
            self.environment.git(&["show", &file]);
        }
        let shown = self.this(&["diff", "--uncommitted", "left", "--name-status"]);
        if self.options.contains(&"bind") {
            // It is in a worktree, where its user's own git shows it.
            assert!(shown.stderr.contains("`git -C "), "{shown}");
        } else {
            assert_eq!(shown.expect_code(0).stdout, "A\tleft\n");
        }
        self.this(&["start", "stopped"]).expect_code(0);
        let words = ["exec", "stopped", "--", "cat", "stopped.txt"];
        assert_eq!(self.this(&words).expect_code(0).stdout, "stopped\n");
        for name in ["runs", "stopped", "left"] {
            self.this(&["delete", "--force", name]).expect_code(0);
        }
        let list = self.list();
        for name in ["runs", "stopped", "left"] {
            assert!(!list.contains(name), "{list}");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "scripts/test says where it has built it"
)]
fn previous() -> Option<OsString> {
    std::env::var_os("COFFERDAM_TEST_PREVIOUS")
}

// covers: S1-127
#[test]
fn what_it_made_is_looked_after() {
    let Some(previous) = previous() else {
        skip!("the commit before this one: only with `scripts/test --all`");
        return;
    };
    let previous = Path::new(&previous);
    for mode in ["layer", "copy", "bind"] {
        let environment = TestEnvironment::with_repository();
        let options = vec!["--mode", mode];
        Both {
            environment: &environment,
            previous,
            options,
        }
        .check();
        environment.expect_clean();
    }
    for world in worlds() {
        let options = vec!["--sandbox", world.engine, "--image", "git:latest"];
        Both {
            environment: &world.environment,
            previous,
            options,
        }
        .check();
        world.environment.expect_clean();
    }
}
