//! What lasts in dev sandboxes and what holds in containers as well: history, logins, guard-rails, volumes, and what a push meets.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::skip;

use crate::containers::{self, World};
use crate::dev::LOGIN;
use crate::environment::finish;
use crate::everywhere::everywhere;
use crate::lives::Lives;

/// What is typed in a shell is there after the sandbox was made anew, in the file that the shell reads.
// covers: S3-12
#[test]
fn what_was_typed_outlives_the_sandbox() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let mut typed = Vec::new();
    for shell in ["bash", "zsh"] {
        let is_there = lives.exec("dev", &format!("command -v {shell}"));
        if !is_there.status.success() {
            skip!("there is no {shell} on this machine");
            continue;
        }
        let mut on = lives.on_a_terminal(&["exec", "-t", "dev", "--", shell, "-i"]);
        on.press(&format!("echo rem''embered-by-{shell}\r"));
        on.expect(&format!("remembered-by-{shell}"));
        on.press("exit\r");
        on.ends();
        typed.push(shell);
    }
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives.cofferdam(&["start"]).expect_code(0);
    for shell in typed {
        let file = format!("/commandhistory/.{shell}_history");
        let seen = lives.exec("dev", &format!("cat {file}")).expect_code(0);
        assert!(
            seen.stdout.contains(&format!("embered-by-{shell}")),
            "{seen}"
        );
    }
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
}

/// A stopped one is started, and one on a branch opens where that branch is.
// covers: S3-39, S3-120
#[test]
fn a_shell_starts_what_was_stopped() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives.cofferdam(&["stop"]).expect_code(0);
    let mut shell = lives.on_a_terminal(&[]);
    shell.press("echo in $(pwd) $((40+2))\rexit\r");
    shell.expect("in /workspace/repository 42");
    shell.ends();
    let mut shell = lives.on_a_terminal(&["shell", "--branch", "two"]);
    shell.press("echo in $(pwd) $((40+2))\rexit\r");
    shell.expect("in /repo-shelf/worktrees/two 42");
    shell.ends();
    lives
        .cofferdam(&["delete", "--force", "dev", "dev-two"])
        .expect_code(0);
}

// covers: S3-42
#[test]
fn volumes_are_named_and_looked_into() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    lives
        .exec("dev", "echo x > /commandhistory/one")
        .expect_code(0);
    let names = lives.cofferdam(&["volume"]).expect_code(0).stdout;
    let names: Vec<&str> = names.lines().collect();
    let hash = names
        .iter()
        .find_map(|name| name.strip_prefix("cofferdam-shelf-"));
    let hash = hash.unwrap();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let history = format!("cofferdam-{hash}-history");
    let shelf = format!("cofferdam-shelf-{hash}");
    let mut wanted = [
        "cofferdam-codex-config",
        "cofferdam-creds",
        history.as_str(),
        shelf.as_str(),
    ];
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
    let listed = lives
        .cofferdam(&["volume", "list", "--json"])
        .expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let listed = listed.as_array().unwrap();
    let of_history = listed.iter().find(|one| one["name"] == history.as_str());
    assert_eq!(of_history.unwrap()["used_by"], serde_json::json!(["dev"]));
    let inspected = lives
        .cofferdam(&["volume", "inspect", "--json", &history])
        .expect_code(0);
    let inspected: serde_json::Value = serde_json::from_str(&inspected.stdout).unwrap();
    let one = inspected.as_array().map_or(&inspected, |all| &all[0]);
    assert_eq!(one["files"], 1, "{inspected}");
    let used = lives
        .cofferdam(&["volume", "remove", &history])
        .expect_code(1);
    assert!(used.stderr.contains("dev"), "{used}");
    lives
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    lives
        .cofferdam(&["volume", "remove", &history])
        .expect_code(0);
}

/// What a program inside writes for agents, git and shells is its own sandbox's: of its home a login travels, and nothing else.
#[test]
fn settings_that_one_writes_are_in_no_other() {
    everywhere(91, settings_that_one_writes_are_in_no_other_in);
}

fn settings_that_one_writes_are_in_no_other_in(world: &World) {
    const PLANT: &str = r#"
        mkdir -p ~/.claude/commands ~/.codex ~/.config/git ~/bin ~/.local/bin
        echo '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "PLANTED"}]}]}}' > ~/.claude/settings.json
        echo PLANTED > ~/.claude/commands/x.md; echo PLANTED >> ~/.claude/CLAUDE.md; echo '{"mcpServers": "PLANTED"}' > ~/.claude.json
        echo 'notify = ["PLANTED"]' > ~/.codex/config.toml; echo PLANTED >> ~/.codex/AGENTS.md
        printf '[core]\n\tpager = PLANTED\n' | tee ~/.gitconfig > ~/.config/git/config
        for name in .zshrc .zshenv .bashrc .bash_profile .profile .bash_aliases bin/git .local/bin/git; do echo PLANTED >> ~/$name; done"#;
    const LOOK: &str = "grep -rsl PLANTED ~ /commandhistory; cat ~/.claude/.credentials.json; true";
    let environment = &world.environment;
    let other = environment.temporary().join("other");
    let other = other.to_str().unwrap();
    environment.git(&["clone", "-q", ".", other]);
    world.start(&[]);
    let login = format!("mkdir -p ~/.claude && printf %s '{LOGIN}' > ~/.claude/.credentials.json");
    world
        .exec_in("dev", &format!("{login}\n{PLANT}"))
        .expect_code(0);
    // The control: where they were written they are, and the login is kept.
    let own = world.exec_in("dev", LOOK).expect_code(0);
    for name in [
        ".claude/settings.json",
        ".codex/config.toml",
        ".gitconfig",
        ".zshrc",
    ] {
        assert!(own.stdout.contains(&format!("/{name}\n")), "{name}: {own}");
    }
    let kept = "grep -rs PLANTED ~/.cofferdam/volumes; ls -A ~/.cofferdam/volumes/cofferdam-creds/files ~/.cofferdam/volumes/cofferdam-codex-config/files 2>/dev/null; true";
    let kept = environment.shell(kept);
    assert!(!kept.stdout.contains("PLANTED"), "{kept}");
    let names = ["settings", "commands", "config.toml", "AGENTS.md"];
    assert!(
        !names.iter().any(|name| kept.stdout.contains(name)),
        "{kept}"
    );
    world.start(&["-C", other]);
    world.start(&["--branch", "two"]);
    world.made("create", &["box"]);
    for (at, has_login) in [
        (&["-C", other, "exec", "dev"][..], true),
        (&["exec", "dev-two"], true),
        (&["exec", "box"], false),
    ] {
        let words = [at, &["--", "sh", "-c", LOOK]].concat();
        let seen = world.cofferdam(&words).expect_code(0);
        assert_eq!(seen.stdout, if has_login { LOGIN } else { "" }, "{at:?}");
    }
    // Nor in one of its own name, made anew.
    world
        .cofferdam(&["delete", "--force", "dev"])
        .expect_code(0);
    world.start(&[]);
    let seen = world.exec_in("dev", LOOK).expect_code(0);
    assert_eq!(seen.stdout, LOGIN);
    world
        .cofferdam(&["-C", other, "delete", "--force", "dev"])
        .expect_code(0);
    world
        .cofferdam(&["delete", "--force", "dev", "dev-two", "box"])
        .expect_code(0);
}

/// What goes around hooks and overwrites branches is refused, said and noted, and what only looks so is the real git.
#[test]
fn what_goes_around_the_hooks_is_refused() {
    const REFUSED: [&str; 10] = [
        "git commit --allow-empty --no-verify -m x",
        "git commit --allow-empty -n -m x",
        "git commit --allow-empty -nm x",
        "git commit --allow-empty --no-veri -m x",
        "git push --force host HEAD:feature",
        "git push -f host HEAD:feature",
        "git push host +HEAD:feature",
        "git push --force-with-lease host HEAD:feature",
        "git push --mirror host",
        "git -c alias.x='commit --no-verify' x --allow-empty -m x",
    ];
    const LET_BY: [&str; 4] = [
        "git push -n host HEAD:feature",
        "git log -n 5",
        "git commit --allow-empty -m -n",
        "git push host HEAD:feature",
    ];
    everywhere(83, |world| {
        world.environment.git(&["branch", "feature"]);
        world.start(&["--branch", "feature"]);
        let tip = || world.exec_in("dev-feature", "git rev-parse HEAD").stdout;
        let before = tip();
        for line in REFUSED {
            let done = world.exec_in("dev-feature", line);
            assert!(!done.status.success(), "{line}: {done}");
            assert!(
                done.stderr.contains("refused in this sandbox"),
                "{line}: {done}"
            );
            assert_eq!(tip(), before, "{line}");
        }
        for line in LET_BY {
            world.exec_in("dev-feature", line).expect_code(0);
        }
        assert_ne!(tip(), before);
        let subject = world
            .environment
            .git(&["log", "-1", "--format=%s", "feature"]);
        assert_eq!(subject.trim(), "-n");
        world
            .cofferdam(&["delete", "--force", "dev-feature"])
            .expect_code(0);
    });
}

/// In containers as natively: what nobody may write, what its git refuses, and a login that somebody made there.
// covers: S3-45, S3-59, S3-60, S3-66
#[test]
fn it_is_the_same_in_containers() {
    for world in containers::worlds() {
        world
            .environment
            .write(".cofferdam/config.yaml", "protect: [guarded/deep]\n");
        let start = containers::making("start", world.engine, &["--network", "none"]);
        world.cofferdam(&start).expect_code(0);
        let script = "for path in .husky guarded/deep .git/hooks .cofferdam; do mkdir -p $path 2>/dev/null; touch $path/x 2>/dev/null && echo $path; done; \
                      mv guarded other 2>/dev/null && echo moved; mv .husky other 2>/dev/null && echo moved; touch guarded/beside && echo beside";
        let seen = world.exec_in("dev", script);
        assert_eq!(seen.stdout, "beside\n", "{}: {seen}", world.engine);
        let around = world.exec_in("dev", "git commit --allow-empty --no-verify -m skipped");
        assert!(!around.status.success(), "{around}");
        assert!(
            around.stderr.contains("note: its git refused: "),
            "{around}"
        );
        let rules = world.exec_in("dev", "cat ~/.claude/CLAUDE.md");
        assert!(rules.stdout.contains("--no-verify"), "{rules}");

        let login =
            format!("mkdir -p ~/.claude && printf %s '{LOGIN}' > ~/.claude/.credentials.json");
        let left = world.exec_in("dev", &login).expect_code(0);
        assert!(left.stderr.contains("the login of claude-code"), "{left}");
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
        world.cofferdam(&start).expect_code(0);
        let seen = world.exec_in("dev", "cat ~/.claude/.credentials.json");
        assert_eq!(seen.stdout, LOGIN, "{}", world.engine);
        world
            .cofferdam(&["delete", "--force", "dev"])
            .expect_code(0);
    }
}

/// A program in `dev-two` that pushes to `two`, once that has passed the gate and its check runs.
fn pushes_and_is_checked(lives: &Lives) -> Child {
    lives.configure("gate: {checks: [{cmd: sleep 5}]}\n");
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    let push = "git commit -q --allow-empty -m inside && git push host two";
    let mut pushing = lives.command(&["exec", "dev-two", "--", "sh", "-c", push]);
    let pushing = pushing
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The check's sandbox is there.
    let until = Instant::now() + Duration::from_secs(30);
    while !lives
        .cofferdam(&["list", "--all-repos", "--json"])
        .stdout
        .contains("check")
    {
        assert!(Instant::now() < until);
    }
    pushing
}

/// A branch that the host moves while a push is checked keeps the host's commit.
#[test]
fn a_push_while_the_host_commits() {
    let lives = Lives::new();
    let pushing = pushes_and_is_checked(&lives);
    let tree = lives.git(&["rev-parse", "main^{tree}"]);
    let commit = lives.git(&["commit-tree", "-p", "main", "-m", "of-the-host", &tree]);
    lives.git(&["update-ref", "refs/heads/two", &commit]);
    let done = finish(pushing).expect_code(1);
    assert!(done.stderr.contains("the branch moved meanwhile"), "{done}");
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "two"]).trim(),
        "of-the-host"
    );
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}

/// Whoever answers dies while a push is checked: no branch has moved, and the next push finds nothing in its way.
#[test]
fn a_push_whose_host_dies_moves_nothing() {
    let lives = Lives::new();
    let pushing = pushes_and_is_checked(&lives);
    let before = lives.git(&["for-each-ref", "refs/heads"]);
    lives.kill_watcher("dev-two");
    // Programs stand still until somebody watches again.
    lives.exec("dev-two", "true");
    finish(pushing).expect_code(1);
    assert_eq!(lives.git(&["for-each-ref", "refs/heads"]), before);
    lives.configure("");
    lives.exec("dev-two", "git push -q host two").expect_code(0);
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "two"]).trim(),
        "inside"
    );
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
    lives.cofferdam(&["gc"]).expect_code(0);
    lives.expect_clean();
}

/// Nothing of it can come home any more: it is named for what it is, and ends by force alone.
#[test]
fn one_whose_checkout_is_gone_ends_by_force() {
    let lives = Lives::new();
    let gone = lives.temporary().join("gone");
    let gone = gone.to_str().unwrap();
    lives.git(&["clone", "-q", ".", gone]);
    lives.cofferdam(&["-C", gone, "start"]).expect_code(0);
    std::fs::remove_dir_all(gone).unwrap();
    let found = lives.all();
    assert_eq!(found[0]["orphaned"], true, "{found:?}");
    let id = found[0]["id"].as_str().unwrap();
    let done = lives.cofferdam(&["delete", id]).expect_code(1);
    assert!(done.stderr.contains("--force"), "{done}");
    lives.cofferdam(&["delete", "--force", id]).expect_code(0);
    assert!(lives.all().is_empty());
}

/// What was on the shelf is there when the checkout is not.
#[test]
fn a_checkout_that_was_moved_keeps_its_shelf() {
    let lives = Lives::new();
    lives
        .cofferdam(&["start", "--branch", "two"])
        .expect_code(0);
    lives
        .exec(
            "dev-two",
            "echo kept > kept; git add kept; git commit -qm kept",
        )
        .expect_code(0);
    let names = lives.cofferdam(&["volume"]).expect_code(0).stdout;
    let shelf = names.lines().find(|name| name.contains("shelf"));
    let shelf = shelf.unwrap().to_owned();
    let repository = lives.repository();
    let moved = repository.with_file_name("moved");
    std::fs::rename(&repository, &moved).unwrap();
    std::fs::create_dir(&repository).unwrap();
    let refused = lives
        .cofferdam(&["exec", "dev-two", "--", "true"])
        .expect_code(1);
    assert!(
        refused.stderr.contains("is not in a git repository"),
        "{refused}"
    );
    let to = lives.home().join("exported");
    let export = ["volume", "export", &shelf, to.to_str().unwrap()];
    lives.cofferdam(&export).expect_code(0);
    assert!(to.exists());
    std::fs::remove_dir(&repository).unwrap();
    std::fs::rename(&moved, &repository).unwrap();
    let seen = lives.exec("dev-two", "cat kept");
    assert_eq!(seen.stdout, "kept\n", "{seen}");
    lives
        .cofferdam(&["delete", "--force", "dev-two"])
        .expect_code(0);
}
