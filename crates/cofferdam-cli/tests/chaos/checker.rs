//! What there was before a scenario, compared with what there is after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::trees;

/// Files that the agent and `cofferdam` may make or change in the checkout.
const THEIRS: [&str; 3] = ["agent", ".cofferdam", ".git"];

/// Everything that is the user's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// Every file of the checkout but the agent's; links by their target.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The user's entries of the index.
    index: String,
    /// What the user has staged.
    staged: String,
    /// Symbolic HEAD.
    head: String,
    /// References that no sandbox owns, without the landing branch.
    refs: BTreeMap<String, String>,
    config: Vec<u8>,
}

impl User {
    pub(crate) fn of(environment: &Environment) -> Self {
        let mut files = BTreeMap::new();
        collect(&environment.repo(), Path::new(""), &mut files);
        let others = ["--", ".", ":!agent"];
        let mut ls = vec!["ls-files", "-s"];
        ls.extend(others);
        let mut staged = vec!["diff", "--cached", "--raw", "--no-abbrev"];
        staged.extend(others);
        Self {
            files,
            index: environment.git(&ls),
            staged: environment.git(&staged),
            head: environment
                .try_git(&["symbolic-ref", "HEAD"])
                .unwrap_or_default(),
            refs: refs(environment)
                .into_iter()
                .filter(|(name, _)| is_the_users(name))
                .collect(),
            config: fs::read(environment.repo().join(".git/config")).unwrap(),
        }
    }
}

impl User {
    /// Whether each file, and the index, is as in one of two states or the beginning of it, and the rest as in both.
    pub(crate) fn is_between(&self, one: &Self, other: &Self) -> bool {
        let paths = [self, one, other].map(|user| user.files.keys());
        let mut paths = paths.into_iter().flatten();
        let either = |path: &PathBuf| {
            let now = self.files.get(path);
            let is_cut_off = |whole: Option<&Vec<u8>>| {
                now.zip(whole)
                    .is_some_and(|(now, whole)| whole.starts_with(now))
            };
            let of = [one, other].map(|user| user.files.get(path));
            of.contains(&now) || of.into_iter().any(is_cut_off)
        };
        let rest = |user: &Self| (user.head.clone(), user.refs.clone(), user.config.clone());
        paths.all(either)
            && [one, other]
                .iter()
                .any(|user| user.index == self.index && user.staged == self.staged)
            && rest(self) == rest(one)
    }
}

fn is_the_users(reference: &str) -> bool {
    !["refs/cofferdam/", "refs/heads/cofferdam/"]
        .iter()
        .any(|ours| reference.starts_with(ours))
        && !["refs/heads/main", "refs/heads/feature"].contains(&reference)
}

fn collect(top: &Path, below: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(top.join(below)).unwrap().flatten() {
        let path = below.join(entry.file_name());
        if THEIRS.iter().any(|theirs| path == Path::new(theirs)) {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            // Also an empty directory would be something that was left.
            files.insert(path.clone(), b"directory".to_vec());
            collect(top, &path, files);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            files.insert(path, target.into_os_string().into_encoded_bytes());
        } else {
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

pub(crate) fn refs(environment: &Environment) -> BTreeMap<String, String> {
    let text = environment.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, id)| (name.to_owned(), id.to_owned()))
        .collect()
}

/// Commits that the agent has made, as the private clones and the host's references have them.
#[derive(Debug)]
pub(crate) struct Work(BTreeSet<String>);

impl Work {
    /// To be taken before anything cleans up.
    pub(crate) fn of(environment: &Environment) -> Self {
        let mut found = BTreeSet::new();
        for state in environment.states() {
            tips(&state.join("git/refs/heads"), &mut found);
            let head = fs::read_to_string(state.join("git/HEAD")).unwrap_or_default();
            found.extend(Some(head.trim().to_owned()).filter(|head| head.len() == 40));
        }
        found.extend(refs(environment).into_values());
        Self(found)
    }

    /// The same while a sandbox that has some of it lives on.
    #[track_caller]
    pub(crate) fn assert_kept_or_inside(&self, environment: &Environment, what: &str) {
        let inside = Self::of(environment).0;
        let gone = self.0.difference(&inside).cloned().collect();
        Self(gone).assert_kept(environment, what);
    }

    /// Nothing of it is lost: each commit is reachable from a reference.
    #[track_caller]
    pub(crate) fn assert_kept(&self, environment: &Environment, what: &str) {
        for commit in &self.0 {
            let holders = environment
                .try_git(&[
                    "for-each-ref",
                    "--count=1",
                    "--format=%(refname)",
                    "--contains",
                    commit,
                ])
                .unwrap_or_default();
            // A reference to something that is no commit holds itself.
            let named = refs(environment).values().any(|id| id == commit);
            assert!(
                named || !holders.is_empty() || is_a_record_of_what_is_there(environment, commit),
                "{what}: {commit} is lost: {}; there are {:#?}",
                environment
                    .try_git(&["show", "--format=%P %s", "--raw", commit])
                    .unwrap_or_default(),
                refs(environment)
            );
        }
    }
}

/// Whether it says what was uncommitted before a run, and all of that lies in the checkout as it was: such a
/// record goes with its run.
fn is_a_record_of_what_is_there(environment: &Environment, commit: &str) -> bool {
    let git = |words: &[&str]| environment.try_git(words).unwrap_or_default();
    let subject = git(&["log", "-1", "--format=%s", commit]);
    let changed = git(&[
        "diff-tree",
        "-r",
        "--no-renames",
        &format!("{commit}^"),
        commit,
    ]);
    // `:<mode> <mode> <id> <id> <status>\t<path>`
    let as_recorded = |line: &str| {
        let (fields, path) = line.split_once('\t').unwrap();
        let id = fields.split(' ').nth(3).unwrap();
        match environment.path("repo").join(path).symlink_metadata() {
            Err(_) => id.bytes().all(|digit| digit == b'0'),
            Ok(_) => git(&["hash-object", "--no-filters", "--", path]).trim() == id,
        }
    };
    subject.contains(": working state before")
        && !changed.is_empty()
        && changed.lines().all(as_recorded)
}

/// What git itself takes for a reference below `directory`: a file that was half written when its
/// writer died has a name that no reference can have.
fn tips(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_encoded_bytes();
        if path.is_dir() {
            tips(&path, found);
        } else if !name.starts_with(b".") && !name.ends_with(b".lock") {
            found.insert(fs::read_to_string(&path).unwrap().trim().to_owned());
        }
    }
}

/// The subjects of the agent's commits that any reference holds.
pub(crate) fn subjects(environment: &Environment) -> BTreeSet<String> {
    let text = environment.git(&["log", "--all", "--format=%s"]);
    text.lines()
        .filter(|line| line.starts_with('w') && line.len() == 2)
        .map(str::to_owned)
        .collect()
}

/// The repository is whole and nothing of a half-done operation lies in it.
#[track_caller]
pub(crate) fn assert_sound(environment: &Environment, what: &str) {
    if let Err(error) = environment.try_git(&["fsck", "--full", "--strict", "--no-dangling"]) {
        panic!("{what}: fsck: {error}");
    }
    let mut left = Vec::new();
    walk(&environment.repo().join(".git"), &mut |path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Ours to say that a sandbox is at work: empty, held by flock, and it stays.
        let is_ours = ["cofferdam.lock", "cofferdam-beside.lock"]
            .iter()
            .any(|lock| name == *lock);
        let stays = is_ours && path.metadata().is_ok_and(|found| found.len() == 0);
        let is_lock = path
            .extension()
            .is_some_and(|extension| extension == "lock");
        if (is_lock && !stays)
            || ["MERGE_HEAD", "CHERRY_PICK_HEAD", "AUTO_MERGE"].contains(&name.as_str())
            || name.starts_with("incoming-")
            || (name.starts_with("cofferdam-") && !stays && path.is_file())
            // A git that is ended while it writes a loose object leaves `tmp_obj_…`, whoever ends it. Nobody can tell
            // one of ours from one that a git of the user's is writing: it is git's own gc that clears them.
            || (name.starts_with("tmp_") && !name.starts_with("tmp_obj_"))
        {
            left.push(path.to_owned());
        }
    });
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}

fn walk(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        visit(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}

/// No mount, namespace or control group of this environment's sandboxes exists.
#[track_caller]
pub(crate) fn assert_nothing_alive(environment: &Environment, ids: &BTreeSet<String>, what: &str) {
    if std::env::var_os("COFFERDAM_CHAOS_APART").is_some() {
        // The place itself is a mount there; processes are the keeper's matter.
        return;
    }
    let name = environment
        .path("")
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&name), "{what}: a mount is left");
    // Every mount namespace that is alive is that of a process: none of them shows our files.
    let began = std::time::Instant::now();
    loop {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            if fs::read_to_string(path.join("mountinfo")).is_ok_and(|text| text.contains(&name)) {
                let line = fs::read(path.join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        if found.is_empty() {
            break;
        }
        assert!(
            began.elapsed() < crate::keeper::AFTERLIFE,
            "{what}: still mounted in {found:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for id in ids {
        assert_eq!(control_groups(id), Vec::<PathBuf>::new(), "{what}");
    }
}

pub(crate) fn control_groups(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk_groups(Path::new("/sys/fs/cgroup"), 4, &mut |path| {
        if path.file_name().is_some_and(|name| name == id) {
            found.push(path.to_owned());
        }
    });
    found
}

fn walk_groups(directory: &Path, depth: u32, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path());
            if depth > 0 {
                walk_groups(&entry.path(), depth - 1, visit);
            }
        }
    }
}

/// The ids of this environment's sandboxes, by their state directories and references.
pub(crate) fn ids(environment: &Environment) -> BTreeSet<String> {
    let states = environment.states();
    let from_state = states
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    let refs = refs(environment);
    let from_refs = refs
        .keys()
        .filter_map(|name| {
            Some(
                name.strip_prefix("refs/cofferdam/")?
                    .split('/')
                    .next()?
                    .to_owned(),
            )
        })
        .filter(|id| id != "trash");
    from_state.chain(from_refs).collect()
}

/// After a violent end: `list` shows what there is, `gc` cleans it, the user lost nothing and the
/// agent's commits are named, and a second `gc` finds nothing to do.
#[track_caller]
pub(crate) fn assert_recovers(environment: &Environment, before: &User, work: &Work, what: &str) {
    let ids = ids(environment);
    let listed = environment.list();
    for state in environment.states() {
        let id = state.file_name().unwrap().to_string_lossy().into_owned();
        if state.join("record.json").exists() {
            assert!(
                listed.iter().any(|one| one["id"] == id.as_str()),
                "{what}: `list` hides {id}"
            );
        }
    }
    let said = gc(environment, what);
    work.assert_kept(environment, what);
    assert_clean(environment, before, what, &said);
    assert_nothing_alive(environment, &ids, what);
    let refs_then = refs(environment);
    let states_then = environment.states();
    let again = gc(environment, what);
    assert_eq!(again, "nothing to clean up\n", "{what}: after {said}");
    assert_eq!(refs(environment), refs_then, "{what}");
    assert_eq!(environment.states(), states_then, "{what}");
}

/// Runs `gc`, which must succeed.
#[track_caller]
pub(crate) fn gc(environment: &Environment, what: &str) -> String {
    let done = environment.cofferdam(&["gc"]);
    assert_eq!(done.status, 0, "{what}: gc: {}{}", done.stdout, done.stderr);
    done.stdout
}

/// The checkout and the repository after a cleaned-up run.
#[track_caller]
pub(crate) fn assert_clean(environment: &Environment, before: &User, what: &str, said: &str) {
    assert_sound(environment, what);
    trees::assert_whole(environment, what);
    let after = User::of(environment);
    assert_eq!(&after, before, "{what}: {said}");
    for one in environment.list() {
        assert_eq!(one["interrupted"], false, "{what}: {one}");
    }
    // Where the agent's files are in the checkout, git agrees with them.
    let status = environment.git(&["status", "--porcelain", "--", "agent"]);
    let landed = environment
        .try_git(&["cat-file", "-e", "HEAD:agent/3.txt"])
        .is_ok();
    if landed {
        assert_eq!(status, "", "{what}: {said}");
    }
    // Files of a sandbox's own are in none.
    let preserved = environment
        .list()
        .iter()
        .filter(|one| one["changes"] == true && one["mode"] == "bind")
        .count();
    let worktrees = environment.git(&["worktree", "list", "--porcelain"]);
    let linked = worktrees.matches("worktree ").count() - 1;
    let on_disk = fs::read_dir(environment.repo().join(".cofferdam/worktrees"))
        .map(|entries| {
            entries
                .flatten()
                .filter(|entry| entry.path().is_dir())
                .count()
        })
        .unwrap_or_default();
    assert_eq!(
        (linked, on_disk),
        (preserved, preserved),
        "{what}: {worktrees}"
    );
}
