//! Work that an agent leaves beside its branch: whatever has a name in its repository comes home under
//! one of ours, or stays in the state directory and is named. Nothing goes without a word.

use std::path::{Path, PathBuf};

use cofferdam::RunReport;
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::Landing;

use super::{HEAD, branch, whole_ok};
use crate::support::{Env, gc, target};

const MERGE: BranchStrategy = BranchStrategy::MergeToHead;

fn subjects(env: &Env) -> Vec<String> {
    env.subjects("--all")
}

fn state(env: &Env, report: &RunReport) -> PathBuf {
    env.home.sandbox(report.id)
}

/// What a kept pack brings when its user takes it in, by the command that the documents name.
fn take_in(env: &Env, pack: &Path) {
    let script = format!("git index-pack --stdin --fix-thin < '{}'", pack.display());
    let done = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(&env.repo)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn every_branch_comes_home_whatever_their_number() {
    for strategy in [HEAD, MERGE, branch("other")] {
        let env = Env::new();
        let script = "
            b=$(git symbolic-ref --short HEAD 2>/dev/null || git rev-parse HEAD)
            for i in $(seq 24); do
                git checkout -q -b side-$i $b; echo $i > f$i; git add f$i; git commit -qm side-$i
            done
            git checkout -q $b; echo own > own; git add own; git commit -qm own";
        let report = whole_ok(
            &env,
            env.script(strategy, script),
            &["refs/heads/main", "refs/heads/other"],
        );
        assert!(matches!(report.landing, Landing::Landed { .. }));
        let found = subjects(&env);
        for number in 1..=24 {
            let name = format!("side-{number}");
            assert!(found.contains(&name), "{name}: {found:?}");
            let told = report.beside.iter().find(|one| one.names == [name.clone()]);
            let reference = &told.unwrap_or_else(|| panic!("{name}: {report:#?}")).at;
            assert_eq!(env.subjects(reference).last(), Some(&name));
        }
        // The tip that landed is not moved along with the others, and nothing else is taken along.
        assert_eq!(report.commits.len(), 1, "{:?}", report.commits);
        assert!(env.said().contains("side-1"), "{}", env.said());
        // Nothing of it goes by itself.
        assert!(gc(&env).recovered.is_empty());
        assert!(state(&env, &report).exists());
        let later = subjects(&env);
        assert_eq!(found.len(), later.len());
    }
}

#[test]
fn tags_stashes_notes_and_heads_of_worktrees_come_home() {
    let cases = [
        (
            "git checkout -q --detach; git commit -qm work --allow-empty; git tag t; git checkout -q $b",
            "refs/tags/t",
        ),
        (
            "git checkout -q --detach; git commit -qm work --allow-empty; git tag -a -m note t; git checkout -q $b",
            "refs/tags/t",
        ),
        (
            "git commit-tree -p HEAD -m work HEAD^{tree} > /tmp/c; git update-ref refs/odd/place $(cat /tmp/c)",
            "refs/odd/place",
        ),
        (
            "git worktree add -q --detach /tmp/w; cd /tmp/w; git commit -qm work --allow-empty",
            "the worktree w",
        ),
        (
            "echo x > README.md; git stash -q -m work; git stash drop -q; echo y > README.md; git stash -q -m 'other'; echo z > README.md; git stash -q -m work",
            "refs/stash",
        ),
    ];
    for (script, name) in cases {
        let env = Env::new();
        let script = format!("b=$(git branch --show-current); {script}");
        let report = whole_ok(&env, env.script(MERGE, &script), &[]);
        assert!(matches!(report.landing, Landing::Nothing), "{script}");
        let names: Vec<_> = report.beside.iter().flat_map(|one| &one.names).collect();
        assert!(names.contains(&&name.to_owned()), "{script}: {report:#?}");
        let found = subjects(&env);
        assert!(
            found.iter().any(|subject| subject.contains("work")),
            "{script}: {found:?}"
        );
    }
    // Every stash, not the newest alone; what the agent dropped itself is nobody's.
    let env = Env::new();
    let script = "for i in 1 2 3; do echo $i > README.md; git stash -q -m stash-$i; done";
    whole_ok(&env, env.script(MERGE, script), &[]);
    let found = subjects(&env).join("\n");
    for number in 1..=3 {
        assert!(found.contains(&format!("stash-{number}")), "{found}");
    }
}

#[test]
fn what_is_beyond_the_number_stays_in_one_pack_with_a_list() {
    let env = Env::new();
    let script = "
        tree=$(git rev-parse HEAD^{tree}); base=$(git rev-parse HEAD)
        for i in $(seq 100); do
            echo \"create refs/heads/side-$i $(git commit-tree -p $base -m side-$i $tree)\"
        done | git update-ref --stdin
        git commit -qm own --allow-empty; git update-ref refs/odd/blob $(echo text | git hash-object -w --stdin)";
    let report = whole_ok(&env, env.script(MERGE, script), &["refs/heads/main"]);
    assert!(matches!(report.landing, Landing::Landed { .. }));
    let state = state(&env, &report);
    let list = std::fs::read_to_string(state.join("rest.refs")).unwrap();
    let named: usize = report.beside.iter().map(|one| one.names.len()).sum();
    assert_eq!(named, 101, "{report:#?}");
    take_in(&env, &state.join("rest.pack"));
    let home = subjects(&env).len() - 2;
    assert_eq!(home + list.lines().count(), 100 + 1, "{list}");
    for line in list.lines() {
        let (id, name) = line.split_once(' ').unwrap();
        let kind = env.git(&["cat-file", "-t", id]);
        let want = if name == "refs/odd/blob" {
            "blob"
        } else {
            "commit"
        };
        assert_eq!(kind, want, "{line}");
    }
    // It stays until its user lets go of it.
    assert!(gc(&env).removed.is_empty());
    assert!(state.join("rest.pack").exists());
    target(&env, &report.name).delete();
    env.assert_no_state();
}
