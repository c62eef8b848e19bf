//! Attacks by a program inside for which a shell has no command: system calls, files that give rights, sockets to find, memory to
//! fill. Numbers are those of docs/attacks.md.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cofferdam_guest::protocol::{PROXY_PORT, REDIRECT_PORT};

use super::network::walled;
use super::rights::Marked;
use super::trial::{Trial, finish, mount, ok, refused, start};
use super::{Failure, Outcome, ensure};
use crate::sandbox::{Access, NetworkKind, SandboxSpec};

/// Where the program of [`super::ATTEMPTS`] is inside.
const INSIDE: &str = "/attempts";
/// Somebody whom nothing belongs to.
const NOBODY: u32 = 65_534;
/// More than this is not written to see that it ends, in KiB.
const MOST: u64 = 2 << 20;

/// A sandbox with the program in it; none where the caller has not built it.
fn armed(trial: &Trial<'_>, spec: &mut SandboxSpec) -> Option<PathBuf> {
    let program = trial.subject.attempts.clone()?;
    spec.mounts.push(mount(&program, INSIDE, Access::ReadOnly));
    Some(program)
}

fn unarmed() -> Outcome {
    Outcome::NotTried("nobody has built the program of `ATTEMPTS`".to_owned())
}

/// What it prints outside, as `user` where one is named.
fn outside(program: &Path, words: &[&str], user: Option<u32>) -> Result<String, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "an ordinary program beside the sandbox, which ends by itself"
    )]
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let done = command.output()?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The names behind `word` in what the program printed.
fn named<'a>(said: &'a str, word: &str) -> BTreeSet<&'a str> {
    let names = said.lines().filter_map(|line| line.strip_prefix(word));
    names
        .filter_map(|rest| rest.trim().split(':').next())
        .collect()
}

/// Attack 75, and of 9, 69, 74 and 129 what is a system call. The control is the same program outside.
pub(super) async fn no_system_call_leads_out_of_it(trial: &Trial<'_>) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let Some(program) = armed(trial, &mut spec) else {
        return Ok(unarmed());
    };
    let place = trial.directory("calls")?;
    let other = Marked::start("86464")?;
    let words = ["calls", &other.id().to_string(), &place.to_string_lossy()];
    let said = outside(&program, &words, None)?;
    let fired = named(&said, "went");
    ensure!(
        !fired.is_empty(),
        "outside of the sandbox none of them does anything: {said}"
    );
    let sandbox = trial.create(&spec).await?;
    let text = format!("mkdir /tmp/calls && {INSIDE} calls 1 /tmp/calls");
    let inside = ok(&*sandbox, &text).await?;
    let went = named(&inside, "went");
    ensure!(went.is_empty(), "these go through: {went:?}");
    let tried = named(&inside, "refused");
    ensure!(
        fired.is_subset(&tried),
        "not all of them were tried inside: {inside}"
    );
    let without: Vec<_> = tried.difference(&fired).copied().collect();
    if without.is_empty() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::InPart(format!(
        "refused to the caller outside as well: {}",
        without.join(", ")
    )))
}

/// Attack 69: programs in the workspace that are root's and give that on, by a bit and by a capability. The control is somebody
/// else outside, who becomes root by the one and gets a right by the other.
pub(super) async fn no_file_in_the_workspace_gives_rights(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    let Some(program) = armed(trial, &mut spec) else {
        return Ok(unarmed());
    };
    if !rustix::process::geteuid().is_root() {
        let why = "only root can give the rights of root to a file";
        return Ok(Outcome::NotTried(why.to_owned()));
    }
    let workspace = trial.with_workspace(&mut spec)?;
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755))?;
    let (bit, capable) = (workspace.join("bit"), workspace.join("capable"));
    for file in [&bit, &capable] {
        fs::copy(&program, file)?;
        chown(file, Some(0), Some(0))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(&bit, fs::Permissions::from_mode(0o6755))?;
    outside(&program, &["capability", &capable.to_string_lossy()], None)?;
    let rights = |file: &Path| outside(file, &["rights"], Some(NOBODY));
    let (as_root, with_rights) = (rights(&bit)?, rights(&capable)?);
    if !as_root.contains("Uid:\t65534\t0\t") || capabilities(&with_rights)? == 0 {
        let why = "the place of the checks gives files no rights either";
        return Ok(Outcome::NotTried(why.to_owned()));
    }
    let sandbox = trial.create(&spec).await?;
    let own = ok(&*sandbox, &format!("{INSIDE} rights")).await?;
    for name in ["bit", "capable"] {
        // It may be refused outright.
        let done = finish(start(&*sandbox, &format!("./{name} rights")).await?).await?;
        ensure!(
            done.out.is_empty() || done.out == own,
            "{name} changes {own} to {}",
            done.out
        );
    }
    Ok(Outcome::Passed)
}

/// All that are effective, of what `attempts rights` prints.
fn capabilities(said: &str) -> Result<u64, Failure> {
    let line = said.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let number = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    number.ok_or_else(|| Failure(format!("no capabilities in {said}")))
}

/// Attack 70, and of 32 the sockets: nothing takes a connection inside that no program inside has opened. The control is a program
/// that opens one of each kind, all of which are found.
pub(super) async fn nobody_listens_inside_but_its_own(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let mut spec = trial.spec()?;
    if armed(trial, &mut spec).is_none() {
        return Ok(unarmed());
    }
    let networks = trial.subject.provider.abilities().networks;
    let mut expected = BTreeSet::new();
    if networks.contains(&NetworkKind::Allowlist) {
        spec.network = walled(trial, &spec)?;
        // The gateway's: one for what is redirected, one for who asks by name.
        expected.extend([REDIRECT_PORT, PROXY_PORT].map(|port| format!("port {port}")));
    } else if !networks.contains(&NetworkKind::None) {
        return Ok(Outcome::NotTried("it has the host's network".to_owned()));
    }
    let sandbox = trial.create(&spec).await?;
    let text = format!("{INSIDE} sockets 1 65535");
    let found = ok(&*sandbox, &text).await?;
    let mut found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
    // The wall's own for whoever has no network of IP; the gateway serves it too.
    found.retain(|one| !one.ends_with("/wall.sock"));
    ensure!(found == expected, "these take connections: {found:?}");
    let own = ["/tmp/conformance", "@conformance", "port 2375"];
    let listens = format!("{INSIDE} listen /tmp/conformance conformance 2375 >/tmp/listens &");
    let wait = "until grep -q listens /tmp/listens; do sleep 0.05; done";
    let found = ok(&*sandbox, &format!("{listens} {wait}; {text}; kill $!")).await?;
    ensure!(
        own.iter().all(|one| found.lines().any(|line| line == *one)),
        "one that it opened itself is not found: {found}"
    );
    let scripts = [
        "env | grep -E '^(DOCKER|CONTAINER)_HOST='",
        "test -e ~/.docker/config.json",
        "test -e ~/.config/containers/auth.json",
    ];
    refused(&*sandbox, &scripts).await?;
    Ok(Outcome::Passed)
}

/// Attack 73: what a sandbox keeps in memory ends before the machine's memory does. The control is what is written until then.
pub(super) async fn files_in_memory_end_before_the_machines_does(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let sandbox = trial.any().await?;
    let machine = machines_memory()?;
    let text = "for place in /tmp /var/tmp /dev/shm /run \"$HOME\"; do test -w $place && \
                echo $(grep -c \" $place tmpfs \" /proc/self/mounts) $(df -Pk $place | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2) $place; done; true";
    let found = ok(&*sandbox, text).await?;
    let (mut all, mut smallest) = (0, (u64::MAX, ""));
    for line in found.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(in_memory), Some(size), Some(place)) = (words.next(), words.next(), words.next())
        else {
            return Err(Failure(format!("no sizes in {found:?}")));
        };
        if in_memory == "0" {
            continue;
        }
        let size: u64 = (size.parse()).map_err(|_| Failure(format!("no size in {line:?}")))?;
        // A tmpfs of which nobody says how large it may be takes half.
        ensure!(
            size > 0 && size < machine / 2 - machine / 100,
            "{place} takes {size} of the machine's {machine} KiB of memory"
        );
        all += size;
        smallest = smallest.min((size, place));
    }
    ensure!(
        all < machine - machine / 4,
        "all together take {all} of the machine's {machine} KiB of memory: {found}"
    );
    let (size, place) = smallest;
    if size > MOST {
        return Ok(Outcome::InPart(format!(
            "{size} KiB were not written to see that they end"
        )));
    }
    let (fits, more) = (size / 2, size + 1024);
    let fill = |kib: u64| {
        format!(
            "dd if=/dev/zero of={place}/filled bs=1k count={kib} 2>&1; echo $?; rm {place}/filled"
        )
    };
    let said = ok(&*sandbox, &fill(fits)).await?;
    ensure!(said.trim_end().ends_with("\n0"), "half of {place}: {said}");
    let said = ok(&*sandbox, &fill(more)).await?;
    ensure!(
        said.contains("No space left"),
        "{more} KiB fit into the {size} of {place}: {said}"
    );
    Ok(Outcome::Passed)
}

/// In KiB.
fn machines_memory() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure("this machine does not say how much memory it has".to_owned()))
}

/// Attack 74: the devices of every program, and no other. The control is one of those.
pub(super) async fn there_are_only_the_devices_of_every_program(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    const KNOWN: [&str; 8] = [
        "console", "full", "null", "ptmx", "random", "tty", "urandom", "zero",
    ];
    let sandbox = trial.any().await?;
    // A mount over a file is not seen by who only lists the directory.
    let text = "{ find / -path /proc -prune -o -path /dev/pts -prune -o '(' -type c -o -type b ')' -print; \
                for one in /dev/*; do test ! -L $one && test -c $one -o -b $one && echo $one; done; } 2>/dev/null; true";
    let found = ok(&*sandbox, text).await?;
    ensure!(found.contains("/dev/null"), "no /dev/null: {found}");
    let is_known = |path: &str| {
        path.strip_prefix("/dev/")
            .is_some_and(|name| KNOWN.contains(&name))
    };
    let other = found.lines().find(|path| !is_known(path));
    ensure!(other.is_none(), "it has other devices: {found}");
    let scripts = [
        "cat </dev/mem",
        "cat </dev/kmsg",
        "cat </dev/fuse",
        "cat </dev/kvm",
        "cat </dev/loop0",
        "cat </dev/sda",
    ];
    refused(&*sandbox, &scripts).await?;
    Ok(Outcome::Passed)
}
