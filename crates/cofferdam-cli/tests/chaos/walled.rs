//! `kill -9` of whoever keeps a sandbox's place behind the wall: nothing opens, and the next command puts it right.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cofferdam_lab::skip;

use crate::checker::{self, User};
use crate::environment::Environment;
use crate::living::{NAME, check, kill_number, processes, state, work};

/// What a healthy machine needs a small part of.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// On this machine: greets everyone who comes.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) port: u16,
    came: Arc<AtomicUsize>,
}

impl Service {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(b"hello\n");
            }
        });
        Self { port, came }
    }

    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// Behind the wall, with this service allowed and the agent's work committed.
fn walled(service: &Service, limits: &[&str]) -> Environment {
    let environment = Environment::new();
    let rule = format!("host.cofferdam.internal:{}", service.port);
    let done = environment.cofferdam(&[&["create", NAME, "--allow", &rule], limits].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    work(&environment);
    environment
}

/// Asks each service once; says `in` where one answers.
pub(crate) fn ask(services: &[&Service]) -> String {
    let ports = services.iter().map(|one| one.port.to_string());
    let ports = ports.collect::<Vec<_>>().join(" ");
    format!(
        "for port in {ports}; do timeout 2 bash -c 'exec 3<>/dev/tcp/host.cofferdam.internal/$0 && read -r line <&3 \
         && echo in' $port 2>/dev/null; done; true"
    )
}

/// Asks both again and again, for as long as it is let.
pub(crate) fn keeps_asking(services: &[Service; 2]) -> String {
    let asked = ask(&services.each_ref());
    format!("while :; do {asked}; sleep 0.01; done")
}

/// Asks the second one once, which may not pass, and the first one until it answers: once somebody keeps its place again,
/// it does.
pub(crate) fn passes_again([allowed, forbidden]: &[Service; 2]) -> String {
    let (allowed, forbidden) = (ask(&[allowed]), ask(&[forbidden]));
    format!(
        "{forbidden}; for n in $(seq 100); do [ \"$({allowed})\" = in ] && exit 0; sleep 0.1; done; exit 9"
    )
}

fn exec(environment: &Environment, script: &str) -> String {
    let done = environment.cofferdam(&["exec", NAME, "--", "bash", "-c", script]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    done.stdout
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn name(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let name = line.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Those of this environment's processes that do this.
pub(crate) fn of(environment: &Environment, role: &str) -> Vec<u32> {
    let is = |pid: &u32| name(*pid).starts_with(&format!("cofferdam-{role}"));
    processes(environment).into_iter().filter(is).collect()
}

/// Who has signed a sandbox's lock.
fn keeper(state: &Path) -> u32 {
    let signed = fs::read_to_string(state.join("lock")).unwrap();
    signed.split(' ').next().unwrap().parse().unwrap()
}

/// As soon as its dead are counted.
fn remove_group(group: &Path) {
    let shown = format!("{} is empty", group.display());
    eventually(&shown, || fs::remove_dir(group).is_ok());
}

/// Runs as long as its test, and is nobody's business.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
        Self(sleep.stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a reboot takes besides processes, and what it leaves: control groups are gone, and the lock names a process whose
/// number is somebody else's by now.
fn reboot(environment: &Environment, stranger: u32) {
    for id in checker::ids(environment) {
        let mut groups = checker::control_groups(&id);
        // Those below first.
        groups.sort_by_key(|group| std::cmp::Reverse(group.components().count()));
        for group in groups {
            for below in fs::read_dir(&group).unwrap().flatten() {
                if below.file_type().unwrap().is_dir() {
                    remove_group(&below.path());
                }
            }
            remove_group(&group);
        }
        assert!(checker::control_groups(&id).is_empty());
        let stat = fs::read_to_string(format!("/proc/{stranger}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap();
        let began = fields.split_whitespace().nth(19).unwrap();
        let lock = environment.home().join("state").join(&id).join("lock");
        assert!(lock.exists());
        fs::write(&lock, format!("{stranger} {began}\n")).unwrap();
    }
}

/// The nearest to a reboot of the machine.
#[test]
fn all_of_it_dies_at_once() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root sees whose a process is that cannot be dumped");
    }
    for (next, limits) in [
        ("start", &[][..]),
        ("start", &["--memory", "256m"]),
        ("delete", &[]),
    ] {
        reboots(next, limits);
    }
}

/// And this is the first command after that.
fn reboots(next: &str, limits: &[&str]) {
    let service = Service::new();
    let environment = walled(&service, limits);
    let before = User::of(&environment);
    let there = processes(&environment);
    for role in ["guest", "supervisor", "gateway"] {
        assert!(!of(&environment, role).is_empty(), "there is no {role}");
    }
    for pid in there {
        kill_number(pid);
    }
    eventually("they die", || processes(&environment).is_empty());
    let mut stranger = Stranger::new();
    reboot(&environment, stranger.0.id());
    assert_eq!(state(&environment).as_deref(), Some("stopped"));
    let used = environment.cofferdam(&["exec", NAME, "--", "true"]);
    assert_eq!(used.status, 1, "{}", used.stderr);
    assert!(
        used.stderr.contains("cofferdam start one"),
        "{}",
        used.stderr
    );
    if next == "start" {
        let started = environment.cofferdam(&["start", NAME]);
        assert_eq!(started.status, 0, "{}", started.stderr);
        assert_eq!(state(&environment).as_deref(), Some("active"));
        assert_eq!(exec(&environment, &ask(&[&service])), "in\n");
        let home = environment.cofferdam(&["collect", NAME]);
        assert_eq!(home.status, 0, "{}", home.stderr);
    } else {
        let deleted = environment.cofferdam(&["delete", "--force", NAME]);
        assert_eq!(deleted.status, 0, "{}", deleted.stderr);
        assert_eq!(state(&environment), None);
    }
    assert_eq!(checker::subjects(&environment).len(), 3);
    check(&environment, &before, true, "all dead at once");
    // Nobody took whoever has the number now for the one who had it.
    let ended = stranger.0.try_wait().unwrap();
    assert!(ended.is_none(), "a stranger was ended");
}

/// Nothing passes while nobody keeps its place, and what is not allowed passes never.
#[test]
fn nothing_is_open_while_nobody_keeps_its_place() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root sees whose a process is that cannot be dumped");
    }
    let [allowed, forbidden] = [(); 2].map(|()| Service::new());
    let environment = walled(&allowed, &[]);
    let before = User::of(&environment);
    let state_directory = environment.states()[0].clone();
    // Another one behind the same gateway, which has no end of its own then.
    let other = environment.cofferdam(&["create", "other"]);
    assert_eq!(other.status, 0, "{}", other.stderr);
    // The control: one of them answers.
    assert_eq!(exec(&environment, &ask(&[&allowed, &forbidden])), "in\n");
    let tries = format!(
        "while :; do {}; echo >> ~/tried; sleep 0.01; done",
        ask(&[&allowed, &forbidden])
    );
    let begun = environment.cofferdam(&["exec", NAME, "--detach", "--", "bash", "-c", &tries]);
    assert_eq!(begun.status, 0, "{}", begun.stderr);
    let tried = state_directory.join("home/tried");
    let tried = || fs::metadata(&tried).map_or(0, |file| file.len());
    for dead in [
        &["supervisor"][..],
        &["gateway"],
        &["supervisor", "gateway"],
    ] {
        let there: Vec<u32> = (dead.iter())
            .flat_map(|role| match *role {
                "supervisor" => vec![keeper(&state_directory)],
                role => of(&environment, role),
            })
            .collect();
        assert_eq!(there.len(), dead.len(), "{dead:?}");
        for pid in &there {
            assert!(kill_number(*pid));
        }
        eventually("they die", || there.iter().all(|pid| name(*pid).is_empty()));
        // A gateway that ended alone is replaced by its supervisor.
        if dead.contains(&"supervisor") {
            // What is on its way in may still come.
            eventually("nothing passes any more", || {
                let (first, came) = (tried(), allowed.came());
                eventually("it tries", || tried() >= first + 2);
                allowed.came() == came
            });
        }
        assert_eq!(state(&environment).as_deref(), Some("active"), "{dead:?}");
        // Whoever comes next has it kept again.
        assert_eq!(exec(&environment, "echo on"), "on\n");
        let came = allowed.came();
        eventually("it passes again", || allowed.came() > came);
    }
    assert_eq!(forbidden.came(), 0);
    let ended = environment.cofferdam(&["delete", "other"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    check(&environment, &before, true, "its place was nobody's");
}
