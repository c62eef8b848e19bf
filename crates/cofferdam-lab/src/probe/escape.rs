//! Every way that we know to another network or to the rules of this one: by privilege, by other
//! namespaces, by descriptors of the sandbox's first process, by files.

#![expect(
    clippy::disallowed_methods,
    reason = "starts programs and writes kernel files: that is the attack"
)]

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::netlink;

/// Programs that succeed only with privileges that a sandbox has not.
const PROGRAMS: [&[&str]; 15] = [
    &["unshare", "--user", "--map-root-user", "--net", "true"],
    &["unshare", "--user", "true"],
    &["unshare", "--net", "true"],
    &["nsenter", "--net=/proc/1/ns/net", "true"],
    &[
        "nsenter",
        "--user=/proc/1/ns/user",
        "--net=/proc/1/ns/net",
        "true",
    ],
    &["newuidmap", "1", "0", "0", "1"],
    &["su", "-c", "true", "root"],
    &["sudo", "-n", "true"],
    &["setpriv", "--reuid", "0", "true"],
    &["ip", "link", "add", "x0", "type", "veth"],
    &["ip", "route", "add", "default", "dev", "lo"],
    &["nft", "flush", "ruleset"],
    &["iptables", "-F"],
    &["mount", "-t", "tmpfs", "none", "/mnt"],
    &["sysctl", "-w", "net.ipv4.ip_forward=1"],
];

const FILES: [(&str, &str); 4] = [
    ("/proc/sys/net/ipv4/ip_forward", "1"),
    ("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"),
    ("/proc/sys/net/ipv4/conf/all/route_localnet", "1"),
    ("/etc/resolv.conf", "nameserver 192.0.2.53\n"),
];

/// Those that went, by name.
pub(super) fn attempt_all() -> Vec<String> {
    let mut went = Vec::new();
    each(|name, attempt| {
        if attempt().is_ok() {
            went.push(name);
        }
    });
    went
}

/// The names of all.
pub fn ways() -> Vec<String> {
    let mut names = Vec::new();
    each(|name, _| names.push(name));
    names
}

fn each(mut visit: impl FnMut(String, &dyn Fn() -> io::Result<()>)) {
    for words in PROGRAMS {
        visit(words.join(" "), &|| run(words));
    }
    for (path, text) in FILES {
        visit(format!("write {path}"), &|| overwrite(path, text));
    }
    visit("netlink: add a route".into(), &netlink::add_route);
    visit("netlink: set a link".into(), &netlink::set_link);
    visit("netlink: flush the rules".into(), &netlink::flush_rules);
    visit("setns to the network of 1".into(), &enter_network_of_first);
    visit("descriptors of 1".into(), &steal_descriptor);
    visit("list the descriptors of 1".into(), &|| list("/proc/1/fd"));
    visit("memory of 1".into(), &open_memory);
}

fn run(words: &[&str]) -> io::Result<()> {
    let [program, arguments @ ..] = words else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("failed"))
    }
}

/// What was there is written back where it went.
fn overwrite(path: &str, text: &str) -> io::Result<()> {
    let before = fs::read(path)?;
    fs::write(path, text)?;
    fs::write(path, before)
}

fn enter_network_of_first() -> io::Result<()> {
    let namespace = fs::File::open("/proc/1/ns/net")?;
    let result = move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&namespace),
        Some(LinkNameSpaceType::Network),
    );
    Ok(result?)
}

fn steal_descriptor() -> io::Result<()> {
    let first = rustix::process::Pid::INIT;
    let process = pidfd_open(first, PidfdFlags::empty())?;
    (0..64)
        .any(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).is_ok())
        .then_some(())
        .ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

fn list(path: &str) -> io::Result<()> {
    fs::read_dir(path)?
        .next()
        .map(drop)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn open_memory() -> io::Result<()> {
    fs::File::options()
        .read(true)
        .write(true)
        .open("/proc/1/mem")
        .map(drop)
}
