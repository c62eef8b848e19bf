//! State that an older version left: a sandbox with kept commits, and three whose commands were killed while their agents
//! worked: in a linked worktree, in a private copy, in the checkout. `state-1.tar.gz` was written by the last version whose
//! records had format 1, in `/tmp/v1`.

use std::path::Path;
use std::process::Command;

use cofferdam::home::Home;
use cofferdam::registry;
use cofferdam::session::manage::{self, State};

use crate::support::{Env, block_on, gc, host_git, target};

fn unpacked() -> Env {
    let mut env = Env::new();
    let place = env.dir.path().join("v1");
    std::fs::create_dir(&place).unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/session/state-1.tar.gz");
    let done = Command::new("tar")
        .args(["--no-same-owner", "-xzf"])
        .arg(archive)
        .current_dir(&place)
        .status()
        .unwrap();
    assert!(done.success());
    env.repo = place.join("repo").canonicalize().unwrap();
    env.home = Home::new(place.join("home/.cofferdam"));
    let mut files = vec![
        env.repo.join(".git/worktrees/dead/gitdir"),
        env.repo.join(".cofferdam/worktrees/dead/.git"),
        env.home.written(),
    ];
    files.extend(
        registry::ids(&env.home)
            .unwrap()
            .into_iter()
            .map(|id| env.home.sandbox(id).join("record.json")),
    );
    let real = place.canonicalize().unwrap();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("/tmp/v1", real.to_str().unwrap());
        std::fs::write(file, text).unwrap();
    }
    env
}

fn listed(env: &Env) -> Vec<(String, State, bool)> {
    let cancel = tokio_util::sync::CancellationToken::new();
    let git = host_git();
    let list = manage::list(&env.home, &git, Some(&env.repo), None, &cancel);
    let list = block_on(list).unwrap().into_iter();
    list.map(|one| (one.name.to_string(), one.state, one.interrupted))
        .collect()
}

#[test]
fn state_of_version_1_is_listed_collected_and_deleted() {
    let env = unpacked();
    let names = listed(&env);
    let expected = [
        ("clash", false),
        ("dead", true),
        ("copied", true),
        ("checkout", true),
    ];
    let found: Vec<_> = names.iter().map(|one| (one.0.as_str(), one.2)).collect();
    assert_eq!(found, expected, "{names:?}");
    assert_eq!(names[0].1, State::Stopped);
    assert_eq!(env.subjects("main"), ["first", "user"]);
    let report = gc(&env);
    let mut recovered: Vec<_> = report.recovered.iter().map(|one| &*one.name).collect();
    recovered.sort_unstable();
    assert_eq!(recovered, ["checkout", "copied", "dead"], "{report:?}");
    assert_eq!(env.subjects("dead"), ["first", "user", "dead"]);
    assert_eq!(env.subjects("copied"), ["first", "user", "copied"]);
    // The file lies in the checkout already, and is no longer beside its history.
    assert_eq!(env.subjects("main"), ["first", "user", "checkout"]);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    assert_eq!(env.subjects("cofferdam/clash"), ["first", "agent"]);
    // What is in no commit is kept with the copy.
    let copied = report.recovered.iter().find(|one| one.name == "copied");
    let kept = copied.unwrap().preserved.as_ref().unwrap();
    let draft = std::fs::read_to_string(kept.join("draft")).unwrap();
    assert_eq!(draft, "draft\n");
    // They are told of until their user lets go of them; one that has nothing more to keep is gone.
    let told = listed(&env);
    let names: Vec<_> = told.iter().map(|one| one.0.as_str()).collect();
    assert_eq!(names, ["clash", "dead", "copied"]);
    let ended = told.iter().all(|one| one.1 == State::Stopped && !one.2);
    assert!(ended, "{told:?}");
    // What is kept goes by force alone.
    let refused = target(&env, &"copied").try_delete(false);
    assert!(refused.is_err(), "{refused:?}");
    for name in names {
        target(&env, &name).delete();
    }
    assert_eq!(listed(&env), []);
    env.assert_no_state();
    env.assert_sound();
}

#[test]
fn state_of_a_newer_version_is_named_and_not_touched() {
    let env = unpacked();
    let files: Vec<_> = registry::ids(&env.home)
        .unwrap()
        .into_iter()
        .map(|id| env.home.sandbox(id).join("record.json"))
        .collect();
    for file in &files {
        std::fs::write(file, r#"{"version": 9, "name": {"of": "another kind"}}"#).unwrap();
    }
    let said = manage::unreadable(&env.home).unwrap();
    assert_eq!(said.len(), files.len(), "{said:?}");
    assert!(
        said[0].to_string().contains("newer version (format 9)"),
        "{said:?}"
    );
    gc(&env);
    for file in &files {
        assert!(
            std::fs::read_to_string(file)
                .unwrap()
                .contains("another kind")
        );
        assert!(file.parent().unwrap().join("lock").exists());
    }
    assert_eq!(env.subjects("cofferdam/clash"), ["first", "agent"]);
}
