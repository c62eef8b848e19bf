//! What somebody does to a sandbox's containers by the engine's own command: the sandbox is never open, what is said of it is true,
//! and no work is lost. The engine's own exec is no way back into one that was stopped: `start` makes a new one from its files.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;

use crate::containers::{World, own, ready, worlds};

/// Which networks it has, whether a connection leaves it, and whether one stays inside: the control.
const LOOK: &str = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; git ls-remote git://192.0.2.1/x 2>&1 | head -n 1
    echo inside; (nc -l -p 9418 </dev/null >/dev/null 2>&1 & sleep 1; git ls-remote git://127.0.0.1/x 2>&1 | head -n 1)";
/// Behind a wall the gateway ends such a connection, and without one there is nobody.
const REFUSED: [&str; 2] = ["Connection reset", "unable to connect"];

/// Nothing but `lo`, and no connection to where no rule leads.
#[track_caller]
fn expect_closed(world: &World, what: &str) {
    let seen = world.exec(LOOK).stdout;
    let (out, inside) = seen.split_once("inside\n").unwrap();
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("lo"), "{what}: {seen}");
    let refused = |text: &str| REFUSED.iter().any(|one| text.contains(one));
    assert!(refused(lines.next().unwrap()), "{what}: {seen}");
    assert!(lines.next().is_none(), "{what}: {seen}");
    assert!(!inside.is_empty() && !refused(inside), "{what}: {seen}");
}

/// What is done, with the container's id at its end.
struct Action {
    words: &'static [&'static str],
    /// Whether the sandbox runs on, for Docker and for Podman: that engine refuses to end a container which it could not start again.
    runs_on: [bool; 2],
}

/// The test's sandbox goes, then the network, and nothing is left.
#[track_caller]
fn end(world: &World, network: Option<Network<'_>>) {
    world
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    drop(network);
    world.expect_clean();
}

/// Stands for the name of one.
const NETWORK: &str = "NETWORK";

const ON_THE_AGENTS: [Action; 5] = [
    Action {
        words: &["stop", "--time", "1"],
        runs_on: [false, false],
    },
    Action {
        words: &["kill"],
        runs_on: [false, false],
    },
    Action {
        words: &["restart", "--time", "1"],
        runs_on: [false, true],
    },
    Action {
        words: &["network", "connect", NETWORK],
        runs_on: [true, true],
    },
    Action {
        words: &["rm", "--force"],
        runs_on: [false, false],
    },
];

/// What `status` says of one that nobody stopped here.
const ENDED: &str = " ago: its container was killed, removed or out of memory, or ";

/// One of the engine's, which ends with this value.
struct Network<'a> {
    world: &'a World,
    name: String,
}

impl<'a> Network<'a> {
    /// `None`: there can be none, which is said.
    fn new(world: &'a World) -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let name = format!("cofferdam-test-{}-{number}", std::process::id());
        match own(world.engine, &["network", "create", &name]) {
            Err(why) if world.is_rootless() && why.contains("not permitted") => {
                skip!(
                    "{}: an ordinary user's has no networks here: {why}",
                    world.engine
                );
                None
            }
            made => {
                made.unwrap();
                Some(Self { world, name })
            }
        }
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        let _ = own(self.world.engine, &["network", "rm", &self.name]);
    }
}

#[track_caller]
fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn whatever_is_done_to_the_agents_container_leaves_it_closed_and_its_work_there() {
    for world in worlds() {
        let Some(network) = Network::new(&world) else {
            continue;
        };
        world.make("create", &["one"]).expect_code(0);
        expect_closed(&world, "before");
        for (number, action) in ON_THE_AGENTS.iter().enumerate() {
            let what = format!("{}: {:?}", world.engine, action.words);
            let file = format!("work-{number}");
            world.exec(&format!(
                "echo x >{file}; git add {file}; git commit -qm {file}; echo {number} >left"
            ));
            let agents = world.agents();
            let named = |word: &&'static str| {
                if *word == NETWORK {
                    &*network.name
                } else {
                    *word
                }
            };
            let words: Vec<&str> = action.words.iter().map(named).collect();
            let done = own(world.engine, &[&words[..], &[&agents]].concat());
            let runs_on = action.runs_on[usize::from(world.engine == "podman")];
            let expected = if runs_on { "active" } else { "stopped" };
            let what = format!("{what}: {done:?}");
            eventually(&what, || {
                world.status("one", "state") == expected
                    && (world.status("one", "ended_unasked") == "null") == runs_on
            });
            let listed = world.cofferdam(&["list"]).expect_code(0);
            assert!(listed.stdout.contains(expected), "{what}: {listed}");
            if runs_on {
                expect_closed(&world, &what);
            } else {
                let refused = world
                    .cofferdam(&["exec", "one", "--", "true"])
                    .expect_code(1);
                assert!(
                    refused.stderr.contains("cofferdam start one"),
                    "{what}: {refused}"
                );
            }
            // What was committed before comes home from its files.
            world.cofferdam(&["collect", "one"]).expect_code(0);
            let told = world.cofferdam(&["status", "one"]).expect_code(0).stdout;
            assert_eq!(told.contains(ENDED), !runs_on, "{what}: {told}");
            world
                .environment
                .git(&["cat-file", "-e", &format!("cofferdam/one:{file}")]);
            let started = world.cofferdam(&["start", "one"]).expect_code(0);
            assert_eq!(
                runs_on,
                started.to_string().contains("already"),
                "{what}: {started}"
            );
            assert_eq!(
                world.exec("cat left").stdout,
                format!("{number}\n"),
                "{what}"
            );
            expect_closed(&world, &what);
        }
        // Where nobody starts it first either.
        own(world.engine, &["rm", "--force", &world.agents()]).unwrap();
        world.cofferdam(&["stop", "one"]);
        end(&world, Some(network));
    }
}

/// Podman keeps the container of a holder that has ended as long as who joined it; Docker has the one that waits for the next sandbox.
#[test]
fn whatever_is_done_to_a_holder_opens_no_sandbox() {
    for world in worlds() {
        let Some(network) = Network::new(&world) else {
            continue;
        };
        let joined = &*network.name;
        if world.engine == "docker" {
            if world.is_rootless() {
                // None waits there, and a holder goes as soon as its sandbox is up.
                continue;
            }
            for words in [
                &[&["kill"][..]][..],
                &[&["rm", "--force"]],
                &[&["restart", "--time", "1"]],
                &[
                    &["network", "disconnect", "none"],
                    &["network", "connect", joined],
                ],
            ] {
                world.make("create", &["one"]).expect_code(0);
                world.cofferdam(&["stop", "one"]).expect_code(0);
                let holder = ready(&world);
                for words in words {
                    let done = own("docker", &[*words, &[&holder]].concat());
                    // The kernel of this machine may have no other network.
                    if words.contains(&"connect") {
                        done.unwrap();
                    }
                }
                world.cofferdam(&["start", "one"]).expect_code(0);
                expect_closed(&world, &format!("{words:?}"));
                end(&world, None);
            }
        } else {
            world.make("create", &["one"]).expect_code(0);
            let held = world.filtered(
                "engines",
                &["--all", "--filter", "label=io.cofferdam.role=holder"],
            );
            assert_eq!(held.len(), 1, "{held:?}");
            for words in [
                &["start"][..],
                &["restart", "--time", "1"],
                &["stop", "--time", "1"],
                &["network", "connect", joined],
                &["rm", "--force"],
            ] {
                let done = own("podman", &[words, &[&held[0]]].concat());
                let what = format!("{words:?}: {done:?}");
                assert_eq!(world.status("one", "state"), "active", "{what}");
                expect_closed(&world, &what);
            }
            world.cofferdam(&["stop", "one"]).expect_code(0);
            world.cofferdam(&["start", "one"]).expect_code(0);
            expect_closed(&world, "started again");
            end(&world, Some(network));
        }
    }
}

/// Docker gives one without a network another one, in two steps, to whoever is root of the engine: what they do by hand is theirs,
/// and it is told. That also shows that a way out would be seen above.
#[test]
fn a_network_that_was_joined_by_hand_is_told_and_goes_with_the_container() {
    for world in worlds() {
        let Some(network) = Network::new(&world) else {
            continue;
        };
        world
            .make("create", &["one", "--network", "none"])
            .expect_code(0);
        world.exec("echo x >kept");
        let agents = world.agents();
        let _ = own(world.engine, &["network", "disconnect", "none", &agents]);
        let connected = own(
            world.engine,
            &["network", "connect", &network.name, &agents],
        );
        let names = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
        if connected.is_ok() {
            assert!(world.exec(names).stdout.contains("eth"));
            let open = "open, joined to another network by hand (eth0): cofferdam stop one && cofferdam start one\n";
            let told = world.cofferdam(&["status", "one"]).expect_code(0);
            let line = format!("\nnetwork: none, but {open}");
            assert!(told.stdout.contains(&line), "{told}");
            let started = world.cofferdam(&["start", "one"]).expect_code(0);
            let line = format!("warning: one is {open}");
            assert!(started.stderr.contains(&line), "{started}");
            let told = world.cofferdam(&["doctor", "one"]).expect_code(1);
            assert!(
                told.stdout
                    .contains(&format!("joined by hand: {}", &network.name)),
                "{told}"
            );
            assert!(
                told.stdout.contains("cofferdam stop one")
                    && told.stdout.contains("cofferdam start one"),
                "{told}"
            );
            world.cofferdam(&["stop", "one"]).expect_code(0);
            world.cofferdam(&["start", "one"]).expect_code(0);
        } else {
            assert_eq!(world.engine, "podman", "{connected:?}");
        }
        world.cofferdam(&["doctor", "one"]).expect_code(0);
        assert_eq!(world.status("one", "joined"), "[]");
        assert_eq!(world.exec(&format!("{names}; cat kept")).stdout, "lo\nx\n");
        end(&world, Some(network));
    }
}

/// What root does who may change a network, by busybox's `ip`.
const CHANGES: [&str; 4] = [
    "ip link set lo mtu 1400",
    "ip addr add 192.0.2.7/32 dev lo",
    "ip route add 192.0.2.0/24 dev lo",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
];

/// Attack 10 at its worst: the engine's own exec lets somebody in as root of the agent's container. They have none of root's rights
/// there, and the wall is another's.
#[test]
fn root_by_the_engines_own_exec_opens_no_wall() {
    for world in worlds() {
        world.make("create", &["one"]).expect_code(0);
        let agents = world.agents();
        let root = |script: &str| {
            let words = ["exec", "--user", "0", &agents, "sh", "-c", script];
            own(world.engine, &words)
        };
        let status = root("cat /proc/self/status").unwrap();
        // In a Docker of one's own the guest began with the right to map root, in a user namespace that is nobody else's.
        let mapped = world.engine == "docker" && world.is_rootless();
        let rights = if mapped { 1_u64 << 31 } else { 0 };
        for line in [
            "Uid:\t0\t0\t0\t0".to_owned(),
            format!("CapEff:\t{rights:016x}\n"),
            format!("CapBnd:\t{rights:016x}\n"),
        ] {
            assert!(status.contains(&line), "{}: {line}: {status}", world.engine);
        }
        for change in CHANGES {
            let done = root(change);
            assert!(done.is_err(), "{}: {change}: {done:?}", world.engine);
        }
        expect_closed(&world, "root by hand");
        end(&world, None);
        // The control: the same by a root who has the right to.
        let script = CHANGES[..3].join(" && ");
        let plain = [
            &["run", "--rm", "--network", "none", "--cap-add", "NET_ADMIN"][..],
            &["busybox:latest", "sh", "-c", &script],
        ];
        own(world.engine, &plain.concat()).unwrap();
    }
}

/// The guest stands still as well, and answers nobody: each command says so within its bounds, and `stop` and `delete` go on.
#[test]
fn one_that_the_engine_has_paused_is_told_and_ended_within_bounds() {
    let worlds = worlds();
    let ends = [&["stop", "one"][..], &["delete", "--force", "one"]];
    let cases = worlds
        .iter()
        .flat_map(|world| ends.map(|ends| (world, ends)));
    // Their bounds take a minute.
    let share = 2 * worlds.len() as u64;
    for (world, ends) in Sample::new("paused by hand").of(cases, share) {
        world.make("create", &["one"]).expect_code(0);
        world.exec("echo x >file; git add file; git commit -qm paused-by-hand");
        if let Err(why) = own(world.engine, &["pause", &world.agents()]) {
            // Without control groups of its own it stops nothing.
            assert!(world.is_rootless(), "{why}");
            skip!("{} of an ordinary user pauses nothing", world.engine);
            end(world, None);
            continue;
        }
        std::thread::scope(|scope| {
            for words in [&["status", "one"][..], &["exec", "one", "--", "true"]] {
                scope.spawn(move || {
                    let began = Instant::now();
                    let told = world.cofferdam(words).expect_code(1);
                    assert!(began.elapsed() < Duration::from_secs(40), "{words:?}");
                    assert!(told.stderr.contains("has paused its container"), "{told}");
                    let next = format!("`{} unpause ", world.engine);
                    assert!(told.stderr.contains(&next), "{told}");
                });
            }
        });
        world.cofferdam(ends).expect_code(0);
        assert_eq!(world.containers(), [""; 0], "{ends:?}");
        if ends[0] == "stop" {
            assert_eq!(world.status("one", "state"), "stopped");
            world.cofferdam(&["start", "one"]).expect_code(0);
            world.exec("cat file");
            end(world, None);
        } else {
            world.expect_clean();
        }
        let kept = world.environment.git(&["log", "--all", "--format=%s"]);
        assert!(kept.contains("paused-by-hand"), "{ends:?}: {kept}");
        world
            .environment
            .git(&["update-ref", "-d", "refs/cofferdam/trash/one"]);
    }
}
