//! What a container has of its host that nobody asked its engine for. Whoever administers an engine can have it give something to every
//! container (Podman by `mounts.conf` and `containers.conf`, any engine by a runtime that adds what it likes): an agent gets none of it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::{Expected, Seen};

use crate::tree::{Refusal, shown};

const TABLE: &str = "/proc/self/mountinfo";
/// Names, and words of their own, that engines put into every container. An image may have a link there.
const WORDS: [&str; 8] = [
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/system-fips",
    "/run/.containerenv",
];
/// What of a machine with FIPS rules is shown there is of the image itself.
const FIPS: &str = "/etc/crypto-policies/";
/// Below `/dev`: what is no hardware, or gives nothing to who has no rights of root's.
const DEVICES: [&str; 15] = [
    "console", "full", "fuse", "mqueue", "net/tun", "null", "ptmx", "pts", "pts/ptmx", "random",
    "shm", "tty", "urandom", "zero", "fd",
];
/// File systems that hold no files of a machine's.
const KERNELS: [&str; 19] = [
    "autofs",
    "bpf",
    "binfmt_misc",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "proc",
    "pstore",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];
/// Those of containers that have a kernel of their own, which says nothing of what lies behind them.
const FOREIGN: [&str; 2] = ["9p", "virtiofs"];
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
        words: WORDS.iter().map(|one| led(one.as_bytes())).collect(),
        hosts: &expected.hosts,
    };
    if let Some(target) = mounts(&table).find(|one| !asked.has(one)) {
        let target = shown(target.target.as_os_str().as_bytes());
        return Err(refusal(&format!("mounts {target} in its container")));
    }
    match device(Path::new("/dev"), DEEPEST).map_err(unknown)? {
        None => Ok(()),
        Some(path) => {
            let path = shown(path.as_os_str().as_bytes());
            Err(refusal(&format!("gives its container the device {path}")))
        }
    }
}

fn refusal(what: &str) -> Refusal {
    Refusal::Unsupported {
        what: format!("the engine {what}, and nobody asked it to"),
        hint: "take that out of the engine's configuration (Podman's is in containers.conf and mounts.conf), or out of its runtime's"
            .to_owned(),
    }
}

/// One line of proc_pid_mountinfo(5).
#[derive(Debug)]
struct Mounted<'a> {
    device: &'a [u8],
    /// Of its file system.
    root: &'a [u8],
    target: PathBuf,
    kind: &'a str,
}

fn mounts(table: &[u8]) -> impl Iterator<Item = Mounted<'_>> {
    table.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let device = words.nth(2)?;
        let (root, target) = (words.next()?, words.next()?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some(Mounted {
            device,
            root,
            target: OsStr::from_bytes(&unescaped(target)).into(),
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
    words: Vec<PathBuf>,
    hosts: &'a [(u32, u32)],
}

impl Asked<'_> {
    fn has(&self, one: &Mounted<'_>) -> bool {
        let target = &one.target;
        let is_new = one.kind == "tmpfs" && one.root == b"/";
        if target == Path::new("/") || self.seen.contains(target) || self.words.contains(target) {
            return true;
        }
        if self.in_memory.contains(target) && is_new {
            return true;
        }
        if self.volumes.contains(target) && is_anonymous(one) {
            return true;
        }
        if let Ok(below) = target.strip_prefix("/dev") {
            let below = below.to_str().unwrap_or("?");
            return (below.is_empty() || DEVICES.contains(&below)) && !self.is_the_hosts(one);
        }
        let of_kernel = ["/proc", "/sys"].iter().any(|top| target.starts_with(top));
        of_kernel && KERNELS.contains(&one.kind) || target.starts_with(FIPS)
    }

    /// Whether it is one of the host's own that every container has one of itself.
    fn is_the_hosts(&self, one: &Mounted<'_>) -> bool {
        let number = |(major, minor): &(u32, u32)| format!("{major}:{minor}").into_bytes();
        // A device alone is a file there.
        one.root == b"/" && self.hosts.iter().any(|host| number(host) == one.device)
    }
}

/// Whether it is a directory that an engine made for one container: `…/volumes/ID/_data`.
fn is_anonymous(one: &Mounted<'_>) -> bool {
    if FOREIGN.contains(&one.kind) {
        return true;
    }
    let root = Path::new(OsStr::from_bytes(one.root));
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
        } else if kind.is_block_device() || kind.is_char_device() {
            let is_terminal = below.starts_with("pts");
            if !is_terminal && !DEVICES.iter().any(|known| below == Path::new(known)) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
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

    /// The first of these mounts that nobody asked for: `ROOT TARGET KIND` each.
    fn found(lines: &[String]) -> Option<String> {
        let table: String = lines
            .iter()
            .map(|line| {
                let [root, target, kind] = line.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}");
                };
                let device = if root == "/hosts" { "0:5" } else { "0:39" };
                let root = root.strip_suffix("hosts").unwrap_or(root);
                format!(
                    "134 129 {device} {root} {target} rw shared:1 master:2 - {kind} source rw\n"
                )
            })
            .collect();
        let path = |text: &str| vec![PathBuf::from(text)];
        let asked = Asked {
            seen: path("/repo with space"),
            in_memory: path("/tmp"),
            volumes: path("/data"),
            words: path("/etc/hosts"),
            hosts: &[(0, 5)],
        };
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
            "/run/1/hosts /etc/hosts ext4",
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
            ("/hosts /dev tmpfs", "/dev"),
            ("/hosts /dev/shm tmpfs", "/dev/shm"),
            ("/srv /sys/fs/bpf ext4", "/sys/fs/bpf"),
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
