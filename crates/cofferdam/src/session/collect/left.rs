//! What lies in a sandbox's own files and in no commit, judged by what the layers say was changed (decision 0012). No index of
//! the sandbox's, no setting and no list of exclusions decides which files are looked at, and no file is looked at that nobody
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CollectError, Collector, unchanged};
use crate::fsx::{self, FileError};
use crate::git::private_clone::{self, INSIDE_GIT_DIR, INSIDE_VAULT, PrivateClone};
use crate::git::trees::{self, Upper};
use crate::git::{bare, copied, index};
use crate::registry::{Mode, Owned};
use crate::sandbox::native::jail::{self, JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource};
use crate::session::form::Form;
use crate::session::jailed::{ADDRESSES, READER};
use crate::session::layers;
use crate::session::mounts::jail_mounts;

/// Where a jail has the files.
pub(super) const FILES: &str = "/workspace/copy";
/// With more names a look at all files is no slower.
const MOST: usize = 20_000;
/// Bytes that git answers.
const ANSWER: usize = 32 << 20;
const LIMIT: Duration = Duration::from_mins(1);

/// In the reader's directory, each name with a zero byte behind it: what may differ from a commit, what of it is there, and where
/// directories are.
const NAMES: &str = "names";
const THERE: &str = "there";
const DIRECTORIES: &str = "directories";
/// There too: the sandbox's index without its flags, and for a commit what is gone and what is to be added.
const INDEX: &str = "index";
const GONE: &str = "gone";
const ADD: &str = "add";
const LEFT_OUT: &str = "left-out";
/// Where that directory is, in the state directory.
pub(super) const PLACE: &str = "reader";

/// What git found.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The index differs from the commit, or everything had to be looked at.
    pub staged: bool,
    /// What of the commit is not there as the commit has it; none where everything had to be looked at.
    pub changed: BTreeSet<PathBuf>,
    /// What is there and neither in the commit nor ignored.
    pub new: Vec<PathBuf>,
    /// What is in the commit, of all that may have been changed; none where everything had to be looked at.
    pub tracked: BTreeSet<PathBuf>,
    /// What of it was changed and is there.
    pub there: BTreeSet<PathBuf>,
}

impl Left {
    /// Where nobody could tell.
    pub(super) fn unknown() -> Self {
        Self {
            staged: true,
            ..Self::default()
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        !self.staged && self.changed.is_empty() && self.new.is_empty()
    }
}

/// Ends where the sandbox's own settings put something between a file and what git has of it: then git tells nothing about the
/// file. Settings may include a pipe, at which git would wait for ever.
macro_rules! filters {
    () => {
        "timeout 5 git config --get-regexp '^filter[.]' >/dev/null
    test $? = 1 || exit 2
    "
    };
}

/// Exits with 0 where it could tell. Answers: `staged` or nothing, what of the commit is not there as it has it, what of the names is in
/// the commit, what of the directories, which names are ignored; each list with an empty name behind it.
const COMPARE: &str = concat!(
    filters!(),
    "export LC_ALL=C
    work=$(mktemp -d) && head=$(git rev-parse --verify -q 'HEAD^{commit}') || exit 2
    # An index that nobody has touched since it was this commit is not read again.
    test \"$head\" = \"$CLEAN\" || git diff-index --cached --quiet --ita-visible-in-index --ignore-submodules=all \"$head\"
    case $? in 0) printf '\\0' ;; 1) printf 'staged\\0' ;; *) exit 2 ;; esac
    git diff-tree -r -z --name-only --no-renames \"$BASE\" \"$head\" >\"$work/moved\" || exit 2
    test \"$(wc -c <\"$work/moved\")\" -lt 1000000 || exit 2
    cat \"$READER/names\" \"$work/moved\" >\"$work/names\" && : >\"$work/tree\" || exit 2
    # Git compares each of these names with each entry of the directories that they are in.
    if test -s \"$work/names\"; then
        xargs -0 -n 1000 git ls-tree -r -z --full-tree \"$head\" -- <\"$work/names\" >\"$work/tree\" || exit 2
    fi
    export GIT_INDEX_FILE=\"$work/index\"
    git update-index -z --index-info <\"$work/tree\" || exit 2
    git update-index --ignore-submodules --refresh >/dev/null
    test $? -le 1 || exit 2
    git diff-files -z --name-only --no-renames --ignore-submodules=all && printf '\\0' || exit 2
    git ls-files -z && printf '\\0' || exit 2
    if test -s \"$READER/directories\"; then
        xargs -0 -n 1000 git ls-tree -z --full-tree \"$head\" -- <\"$READER/directories\" || exit 2
    fi
    printf '\\0'
    if test -s \"$READER/there\"; then
        unset GIT_LITERAL_PATHSPECS
        GIT_DIR=$READER git check-ignore -z --no-index --stdin <\"$READER/there\"
        test $? -le 1 || exit 2
    fi
    printf '\\0'"
);

/// Ends with what is wrong where there is a pipe at which git would wait for ever: it opens these by their names alone. Nothing
/// is looked for where the names of what was changed are known.
macro_rules! no_trap {
    () => {
        "trap=$(test -e \"$READER/gone\" || find . -name '.git*' -type p -print -quit)
    test -z \"$trap\" || { echo \"$trap is a pipe, at which git would wait for ever\" >&2; exit 3; }
    test -e \"$READER/gone\" || timeout 5 git config --list >/dev/null 2>&1 || {
        echo 'the git settings inside cannot be read: git config --list says there what is wrong' >&2; exit 3; }
    "
    };
}
pub(super) use no_trap;

/// The same of all files, where it cannot be told what was changed: what is there and new, behind `staged` where anything else is
/// not as in the commit. Its arguments say which paths.
const COMPARE_ALL: &str = concat!(
    filters!(),
    "export LC_ALL=C
    ",
    no_trap!(),
    "\
    unset GIT_LITERAL_PATHSPECS
    if test -e \"$READER/index\"; then export GIT_INDEX_FILE=\"$READER/index\"; fi
    found=$(git status --porcelain --untracked-files=no --ignore-submodules=all -- \"$@\" 2>&1) || exit 2
    test -n \"$found\" && printf 'staged\\0' || printf '\\0'
    # Where it may not look it says so.
    { said=$(git ls-files -z --others --exclude-per-directory=.gitignore \
        --exclude-from=\"$READER/info/exclude\" -- \"$@\" 2>&1 >&3); } 3>&1 && test -z \"$said\" || exit 2"
);

impl Collector<'_> {
    /// Of a sandbox with files of its own in which nothing runs. `None`: nobody can tell.
    pub(super) async fn left(&self, owned: &Owned) -> Option<Left> {
        let state = owned.directory();
        if owned.record.mode == Mode::Copy {
            self.put_reader(owned, None).ok()?;
            return self.compare_all(owned, |_| true).await;
        }
        if layers::is_untouched(state) {
            return Some(Left::default());
        }
        let stands = layers::stand(
            self.home,
            self.repo,
            &owned.record,
            self.events.callers(),
            self.cancel,
        );
        stands.await.ok()?;
        let mut upper = trees::names(&layers::upper(state), MOST);
        let untouched = copied::untouched(state, &owned.record.workspace(self.home));
        let is_work = |path: &PathBuf| !untouched.iter().any(|one| path.starts_with(one));
        if let Some(upper) = &mut upper {
            upper.files.retain(is_work);
        }
        self.put_reader(owned, upper.as_ref()).ok()?;
        // Git leaves that out and says nothing.
        if upper.is_none() && trees::is_too_deep(&layers::upper(state)) {
            return None;
        }
        if upper.as_ref().is_some_and(|upper| upper.trap.is_some()) {
            return None;
        }
        if let Some(upper) = upper
            && let Some(answer) = self.ask(owned, COMPARE, Vec::new()).await
            && let Some(left) = read(&answer, &upper)
        {
            return Some(left);
        }
        self.compare_all(owned, is_work).await
    }

    async fn compare_all(&self, owned: &Owned, is_work: impl Fn(&PathBuf) -> bool) -> Option<Left> {
        let is_put = self.put_index(owned, &BTreeSet::new()).ok()?;
        let clone = PrivateClone::at(owned.directory());
        if !is_put && clone.index().symlink_metadata().is_ok() {
            // Its flags would say what is looked at.
            return None;
        }
        let which = match owned.record.mode {
            Mode::Copy => {
                copied::but_untouched(owned.directory(), &owned.record.workspace(self.home))
            }
            _ => Vec::new(),
        };
        let answer = self.ask(owned, COMPARE_ALL, which).await?;
        let (staged, new) = split_once(&answer)?;
        let staged = !staged.is_empty();
        let mut new: Vec<PathBuf> = paths(new).map(Path::to_owned).collect();
        new.retain(is_work);
        Some(Left {
            // Whoever brings it out looks at everything too.
            staged: staged || !new.is_empty(),
            new,
            ..Left::default()
        })
    }

    /// A git directory of ours with the user's own rules and the names.
    fn put_reader(&self, owned: &Owned, upper: Option<&Upper>) -> Result<(), CollectError> {
        let reader = owned.directory().join(PLACE);
        bare::make(self.repo, &reader)?;
        let (state, mode) = (owned.directory(), owned.record.mode);
        private_clone::put_rules(&reader, &layers::rules(state, mode)?)?;
        if let Some(upper) = upper {
            let (files, others) = (upper.files.iter(), upper.others.iter());
            // A whiteout over what is hidden is ours.
            let hidden = hidden(owned);
            let others = others.filter(|path| !hidden.iter().any(|one| path.starts_with(one)));
            let put =
                |name: &str, list: Vec<u8>| fsx::write_with_mode(&reader.join(name), &list, 0o644);
            put(NAMES, list(files.clone().chain(others)))?;
            put(THERE, there(files))?;
            put(DIRECTORIES, list(upper.directories.iter()))?;
        }
        Ok(())
    }

    /// Beside it the sandbox's index, as far as it can be believed; `false`: it is none, or not one list of files.
    fn put_index(&self, owned: &Owned, changed: &BTreeSet<&Path>) -> Result<bool, FileError> {
        let clone = PrivateClone::at(owned.directory());
        let hidden = hidden(owned);
        // A sparse checkout is never laid over others, and its copy is as sparse.
        let files = owned.record.workspace(self.home);
        let sparse = (owned.record.mode == Mode::Copy).then_some(&*files);
        let format = self.repo.format;
        let index = index::without_flags(&clone.git_dir, format, &hidden, changed, sparse);
        let Some(index) = index else {
            return Ok(false);
        };
        let to = owned.directory().join(PLACE).join(INDEX);
        fsx::write_with_mode(&to, &index, 0o644).map(|()| true)
    }

    /// Beside what [`Self::left`] has put there, for a commit of it. Where nobody could tell, everything is added.
    pub(super) fn put_left(&self, owned: &Owned, left: Option<Left>) -> Result<(), FileError> {
        let left = left.unwrap_or_else(Left::unknown);
        self.put_index_of(owned, &left)?;
        put_lists(owned, &left)
    }

    /// The index that a commit of it begins with, where it begins with one.
    pub(super) fn put_index_of(&self, owned: &Owned, left: &Left) -> Result<(), FileError> {
        let changed = left.there.iter().chain(&left.new);
        self.put_index(owned, &changed.map(PathBuf::as_path).collect())?;
        Ok(())
    }

    /// Runs `script` over the files in a jail. `None`: it could not tell.
    async fn ask(&self, owned: &Owned, script: &str, which: Vec<OsString>) -> Option<Vec<u8>> {
        let source = match owned.record.mode {
            Mode::Layer => layers::look(owned.directory()).ok()?,
            _ => MountSource::Path(owned.record.workspace(self.home)),
        };
        let request = JailRequest {
            mounts: mounts(owned, source),
            arguments: [
                OsString::from("/bin/sh"),
                "-c".into(),
                format!("{ADDRESSES}; {script}").into(),
                "sh".into(),
            ]
            .into_iter()
            .chain(which)
            .collect(),
            environment: environment(owned)
                .into_iter()
                .chain([(
                    "CLEAN".into(),
                    unchanged::clean(owned).unwrap_or_default().into(),
                )])
                .collect(),
            directory: FILES.into(),
            stdin: Vec::new(),
            stdout: JailOutput::Capture(ANSWER),
            limits: limits(owned),
            timeout: LIMIT,
        };
        let done = jail::run(request, self.cancel).await.ok()?;
        done.exit.success().then_some(done.stdout)
    }
}

/// Which paths a commit of it is made of.
pub(super) fn put_lists(owned: &Owned, left: &Left) -> Result<(), FileError> {
    let reader = owned.directory().join(PLACE);
    // Git's name for a repository in it.
    let repository = |path: &PathBuf| match (path.ends_with(".git"), path.parent()) {
        (true, Some(repository)) => Some(repository.to_owned()),
        _ => None,
    };
    let repositories: BTreeSet<PathBuf> = left.new.iter().filter_map(repository).collect();
    // What is below one is that one's: git would say nothing of either.
    let is_below = |path: &Path| {
        path.ancestors()
            .skip(1)
            .any(|above| repositories.contains(above))
    };
    let new = left.new.iter().filter(|path| repository(path).is_none());
    let mut add: BTreeSet<PathBuf> = new.chain(&repositories).cloned().collect();
    add.retain(|path| !is_below(path));
    if !left.staged {
        // The index has what the commit has, so git knows each of them.
        let gone = left.tracked.difference(&left.there);
        fsx::write_with_mode(&reader.join(GONE), &list(gone), 0o644)?;
        add.extend(left.there.intersection(&left.changed).cloned());
    }
    fsx::write_with_mode(&reader.join(ADD), &list(add.iter()), 0o644)
}

/// Puts the paths that are to be in no commit beside what [`Collector::left`] has put there.
pub(super) fn put_left_out(owned: &Owned, paths: &[PathBuf]) -> Result<(), FileError> {
    let reader = owned.directory().join(PLACE);
    fsx::write_with_mode(&reader.join(LEFT_OUT), &list(paths.iter()), 0o644)
}

/// Of a jail in which git runs what the sandbox's settings say (filters): as the sandbox had them.
pub(super) fn limits(owned: &Owned) -> Limits {
    let form = Form::read(owned.directory());
    Limits {
        processes: Some(256),
        memory: form.ok().and_then(|form| form.limits().memory),
        ..Limits::default()
    }
}

/// The sandbox's git directory and files, and the reader, all read-only.
pub(super) fn mounts(owned: &Owned, source: MountSource) -> Vec<Mount> {
    let mut mounts = jail_mounts(owned.directory());
    let read_only = |source, target: &str| Mount {
        source,
        target: target.into(),
        access: Access::ReadOnly,
    };
    mounts.push(read_only(source, FILES));
    let reader = owned.directory().join(PLACE);
    mounts.push(read_only(MountSource::Path(reader), READER));
    mounts
}

/// Its settings say what a file's content is in git (filters, line ends), and not which files are looked at.
pub(super) fn environment(owned: &Owned) -> BTreeMap<OsString, OsString> {
    let settings = [
        ("core.fsmonitor", "false"),
        ("core.untrackedCache", "false"),
        ("core.sparseCheckout", "false"),
        ("core.fileMode", "true"),
        ("core.symlinks", "true"),
        ("core.ignoreCase", "false"),
        ("core.excludesFile", "/dev/null"),
        ("core.attributesFile", "/dev/null"),
        ("core.protectHFS", "true"),
        ("core.protectNTFS", "true"),
        ("core.quotePath", "true"),
        ("core.splitIndex", "false"),
        ("core.hooksPath", "/dev/null"),
        // What a commit has is in the commit.
        ("core.commitGraph", "false"),
    ];
    let objects = format!("{INSIDE_GIT_DIR}/objects");
    let count = settings.len().to_string();
    let mut environment: BTreeMap<OsString, OsString> = [
        ("GIT_DIR", INSIDE_GIT_DIR),
        ("GIT_WORK_TREE", FILES),
        ("GIT_OBJECT_DIRECTORY", &objects),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", INSIDE_VAULT),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_LITERAL_PATHSPECS", "1"),
        ("GIT_CONFIG_COUNT", &count),
        ("READER", READER),
        ("BASE", owned.record.base.as_str()),
    ]
    .map(|(key, value)| (key.into(), value.into()))
    .into();
    for (number, (key, value)) in settings.into_iter().enumerate() {
        environment.insert(format!("GIT_CONFIG_KEY_{number}").into(), key.into());
        environment.insert(format!("GIT_CONFIG_VALUE_{number}").into(), value.into());
    }
    environment
}

fn hidden(owned: &Owned) -> Vec<PathBuf> {
    let hidden = owned.record.hidden.iter();
    hidden.map(|path| path.0.clone()).collect()
}

/// Each with a zero byte behind it.
fn list<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<u8> {
    paths
        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
        .collect()
}

/// `git check-ignore` takes no path literally; with this before it each stands for itself.
const HERE: &str = "./";

fn there<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Vec<u8> {
    files
        .flat_map(|path| [HERE.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat())
        .collect()
}

fn paths(list: &[u8]) -> impl Iterator<Item = &Path> {
    let names = list
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    names.map(|name| Path::new(OsStr::from_bytes(name)))
}

fn split_once(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// A list up to the empty name at its end, and what comes behind.
fn take_list(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(rest) = bytes.strip_prefix(b"\0") {
        return Some((b"", rest));
    }
    let end = bytes.windows(2).position(|pair| pair == b"\0\0")?;
    Some((&bytes[..=end], &bytes[end + 2..]))
}

/// What [`COMPARE`] answered.
fn read(answer: &[u8], upper: &Upper) -> Option<Left> {
    let (staged, rest) = split_once(answer)?;
    let (changed, rest) = take_list(rest)?;
    let (tracked, rest) = take_list(rest)?;
    let (directories, rest) = take_list(rest)?;
    let (ignored, rest) = take_list(rest)?;
    if !rest.is_empty() {
        return None;
    }
    let tracked: BTreeSet<PathBuf> = paths(tracked).map(Path::to_owned).collect();
    let ignored: BTreeSet<&Path> = paths(ignored)
        .filter_map(|path| path.strip_prefix(".").ok())
        .collect();
    // `160000 commit <id>` TAB path: what lies in a submodule is not this repository's.
    let submodules: Vec<&Path> = (directories.split(|&byte| byte == 0))
        .filter(|line| line.starts_with(b"160000 "))
        .filter_map(|line| line.splitn(2, |&byte| byte == b'\t').nth(1))
        .map(|name| Path::new(OsStr::from_bytes(name)))
        .collect();
    let is_new = |path: &&PathBuf| {
        !tracked.contains(*path)
            && !ignored.contains(path.as_path())
            && !submodules.iter().any(|one| path.starts_with(one))
    };
    Some(Left {
        staged: !staged.is_empty(),
        changed: paths(changed).map(Path::to_owned).collect(),
        new: upper.files.iter().filter(is_new).cloned().collect(),
        there: (upper.files.iter())
            .filter(|path| tracked.contains(*path))
            .cloned()
            .collect(),
        tracked,
    })
}
