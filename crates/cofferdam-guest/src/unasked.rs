//! What a container has of its host that nobody asked its engine for. Whoever administers an engine can have it give something to every
//! container (Podman by `mounts.conf` and `containers.conf`, any engine by a runtime that adds what it likes): an agent gets none of it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::{Expected, Seen};

use crate::tree::{Refusal, shown};

const TABLE: &str = "/proc/self/mountinfo";
/// Files of their own that engines put into every container, under the same name each. An image may have a link there.
const WORDS: [&str; 5] = [
    "/etc/hostname",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/resolv.conf",
    "/run/.containerenv",
];
/// What of a machine with FIPS rules is shown there is of the image itself.
const FIPS: &str = "/etc/crypto-policies/";
const FIPS_POLICIES: [&str; 3] = [
    "crypto-policies/back-ends/FIPS",
    "crypto-policies/default-fips-config",
    "userdata/fips-config",
];
/// File systems below `/dev`, each the container's own, and of which kind.
const OWN: [(&str, &str); 4] = [
    ("", "tmpfs"),
    ("mqueue", "mqueue"),
    ("pts", "devpts"),
    ("shm", "tmpfs"),
];
/// Devices below `/dev` that are no hardware, or give nothing to who has no rights of root's: their major and minor numbers
/// (Documentation/admin-guide/devices.txt of Linux).
const DEVICES: [(&str, (u32, u32)); 10] = [
    ("console", (5, 1)),
    ("full", (1, 7)),
    ("fuse", (10, 229)),
    ("net/tun", (10, 200)),
    ("null", (1, 3)),
    ("ptmx", (5, 2)),
    ("random", (1, 8)),
    ("tty", (5, 0)),
    ("urandom", (1, 9)),
    ("zero", (1, 5)),
];
/// Major numbers of terminals of a container's own.
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
/// Below `/proc` and `/sys`: the kernel's own, and what hides parts of them.
const KERNELS: [&str; 6] = ["cgroup", "cgroup2", "mqueue", "proc", "selinuxfs", "sysfs"];
const HIDE: [&str; 2] = ["tmpfs", "devtmpfs"];
const EMPTY: &str = ".empty-directory";
/// Directories below `/dev` are not deeper.
const DEEPEST: usize = 3;

/// Looked at before anything else is done.
pub(crate) fn refuse(seen: &[Seen], expected: &Expected) -> Result<(), Refusal> {
    let unknown = |error: io::Error| {
        Refusal::Broken(format!("cannot tell what an engine has put here: {error}"))
    };
    let table = fs::read(TABLE).map_err(unknown)?;
    let asked = Asked {
        seen: seen.iter().map(|one| plain(&one.target)).collect(),
        in_memory: expected.in_memory.iter().map(|one| led(one)).collect(),
        volumes: expected.volumes.iter().map(|one| led(one)).collect(),
        words: (WORDS.iter())
            .map(|one| (Path::new(one), led(one.as_bytes())))
            .collect(),
        hosts: &expected.hosts,
    };
    if let Some(one) = mounts(&table).find(|one| !asked.has(one)) {
        return Err(asked.no_mount(&one.target));
    }
    match device(Path::new("/dev"), DEEPEST).map_err(unknown)? {
        None => Ok(()),
        Some(path) => {
            let path = shown(path.as_os_str().as_bytes());
            Err(unasked(&format!("gives its container the device {path}")))
        }
    }
}

fn unasked(what: &str) -> Refusal {
    Refusal::Unsupported {
        what: format!("the engine {what}, and nobody asked it to"),
        hint: "take that out of the engine's configuration, or out of its runtime's (Podman's is in containers.conf and mounts.conf; an empty \
               /etc/containers/mounts.conf comes before the distribution's)"
            .to_owned(),
    }
}

/// One line of proc_pid_mountinfo(5).
#[derive(Debug)]
struct Mounted<'a> {
    device: &'a [u8],
    /// Of its file system.
    root: PathBuf,
    target: PathBuf,
    writable: bool,
    kind: &'a str,
}

fn mounts(table: &[u8]) -> impl Iterator<Item = Mounted<'_>> {
    table.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let device = words.nth(2)?;
        let (root, target) = (words.next()?, words.next()?);
        let writable = words
            .next()?
            .split(|&byte| byte == b',')
            .any(|one| one == b"rw");
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some(Mounted {
            device,
            root: OsStr::from_bytes(&unescaped(root)).into(),
            target: OsStr::from_bytes(&unescaped(target)).into(),
            writable,
            kind: std::str::from_utf8(kind).unwrap_or_default(),
        })
    })
}

/// What was asked for, and what is in every container.
#[derive(Debug)]
struct Asked<'a> {
    seen: Vec<PathBuf>,
    in_memory: Vec<PathBuf>,
    volumes: Vec<PathBuf>,
    /// With where each leads.
    words: Vec<(&'a Path, PathBuf)>,
    hosts: &'a [(u32, u32)],
}

impl Asked<'_> {
    /// What is mounted below a directory of the host's comes along where an engine cannot leave it out.
    fn no_mount(&self, target: &Path) -> Refusal {
        let text = |path: &Path| shown(path.as_os_str().as_bytes());
        match self.seen.iter().find(|seen| target.starts_with(seen)) {
            None => unasked(&format!("mounts {} in its container", text(target))),
            Some(seen) => Refusal::Unsupported {
                what: format!(
                    "another file system is mounted at {}, below {}, and the engine cannot leave it out",
                    text(target),
                    text(seen)
                ),
                hint: "unmount it on this machine, or leave out `--sandbox`: a native sandbox does not show it".to_owned(),
            },
        }
    }

    fn has(&self, one: &Mounted<'_>) -> bool {
        let target = &one.target;
        let is_new = one.kind == "tmpfs" && one.root == Path::new("/");
        if target == Path::new("/") || self.seen.contains(target) {
            return true;
        }
        if self.in_memory.contains(target) && is_new {
            return true;
        }
        if self.volumes.contains(target) && is_anonymous(&one.root) {
            return true;
        }
        if self.is_word(one) {
            return true;
        }
        if let Ok(below) = target.strip_prefix("/dev") {
            return self.is_device(below, one);
        }
        if target.starts_with(FIPS) {
            return FIPS_POLICIES
                .iter()
                .any(|policy| one.root.ends_with(policy));
        }
        self.is_kernels(one)
    }

    /// Under its own name, wherever an image has it.
    fn is_word(&self, one: &Mounted<'_>) -> bool {
        let mut all = self.words.iter();
        all.any(|(word, led)| *led == one.target && one.root.file_name() == word.file_name())
    }

    fn is_device(&self, below: &Path, one: &Mounted<'_>) -> bool {
        if let Some((_, kind)) = OWN.iter().find(|(name, _)| Path::new(name) == below) {
            return one.kind == *kind && one.root == Path::new("/") && !self.is_the_hosts(one);
        }
        // Those of a terminal are files of its own file system. What a device is, is looked at in its place.
        match below.to_str() {
            Some("console" | "ptmx" | "pts/ptmx") => one.kind == "devpts",
            _ => {
                DEVICES.iter().any(|(name, _)| Path::new(name) == below)
                    && HIDE.contains(&one.kind)
                    && one.root.file_name() == below.file_name()
            }
        }
    }

    fn is_kernels(&self, one: &Mounted<'_>) -> bool {
        let below = |top: &str| one.target.starts_with(top);
        if !below("/proc") && !below("/sys") {
            return false;
        }
        // What an engine mounted before something new lay over all of it.
        let is_hidden = || {
            let covered = self
                .in_memory
                .iter()
                .any(|place| place == Path::new("/sys"));
            let found = one.target.symlink_metadata();
            covered
                && below("/sys")
                && found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let hides = match one.kind {
            "tmpfs" => one.root == Path::new("/") || one.root == Path::new("/null"),
            "devtmpfs" => one.root == Path::new("/null"),
            _ => false,
        };
        // crun hides directories by one of its own that is empty.
        let is_empty = || {
            let named = one.root.file_name() == Some(OsStr::new(EMPTY));
            let mut entries = fs::read_dir(&one.target).into_iter().flatten();
            named && entries.next().is_none()
        };
        // A container's own control groups are no others than its own; those of its engine are seen and not written.
        let leads_out = one.root.starts_with("/..") && one.writable;
        KERNELS.contains(&one.kind) && !leads_out || hides || is_empty() || is_hidden()
    }

    /// Whether it is one of the host's own of which every container has one of itself.
    fn is_the_hosts(&self, one: &Mounted<'_>) -> bool {
        let number = |(major, minor): &(u32, u32)| format!("{major}:{minor}").into_bytes();
        self.hosts.iter().any(|host| number(host) == one.device)
    }
}

/// Whether it is a directory that an engine made for one container: `…/volumes/ID/_data`.
fn is_anonymous(root: &Path) -> bool {
    let above = root.parent().and_then(Path::file_name);
    let is_id =
        |name: &OsStr| name.len() == 64 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
    root.file_name() == Some(OsStr::new("_data")) && above.is_some_and(is_id)
}

/// The first device in this directory that is none of those.
fn device(directory: &Path, depth: usize) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        // There is nothing for who may not look, nor for who looks too late.
        Err(error) if directory != Path::new("/dev") && is_nothing(&error) => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let below = path.strip_prefix("/dev").unwrap_or(&path);
        if kind.is_dir() && depth > 0 {
            if let Some(found) = device(&path, depth - 1)? {
                return Ok(Some(found));
            }
        } else if (kind.is_block_device() || kind.is_char_device())
            && !(kind.is_char_device() && is_known(below, entry.metadata()?.rdev()))
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_known(below: &Path, device: u64) -> bool {
    let number = (libc::major(device), libc::minor(device));
    if below.starts_with("pts") || below == Path::new("console") && number != (5, 1) {
        return TERMINALS.contains(&number.0) || number == (5, 2);
    }
    let mut all = DEVICES.iter();
    all.any(|(name, known)| Path::new(name) == below && *known == number)
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// As the kernel has it, without a word too many.
fn plain(path: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(path)).components().collect()
}

/// Where it leads: an engine goes by the links of an image.
fn led(path: &[u8]) -> PathBuf {
    let path = plain(path);
    path.canonicalize().unwrap_or(path)
}

/// Without the kernel's escapes: three octal digits each.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        rest = after;
        let octal = |digit: &u8| digit.wrapping_sub(b'0');
        match (first, after) {
            (b'\\', [a, b, c, after @ ..]) if octal(a) < 4 && octal(b) < 8 && octal(c) < 8 => {
                out.push(octal(a) * 64 + octal(b) * 8 + octal(c));
                rest = after;
            }
            _ => out.push(*first),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn asked() -> Asked<'static> {
        let path = |text: &str| vec![PathBuf::from(text)];
        Asked {
            seen: path("/repo with space"),
            in_memory: path("/tmp"),
            volumes: path("/data"),
            words: vec![(Path::new("/etc/hosts"), "/nix/hosts".into())],
            hosts: &[(0, 5)],
        }
    }

    #[test]
    fn what_is_mounted_below_a_directory_of_the_hosts_is_told_as_that() {
        let told = |target: &str| match asked().no_mount(Path::new(target)) {
            Refusal::Unsupported { what, .. } => what,
            Refusal::Broken(what) => panic!("{what}"),
        };
        let below = told("/repo with space/below");
        assert!(
            below.contains("at `/repo with space/below`, below `/repo with space`"),
            "{below}"
        );
        assert!(told("/given").contains("mounts `/given` in its container"));
    }

    /// The first of these mounts that nobody asked for: `ROOT TARGET KIND` each; `host:` before what is the host's.
    fn found(lines: &[String]) -> Option<String> {
        let table: String = lines
            .iter()
            .map(|line| {
                let [root, target, kind] = line.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}");
                };
                let of_host = root.strip_prefix("host:");
                let device = if of_host.is_some() { "0:5" } else { "0:39" };
                let root = of_host.unwrap_or(root);
                format!(
                    "134 129 {device} {root} {target} rw shared:1 master:2 - {kind} source rw\n"
                )
            })
            .collect();
        let asked = asked();
        let all = mounts(table.as_bytes()).collect::<Vec<_>>();
        assert_eq!(all.len(), lines.len());
        let found = all.into_iter().find(|one| !asked.has(one));
        found.map(|one| one.target.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_nobody_asked_for_is_found() {
        let usual = [
            "/ / overlay",
            "/ /proc proc",
            "/sys /proc/sys proc",
            "/null /proc/keys tmpfs",
            "/ /sys sysfs",
            "/docker/1 /sys/fs/cgroup/cpu cgroup",
            "/ /dev tmpfs",
            "/ /dev/shm tmpfs",
            "/null /dev/null devtmpfs",
            "/srv/a /repo\\040with\\040space ext4",
            "/ /tmp tmpfs",
            "/run/1/hosts /nix/hosts ext4",
            "/crun/.empty-directory /proc/no-such-place tmpfs",
            "/a/userdata/fips-config /etc/crypto-policies/config tmpfs",
            "/ /dev/pts devpts",
            "/0 /dev/console devpts",
            "/usr/share/crypto-policies/back-ends/FIPS /etc/crypto-policies/back-ends overlay",
        ]
        .map(str::to_owned);
        let volume = format!("/lib/docker/volumes/{ID}/_data /data ext4");
        assert_eq!(found(&[&usual[..], &[volume]].concat()), None);
        for (line, target) in [
            ("/srv /run/secrets ext4", "/run/secrets"),
            ("/srv /tmp/x ext4", "/tmp/x"),
            ("/srv /repo ext4", "/repo"),
            // What was asked for, and is something else.
            ("/srv /tmp tmpfs", "/tmp"),
            ("/srv /tmp ext4", "/tmp"),
            ("/srv /data ext4", "/data"),
            ("/srv/_data /data ext4", "/data"),
            ("/kmsg /dev/kmsg devtmpfs", "/dev/kmsg"),
            ("/srv/keys /dev/shm ext4", "/dev/shm"),
            ("/x /dev/shm tmpfs", "/dev/shm"),
            ("host:/ /dev/pts devpts", "/dev/pts"),
            ("/srv /dev/null ext4", "/dev/null"),
            // Where an image has a link.
            ("/srv/given /nix/hosts ext4", "/nix/hosts"),
            (
                "/srv /etc/crypto-policies/given ext4",
                "/etc/crypto-policies/given",
            ),
            ("/run/1/given /sys/given tmpfs", "/sys/given"),
            ("/ /sys/kernel/debug debugfs", "/sys/kernel/debug"),
            ("host:/ /dev tmpfs", "/dev"),
            ("host:/ /dev/shm tmpfs", "/dev/shm"),
            ("/srv /sys/fs/bpf ext4", "/sys/fs/bpf"),
            ("/../.. /sys/fs/cgroup cgroup2", "/sys/fs/cgroup"),
            ("/ /sys/given devtmpfs", "/sys/given"),
            ("/crun/.empty-directory /proc/self tmpfs", "/proc/self"),
            ("/srv /proc/x ext4", "/proc/x"),
            ("/srv /etc/hosts.d ext4", "/etc/hosts.d"),
            ("/srv /system sysfs", "/system"),
            ("/srv /a\\134040 ext4", "/a\\040"),
        ] {
            let lines = [&usual[..], &[line.to_owned()]].concat();
            assert_eq!(found(&lines).as_deref(), Some(target), "{line}");
        }
    }

    #[test]
    fn escapes_are_read_as_the_kernel_writes_them() {
        assert_eq!(unescaped(br"/a\040b\134c\011"), b"/a b\\c\t");
        assert_eq!(unescaped(br"/\04"), br"/\04");
        assert_eq!(unescaped(br"/\999"), br"/\999");
        assert_eq!(unescaped(br"/\303\244"), "/ä".as_bytes());
    }
}
