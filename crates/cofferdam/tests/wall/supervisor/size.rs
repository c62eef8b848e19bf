//! What supervisors cost when nothing happens.

use std::fs;
use std::time::Duration;

use cofferdam_lab::skip;

use super::life::started_elsewhere;
use super::world::{RULES, Sandbox, field};
use crate::support::block_on;

const SANDBOXES: usize = 50;
/// The share of each, in KiB, that the whole of a sandbox's own may have.
const MOST: u64 = 5 << 10;

/// The proportional share of a process, in KiB.
fn share(process: u32) -> std::io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    Ok(number.parse().unwrap())
}

/// Each has a starter of its own, as in life: they share no memory file.
#[test]
fn fifty_are_small() {
    let sandboxes: Vec<_> = (0..SANDBOXES).map(|_| Sandbox::new(&[])).collect();
    sandboxes.iter().for_each(started_elsewhere);
    block_on(async {
        let mut shares = Vec::new();
        for sandbox in &sandboxes {
            let status = sandbox.status().await.unwrap();
            match share(status.process) {
                Ok(share) => shares.push(share),
                Err(_) => {
                    return skip!("only root sees the memory of a process that cannot be dumped");
                }
            }
        }
        let sum: u64 = shares.iter().sum();
        let largest = shares.iter().max().unwrap();
        println!(
            "{SANDBOXES} supervisors: {} KiB each, {largest} KiB at most",
            sum / 50
        );
        // A process that does nothing has more than this.
        assert!(sum / 50 > 50, "{shares:?}");
        assert!(*largest <= MOST, "{shares:?}");
    });
}

#[test]
fn an_idle_one_sleeps() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (supervisor, status, _) = sandbox.handed_over().await;
        let switches = || {
            let of = |name| field(status.process, name).parse::<u64>().unwrap();
            (
                of("voluntary_ctxt_switches"),
                of("nonvoluntary_ctxt_switches"),
            )
        };
        // Until the last answer is taken and its client forgotten.
        let mut before = switches();
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = switches();
            if now == before {
                break;
            }
            before = now;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(switches(), before);
        // The control: it wakes up when it is asked.
        supervisor.status().await.unwrap();
        assert_ne!(switches(), before);
    });
}
