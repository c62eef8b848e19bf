//! Git directories that appear in a checkout while an agent works there. Git in one of them runs what its
//! settings name, so one that names anything is moved out at once; one that only is a repository stays until
//! the end, because honest agents make some and remove them again.
//!
//! Who looks at the right moment is faster than any watch: docs/threat-model.md says what remains.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::Errno;

use super::discovery::target;
use super::{land, nested};
use crate::fsx::beneath;
use crate::fsx::{Context, FileError};

/// Longer settings are not read, and not harmless.
const SETTINGS_LIMIT: u64 = 64 << 10;
/// So many harmless ones are looked at again and again.
const MOST_KEPT: usize = 64;

/// What was seen.
#[derive(Debug)]
pub enum Appeared {
    /// It is there, or was.
    Seen(PathBuf),
    /// Path below the top, and where it is now.
    Moved(PathBuf, PathBuf),
    /// It is there, and could not be moved away.
    Stays(FileError),
    /// This one is harmless, and one too many to be looked at again and again.
    TooMany(PathBuf),
    /// Not every directory can be watched.
    Blind(Errno),
}

/// What a watched directory is.
#[derive(Debug, Clone)]
enum Watched {
    Tree(PathBuf),
    /// In the git directory at this path.
    Git(PathBuf),
}

/// The kernel takes some 20 ms to close one that watches something: nobody waits for that.
#[derive(Debug)]
pub struct Inotify(Option<OwnedFd>);

impl Drop for Inotify {
    fn drop(&mut self) {
        let owned = self.0.take();
        // Where there is no thread, it is closed here.
        let _ = std::thread::Builder::new().spawn(move || drop(owned));
    }
}

impl AsFd for Inotify {
    #[expect(clippy::expect_used, reason = "taken only when it is dropped")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("it is open").as_fd()
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A checkout that is watched.
#[derive(Debug)]
pub struct Watch {
    top: PathBuf,
    root: OwnedFd,
    inotify: Arc<Inotify>,
    places: HashMap<i32, Watched>,
    /// As [`nested::scan`] found them.
    before: BTreeSet<PathBuf>,
    to: PathBuf,
    seen: BTreeSet<PathBuf>,
    /// Harmless when they were looked at. A write through another name of a file, or through a mapping, is no
    /// event of their directory.
    harmless: BTreeSet<PathBuf>,
    too_many: bool,
    blind: bool,
    found: Vec<Appeared>,
}

impl Watch {
    /// Watches `directories`, which are relative to `top`. What is moved out goes to `to`. Blocks for some
    /// microseconds for each of them.
    pub fn start(
        top: &Path,
        directories: Vec<PathBuf>,
        before: BTreeSet<PathBuf>,
        to: &Path,
    ) -> Result<Self, FileError> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let mut watch = Self {
            top: top.to_owned(),
            root: beneath::root(top).context("open", top)?,
            inotify: Arc::new(Inotify(Some(inotify.context("watch", top)?))),
            places: HashMap::new(),
            before,
            to: to.to_owned(),
            seen: BTreeSet::new(),
            harmless: BTreeSet::new(),
            too_many: false,
            blind: false,
            found: Vec::new(),
        };
        for directory in directories {
            watch.add(Watched::Tree(directory));
        }
        Ok(watch)
    }

    /// Readable when there is something for [`Self::read`].
    pub fn descriptor(&self) -> Arc<Inotify> {
        self.inotify.clone()
    }

    /// What has happened since. Does not wait.
    pub fn read(&mut self) -> Vec<Appeared> {
        let inotify = self.inotify.clone();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(&*inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let (wd, flags) = (event.wd(), event.events());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.look_again();
                continue;
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.places.remove(&wd);
                continue;
            }
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            match (self.places.get(&wd).cloned(), name) {
                (Some(Watched::Git(path)), _) => self.judge(path),
                (Some(Watched::Tree(path)), Some(name)) => {
                    self.appeared(&path, &name, flags.contains(ReadFlags::ISDIR));
                }
                _ => {}
            }
        }
        std::mem::take(&mut self.found)
    }

    /// Judges what somebody else found, and says what has happened since. Does not wait.
    pub fn look(&mut self, now: BTreeSet<PathBuf>) -> Vec<Appeared> {
        for path in now {
            self.judge(path);
        }
        self.read()
    }

    /// Whether there is something for [`Self::look_at_harmless`].
    pub fn keeps_harmless(&self) -> bool {
        !self.harmless.is_empty()
    }

    /// Judges again what was harmless: a few reads for each.
    pub fn look_at_harmless(&mut self) -> Vec<Appeared> {
        for path in self.harmless.clone() {
            let opened = beneath::open(&self.root, &path, OFlags::RDONLY);
            if matches!(opened, Err(Errno::NOENT)) {
                self.harmless.remove(&path);
            } else if !self.is_harmless(&path) {
                self.judge(path);
            }
        }
        std::mem::take(&mut self.found)
    }

    fn appeared(&mut self, directory: &Path, name: &[u8], is_directory: bool) {
        let path = directory.join(std::ffi::OsStr::from_bytes(name));
        let at_top = directory.as_os_str().is_empty();
        if at_top && matches!(name, b".git" | b".cofferdam") {
            return;
        }
        let marks: [&[u8]; 4] = [b"HEAD", b"commondir", b"objects", b"refs"];
        if name.eq_ignore_ascii_case(b".git") {
            self.judge(path);
        } else if !at_top
            && marks.iter().any(|mark| name.eq_ignore_ascii_case(mark))
            && nested::is_bare(&self.top.join(directory))
        {
            self.judge(directory.join("HEAD"));
        } else if is_directory {
            self.add_all(path);
        }
    }

    /// A directory that is new here, with all in it: what was made in it before it was watched is found.
    fn add_all(&mut self, path: PathBuf) {
        let mut next = vec![path];
        while let Some(path) = next.pop() {
            let directory = match beneath::directory(&self.root, &path) {
                Ok(directory) => directory,
                Err(error) => {
                    self.unopened(error);
                    continue;
                }
            };
            self.add(Watched::Tree(path.clone()));
            let Ok(entries) = Dir::new(directory) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                // What cannot be told is opened as a directory, which fails well.
                let is_directory =
                    matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
                if matches!(name, b"." | b"..") || name.eq_ignore_ascii_case(b".git") {
                    continue;
                }
                if is_directory {
                    next.push(path.join(std::ffi::OsStr::from_bytes(name)));
                }
            }
        }
    }

    /// A directory that is gone again, or was none, is nobody's. Where nothing more can be opened it is not seen what is in it.
    fn unopened(&mut self, errno: Errno) {
        if matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM) && !self.blind {
            self.blind = true;
            self.found.push(Appeared::Blind(errno));
        }
    }

    /// Too much happened to be told one by one.
    fn look_again(&mut self) {
        match nested::scan(&self.top, nested::Closed::Skip) {
            Ok(now) => now.into_iter().for_each(|path| self.judge(path)),
            Err(error) => self.found.push(Appeared::Stays(error)),
        }
        self.add_all(PathBuf::new());
    }

    fn add(&mut self, place: Watched) {
        let (Watched::Tree(path) | Watched::Git(path)) = &place;
        let flags = match place {
            Watched::Tree(_) => WatchFlags::CREATE | WatchFlags::MOVED_TO,
            Watched::Git(_) => WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MODIFY,
        };
        let opened = beneath::directory(&self.root, path);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return self.unopened(error),
        };
        let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
        match inotify::add_watch(&*self.inotify, itself, flags | WatchFlags::ONLYDIR) {
            Ok(wd) => {
                let path = path.clone();
                let in_tree = matches!(place, Watched::Tree(_));
                self.places.insert(wd, place);
                // Made before it was watched.
                if in_tree && !path.as_os_str().is_empty() {
                    if self.top.join(&path).join(".git").symlink_metadata().is_ok() {
                        self.judge(path.join(".git"));
                    }
                    if nested::is_bare(&self.top.join(&path)) {
                        self.judge(path.join("HEAD"));
                    }
                }
            }
            Err(Errno::NOTDIR | Errno::NOENT) => {}
            Err(errno) => {
                if !self.blind {
                    self.found.push(Appeared::Blind(errno));
                }
                self.blind = true;
            }
        }
    }

    fn judge(&mut self, path: PathBuf) {
        if self.before.contains(&path) {
            return;
        }
        if self.seen.insert(path.clone()) {
            self.found.push(Appeared::Seen(path.clone()));
        }
        // Watched first: what changes after the look is looked at again.
        if nested::is_dot_git(&path) {
            self.add_git(&path);
            if self.is_harmless(&path) {
                self.keep(path);
                return;
            }
        }
        self.harmless.remove(&path);
        let now = BTreeSet::from([path]);
        match land::move_out(&self.top, &self.before, &now, &self.to) {
            Ok(done) => {
                let moved = done.moved.into_iter();
                self.found
                    .extend(moved.map(|(path, to)| Appeared::Moved(path, to)));
                self.found
                    .extend(done.failed.into_iter().map(Appeared::Stays));
            }
            Err(error) => self.found.push(Appeared::Stays(error)),
        }
    }

    fn keep(&mut self, path: PathBuf) {
        if self.harmless.len() < MOST_KEPT || self.harmless.contains(&path) {
            self.harmless.insert(path);
        } else if !self.too_many {
            self.too_many = true;
            self.found.push(Appeared::TooMany(path));
        }
    }

    fn add_git(&mut self, path: &Path) {
        let root = &self.root;
        let watch = |below: &Path| {
            let opened = beneath::open(root, below, OFlags::RDONLY).ok()?;
            let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
            let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MODIFY;
            inotify::add_watch(&*self.inotify, itself, flags).ok()
        };
        let both = [watch(path), watch(&path.join("hooks"))];
        for wd in both.into_iter().flatten() {
            self.places.insert(wd, Watched::Git(path.to_owned()));
        }
    }

    /// Whether git does nothing in this git directory but what git does.
    fn is_harmless(&self, path: &Path) -> bool {
        let read = |name: &str| beneath::read(&self.root, &path.join(name), SETTINGS_LIMIT);
        let absent = |name: &str| {
            let opened = beneath::open(&self.root, &path.join(name), OFlags::RDONLY);
            matches!(opened, Err(Errno::NOENT))
        };
        if matches!(beneath::directory(&self.root, path), Err(Errno::NOENT)) {
            return true;
        }
        // Another name of its settings is a way to write them from elsewhere.
        if self.has_other_names(path) || self.has_other_names(&path.join("config")) {
            return false;
        }
        if let Ok(Some(pointer)) = beneath::read(&self.root, path, SETTINGS_LIMIT) {
            // Made, and not written yet: git refuses it.
            if pointer.is_empty() {
                return true;
            }
            // A worktree of the sandbox's own repository: outside there is no such place.
            return target(&pointer, b"gitdir: ").is_some_and(|elsewhere| {
                let found = elsewhere.symlink_metadata();
                let missing = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
                elsewhere.is_absolute() && found.is_err_and(missing)
            });
        }
        let settings = match read("config") {
            Ok(Some(settings)) => is_plain(&settings),
            // It is not written yet.
            Err(Errno::NOENT) => true,
            _ => false,
        };
        settings && absent("config.worktree") && absent("commondir") && self.has_no_hook(path)
    }

    fn has_other_names(&self, path: &Path) -> bool {
        let opened = beneath::open(&self.root, path, OFlags::RDONLY);
        let found = opened.and_then(rustix::fs::fstat);
        found.is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink > 1
        })
    }

    fn has_no_hook(&self, path: &Path) -> bool {
        let hooks = match beneath::directory(&self.root, &path.join("hooks")) {
            Err(Errno::NOENT) => return true,
            Err(_) => return false,
            Ok(hooks) => hooks,
        };
        let Ok(mut entries) = Dir::new(hooks) else {
            return false;
        };
        entries.all(|entry| {
            entry.is_ok_and(|entry| {
                let name = entry.file_name().to_bytes();
                matches!(name, b"." | b"..") || name.ends_with(b".sample")
            })
        })
    }
}

/// What `git init`, `git clone` and `git commit` set: sections, and the keys of each.
const KEYS: [(&str, &[&str]); 6] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
        ],
    ),
    ("extensions", &["objectformat", "refstorage"]),
    ("user", &["name", "email"]),
    ("remote", &["url", "fetch"]),
    ("branch", &["remote", "merge"]),
    ("init", &["defaultbranch"]),
];

/// Whether all settings are of [`KEYS`]. What is not known, or not written as git writes it, is not.
fn is_plain(settings: &[u8]) -> bool {
    let Ok(settings) = std::str::from_utf8(settings) else {
        return false;
    };
    // For git a name ends at a NUL: `[core "fsmonitor\0"]` and a plain key below it set `core.fsmonitor`.
    if settings.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\r' | '\n')) {
        return false;
    }
    let mut known: &[&str] = &[];
    settings.lines().all(|line| {
        let line = line.trim();
        if line.ends_with('\\') {
            return false;
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some(header) = header.strip_suffix(']') else {
                return false;
            };
            let (section, name) = header.split_once(' ').unwrap_or((header, ""));
            if !name.is_empty() && !["remote", "branch"].contains(&section) {
                return false;
            }
            known = KEYS
                .iter()
                .find(|(name, _)| section.eq_ignore_ascii_case(name))
                .map_or(&[], |(_, keys)| *keys);
            return !header.contains(']') && !known.is_empty();
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        known
            .iter()
            .any(|name| key.trim().eq_ignore_ascii_case(name))
            && !value.contains("::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_plain_repository() {
        let init = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                    [remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                    [branch \"main\"]\n\tremote = origin\n[user]\n\tname = A B\n";
        assert!(is_plain(init.as_bytes()));
        assert!(is_plain(b""));
        for bad in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core] fsmonitor = touch x\n",
            "[core]\n\tworktree = /\n",
            "[CORE]\n\tFSMonitor = x\n",
            "[include]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"]\n\"]\n\tfetch = x\n",
            "[user]\n\tname = x\\\n[core]\n",
            "[extensions]\n\tworktreeconfig = true\n",
            "fsmonitor = x\n",
            "[core \"x\"]]\n",
            "[core \"x\"]\n\tbare = x\n",
            "[core \"fsmonitor\0\"]\n\tbare = touch x\n",
            "[remote \"x\0\"]\n\turl = x\n",
        ] {
            assert!(!is_plain(bad.as_bytes()), "{bad}");
        }
        assert!(!is_plain(b"[user]\nname = \xff\n"));
    }

    /// Settings that are taken to be plain hold, when git itself reads them, no other key than the plain ones.
    #[test]
    fn fuzz_settings_that_appear() {
        let seeds = [
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
            "[remote \"origin\"]\n\turl = https://x/y\n[branch \"main\"]\n\tmerge = refs/heads/main\n",
            "[user]\r\n\tname = \"A \\\"B\" # c\r\n; more\n[init]\n defaultBranch = m\n",
            "[core]\n\tfsmonitor = touch x\n\tworktree = /\n[filter \"x\"]\n\tclean = x\\\n y\n",
            "[core \"fsmonitor\0\"]\n\tbare = touch x\n[user \"x\"]\n\temail = a@b\n",
            "[core] editor = x\n[alias \"]\"] x = !y\n[user] # [core]\n",
        ];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        assert!(is_plain(&seeds[0]) && is_plain(&seeds[1]) && !is_plain(&seeds[3]));
        let plain = |key: &[u8]| {
            let text = String::from_utf8_lossy(key);
            let (section, name) = (text.split('.').next(), text.rsplit('.').next());
            KEYS.iter().any(|(known, names)| {
                Some(*known) == section && names.iter().any(|one| Some(*one) == name)
            })
        };
        assert!(plain(b"remote.a.b.url") && !plain(b"core.fsmonitor") && !plain(b"user.url"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        let mut seen = std::collections::HashSet::new();
        cofferdam_lab::fuzz::mutate("settings that appear", &seeds, |settings| {
            _ = target(settings, b"[core]");
            if !is_plain(settings) || !seen.insert(settings.to_vec()) {
                return;
            }
            crate::fsx::write_private(&file, settings).unwrap();
            for key in keys(&file) {
                assert!(plain(&key), "{}", key.escape_ascii());
            }
        });
    }

    /// The keys that git finds; none where git refuses the file.
    #[expect(clippy::disallowed_methods, reason = "a test asks git itself")]
    fn keys(file: &Path) -> Vec<Vec<u8>> {
        let mut git = std::process::Command::new("git");
        git.args([
            "config",
            "--no-includes",
            "--null",
            "--name-only",
            "--list",
            "--file",
        ]);
        let found = git.arg(file).output().unwrap();
        let keys = found.stdout.split(|&byte| byte == 0);
        let keys = keys.filter(|key| found.status.success() && !key.is_empty());
        keys.map(<[u8]>::to_vec).collect()
    }
}
