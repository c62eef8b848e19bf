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

/// Names that mean something to a git, a shell or a file system are only names, and only ours come of them.
#[test]
fn names_that_mean_something_elsewhere_come_home_under_ours() {
    let long = format!("refs/heads/{}", "x".repeat(300));
    let names = [
        "refs/heads/../../hooks/post-merge",
        "refs/heads/-x",
        "refs/heads/--upload-pack=touch",
        "refs/heads/HEAD",
        "HEAD",
        "../outside",
        "/tmp/outside",
        "refs/heads/A",
        "refs/heads/a",
        "refs/heads/x.lock",
        "refs/heads/@{1}",
        "refs/heads/a b",
        "refs/heads/$(touch x)",
        &long,
    ];
    let env = Env::new();
    let mut script = "d=$(git rev-parse --git-dir); base=$(git rev-parse HEAD)\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        script += &format!(
            "echo \"$(git commit-tree -p $base -m odd-{number} HEAD^{{tree}}) \"'{name}' >> /tmp/packed\n"
        );
    }
    // One in two lines, and one that is a path of its own.
    script += "c=$(git commit-tree -p $base -m in-lines HEAD^{tree}); printf '%s\\n' $c > \"$d/refs/heads/$(printf 'b\\nc')\"
        git commit -qm own --allow-empty; cat /tmp/packed >> $d/packed-refs";
    let listed = |place: PathBuf| {
        let entries = std::fs::read_dir(place).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|one| one.file_name()).collect();
        names.sort();
        names
    };
    let git = env.repo.join(".git");
    let before = (listed(git.join("hooks")), listed(env.dir.path().to_owned()));
    let report = whole_ok(&env, env.script(MERGE, &script), &["refs/heads/main"]);
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    let found = subjects(&env);
    for (number, name) in names.iter().enumerate() {
        let subject = format!("odd-{number}");
        assert!(found.contains(&subject), "{name}: {found:?}");
    }
    assert!(found.contains(&"in-lines".to_owned()), "{found:?}");
    let own = format!("refs/cofferdam/{}/extra-", report.id);
    let source = format!("refs/heads/{}", report.source_branch);
    let is_id = |name: &str| name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
    for line in env.refs().lines() {
        let (name, _) = line.split_once(' ').unwrap();
        let is_ours = name.strip_prefix(&own).is_some_and(is_id);
        // Where nobody can tell what is uncommitted in a copy, it stays, and its branch with it.
        let known = ["refs/heads/main", &*source];
        assert!(is_ours || known.contains(&name), "{line}");
    }
    let after = (listed(git.join("hooks")), listed(env.dir.path().to_owned()));
    assert_eq!(before, after);
    assert!(!Path::new("/tmp/outside").exists());
    let told: Vec<&String> = report.beside.iter().flat_map(|one| &one.names).collect();
    assert!(
        told.iter().all(|name| !name.contains(char::is_control)),
        "{told:?}"
    );
}
