//! The three strategies, and what agents do to branches.

use cofferdam::sandbox::{BranchStrategy, CopyStrategy};
use cofferdam::session::manage::ManageError;
use cofferdam::session::{Event, EventSink, Hook, Landing};

use crate::support::{Env, gc, run, run_ok, target};

fn branch(name: &str) -> BranchStrategy {
    BranchStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    }
}

const COMMIT: &str = "echo new > new.txt && git add new.txt && git commit -qm work";

// covers: S2-9 S2-13
#[test]
fn head_lands_on_the_checked_out_branch() {
    let env = Env::new();
    let report = run_ok(env.script(BranchStrategy::Head, COMMIT));
    assert_eq!(env.subjects("main"), ["first", "work"]);
    assert_eq!(
        report.landing,
        Landing::Landed {
            branch: "main".into(),
            tip: report.commits[0].id.clone()
        }
    );
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.read("new.txt"), "new\n");
    assert_eq!(env.refs().lines().count(), 1);
    assert!(report.diffstat.contains("new.txt"), "{}", report.diffstat);
    env.assert_sound();
    env.assert_no_state();
}

// covers: S2-10
#[test]
fn merge_to_head_merges_and_leaves_nothing() {
    let env = Env::new();
    let report = run_ok(env.script(BranchStrategy::MergeToHead, COMMIT));
    assert_eq!(env.subjects("main"), ["first", "work"]);
    assert!(report.source_branch.starts_with("cofferdam/"));
    assert_eq!(report.target_branch, "main");
    assert_eq!(env.read("new.txt"), "new\n");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.refs().lines().count(), 1, "{}", env.refs());
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    env.assert_sound();
    env.assert_no_state();
}

/// The directory that git lists as the worktree is the one that is mounted: what is written inside is
/// there at once, and the other way round.
// covers: S2-14
#[test]
fn a_worktree_lives_below_the_config_directory_and_is_mounted() {
    for (strategy, name) in [
        (BranchStrategy::MergeToHead, "cofferdam-one-"),
        (branch("feature"), "feature"),
    ] {
        let env = Env::new();
        let mut options = env.bind(
            strategy,
            "test \"$(cat from-host)\" = host && rm from-host from-inside",
        );
        options.session.name = Some("one".to_owned());
        let seen = env.dir.path().join("seen");
        options.session.hooks.host_sandbox_ready = vec![Hook::new(format!(
            "until test -e from-inside; do sleep 0.01; done; echo host > from-host; pwd -P > '{0}'; \
             git -C '{1}' worktree list --porcelain >> '{0}'",
            seen.display(),
            env.repo.display()
        ))];
        options.session.hooks.sandbox_ready = vec![Hook::new("echo inside > from-inside")];
        run_ok(options);
        let seen = std::fs::read_to_string(seen).unwrap();
        let (place, listed) = seen.split_once('\n').unwrap();
        let home = env
            .repo
            .canonicalize()
            .unwrap()
            .join(".cofferdam/worktrees");
        let place = std::path::Path::new(place);
        assert_eq!(place.parent(), Some(home.as_path()), "{seen}");
        let found = place.file_name().unwrap().to_str().unwrap();
        assert!(found.starts_with(name), "{seen}");
        assert!(
            listed.contains(&format!("worktree {}\n", place.display())),
            "{seen}"
        );
    }
}

// covers: S2-11 S2-15
#[test]
fn branch_gets_the_commits_and_main_stays() {
    let env = Env::new();
    let main = env.git(&["rev-parse", "main"]);
    run_ok(env.script(branch("feature/x"), COMMIT));
    assert_eq!(env.subjects("feature/x"), ["first", "work"]);
    assert_eq!(env.git(&["rev-parse", "main"]), main);
    assert!(!env.repo.join("new.txt").exists());
    // Again on the same branch: it goes on where it was.
    run_ok(env.script(branch("feature/x"), "git commit -qm more --allow-empty"));
    assert_eq!(env.subjects("feature/x"), ["first", "work", "more"]);
    env.assert_sound();
}

#[test]
fn branch_starts_at_the_base_that_was_named() {
    let env = Env::new();
    env.write("late.txt", "late\n");
    env.commit_all("second");
    let strategy = BranchStrategy::Branch {
        branch: "old".parse().unwrap(),
        base: Some("main~1".into()),
    };
    run_ok(env.script(
        strategy,
        "test ! -e late.txt && git commit -qm work --allow-empty",
    ));
    assert_eq!(env.subjects("old"), ["first", "work"]);
}

// covers: S2-8 S2-12 S4-FR5.1
#[test]
fn a_private_copy_works_end_to_end() {
    for own in [Env::copy, Env::layered] {
        let env = Env::new();
        // What is in no commit is not there.
        std::fs::write(env.repo.join("unsaved.txt"), "x\n").unwrap();
        std::fs::write(env.repo.join("staged.txt"), "x\n").unwrap();
        env.git(&["add", "staged.txt"]);
        let script = format!(
            "test \"$(cat src/a.txt | wc -l)\" = 3 && test ! -e unsaved.txt && test ! -e staged.txt && {COMMIT}"
        );
        run_ok(own(&env, CopyStrategy::MergeToHead, &script));
        assert_eq!(env.subjects("main"), ["first", "work"]);
        assert_eq!(env.read("new.txt"), "new\n");
        env.assert_sound();
        env.assert_no_state();
    }
}

// covers: S4-FR5.2
#[test]
fn a_copy_with_uncommitted_work_is_kept() {
    for own in [Env::copy, Env::layered] {
        let env = Env::new();
        let draft = own(&env, CopyStrategy::MergeToHead, "echo draft > draft.txt");
        let report = run_ok(draft);
        let kept = report.preserved_worktree.unwrap();
        assert!(!env.repo.join("draft.txt").exists());
        assert_eq!(
            std::fs::read_to_string(kept.join("draft.txt")).unwrap(),
            "draft\n"
        );
        // Nobody who clears up takes it for nothing.
        assert_eq!(gc(&env).removed, <[String; 0]>::default());
        assert!(kept.join("draft.txt").exists());
        let sandbox = target(&env, &report.name);
        let refused = sandbox.try_delete(false).unwrap_err();
        assert!(
            matches!(refused, ManageError::UncommittedWork { .. }),
            "{refused}"
        );
        sandbox.delete();
        env.assert_no_state();
    }
}

#[test]
fn names_that_differ_only_in_a_separator_have_their_own_worktrees() {
    let env = Env::new();
    run_ok(env.bind(
        branch("a/b"),
        "echo slash > s && git add s && git commit -qm slash; echo x > left",
    ));
    run_ok(env.bind(
        branch("a-b"),
        "echo dash > d && git add d && git commit -qm dash; echo y > left",
    ));
    assert_eq!(env.subjects("a/b"), ["first", "slash"]);
    assert_eq!(env.subjects("a-b"), ["first", "dash"]);
    let list = env.git(&["worktree", "list", "--porcelain"]);
    assert!(
        list.contains("branch refs/heads/a/b") && list.contains("branch refs/heads/a-b"),
        "{list}"
    );
}

#[test]
fn uncommitted_work_in_a_worktree_is_kept_and_named() {
    let env = Env::new();
    let report = run_ok(env.bind(
        branch("draft"),
        &format!("{COMMIT}; echo draft > draft.txt"),
    ));
    let kept = report.preserved_worktree.unwrap();
    assert_eq!(
        std::fs::read_to_string(kept.join("draft.txt")).unwrap(),
        "draft\n"
    );
    assert_eq!(env.subjects("draft"), ["first", "work"]);
    let done = env.try_git(&kept, &["status", "--porcelain"]);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "?? draft.txt\n");
}

#[test]
fn files_that_were_copied_in_and_not_changed_do_not_keep_a_worktree() {
    let env = Env::new();
    env.write("tool/agent.sh", "echo hi\n");
    env.write("tool/notes", "n\n");
    let run_with = |script: &str| {
        let mut options = env.bind(BranchStrategy::MergeToHead, script);
        options.session.copy = vec!["tool".into()];
        run_ok(options).preserved_worktree
    };
    assert_eq!(run_with("test -e tool/agent.sh"), None);
    env.assert_no_state();
    assert!(run_with("echo changed >> tool/notes").is_some());
    assert!(run_with("echo new > tool/new").is_some());
    assert!(run_with("ln -sf /etc/passwd tool/notes").is_some());
}

#[test]
fn a_conflict_moves_nothing_and_names_the_branch() {
    let env = Env::new();
    let mut options = env.script(
        BranchStrategy::MergeToHead,
        "echo agent > src/a.txt && git commit -qam agent",
    );
    options.session.name = Some("clash".into());
    // The user commits a clash while the agent works.
    let repo = env.repo.clone();
    let clash = move || {
        std::fs::write(repo.join("src/a.txt"), "user\n").unwrap();
        let words = [
            "-c",
            "user.name=u",
            "-c",
            "user.email=u",
            "commit",
            "-qam",
            "user",
        ];
        let done = std::process::Command::new("git")
            .args(words)
            .current_dir(&repo)
            .status();
        assert!(done.unwrap().success());
    };
    options.caller.events = EventSink::new(move |event| {
        if matches!(event, Event::IterationStarted { .. }) {
            clash();
        }
    });
    let report = run_ok(options);
    assert!(
        matches!(report.landing, Landing::Kept { .. }),
        "{:?}",
        report.landing
    );
    assert_eq!(env.subjects("main"), ["first", "user"]);
    assert_eq!(env.subjects("cofferdam/clash"), ["first", "agent"]);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    env.assert_sound();
}

#[test]
fn local_changes_that_overlap_stay_and_the_branch_is_kept() {
    let env = Env::new();
    env.write("src/a.txt", "mine\n");
    let report = run_ok(env.script(
        BranchStrategy::MergeToHead,
        "echo agent > src/a.txt && git commit -qam agent",
    ));
    assert!(
        matches!(report.landing, Landing::Kept { .. }),
        "{:?}",
        report.landing
    );
    assert_eq!(env.read("src/a.txt"), "mine\n");
    assert_eq!(env.subjects("main"), ["first"]);
    env.assert_sound();
}

#[test]
fn commits_on_another_branch_or_a_detached_head_come_home() {
    for script in [
        "git checkout -q -b elsewhere && git commit -qm work --allow-empty",
        "git checkout -q --detach && git commit -qm work --allow-empty",
        "git commit -qm early --allow-empty; git checkout -q -b elsewhere; git commit -qm work --allow-empty",
    ] {
        let env = Env::new();
        let report = run_ok(env.script(BranchStrategy::Head, script));
        assert_eq!(report.commits.last().unwrap().subject, "work", "{script}");
        assert_eq!(env.subjects("main").last().unwrap(), "work", "{script}");
        assert!(env.said().contains("BranchSwitched"), "{script}");
        assert_eq!(env.refs().lines().count(), 1, "{}", env.refs());
        env.assert_sound();
    }
}

#[test]
fn commits_on_two_branches_are_both_kept() {
    let env = Env::new();
    let script = "git checkout -q -b side; git commit -qm side --allow-empty; git checkout -q main; git commit -qm work --allow-empty";
    run_ok(env.script(BranchStrategy::Head, script));
    assert_eq!(env.subjects("main"), ["first", "work"]);
    let refs = env.git(&[
        "for-each-ref",
        "--format=%(contents:subject)",
        "refs/cofferdam",
    ]);
    assert_eq!(refs, "side");
}

#[test]
fn rewritten_history_is_refused_and_kept() {
    let env = Env::new();
    let before = env.refs();
    let report = run_ok(env.script(BranchStrategy::Head, "git commit -q --amend -m rewritten"));
    let Landing::Refused { pack, .. } = &report.landing else {
        panic!("{:?}", report.landing)
    };
    assert!(pack.as_ref().unwrap().exists());
    assert_eq!(env.refs(), before);
    env.assert_sound();
}

#[test]
fn going_back_to_an_old_commit_is_nothing_to_land() {
    let env = Env::new();
    env.write("b", "b\n");
    env.commit_all("second");
    let before = env.refs();
    for script in ["git checkout -q HEAD~1", "git reset -q --hard HEAD~1"] {
        let report = run_ok(env.script(BranchStrategy::MergeToHead, script));
        assert_eq!(report.landing, Landing::Nothing, "{script}");
    }
    assert_eq!(env.refs(), before);
}

#[test]
fn other_refs_of_the_agent_stay_in_the_sandbox() {
    let env = Env::new();
    env.git(&["tag", "v1"]);
    env.git(&["branch", "release"]);
    let before = env.refs();
    let script = "git tag -f v1 2>/dev/null; git tag v2; git update-ref refs/heads/release HEAD; \
                  git update-ref refs/remotes/origin/x HEAD; git branch -D release; true";
    run_ok(env.script(BranchStrategy::Head, script));
    assert_eq!(env.refs(), before);
}

#[test]
fn a_detached_checkout_takes_commits() {
    let env = Env::new();
    env.git(&["checkout", "-q", "--detach"]);
    run_ok(env.script(BranchStrategy::Head, COMMIT));
    assert_eq!(env.subjects("HEAD"), ["first", "work"]);
    assert_eq!(env.subjects("main"), ["first"]);
    let error = run(env.script(BranchStrategy::MergeToHead, COMMIT)).unwrap_err();
    assert!(error.to_string().contains("detached"), "{error}");
}

#[test]
fn a_branch_that_is_checked_out_is_refused_before_anything_is_made() {
    let env = Env::new();
    let other = env.dir.path().join("other");
    env.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "busy",
        other.to_str().unwrap(),
    ]);
    for name in ["main", "busy"] {
        let error = run(env.script(branch(name), COMMIT)).unwrap_err();
        assert!(error.to_string().contains("checked out"), "{error}");
    }
    env.assert_no_state();
}

#[test]
fn staged_and_unstaged_work_of_the_user_survives_head() {
    let env = Env::new();
    env.write("staged.txt", "staged\n");
    env.git(&["add", "staged.txt"]);
    env.write("src/a.txt", "edited\n");
    env.write("untracked.txt", "u\n");
    run_ok(env.script(BranchStrategy::Head, COMMIT));
    assert_eq!(env.subjects("main"), ["first", "work"]);
    assert_eq!(
        env.git(&["status", "--porcelain"]),
        " M src/a.txt\nA  staged.txt\n?? untracked.txt"
    );
    assert_eq!(env.read("src/a.txt"), "edited\n");
    // All is as it was, so nothing needs to be kept of it.
    let own = || env.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam"]);
    assert_eq!(own(), "");
    assert!(env.said().contains("BeforeRecorded"), "{}", env.said());
    run_ok(env.script(BranchStrategy::Head, "rm untracked.txt"));
    let before = own();
    assert!(before.ends_with("/before"), "{before}");
    let recorded = env.git(&["show", &format!("{before}:untracked.txt")]);
    assert_eq!(recorded, "u");
}

// covers: S3-93
#[test]
fn the_secrets_of_other_branches_are_not_in_the_sandbox() {
    let env = Env::new();
    env.git(&["checkout", "-q", "-b", "secret"]);
    env.write("key", "SECRET-BLOB\n");
    env.commit_all("secret");
    let secret = env.git(&["rev-parse", "HEAD:key"]);
    env.git(&["checkout", "-q", "main"]);
    env.write("stashed", "x\n");
    env.git(&["stash", "-u", "-q"]);
    env.git(&[
        "remote",
        "add",
        "origin",
        "https://user:token@example.com/x",
    ]);
    let script = format!(
        "git cat-file -e {secret} && exit 1; git remote | grep . && exit 2; git stash list | grep . && exit 3; \
         test \"$(git for-each-ref | wc -l)\" = 1 || exit 4; test -e /.cofferdam || exit 5; \
         git cat-file -e HEAD:README.md"
    );
    run_ok(env.script(BranchStrategy::Head, &script));
}

/// What a checkout and its repository have of their user's beside the history that goes in: nothing of it is in files of a
/// sandbox's own, nor in its repository.
#[test]
fn secrets_of_a_checkout_are_not_in_files_of_its_own() {
    let env = Env::new();
    let key = env.dir.path().join("user/.ssh/id_rsa");
    std::fs::create_dir(key.parent().unwrap()).unwrap();
    std::fs::write(&key, "SECRET-KEY\n").unwrap();
    std::os::unix::fs::symlink(&key, env.repo.join("tracked-link")).unwrap();
    env.write(".gitignore", ".env\n");
    env.commit_all("a link to a key");
    std::os::unix::fs::symlink(&key, env.repo.join("link")).unwrap();
    env.write(".env", "SECRET-ENV\n");
    env.write("stashed", "SECRET-STASH\n");
    env.git(&["stash", "push", "-q", "-u", "--", "stashed"]);
    env.write("dangling", "SECRET-DANGLING\n");
    env.git(&["hash-object", "-w", "dangling"]);
    std::fs::remove_file(env.repo.join("dangling")).unwrap();
    let url = "https://user:SECRET-TOKEN@example.com/x";
    env.git(&["remote", "add", "origin", url]);
    env.git(&["checkout", "-q", "-b", "secret"]);
    env.write("blob", "SECRET-BLOB\n");
    env.git(&["add", "blob"]);
    env.git(&["commit", "-qm", "SECRET-SUBJECT"]);
    env.git(&["checkout", "-q", "main"]);
    // Another sandbox has it: what that was given lies beside what this one is given.
    run_ok(env.script(branch("secret"), "grep -q SECRET blob"));
    // In two pieces, because the words themselves are in a program's arguments.
    let script = "
        found() {
            cat tracked-link link .env ~/.ssh/id_rsa 2>/dev/null | grep -a \"$1\"
            grep -rasl \"$1\" . ~ /.cofferdam /tmp /run
            git cat-file --batch-all-objects --batch | grep -a \"$1\"
            git config --list | grep \"$1\"; git log --all --reflog --format=%B | grep \"$1\"; env | grep \"$1\"
        }
        test $(found hel''lo | wc -l) -ge 2 || exit 9
        found SEC''RET && exit 8; test -L tracked-link || exit 7; test ! -e link || exit 6
        git commit -qm work --allow-empty";
    run_ok(env.script(BranchStrategy::MergeToHead, script));
    assert_eq!(env.subjects("main").last().unwrap(), "work");
}

/// Invariants 1 and 4: what the host's git opens cannot be written from inside, and neither can the
/// hooks that the sandbox was given.
#[test]
fn the_hosts_git_directory_is_out_of_reach() {
    for strategy in [BranchStrategy::Head, branch("work")] {
        let env = Env::new();
        let dot_git = env.repo.join(".git");
        env.git(&["config", "core.hooksPath", "dev/hooks"]);
        let config = std::fs::read(dot_git.join("config")).unwrap();
        let report = run_ok(env.bind(
            strategy.clone(),
            "git config alias.x '!id' && touch \"$(git rev-parse --git-dir)/planted\" || exit 1
             touch \"$(git rev-parse --git-dir)/hooks/planted\" 2>/dev/null && exit 2
             test -d dev/hooks || exit 8
             touch dev/hooks/planted 2>/dev/null && exit 3
             if test -f .git; then
                 test \"$(cat .git)\" = 'gitdir: /.cofferdam/git' || exit 4
                 (echo 'gitdir: /tmp' > .git) 2>/dev/null && exit 5
                 rm -f .git 2>/dev/null && exit 6
             fi
             mv .git moved 2>/dev/null && exit 7
             echo draft > draft.txt; git commit -qm work --allow-empty",
        ));
        assert_eq!(std::fs::read(dot_git.join("config")).unwrap(), config);
        assert!(!dot_git.join("planted").exists());
        assert!(!dot_git.join("hooks/planted").exists());
        if let Some(worktree) = report.preserved_worktree {
            let pointer = std::fs::read_to_string(worktree.join(".git")).unwrap();
            let admin = dot_git.canonicalize().unwrap().join("worktrees");
            assert!(
                pointer.starts_with(&format!("gitdir: {}", admin.display())),
                "{pointer}"
            );
            let admin = pointer.trim_end().strip_prefix("gitdir: ").unwrap();
            assert!(!std::path::Path::new(admin).join("planted").exists());
        } else {
            assert_eq!(strategy, BranchStrategy::Head);
        }
    }
}

#[test]
fn git_directories_that_an_agent_leaves_are_moved_out() {
    let env = Env::new();
    // Nothing that would be moved out before the end.
    let script = "git init -q deep/down";
    run_ok(env.script(BranchStrategy::Head, script));
    assert!(env.repo.join("deep/down").is_dir());
    assert!(!env.repo.join("deep/down/.git").exists());
    assert!(env.said().contains("NestedGitMoved"), "{}", env.said());
}

/// An agent that can write the checkout could lead git out of it while git writes there.
#[test]
fn nothing_is_merged_into_a_checkout_where_an_agent_is_at_work() {
    let env = Env::new();
    let outside = env.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        "n=0; until test -e go || test $n = 600; do sleep 0.1; n=$((n+1)); done; \
         mv src real; ln -s {} src; until test -e end || test $n = 600; do sleep 0.1; n=$((n+1)); done; \
         rm src end go; mv real src",
        outside.display()
    );
    let other = env.script(BranchStrategy::Head, &script);
    let at_work = std::thread::spawn(move || run_ok(other));
    let began = std::time::Instant::now();
    while !env.said().contains("IterationStarted") {
        assert!(began.elapsed().as_secs() < 30, "{}", env.said());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    env.write("go", "");
    let work = "echo x > src/new && git add . && git commit -qm work";
    let report = run_ok(env.script(BranchStrategy::MergeToHead, work));
    env.write("end", "");
    at_work.join().unwrap();
    let Landing::Kept { reference, why } = &report.landing else {
        panic!("{}", report.landing);
    };
    assert!(why.contains("at work"), "{why}");
    assert_eq!(env.subjects(reference), ["first", "work"]);
    assert_eq!(env.subjects("main"), ["first"]);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // With nobody there it lands.
    let report = run_ok(env.script(BranchStrategy::MergeToHead, work));
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
}
