//! Which files go in, from where and to where: one list, in which what comes later takes the place of what came before (S1-56 to S1-64).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::theme::{self, Theme};
use super::tree::Tree;
use super::{pattern, shell};
use crate::config::{Destination, Merged, Owner, Source, SyncRule, Valued, Variable};
use crate::text::printable_path as shown;

/// More files do not go into one sandbox.
const MOST: usize = 200_000;
/// Of one theme with a directory of its own.
const MOST_OF_THEME: usize = 2_000;
/// What no file takes the place of, whoever asks: the guest's own, and what the kernel shows.
const RESERVED: [&str; 11] = [
    "proc",
    "sys",
    "dev",
    "run",
    ".cofferdam",
    "etc/passwd",
    "etc/group",
    "etc/hosts",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/nsswitch.conf",
];
/// The agent's.
pub(super) const HOME: &str = "home/agent";
/// Where what lies there is the agent's, as [`HOME`] is written.
const AGENTS: [&str; 4] = [HOME, "workspace", "repo-shelf", "commandhistory"];
/// What shells read, in the agent's home.
const VARIABLES: &str = ".cofferdam-env";
const THEME: &str = ".cofferdam-zsh-theme";
const THEMES: &str = ".oh-my-zsh/custom/themes";

/// Where sources are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The directory of the user's own configuration, with `home/` in it.
    pub own: &'a Path,
    /// The user's home, which `~` means.
    pub user_home: Option<&'a Path>,
    /// The top of the checkout.
    pub top: &'a Path,
    /// Directories in which agents write, or have written: a link there may be theirs.
    pub written: &'a [PathBuf],
    /// Of the user's zsh.
    pub theme: Option<&'a Theme>,
    /// The variables of this machine.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// What programs inside are given by whoever starts them: it counts before what the configuration says.
    pub given: &'a BTreeMap<OsString, OsString>,
    /// Where the sandbox has the repository's files.
    pub workdir: &'a Path,
    /// What is this machine's inside, and can be written there: its places, and where it is here.
    pub mounted: &'a BTreeMap<PathBuf, PathBuf>,
    /// Somebody can bring files that are not the agent's.
    pub root: bool,
}

/// What goes in, and what of the configuration does not.
#[derive(Debug, Default)]
pub struct Wanted {
    /// By their places: absolute paths without the first slash.
    pub items: BTreeMap<PathBuf, Item>,
    /// What of the configuration cannot go in.
    pub complaints: Vec<Complaint>,
}

/// A user's and a group's id, where something is not the agent's.
type Others = Option<(u32, u32)>;

/// One file.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its permissions, as `chmod(2)` takes them.
    pub mode: u32,
    /// Whose it is inside, if not the agent's user's.
    pub owner: Others,
    pub(super) content: Content,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Text(Vec<u8>),
    /// Below a directory that it does not lead out of.
    File {
        tree: Arc<Tree>,
        path: PathBuf,
    },
}

/// Something that is not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Where it is asked for: a file of `home/`, or a rule with its line.
    pub item: String,
    /// Why, as a sentence fragment.
    pub reason: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.item, self.reason)
    }
}

/// The variables of `env`. One that this machine does not have is left out (S1-97).
pub fn variables(
    config: &Merged,
    environment: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let one = |(name, variable): (&String, &Valued<Variable>)| {
        let value = match &variable.value {
            Variable::Text(text) => Some(OsString::from(text)),
            Variable::OfHost(host) => environment.get(OsStr::new(host)).cloned(),
        };
        Some((name.into(), value?))
    };
    config.env.iter().filter_map(one).collect()
}

/// Looks at everything that the configuration names. Reads no content. `brought`: whether the sandbox was brought something to that
/// place before. What shells read there is emptied where nothing is said any more, or a value that was taken back would stay.
pub fn gather(config: &Merged, places: Places<'_>, brought: impl Fn(&Path) -> bool) -> Wanted {
    let mut wanted = Wanted::default();
    let is_there = |name: &str| brought(&Path::new(HOME).join(name));
    if !config.env.is_empty() || is_there(VARIABLES) {
        let mut variables = variables(config, places.environment);
        for (name, value) in &mut variables {
            if let Some(given) = places.given.get(name) {
                value.clone_from(given);
            }
        }
        wanted.text(VARIABLES, shell::exports(&variables));
    }
    if is_there(THEME) {
        wanted.text(THEME, Vec::new());
    }
    if let Some(theme) = places.theme {
        wanted.theme(theme, places.written);
    }
    wanted.home(&places.own.join("home"));
    for rule in &config.sync {
        wanted.rule(rule, places);
    }
    wanted.stay_inside(places);
    wanted
}

/// Of `root`, or of ids as they are: nobody else than the agent has a name inside. Each is written in one way, and the largest number is
/// nobody's.
pub fn ids(owner: &str) -> Option<(u32, u32)> {
    let id = |name: &str| match name {
        "root" => Some(0),
        number => number
            .parse()
            .ok()
            .filter(|id: &u32| *id != u32::MAX && id.to_string() == number),
    };
    let (user, group) = owner.split_once(':').unwrap_or((owner, owner));
    Some((id(user)?, id(group)?))
}

impl Wanted {
    /// These texts, in the agent's home and by their names.
    pub fn texts(all: &[(&str, &str)]) -> Self {
        let mut wanted = Self::default();
        for (name, text) in all {
            wanted.text(name, text.as_bytes().to_vec());
        }
        wanted
    }

    fn text(&mut self, name: &str, text: Vec<u8>) {
        let content = Content::Text(text);
        let item = Item {
            mode: 0o644,
            owner: None,
            content,
        };
        self.items.insert(Path::new(HOME).join(name), item);
    }

    /// Takes out what is not the agent's, by whose it is.
    pub fn take_others(&mut self) -> BTreeMap<(u32, u32), Self> {
        let mut others: BTreeMap<(u32, u32), Self> = BTreeMap::new();
        let owned = self.items.extract_if(.., |_, item| item.owner.is_some());
        for (path, item) in owned {
            if let Some(owner) = item.owner {
                others.entry(owner).or_default().items.insert(path, item);
            }
        }
        others
    }

    fn complain(&mut self, item: impl Into<String>, reason: impl Into<String>) {
        self.complaints.push(Complaint {
            item: item.into(),
            reason: reason.into(),
        });
    }

    /// Says whether there was room for it.
    fn file(
        &mut self,
        to: PathBuf,
        (mode, owner): (u32, Others),
        tree: &Arc<Tree>,
        path: PathBuf,
    ) -> bool {
        if self.items.len() >= MOST {
            return false;
        }
        let content = Content::File {
            tree: Arc::clone(tree),
            path,
        };
        let item = Item {
            mode,
            owner,
            content,
        };
        self.items.insert(to, item);
        true
    }

    fn theme(&mut self, Theme { name, directory }: &Theme, written: &[PathBuf]) {
        self.text(THEME, theme::assignment(name));
        if !directory.is_dir() {
            return;
        }
        let tree = match Tree::open_among(directory, written) {
            Ok(tree) => tree,
            Err(reason) => return self.complain("themes of zsh", reason),
        };
        let to = Path::new(HOME).join(THEMES);
        let pattern = pattern::parted("*.zsh-theme");
        for path in pattern.matching(directory).unwrap_or_default() {
            self.looked_at(&tree, &path, to.join(&path), (0o644, None));
        }
        // One in a directory of its own reads what lies beside it.
        let (path, name) = (
            PathBuf::from(format!("{name}.zsh-theme")),
            PathBuf::from(name),
        );
        let is_below = |part| matches!(part, Component::Normal(_));
        let Some(beside) = name
            .parent()
            .filter(|beside| !beside.as_os_str().is_empty())
        else {
            return;
        };
        if name.components().all(is_below) && directory.join(&path).exists() {
            self.below(&tree, beside.to_owned(), &to, |_| 0o644, MOST_OF_THEME);
        }
    }

    /// All files of `home/`.
    fn home(&mut self, directory: &Path) {
        let tree = match Tree::open(directory) {
            Ok(tree) => tree,
            // There need not be one.
            Err(Errno::NOENT) => return,
            Err(errno) => {
                return self.complain(shown(directory), std::io::Error::from(errno).to_string());
            }
        };
        let is_program = |path: &Path| path.starts_with("bin");
        let mode = |path: &Path| if is_program(path) { 0o755 } else { 0o644 };
        self.below(&tree, PathBuf::new(), Path::new(HOME), mode, MOST);
    }

    /// Takes out what would be written to this machine.
    fn stay_inside(&mut self, places: Places<'_>) {
        let mut refused = Vec::new();
        self.items.retain(|to, _| match is_inside(to, places) {
            Ok(()) => true,
            Err(reason) => {
                let item = shown_inside(to);
                refused.push(Complaint { item, reason });
                false
            }
        });
        self.complaints.extend(refused);
    }

    /// All files that lie below `begin` in a tree, and no more than `most`.
    fn below(
        &mut self,
        tree: &Arc<Tree>,
        begin: PathBuf,
        to: &Path,
        mode: impl Fn(&Path) -> u32,
        most: usize,
    ) {
        let (mut waiting, mut count) = (vec![begin], 0);
        while let Some(below) = waiting.pop() {
            let directory = tree.path.join(&below);
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    self.complain(shown(&directory), error.to_string());
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        self.complain(shown(&directory), error.to_string());
                        break;
                    }
                };
                let path = below.join(entry.file_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push(path);
                    continue;
                }
                count += 1;
                if count > most {
                    let reason = format!("more than {most} files do not come along");
                    return self.complain(shown(&directory), reason);
                }
                if !self.looked_at(tree, &path, to.join(&path), (mode(&path), None)) {
                    return;
                }
            }
        }
    }

    /// One that is found to be a file goes in; else it is named. Says whether there was room.
    fn looked_at(
        &mut self,
        tree: &Arc<Tree>,
        path: &Path,
        to: PathBuf,
        rights: (u32, Others),
    ) -> bool {
        let shown = shown(&tree.path.join(path));
        if let Err(reason) = tree.file(path) {
            self.complain(shown, reason);
            return true;
        }
        let is_room = self.file(to, rights, tree, path.to_owned());
        if !is_room {
            self.complain(
                shown,
                format!("more than {MOST} files do not go into one sandbox"),
            );
        }
        is_room
    }

    fn rule(&mut self, rule: &Valued<SyncRule>, places: Places<'_>) {
        let name = format!(
            "`sync` rule of {} at line {}",
            rule.source.file(),
            rule.line
        );
        if let Err(reason) = self.apply(rule, places) {
            self.complain(name, reason);
        }
    }

    fn apply(&mut self, rule: &Valued<SyncRule>, places: Places<'_>) -> Result<(), String> {
        let SyncRule {
            src,
            dest,
            mode,
            owner,
        } = &rule.value;
        let owner = match owner {
            Owner::Agent => None,
            Owner::Other(owner) => {
                let ids = ids(owner).filter(|_| places.root);
                Some(ids.ok_or_else(|| {
                    format!("nobody in this sandbox is `{owner}`: leave `owner` out")
                })?)
            }
        };
        let (base, text) = based(src, rule.source, places)?;
        let its_own = |to: &Path| match owner {
            Some(_) if AGENTS.iter().any(|place| to.starts_with(place)) => Err(format!(
                "what is in /{} is the agent's: leave `owner` out",
                to.display()
            )),
            _ => Ok(()),
        };
        let trusted = |source: &Path| {
            let real = source.canonicalize();
            let real = real.as_deref().unwrap_or(source);
            match owner {
                Some(_) if places.written.iter().any(|top| real.starts_with(top)) => Err(format!(
                    "{}: an agent may have written it, and `owner` would make it somebody else's",
                    source.display()
                )),
                _ => Ok(()),
            }
        };
        if !pattern::is_pattern(text) {
            let path = Path::new(text);
            let name = path
                .file_name()
                .ok_or_else(|| format!("`{src}` names no file"))?;
            let to = place(dest, name, places)?;
            its_own(&to)?;
            let directory = base.join(path.parent().unwrap_or(Path::new("")));
            trusted(&directory.join(name))?;
            let tree = Tree::open_among(&directory, places.written)?;
            let path = PathBuf::from(name);
            let shown = directory.join(name);
            tree.file(&path)
                .map_err(|reason| format!("{}: {reason}", shown.display()))?;
            self.file(to, (*mode, owner), &tree, path);
            return Ok(());
        }
        let pattern = pattern::parted(text);
        let directory = base.join(pattern.directory);
        let found = pattern
            .matching(&directory)
            .map_err(|bad| format!("`{src}`: {bad}"))?;
        if found.is_empty() {
            return Err(format!("nothing matches `{src}`"));
        }
        if found.len() > 1 && !dest.is_directory {
            let count = found.len();
            return Err(format!(
                "`{src}` matches {count} files, and `dest` is one file: end it with a slash"
            ));
        }
        let mut all = Vec::new();
        for path in found {
            trusted(&directory.join(&path))?;
            let to = place(dest, path.file_name().unwrap_or_default(), places)?;
            its_own(&to)?;
            all.push((path, to));
        }
        let tree = Tree::open_among(&directory, places.written)?;
        for (path, to) in all {
            if !self.looked_at(&tree, &path, to, (*mode, owner)) {
                break;
            }
        }
        Ok(())
    }
}

/// The directory that a source is below, and the rest of it.
fn based<'a>(
    src: &'a str,
    source: Source,
    places: Places<'_>,
) -> Result<(PathBuf, &'a str), String> {
    if let Some(rest) = src.strip_prefix("~/") {
        let home = places.user_home.ok_or("this user has no home directory")?;
        return Ok((home.to_owned(), rest.trim_start_matches('/')));
    }
    if src.starts_with('/') {
        return Ok((PathBuf::from("/"), src.trim_start_matches('/')));
    }
    let base = match source {
        Source::Global => places.own,
        Source::Repository => places.top,
    };
    Ok((base.to_owned(), src))
}

/// Where a file of that name goes.
fn place(dest: &Destination, name: &OsStr, places: Places<'_>) -> Result<PathBuf, String> {
    let mut to = dest.place();
    if dest.is_directory {
        to.push(name);
    }
    if let Some(own) = RESERVED.iter().find(|own| to.starts_with(own)) {
        return Err(format!("`/{own}` is the sandbox's own"));
    }
    let workdir = places.workdir;
    let workdir = workdir.strip_prefix("/").unwrap_or(workdir);
    if to.starts_with(workdir) || workdir.starts_with(&to) {
        return Err(format!(
            "/{} has the repository's files: `--copy PATH` brings one that is not committed",
            workdir.display()
        ));
    }
    is_inside(&to, places)?;
    Ok(to)
}

/// Refuses a place that is this machine's: what is written there passes no gate.
fn is_inside(to: &Path, places: Places<'_>) -> Result<(), String> {
    let to = Path::new("/").join(to);
    match (places.mounted.iter()).find(|(target, _)| to.starts_with(target)) {
        None => Ok(()),
        Some((target, source)) => Err(format!(
            "{} is {} of this machine, mounted writable (`--mount`): nothing is synced there",
            shown(target),
            shown(source)
        )),
    }
}

/// A place inside, given below the root.
pub(super) fn shown_inside(path: &Path) -> String {
    format!("/{}", shown(path))
}
