//! What supervisors cost when nothing happens.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use cofferdam_lab::skip;

use super::life::started_elsewhere;
use super::world::{RULES, Sandbox, field};
use crate::support::{House, block_on, until};

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

/// What a process runs from: its device and number, its size in bytes, and whether it has a place among the files.
fn executable(process: u32) -> ((u64, u64), u64, bool) {
    let path = format!("/proc/{process}/exe");
    let found = fs::metadata(&path).unwrap();
    (
        (found.dev(), found.ino()),
        found.len(),
        fs::read_link(path).unwrap().exists(),
    )
}

/// Each has a starter of its own, as in life: they share no memory file. All are one user's.
#[test]
fn fifty_are_small() {
    let mut sandboxes = vec![Sandbox::new(&[])];
    for _ in 1..SANDBOXES {
        let mut house = House::new();
        house.home = sandboxes[0].house.home.clone();
        sandboxes.push(Sandbox::within(house, &[]));
    }
    sandboxes.iter().for_each(started_elsewhere);
    block_on(async {
        let mut shares = Vec::new();
        let mut copies = BTreeMap::new();
        for sandbox in &sandboxes {
            let status = sandbox.status().await.unwrap();
            match share(status.process) {
                Ok(share) => {
                    let (file, size, placed) = executable(status.process);
                    copies.insert(file, (size, placed));
                    shares.push(share);
                }
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
        let bytes: u64 = copies.values().map(|(size, _)| size).sum();
        println!("they run from {} copies, {bytes} bytes", copies.len());
        // On disk, where there is one for all.
        assert!(
            copies.len() == 1 && copies.values().all(|(_, placed)| *placed),
            "{copies:?}"
        );
        // A process that does nothing has more than this.
        assert!(sum / 50 > 50, "{shares:?}");
        assert!(*largest <= MOST, "{shares:?}");
    });
    // The home is the first one's.
    while sandboxes.pop().is_some() {}
}

/// Whether it sleeps without a time at which it wakes up: ppoll(2), whose third word says until when. An ordinary user does
/// not see that of a process that cannot be dumped, and its number is this machine's.
fn sleeps_without_end(process: u32) -> bool {
    let Ok(call) = fs::read_to_string(format!("/proc/{process}/syscall")) else {
        return !rustix::process::geteuid().is_root();
    };
    let words: Vec<&str> = call.split(' ').collect();
    cfg!(not(target_arch = "x86_64")) || words[0] == "271" && words[3] == "0x0"
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
        // The last answer is taken then, and its client forgotten. However long one would look.
        until("nothing but what happens wakes it", || {
            sleeps_without_end(status.process)
        });
        let (mut before, mut since) = (switches(), Instant::now());
        until("it sleeps", || {
            let now = switches();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_secs(2)
        });
        // The control: it wakes up when it is asked.
        supervisor.status().await.unwrap();
        assert_ne!(switches(), before);
    });
}
