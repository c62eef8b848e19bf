//! A program of the host's in a sandbox: the one that the caller's `PATH` finds, the package that it belongs to,
//! the program in its first line, and nothing else of what lies around them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use cofferdam_guest::protocol::{SetupMount, Source};

use super::host::{Host, search_entries, shown, usable_home};
use super::package;
use crate::sandbox::HostProgram;

/// Directories whose programs are inside anyway.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/nix",
    "/etc/alternatives",
];
/// Where nothing is that a program needs, and much that is nobody's business.
const NEVER: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];
/// As many symlinks as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// A script may be run by a script that is run by another one.
const DEPTH: usize = 4;
/// The kernel reads so much of a first line.
const FIRST_LINE: u64 = 256;

/// Where the caller has a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As `PATH` finds it.
    pub path: PathBuf,
    /// Why no sandbox shows it.
    pub unshown: Option<Unshown>,
    /// It has no package, so that this one file is shown and nothing that lies beside it.
    pub alone: Option<PathBuf>,
    /// Every sandbox shows it, not only one that is made for it: its entry of `PATH` is the system's, or one of a known tool.
    pub for_all: bool,
}

impl Found {
    fn new(path: PathBuf, shown: Result<Option<PathBuf>, Unshown>) -> Self {
        let (unshown, alone) = match shown {
            Ok(alone) => (None, alone),
            Err(why) => (Some(why), None),
        };
        Self {
            path,
            unshown,
            alone,
            for_all: false,
        }
    }
}

/// Why a program is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unshown {
    /// It or a link to it is in this directory, where an agent may have put it, or where Cofferdam's own files are.
    In(PathBuf),
    /// Its package is this directory, and has this in it: somebody works there.
    Checkout(PathBuf, &'static str),
    /// It is in a directory of the system that sandboxes have their own of.
    System(PathBuf),
    /// It cannot be looked at.
    Unreadable,
}

impl fmt::Display for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(directory) => {
                let directory = directory.display();
                write!(
                    f,
                    "it, or a link to it, is in {directory}, where an agent may have written"
                )
            }
            Self::Checkout(package, mark) => {
                let package = package.display();
                write!(
                    f,
                    "its package {package} has a {mark} of its own, so it is a checkout and not installed"
                )
            }
            Self::System(directory) => {
                write!(f, "a sandbox has a {} of its own", directory.display())
            }
            Self::Unreadable => f.write_str("it cannot be looked at"),
        }
    }
}

pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Whether `directory` shows one of `unseen`, or lies in one: by their paths, and by what their directories are,
/// because a bind mount gives one a second path.
pub(super) fn touches(directory: &Path, unseen: &[PathBuf]) -> bool {
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    unseen.iter().any(|unseen| {
        let unseen = real(unseen);
        holds(&directory, &unseen) || holds(&unseen, &directory)
    })
}

fn holds(outer: &Path, inner: &Path) -> bool {
    let same = |a: &Path, b: &Path| match (a.symlink_metadata(), b.symlink_metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    };
    inner.starts_with(outer) || inner.ancestors().any(|above| same(above, outer))
}

/// Without symlinks, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| {
        let place = above.canonicalize().ok()?;
        Some(place.join(path.strip_prefix(above).ok()?))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// What is shown with a program.
#[derive(Debug)]
enum Around {
    /// It is visible already.
    Seen,
    Directory(PathBuf),
    Package(PathBuf),
    Alone,
}

/// Adds to the mounts of a sandbox what programs of the host's need.
#[derive(Debug)]
pub(super) struct Gathering<'a> {
    host: &'a Host<'a>,
    home: Option<PathBuf>,
    mounts: &'a mut Vec<SetupMount>,
    /// Entries of the caller's `PATH`, and the directories that stand for them inside.
    pub(super) entries: Vec<(PathBuf, PathBuf)>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(host: &'a Host<'a>, mounts: &'a mut Vec<SetupMount>) -> Self {
        let home = usable_home(host.home).and_then(|home| home.canonicalize().ok());
        Self {
            host,
            home,
            mounts,
            entries: Vec::new(),
        }
    }

    /// Shows a program. `None`: there is none of that name.
    pub(super) fn program(&mut self, program: &HostProgram) -> Option<Found> {
        let name = Path::new(&program.name);
        if name.is_absolute() {
            if !is_program(name) {
                return None;
            }
            let shown = self.show(name, &program.directories, 0);
            return Some(Found::new(name.to_owned(), shown));
        }
        self.in_path(&program.name, &program.directories, 0)
    }

    /// The first one in `PATH` that may be shown; else the first one, and why it may not.
    fn in_path(&mut self, name: &OsStr, directories: &[PathBuf], depth: usize) -> Option<Found> {
        let mut first = None;
        if name.is_empty() || name.as_bytes().contains(&b'/') {
            return None;
        }
        for entry in search_entries(self.host.search_path) {
            let mut path = entry.join(name);
            if !is_program(&path) {
                continue;
            }
            path = behind_shim(entry, name).unwrap_or(path);
            let shown = self.show(&path, directories, depth);
            let found = Found::new(path, shown);
            if found.unshown.is_none() {
                let inside = found.path.parent().unwrap_or(entry).to_owned();
                self.entries.push((entry.to_owned(), inside));
                return Some(found);
            }
            first = first.or(Some(found));
        }
        first
    }

    /// Returns the file where it is shown alone.
    fn show(
        &mut self,
        path: &Path,
        directories: &[PathBuf],
        depth: usize,
    ) -> Result<Option<PathBuf>, Unshown> {
        let program = path.canonicalize().map_err(|_| Unshown::Unreadable)?;
        self.check_way(path)?;
        let around = if self.sees(&program) {
            Around::Seen
        } else {
            self.around(&program, directories)?
        };
        let alone = matches!(around, Around::Alone);
        self.lead_to(path, &program);
        self.show_around(&program, around);
        if depth < DEPTH {
            self.show_runtimes(&program, depth);
        }
        Ok(alone.then_some(program))
    }

    /// Whether a path may be followed: neither itself nor a symlink on its way lies where an agent may have put
    /// it.
    fn check_way(&self, path: &Path) -> Result<(), Unshown> {
        let mut at = path.to_owned();
        for _ in 0..=MOST_LINKS {
            let parts = ancestors_from_the_root(&at);
            let link = parts
                .iter()
                .find_map(|part| Some((*part, part.read_link().ok()?)));
            let Some((link, text)) = link else {
                return self.check(&at);
            };
            self.check_unseen(link)?;
            let target = plain(&link.parent().unwrap_or(link).join(text));
            let rest = at.strip_prefix(link).unwrap_or(Path::new(""));
            at = plain(&target.join(rest));
        }
        Err(Unshown::Unreadable)
    }

    /// A path without symlinks: not in the workspace, where an agent may have put it, and not in Cofferdam's home.
    fn check_unseen(&self, path: &Path) -> Result<(), Unshown> {
        let mut unseen = self.host.unseen.iter();
        match unseen.find(|one| holds(&real(one), path)) {
            Some(unseen) => Err(Unshown::In(unseen.clone())),
            None => Ok(()),
        }
    }

    fn check(&self, path: &Path) -> Result<(), Unshown> {
        self.check_unseen(path)?;
        let mut never = NEVER.iter().map(Path::new).filter(|_| !is_system(path));
        match never.find(|never| path.starts_with(never)) {
            Some(never) => Err(Unshown::System(never.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether a whole directory may be shown. Not one that holds the home, nor one that is a program's settings
    /// in the home by its name, nor what nobody may see.
    fn may_show(&self, directory: &Path) -> bool {
        let hidden = |name: &OsStr| name.as_bytes().starts_with(b".");
        let refused = self.home.as_deref().is_some_and(|home| {
            let settings = directory.parent() == Some(home);
            holds(directory, home) || (settings && directory.file_name().is_some_and(hidden))
        });
        directory.parent().is_some()
            && !refused
            && self.check(directory).is_ok()
            && !touches(directory, self.host.unseen)
    }

    /// Whether the path means something inside.
    fn sees(&self, path: &Path) -> bool {
        let shown = |mount: &SetupMount| {
            let target = Path::new(OsStr::from_bytes(&mount.target));
            match mount.source {
                Source::Path(_) => path.starts_with(target),
                Source::Link(_) => path == target,
                Source::Layers { .. } | Source::Nothing | Source::Target => false,
            }
        };
        is_system(path) || self.mounts.iter().any(shown)
    }

    /// Makes the path lead to the program inside as it does outside: symlinks in directories that are shown are
    /// there, for the others one of ours goes straight to the end.
    fn lead_to(&mut self, path: &Path, program: &Path) {
        let mut at = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(next) = self.next_on(&at) {
                at = next;
                continue;
            }
            if at != program && !self.sees(&at) {
                self.link(&at, program);
            }
            return;
        }
    }

    /// Where the first symlink that is seen on the way leads to.
    fn next_on(&self, path: &Path) -> Option<PathBuf> {
        let parts = ancestors_from_the_root(path).into_iter();
        parts.filter(|part| self.sees(part)).find_map(|part| {
            let text = part.read_link().ok()?;
            let rest = path.strip_prefix(part).ok()?;
            Some(plain(&part.parent()?.join(text).join(rest)))
        })
    }

    /// What belongs to the program: a directory of its installer's, its package, its Python environment, or itself
    /// alone.
    fn around(&self, program: &Path, directories: &[PathBuf]) -> Result<Around, Unshown> {
        let whole = directories.iter().find_map(|directory| {
            let directory = self.home.as_ref()?.join(directory).canonicalize().ok()?;
            program.starts_with(&directory).then_some(directory)
        });
        if let Some(directory) = whole.filter(|directory| self.may_show(directory)) {
            return Ok(Around::Directory(directory));
        }
        if let Some(package) = package::of(program).filter(|one| self.may_show(one)) {
            return match package::mark_of_a_checkout(&package) {
                Some(mark) => Err(Unshown::Checkout(package, mark)),
                None => Ok(Around::Package(package)),
            };
        }
        let installed = |one: &PathBuf| package::mark_of_a_checkout(one).is_none();
        let environment = virtual_environment(program).filter(installed);
        let environment = environment.filter(|one| self.may_show(one));
        Ok(environment.map_or(Around::Alone, Around::Directory))
    }

    fn show_around(&mut self, program: &Path, around: Around) {
        match around {
            Around::Seen => {}
            Around::Directory(directory) => self.mount(&directory),
            Around::Package(package) => {
                self.mount(&package);
                self.show_dependencies(&package);
            }
            Around::Alone => self.mount(program),
        }
    }

    fn show_dependencies(&mut self, package: &Path) {
        let allowed = |one: &package::Dependency| {
            self.check_way(&one.at).is_ok()
                && self.may_show(&one.real)
                && package::mark_of_a_checkout(&one.real).is_none()
        };
        let Some(dependencies) = package::dependencies(package, allowed) else {
            if let Some(all) = package::directory(package).filter(|all| self.may_show(all)) {
                self.mount(all);
            }
            return;
        };
        for package::Dependency { at, real } in dependencies {
            self.mount(&real);
            if !self.sees(&at) {
                self.link(&at, &real);
            }
        }
    }

    /// What is in its first line. One that cannot be shown keeps nothing else from being shown.
    fn show_runtimes(&mut self, program: &Path, depth: usize) {
        let Some((interpreter, argument)) = first_line(program) else {
            return;
        };
        let called = |name: &str| interpreter.ends_with(name);
        if called("env") {
            if let Some(name) = argument {
                self.in_path(&name, &[], depth + 1);
            }
        } else if ["sh", "bash", "dash"].into_iter().any(called) {
            // A script that only starts another one, as package programs write them.
            self.in_path(OsStr::new("node"), &[], depth + 1);
        } else if interpreter.is_absolute() && is_program(&interpreter) {
            let _ = self.show(&interpreter, &[], depth + 1);
        }
    }

    fn mount(&mut self, path: &Path) {
        if !self.sees(path) {
            let path = path.as_os_str().as_bytes().to_vec();
            self.mounts.push(shown(Source::Path(path.clone()), path));
        }
    }

    fn link(&mut self, at: &Path, text: &Path) {
        let text = text.as_os_str().as_bytes().to_vec();
        let target = at.as_os_str().as_bytes().to_vec();
        self.mounts.push(shown(Source::Link(text), target));
    }
}

fn ancestors_from_the_root(path: &Path) -> Vec<&Path> {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    parts
}

pub(super) fn is_program(path: &Path) -> bool {
    let found = path.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// `bin/NAME` of a directory that says it is one (PEP 405).
fn virtual_environment(program: &Path) -> Option<PathBuf> {
    let environment = program.parent()?.parent()?;
    let says = environment.join("pyvenv.cfg").is_file();
    says.then(|| environment.to_owned())
}

/// asdf and mise have programs in `shims` that ask settings, which stay outside, for the version to run. The
/// newest one that is installed stands for it.
fn behind_shim(entry: &Path, name: &OsStr) -> Option<PathBuf> {
    let installs = entry
        .parent()
        .filter(|_| entry.ends_with("shims"))?
        .join("installs");
    let mut newest: Option<(Vec<u64>, PathBuf)> = None;
    for tool in installs.read_dir().ok()?.flatten() {
        for version in tool.path().read_dir().into_iter().flatten().flatten() {
            let path = version.path().join("bin").join(name);
            // `latest` and the like are symlinks to one of the others.
            if version.path().is_symlink() || !is_program(&path) {
                continue;
            }
            let name = version.file_name();
            let numbers = name.to_string_lossy();
            let numbers = numbers.split(|c: char| !c.is_ascii_digit());
            let numbers: Vec<u64> = numbers.filter_map(|part| part.parse().ok()).collect();
            if newest.as_ref().is_none_or(|(best, _)| *best < numbers) {
                newest = Some((numbers, path));
            }
        }
    }
    newest.map(|(_, path)| path)
}

/// The interpreter of a script and what it is to start: the first word that is no option and no variable.
fn first_line(program: &Path) -> Option<(PathBuf, Option<OsString>)> {
    let mut bytes = Vec::new();
    let file = File::open(program).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let interpreter = OsString::from_vec(words.next()?.to_vec()).into();
    let argument = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    Some((
        interpreter,
        argument.map(|word| OsString::from_vec(word.to_vec())),
    ))
}
