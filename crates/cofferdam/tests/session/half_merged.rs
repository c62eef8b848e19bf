//! What `kill -9` of `cofferdam merge` leaves in the user's checkout is finished by whatever comes next.

use std::path::{Path, PathBuf};

use cofferdam::git::{Git, Oid};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Event, EventSink, Landing, manage};

use crate::support::{Env, block_on, gc, run, run_ok, target};

/// A merge of sandbox `one` that is to be killed after the branch has moved.
struct Killed {
    id: String,
    state: PathBuf,
    git_dir: PathBuf,
    journal: String,
    new: String,
}

impl Killed {
    fn prepared(env: &Env) -> Self {
        let work = "echo new > new; rm old; git add -A; git commit -qm work";
        env.write("old", "old\n");
        env.commit_all("second");
        let strategy = BranchStrategy::Branch {
            branch: "feature".parse().unwrap(),
            base: None,
        };
        let mut options = env.script(strategy, work);
        options.session.name = Some("one".into());
        let id = run_ok(options).id.to_string();
        let (old, new) = (
            env.git(&["rev-parse", "main"]),
            env.git(&["rev-parse", "feature"]),
        );
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        let git_dir = env.repo.join(".git");
        let journal = serde_json::json!({
            "version": 1, "id": id, "files": "update", "reference": "refs/heads/main",
            "old": old, "new": new, "git_dir": bytes(&git_dir), "top": bytes(&env.repo),
        });
        Self {
            state: env.home.state().join(&id),
            journal: journal.to_string(),
            id,
            git_dir,
            new,
        }
    }

    /// As `kill -9` leaves it: index and files are still the old commit's.
    fn leave(&self) {
        std::fs::write(self.state.join("landing.json"), &self.journal).unwrap();
        // A process that is dead: ours with another start time.
        let (id, git_dir) = (&self.id, &self.git_dir);
        let dead = format!("cofferdam {id} {} 1\n", std::process::id());
        std::fs::write(git_dir.join("index.lock"), dead).unwrap();
        std::fs::write(git_dir.join(format!("cofferdam-{id}.index")), "torn").unwrap();
        std::fs::write(git_dir.join("refs/heads/main"), format!("{}\n", self.new)).unwrap();
    }
}

fn half_merged(env: &Env) -> Oid {
    let killed = Killed::prepared(env);
    killed.leave();
    killed.new.parse().unwrap()
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
    assert_eq!(report.problems, []);
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
    assert!(report.problems[0].text.contains("cut short"), "{report:?}");
    assert!(report.removed.is_empty(), "{report:?}");
    let options = manage::DeleteOptions::forced();
    let error = block_on(manage::delete(&target(&env, &"one").0, options)).unwrap_err();
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
    let landing = block_on(manage::merge(
        &target(&env, &"one").0,
        manage::MergeOptions::default(),
        &|_| (),
        None,
    ))
    .unwrap()
    .remove(0)
    .landing;
    assert!(
        matches!(&landing, Landing::Landed { tip: at, .. } if *at == tip),
        "{landing}"
    );
    assert_whole(&env, &tip);
    let again = block_on(manage::merge(
        &target(&env, &"one").0,
        manage::MergeOptions::default(),
        &|_| (),
        None,
    ))
    .unwrap();
    assert_eq!(again[0].landing, Landing::Nothing);

    let env = Env::new();
    let tip = half_merged(&env);
    block_on(manage::delete(
        &target(&env, &"one").0,
        manage::DeleteOptions::default(),
    ))
    .unwrap();
    assert_whole(&env, &tip);
    env.assert_no_state();
}

/// As it is when the user took away the lock of the dead command, as git advises.
fn half_merged_without_lock(env: &Env) -> Oid {
    let tip = half_merged(env);
    std::fs::remove_file(env.repo.join(".git/index.lock")).unwrap();
    tip
}

#[test]
fn what_was_committed_over_a_half_merge_is_told_with_the_branch_that_has_it() {
    let env = Env::new();
    half_merged_without_lock(&env);
    env.git(&["commit", "-qam", "the user's"]);
    let report = gc(&env);
    let landing = &report.recovered[0].landing;
    assert!(
        matches!(landing, Landing::Kept { reference, why } if reference == "main" && why.contains("may undo it")),
        "{landing}"
    );
    env.assert_sound();
}

#[test]
fn gc_and_merge_tell_which_files_lack_what_landed() {
    for with_gc in [true, false] {
        let env = Env::new();
        let tip = half_merged_without_lock(&env);
        env.write("new", "the user's\n");
        env.write("old", "changed\n");
        let told = if with_gc {
            gc(&env).recovered.remove(0).changed_outside
        } else {
            let merged = block_on(manage::merge(
                &target(&env, &"one").0,
                manage::MergeOptions::default(),
                &|_| (),
                None,
            ))
            .unwrap();
            merged[0].changed_outside.clone()
        };
        assert_eq!(told, ["new", "old"]);
        assert_eq!(env.read("new"), "the user's\n");
        assert_eq!(env.read("old"), "changed\n");
        assert_eq!(env.git(&["rev-parse", "main"]), tip.as_str());
    }
}

#[test]
fn a_run_in_the_checkout_finishes_a_half_merge_first() {
    for strategy in [BranchStrategy::Head, BranchStrategy::MergeToHead] {
        let env = Env::new();
        let tip = half_merged_without_lock(&env);
        run_ok(env.script(strategy, "echo x > x; git add -A; git commit -qm x"));
        let changed = env.git(&["diff", "--name-status", tip.as_str(), "main"]);
        assert_eq!(changed, "A\tx");
        assert_eq!(env.git(&["status", "--porcelain"]), "");
        assert_eq!(env.read("new"), "new\n");
        assert!(!env.repo.join("old").exists());
    }
}

#[test]
fn nothing_begins_where_a_half_merge_cannot_be_finished() {
    let env = Env::new();
    let tip = half_merged(&env);
    let other = BranchStrategy::Branch {
        branch: "other".parse().unwrap(),
        base: None,
    };
    let mut options = env.script(other, "echo y > y; git add -A; git commit -qm y");
    options.session.name = Some("two".into());
    run_ok(options);
    let lock = env.repo.join(".git/index.lock");
    std::fs::write(&lock, "the user's git").unwrap();
    for strategy in [BranchStrategy::Head, BranchStrategy::MergeToHead] {
        let error = run(env.script(strategy, "echo x > x; git add -A; git commit -qm x"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("sandbox `one` was cut short"), "{error}");
    }
    let mut two = target(&env, &"one").0;
    two.name = "two".into();
    let error = block_on(manage::merge(
        &two,
        manage::MergeOptions::default(),
        &|_| (),
        None,
    ))
    .unwrap_err();
    assert!(
        matches!(&error, manage::ManageError::HalfMerged { name, .. } if name == "one"),
        "{error}"
    );
    assert_eq!(env.git(&["rev-parse", "main"]), tip.as_str());
    let git = Git::new("git");
    let listing = manage::list(&env.home, &git, Some(&env.repo), None, &two.cancel);
    let listed = block_on(listing).unwrap();
    let one = listed
        .iter()
        .find(|one| one.name.as_str() == "one")
        .unwrap();
    assert!(one.kept.as_ref().unwrap().contains("cut short"), "{one:?}");
    // Without the obstacle both arrive.
    std::fs::remove_file(&lock).unwrap();
    let merged = block_on(manage::merge(
        &two,
        manage::MergeOptions::default(),
        &|_| (),
        None,
    ))
    .unwrap();
    assert!(
        matches!(merged[0].landing, Landing::Landed { .. }),
        "{merged:?}"
    );
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.read("new"), "new\n");
    assert_eq!(env.read("y"), "y\n");
    env.assert_sound();
}

#[test]
fn a_run_lands_nothing_where_a_merge_was_killed_meanwhile() {
    for with_lock in [true, false] {
        let env = Env::new();
        let killed = Killed::prepared(&env);
        let new = killed.new.clone();
        let script = "echo x > x; git add -A; git commit -qm x";
        let mut options = env.script(BranchStrategy::MergeToHead, script);
        options.caller.events = EventSink::new(move |event| {
            if matches!(event, Event::Step { step: "collect" }) {
                killed.leave();
                if !with_lock {
                    std::fs::remove_file(killed.git_dir.join("index.lock")).unwrap();
                }
            }
        });
        let landing = run_ok(options).landing;
        assert!(
            matches!(&landing, Landing::Kept { why, .. } if why.contains("merge of sandbox `one` was cut short")),
            "{landing}"
        );
        assert_eq!(env.git(&["rev-parse", "main"]), new);
        assert!(gc(&env).problems.is_empty());
        assert_whole(&env, &new.parse().unwrap());
    }
}
