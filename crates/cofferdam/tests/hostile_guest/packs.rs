//! Packs: a real one, cut, flipped, repeated, and noise.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Env, command, run};
use cofferdam::sandbox::{CopyStrategy, Isolated};
use cofferdam::{RunError, RunReport};

use crate::world::{Hostile, LIMIT, Pretence, env, is_cleaned_up, users_refs};

/// Packs of an isolated sandbox: a real one, cut, flipped, repeated, and noise.
#[test]
fn packs_from_a_fuzzer() {
    let env = env();
    let (tip, pack) = real_pack(&env);
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    // The whole pack lands: what is changed below is what refuses it.
    let landed = survives_pack(&env, &tip, pack.clone(), "the pack itself").unwrap();
    assert_eq!(landed.commits.len(), 1);
    for round in 0..24 {
        let mut bytes = pack.clone();
        match round % 4 {
            0 => bytes.truncate(random(pack.len())),
            1 => {
                let at = random(pack.len());
                bytes[at] ^= 1 << random(8);
            }
            2 => {
                bytes = (0..random(5000))
                    .map(|_| u8::try_from(random(256)).unwrap())
                    .collect();
            }
            _ => {
                let at = random(pack.len());
                let insert: Vec<u8> = bytes[..at].to_vec();
                bytes.splice(at..at, insert);
            }
        }
        let env = self::env();
        let (tip, _) = real_pack(&env);
        let what = format!("round {round}");
        let result = survives_pack(&env, &tip, bytes, &what);
        if let Ok(report) = &result {
            assert_eq!(report.commits.len(), 0, "{what}: {report:?}");
        }
        is_cleaned_up(&env, &what);
    }
}

/// A commit on `main` as an agent would make it, packed; the repository forgets it again.
fn real_pack(env: &Env) -> (String, Vec<u8>) {
    let apart = env.dir.path().join("apart");
    let git = |directory: &Path, arguments: &[&str]| {
        let done = env.try_git(directory, arguments);
        assert!(done.status.success(), "{arguments:?}");
        done.stdout
    };
    git(env.dir.path(), &["clone", "-q", "repo", "apart"]);
    fs::write(apart.join("new.txt"), "new\n").unwrap();
    fs::write(apart.join("README.md"), "hello\nagain\n").unwrap();
    git(&apart, &["add", "-A"]);
    git(
        &apart,
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit",
            "-qm",
            "new",
        ],
    );
    let tip = String::from_utf8(git(&apart, &["rev-parse", "HEAD"]))
        .unwrap()
        .trim()
        .to_owned();
    git(
        &apart,
        &["bundle", "create", "-q", "b", "origin/main..HEAD"],
    );
    let bundle = fs::read(apart.join("b")).unwrap();
    let start = bundle
        .windows(6)
        .position(|bytes| bytes == b"\n\nPACK")
        .unwrap()
        + 2;
    (tip, bundle[start..].to_vec())
}

#[track_caller]
fn survives_pack(env: &Env, tip: &str, pack: Vec<u8>, what: &str) -> Result<RunReport, RunError> {
    let tip = tip.to_owned();
    let hostile = Hostile::new(move |request| {
        let line = request
            .arguments
            .last()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if line.contains("pack-objects") {
            Pretence::says(pack.clone())
        } else if line.contains("rev-parse") {
            Pretence::says(format!("{tip}\nrefs/heads/evil\n{tip} refs/heads/evil\n"))
        } else {
            Pretence::says("")
        }
    });
    let strategy = CopyStrategy::Branch {
        branch: "cofferdam/fuzz".parse().unwrap(),
        base: None,
    };
    let mut options = env.with(Isolated::new(hostile, strategy), command(&["/bin/true"]));
    options.session.timeouts.collect = Duration::from_secs(5);
    let before = users_refs(env);
    let began = Instant::now();
    let result = run(options);
    assert!(
        began.elapsed() < LIMIT,
        "{what}: it took {:?}",
        began.elapsed()
    );
    let after: Vec<String> = users_refs(env)
        .into_iter()
        // The branch that the sandbox was given.
        .filter(|line| !line.starts_with("refs/heads/cofferdam/fuzz"))
        .collect();
    assert_eq!(after, before, "{what}");
    env.git(&["fsck", "--full", "--strict", "--no-dangling"]);
    result
}
