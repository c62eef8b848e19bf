//! What dev sandboxes say of what is not as their user thinks: the object, and the command that helps, which is typed as it is printed.

use std::process::Stdio;

use crate::containers::{IMAGE, making, worlds};
use crate::dev_ports::free;
use crate::environment::{Done, TestEnvironment, finish};
use crate::images::dockerfile;
use crate::lives::{Lives, OnTerminal};

/// Whoever has one forgotten is told what that means, where they do it and where they would miss it.
#[test]
fn a_login_that_is_not_kept_is_told() {
    let lives = Lives::new();
    let give = "`cofferdam codex-init-config --auth`";
    let logout = lives.cofferdam(&["codex-logout"]).expect_code(0);
    let not_kept = "is not kept until you give one with";
    assert!(logout.stderr.contains(not_kept), "{logout}");
    assert!(logout.stderr.contains(give), "{logout}");
    lives
        .cofferdam(&["start", "--network", "none"])
        .expect_code(0);
    let told = "note: the login of codex in dev is not kept";
    // The control: there is none.
    let left = lives.exec("dev", "true").expect_code(0);
    assert!(!left.stderr.contains(told), "{left}");
    let login =
        "mkdir -p ~/.codex && printf '{\"OPENAI_API_KEY\":\"inside\"}' > ~/.codex/auth.json";
    let left = lives.exec("dev", login).expect_code(0);
    assert!(left.stderr.contains(told), "{left}");
    assert!(left.stderr.contains(give), "{left}");
    lives.puts(".codex/auth.json", "{\"OPENAI_API_KEY\":\"own\"}");
    lives
        .cofferdam(&["codex-init-config", "--auth"])
        .expect_code(0);
    let left = lives.exec("dev", "true").expect_code(0);
    assert!(!left.stderr.contains(told), "{left}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// Approves what the repository's file asks for.
#[track_caller]
fn approve(lives: &Lives) -> Done {
    let asked = lives.cofferdam(&["approve"]).expect_code(1);
    let (_, digest) = asked.stderr.split_once("--trust ").unwrap();
    let digest = digest.split('`').next().unwrap();
    lives
        .cofferdam(&["approve", "--trust", digest])
        .expect_code(0)
}

/// What counts later is not said to be in force, and what it takes is said.
#[test]
fn approved_lines_say_from_when_on_they_count() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let port = free();
    let text = format!("ports: [{port}]\nimage: a.test/x\nenv: {{OWN: x}}\n");
    lives.write(".cofferdam/config.yaml", &text);
    let approved = approve(&lives);
    for line in [
        "approved: 3 lines\n",
        "ports: in dev sandboxes from their next start on: `cofferdam restart dev`\n",
        "image: in sandboxes that are made from now on\n",
        "env: for programs that are started from now on;",
    ] {
        assert!(approved.stderr.contains(line), "{line}: {approved}");
    }
    assert!(!approved.stderr.contains("in force"), "{approved}");
    let seen = lives.exec("dev", "echo $OWN").expect_code(0);
    assert_eq!(seen.stdout, "x\n");
    let restarted = lives.cofferdam(&["restart", "dev"]).expect_code(0);
    let leads = format!("127.0.0.1:{port} is port {port} inside\n");
    assert!(restarted.stderr.contains(&leads), "{restarted}");
    // The control: what is open is in force at once.
    let text = format!("{text}firewall: {{allow: [{{domain: a.test}}]}}\n");
    lives.write(".cofferdam/config.yaml", &text);
    let approved = approve(&lives);
    let last = approved.stderr.lines().last();
    assert_eq!(last, Some("in force in sandbox dev"), "{approved}");
    assert!(!approved.stderr.contains("ports: "), "{approved}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// Whoever changes what their image is built from is told by the next start that it is not in it yet.
#[test]
fn a_recipe_that_has_changed_is_told() {
    for world in worlds() {
        let made = |text: &str| {
            let text = format!("FROM {IMAGE}\nRUN echo {text} > /made\n");
            dockerfile(&world.environment, &text);
        };
        made("one");
        world.build_trusted().expect_code(0);
        let told = "has changed since ";
        let sandbox = ["--sandbox", world.engine, "--network", "none"];
        let start = [&["start"], &sandbox[..]].concat();
        let first = world.cofferdam(&start).expect_code(0);
        assert!(!first.stderr.contains(told), "{first}");
        made("two");
        let image = world.image();
        let restarted = world.cofferdam(&["restart"]).expect_code(0);
        let build = format!("{told}{image} was built: cofferdam restart --build\n");
        assert!(restarted.stderr.contains(&build), "{restarted}");
        let create = [&["create", "one"], &sandbox[..]].concat();
        let created = world.cofferdam(&create).expect_code(0);
        let engine = world.engine;
        let build = format!("{told}{image} was built: cofferdam build --sandbox {engine}\n");
        assert!(created.stderr.contains(&build), "{created}");
        world
            .cofferdam(&["delete", "--force", "one", "dev"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}

/// The commands of a hint, without their first word.
#[track_caller]
fn typed(hinted: &Done) -> Vec<Vec<&str>> {
    let (_, commands) = hinted.stderr.trim_end().rsplit_once("then: ").unwrap();
    let commands = commands.split(" && ");
    commands
        .map(|words| words.split(' ').skip(1).collect())
        .collect()
}

/// Who wants a sandbox made anew and has to read first what it is built from comes by the commands that are printed to where they wanted.
#[test]
fn a_recipe_that_is_read_first_ends_in_the_sandbox() {
    for world in worlds() {
        let recipe = |text: &str| {
            let text = format!("FROM {IMAGE}\nRUN echo {text} > /made\n");
            dockerfile(&world.environment, &text);
        };
        recipe("one");
        let start = ["start", "--build", "--sandbox", world.engine];
        let start = [&start[..], &["--network", "none"]].concat();
        let unread = world.cofferdam(&start).expect_code(1);
        let commands = typed(&unread);
        assert_eq!(commands.len(), 2, "{unread}");
        assert_eq!(commands[1], start, "{unread}");
        world.cofferdam(&commands[0]).expect_code(0);
        let made = world.cofferdam(&commands[1]).expect_code(0);
        assert!(!made.stderr.contains("next: "), "{made}");
        recipe("two");
        let unread = world.cofferdam(&["restart", "--build"]).expect_code(1);
        let commands = typed(&unread);
        assert_eq!(commands[1], ["restart", "--build"], "{unread}");
        let built = world.cofferdam(&commands[0]).expect_code(0);
        let next = "next: cofferdam restart --build (makes dev anew from it;";
        assert!(built.stderr.contains(next), "{built}");
        let restarted = world.cofferdam(&commands[1]).expect_code(0);
        assert!(!restarted.stderr.contains("next: "), "{restarted}");
        let seen = world.exec_in("dev", "cat /made").expect_code(0);
        assert_eq!(seen.stdout, "two\n");
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}

/// Where there is one already, another one is made in its place.
#[test]
fn a_native_one_is_told_how_it_comes_into_a_container() {
    let lives = Lives::new();
    let start = "cofferdam start --build --sandbox docker";
    let none = lives.cofferdam(&["restart", "--build"]).expect_code(2);
    let hint = format!("or have one in a container: `{start}`\n");
    assert!(none.stderr.contains(&hint), "{none}");
    lives
        .cofferdam(&["start", "--branch", "two", "--network", "none"])
        .expect_code(0);
    let build = ["restart", "--branch", "two", "--build"];
    let native = lives.cofferdam(&build).expect_code(2);
    let hint = format!("`cofferdam delete dev-two && {start} --branch two`\n");
    assert!(native.stderr.contains(&hint), "{native}");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// Of two that are to have a port the second one is told which has it, and gets another one by the commands that are printed.
#[test]
fn a_port_that_is_taken_is_told_with_who_has_it() {
    let lives = Lives::new();
    let port = free();
    lives.configure(&format!("ports: [\"{port}:8000\"]\n"));
    let first = lives.cofferdam(&["start"]).expect_code(0);
    let leads = format!("127.0.0.1:{port} is port 8000 inside\n");
    assert!(first.stderr.contains(&leads), "{first}");
    let made = lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let why = format!("127.0.0.1:{port} does not lead into dev-two: sandbox `dev` has that port\n");
    assert!(made.stderr.contains(&why), "{made}");
    let status = lives.cofferdam(&["status", "dev-two"]).expect_code(0);
    let why = format!("127.0.0.1:{port} does not lead into it: another program has that port\n");
    assert!(status.stdout.contains(&why), "{status}");

    let (_, next) = made.stderr.split_once("next: ").unwrap();
    let (commands, _) = next.split_once("   # ").unwrap();
    for command in commands.split(" && ") {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        lives.cofferdam(&words).expect_code(0);
    }
    let ports = lives.status("dev-two", "ports");
    assert_ne!(ports[0]["host"], port, "{ports}");
    assert!(ports[0]["problem"].is_null(), "{ports}");
    // What does not run has nobody come in.
    lives.cofferdam(&["stop", "dev-two"]).expect_code(0);
    let status = lives.cofferdam(&["status", "dev-two"]).expect_code(0);
    let later = " leads to port 8000 inside when it is started\n";
    assert!(status.stdout.contains(later), "{status}");
    assert!(!status.stdout.contains(" is port 8000"), "{status}");
    lives
        .cofferdam(&["delete", "--force", "dev", "dev-two"])
        .expect_code(0);
}

/// It is made anew with all that it was made with: nobody is told to make another one beside it.
#[test]
fn a_program_that_the_image_lacks_comes_by_the_recipe() {
    for world in worlds() {
        let engine = world.engine;
        let start = making("start", engine, &["--branch", "two", "--network", "none"]);
        world.cofferdam(&start).expect_code(0);
        let exec = ["exec", "dev-two", "--", "no-such-program"];
        let missing = world.cofferdam(&exec).expect_code(127);
        let anew = format!("start --sandbox {engine} --image IMAGE --branch two`");
        for part in [
            ".cofferdam/Dockerfile, which `cofferdam init .` writes, then `cofferdam restart --build --branch two`;",
            &format!("`cofferdam delete dev-two && cofferdam {anew}"),
        ] {
            assert!(missing.stderr.contains(part), "{part}: {missing}");
        }
        dockerfile(&world.environment, "FROM x\n");
        let claude = world.command(&["claude", "--branch", "two"]);
        let mut claude = OnTerminal::start(&claude, (40, 200));
        claude.expect("does not have `claude`");
        claude.expect(
            ": add it to .cofferdam/Dockerfile, then `cofferdam restart --build --branch two`;",
        );
        claude.ends_with(127);
        world
            .cofferdam(&["delete", "--force", "dev-two"])
            .expect_code(0);
        world.environment.expect_clean();
    }
}

/// Who calls a dev sandbox by its branch, or as it will be called, is told how it is meant where there is none yet.
#[test]
fn a_branch_that_is_taken_for_a_sandbox_is_told() {
    let lives = Lives::new();
    lives.git(&["branch", "feature/one"]);
    lives.git(&["branch", "two"]);
    for (name, meant) in [
        ("two", "cofferdam start --branch two"),
        ("dev-two", "cofferdam start --branch two"),
        ("dev-feature-one", "cofferdam start --branch feature/one"),
        ("dev", "cofferdam start"),
        ("main", "cofferdam start"),
    ] {
        let unknown = lives.cofferdam(&["start", name]).expect_code(1);
        let said = format!("error: Sandbox '{name}' not found.\n");
        assert!(unknown.stderr.starts_with(&said), "{unknown}");
        let hint = format!(" is meant by `{meant}`\n");
        assert!(unknown.stderr.ends_with(&hint), "{unknown}");
    }
    // The control: nothing is called so.
    let unknown = lives.cofferdam(&["start", "three"]).expect_code(1);
    assert!(unknown.stderr.contains("`cofferdam list`"), "{unknown}");
    let mut shell = lives.on_a_terminal(&["shell", "two"]);
    shell.expect("Sandbox 'two' not found.");
    shell.expect("`cofferdam shell --branch two`");
    shell.ends_with(1);
    // As printed.
    let started = ["start", "--branch", "two", "--network", "none"];
    lives.cofferdam(&started).expect_code(0);
    lives.cofferdam(&["start", "dev-two"]).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// Where nobody says which of several is meant they are named, with a command that means one.
#[test]
fn those_of_branches_are_named_where_none_is_meant() {
    let lives = Lives::new();
    let start = |branch: &str| {
        let start = ["start", "--branch", branch, "--network", "none"];
        lives.cofferdam(&start).expect_code(0);
    };
    start("one");
    let alone = lives.cofferdam(&["restart"]).expect_code(1);
    let hint = "hint: dev-one is here: `cofferdam restart dev-one`\n";
    assert!(alone.stderr.ends_with(hint), "{alone}");
    start("two");
    let mut bare = lives.on_a_terminal(&[]);
    bare.expect("dev-one and dev-two are here: `cofferdam shell dev-one`");
    bare.expect("Usage:");
    bare.ends_with(0);
    let stop = lives.cofferdam(&["stop"]).expect_code(1);
    let hint = "hint: dev-one and dev-two are here: `cofferdam stop dev-one`\n";
    assert!(stop.stderr.ends_with(hint), "{stop}");
    lives.cofferdam(&["stop", "dev-one"]).expect_code(0);
    lives
        .cofferdam(&["delete", "--force", "dev-one", "dev-two"])
        .expect_code(0);
}

/// What was said of which one is meant is in the commands for who has no terminal.
#[test]
fn a_script_runs_in_the_one_whose_shell_was_asked_for() {
    let lives = Lives::new();
    let elsewhere = |words: &[&str]| {
        let mut command = lives.command(words);
        command
            .current_dir(lives.temporary())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let checkout = lives.repository();
    let checkout = checkout.to_str().unwrap();
    let refused = elsewhere(&["shell", "--branch", "two", checkout]).expect_code(2);
    let commands = refused.stderr.split('`').skip(1).step_by(2);
    let commands: Vec<&str> = commands.collect();
    let wanted = [
        format!("cofferdam start --branch two {checkout}"),
        format!("cofferdam exec -i --branch two {checkout} -- sh"),
    ];
    assert_eq!(commands, wanted, "{refused}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        elsewhere(&words).expect_code(0);
    }
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// What is applied where somebody is at work is applied by the commands that are printed, and taken back by others.
#[test]
fn work_is_applied_while_a_dev_sandbox_stands() {
    let lives = Lives::new();
    lives
        .cofferdam(&["start", "--network", "none"])
        .expect_code(0);
    let task = ["--name", "task", "--network", "none"];
    lives.run(&task, "echo new > new; git add new; git commit -qm task");
    let new = lives.repository().join("new");
    for (words, is_there) in [
        (&["apply", "task"][..], true),
        (&["apply", "--undo", "task"], false),
    ] {
        let refused = lives.cofferdam(words).expect_code(1);
        let command = words.join(" ");
        let hint = format!("cofferdam stop dev && cofferdam {command} && cofferdam start dev");
        assert!(
            refused.stderr.ends_with(&format!("hint: `{hint}`\n")),
            "{refused}"
        );
        assert_ne!(new.exists(), is_there);
        for typed in hint.split(" && ") {
            let words: Vec<&str> = typed.split(' ').skip(1).collect();
            lives.cofferdam(&words).expect_code(0);
        }
        assert_eq!(new.exists(), is_there);
    }
    lives
        .cofferdam(&["delete", "--force", "task", "dev"])
        .expect_code(0);
}

/// The machine's own service does not listen where a variable leads.
#[test]
fn an_engine_that_a_variable_names_is_not_started_by_the_machines_service() {
    let environment = TestEnvironment::with_repository();
    for (engine, variable) in [("docker", "DOCKER_HOST"), ("podman", "CONTAINER_HOST")] {
        let mut command = environment.command(&["start", "--sandbox", engine]);
        command
            .env(variable, "unix:///nowhere/engine.sock")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let refused = finish(command.spawn().unwrap()).expect_code(1);
        let hint = format!(
            "hint: {variable} names that socket: start what serves it, or `unset {variable}` for the usual one\n"
        );
        assert!(refused.stderr.contains(&hint), "{refused}");
        assert!(!refused.stderr.contains("systemctl"), "{refused}");
    }
}
