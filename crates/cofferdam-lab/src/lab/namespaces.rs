//! Makes the two namespaces and the wire between them, by the programs `unshare`, `ip` and `mount`.
//!
//! The caller's executable is started again twice, in a role each: [`role`] must be the first thing its
//! `main` asks.

#![expect(
    clippy::disallowed_methods,
    reason = "starts programs and writes two files of its own, in tests only"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getegid, geteuid, wait};

use super::world::{Reply, World, locked};
use super::{control, dns, origins, place, recorder};

const INTERNET: &str = "--lab-internet";
const HOUSE: &str = "--lab-house";
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `command` in the house of a new lab to its end. The lab keeps its files, `control` among them, in
/// `directory`, whose path is short: it holds sockets.
pub fn enter(directory: &Path, command: &[OsString]) -> io::Result<ExitCode> {
    let mut unshare = Command::new("unshare");
    if !geteuid().is_root() {
        unshare.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let status = unshare
        .args(["--net", "--mount", "--pid", "--mount-proc"])
        .args(["--fork", "--kill-child", "--"])
        .arg(std::env::current_exe()?)
        .arg(INTERNET)
        .arg(directory)
        .args(command)
        .status()?;
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
    ))
}

/// Plays the part of the lab that the arguments name, if they name one.
pub fn role(arguments: &[OsString]) -> Option<ExitCode> {
    let [part, directory, command @ ..] = arguments else {
        return None;
    };
    let directory = Path::new(directory);
    let result = match part.to_str()? {
        INTERNET => internet(directory, command),
        HOUSE => house(directory, command),
        _ => return None,
    };
    Some(result.unwrap_or_else(|error| {
        // Whoever started the lab reads this, not a program.
        let _ = writeln!(io::stderr(), "lab: {error}");
        ExitCode::FAILURE
    }))
}

/// The first process of the lab's process namespace: serves the internet, reaps, and ends everything with
/// the command.
fn internet(directory: &Path, command: &[OsString]) -> io::Result<ExitCode> {
    let world = Arc::new(World::default());
    let answer = Reply::Addresses {
        addresses: vec![place::ORIGIN.parse().map_err(io::Error::other)?],
        ttl: 0,
    };
    locked(&world.scripts).insert(place::NAME.to_owned(), vec![answer]);
    recorder::start(Arc::clone(&world))?;
    let mut house = Command::new("unshare")
        .args(["--net", "--mount", "--"])
        .arg(std::env::current_exe()?)
        .arg(HOUSE)
        .arg(directory)
        .args(command)
        .stdin(Stdio::piped())
        .spawn()?;
    wait_for_namespace(house.id())?;
    ip(&format!(
        "link set lo up
         link add inet0 type veth peer name house0 netns {house}
         addr add {router}/24 dev inet0
         addr add {dns}/32 dev inet0
         addr add {router_6}/64 dev inet0 nodad
         addr add fe80::1/64 dev inet0 nodad
         link set inet0 up
         route add local default dev lo table main
         -6 route add local default dev lo table main",
        house = house.id(),
        router = place::ROUTER,
        dns = place::DNS,
        router_6 = place::ROUTER_6,
    ))?;
    dns::start(Arc::clone(&world))?;
    origins::start(Arc::clone(&world))?;
    control::start(&directory.join("control"), world)?;
    drop(house.stdin.take());
    let house = i32::try_from(house.id()).map_err(io::Error::other)?;
    loop {
        let Some((pid, status)) = wait(WaitOptions::empty())? else {
            continue;
        };
        if pid.as_raw_nonzero().get() == house {
            let code = status
                .exit_status()
                .and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.unwrap_or(1)));
        }
    }
}

/// Waits for the wire, sets up this end of it, and becomes the command.
fn house(directory: &Path, command: &[OsString]) -> io::Result<ExitCode> {
    io::stdin().read_to_end(&mut Vec::new())?;
    ip(&format!(
        "link set lo up
         addr add {house}/24 dev house0
         addr add {house_6}/64 dev house0 nodad
         link set house0 up
         route add default via {router}
         -6 route add default via {router_6}",
        house = place::HOUSE,
        house_6 = place::HOUSE_6,
        router = place::ROUTER,
        router_6 = place::ROUTER_6,
    ))?;
    // Programs without privileges may ping, as on a usual machine.
    let groups = match getegid().as_raw() {
        0 => "0 2147483647".to_owned(),
        own => format!("{own} {own}"),
    };
    fs::write("/proc/sys/net/ipv4/ping_group_range", groups)?;
    let file = directory.join("resolv.conf");
    fs::write(&file, format!("nameserver {}\n", place::DNS))?;
    run(Command::new("mount")
        .arg("--bind")
        .arg(&file)
        .arg("/etc/resolv.conf"))?;
    let [program, arguments @ ..] = command else {
        return Err(io::Error::other("no command to run in the house"));
    };
    Err(Command::new(program).args(arguments).exec())
}

/// The child has a network namespace of its own once it is through `unshare`.
fn wait_for_namespace(child: u32) -> io::Result<()> {
    let own = fs::read_link("/proc/self/ns/net")?;
    let start = Instant::now();
    while fs::read_link(format!("/proc/{child}/ns/net"))? == own {
        if start.elapsed() > LIMIT {
            return Err(io::Error::other("the house got no network namespace"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// One `ip` command a line; `-6` before a line's command is for IPv6.
fn ip(lines: &str) -> io::Result<()> {
    for line in lines.lines() {
        run(Command::new("ip").args(line.split_whitespace()))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let words: Vec<&OsStr> = command.get_args().collect();
    Err(io::Error::other(format!(
        "{} {words:?}: {}",
        command.get_program().display(),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}
