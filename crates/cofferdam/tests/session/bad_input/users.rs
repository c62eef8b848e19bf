//! Whose the files are: another uid, other masks and modes, no home.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use cofferdam::sandbox::BranchStrategy;
use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;
use cofferdam_lab::way::Mode;

use super::{HEAD, exercise, whole, whole_ok};
use crate::support::{Env, run};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs one test of this binary in a process of its own, prepared by `prepare`.
fn inner(name: &str, prepare: impl FnOnce(&mut Command)) -> Output {
    // Another user may not reach where it was built.
    let place = tempfile::tempdir().unwrap();
    chmod(place.path(), 0o755);
    let program = place.path().join("tests");
    // Not by this process: a program that some fork has open for writing cannot be executed.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    chmod(&program, 0o755);
    let mut command = Command::new(&program);
    command
        .args(["--exact", name, "--test-threads", "1"])
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("COFFERDAM_TEST_INNER", "1")
        .env("COFFERDAM_TEST_MODE", Mode::of_this_pass().to_string());
    prepare(&mut command);
    command.output().unwrap()
}

fn assert_passed(done: &Output) {
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}

fn is_inner() -> bool {
    std::env::var_os("COFFERDAM_TEST_INNER").is_some()
}

#[test]
fn an_ordinary_user_can_do_the_same() {
    // As an ordinary user every other test here says it already.
    if is_root() {
        let names = [
            "bad_input::users::everything_once",
            "bad_input::hostile::everything_without_permissions",
            "bad_input::hostile::an_agent_that_deletes_its_files",
            "bad_input::hostile::very_deep_directories",
            "bad_input::hostile::nested_repositories_are_moved_out_and_never_run",
            "bad_input::streams::a_fork_bomb_stays_inside",
            "bad_input::streams::an_agent_that_ignores_every_signal_is_ended",
            "bad_input::repositories::repositories_with_submodules_work",
            "providers::an_isolated_provider_from_outside",
        ];
        for name in Sample::new("an ordinary user").of(names, 3) {
            assert_passed(&inner(name, |command| {
                command.uid(1234).gid(1234);
            }));
        }
    }
}

#[test]
fn everything_once() {
    exercise(&Env::new());
}

#[test]
fn a_closed_mask() {
    if is_inner() {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let env = Env::new();
        let seen = |path: &str| std::fs::metadata(env.repo.join(path)).unwrap().mode() & 0o777;
        exercise(&env);
        assert_eq!(seen("README.md"), 0o600);
        // What a merge writes follows the user's mask as well.
        let script = "echo x > merged; git add merged; git commit -qm x";
        whole_ok(
            &env,
            env.script(BranchStrategy::MergeToHead, script),
            &["refs/heads/main"],
        );
        assert_eq!(seen("merged"), 0o600);
        return;
    }
    assert_passed(&inner("bad_input::users::a_closed_mask", |_| {}));
}

#[test]
fn no_home_directory() {
    let env = Env::new();
    let mut options = env.script(HEAD, "git commit -qm work --allow-empty");
    options.caller.user_home = None;
    options.session.identity = None;
    options.caller.environment.clear();
    whole_ok(&env, options, &["refs/heads/main"]);
    let mut options = env.script(HEAD, "git commit -qm work --allow-empty");
    options.caller.user_home = Some(env.dir.path().join("no such home"));
    whole_ok(&env, options, &["refs/heads/main"]);
    assert_eq!(env.subjects("main"), ["first", "work", "work"]);
}

#[test]
fn a_state_directory_that_cannot_be_used_is_named() {
    if is_root() {
        let name = "bad_input::users::a_state_directory_that_cannot_be_used_is_named";
        assert_passed(&inner(name, |command| {
            command.uid(1234).gid(1234);
        }));
        return;
    }
    let env = Env::new();
    chmod(&env.dir.path().join("user"), 0o500);
    let error = whole(&env, env.script(HEAD, "true"), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("user/.cofferdam") && error.contains("denied"),
        "{error}"
    );
    chmod(&env.dir.path().join("user"), 0o700);
    env.assert_no_state();
    // A repository that may be read only, and a worktree is to be listed in it.
    chmod(&env.repo.join(".git"), 0o500);
    let error = run(env.bind(BranchStrategy::MergeToHead, "true"))
        .unwrap_err()
        .to_string();
    assert!(
        error.to_lowercase().contains("permission denied"),
        "{error}"
    );
    chmod(&env.repo.join(".git"), 0o700);
    let prompt = env.dir.path().join("secret.md");
    std::fs::write(&prompt, "x").unwrap();
    chmod(&prompt, 0o000);
    let mut options = env.script(HEAD, "true");
    options.task.prompt = cofferdam::session::PromptSource::Template {
        path: prompt,
        arguments: std::collections::BTreeMap::new(),
    };
    let error = run(options).unwrap_err().to_string();
    assert!(
        error.contains("secret.md") && error.contains("denied"),
        "{error}"
    );
}

#[test]
fn a_state_directory_that_others_can_write_is_closed() {
    let env = Env::new();
    let home = env.dir.path().join("user/.cofferdam");
    std::fs::create_dir(&home).unwrap();
    chmod(&home, 0o777);
    std::fs::create_dir(home.join("state")).unwrap();
    chmod(&home.join("state"), 0o775);
    whole_ok(
        &env,
        env.script(HEAD, "git commit -qm work --allow-empty"),
        &["refs/heads/main"],
    );
    for path in [home.clone(), home.join("state")] {
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o022, 0, "{}: {mode:o}", path.display());
    }
}

fn give(path: &Path, uid: &str) {
    let done = Command::new("chown").args(["-R", uid]).arg(path).status();
    assert!(done.unwrap().success());
}

#[test]
fn a_repository_of_another_user_is_refused_unless_git_trusts_it() {
    if !is_root() {
        return skip!("only root can give a repository to another user");
    }
    let env = Env::new();
    give(&env.repo, "1234:1234");
    let error = run(env.script(HEAD, "true")).unwrap_err().to_string();
    assert!(error.contains("belongs to another user"), "{error}");
    env.assert_no_state();
    let config = env.dir.path().join("user/.gitconfig");
    std::fs::write(
        &config,
        format!("[safe]\n\tdirectory = {}\n", env.repo.display()),
    )
    .unwrap();
    let script = "echo x > new; echo y >> README.md; git add -A; git commit -qm work";
    for strategy in [HEAD, BranchStrategy::MergeToHead] {
        let result = run(env.script(strategy, &script.replace("new", "other")));
        let report = result.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.commits.len(), 1);
    }
    assert_eq!(env.subjects("main"), ["first", "work", "work"]);
    // The user's own file is still theirs.
    assert_eq!(
        std::fs::metadata(env.repo.join("src/a.txt")).unwrap().uid(),
        1234
    );
}
