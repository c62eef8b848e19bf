//! What `kill -9` of `cofferdam merge` leaves in the user's checkout is finished by whatever comes next.

use cofferdam::git::{Git, Oid};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Landing, manage};
use tokio_util::sync::CancellationToken;

use crate::support::{Env, gc, run_ok};

fn target(env: &Env) -> manage::Target {
    manage::Target {
        home: env.home.clone(),
        git: Git::new("git"),
        repository: env.repo.clone(),
        caller_home: None,
        name: "one".into(),
        cancel: CancellationToken::new(),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build().unwrap().block_on(future)
}

/// As `kill -9` leaves a merge of sandbox `one` after the branch has moved: index and files are still the
/// old commit's.
fn half_merged(env: &Env) -> Oid {
    let work = "echo new > new; rm old; git add -A; git commit -qm work";
    env.write("old", "old\n");
    env.commit_all("second");
    let strategy = BranchStrategy::Branch {
        branch: "feature".parse().unwrap(),
        base: None,
    };
    let mut options = env.script(strategy, work);
    options.name = Some("one".into());
    let id = run_ok(options).id;
    let (old, new) = (
        env.git(&["rev-parse", "main"]),
        env.git(&["rev-parse", "feature"]),
    );
    let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
    let git_dir = env.repo.join(".git");
    let journal = serde_json::json!({
        "version": 1, "id": id, "files": "update", "reference": "refs/heads/main",
        "old": old, "new": new, "git_dir": bytes(&git_dir), "top": bytes(&env.repo),
    });
    let state = env.home.state().join(id.to_string());
    std::fs::write(state.join("landing.json"), journal.to_string()).unwrap();
    // A process that is dead: ours with another start time.
    let dead = format!("cofferdam {id} {} 1\n", std::process::id());
    std::fs::write(git_dir.join("index.lock"), dead).unwrap();
    std::fs::write(git_dir.join(format!("cofferdam-{id}.index")), "torn").unwrap();
    env.git(&["update-ref", "refs/heads/main", &new]);
    new.parse().unwrap()
}

fn assert_whole(env: &Env, tip: &Oid) {
    assert!(!env.repo.join(".git/index.lock").exists());
    assert_eq!(env.git(&["rev-parse", "main"]), tip.as_str());
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.read("new"), "new\n");
    assert!(!env.repo.join("old").exists());
    let left = std::fs::read_dir(env.repo.join(".git")).unwrap();
    let torn = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".index");
    assert!(!left.flatten().any(|entry| torn(entry.file_name())));
    env.assert_sound();
}

#[test]
fn gc_finishes_a_merge_that_was_killed() {
    let env = Env::new();
    let tip = half_merged(&env);
    let report = gc(&env);
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.recovered.len(), 1, "{report:?}");
    assert_whole(&env, &tip);
    assert!(gc(&env).recovered.is_empty());
}

#[test]
fn a_merge_that_cannot_be_finished_is_not_forgotten() {
    let env = Env::new();
    let tip = half_merged(&env);
    let lock = env.repo.join(".git/index.lock");
    std::fs::write(&lock, "the user's git").unwrap();
    let report = gc(&env);
    assert!(report.problems[0].contains("cut short"), "{report:?}");
    assert!(report.removed.is_empty(), "{report:?}");
    let options = manage::DeleteOptions {
        force: true,
        purge: false,
    };
    let error = block_on(manage::delete(&target(&env), options)).unwrap_err();
    assert!(
        matches!(error, manage::ManageError::HalfMerged { .. }),
        "{error}"
    );
    std::fs::remove_file(&lock).unwrap();
    assert!(gc(&env).problems.is_empty());
    assert_whole(&env, &tip);
}

#[test]
fn merge_and_delete_finish_a_merge_that_was_killed() {
    let env = Env::new();
    let tip = half_merged(&env);
    let landing = block_on(manage::merge(&target(&env), None, &|_| ()))
        .unwrap()
        .landing;
    assert!(
        matches!(&landing, Landing::Landed { tip: at, .. } if *at == tip),
        "{landing}"
    );
    assert_whole(&env, &tip);
    let again = block_on(manage::merge(&target(&env), None, &|_| ())).unwrap();
    assert_eq!(again.landing, Landing::Nothing);

    let env = Env::new();
    let tip = half_merged(&env);
    block_on(manage::delete(
        &target(&env),
        manage::DeleteOptions::default(),
    ))
    .unwrap();
    assert_whole(&env, &tip);
    env.assert_no_state();
}
