//! Cofferdam's own directory has a path that is longer than the address of a socket may be: 108 bytes, unix(7).

use std::path::PathBuf;
use std::process::Stdio;

use crate::environment::{Done, TestEnvironment, finish};

struct Far {
    environment: TestEnvironment,
    home: PathBuf,
}

impl Far {
    #[track_caller]
    fn cofferdam(&self, words: &[&str]) -> Done {
        let mut command = self.environment.command(words);
        command.env("COFFERDAM_HOME", &self.home);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).expect_code(0)
    }
}

#[test]
fn a_sandbox_lives_in_a_home_with_a_long_path() {
    let environment = TestEnvironment::with_repository();
    let far = ["far-away"; 20].join("/");
    let home = environment.home().join(far).join("cofferdam");
    assert!(home.as_os_str().len() > 180);
    let far = Far { environment, home };
    for options in [
        &["--network", "none"][..],
        &["--network", "allowlist"],
        &["--head"],
    ] {
        far.cofferdam(&[&["create", "box"], options].concat());
        let commit = "echo x >> made; git add made; git commit -qm made";
        far.cofferdam(&["exec", "box", "--", "sh", "-c", commit]);
        for command in ["pause", "resume", "stop", "start", "collect", "status"] {
            far.cofferdam(&[command, "box"]);
        }
        far.cofferdam(&["run", "--in", "box", "--", "true"]);
        let list = far.cofferdam(&["list", "--json"]);
        assert!(list.stdout.contains("\"active\""), "{options:?}: {list}");
        far.cofferdam(&["delete", "box"]);
    }
    let list = far.cofferdam(&["list", "--json"]);
    assert_eq!(list.stdout, "[]\n");
}
