//! The user's uncommitted work in a checkout that an agent shares, and Cofferdam's own files in it.

use std::path::PathBuf;

use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::{Event, RunLog};

use crate::support::{Env, run, run_ok};

const HEAD: BranchStrategy = BranchStrategy::Head;

fn own_refs(env: &Env) -> String {
    env.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam"])
}

#[test]
fn what_the_agent_committed_of_it_is_named() {
    let env = Env::new();
    env.write("src/a.txt", "edited\n");
    env.write("notes", "n\n");
    env.write("untouched", "u\n");
    let agent = "echo x > x; git add x notes; git commit -qam everything";
    let report = run_ok(env.script(HEAD, agent));
    assert_eq!(report.taken, ["notes", "src/a.txt"].map(PathBuf::from));
    let first = env.events.lock().unwrap()[0].clone();
    assert!(
        matches!(first, Event::Planned { uncommitted: 3, .. }),
        "{first:?}"
    );
    assert_eq!(env.git(&["status", "--porcelain"]), "?? untouched");
    // Where nothing was dirty, nothing is said.
    env.commit_all("all");
    env.events.lock().unwrap().clear();
    let report = run_ok(env.script(HEAD, "echo y > y; git add y; git commit -qm y"));
    assert!(report.taken.is_empty(), "{:?}", report.taken);
    let first = env.events.lock().unwrap()[0].clone();
    assert!(
        matches!(first, Event::Planned { uncommitted: 0, .. }),
        "{first:?}"
    );
}

#[test]
fn the_record_of_it_stays_only_where_something_was_changed() {
    let env = Env::new();
    env.write("src/a.txt", "edited\n");
    env.write("notes", "n\n");
    std::fs::remove_file(env.repo.join("README.md")).unwrap();
    // No agent ever started.
    let mut options = env.script(HEAD, "true");
    options.session.hooks.sandbox_ready = vec![cofferdam::session::Hook::new("exit 1")];
    run(options).unwrap_err();
    assert_eq!(own_refs(&env), "");
    run_ok(env.script(HEAD, "git commit -q --allow-empty -m x"));
    assert_eq!(own_refs(&env), "");
    assert!(!env.said().contains("UncommittedChanged"), "{}", env.said());
    for change in [
        "echo x >> notes",
        "chmod +x src/a.txt",
        "echo x > README.md",
    ] {
        run_ok(env.script(HEAD, change));
        assert!(own_refs(&env).ends_with("/before"), "{change}");
        let path = change.rsplit(' ').next().unwrap();
        let told = format!("paths: [\"{path}\"]");
        let said = env.said();
        let told = said.contains("UncommittedChanged") && said.contains(&told);
        assert!(told, "{change}: {said}");
        env.events.lock().unwrap().clear();
        let reference = own_refs(&env);
        env.git(&[
            "restore",
            "--source",
            &reference,
            "--",
            "notes",
            "src/a.txt",
        ]);
        env.git(&["update-ref", "-d", &reference]);
        let _ = std::fs::remove_file(env.repo.join("README.md"));
    }
}

#[test]
fn own_files_are_ignored_and_their_values_recorded_nowhere() {
    let env = Env::new();
    env.write(".cofferdam/.env", "KEY=SECRET-VALUE\n");
    let mut options = env.script(HEAD, "echo x > notes");
    options.task.log = RunLog::Default;
    // Work of the user's, so that something is recorded.
    env.write("notes", "n\n");
    run_ok(options);
    let before = own_refs(&env);
    assert!(before.ends_with("/before"), "{before}");
    let recorded = env.git(&["ls-tree", "-r", "--name-only", &before]);
    assert_eq!(recorded, "README.md\nnotes\nsrc/a.txt");
    assert_eq!(env.git(&["status", "--porcelain", "-uall"]), "?? notes");
    env.git(&["add", "-A"]);
    assert_eq!(env.git(&["diff", "--cached", "--name-only"]), "notes");
    // What the user wrote there stays as it is.
    env.write(".cofferdam/.gitignore", "mine\n");
    run_ok(env.script(HEAD, "true"));
    assert_eq!(env.read(".cofferdam/.gitignore"), "mine\n");
    // A repository cannot have it written elsewhere.
    let env = Env::new();
    let outside = env.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join(".env"), "").unwrap();
    std::os::unix::fs::symlink(&outside, env.repo.join(".cofferdam")).unwrap();
    let error = run(env.layered(CopyStrategy::MergeToHead, "true")).unwrap_err();
    assert!(error.to_string().contains("symlink"), "{error}");
    assert!(!outside.join(".gitignore").exists());
}
