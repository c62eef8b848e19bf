//! The same agent brings the same home whatever its strategy and mode: the commits by their ids, the refusals by their words.

use std::collections::BTreeMap;
use std::process::Command;

use cofferdam::session::Landing;
use cofferdam_lab::way::Way;

use crate::support::{Env, run_ok};

const DATE: &str = "2026-01-02T03:04:05+00:00";

/// A repository whose one commit has the same id each time.
fn env() -> Env {
    let env = Env::new();
    let done = Command::new("git")
        .args(["commit", "-q", "--amend", "--no-edit", "--date", DATE])
        .env("GIT_COMMITTER_DATE", DATE)
        .current_dir(&env.repo)
        .status();
    assert!(done.unwrap().success());
    env
}

/// What came home of an agent that does this, without what says where it was: by that all ways are compared.
fn brought(way: Way, script: &str) -> String {
    let env = env();
    let script = format!(
        "export GIT_AUTHOR_DATE={DATE} GIT_COMMITTER_DATE={DATE}; b=$(git symbolic-ref --short HEAD)\n{script}"
    );
    let report = run_ok(env.in_way(way, &script));
    let landing = match &report.landing {
        Landing::Landed { .. } => "landed".to_owned(),
        Landing::Refused { why, .. } => format!("refused: {why}"),
        other => panic!("{way}: {script}: {other}"),
    };
    let target = way.strategy.lands_on();
    // A branch of the caller's is made with the sandbox or with its first commit.
    let target = match env.git(&["branch", "--list", target]).as_str() {
        "" => "main",
        _ => target,
    };
    let history = env.git(&["log", "--format=%H %T %P %s", target, "--"]);
    let beside: Vec<_> = (report.beside.iter())
        .map(|one| (&one.names, &one.refused))
        .collect();
    let notes = &report.notes;
    assert_eq!(
        env.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    env.assert_sound();
    format!(
        "{landing}\n{history}\n{beside:?}\n{notes:?}\n{}",
        report.diffstat
    )
}

#[test]
fn the_gate_finds_the_same_in_every_way() {
    let scripts = [
        // Every kind of change, a merge, and a branch beside it.
        (
            "landed",
            "set -e; echo new > new; printf '#!/bin/sh\\n' > run; chmod +x run; ln -s run link; git rm -q README.md
             git mv src lib; mkdir -p deep/er; printf 'a\\0b' > deep/er/binary; git add .; git commit -qm all
             git checkout -qb side; echo s > s; git add s; git commit -qm side; git checkout -q $b
             git merge -q --no-ff -m merged side; git branch -D side -q
             git checkout -qb beside; git commit -q --allow-empty -m beside; git checkout -q $b",
        ),
        (
            "refused",
            "o=$(echo x | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$o,ok
             t=$(printf '100644 blob %s\\tconfig\\n' $o | git mktree)
             t=$(printf '040000 tree %s\\t.GIT\\n' $t | git mktree)
             git update-ref HEAD $(git commit-tree -p HEAD -m evil $t)",
        ),
        (
            "refused",
            "mkdir .husky; echo evil > .husky/pre-commit; git add -f .husky; git commit -qm hook",
        ),
    ];
    for (wanted, script) in scripts {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for way in Way::ALL {
            let outcome = brought(way, script);
            assert!(outcome.starts_with(wanted), "{way}: {script}: {outcome}");
            found.entry(outcome).or_default().push(way.to_string());
        }
        assert_eq!(found.len(), 1, "{script}: {found:#?}");
    }
}
