//! What a sandbox sees: a root of its own with the system read-only, an `/etc` of allowed names, a
//! private `/proc`, `/dev`, `/tmp` and home, and the mounts of the set-up on top.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use cofferdam_guest::protocol::{Lifetime, NAMESERVER, Network, Setup, SetupMount, Source};

use crate::layers;
use crate::sys::{self, ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY, TreeKind};
use crate::tree::{Prepared, Refusal, Tree, mount_error, shown};

const PRIVATE: u64 = ATTR_NOSUID | ATTR_NODEV;
const SYSTEM: u64 = PRIVATE | ATTR_RDONLY;

/// System directories, mounted read-only with all that is below them where the host has them.
const SYSTEM_TREES: [&CStr; 3] = [c"usr", c"opt", c"nix"];
/// Links into `/usr` on a merged system, directories on others.
const SYSTEM_LINKS: [&CStr; 6] = [c"bin", c"sbin", c"lib", c"lib32", c"lib64", c"libx32"];
/// Directories of `/etc` that hold no secret.
const ETC_TREES: [&CStr; 10] = [
    c"etc/alternatives",
    c"etc/ca-certificates",
    c"etc/crypto-policies",
    c"etc/fonts",
    c"etc/java",
    c"etc/ld.so.conf.d",
    c"etc/pki/ca-trust",
    c"etc/pki/tls/certs",
    c"etc/ssl/certs",
    c"etc/terminfo",
];
/// Files of `/etc` that hold no secret: copied, at most [`ETC_LIMIT`] bytes each.
const ETC_FILES: [&CStr; 22] = [
    c"etc/ca-certificates.conf",
    c"etc/debian_version",
    c"etc/fedora-release",
    c"etc/inputrc",
    c"etc/ld.so.cache",
    c"etc/ld.so.conf",
    c"etc/locale.alias",
    c"etc/localtime",
    c"etc/lsb-release",
    c"etc/magic",
    c"etc/mime.types",
    c"etc/networks",
    c"etc/os-release",
    c"etc/protocols",
    c"etc/redhat-release",
    c"etc/rpc",
    c"etc/services",
    c"etc/shells",
    c"etc/ssl/openssl.cnf",
    c"etc/pki/tls/openssl.cnf",
    c"etc/timezone",
    c"etc/xattr.conf",
];
const ETC_LIMIT: u64 = 4 << 20;
const DEVICES: [&CStr; 6] = [
    c"dev/null",
    c"dev/zero",
    c"dev/full",
    c"dev/random",
    c"dev/urandom",
    c"dev/tty",
];
/// Kernel knobs and secrets in `/proc`. That nobody inside has uid 0 protects them already; this is
/// the second lock.
const PROC_READ_ONLY: [&CStr; 5] = [
    c"proc/sys",
    c"proc/sysrq-trigger",
    c"proc/irq",
    c"proc/bus",
    c"proc/fs",
];
const PROC_HIDDEN_FILES: [&CStr; 6] = [
    c"proc/kcore",
    c"proc/keys",
    c"proc/key-users",
    c"proc/kallsyms",
    c"proc/timer_list",
    c"proc/sched_debug",
];
/// Sockets of a daemon that works for whoever connects, outside of every sandbox. A read-only mount
/// does not stop that.
const HIDDEN_SOCKETS: [&CStr; 1] = [c"nix/var/nix/daemon-socket"];
const PROC_HIDDEN_TREES: [&CStr; 2] = [c"proc/acpi", c"proc/scsi"];

/// Builds the view and enters it. The caller is in new namespaces with all their capabilities.
pub(crate) fn enter(setup: &Setup, prepared: Vec<Prepared>) -> Result<(), Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    sys::make_mounts_private().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => Refusal::Unsupported {
            what: "the kernel is too old: it has no mount_setattr".to_owned(),
            hint: "use Linux 5.12 or newer".to_owned(),
        },
        _ => step("make the mounts private")(error),
    })?;
    let root = sys::new_filesystem(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"16m")], PRIVATE)
        .map_err(step("make a root"))?;
    let slash = sys::open_at(libc::AT_FDCWD, c"/", libc::O_PATH, 0).map_err(step("open `/`"))?;
    // Over the old root: paths still resolve in the old one, mounts go to the new one.
    sys::attach(root.as_fd(), slash.as_fd()).map_err(step("attach the root"))?;
    let mut tree = Tree::new(root).map_err(step("look at the root"))?;

    for name in [c"etc", c"var", c"home", c"workspace", c".cofferdam"] {
        sys::make_directory(tree.root().as_raw_fd(), name, 0o755)
            .map_err(step("make a directory"))?;
    }
    system(&tree).map_err(step("mount the system directories"))?;
    etc(&tree, &setup.hostname, setup.network).map_err(step("make `/etc`"))?;
    proc(&tree).map_err(|error| Refusal::Unsupported {
        what: format!("cannot mount a `/proc` for the sandbox: {error}"),
        hint: "inside a container, run it with an unmasked `/proc` (Docker: `--security-opt \
               systempaths=unconfined`)"
            .to_owned(),
    })?;
    private(&mut tree).map_err(step("make the private directories"))?;
    let devices = dev(&mut tree).map_err(step("make `/dev`"))?;
    for (mount, prepared) in setup.mounts.iter().zip(prepared) {
        named(&tree, mount, prepared, setup.lifetime)?;
    }
    sys::restrict(devices.as_fd(), ATTR_RDONLY, false).map_err(step("protect `/dev`"))?;
    sys::restrict(tree.root(), ATTR_RDONLY, false).map_err(step("protect the root"))?;
    sys::change_directory(tree.root()).map_err(step("enter the root"))?;
    sys::pivot_here().map_err(step("leave the old root"))
}

fn host(path: &CStr) -> io::Result<std::ffi::CString> {
    sys::c_string(&[b"/", path.to_bytes()].concat())
}

/// A host directory, read-only. A missing one, or one that cannot be entered, is left out.
fn offer(tree: &Tree, path: &CStr) -> io::Result<()> {
    let Ok(source) = sys::clone_tree(libc::AT_FDCWD, &host(path)?, &TreeKind::Whole) else {
        return Ok(());
    };
    sys::restrict(source.as_fd(), SYSTEM, true)?;
    make_parents(tree, path)?;
    tree.attach(&source, path)
}

fn make_parents(tree: &Tree, path: &CStr) -> io::Result<()> {
    let path = path.to_bytes();
    for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        let parent = sys::c_string(&path[..at])?;
        match sys::make_directory(tree.root().as_raw_fd(), &parent, 0o755) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn system(tree: &Tree) -> io::Result<()> {
    for path in SYSTEM_TREES {
        offer(tree, path)?;
    }
    for path in HIDDEN_SOCKETS {
        if sys::open_at(tree.root().as_raw_fd(), path, libc::O_PATH, 0).is_ok() {
            tree.attach_over(&nothing()?, path)?;
        }
    }
    for path in SYSTEM_LINKS {
        match sys::read_link(&host(path)?) {
            Ok(text) => {
                sys::make_symlink(tree.root().as_raw_fd(), &sys::c_string(&text)?, path)?;
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => offer(tree, path)?,
            Err(_) => {}
        }
    }
    sys::make_symlink(tree.root().as_raw_fd(), c"/run", c"var/run")
}

fn etc(tree: &Tree, hostname: &str, network: Network) -> io::Result<()> {
    for path in ETC_TREES {
        offer(tree, path)?;
    }
    for path in ETC_FILES {
        if let Some(content) = host_content(path)? {
            make_parents(tree, path)?;
            write(tree, path, &content)?;
        }
    }
    let (hosts, resolv) = names(hostname, network)?;
    let own: [(&CStr, String); 7] = [
        (
            c"etc/passwd",
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
             agent:x:1000:1000:agent:/home/agent:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                .to_owned(),
        ),
        (
            c"etc/group",
            "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n".to_owned(),
        ),
        (c"etc/hosts", hosts),
        (c"etc/hostname", format!("{hostname}\n")),
        (
            c"etc/nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
             protocols: files\nservices: files\n"
                .to_owned(),
        ),
        (c"etc/resolv.conf", resolv),
        (c"etc/host.conf", "multi on\n".to_owned()),
    ];
    for (path, content) in own {
        write(tree, path, content.as_bytes())?;
    }
    sys::make_symlink(tree.root().as_raw_fd(), c"/proc/self/mounts", c"etc/mtab")
}

/// A file of the host's; `None` where it cannot be read or is too long.
fn host_content(path: &CStr) -> io::Result<Option<Vec<u8>>> {
    let Ok(source) = sys::open_at(libc::AT_FDCWD, &host(path)?, libc::O_RDONLY, 0) else {
        return Ok(None);
    };
    let mut content = Vec::new();
    let read = fs::File::from(source)
        .take(ETC_LIMIT + 1)
        .read_to_end(&mut content);
    let whole = read.is_ok_and(|length| length as u64 <= ETC_LIMIT);
    Ok(whole.then_some(content))
}

/// What `/etc/hosts` and `/etc/resolv.conf` say. On the host's own network, what the host says.
fn names(hostname: &str, network: Network) -> io::Result<(String, String)> {
    let own = format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 {hostname}\n");
    let text = |content: Option<Vec<u8>>| {
        String::from_utf8_lossy(&content.unwrap_or_default()).into_owned()
    };
    Ok(match network {
        Network::None => (own, String::new()),
        // No search list: a name means itself. The gateway is near: what it does not answer soon it never will.
        Network::Wall => {
            let server = std::net::Ipv4Addr::from(NAMESERVER);
            let resolv = format!("nameserver {server}\noptions timeout:2 attempts:2\n");
            (own, resolv)
        }
        Network::Open => {
            let hosts = text(host_content(c"etc/hosts")?);
            (own + &hosts, text(host_content(c"etc/resolv.conf")?))
        }
    })
}

fn write(tree: &Tree, path: &CStr, content: &[u8]) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let file = sys::open_at(tree.root().as_raw_fd(), path, flags, 0o644)?;
    io::Write::write_all(&mut fs::File::from(file), content)
}

fn proc(tree: &Tree) -> io::Result<()> {
    let proc = sys::new_filesystem(c"proc", &[], PRIVATE | ATTR_NOEXEC)?;
    tree.attach(&proc, c"proc")?;
    for path in PROC_READ_ONLY {
        let root = tree.root().as_raw_fd();
        if let Ok(part) = sys::clone_tree(root, path, &TreeKind::Exact) {
            sys::restrict(part.as_fd(), SYSTEM | ATTR_NOEXEC, false)?;
            tree.attach_over(&part, path)?;
        }
    }
    for path in PROC_HIDDEN_FILES {
        if sys::open_at(tree.root().as_raw_fd(), path, libc::O_PATH, 0).is_ok() {
            let null = sys::clone_tree(libc::AT_FDCWD, c"/dev/null", &TreeKind::Exact)?;
            sys::restrict(null.as_fd(), ATTR_NOSUID | ATTR_NOEXEC | ATTR_RDONLY, false)?;
            tree.attach_over(&null, path)?;
        }
    }
    for path in PROC_HIDDEN_TREES {
        if sys::open_at(tree.root().as_raw_fd(), path, libc::O_PATH, 0).is_ok() {
            tree.attach_over(&nothing()?, path)?;
        }
    }
    Ok(())
}

/// An empty directory that nobody can write.
fn nothing() -> io::Result<OwnedFd> {
    sys::new_filesystem(
        c"tmpfs",
        &[(c"mode", c"0555"), (c"size", c"4k")],
        SYSTEM | ATTR_NOEXEC,
    )
}

fn private(tree: &mut Tree) -> io::Result<()> {
    for (path, mode, size) in [
        (c"tmp", c"1777", c"20%"),
        (c"var/tmp", c"1777", c"5%"),
        (c"run", c"0755", c"64m"),
        (c"home/agent", c"0700", c"20%"),
    ] {
        let made = sys::new_filesystem(c"tmpfs", &[(c"mode", mode), (c"size", size)], PRIVATE)?;
        tree.attach_own(&made, path)?;
    }
    Ok(())
}

fn dev(tree: &mut Tree) -> io::Result<OwnedFd> {
    let options = [(c"mode", c"0755"), (c"size", c"64k")];
    let dev = sys::new_filesystem(c"tmpfs", &options, ATTR_NOSUID | ATTR_NOEXEC)?;
    tree.attach(&dev, c"dev")?;
    let root = tree.root().as_raw_fd();
    for path in DEVICES {
        let device = sys::clone_tree(libc::AT_FDCWD, &host(path)?, &TreeKind::Exact)?;
        sys::restrict(device.as_fd(), ATTR_NOSUID | ATTR_NOEXEC, false)?;
        write(tree, path, b"")?;
        tree.attach_over(&device, path)?;
    }
    // Terminals come out of the machine's few thousand.
    let options = [(c"mode", c"620"), (c"ptmxmode", c"666"), (c"max", c"256")];
    let terminals = sys::new_filesystem(c"devpts", &options, ATTR_NOSUID | ATTR_NOEXEC)?;
    tree.attach(&terminals, c"dev/pts")?;
    let options = [(c"mode", c"1777"), (c"size", c"5%")];
    let shared = sys::new_filesystem(c"tmpfs", &options, PRIVATE)?;
    tree.attach_own(&shared, c"dev/shm")?;
    for (text, path) in [
        (c"pts/ptmx", c"dev/ptmx"),
        (c"/proc/self/fd", c"dev/fd"),
        (c"/proc/self/fd/0", c"dev/stdin"),
        (c"/proc/self/fd/1", c"dev/stdout"),
        (c"/proc/self/fd/2", c"dev/stderr"),
    ] {
        sys::make_symlink(root, text, path)?;
    }
    Ok(dev)
}

/// One mount of the set-up.
fn named(
    tree: &Tree,
    mount: &SetupMount,
    prepared: Prepared,
    lifetime: Lifetime,
) -> Result<(), Refusal> {
    let source = match (&mount.source, prepared) {
        (_, Prepared::Absent) => return Ok(()),
        (_, Prepared::Ready(source)) => source,
        (Source::Nothing, Prepared::Later) => {
            nothing().map_err(|error| mount_error(b"nothing", &error))?
        }
        (Source::Layers { lower, upper }, Prepared::Later) => {
            layers::of_caller(lower, upper.as_deref(), lifetime)?
        }
        (Source::Target, Prepared::Later) => tree.clone_at(&mount.target)?,
        (Source::Link(text), _) => {
            return match tree.link_at(text, &mount.target) {
                Err(_) if mount.optional => Ok(()),
                other => other,
            };
        }
        (Source::Path(path), Prepared::Later) => {
            let opened = sys::c_string(path)
                .and_then(|path| sys::clone_tree(libc::AT_FDCWD, &path, &TreeKind::Exact));
            match opened {
                Err(_) if mount.optional => return Ok(()),
                other => other.map_err(|error| mount_error(path, &error))?,
            }
        }
    };
    if let Source::Path(path) = &mount.source {
        let found = sys::look_at(source.as_fd()).map_err(|error| mount_error(path, &error))?;
        // A mounted socket can be connected to even where the mount is read-only.
        if !matches!(found.kind, libc::S_IFDIR | libc::S_IFREG) {
            if mount.optional {
                return Ok(());
            }
            return Err(Refusal::Unsupported {
                what: format!(
                    "cannot mount {}: it is no directory or regular file",
                    shown(path)
                ),
                hint: "name the directory or file itself, not a symlink to it".to_owned(),
            });
        }
    }
    let attr = if mount.writable { PRIVATE } else { SYSTEM };
    sys::restrict(source.as_fd(), attr, false)
        .map_err(|error| mount_error(&mount.target, &error))?;
    match tree.attach_at(&source, &mount.target) {
        Err(_) if mount.optional => Ok(()),
        other => other,
    }
}
