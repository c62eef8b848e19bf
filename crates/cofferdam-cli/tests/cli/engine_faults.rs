//! An engine that goes away in the middle of a step, is there again later, and has forgotten nothing.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cofferdam_lab::sample::Sample;

use crate::containers::{SURROUNDINGS, World, making, worlds};
use crate::fake_engine::with_engine;
use crate::images::hinted;

/// One of so many requests, unless all are wanted.
const SHARE: u64 = 8;

/// The way to a real engine, which breaks after so many requests and stays so until it is mended.
struct Way {
    place: tempfile::TempDir,
    left: Arc<AtomicUsize>,
    /// Made so far.
    asked: Arc<AtomicUsize>,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl Way {
    fn to(engine: PathBuf) -> Self {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("s")).unwrap();
        let way = Self {
            place,
            left: Arc::new(AtomicUsize::new(usize::MAX)),
            asked: Arc::default(),
            open: Arc::default(),
        };
        let (left, asked, open) = (
            Arc::clone(&way.left),
            Arc::clone(&way.asked),
            Arc::clone(&way.open),
        );
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(there)) = (client, UnixStream::connect(&engine)) else {
                    return;
                };
                open.lock()
                    .unwrap()
                    .extend([client.try_clone().unwrap(), there.try_clone().unwrap()]);
                let (mut back, mut to) = (there.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut back, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let (left, asked, open) =
                    (Arc::clone(&left), Arc::clone(&asked), Arc::clone(&open));
                std::thread::spawn(move || forward(client, there, &left, &asked, &open));
            }
        });
        way
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("s")
    }

    /// Breaks after so many requests from now on.
    fn breaks_after(&self, requests: usize) {
        self.asked.store(0, Ordering::SeqCst);
        self.left.store(requests, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
    }
}

/// A client writes each request at once, or its beginning.
fn forward(
    mut client: UnixStream,
    mut engine: UnixStream,
    left: &AtomicUsize,
    asked: &AtomicUsize,
    open: &Mutex<Vec<UnixStream>>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = client.read(&mut bytes) {
        asked.fetch_add(1, Ordering::SeqCst);
        let one_less = |left: usize| match left {
            usize::MAX => Some(left),
            left => left.checked_sub(1),
        };
        let goes = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if goes.is_err() || engine.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    if left.load(Ordering::SeqCst) == 0 {
        for one in open.lock().unwrap().drain(..) {
            let _ = one.shutdown(Shutdown::Both);
        }
    }
    let _ = (
        client.shutdown(Shutdown::Both),
        engine.shutdown(Shutdown::Both),
    );
}

/// Where the engine of this machine is, without the scheme.
pub(crate) fn socket(engine: &str) -> PathBuf {
    let variable = SURROUNDINGS[usize::from(engine != "docker")];
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines are where this machine's user has them"
    )]
    let named = std::env::var(variable).unwrap_or_default();
    let usual = if engine == "docker" {
        "/var/run/docker.sock"
    } else {
        "/run/podman/podman.sock"
    };
    let path = named.strip_prefix("unix://").unwrap_or(usual);
    Path::new(path).to_owned()
}

/// `cofferdam` with the engine at the end of this way.
#[track_caller]
fn cofferdam(world: &World, way: &Way, words: &[&str]) -> crate::environment::Done {
    with_engine(&world.environment, world.engine, &way.socket(), words)
}

/// Without an engine from the first on, always: then nothing can be done.
fn points(sample: &mut Sample, requests: usize) -> Vec<usize> {
    let mut points = sample.of(1..requests.max(1), SHARE);
    points.insert(0, 0);
    points
}

/// Whatever was asked last: it is an error that names the engine or it is done, and when the engine is there again everything
/// can be cleared away.
#[test]
fn one_that_goes_away_at_any_request_leaves_nothing_for_good() {
    for mut world in worlds() {
        let create = making("create", world.engine, &["one"]);
        let way = Way::to(socket(world.engine));
        way.breaks_after(usize::MAX);
        cofferdam(&world, &way, &create).expect_code(0);
        let requests = way.asked.load(Ordering::SeqCst);
        assert!(requests > 5, "{requests}");
        cofferdam(&world, &way, &["delete", "one"]).expect_code(0);
        let mut sample = Sample::new(&format!("requests to {}", world.engine));
        let mut failed = 0;
        for request in points(&mut sample, requests) {
            let what = format!(
                "{} away after request {request} of {requests} ({})",
                world.engine,
                sample.again()
            );
            world.environment = crate::environment::TestEnvironment::with_repository();
            way.breaks_after(request);
            let made = cofferdam(&world, &way, &create);
            let name = if world.engine == "docker" {
                "Docker"
            } else {
                "Podman"
            };
            if !made.status.success() {
                failed += 1;
                assert!(made.stderr.contains(name), "{what}: {made}");
            }
            // Who clears up while it is away forgets nothing.
            let _ = cofferdam(&world, &way, &["gc"]);
            way.mend();
            if made.status.success() {
                cofferdam(&world, &way, &["delete", "--force", "one"]).expect_code(0);
            }
            let cleared = cofferdam(&world, &way, &["gc"]).expect_code(0);
            assert_eq!(world.containers(), [""; 0], "{what}: {made}{cleared}");
            // The same can be asked again at once, which clears what was only tried.
            cofferdam(&world, &way, &create).expect_code(0);
            assert_eq!(world.tried(), [""; 0], "{what}: {made}");
            cofferdam(&world, &way, &["delete", "one"]).expect_code(0);
            world.expect_clean();
        }
        assert!(failed > 0);
    }
}

/// Another command than `create`, which is told above.
struct Case {
    command: &'static [&'static str],
    /// What is there before, in a sandbox that has one commit with `WORK` and something uncommitted; nothing: no sandbox.
    before: Option<&'static [&'static [&'static str]]>,
    /// Whether it is made by this command, which is told the engine and the image.
    makes: bool,
    /// What the sandbox is when the command was done, at the first or the second time; nothing where there is none.
    after: Option<&'static str>,
}

const WORK: &str = "work-before-the-engine-went";
const SCRIPT: &str = "echo x >file; git add file; git commit -qm work-before-the-engine-went && echo is''-committed; echo left >left";
/// What it prints when it has committed.
const COMMITTED: &str = "is-committed";

/// Wherever the engine went away: the command was done or says so, it can be asked again, no work is lost, and nothing is left.
#[track_caller]
fn check(case: &Case) {
    let name = case.command[0];
    for mut world in worlds() {
        let engine = world.engine;
        let create = making("create", engine, &["one"]);
        let way = Way::to(socket(world.engine));
        let done = |world: &World| {
            let words = if case.makes {
                making(name, engine, &case.command[1..])
            } else {
                case.command.to_vec()
            };
            cofferdam(world, &way, &words)
        };
        let prepare = |world: &World| {
            if let Some(before) = case.before {
                cofferdam(world, &way, &create).expect_code(0);
                let exec = ["exec", "one", "--", "sh", "-c", SCRIPT];
                cofferdam(world, &way, &exec).expect_code(0);
                for words in before {
                    cofferdam(world, &way, words).expect_code(0);
                }
            }
        };
        let clear = |world: &World, what: &str| {
            let deleted = cofferdam(world, &way, &["delete", "--force", "one"]);
            let cleared = cofferdam(world, &way, &["gc"]).expect_code(0);
            // What a run had begun ends with the run, and its engine is done with it a moment later.
            let began = std::time::Instant::now();
            while !world.containers().is_empty() {
                assert!(began.elapsed().as_secs() < 30, "{what}: {deleted}{cleared}");
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            if !world.tried().is_empty() {
                // The next trial clears what was only tried.
                cofferdam(world, &way, &create).expect_code(0);
                cofferdam(world, &way, &["delete", "one"]).expect_code(0);
            }
            world.expect_clean();
        };
        prepare(&world);
        way.breaks_after(usize::MAX);
        done(&world).expect_code(0);
        // A holder for the next one may be asked for meanwhile: that is no part of the command.
        let requests = way.asked.load(Ordering::SeqCst);
        clear(&world, name);
        let mut sample = Sample::new(&format!("requests of {name} to {}", world.engine));
        for request in points(&mut sample, requests) {
            let what = format!(
                "{name}: {} away after request {request} of {requests} ({})",
                world.engine,
                sample.again()
            );
            world.environment = crate::environment::TestEnvironment::with_repository();
            prepare(&world);
            way.breaks_after(request);
            let broken = done(&world);
            let what = format!("{what}: {broken}");
            if !broken.status.success() {
                let engine = ["Docker", "Podman"][usize::from(world.engine != "docker")];
                assert!(broken.stderr.contains(engine), "{what}");
            }
            way.mend();
            if let Some(state) = case.after {
                let again = if broken.status.success() {
                    String::new()
                } else {
                    done(&world).to_string()
                };
                let is = world.cofferdam(&["status", "--json", "one"]).expect_code(0);
                let wanted = format!("\"state\":\"{state}\"");
                assert!(is.stdout.contains(&wanted), "{what}{again}{is}");
            } else if !broken.status.success() && !case.makes {
                done(&world).expect_code(0);
            }
            clear(&world, &what);
            let committed = broken.status.success() || broken.to_string().contains(COMMITTED);
            if case.before.is_some() || committed {
                let kept = world.environment.git(&["log", "--all", "--format=%s"]);
                assert!(kept.contains(WORK), "{what}: {kept}");
            }
        }
    }
}

#[test]
fn one_that_goes_away_while_an_image_is_built() {
    goes_away_while_an_image_is_built("docker");
}

/// Its store loses layers to what builds beside it remove, so it is tried where little else runs.
#[test]
fn podman_goes_away_while_an_image_is_built() {
    if cofferdam_lab::sample::all() {
        goes_away_while_an_image_is_built("podman");
    } else {
        cofferdam_lab::skip!("only with `scripts/test --all`");
    }
}

/// A build has a holder, a container for each step, and an image at its end.
fn goes_away_while_an_image_is_built(engine: &str) {
    for mut world in worlds().into_iter().filter(|world| world.engine == engine) {
        let way = Way::to(socket(engine));
        let fresh = || {
            let environment = crate::environment::TestEnvironment::with_repository();
            let text = "FROM busybox:latest\nRUN echo one >/one\nRUN echo two >/two\n";
            environment.write(".cofferdam/Dockerfile", text);
            environment
        };
        world.environment = fresh();
        way.breaks_after(usize::MAX);
        let read = cofferdam(&world, &way, &["build", "--sandbox", engine]).expect_code(1);
        let command = hinted(&read);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        way.breaks_after(usize::MAX);
        cofferdam(&world, &way, &command).expect_code(0);
        let requests = way.asked.load(Ordering::SeqCst);
        cofferdam(&world, &way, &[engine, "remove-image"]).expect_code(0);
        let mut sample = Sample::new(&format!("requests of a build to {engine}"));
        // Podman takes twice as long for each.
        let share = if engine == "podman" { 3 } else { 1 };
        for request in points(&mut sample, requests).into_iter().step_by(share) {
            let what = format!(
                "build: {engine} away after request {request} of {requests} ({})",
                sample.again()
            );
            world.environment = fresh();
            way.breaks_after(request);
            let broken = cofferdam(&world, &way, &command);
            way.mend();
            let what = format!("{what}: {broken}");
            if !broken.status.success() {
                let name = ["Docker", "Podman"][usize::from(engine != "docker")];
                assert!(broken.stderr.contains(name), "{what}");
            }
            // An engine may still make what it was asked for when nobody waited for it any more. It is in nobody's way, what runs ends
            // by itself, and the next build takes the rest away.
            cofferdam(&world, &way, &["gc"]).expect_code(0);
            let again = cofferdam(&world, &way, &command);
            assert_eq!(again.status.code(), Some(0), "{what}: {again}");
            let began = std::time::Instant::now();
            while !world.containers().is_empty() {
                assert!(began.elapsed().as_secs() < 60, "{what}{again}");
                std::thread::sleep(std::time::Duration::from_millis(500));
                cofferdam(&world, &way, &command).expect_code(0);
            }
            let removed = cofferdam(&world, &way, &[engine, "remove-image"]);
            assert_eq!(removed.status.code(), Some(0), "{what}: {removed}");
            world.expect_clean();
        }
    }
}

#[test]
fn one_that_goes_away_while_a_sandbox_is_stopped() {
    check(&Case {
        command: &["stop", "one"],
        before: Some(&[]),
        makes: false,
        after: Some("stopped"),
    });
}

#[test]
fn one_that_goes_away_while_a_sandbox_is_started() {
    check(&Case {
        command: &["start", "one"],
        before: Some(&[&["stop", "one"]]),
        makes: false,
        after: Some("active"),
    });
}

// covers: S4-E9
#[test]
fn one_that_goes_away_while_a_sandbox_is_paused() {
    check(&Case {
        command: &["pause", "one"],
        before: Some(&[]),
        makes: false,
        after: Some("paused"),
    });
}

// covers: S4-E12
#[test]
fn one_that_goes_away_while_a_sandbox_is_resumed() {
    check(&Case {
        command: &["resume", "one"],
        before: Some(&[&["pause", "one"]]),
        makes: false,
        after: Some("active"),
    });
}

// covers: S4-E15
#[test]
fn one_that_goes_away_while_a_sandbox_is_deleted() {
    check(&Case {
        command: &["delete", "--force", "one"],
        before: Some(&[]),
        makes: false,
        after: None,
    });
}

#[test]
fn one_that_goes_away_while_an_agent_works() {
    check(&Case {
        command: &["run", "--name", "one", "--", "sh", "-c", SCRIPT],
        before: None,
        makes: true,
        after: None,
    });
}

/// What is committed comes home by the sandbox's own files and its guest.
#[test]
fn one_that_goes_away_while_work_comes_home() {
    for command in [&["collect", "one"][..], &["merge", "one"]] {
        check(&Case {
            command,
            before: Some(&[]),
            makes: false,
            after: Some("active"),
        });
    }
}
