//! Sandboxes whose programs the kernel stops, and the same by signals where no control group can be made.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use cofferdam::names::SandboxId;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Exit, Sandbox, SandboxError, Stopping,
};
use cofferdam_lab::{skip, stuck};
use tokio_util::sync::CancellationToken;

use crate::layers::Layers;
use crate::living::{Living, is_gone, remove};
use crate::renames::{is_paused_in_the_middle, many};
use crate::world::{
    both, control_groups, eventually, is_root, marker, mount, ok, own_id, processes_with,
    public_copy, run_async, start, status_of,
};

/// Where control groups of version 2 are, if this user can make any.
fn unified() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut points = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields[2] == "cgroup2").then(|| fields[1].into())
    });
    points.find(|_| is_root())
}

async fn create(living: &Living, freezer: bool) -> Arc<dyn Sandbox> {
    let mut options = NativeOptions::default();
    options.freezer = freezer;
    let sandbox = Native::new(options)
        .create(&living.spec, &CancellationToken::new())
        .await
        .unwrap();
    sandbox.stay().await.unwrap();
    let stopping = sandbox.status().await.unwrap().stopping;
    let expected = if freezer && unified().is_some() {
        Stopping::Freezer
    } else {
        Stopping::Signals
    };
    assert_eq!(stopping, expected);
    sandbox
}

/// A directory that the sandbox writes and the test reads.
struct Shared(PathBuf);

impl Shared {
    fn in_it(living: &mut Living) -> Self {
        let shared = tempfile::tempdir().unwrap();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
        living.spec.mounts = vec![mount(shared.path(), "/in", Access::ReadWrite)];
        let path = shared.path().to_owned();
        living.shown.push(shared);
        Self(path)
    }

    fn size(&self, name: &str) -> u64 {
        fs::metadata(self.0.join(name)).map_or(0, |found| found.len())
    }

    async fn grows(&self, name: &str) {
        let before = self.size(name);
        eventually("it grows", || self.size(name) > before).await;
    }

    async fn stands_still(&self, name: &str, time: Duration) {
        let (before, began) = (self.size(name), Instant::now());
        while began.elapsed() < time {
            assert_eq!(self.size(name), before, "it goes on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

const BEATS: &str = "while :; do echo x >> /in/beats; sleep 0.002; done";

both! {
    /// Both ways, whoever asks, and what one sees of itself.
    async fn what_is_paused_stands_still_until_it_is_resumed() {
        for freezer in [true, false] {
            let mut living = Living::new();
            let shared = Shared::in_it(&mut living);
            let sandbox = create(&living, freezer).await;
            // In a session of its own, and nobody's child.
            let _run = start(&*sandbox, &format!("(setsid sh -c '{BEATS}' &) ; sleep 1000")).await;
            for _ in 0..3 {
                shared.grows("beats").await;
                sandbox.pause().await.unwrap();
                shared.stands_still("beats", Duration::from_millis(300)).await;
                sandbox.resume().await.unwrap();
            }
            shared.grows("beats").await;
            sandbox.freeze().await.unwrap();
            shared.stands_still("beats", Duration::from_millis(100)).await;
            // Each holds for itself.
            sandbox.pause().await.unwrap();
            sandbox.thaw().await.unwrap();
            shared.stands_still("beats", Duration::from_millis(100)).await;
            sandbox.resume().await.unwrap();
            shared.grows("beats").await;
            // Nothing of the host's groups is seen.
            let seen = ok(&*sandbox, "cat /proc/self/cgroup").await;
            assert!(!seen.contains("cofferdam") && !seen.contains(".."), "{seen}");
        }
    }
}

both! {
    async fn a_paused_program_is_killed_at_once() {
        for freezer in [true, false] {
            let mut living = Living::new();
            let shared = Shared::in_it(&mut living);
            let sandbox = create(&living, freezer).await;
            let marker = marker();
            let mut run = start(&*sandbox, &format!("sleep {marker} & setsid sleep {marker} & {BEATS}")).await;
            let other = start(&*sandbox, &format!("sleep {marker}9; :")).await;
            shared.grows("beats").await;
            eventually("all", || processes_with(&format!("sleep {marker}")).len() >= 4).await;
            sandbox.pause().await.unwrap();
            sandbox.signal(run.number().unwrap(), 9).await.unwrap();
            assert_eq!(run.wait().await.unwrap(), Exit::Signal(9));
            eventually("its own are dead", || processes_with(&format!("sleep {marker}\0")).is_empty()).await;
            let status = sandbox.status().await.unwrap();
            assert!(status.paused && status.programs == 1);
            // The same by the end of a connection, whose programs end with it.
            drop(other);
            drop(sandbox);
            eventually("the other one's too", || processes_with(&format!("sleep {marker}")).is_empty()).await;
            let sandbox = living.open().await;
            assert!(sandbox.status().await.unwrap().paused);
            sandbox.resume().await.unwrap();
            assert_eq!(ok(&*sandbox, "echo on").await, "on\n");
        }
    }
}

/// Has itself woken by timers again and again, and writes whenever it runs.
const WAKES: &str = "
    use POSIX; $SIG{CONT} = $SIG{ALRM} = sub {};
    if (!fork) { my $parent = getppid; while (1) { kill 'CONT', $parent; select undef, undef, undef, 0.001 } }
    open my $f, '>>', '/in/beats'; $f->autoflush(1);
    while (1) { print $f 'x'; Time::HiRes::ualarm(2000); select undef, undef, undef, 0.001 }";

/// Has itself woken by a timer, notes it, and stops itself again before anybody looks. With `alone` it has no first thread.
const BETWEEN_LOOKS: &str = r#"
import ctypes, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
# Of a signal that nobody handles the kernel sends one (Linux 6.13).
signal.signal(signal.SIGCONT, lambda *_: None)
event, timer = Event(None, signal.SIGCONT, 0, b""), ctypes.c_int(0)
assert libc.syscall(222, 1, ctypes.byref(event), ctypes.byref(timer)) == 0
every = (ctypes.c_long * 4)(0, 200000000, 0, 200000000)
assert libc.syscall(223, timer, 0, every, None) == 0
beats, alone = open("/in/beats", "ab", 0), sys.argv[1].startswith("alone")
def goes_on():
    while True:
        beats.write(b"x")
        if alone:
            time.sleep(0.05)
        else:
            os.kill(os.getpid(), signal.SIGSTOP)
if alone:
    threading.Thread(target=goes_on).start()
    libc.syscall(60, 0)
goes_on()
"#;

both! {
    /// What runs between two looks is noticed as what runs in one: it is stopped anew, and where that does not hold it is ended.
    async fn what_stops_itself_before_each_look_does_not_go_on() {
        if cfg!(not(target_arch = "x86_64")) || !Path::new("/usr/bin/python3").exists() {
            return skip!("there is no python3, or the numbers of system calls are another machine's");
        }
        let inner = "/usr/bin/python3 -c \"$0\" \"$1\"x; true";
        let child = "exec /usr/bin/python3 -c \"$0\" \"$1\"x";
        for (alone, line) in [("", inner), ("alone", inner), ("", child), ("alone", child)] {
            let mut living = Living::new();
            let shared = Shared::in_it(&mut living);
            let sandbox = create(&living, false).await;
            // Of its own children init hears when they stop.
            let word = format!("{alone}{}", marker());
            let request = ExecRequest::new(["sh", "-c", line, BETWEEN_LOOKS, &word]);
            let _run = sandbox.exec(request).await.unwrap();
            // The control: it goes on by itself.
            shared.grows("beats").await;
            shared.grows("beats").await;
            sandbox.freeze().await.unwrap();
            // Stopped again, or ended: it does not go on, which is every fifth of a second.
            let (mut beats, mut since) = (shared.size("beats"), Instant::now());
            let stands_still = || {
                let now = shared.size("beats");
                if now != beats {
                    (beats, since) = (now, Instant::now());
                }
                since.elapsed() > Duration::from_secs(1)
            };
            eventually(&format!("{alone} {line} stands still"), stands_still).await;
            sandbox.thaw().await.unwrap();
            assert_eq!(ok(&*sandbox, "echo on").await, "on\n");
        }
    }
}

/// Not for a moment, where the kernel does it.
#[test]
fn nothing_wakes_what_is_frozen() {
    if unified().is_none() {
        return skip!("no control group of version 2 can be made");
    }
    run_async(async {
        let mut living = Living::new();
        let shared = Shared::in_it(&mut living);
        let sandbox = create(&living, true).await;
        let line = format!(
            "exec perl -MTime::HiRes -MIO::Handle -e \"{}\"",
            WAKES.replace('$', "\\$")
        );
        let _run = start(&*sandbox, &line).await;
        for _ in 0..5 {
            shared.grows("beats").await;
            sandbox.pause().await.unwrap();
            shared
                .stands_still("beats", Duration::from_millis(300))
                .await;
            sandbox.resume().await.unwrap();
        }
        shared.grows("beats").await;
    });
}

both! {
    /// Whoever makes processes as fast as it can does not get away.
    async fn a_fork_bomb_stands_still() {
        for freezer in [true, false] {
            let mut living = Living::new();
            living.spec.limits.processes = Some(300);
            let shared = Shared::in_it(&mut living);
            let sandbox = create(&living, freezer).await;
            // A shell ends where it cannot fork.
            let bomb = "$SIG{CHLD} = 'IGNORE'; fork; \
                while (1) { my $pid = fork; next if !defined $pid || $pid; \
                open my $f, '>>', '/in/beats'; print $f 'x'; close $f; select undef, undef, undef, 0.1; exit }";
            let line = format!("exec perl -e \"{}\"", bomb.replace('$', "\\$"));
            let _run = start(&*sandbox, &line).await;
            shared.grows("beats").await;
            sandbox.pause().await.unwrap();
            shared.stands_still("beats", Duration::from_millis(300)).await;
            sandbox.resume().await.unwrap();
            shared.grows("beats").await;
        }
    }
}

both! {
    /// A pause may last for days, and a collecting takes moments, in which nothing may go on that wakes itself: where
    /// signals stop them, init looks much more often.
    async fn what_is_collected_is_looked_at_all_the_time() {
        let living = Living::new();
        let sandbox = create(&living, false).await;
        let _run = start(&*sandbox, "sleep 1000; :").await;
        let init = living.init();
        let wakes = || status_of(init, "voluntary_ctxt_switches").parse::<u64>().unwrap();
        sandbox.freeze().await.unwrap();
        // On a busy machine a look takes longer, and there are fewer; a pause has one a second.
        let (mut before, mut since) = (wakes(), Instant::now());
        eventually("it looks more often than every 0.2 s", || {
            let passed = since.elapsed();
            let often = wakes() - before > 5;
            if passed > Duration::from_secs(1) {
                (before, since) = (wakes(), Instant::now());
            }
            often && passed <= Duration::from_secs(1)
        })
        .await;
    }
}

both! {
    /// Who asked is told, holds nothing, and everything goes on.
    async fn what_cannot_be_stopped_is_told_in_time() {
        if let Some(why) = stuck::missing() {
            return skip!("{why}");
        }
        for freezer in [true, false] {
            let mut living = Living::new();
            let shared = Shared::in_it(&mut living);
            let sandbox = create(&living, freezer).await;
            let _beats = start(&*sandbox, BEATS).await;
            let request = ExecRequest::new([stuck::PYTHON, "-c", stuck::PROGRAM, "/in"]);
            let _stuck = sandbox.exec(request).await.unwrap();
            ok(&*sandbox, &format!("cd /in; {}", stuck::WAIT)).await;
            let other = living.open().await;
            let (paused, frozen) = tokio::join!(sandbox.pause(), other.freeze());
            for told in [paused, frozen] {
                assert!(matches!(told, Err(SandboxError::Restless)), "{told:?}");
            }
            let status = sandbox.status().await.unwrap();
            assert!(!status.paused && !status.frozen, "{status:?}");
            shared.grows("beats").await;
            // The control: let through, it stops as all do.
            ok(&*sandbox, &format!("cd /in; {}", stuck::LET_GO)).await;
            sandbox.pause().await.unwrap();
            shared.stands_still("beats", Duration::from_millis(100)).await;
        }
    }
}

/// The processes right in a group.
fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// With limits and without, whatever way it ends, and paused as it is.
#[test]
fn its_groups_end_with_it() {
    let Some(unified) = unified() else {
        return skip!("no control group of version 2 can be made");
    };
    run_async(async {
        for (memory, end) in [(None, "close"), (Some(256 << 20), "remove"), (None, "kill")] {
            let mut living = Living::new();
            living.spec.limits.memory = memory;
            let id = living.spec.id;
            let group = unified.join("cofferdam").join(id.to_string());
            let marker = marker();
            let sandbox = create(&living, true).await;
            let script = format!("(setsid sleep {marker} &); trap '' TERM HUP; sleep {marker}; :");
            let _run = start(&*sandbox, &script).await;
            let all = || processes_with(&format!("sleep {marker}"));
            eventually("both", || all().len() >= 3).await;
            // Every program is in its group, and init alone is beside it.
            let init = living.init();
            let programs = members(&group.join("programs"));
            assert!(all().iter().all(|one| programs.contains(one)));
            assert_eq!(members(&group), [init]);
            sandbox.pause().await.unwrap();
            match end {
                "close" => sandbox.close().await.unwrap(),
                "remove" => remove(&living.handle()).await.unwrap(),
                _ => {
                    let pid = rustix::process::Pid::from_raw(i32::try_from(init).unwrap());
                    let kill = rustix::process::Signal::KILL;
                    rustix::process::kill_process(pid.unwrap(), kill).unwrap();
                    // The kernel alone ends them, frozen as they are.
                    eventually("all are dead", || is_gone(init) && all().is_empty()).await;
                    assert_eq!(control_groups(id), [group]);
                    // What comes next at its place is not frozen.
                    let again = create(&living, true).await;
                    assert_eq!(ok(&*again, "echo on").await, "on\n");
                    remove(&living.handle()).await.unwrap();
                }
            }
            assert!(is_gone(init));
            assert_eq!(all(), Vec::<u32>::new());
            assert_eq!(control_groups(id), Vec::<PathBuf>::new(), "{end}");
            assert!(!living.handle().state.join("group").exists());
        }
        // Where it is not wanted there is none.
        let living = Living::new();
        let _sandbox = create(&living, false).await;
        assert_eq!(control_groups(living.spec.id), Vec::<PathBuf>::new());
    });
}

/// The group of a test, which is an ordinary user's.
struct Delegated(PathBuf);

impl Delegated {
    fn to(user: u32, unified: &Path) -> Self {
        let group = unified.join(format!("cofferdam-test-{}", SandboxId::random().unwrap()));
        fs::create_dir(&group).unwrap();
        for file in ["", "cgroup.procs"] {
            chown(group.join(file), Some(user), Some(user)).unwrap();
        }
        Self(group)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        remove_groups(&self.0);
    }
}

/// Where a test failed there are some below it.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_groups(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

#[test]
fn helper_in_a_delegated_group() {
    let Some(group) = env::var_os("COFFERDAM_TEST_GROUP") else {
        return;
    };
    let group = PathBuf::from(group);
    run_async(async move {
        let mut living = Living::new();
        let shared = Shared::in_it(&mut living);
        let layers = Layers::new();
        many(&layers, 4000);
        living.spec.mounts.push(layers.mount());
        let sandbox = Native::default()
            .create(&living.spec, &CancellationToken::new())
            .await
            .unwrap();
        sandbox.stay().await.unwrap();
        let status = sandbox.status().await.unwrap();
        assert_eq!(status.stopping, Stopping::Freezer);
        is_paused_in_the_middle(&*sandbox, &layers).await;
        let _run = start(&*sandbox, BEATS).await;
        shared.grows("beats").await;
        sandbox.pause().await.unwrap();
        let below = group.join("cofferdam").join(living.spec.id.to_string());
        let events = fs::read_to_string(below.join("programs/cgroup.events")).unwrap();
        assert!(events.contains("frozen 1"), "{events}");
        shared
            .stands_still("beats", Duration::from_millis(300))
            .await;
        remove(&living.handle()).await.unwrap();
        assert!(!group.join("cofferdam").exists());
        println!("all is well");
    });
}

/// A user whom the machine's administrator has given a group, as systemd does.
#[test]
fn an_ordinary_user_with_a_group_has_the_freezer() {
    let Some(unified) = unified() else {
        return skip!("only root can give a group to somebody");
    };
    let user = own_id().to_string();
    let group = Delegated::to(own_id(), &unified);
    let copy = public_copy();
    let into = "echo 0 > \"$1/cgroup.procs\" && shift && exec setpriv \"$@\"";
    let done = Command::new("sh")
        .args(["-c", into, "sh"])
        .arg(&group.0)
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .arg(copy.path().join("native"))
        .args([
            "--exact",
            "frozen::helper_in_a_delegated_group",
            "--nocapture",
        ])
        .env("COFFERDAM_TEST_GROUP", &group.0)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("all is well"), "{said}{errors}");
    assert!(members(&group.0).is_empty());
}

/// Who comes later may be in another group itself, and look for others elsewhere.
#[test]
fn a_group_is_found_again_from_another() {
    let Some(unified) = unified() else {
        return skip!("no control group of version 2 can be made");
    };
    run_async(async {
        let living = Living::new();
        let sandbox = create(&living, true).await;
        let noted = living.handle().state.join("group");
        let group = unified.join("cofferdam").join(living.spec.id.to_string());
        assert_eq!(
            fs::read(&noted).unwrap(),
            group.to_str().unwrap().as_bytes()
        );
        sandbox.close().await.unwrap();
        // As one that was made by somebody in a group of their own.
        let theirs = Delegated::to(0, &unified);
        let ours = theirs.0.join("cofferdam").join(living.spec.id.to_string());
        fs::create_dir_all(ours.join("programs")).unwrap();
        fs::write(&noted, ours.to_str().unwrap()).unwrap();
        remove(&living.handle()).await.unwrap();
        assert!(!theirs.0.join("cofferdam").exists() && !noted.exists());
        // A note that names something else removes nothing.
        let other = theirs.0.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(&noted, other.to_str().unwrap()).unwrap();
        remove(&living.handle()).await.unwrap();
        assert!(other.exists());
        fs::remove_dir(other).unwrap();
    });
}
