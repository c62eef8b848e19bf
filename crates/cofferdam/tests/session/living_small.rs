//! What a sandbox that stays costs while nothing happens in it.

use cofferdam::session::Session;
use cofferdam::session::living::Named;
use cofferdam::wall::supervisor::Supervisor;
use cofferdam_lab::skip;

use crate::living::{bound, caller, delete, open, sh};
use crate::support::{Env, block_on, provider};

/// Of all that is ours and only there for this one, in KiB: docs/benchmarks.md says 5 MB.
const MOST: u64 = 5_000_000 / 1024;

/// The proportional share of a process, in KiB. Nothing where only root sees it.
fn share(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    Some(number.parse().unwrap())
}

/// Guest and supervisor, after they were made to do something: what they took for it is given back.
#[test]
fn an_idle_one_takes_little_memory() {
    let env = Env::new();
    block_on(async {
        let made = bound(&env, "one");
        drop(Session::create(&caller(&env), &made).await.unwrap());
        let named = Named::find(&caller(&env), &env.repo, "one").await.unwrap();
        let session = Session::open(&caller(&env), named, &provider())
            .await
            .unwrap();
        let state = caller(&env).home.sandbox(session.id());
        let (_, status) = Supervisor::connect(&state).await.unwrap().unwrap();
        let guest = session.process().unwrap();
        assert_ne!(guest, status.process);
        // Much is printed, and much is read.
        let printed = sh(&session, "head -c 4000000 /dev/zero | tr '\\0' x").await;
        assert_eq!(printed.len(), 4_000_000);
        for _ in 0..20 {
            assert_eq!(sh(&session, "echo on").await, "on");
        }
        session.detach();
        let shares = [guest, status.process].map(share);
        println!("guest and supervisor: {shares:?} KiB");
        if let [Some(guest), Some(supervisor)] = shares {
            assert!(guest > 50 && supervisor > 50, "{shares:?}");
            assert!(guest + supervisor <= MOST, "{shares:?}");
        } else {
            skip!("only root sees the memory of a process that cannot be dumped");
        }
        drop(open(&env, "one").await.unwrap());
        delete(&env, "one").await;
    });
}
