//! What of this machine may be shown to a sandbox, and what of it may be changed from there. Looked at when a sandbox is planned,
//! and again whenever it is made.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::ExtraMountError;
use super::known::{
    CACHES, CREDENTIALS, KEPT_BY_VARIABLE, OF_SOCKETS, OF_SOCKETS_BY_VARIABLE, OF_THE_KERNEL,
    PROGRAMS, STARTED, SYSTEM,
};
use crate::fsx;
use crate::git::{nested, own_files};
use crate::names::Slug;
use crate::registry::ExtraMount;
use crate::session::place;
use crate::text::printable_path;

/// The list of users that is read, in bytes.
const USERS_LIMIT: u64 = 1 << 20;
/// Ids of people begin there on this machine (login.defs(5)); the last one is nobody.
const PEOPLE: std::ops::Range<u32> = 1000..65534;

/// What is around the sandbox that gets them.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// Cofferdam's own directory.
    pub own: PathBuf,
    /// Homes of the caller and of everybody else.
    pub homes: Vec<PathBuf>,
    /// The directories of the caller's `PATH`.
    pub programs: Vec<PathBuf>,
    /// The sandbox's repository: its top, and the directory that its working trees share.
    pub repository: [PathBuf; 2],
    /// Paths that the sandbox must not see.
    pub hidden: Vec<PathBuf>,
    /// Where agents of other sandboxes write.
    pub writers: Vec<(Slug, PathBuf)>,
    /// Where agents have written, whatever became of their sandboxes.
    pub written: Vec<PathBuf>,
    /// What the user's git runs, obeys or borrows from, wherever it is.
    pub steering: Vec<PathBuf>,
    /// The caller's variables.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Around {
    /// The absolute paths in the value of a variable of the caller's.
    fn named(&self, variable: &str) -> impl Iterator<Item = PathBuf> {
        let value = self.environment.get(OsStr::new(variable));
        let bytes = value.map_or(&b""[..], |value| value.as_bytes());
        // `unix://PATH`, `unix:path=PATH,…`, `PATH,PID,…`, `PATH:PATH`.
        let parts = bytes.split(|byte| b":,=;".contains(byte));
        parts
            .filter_map(|part| {
                let part = part.strip_prefix(b"//").unwrap_or(part);
                let path = Path::new(OsStr::from_bytes(part));
                let is_one = path.is_absolute() && path != Path::new("/");
                is_one.then(|| path.to_owned())
            })
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// The same mount by the real path of its source.
pub(super) fn admit(mount: &ExtraMount, around: &Around) -> Result<ExtraMount, ExtraMountError> {
    let path = &mount.source;
    let found = path.canonicalize();
    let real = found.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ExtraMountError::Missing { path: path.clone() },
        _ => ExtraMountError::Unreachable {
            path: path.clone(),
            reason: error.to_string(),
        },
    })?;
    // A symlink that came just now is neither.
    let kind = real.symlink_metadata().map(|found| found.file_type());
    if !kind.is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
        return Err(ExtraMountError::Kind { path: path.clone() });
    }
    if let Some(link) = followed(path, around) {
        let path = path.clone();
        let why = format!(
            "{} is a link in a directory that an agent could write in, and leads to {}",
            printable_path(&link),
            printable_path(&real)
        );
        return Err(ExtraMountError::Refused { path, why });
    }
    if let Some(why) = never(&real, around) {
        let path = path.clone();
        return Err(ExtraMountError::Refused { path, why });
    }
    if let Some(sandbox) = replaceable(&real, &around.writers) {
        let path = path.clone();
        return Err(ExtraMountError::Agents { path, sandbox });
    }
    if mount.writable
        && let Some(why) = read_only(&real, around)
    {
        let path = path.clone();
        return Err(ExtraMountError::ReadOnly { path, why });
    }
    Ok(ExtraMount {
        source: real,
        ..mount.clone()
    })
}

/// As [`admit`], of one that was admitted before.
pub(super) fn admit_again(mount: &ExtraMount, around: &Around) -> Result<(), ExtraMountError> {
    let now = admit(mount, around)?;
    if now.source == mount.source {
        return Ok(());
    }
    Err(ExtraMountError::Moved {
        path: mount.source.clone(),
        to: now.source,
    })
}

/// Why no sandbox is shown what is at this path, which has no symlink in it.
fn never(real: &Path, around: &Around) -> Option<String> {
    let because = |why: &str| Some(why.to_owned());
    if real == Path::new("/") {
        return because("it is the whole file system");
    }
    if place::touch(real, &around.own) {
        return Some(format!(
            "Cofferdam's own directory {} is it, holds it or is in it",
            printable_path(&around.own)
        ));
    }
    if real.iter().any(|name| name == own_files::DIRECTORY) {
        return because("it is in a directory of Cofferdam's own");
    }
    // As a directory of that name it is known by its name, and covered.
    let settings = around.repository[0].join(own_files::DIRECTORY);
    if let Some(to) = leads_to(&settings)
        && place::touch(real, &to)
    {
        return Some(format!(
            "{} leads to {}, which is it, holds it or is in it",
            printable_path(&settings),
            printable_path(&to)
        ));
    }
    for home in &around.homes {
        if place::real(home).starts_with(real) {
            return Some(format!(
                "the home directory {} is in it, or is it",
                printable_path(home)
            ));
        }
    }
    if real == Path::new("/home") || real.parent() == Some(Path::new("/home")) {
        return because("it is somebody's home directory, or all of them");
    }
    let homes = || around.homes.iter();
    let mut daemons = homes().flat_map(|home| place::daemons(Some(home)));
    if daemons.any(|path| meet(real, &path)) {
        return because(place::OF_SERVICES);
    }
    if let Some(system) = SYSTEM.iter().find(|system| meet(real, Path::new(system))) {
        return Some(format!("{system} is this machine's own"));
    }
    if let Some(kind) = of_the_kernel(real) {
        return Some(format!(
            "it is in a file system of the kernel's ({kind}), which shows this machine and changes it"
        ));
    }
    let below_homes = homes().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
    let by_variable = (KEPT_BY_VARIABLE.iter()).flat_map(|name| around.named(name));
    for path in below_homes.chain(by_variable) {
        if meet(real, &path) {
            return Some(format!(
                "keys and logins are in {}, and no sandbox gets them so",
                printable_path(&path)
            ));
        }
    }
    let by_variable = (OF_SOCKETS_BY_VARIABLE.iter()).flat_map(|name| around.named(name));
    for path in OF_SOCKETS.map(PathBuf::from).into_iter().chain(by_variable) {
        if place::real(&path).starts_with(real) {
            return Some(format!(
                "programs make sockets in {}, and each would lead out of the sandbox",
                printable_path(&path)
            ));
        }
    }
    let [top, common] = &around.repository;
    let hidden = around.hidden.iter().map(|path| top.join(path));
    let mut shown = hidden.filter(|path| meet(real, path) || place::real(path).starts_with(real));
    if let Some(shown) = shown.next() {
        return Some(format!(
            "it shows {}, which is hidden from this sandbox",
            printable_path(&shown)
        ));
    }
    // Other branches, what is hidden, and addresses with passwords in them.
    if place::touch(real, common) {
        return Some(format!(
            "the git directory of the sandbox's repository, {}, is it, is in it or holds it: what of that the sandbox may see it has",
            printable_path(common)
        ));
    }
    None
}

/// Where a symlink leads, also where nothing is there yet; `None`: it is none.
fn leads_to(link: &Path) -> Option<PathBuf> {
    let target = link.read_link().ok()?;
    Some(place::real(&link.parent()?.join(target)))
}

/// The kind of a file system in which the kernel has no files, but doors to itself: wherever it is mounted.
fn of_the_kernel(path: &Path) -> Option<&'static str> {
    let magic = u32::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()?;
    let known = OF_THE_KERNEL.iter().find(|(known, _)| *known == magic);
    known.map(|(_, kind)| *kind)
}

/// Why it may be shown, and not changed.
fn read_only(real: &Path, around: &Around) -> Option<String> {
    // Programs of this machine run git wherever they are, and git runs what a repository says.
    if let Some(at) = repository_around(real) {
        return Some(format!(
            "it is in the git repository {}, which changes only by commits that have passed the gate",
            printable_path(at)
        ));
    }
    if around
        .repository
        .iter()
        .any(|path| place::touch(real, path))
    {
        return Some("the sandbox's own repository is it, holds it or is in it".to_owned());
    }
    if PROGRAMS.iter().any(|path| meet(real, Path::new(path))) {
        return Some("programs of this machine are in it".to_owned());
    }
    let mut searched = around.programs.iter();
    if let Some(path) = searched.find(|path| meet(real, path)) {
        return Some(format!(
            "your PATH finds programs in {}",
            printable_path(path)
        ));
    }
    for home in &around.homes {
        let mut started = STARTED.iter().map(|name| home.join(name));
        if let Some(path) = started.find(|path| meet(real, path)) {
            return Some(format!(
                "{} says what runs when you log in or start git",
                printable_path(&path)
            ));
        }
        let below = real.strip_prefix(place::real(home));
        let of_programs = |below: &Path| {
            below.as_os_str().as_bytes().starts_with(b".")
                && !CACHES.iter().any(|cache| below.starts_with(cache))
        };
        if below.is_ok_and(of_programs) {
            return Some(format!(
                "programs of yours keep their settings there; of what begins with a dot in a home these alone may be writable: {}",
                CACHES.join(", ")
            ));
        }
    }
    let mut steering = around.steering.iter();
    // Also what is not there yet.
    if let Some(path) =
        steering.find(|path| meet(real, path) || place::real(path).starts_with(real))
    {
        return Some(format!(
            "your git runs, obeys or reads what is at {}",
            printable_path(path)
        ));
    }
    None
}

/// A link on the way to `path` that lies where agents have written.
fn followed(path: &Path, around: &Around) -> Option<PathBuf> {
    let written: Vec<PathBuf> = (around.written.iter())
        .chain(around.writers.iter().map(|(_, path)| path))
        .map(|path| place::real(path))
        .collect();
    let mut rest: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
    let mut at = PathBuf::new();
    // As many as the kernel follows (path_resolution(7)).
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Ok(target) = next.read_link() else {
            at = next;
            continue;
        };
        links += 1;
        if links > 40 || written.iter().any(|written| at.starts_with(written)) {
            return Some(next);
        }
        rest.extend(target.iter().rev().map(OsStr::to_owned));
        if target.is_absolute() {
            at = PathBuf::new();
        }
    }
    None
}

/// A repository, or a git directory, that `real` is or lies in.
pub(super) fn repository_around(real: &Path) -> Option<&Path> {
    real.ancestors().find(|above| {
        nested::is_dot_git(above)
            || above.join(".git").symlink_metadata().is_ok()
            || nested::is_bare(above)
    })
}

/// The sandbox whose agent writes in a directory above it. At the very top of a mount an agent can put nothing else.
fn replaceable(real: &Path, writers: &[(Slug, PathBuf)]) -> Option<Slug> {
    let mut above = writers
        .iter()
        .map(|(sandbox, path)| (sandbox, place::real(path)))
        .filter(|(_, path)| real != path && real.starts_with(path));
    above.next().map(|(sandbox, _)| sandbox.clone())
}

/// Whether one of both is in the other, or is it, by whatever names. What is not there is in nothing yet.
fn meet(one: &Path, other: &Path) -> bool {
    one.starts_with(place::real(other))
        || (other.symlink_metadata().is_ok() && place::touch(one, other))
}

/// The caller's home, and those of root and of people on this machine. A home that is none (`/`) is left out, as people's are that
/// only a directory service knows: what is right below `/home` is refused by its place.
pub(super) fn homes(user_home: Option<&Path>) -> Vec<PathBuf> {
    let users = fsx::read_bounded(Path::new("/etc/passwd"), USERS_LIMIT).unwrap_or_default();
    let users = String::from_utf8_lossy(&users);
    let people = users.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let id: u32 = fields.next()?.parse().ok()?;
        let home = Path::new(fields.nth(2)?);
        let is_one = home.is_absolute() && home != Path::new("/");
        (is_one && (id == 0 || PEOPLE.contains(&id))).then(|| home.to_owned())
    });
    let mut homes: Vec<PathBuf> = user_home.map(Path::to_owned).into_iter().collect();
    homes.extend(people);
    homes.dedup();
    homes
}

/// Why a file cannot be changed from inside: who writes one with a second name writes there too, and one with a set-user-id bit
/// keeps it when it is written through a mapping.
pub(super) fn frozen(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() {
        return None;
    }
    if found.nlink() > 1 {
        return Some("the file has other names too, and a change would reach them".to_owned());
    }
    (found.mode() & 0o6000 != 0).then(|| "the file runs with its owner's rights".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let this = Self { dir };
            for name in [
                "user/.cofferdam",
                "user/data/deep",
                "repo/.git",
                "repo/secret",
                "bin",
            ] {
                this.makes(name);
            }
            this
        }

        fn top(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap()
        }

        fn makes(&self, name: &str) {
            fs::create_dir_all(self.dir.path().join(name)).unwrap();
        }

        fn around(&self) -> Around {
            let top = self.top();
            Around {
                own: top.join("user/.cofferdam"),
                homes: vec![top.join("user")],
                programs: vec![top.join("bin")],
                repository: [top.join("repo"), top.join("repo/.git")],
                hidden: vec!["secret".into()],
                writers: Vec::new(),
                written: vec![top.join("written")],
                steering: vec![top.join("hooks"), top.join("inc/more")],
                environment: BTreeMap::from([
                    ("CODEX_HOME".into(), top.join("kept").into()),
                    (
                        "TMUX".into(),
                        format!("{}/sockets/default,1,0", top.display()).into(),
                    ),
                ]),
            }
        }

        fn asked(&self, source: &Path, writable: bool) -> Result<PathBuf, String> {
            let mount = ExtraMount {
                source: source.to_owned(),
                target: "/mnt/x".into(),
                writable,
            };
            let admitted = admit(&mount, &self.around());
            admitted
                .map(|mount| mount.source)
                .map_err(|error| error.to_string())
        }

        fn ask(&self, name: &str, writable: bool) -> Result<PathBuf, String> {
            self.asked(&self.top().join(name), writable)
        }

        #[track_caller]
        fn refused(&self, name: &str, writable: bool, why: &str) {
            let error = self.ask(name, writable).unwrap_err();
            assert!(error.contains(why), "{name}: {error}");
        }
    }

    #[test]
    fn what_may_be_shown_is_shown_by_its_real_path() {
        let world = World::new();
        symlink(world.top().join("user/data"), world.top().join("link")).unwrap();
        for writable in [false, true] {
            let real = world.top().join("user/data");
            assert_eq!(world.ask("user/data", writable), Ok(real.clone()));
            assert_eq!(world.ask("link", writable), Ok(real.clone()));
            assert_eq!(world.ask("user/data/deep/..", writable), Ok(real));
        }
    }

    #[test]
    fn only_directories_and_files() {
        let world = World::new();
        world.refused("user/gone", false, "nothing is there");
        let _bound = std::os::unix::net::UnixListener::bind(world.top().join("socket"));
        world.refused("socket", false, "no directory and no regular file");
        symlink("nowhere", world.top().join("dangling")).unwrap();
        world.refused("dangling", false, "nothing is there");
        crate::fsx::write_private(&world.top().join("file"), b"x").unwrap();
        assert!(world.ask("file", true).is_ok());
        world.refused("file/below", false, "cannot mount");
    }

    #[test]
    fn homes_and_keys_are_never_shown() {
        let world = World::new();
        world.refused("", false, "Cofferdam's own directory");
        world.refused("user", false, "Cofferdam's own directory");
        world.refused("user/.cofferdam", false, "Cofferdam's own directory");
        for name in [
            ".ssh",
            ".ssh/keys",
            ".config",
            ".config/gh/hosts",
            ".local",
            ".local/share/containers/storage",
            ".cargo",
        ] {
            world.makes(&format!("user/{name}"));
        }
        let keys = world.top().join("user/.cargo/credentials.toml");
        crate::fsx::write_private(&keys, b"x").unwrap();
        for name in [".ssh", ".ssh/keys", ".config", ".config/gh/hosts", ".cargo"] {
            world.refused(&format!("user/{name}"), false, "keys and logins");
        }
        for name in [".local", ".local/share/containers/storage"] {
            world.refused(&format!("user/{name}"), false, "services of this machine");
        }
        // By another name.
        symlink("user/.ssh", world.top().join("link")).unwrap();
        world.refused("link", false, "keys and logins");
        fs::create_dir_all(world.top().join("elsewhere/aws")).unwrap();
        symlink("../elsewhere/aws", world.top().join("user/.aws")).unwrap();
        world.refused("elsewhere", false, "keys and logins");
        // The controls.
        world.makes("user/.cargo/registry");
        world.makes("user/.ssh-notes");
        assert!(world.ask("user/.cargo/registry", true).is_ok());
        assert!(world.ask("user/.ssh-notes", false).is_ok());
        world.makes("kept/deep");
        world.refused("kept/deep", false, "keys and logins");
        // What is not there yet is in nothing.
        world.makes("user/.m2/repository");
        assert!(world.ask("user/.m2/repository", true).is_ok());
        assert!(world.ask("user/.m2", false).is_ok());
    }

    #[test]
    fn settings_of_programs_are_read_only() {
        let world = World::new();
        for name in [
            "user/.config/nvim",
            "user/.nvm",
            "user/.local/lib",
            "user/.cargo",
        ] {
            world.makes(name);
            world.refused(name, true, "of what begins with a dot");
            assert!(world.ask(name, false).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_the_users_git_runs_or_reads_is_read_only() {
        let world = World::new();
        for (name, asked) in [
            ("hooks", "hooks"),
            ("hooks/deep", "hooks/deep"),
            ("inc/more", "inc"),
        ] {
            world.makes(name);
            world.refused(asked, true, "your git runs");
            assert!(world.ask(asked, false).is_ok(), "{asked}");
        }
    }

    #[test]
    fn where_sockets_are_made_is_not_shown_whole() {
        let world = World::new();
        world.makes("sockets/other");
        world.refused("sockets", false, "programs make sockets");
        assert!(world.ask("sockets/other", false).is_ok());
        assert!(world.asked(Path::new("/var/tmp"), false).is_err());
    }

    #[test]
    fn a_link_that_an_agent_may_have_made_is_not_followed() {
        let world = World::new();
        world.makes("written/data");
        symlink("../user/data", world.top().join("written/link")).unwrap();
        symlink("written/link", world.top().join("first")).unwrap();
        symlink("user/data", world.top().join("own")).unwrap();
        for name in [
            "written/link",
            "written/link/deep",
            "first",
            "bin/../written/link",
        ] {
            world.refused(name, false, "an agent could write in");
        }
        assert!(world.ask("own", false).is_ok());
        assert!(world.ask("written/data", false).is_ok());
    }

    #[test]
    fn the_repositorys_own_git_directory_is_not_shown() {
        let world = World::new();
        for name in ["repo/.git/objects", "repo/src"] {
            world.makes(name);
        }
        for name in ["repo/.git", "repo/.git/objects"] {
            world.refused(name, false, "the git directory of the sandbox's repository");
        }
        assert!(world.ask("repo/src", false).is_ok());
    }

    #[test]
    fn somebodys_home_is_not_shown_whole() {
        let world = World::new();
        world.makes("homes/one/data");
        let mut around = world.around();
        around.homes.push(world.top().join("homes/one"));
        let refused = |name: &str| never(&world.top().join(name), &around).is_some();
        assert!(refused("homes/one"));
        assert!(refused("homes"));
        assert!(!refused("homes/one/data"));
        let homes = homes(Some(Path::new("/x")));
        assert_eq!(homes[0], Path::new("/x"));
        assert!(homes.contains(&PathBuf::from("/root")), "{homes:?}");
    }

    #[test]
    fn the_machines_own_is_not_shown() {
        let world = World::new();
        for path in [
            "/",
            "/etc",
            "/etc/ssl",
            "/proc",
            "/proc/self/fd",
            "/sys/kernel",
            "/dev",
            "/run",
            "/var/run",
            "/var",
            "/var/lib",
            "/home",
        ] {
            if Path::new(path).exists() {
                assert!(world.asked(Path::new(path), false).is_err(), "{path}");
            }
        }
        assert!(world.asked(Path::new("/usr/lib"), false).is_ok());
        let error = world.asked(Path::new("/usr/lib"), true).unwrap_err();
        assert!(error.contains("programs of this machine"), "{error}");
    }

    #[test]
    fn the_kernels_file_systems_are_known_wherever_they_are() {
        assert_eq!(of_the_kernel(Path::new("/proc/self/fd")), Some("proc"));
        assert_eq!(of_the_kernel(Path::new("/sys/kernel")), Some("sysfs"));
        assert_eq!(of_the_kernel(&World::new().top()), None);
        assert_eq!(of_the_kernel(Path::new("/dev")), None);
    }

    #[test]
    fn what_a_link_makes_the_repositorys_settings_is_not_shown() {
        let world = World::new();
        world.makes("settings/deep");
        assert!(world.ask("settings", true).is_ok());
        let link = world.top().join("repo/.cofferdam");
        symlink("../settings", &link).unwrap();
        for name in ["settings", "settings/deep"] {
            world.refused(name, false, "repo/.cofferdam leads to");
        }
        assert!(world.ask("user/data", true).is_ok());
        // Also what is to be made there.
        fs::remove_file(&link).unwrap();
        symlink("../settings/none/yet", &link).unwrap();
        world.refused("settings", true, "repo/.cofferdam leads to");
        assert!(world.ask("settings/deep", true).is_ok());
    }

    #[test]
    fn a_message_has_one_line() {
        let world = World::new();
        world.refused("a\nb\u{1b}[2J", false, "/a\\nb\\u{1b}[2J: nothing is there");
        world.makes("user/.ssh/a\nb");
        world.refused("user/.ssh/a\nb", false, "/user/.ssh/a\\nb: keys and logins");
    }

    #[test]
    fn nothing_of_a_repository_is_writable() {
        let world = World::new();
        for name in [
            "repo/src",
            "other/.git",
            "other/src",
            "linked/src",
            "bare/objects",
            "bare/refs",
        ] {
            world.makes(name);
        }
        for (name, text) in [
            ("linked/.git", "gitdir: x"),
            ("bare/HEAD", "ref: refs/heads/x"),
        ] {
            crate::fsx::write_private(&world.top().join(name), text.as_bytes()).unwrap();
        }
        for name in [
            "repo/src",
            "other",
            "other/src",
            "other/.git",
            "linked/src",
            "bare",
            "bare/refs",
        ] {
            world.refused(name, true, "the git repository");
            assert!(world.ask(name, false).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_hidden_or_started_stays_so() {
        let world = World::new();
        world.refused("repo/secret", false, "hidden from this sandbox");
        world.refused("repo", false, "hidden from this sandbox");
        world.refused("bin", true, "your PATH");
        assert!(world.ask("bin", false).is_ok());
        world.makes("user/.config/systemd/user");
        world.refused("user/.config/systemd", true, "when you log in");
        assert!(world.ask("user/.config/systemd", false).is_ok());
    }

    #[test]
    fn what_an_agent_can_replace_is_not_mounted() {
        let world = World::new();
        let slug = Slug::from_text("other").unwrap();
        let data = world.top().join("user/data");
        let found = |writer: &str| {
            let writers = [(slug.clone(), world.top().join(writer))];
            replaceable(&data, &writers).is_some()
        };
        assert!(found("user"));
        // Two may share one.
        assert!(!found("user/data"));
        assert!(!found("user/data/deep"));
    }

    #[test]
    fn one_that_was_admitted_is_where_it_was() {
        let world = World::new();
        let data = world.top().join("user/data");
        let mount = ExtraMount {
            source: data.clone(),
            target: "/mnt/x".into(),
            writable: false,
        };
        let around = world.around();
        assert!(admit_again(&mount, &around).is_ok());
        fs::rename(&data, world.top().join("moved")).unwrap();
        let gone = admit_again(&mount, &around).unwrap_err();
        assert!(matches!(gone, ExtraMountError::Missing { .. }), "{gone}");
        symlink(world.top().join("moved"), &data).unwrap();
        let moved = admit_again(&mount, &around).unwrap_err();
        assert!(matches!(moved, ExtraMountError::Moved { .. }), "{moved}");
    }

    #[test]
    fn a_file_that_is_elsewhere_too_is_frozen() {
        use std::os::unix::fs::PermissionsExt;
        let world = World::new();
        let file = world.top().join("file");
        crate::fsx::write_private(&file, b"x").unwrap();
        assert_eq!(frozen(&file), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(frozen(&file).is_some());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::hard_link(&file, world.top().join("again")).unwrap();
        assert!(frozen(&file).is_some());
        assert_eq!(frozen(&world.top()), None);
    }
}
