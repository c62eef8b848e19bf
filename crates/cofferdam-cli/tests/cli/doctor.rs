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

/// Where they would lie, and nothing stays of it.
#[test]
fn layers_are_tried() {
    let environment = TestEnvironment::empty();
    let home = environment.home().join(".cofferdam");
    cofferdam::fsx::private_dir(&home).unwrap();
    assert_eq!(status(&findings(&environment), "layers"), "ok");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
    // Who asks first of all hears it too, and has as much as before.
    std::fs::remove_dir(&home).unwrap();
    assert_eq!(status(&findings(&environment), "layers"), "ok");
    assert_eq!(std::fs::read_dir(environment.home()).unwrap().count(), 0);
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

/// Its version is asked in a sandbox: the program is not run as the user, and leaves nothing.
#[test]
fn agents_are_listed_with_place_version_and_key() {
    let environment = TestEnvironment::empty();
    let mark = environment.home().join("mark");
    let text = format!(
        "#!/bin/sh\ntouch {} ~/mark /tmp/cofferdam-mark; echo \"9.8 $1 $ANTHROPIC_API_KEY\"; printf '\\033[2J'\n",
        mark.display()
    );
    environment.has_program("claude", &text);
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
    let untried =
        "there is no `cursor-agent` in your PATH; how it is started and read here was not tried";
    assert!(done.stdout.contains(untried), "{done}");
    assert_eq!(done.stdout.matches("not tried").count(), 1, "{done}");
    // One that does not start, and one without a key.
    environment.has_program(
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
    environment.has_program("codex", "#!/bin/sh\necho 1.0\n");
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
    environment.has_program("codex", "#!/bin/sh\necho 1.0\n");
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

/// The first thing that a newcomer does: a key in the file, a command of ours, everything into git. Before the
/// first run, and before the first commit.
#[test]
fn keys_are_ignored_from_the_first_command_on() {
    let added = |begin: &dyn Fn() -> TestEnvironment, command: &[&str]| {
        let environment = begin();
        environment.write(".cofferdam/.env", "ANTHROPIC_API_KEY=x\n");
        if !command.is_empty() {
            environment.cofferdam(command);
        }
        environment.git(&["add", "--all"]);
        environment.git(&["ls-files", "--", ".cofferdam"])
    };
    let unborn = || {
        let environment = TestEnvironment::empty();
        environment.git(&["init", "--quiet"]);
        environment
    };
    // The control: without a command of ours git takes it.
    let born = TestEnvironment::with_repository;
    assert_eq!(added(&born, &[]), ".cofferdam/.env");
    assert_eq!(added(&unborn, &[]), ".cofferdam/.env");
    for command in [
        &["doctor"][..],
        &["list"],
        &["allow", "a.test"],
        &["net", "rules"],
        // It does not start: there is neither a key nor a program.
        &["run", "--agent", "codex", "--prompt", "hi"],
    ] {
        assert_eq!(added(&born, command), "", "{command:?}");
    }
    assert_eq!(added(&unborn, &["doctor"]), "");
    assert_eq!(added(&unborn, &["run", "--", "true"]), "");
    // The directory alone is enough: the file may come later.
    let environment = born();
    std::fs::create_dir(environment.repository().join(".cofferdam")).unwrap();
    environment.cofferdam(&["doctor"]).expect_code(0);
    environment.write(".cofferdam/.env", "A=x\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    // Nothing is made where there is none.
    let environment = born();
    environment.cofferdam(&["doctor"]).expect_code(0);
    assert!(!environment.repository().join(".cofferdam").exists());
}

/// A key in a file that git tracks is not used: that is said where it is missed, with the way out as it is printed.
#[test]
fn a_key_that_git_has_is_told_with_the_way_out() {
    let environment = TestEnvironment::with_repository();
    environment.has_program("codex", "#!/bin/sh\necho 1.0\n");
    let run = ["run", "--agent", "codex", "--prompt", "hi"];
    environment.write(".cofferdam/.env", "OPENAI_API_KEY=x\n");
    environment.git(&["add", "--all"]);
    // Staged, and changed since: git wants force then.
    environment.write(".cofferdam/.env", "OPENAI_API_KEY=y\n");
    let why =
        "`.cofferdam/.env` sets OPENAI_API_KEY, and no key is taken from it, because git tracks it";
    let top = environment.repository().canonicalize().unwrap();
    let way = format!("git -C {} rm --cached -f .cofferdam/.env", top.display());
    let done = with_path(&environment, &run).expect_code(1);
    let error = format!("error: codex has no key: {why}");
    assert!(done.stderr.contains(&error), "{done}");
    assert!(done.stderr.contains(&format!("with `{way}`")), "{done}");
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    let line = "degraded  .cofferdam/.env";
    let mut lines = done.stdout.lines();
    let found = lines.find(|one| one.starts_with(line)).unwrap();
    let want = "git tracks it, so no run takes these from it: OPENAI_API_KEY";
    assert!(found.ends_with(want), "{done}");
    assert!(done.stdout.contains(&format!("with `{way}`")), "{done}");
    assert!(done.stdout.contains(&format!("hint: {why}")), "{done}");
    environment.shell(&format!("cd / && {way}")).expect_code(0);
    assert_eq!(environment.read(".cofferdam/.env"), "OPENAI_API_KEY=y\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    assert!(!done.stdout.contains(".cofferdam/.env"), "{done}");
    assert!(
        done.stdout.contains("visible inside, OPENAI_API_KEY"),
        "{done}"
    );
    // Rules of the user's own that forget it.
    environment.write(".cofferdam/.gitignore", "/logs/\n");
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    let (_, hint) = done.stdout.split_once("has git ignore it").unwrap();
    let hint = hint.split_once("hint: ").unwrap().1;
    environment
        .shell(hint.lines().next().unwrap())
        .expect_code(0);
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    assert!(!done.stdout.contains(".cofferdam/.env"), "{done}");
    // Behind a link it may be anybody's.
    environment.write("kept/env", "OPENAI_API_KEY=x\n");
    environment.shell("rm .cofferdam/.env && ln -s ../kept/env .cofferdam/.env");
    let done = with_path(&environment, &run).expect_code(1);
    let link = "because it is behind a symlink or in a submodule";
    assert!(done.stderr.contains(link), "{done}");
    assert!(done.stderr.contains("hint: put a plain file"), "{done}");
    let done = with_path(&environment, &["doctor"]).expect_code(0);
    assert!(done.stdout.contains("hint: put a plain file"), "{done}");
}

/// The line of an engine that plays this, and whether it is ok.
fn of_docker(played: crate::fake_engine::Played) -> (String, String, String) {
    let environment = TestEnvironment::empty();
    let engine = crate::fake_engine::FakeEngine::new(played);
    let done = engine.cofferdam(&environment, "docker", &["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    let found = findings.iter().find(|one| one["name"] == "docker").unwrap();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("status"), text("detail"), text("hint"))
}

#[test]
fn what_an_engine_lacks_is_named_with_what_helps() {
    let docker = || crate::fake_engine::docker("Docker/28.0.0 (linux)", (24, 48));
    let (status, detail, hint) = of_docker(docker());
    assert_eq!((status.as_str(), hint.as_str()), ("ok", ""), "{detail}");
    // Who plays it is whose it is.
    let whose = if rustix::process::geteuid().is_root() {
        ""
    } else {
        ", rootless"
    };
    let about = format!(", named by DOCKER_HOST, API 1.48{whose}; layers work");
    assert!(
        detail.starts_with("28.0.0 at /") && detail.contains(&about),
        "{detail}"
    );
    let weak = |from: &str, to: &str| {
        let mut played = docker();
        assert!(played.info.contains(from), "{}", played.info);
        played.info = played.info.replace(from, to);
        of_docker(played)
    };
    let (status, detail, _) = weak("name=apparmor", "name=x");
    assert_eq!(status, "ok");
    assert!(
        detail.ends_with("; neither AppArmor nor SELinux beside it"),
        "{detail}"
    );
    for (from, to, what, help) in [
        (
            r#""MemoryLimit":true"#,
            r#""MemoryLimit":false"#,
            "without limits of memory",
            "",
        ),
        (
            r#""SwapLimit":true"#,
            r#""SwapLimit":false"#,
            "without limits of swap",
            "",
        ),
        (
            r#""CpuCfsQuota":true"#,
            r#""CpuCfsQuota":false"#,
            "without limits of CPUs",
            "",
        ),
        (
            "v1.3.3-0-g",
            "v1.1.7-0-g",
            "runc 1.1.7 has ways out of a container",
            "install runc",
        ),
    ] {
        let (status, detail, hint) = weak(from, to);
        assert_eq!(status, "degraded", "{detail}");
        assert!(detail.contains(what), "{detail}");
        assert!(!hint.is_empty() && hint.contains(help), "{hint}");
    }
    let (status, detail, hint) = weak("name=seccomp", "name=x");
    assert_eq!(status, "absent");
    assert!(
        detail.contains("no filter of system calls") && hint.contains("seccomp"),
        "{detail}: {hint}"
    );
    // Where the engine is the caller's own, ours is in its place, and the guest counts processes.
    let (filter, processes) = if rustix::process::geteuid().is_root() {
        ("absent", "degraded")
    } else {
        ("ok", "ok")
    };
    assert_eq!(weak("profile=builtin", "profile=unconfined").0, filter);
    assert_eq!(
        weak(r#""PidsLimit":true"#, r#""PidsLimit":false"#).0,
        processes
    );
    let (status, detail, hint) = weak(r#""KernelVersion":""#, r#""KernelVersion":"0."#);
    assert_eq!(status, "absent");
    assert!(
        detail.contains("run on another machine") && !hint.is_empty(),
        "{detail}"
    );
}
