//! No sandbox is given a directory that shows Cofferdam's own home, or a whole account.

use std::path::Path;

use cofferdam::RunOptions;
use cofferdam::home::Home;
use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::{PlanError, RunErrorKind};

use crate::support::{Env, run, run_ok};

const HEAD: BranchStrategy = BranchStrategy::Head;

#[track_caller]
fn refused(options: RunOptions) -> PlanError {
    match run(options).unwrap_err().kind {
        RunErrorKind::Plan(error) => error,
        other => panic!("{other}"),
    }
}

fn branch() -> BranchStrategy {
    BranchStrategy::Branch {
        branch: "work".parse().unwrap(),
        base: None,
    }
}

/// Does nothing, and finds none of the home's files.
const LOOK: &str = "test -z \"$(find . -name socket -o -name 'gateway-*' -o -name state)\"";

#[test]
fn a_home_below_the_workspace_is_never_shown() {
    let mut env = Env::new();
    env.write(".gitignore", ".local/\n");
    env.commit_all("ignored");
    let link = env.dir.path().join("link");
    std::os::unix::fs::symlink(&env.repo, &link).unwrap();
    for home in [
        env.repo.join(".local/share/cofferdam"),
        link.join(".local/other"),
        env.repo.join("none/../.local/third"),
    ] {
        env.home = Home::new(&home);
        let error = refused(env.script(HEAD, "true"));
        assert!(matches!(error, PlanError::ShowsHome { .. }), "{error}");
        assert!(!home.exists(), "{}", home.display());
    }
    env.home = Home::new(env.repo.join(".local/share/cofferdam"));
    run_ok(env.copy(CopyStrategy::MergeToHead, LOOK));
    run_ok(env.layered(CopyStrategy::MergeToHead, LOOK));
    run_ok(env.bind(BranchStrategy::MergeToHead, LOOK));
    run_ok(env.bind(branch(), LOOK));
    // It exists now.
    let error = refused(env.script(HEAD, "true"));
    assert!(matches!(error, PlanError::ShowsHome { .. }), "{error}");
    let mut options = env.bind(BranchStrategy::MergeToHead, "true");
    options.session.copy = vec![".local".into()];
    let error = refused(options);
    assert!(matches!(error, PlanError::ShowsHome { .. }), "{error}");
}

#[test]
fn a_home_around_the_workspace_is_never_shown() {
    let mut env = Env::new();
    for home in [env.repo.clone(), env.dir.path().to_owned()] {
        env.home = Home::new(home);
        for strategy in [HEAD, BranchStrategy::MergeToHead] {
            let error = refused(env.bind(strategy, "true"));
            let known = matches!(
                error,
                PlanError::InHome { .. } | PlanError::ShowsHome { .. }
            );
            assert!(known, "{error}");
        }
    }
}

#[test]
fn the_repositorys_own_settings_are_no_home() {
    let mut env = Env::new();
    env.home = Home::new(env.repo.join(".cofferdam"));
    for options in [
        env.script(HEAD, "true"),
        env.bind(BranchStrategy::MergeToHead, "true"),
        env.copy(CopyStrategy::MergeToHead, "true"),
        env.layered(CopyStrategy::MergeToHead, "true"),
    ] {
        let error = refused(options);
        assert!(matches!(error, PlanError::SharedHome(_)), "{error}");
    }
    assert!(!env.repo.join(".cofferdam").exists());
}

#[test]
fn a_whole_account_is_no_workspace() {
    let env = Env::new();
    let place = env.dir.path();
    let inside = env.repo.join("user");
    for home in [env.repo.as_path(), &inside] {
        let mut options = env.script(HEAD, "true");
        options.caller.user_home = Some(home.to_owned());
        let error = refused(options);
        let known = matches!(error, PlanError::RefusedWorkspace { .. });
        assert!(known, "{error}");
        let mut options = env.copy(CopyStrategy::MergeToHead, "true");
        options.caller.user_home = Some(home.to_owned());
        run_ok(options);
    }
    // The control: beside a home, and below one.
    for home in [place.join("user"), place.to_owned()] {
        assert!(Path::new(&home).is_dir());
        let mut options = env.script(HEAD, "true");
        options.caller.user_home = Some(home);
        run_ok(options);
    }
}
