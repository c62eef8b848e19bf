//! What is on a shelf and nowhere else, for whoever is about to remove it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::dev::{self, SHELF};
use super::jailed::run_limited;
use super::options::Caller;
use super::shelf;
use super::shelf_git::git_directory;
use super::unpushed::is_home;
use crate::git::discovery::Start;
use crate::git::private_clone::{self, PrivateRefs};
use crate::git::{ObjectFormat, Oid, Repository};
use crate::registry::{self, Record};
use crate::sandbox::native::jail::{JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource};
use crate::text::printable_bytes_line;
use crate::volumes::Volume;

/// How many changed files each working tree has, or the one that $2 names, as git there says.
const CHANGED: &str = r#"cd "$1/worktrees" 2>/dev/null || exit 0
for one in *; do
    [ -z "$2" ] || [ "$one" = "$2" ] || continue
    if [ -e "$one/.git" ]; then
        said=$(git -C "$one" -c core.fsmonitor=false --no-optional-locks status --porcelain) || exit 1
    else
        # What lay in the way of a branch, and was put aside.
        said=$(find "$one" -type f) || exit 1
    fi
    [ -z "$said" ] || echo "$(echo "$said" | wc -l) $one"
done"#;
/// What a sandbox has said to git there runs too, in so many bytes.
const MEMORY: u64 = 1 << 30;
/// Of what the jail says.
const MOST: usize = 64 << 10;
/// Where git writes what it looks through.
const LIMIT: Duration = Duration::from_secs(60);
/// For a look by the way.
const SOON: Duration = Duration::from_secs(10);
const BEGINS: &[u8] = b"refs/heads/";
/// What came from elsewhere, or is there for git's own sake.
const OURS: [&[u8]; 2] = [b"refs/remotes/", b"refs/cofferdam/"];
/// So many different commits are asked for.
const MOST_TIPS: usize = 200;

/// Branches and working trees of a shelf with something that is nowhere else, each in words that are safe for a terminal. The sandboxes'
/// word: names are read on this machine, and git looks in a jail. What cannot be told is one of them. Bounded: 60 s, and what git takes
/// to say of each branch whether it is home.
pub async fn only_there(caller: &Caller, volume: &Volume) -> Vec<String> {
    let files = volume.files();
    let mut found = Vec::new();
    if !files.join("repo").exists() {
        return found;
    }
    let repository = repository(caller, volume.repository.as_deref()).await;
    let format = (repository.as_ref()).map_or(ObjectFormat::Sha1, |one| one.format);
    match refs(&files, format) {
        Some(refs) => found.extend(not_home(refs, repository.as_ref(), &caller.cancel).await),
        None => found.push("branches that cannot be read".to_owned()),
    }
    match changed(&files, "", LIMIT, caller).await {
        Some(changed) => found.extend(changed.into_iter().map(|(name, count)| {
            let files = if count == 1 { "file" } else { "files" };
            format!("{count} uncommitted {files} in worktrees/{name}")
        })),
        None => found.push("working trees that git cannot look at".to_owned()),
    }
    found
}

/// How many files of the branch on which a sandbox lives are on the shelf in no commit. `None`: it lives in the checkout, or nobody can
/// tell. The sandboxes' word. Bounded: 10 s.
pub(super) async fn uncommitted_there(caller: &Caller, record: &Record) -> Option<usize> {
    let branch = record.shelf_branch()?;
    let files = shelf::of(&caller.home, record).ok()??.files();
    let directory = dev::worktree(branch);
    let name = directory.file_name()?.to_str()?;
    let changed = changed(&files, name, SOON, caller).await?;
    Some(changed.first().map_or(0, |(_, count)| *count))
}

/// What of these no reference of the host's has.
async fn not_home(
    refs: PrivateRefs,
    repository: Option<&Repository>,
    cancel: &CancellationToken,
) -> Vec<String> {
    let mut found = Vec::new();
    if !refs.odd.is_empty() {
        found.push("references that cannot be read".to_owned());
    }
    let ours = |name: &[u8]| OURS.iter().any(|ours| name.starts_with(ours));
    let named = refs.refs.into_iter().filter(|(name, _)| !ours(name));
    let mut known: BTreeMap<Oid, bool> = BTreeMap::new();
    for (name, tip) in named.chain(refs.others) {
        if known.len() >= MOST_TIPS {
            found.push("more than can be looked at".to_owned());
            break;
        }
        let is_known = match (known.get(&tip), repository) {
            (Some(known), _) => *known,
            (None, Some(repository)) => is_home(repository, &tip, cancel).await,
            (None, None) => false,
        };
        known.insert(tip, is_known);
        if !is_known {
            let name = name.strip_prefix(BEGINS).unwrap_or(&name);
            found.push(format!("commits of {}", printable_bytes_line(name)));
        }
    }
    found
}

async fn repository(caller: &Caller, top: Option<&Path>) -> Option<Repository> {
    let workspaces = registry::workspaces(&caller.home).ok()?;
    let start = Start::find(top?, &workspaces).ok()?;
    let user = caller.user_home.as_deref();
    let found = Repository::discover(&caller.git, &start, user, &caller.cancel).await;
    found.ok()
}

fn refs(files: &Path, format: ObjectFormat) -> Option<PrivateRefs> {
    let git = git_directory(files)?;
    private_clone::read_refs(&git.place(), format, None).ok()
}

/// The names are safe for a terminal.
async fn changed(
    files: &Path,
    only: &str,
    timeout: Duration,
    caller: &Caller,
) -> Option<Vec<(String, usize)>> {
    let request = |memory, begins| JailRequest {
        mounts: vec![Mount {
            source: MountSource::Path(files.to_owned()),
            target: SHELF.into(),
            access: Access::ReadOnly,
        }],
        arguments: [
            "/bin/sh",
            "-c",
            &format!("{begins}\n{CHANGED}"),
            "sh",
            SHELF,
            only,
        ]
        .map(OsString::from)
        .to_vec(),
        environment: BTreeMap::from([
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ]),
        directory: "/".into(),
        stdin: Vec::new(),
        stdout: JailOutput::Capture(MOST),
        limits: Limits {
            processes: Some(64),
            memory,
            ..Limits::default()
        },
        timeout,
    };
    let done = run_limited(Some(MEMORY), request, &caller.cancel)
        .await
        .ok()?;
    if !done.exit.success() {
        return None;
    }
    let lines = done.stdout.split(|&byte| byte == b'\n');
    let words = lines.filter_map(|line| {
        let at = line.iter().position(|&byte| byte == b' ')?;
        let count = str::from_utf8(&line[..at]).ok()?.parse().ok()?;
        Some((printable_bytes_line(&line[at + 1..]), count))
    });
    Some(words.collect())
}
