//! Sandboxes that outlive their makers: found by other processes, used by several at once, ended in one way.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Handle, Lifetime, Sandbox, SandboxError, SandboxSpec,
    Stopping, TerminalSize,
};
use cofferdam_guest::protocol::{PROTOCOL, Request, SPOKEN, encode};
use cofferdam_lab::skip;

use crate::world::{
    both, control_groups, create, eventually, is_root, marker, mount, mounts, new_mounts_go, ok,
    processes_with, run_async, spec, start, status_of,
};

/// A place for one, and its end whatever the test does.
pub(crate) struct Living {
    state: tempfile::TempDir,
    pub(crate) spec: SandboxSpec,
    /// Directories that are mounted in it: they go when nobody writes there any more.
    pub(crate) shown: Vec<tempfile::TempDir>,
}

impl Living {
    pub(crate) fn new() -> Self {
        Self::below("")
    }

    fn below(path: impl AsRef<Path>) -> Self {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let lifetime = Lifetime::UntilRemoved { state: directory };
        let mut spec = spec();
        spec.lifetime = lifetime;
        Self {
            state,
            spec,
            shown: Vec::new(),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        let Lifetime::UntilRemoved { state } = &self.spec.lifetime else {
            panic!("it lives on");
        };
        Handle {
            id: self.spec.id,
            state: state.clone(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.handle().state.join("guest.sock")
    }

    pub(crate) async fn create(&self) -> Arc<dyn Sandbox> {
        create(&self.spec).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Arc<dyn Sandbox> {
        open(&self.handle()).await.unwrap()
    }

    /// The id of its init, as the kernel tells whoever connects.
    pub(crate) fn init(&self) -> u32 {
        let stream = UnixStream::connect(self.socket()).unwrap();
        let credentials = rustix::net::sockopt::socket_peercred(&stream).unwrap();
        u32::try_from(credentials.pid.as_raw_nonzero().get()).unwrap()
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let handle = self.handle();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // Not in the test's own runtime, which may be the one that runs this.
        let remove = move || runtime.block_on(remove(&handle));
        std::thread::spawn(remove).join().unwrap().unwrap();
        assert!(!self.socket().exists());
        let _ = &self.state;
    }
}

async fn open(handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
    Native::default().open(handle).await
}

pub(crate) async fn remove(handle: &Handle) -> Result<(), SandboxError> {
    Native::default().remove(handle).await
}

/// Whether a process is no more, or waits only to be counted by whoever adopted it.
pub(crate) fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// Another process, which does what its name says with the sandbox in `COFFERDAM_TEST_STATE`.
fn helper(name: &str, living: &Living, marker: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("COFFERDAM_TEST_STATE", living.handle().state)
        .env("COFFERDAM_TEST_ID", living.handle().id.to_string())
        .env("COFFERDAM_TEST_MARKER", marker)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// What [`helper`] says.
fn told() -> Option<(Handle, String)> {
    let state = env::var_os("COFFERDAM_TEST_STATE")?.into();
    let id = env::var("COFFERDAM_TEST_ID").unwrap().parse().unwrap();
    Some((
        Handle { id, state },
        env::var("COFFERDAM_TEST_MARKER").unwrap(),
    ))
}

#[test]
fn helper_that_makes_one() {
    let Some((Handle { id, state }, marker)) = told() else {
        return;
    };
    run_async(async move {
        let mut spec = spec();
        spec.id = id;
        spec.lifetime = Lifetime::UntilRemoved { state };
        let sandbox = create(&spec).await.unwrap();
        start(&*sandbox, &format!("trap '' HUP TERM; sleep {marker}1; :")).await;
        println!("made");
        std::future::pending::<()>().await;
    });
}

#[test]
fn helper_that_opens_one() {
    let Some((handle, marker)) = told() else {
        return;
    };
    run_async(async move {
        let sandbox = open(&handle).await.unwrap();
        println!("said {}", ok(&*sandbox, "echo $HOME; cat /tmp/note").await);
        start(&*sandbox, &format!("trap '' HUP TERM; sleep {marker}2; :")).await;
        println!("started");
        std::future::pending::<()>().await;
    });
}

#[test]
fn helper_that_freezes_one() {
    let Some((handle, _)) = told() else {
        return;
    };
    run_async(async move {
        let sandbox = open(&handle).await.unwrap();
        sandbox.freeze().await.unwrap();
        println!("frozen");
        std::future::pending::<()>().await;
    });
}

/// Reads until the line, and returns what came before it.
fn until(child: &mut Child, line: &str) -> String {
    let mut said = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    let mut byte = [0u8; 1];
    while !said.ends_with(&format!("{line}\n")) {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended: {said}");
        said.push(char::from(byte[0]));
    }
    said
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

both! {
    /// Its maker and its users are killed as hard as can be, and it lives on without what they had started.
    async fn it_outlives_its_maker_and_is_found_again() {
        let living = Living::new();
        let marker = marker();
        let mut maker = helper("living::helper_that_makes_one", &living, &marker);
        until(&mut maker, "made");
        let init = living.init();
        eventually("the launcher has gone", || {
            let parent: u32 = status_of(init, "PPid").parse().unwrap();
            fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default() != "cofferdam-guest\n"
        }).await;
        let of_maker = format!("sleep {marker}1");
        eventually("what the maker started", || !processes_with(&of_maker).is_empty()).await;
        end(maker);
        eventually("the end of what the maker started", || processes_with(&of_maker).is_empty()).await;

        let sandbox = living.open().await;
        ok(&*sandbox, "echo noted > /tmp/note").await;
        let mut user = helper("living::helper_that_opens_one", &living, &marker);
        let said = until(&mut user, "started");
        assert!(said.contains("said /home/agent\nnoted\n"), "{said}");
        let of_user = format!("sleep {marker}2");
        eventually("what the user started", || !processes_with(&of_user).is_empty()).await;
        end(user);
        eventually("the end of what the user started", || processes_with(&of_user).is_empty()).await;
        assert_eq!(ok(&*sandbox, "cat /tmp/note").await, "noted\n");

        // Dropping is not ending.
        drop(sandbox);
        let sandbox = living.open().await;
        let status = sandbox.status().await.unwrap();
        assert_eq!((status.paused, status.frozen, status.programs), (false, false, 0));
        sandbox.close().await.unwrap();
        assert!(is_gone(init) && !living.socket().exists());
        assert!(matches!(open(&living.handle()).await, Err(SandboxError::NotRunning)));
        sandbox.close().await.unwrap();
        remove(&living.handle()).await.unwrap();
        // And its place serves another one.
        living.create().await.close().await.unwrap();
    }
}

both! {
    async fn one_place_holds_one_sandbox() {
        let living = Living::new();
        let sandbox = living.create().await;
        assert!(matches!(create(&living.spec).await, Err(SandboxError::Running)));
        assert_eq!(ok(&*sandbox, "echo there").await, "there\n");
        // Nothing shows the way in to what is inside.
        let mut open_hearted = Living::new();
        let state = open_hearted.handle().state;
        open_hearted.spec.mounts = vec![mount(state.parent().unwrap(), "/in", Access::ReadOnly)];
        let error = create(&open_hearted.spec).await.unwrap_err();
        assert!(error.to_string().contains("shows"), "{error}");
        // And nobody else goes that way.
        let open_door = Living::new();
        fs::set_permissions(open_door.handle().state, fs::Permissions::from_mode(0o750)).unwrap();
        let error = create(&open_door.spec).await.unwrap_err();
        assert!(error.to_string().contains("others can enter"), "{error}");
        fs::set_permissions(open_door.handle().state, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

both! {
    /// Nor is a sandbox asked or ended whose way in others could have laid.
    async fn a_way_in_that_others_can_enter_is_not_gone() {
        let living = Living::new();
        let sandbox = living.create().await;
        let open_to = |mode| {
            fs::set_permissions(living.handle().state, fs::Permissions::from_mode(mode)).unwrap();
        };
        open_to(0o711);
        let found = open(&living.handle()).await;
        assert!(found.is_err_and(|error| error.to_string().contains("others can enter")));
        assert!(remove(&living.handle()).await.is_err());
        open_to(0o700);
        assert_eq!(ok(&*sandbox, "echo there").await, "there\n");
    }
}

/// Listens where a sandbox does, and is none: a process of the user's own.
#[test]
fn helper_that_is_no_sandbox() {
    let Some((handle, _)) = told() else {
        return;
    };
    let listener = UnixListener::bind(handle.state.join("guest.sock")).unwrap();
    println!("listens");
    for stream in listener.incoming() {
        drop(stream);
    }
}

both! {
    /// Whoever listens there is not ended for it: only the first process of a pid namespace is a sandbox's.
    async fn a_process_that_is_no_sandbox_is_not_ended() {
        let living = Living::new();
        let mut stranger = helper("living::helper_that_is_no_sandbox", &living, "");
        until(&mut stranger, "listens");
        let found = open(&living.handle()).await;
        assert!(matches!(found, Err(SandboxError::NotRunning)), "{found:?}");
        remove(&living.handle()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!is_gone(stranger.id()), "it was ended");
        end(stranger);
    }
}

both! {
    /// Sockets have addresses of 108 bytes; homes are longer.
    async fn its_place_may_be_deep() {
        let living = Living::below(["long"; 40].join("/"));
        assert!(living.socket().as_os_str().len() > 108);
        let sandbox = living.create().await;
        assert_eq!(ok(&*living.open().await, "echo there").await, "there\n");
        let mode = living.socket().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        sandbox.close().await.unwrap();
        assert!(!living.socket().exists());
    }
}

/// Killed at any moment of the making, nothing stays that is not whole.
#[test]
fn a_maker_that_dies_too_early_leaves_nothing() {
    run_async(async {
        let (mut before, mut after) = (0, 0);
        for point in 0..24u64 {
            let living = Living::new();
            let marker = marker();
            let mut maker = helper("living::helper_that_makes_one", &living, &marker);
            tokio::time::sleep(Duration::from_millis(2 + 2 * point)).await;
            maker.kill().unwrap();
            maker.wait().unwrap();
            // What was whole before it died stays; what was not is gone by itself.
            if let Ok(sandbox) = open(&living.handle()).await {
                after += 1;
                assert_eq!(ok(&*sandbox, "echo whole").await, "whole\n");
            } else {
                before += 1;
                let listens = || UnixStream::connect(living.socket()).is_ok();
                eventually("nobody listens", || !listens()).await;
            }
        }
        assert!(before > 0, "none was killed early enough: {after}");
    });
}

both! {
    /// One floods and does not read what it is told. The other is served all the same.
    async fn nobody_starves_another() {
        let living = Living::new();
        let sandbox = living.create().await;
        let mut flood = UnixStream::connect(living.socket()).unwrap();
        flood.write_all(&cofferdam_guest_greeting(None)).unwrap();
        let flooding = std::thread::spawn(move || {
            // Each is answered with more than was asked.
            let frame = encode(&Request::Programs { request: 7 }).unwrap();
            let many = frame.repeat(10_000);
            let mut sent = 0;
            while sent < 200 && flood.write_all(&many).is_ok() {
                sent += 1;
            }
            sent
        });
        // More than can be greeted, and they say nothing.
        let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(living.socket()).unwrap()).collect();
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(ok(&*sandbox, "echo served").await, "served\n");
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(flooding.join().unwrap() < 200, "who does not read is sent away");
        drop(silent);
        assert_eq!(ok(&*living.open().await, "echo still").await, "still\n");
    }
}

/// What a host says first.
fn cofferdam_guest_greeting(version: Option<u32>) -> Vec<u8> {
    [&b"cdam"[..], &version.unwrap_or(PROTOCOL).to_le_bytes()].concat()
}

both! {
    async fn another_version_is_told_and_sent_away() {
        let living = Living::new();
        let sandbox = living.create().await;
        for (said, answered) in [
            (cofferdam_guest_greeting(Some(77)), cofferdam_guest_greeting(Some(SPOKEN))),
            (b"GET / HT".to_vec(), Vec::new()),
        ] {
            let mut stream = UnixStream::connect(living.socket()).unwrap();
            stream.write_all(&said).unwrap();
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            assert_eq!(heard, answered);
        }
        assert_eq!(ok(&*sandbox, "echo served").await, "served\n");
        sandbox.close().await.unwrap();
        // The other way round: a sandbox of another version is named, and what ends it all the same is its process.
        let listener = UnixListener::bind(living.socket()).unwrap();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&cofferdam_guest_greeting(Some(77)));
        });
        // This process is no sandbox: it is not taken for one, and above all not killed.
        assert!(matches!(open(&living.handle()).await, Err(SandboxError::NotRunning)));
        remove(&living.handle()).await.unwrap();
        drop(other);
    }
}

both! {
    /// By whatever path: a program inside has a number in the sandbox's pid namespace.
    async fn nothing_inside_is_let_in() {
        let shared = tempfile::tempdir().unwrap();
        let mut living = Living::new();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
        living.spec.mounts = vec![mount(shared.path(), "/in", Access::ReadWrite)];
        let sandbox = living.create().await;
        let there = shared.path().join("way.sock");
        fs::hard_link(living.socket(), &there).unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o666)).unwrap();
        // The control: the same words from outside are answered.
        let mut stream = UnixStream::connect(&there).unwrap();
        stream.write_all(&cofferdam_guest_greeting(None)).unwrap();
        let mut heard = [0u8; 8];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard[..], cofferdam_guest_greeting(Some(SPOKEN)));
        let greeting: String = PROTOCOL.to_le_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let perl = r#"
            $SIG{PIPE} = "IGNORE"; use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, pack_sockaddr_un("/in/way.sock")) or die "connect $!";
            my $wrote = syswrite(S, "cdamGREETING"); my $got = sysread(S, my $said, 8); print defined $got ? "got $got\n" : "refused\n";"#;
        let perl = perl.replace("GREETING", &greeting);
        let script = format!("for i in 1 2 3; do perl -e '{perl}' & done; wait; setsid perl -e '{perl}'");
        let said = ok(&*sandbox, &script).await;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 4, "{said}");
        assert!(lines.iter().all(|line| matches!(*line, "got 0" | "refused")), "{said}");
        assert_eq!(ok(&*sandbox, "echo served").await, "served\n");
    }
}

both! {
    async fn a_pause_lasts_and_a_freeze_does_not() {
        let living = Living::new();
        let sandbox = living.create().await;
        let counts = "while :; do echo x >> /tmp/count; sleep 0.005; done";
        let run = start(&*sandbox, counts).await;
        assert_eq!(sandbox.status().await.unwrap().programs, 1);
        let other = living.open().await;
        other.pause().await.unwrap();
        other.pause().await.unwrap();
        for sandbox in [&sandbox, &other] {
            let status = sandbox.status().await.unwrap();
            assert!(status.paused && !status.frozen);
            let request = ExecRequest::new(["true"]);
            assert!(matches!(sandbox.exec(request).await, Err(SandboxError::Paused)));
        }
        drop(other);
        // A collector comes and is gone: the pause stays the user's.
        let collector = living.open().await;
        collector.freeze().await.unwrap();
        assert!(sandbox.status().await.unwrap().frozen);
        collector.thaw().await.unwrap();
        collector.thaw().await.unwrap();
        assert!(sandbox.status().await.unwrap().paused);
        // One that is frozen looks as if it waited for something.
        let before = states(living.init());
        let by_signals = sandbox.status().await.unwrap().stopping == Stopping::Signals;
        assert!(!before.is_empty(), "nothing runs");
        if by_signals {
            assert!(before.iter().all(|state| state.starts_with(['T', 'D'])), "{before:?}");
        }
        sandbox.resume().await.unwrap();
        sandbox.resume().await.unwrap();
        assert!(!sandbox.status().await.unwrap().paused);
        let seen = ok(&*sandbox, "wc -l < /tmp/count").await;
        eventually("it goes on", || states(living.init()).iter().any(|state| state != "T (stopped)")).await;
        let more = ok(&*sandbox, &format!("while [ $(wc -l < /tmp/count) -le {} ]; do sleep 0.01; done; echo on", seen.trim())).await;
        assert_eq!(more, "on\n");
        // Killed in the middle, a collector lets go.
        let mut killed = helper("living::helper_that_freezes_one", &living, "");
        until(&mut killed, "frozen");
        let request = ExecRequest::new(["true"]);
        assert!(matches!(sandbox.exec(request).await, Err(SandboxError::Frozen)));
        end(killed);
        let began = Instant::now();
        while sandbox.status().await.unwrap().frozen {
            assert!(began.elapsed() < Duration::from_secs(20), "it stays frozen");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ok(&*sandbox, "true").await;
        drop(run);
    }
}

/// Of every process below this one.
fn states(init: u32) -> Vec<String> {
    let mut found = Vec::new();
    let mut parents = vec![init];
    while let Some(parent) = parents.pop() {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let child: u32 = child.parse().unwrap();
            if let Ok(status) = fs::read_to_string(format!("/proc/{child}/status")) {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix("State:\t"));
                found.extend(line.map(str::to_owned));
            }
            parents.push(child);
        }
    }
    found
}

both! {
    /// Programs that a shell has stopped stay so after a pause.
    async fn what_slept_before_sleeps_on() {
        let living = Living::new();
        let sandbox = living.create().await;
        let script = "sleep 1000 & kill -STOP $!; echo $! > /tmp/asleep; sleep 1000 & echo $! > /tmp/awake; wait";
        let _run = start(&*sandbox, script).await;
        let state = async |name: &str| {
            let script = format!("until test -s /tmp/{name}; do sleep 0.01; done; grep State: /proc/$(cat /tmp/{name})/status");
            ok(&*sandbox, &script).await
        };
        while !state("asleep").await.contains('T') {}
        assert!(state("awake").await.contains('S'));
        sandbox.pause().await.unwrap();
        sandbox.resume().await.unwrap();
        assert!(state("asleep").await.contains('T'));
        assert!(state("awake").await.contains('S'));
    }
}

both! {
    /// A hang-up wakes whoever leads a session, and a dead parent whoever it had stopped: neither goes on.
    async fn nothing_wakes_while_paused() {
        // It goes after all that writes there.
        let shared = tempfile::tempdir().unwrap();
        let mut living = Living::new();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
        living.spec.mounts = vec![mount(shared.path(), "/in", Access::ReadWrite)];
        let sandbox = living.create().await;
        let beats = |name: &str| format!("while :; do echo x >> /in/{name}; sleep 0.005; done");
        let size = |name: &str| fs::metadata(shared.path().join(name)).map_or(0, |found| found.len());
        let leader = format!("trap ': woken' HUP CONT; ({}) & {}", beats("a"), beats("b"));
        let mut request = ExecRequest::new(["sh", "-c", &leader]);
        request.terminal = Some(TerminalSize { rows: 9, columns: 9 });
        let mut run = sandbox.exec(request).await.unwrap();
        let terminal = run.take_terminal().unwrap();
        let other = start(&*sandbox, &format!("set -m; ({}) & {}", beats("c"), beats("d"))).await;
        eventually("they beat", || ["a", "b", "c", "d"].iter().all(|name| size(name) > 0)).await;
        sandbox.pause().await.unwrap();
        drop(terminal);
        sandbox.signal(other.number().unwrap(), 9).await.unwrap();
        let all = || ["a", "b", "c", "d"].map(size);
        // Whoever was woken has a moment until init hears of it, and goes on for no longer.
        let (mut before, mut since) = (all(), Instant::now());
        eventually("they stand still", || {
            let now = all();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_secs(1)
        })
        .await;
        assert!(sandbox.status().await.unwrap().paused);
        // The control: those that were not killed beat again.
        sandbox.resume().await.unwrap();
        eventually("they beat again", || size("b") > before[1]).await;
    }
}

/// Every process, mount and control group of it.
#[test]
fn its_end_leaves_nothing() {
    if !is_root() {
        return skip!("only root has control groups to limit a sandbox with");
    }
    run_async(async {
        let before = mounts();
        for close in [true, false] {
            let mut living = Living::new();
            living.spec.limits.memory = Some(256 << 20);
            let marker = marker();
            let sandbox = living.create().await;
            start(
                &*sandbox,
                &format!("trap '' HUP TERM; setsid sleep {marker} & sleep {marker}; :"),
            )
            .await;
            eventually("both", || {
                processes_with(&format!("sleep {marker}")).len() >= 2
            })
            .await;
            let init = living.init();
            // For its limits, and to freeze it: of one version they are one.
            let groups = control_groups(living.spec.id);
            assert!(matches!(groups.len(), 1 | 2), "{groups:?}");
            // A use of it does not take its groups along.
            drop(sandbox);
            assert_eq!(control_groups(living.spec.id), groups);
            if close {
                living.open().await.close().await.unwrap();
            } else {
                // Also one that answers nothing any more.
                let pid = rustix::process::Pid::from_raw(i32::try_from(init).unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
                remove(&living.handle()).await.unwrap();
            }
            assert_eq!(processes_with(&marker), Vec::<u32>::new());
            assert!(is_gone(init));
            assert_eq!(control_groups(living.spec.id), Vec::<PathBuf>::new());
        }
        new_mounts_go(&before).await;
    });
}

/// Whether it sleeps without a time at which it wakes up: ppoll(2), whose third word says until when. An ordinary user does
/// not see that of a process that cannot be dumped, and its number is this machine's.
fn sleeps_without_end(pid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall"));
    let Ok(call) = call else {
        return !rustix::process::geteuid().is_root();
    };
    let words: Vec<&str> = call.split(' ').collect();
    cfg!(not(target_arch = "x86_64")) || words[0] == "271" && words[3] == "0x0"
}

both! {
    /// What counts is how often init was let run because it had waited for something.
    async fn nothing_wakes_an_idle_one() {
        let living = Living::new();
        let sandbox = living.create().await;
        // Programs that sleep, and a connection that says nothing.
        let _run = start(&*sandbox, "sleep 1000; :").await;
        let init = living.init();
        let wakes = || status_of(init, "voluntary_ctxt_switches").parse::<u64>().unwrap();
        // The control: what is asked of one that sleeps is one.
        let before = wakes();
        for _ in 0..20 {
            sandbox.status().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(wakes() > before);
        // What was asked for settles, and then there is nothing.
        let (mut before, mut since) = (wakes(), Instant::now());
        eventually("it sleeps", || {
            let now = wakes();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_millis(1500)
        })
        .await;
        // However long one would look.
        eventually("nothing but what happens wakes it", || sleeps_without_end(init)).await;
        // While it is paused by signals it looks about once a second whether something has woken itself, and no more
        // often. What is frozen needs no look at all.
        sandbox.pause().await.unwrap();
        let status = sandbox.status().await.unwrap();
        let most = if status.stopping == Stopping::Freezer { 0 } else { 6 };
        let (mut before, mut since) = (wakes(), Instant::now());
        eventually("it mostly sleeps", || {
            let (now, passed) = (wakes(), since.elapsed());
            if now - before > most {
                (before, since) = (now, Instant::now());
            }
            passed > Duration::from_secs(3)
        })
        .await;
        if most == 0 {
            eventually("nothing wakes it while paused", || sleeps_without_end(init)).await;
        }
    }
}

both! {
    /// Without its way in nobody would ever find it again. Moved with its home, or touched, it is as it was.
    async fn it_ends_with_its_way_in() {
        for whole in [true, false] {
            let living = Living::below("home/state/one");
            let sandbox = living.create().await;
            let marker = marker();
            let _run = start(&*sandbox, &format!("sleep {marker}; :")).await;
            let init = living.init();
            let (home, moved) = (living.state.path().join("home"), living.state.path().join("moved"));
            fs::rename(&home, &moved).unwrap();
            assert_eq!(ok(&*sandbox, "echo on").await, "on\n");
            fs::rename(&moved, &home).unwrap();
            for mode in [0o700, 0o600] {
                fs::set_permissions(living.socket(), fs::Permissions::from_mode(mode)).unwrap();
            }
            assert_eq!(ok(&*living.open().await, "echo on").await, "on\n");
            assert!(!is_gone(init));
            // Nobody has a connection to it either.
            drop(sandbox);
            if whole {
                fs::remove_dir_all(&home).unwrap();
            } else {
                fs::remove_file(living.socket()).unwrap();
            }
            eventually("its end", || is_gone(init)).await;
            assert_eq!(processes_with(&marker), Vec::<u32>::new());
        }
    }
}
