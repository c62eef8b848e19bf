use std::os::unix::fs::PermissionsExt;

use crate::environment::TestEnvironment;

fn findings(environment: &TestEnvironment) -> Vec<serde_json::Value> {
    let done = environment.cofferdam(&["doctor", "--json"]);
    serde_json::from_str(&done.stdout).unwrap()
}

fn status(findings: &[serde_json::Value], name: &str) -> String {
    let found = findings
        .iter()
        .find(|finding| finding["name"] == name)
        .unwrap();
    found["status"].as_str().unwrap().to_owned()
}

#[test]
fn this_machine_can_do_the_main_job() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["doctor"]).expect_code(0);
    assert!(
        done.stdout
            .lines()
            .any(|line| line.starts_with("ok        git")),
        "{done}"
    );
    assert!(!done.stdout.contains("missing"), "{done}");
    assert!(done.stdout.lines().count() > 3, "{done}");
    // Looking makes nothing.
    assert!(!environment.home().join(".cofferdam").exists());
}

/// The wall was really raised, and no gateway was started for that.
#[test]
fn the_wall_is_tried() {
    let environment = TestEnvironment::empty();
    let findings = findings(&environment);
    assert_eq!(status(&findings, "network wall"), "ok");
    assert_eq!(status(&findings, "gateway"), "ok");
    status(&findings, "`--network open`");
    assert!(!environment.home().join(".cofferdam").exists());
}

#[test]
fn an_old_git_is_missing() {
    let environment = TestEnvironment::empty();
    let bin = environment.temporary().join("bin");
    cofferdam::fsx::private_dir(&bin).unwrap();
    let fake = b"#!/bin/sh\necho git version 2.38.1\n";
    cofferdam::fsx::write_with_mode(&bin.join("git"), fake, 0o755).unwrap();
    let done = crate::environment::finish(
        environment
            .command(&["doctor"])
            .env("PATH", &bin)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    )
    .expect_code(1);
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains(" git "))
        .unwrap();
    assert!(
        line.starts_with("missing") && line.contains("2.38.1"),
        "{done}"
    );
    assert!(done.stdout.contains("hint: install git 2.39"), "{done}");
}

#[test]
fn a_home_that_others_can_read_is_degraded() {
    let environment = TestEnvironment::empty();
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "ok");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "degraded");
    std::fs::remove_dir(&home).unwrap();
    std::fs::File::create(&home).unwrap();
    assert_eq!(status(&findings(&environment), "own files"), "missing");
}

/// A user whose `PATH` begins with a directory of their home.
fn with_path(environment: &TestEnvironment, arguments: &[&str]) -> crate::environment::Done {
    let mut command = environment.command(arguments);
    let bin = environment.home().join("tools/bin");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.env("ANTHROPIC_API_KEY", "the-users");
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    crate::environment::finish(command.spawn().unwrap())
}

fn program(environment: &TestEnvironment, name: &str, text: &str) {
    let bin = environment.home().join("tools/bin");
    std::fs::create_dir_all(&bin).unwrap();
    cofferdam::fsx::write_with_mode(&bin.join(name), text.as_bytes(), 0o755).unwrap();
}

/// Its version is asked in a sandbox: the program is not run as the user, and leaves nothing.
#[test]
fn agents_are_listed_with_place_version_and_key() {
    let environment = TestEnvironment::empty();
    let mark = environment.home().join("mark");
    let text = format!(
        "#!/bin/sh\ntouch {} ~/mark /tmp/cofferdam-mark; echo \"9.8 $1 $ANTHROPIC_API_KEY\"; printf '\\033[2J'\n",
        mark.display()
    );
    program(&environment, "claude", &text);
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    let place = environment.home().join("tools/bin/claude");
    let line = format!(
        "ok        agent claude-code  9.8 --version ({}), visible inside, ANTHROPIC_API_KEY",
        place.display()
    );
    assert!(done.stdout.lines().any(|one| one == line), "{line}\n{done}");
    assert!(!mark.exists() && !std::path::Path::new("/tmp/cofferdam-mark").exists());
    let absent = "absent    agent codex        there is no `codex` in your PATH";
    assert!(done.stdout.contains(absent), "{done}");
    assert!(
        done.stdout
            .contains("hint: npm install --global --prefix ~/.local @openai/codex"),
        "{done}"
    );
    // One that does not start, and one without a key.
    program(
        &environment,
        "codex",
        "#!/bin/sh\necho first >&2; echo no such thing >&2; exit 3\n",
    );
    let done = with_path(&environment, &["doctor", "--json"]).expect_code(0);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    let of = |name: &str| {
        let mut all = findings.iter();
        all.find(|one| one["name"] == name).unwrap().clone()
    };
    let claude = of("agent claude-code");
    let want = serde_json::json!({"path": place.to_str().unwrap(), "visible": true,
                                  "version": "9.8 --version", "access": "ANTHROPIC_API_KEY"});
    assert_eq!(claude["agent"], want);
    let codex = of("agent codex");
    assert_eq!(codex["status"], "degraded");
    assert_eq!(codex["agent"]["visible"], false);
    assert!(
        codex["detail"]
            .as_str()
            .unwrap()
            .ends_with("exit code 3, no such thing"),
        "{codex}"
    );
    program(&environment, "codex", "#!/bin/sh\necho 1.0\n");
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains("agent codex"))
        .unwrap();
    assert!(
        line.starts_with("degraded") && line.ends_with("no key, no login"),
        "{done}"
    );
    let hint = "hint: set OPENAI_API_KEY or CODEX_API_KEY in your environment or in `.cofferdam/.env`, or give it with \
                `--env OPENAI_API_KEY=VALUE`, or log in with `codex`, then give";
    assert!(done.stdout.contains(hint), "{done}");
}

/// Nothing of it is in force, and nothing else steps in.
#[test]
fn a_config_that_cannot_be_used_is_not_ok() {
    let environment = TestEnvironment::empty();
    assert_eq!(status(&findings(&environment), "config"), "ok");
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    let write = |text: &str| {
        cofferdam::fsx::write_private(&home.join("config.yaml"), text.as_bytes()).unwrap();
    };
    write("firewall:\n  allow:\n    - domain: a.test\n");
    let done = environment.cofferdam(&["doctor"]).expect_code(0);
    assert!(done.stdout.contains("config.yaml, 1 rule\n"), "{done}");
    write("firewall:\n  alow: []\n");
    let done = environment.cofferdam(&["doctor"]).expect_code(1);
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains(" config "))
        .unwrap();
    assert!(
        line.starts_with("malformed config") && line.contains("config.yaml:2:3: firewall.alow"),
        "{done}"
    );
    assert!(
        done.stdout
            .contains("hint: mend it: until then none of its rules is in force"),
        "{done}"
    );
    assert_eq!(status(&self::findings(&environment), "config"), "malformed");
}

/// As a run takes it: the user's own file counts, one that came with the repository does not give keys.
#[test]
fn a_key_in_the_env_file_is_seen() {
    let environment = TestEnvironment::with_repository();
    program(&environment, "codex", "#!/bin/sh\necho 1.0\n");
    let access = || {
        let done = with_path(&environment, &["doctor", "--json"]);
        let findings: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
        let mut all = findings.into_iter();
        all.find(|one| one["name"] == "agent codex").unwrap()["agent"]["access"].clone()
    };
    assert!(access().is_null());
    environment.write(".cofferdam/.env", "OPENAI_API_KEY=the-files\n");
    assert_eq!(access(), "OPENAI_API_KEY");
    environment.git(&["add", "--force", ".cofferdam/.env"]);
    assert!(access().is_null());
    environment.git(&["rm", "--quiet", "--cached", ".cofferdam/.env"]);
    environment.write(".cofferdam/.env", "# keys\nOPENAI_API_KEY the-files\n");
    let done = with_path(&environment, &["doctor"]).expect_code(1);
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains(" .cofferdam/.env "))
        .unwrap();
    assert!(
        line.starts_with("malformed") && line.ends_with(".env:2: there is no `=`"),
        "{done}"
    );
}
