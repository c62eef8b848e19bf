//! The executables that the library carries. From sealed memory files: no host file is needed, and nothing that runs
//! can change what is started next. What outlives its starter shares a file, which is compared before each start.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};

use crate::fsx;
use crate::text::hex;

/// A path under which this process (and a child of it before exec) can execute the guest.
pub(crate) fn guest() -> io::Result<String> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    path(&FILE, "cofferdam-guest", GUEST)
}

/// For where a sandbox is to see it: no sandbox sees a memory file.
pub(crate) const GUEST: &[u8] = include_bytes!(env!("COFFERDAM_GUEST_FILE"));

/// The gateway, and what runs in its other roles. They outlive who starts them, and a memory file lives as long as what
/// runs from it: so all of them run from one file in `directory`, below the caller's home, where that can be. No sandbox
/// sees it, and nothing is started from it that is not, byte by byte, what this library carries. (Not so the guest: an
/// agent with its user's own id would be a program's fault away from a file that the host executes.)
pub(crate) fn gateway(directory: &Path) -> io::Result<Executable> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let (name, program) = (GATEWAY, include_bytes!(env!("COFFERDAM_GATEWAY_FILE")));
    if let Ok(file) = kept(directory, name, program) {
        return Ok(Executable {
            path: path_of(&file),
            file: Some(file),
        });
    }
    Ok(Executable {
        path: path(&FILE, name, program)?,
        file: None,
    })
}

const GATEWAY: &str = "cofferdam-gateway";
/// How long another process may be at making one.
const MAKING: Duration = Duration::from_secs(10);

/// The guest as a file in `directory`, for namespaces that something else makes: an engine mounts it by its name, read-only. Nothing
/// on the host executes it. Its name has its content in it, so that it never changes for those who run from it.
pub(crate) fn guest_file(directory: &Path) -> io::Result<std::path::PathBuf> {
    let program = include_bytes!(env!("COFFERDAM_GUEST_FILE"));
    let name = format!("cofferdam-guest-{}", digest(program));
    let path = directory.join(name);
    if open_same(&path, program).is_ok() {
        return Ok(path);
    }
    // Of several that begin at once one makes it: an engine mounts what has the name later, and it has to be what was opened here.
    fsx::private_dir(directory).map_err(io::Error::other)?;
    let making = directory.join("cofferdam-guest.lock");
    let lock = fsx::lock::open(&making).map_err(io::Error::other)?;
    if !fsx::lock::hold_within(&lock, &making, MAKING).map_err(io::Error::other)? {
        let why = format!("somebody else holds {} too long", making.display());
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    if open_same(&path, program).is_ok() {
        return Ok(path);
    }
    sweep(directory);
    // The agent may have ids of its own.
    fsx::write_with_mode(&path, program, 0o555).map_err(io::Error::other)?;
    open_same(&path, program).map(|_| path)
}

/// The beginning of its SHA-256, in hexadecimal digits.
fn digest(program: &'static [u8]) -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let digest = <sha2::Sha256 as sha2::Digest>::digest(program);
        hex(&digest[..8])
    })
}

/// What is to be executed.
#[derive(Debug)]
pub(crate) struct Executable {
    /// As long as this value lives.
    pub(crate) path: String,
    pub(crate) file: Option<OwnedFd>,
}

/// The file that all share, made where it is missing or another version's. That one goes on for who runs from it.
fn kept(directory: &Path, name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    fsx::private_dir(directory).map_err(io::Error::other)?;
    let path = directory.join(name);
    if let Ok(file) = open_same(&path, program) {
        return Ok(file);
    }
    sweep(directory);
    fsx::write_with_mode(&path, program, 0o500).map_err(io::Error::other)?;
    open_same(&path, program)
}

/// What is left of writers that were killed: nobody takes so long.
fn sweep(directory: &Path) {
    let old = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|when| {
            when.elapsed()
                .is_ok_and(|age| age > Duration::from_secs(600))
        })
    };
    let hidden = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if hidden(&entry) && old(&entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The file, if it can be executed, holds just this, and only its owner can change it, who is the caller.
fn open_same(path: &Path, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    let ours = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == rustix::process::geteuid().as_raw()
        && !mode.intersects(Mode::WGRP | Mode::WOTH)
        && mode.contains(Mode::RUSR | Mode::XUSR);
    let executed = rustix::fs::fstatvfs(&file)?.f_flag;
    if !ours || executed.contains(StatVfsMountFlags::NOEXEC) || !is_same(&file, program)? {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(file)
}

fn is_same(file: &OwnedFd, program: &[u8]) -> io::Result<bool> {
    let mut buffer = vec![0; 128 << 10];
    let mut rest = program;
    loop {
        let got = rustix::io::read(file, &mut buffer)?;
        if got == 0 {
            return Ok(rest.is_empty());
        }
        match rest.strip_prefix(&buffer[..got]) {
            Some(left) => rest = left,
            None => return Ok(false),
        }
    }
}

fn path(file: &'static OnceLock<OwnedFd>, name: &str, program: &[u8]) -> io::Result<String> {
    let file = if let Some(file) = file.get() {
        file
    } else {
        let made = sealed_copy(name, program)?;
        file.get_or_init(|| made)
    };
    Ok(path_of(file))
}

fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn sealed_copy(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3 every memory file can be executed, and the flag is unknown.
    let file = rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(name, flags))?;
    let mut rest = program;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn shared(directory: &Path) -> Option<u64> {
        let made = gateway(directory).unwrap();
        let found = fs::metadata(&made.path).unwrap();
        let size = include_bytes!(env!("COFFERDAM_GATEWAY_FILE")).len();
        assert_eq!(found.len(), size as u64);
        made.file.map(|_| found.ino())
    }

    /// Who has opened it has what an engine mounts by its name later.
    #[test]
    fn of_several_that_begin_at_once_all_have_the_same_guest() {
        for _ in 0..20 {
            let home = tempfile::tempdir().unwrap();
            let directory = home.path().join("programs");
            let begin = std::sync::Barrier::new(8);
            let found = || {
                begin.wait();
                fs::metadata(guest_file(&directory).unwrap()).unwrap().ino()
            };
            let all: Vec<u64> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(found)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        }
    }

    #[test]
    fn all_share_one_that_is_as_it_should_be() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("programs");
        let path = directory.join(GATEWAY);
        let first = shared(&directory);
        assert!(first.is_some());
        assert_eq!(shared(&directory), first);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&directory)), (0o500, 0o700));
        // Each of these is replaced before anything is started from it.
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let changes: [&dyn Fn(); 5] = [
            &|| {
                let mut content = fs::read(&path).unwrap();
                *content.last_mut().unwrap() ^= 1;
                set(0o700);
                fsx::write_with_mode(&path, &content, 0o500).unwrap();
            },
            &|| fsx::write_with_mode(&path, b"#!/bin/sh\n", 0o500).unwrap(),
            &|| set(0o520),
            &|| set(0o400),
            &|| {
                let elsewhere = home.path().join("elsewhere");
                fs::rename(&path, &elsewhere).unwrap();
                symlink(elsewhere, &path).unwrap();
            },
        ];
        for change in changes {
            change();
            let changed = fs::symlink_metadata(&path).unwrap().ino();
            let now = shared(&directory);
            assert!(now.is_some() && now != Some(changed));
            assert_eq!(shared(&directory), now);
        }
    }

    #[test]
    fn where_no_file_can_be_kept_there_is_one_in_memory() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("programs");
        fs::create_dir_all(directory.join(GATEWAY).join("a directory")).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(shared(&directory), None);
        let elsewhere = home.path().join("elsewhere");
        symlink(&directory, &elsewhere).unwrap();
        assert_eq!(shared(&elsewhere), None);
    }

    /// `open_same` on a file system whose programs are not executed.
    #[test]
    fn nothing_is_started_where_nothing_may_be() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let places = points.filter(|point| {
            let flags = rustix::fs::statvfs(*point).map(|found| found.f_flag);
            flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOEXEC))
        });
        let mut places = places.filter_map(|point| tempfile::tempdir_in(point).ok());
        let Some(place) = places.next() else {
            return cofferdam_lab::skip!("there is no place without execution to write to");
        };
        assert_eq!(shared(&place.path().join("programs")), None);
    }
}
