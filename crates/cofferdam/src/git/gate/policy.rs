//! What the new commits may change: judged path by path, then against the base and the objects
//! where that needs a look.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;

use tokio_util::sync::CancellationToken;

use super::beside;
use super::names::{self, fold_path};
use super::objects::{lines, objects, odd, parse_batch};
use super::quarantine::Quarantine;
use super::verdict::{Changes, MOST, Verdict, path_of, shown};
use super::walk::Entry;
use super::{Gate, GateError, Refusal, Violation};
use crate::git::Oid;
use crate::process::Input;

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_000;
const GITLINK: u32 = 0o160_000;
/// A longer symlink target cannot be made by any Linux system.
const TARGET: u64 = 4095;
/// Bytes of all new symlinks' targets.
const TARGETS: u64 = 32 << 20;
/// Bytes of paths that one call of git takes as arguments: the kernel's bound is 2 MiB.
const ARGUMENTS: usize = 512 << 10;

/// The claimed tip must be a commit that the pack or the exported history holds.
pub(super) async fn check_tip(
    gate: &Gate,
    quarantine: &Quarantine,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<(), GateError> {
    let found = objects(gate, quarantine, std::iter::once(tip), cancel).await?;
    match found.get(tip) {
        Some((kind, _)) if kind == "commit" => Ok(()),
        _ => Err(GateError::refused(Refusal::TipMissing { tip: tip.clone() })),
    }
}

/// A suspicion that the base's own entry at the path can clear: a diff against an old parent shows
/// also what the base has itself, and what the user committed is theirs.
#[derive(Debug)]
struct Suspect<'a> {
    path: &'a [u8],
    entry: Option<&'a Entry>,
    what: String,
    /// Whether the mere existence of the path in the base clears it.
    by_name: bool,
}

pub(super) async fn judge(
    gate: &Gate,
    quarantine: &Quarantine,
    changes: &Changes,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<Verdict, GateError> {
    let fold = |paths: &[String]| -> Vec<String> {
        let paths = paths.iter();
        paths.map(|path| fold_path(path.as_bytes())).collect()
    };
    let protected = fold(&gate.rules.protected);
    let hidden = fold(&gate.rules.hidden);
    let mut verdict = Verdict::default();
    let mut suspects = Vec::new();
    let mut blobs: BTreeSet<&Oid> = BTreeSet::new();
    let mut links: Vec<(&[u8], &Entry)> = Vec::new();
    for (path, states) in changes {
        let folded = fold_path(path);
        look_at_name(path, &folded, states, (&protected, &hidden), &mut suspects);
        if names::executes(&folded) {
            verdict.executes.push(shown(path));
        }
        if names::misleading(path) {
            verdict.notes.add(|| {
                let path = shown(path);
                format!("`{path}` has a name with invisible or control characters")
            });
        }
        for entry in states.iter().flatten() {
            match entry.mode {
                FILE | PROGRAM => {
                    blobs.insert(&entry.id);
                }
                SYMLINK => {
                    blobs.insert(&entry.id);
                    links.push((path, entry));
                }
                GITLINK => suspects.push(Suspect {
                    path,
                    entry: Some(entry),
                    what: "it is a new or moved submodule".into(),
                    by_name: false,
                }),
                mode => suspects.push(Suspect {
                    path,
                    entry: Some(entry),
                    what: format!("mode {mode:o} is not allowed"),
                    by_name: false,
                }),
            }
        }
    }
    // Two looks at the objects that do not need each other's answers.
    tokio::try_join!(
        refuse(gate, quarantine, changes, (blobs, links), suspects, cancel),
        beside::judge(gate, quarantine, changes, tip, &mut verdict, cancel)
    )?;
    Ok(verdict)
}

/// An error where a suspicion is confirmed, among them those that only the objects can raise.
async fn refuse<'a>(
    gate: &Gate,
    quarantine: &Quarantine,
    changes: &'a Changes,
    (blobs, links): (BTreeSet<&'a Oid>, Vec<(&'a [u8], &'a Entry)>),
    mut suspects: Vec<Suspect<'a>>,
    cancel: &CancellationToken,
) -> Result<(), GateError> {
    let sizes = objects(gate, quarantine, blobs.into_iter(), cancel).await?;
    for (path, states) in changes {
        for entry in states.iter().flatten() {
            if let Some((_, size)) = sizes.get(&entry.id)
                && *size > gate.limits.blob_bytes
            {
                let what = format!("it is larger than {} bytes", gate.limits.blob_bytes);
                suspects.push(Suspect {
                    path,
                    entry: Some(entry),
                    what,
                    by_name: false,
                });
            }
        }
    }
    look_at_links(gate, quarantine, &links, &sizes, &mut suspects, cancel).await?;
    let violations = confirm(gate, quarantine, suspects, cancel).await?;
    if !violations.is_empty() {
        return Err(GateError::refused(Refusal::Tree(violations)));
    }
    Ok(())
}

fn look_at_name<'a>(
    path: &'a [u8],
    folded: &str,
    states: &'a [Option<Entry>],
    (protected, hidden): (&[String], &[String]),
    suspects: &mut Vec<Suspect<'a>>,
) {
    if let Some(what) = names::forbidden(path)
        && let Some(entry) = states.iter().flatten().next()
    {
        suspects.push(Suspect {
            path,
            entry: Some(entry),
            what: what.into(),
            by_name: true,
        });
    }
    let what = if names::is_gitmodules(folded) {
        "changes of `.gitmodules` do not leave a sandbox"
    } else if names::is_protected(folded, protected) {
        "it is protected"
    } else if names::is_protected(folded, hidden) {
        "it was hidden from the sandbox"
    } else if names::holds(folded, hidden) {
        "what lies below it was hidden from the sandbox"
    } else {
        return;
    };
    for state in states {
        suspects.push(Suspect {
            path,
            entry: state.as_ref(),
            what: what.into(),
            by_name: false,
        });
    }
}

async fn look_at_links<'a>(
    gate: &Gate,
    quarantine: &Quarantine,
    links: &[(&'a [u8], &'a Entry)],
    sizes: &HashMap<Oid, (String, u64)>,
    suspects: &mut Vec<Suspect<'a>>,
    cancel: &CancellationToken,
) -> Result<(), GateError> {
    let mut wanted: BTreeSet<&Oid> = BTreeSet::new();
    let mut bytes = 0;
    for (path, entry) in links {
        let size = sizes.get(&entry.id).map(|(_, size)| *size);
        if let Some(size) = size.filter(|size| *size <= TARGET) {
            if wanted.insert(&entry.id) {
                bytes += size;
            }
        } else {
            let what = format!("a symlink's target is longer than {TARGET} bytes");
            suspects.push(Suspect {
                path,
                entry: Some(entry),
                what,
                by_name: false,
            });
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    if bytes > TARGETS {
        let (what, limit) = ("bytes of symlinks", TARGETS);
        return Err(GateError::refused(Refusal::TooMuch { what, limit }));
    }
    let done = quarantine
        .command(&gate.repo)
        .args(["cat-file", "--batch", "--buffer"])
        .input(Input::Bytes(lines(wanted.iter().copied())))
        .limit(gate.limits.time)
        .run(cancel)
        .await?;
    let targets =
        parse_batch(&done.stdout).ok_or_else(|| odd("cat-file", "objects of another form"))?;
    for (path, entry) in links {
        let Some(target) = targets.get(&entry.id) else {
            continue;
        };
        if let Some(why) = names::bad_symlink(path, target) {
            let what = format!("it is a symlink to `{}`: {why}", shown(target));
            suspects.push(Suspect {
                path,
                entry: Some(entry),
                what,
                by_name: false,
            });
        }
    }
    Ok(())
}

/// Drops the suspects that are exactly as in the base, or in another commit that the sandbox was given: but for what that one has from
/// before where another one of them has changed it.
async fn confirm(
    gate: &Gate,
    quarantine: &Quarantine,
    suspects: Vec<Suspect<'_>>,
    cancel: &CancellationToken,
) -> Result<Vec<Violation>, GateError> {
    let mut violations = Vec::new();
    for some in in_calls(&suspects) {
        let given = Given::read(gate, quarantine, some, cancel).await?;
        for one in some {
            let cleared = given.newest(one.path).any(|own| {
                if one.by_name {
                    own.is_some()
                } else {
                    own == one.entry
                }
            });
            let repeated = violations.last().is_some_and(|last: &Violation| {
                last.what == one.what && last.path.as_os_str().as_bytes() == one.path
            });
            if !cleared && !repeated {
                violations.push(Violation {
                    path: path_of(one.path),
                    what: one.what.clone(),
                });
            }
        }
        if violations.len() >= MOST {
            break;
        }
    }
    Ok(violations)
}

/// What the commits that the sandbox was given have at some paths.
struct Given {
    entries: Vec<Entries>,
    /// Of each two of them, what was there before they parted; nothing where they share no commit.
    before: Vec<(usize, usize, Option<Entries>)>,
}

type Entries = HashMap<Vec<u8>, Entry>;

impl Given {
    async fn read(
        gate: &Gate,
        quarantine: &Quarantine,
        some: &[Suspect<'_>],
        cancel: &CancellationToken,
    ) -> Result<Self, GateError> {
        let paths = || some.iter().map(|one| one.path);
        let commits: Vec<&Oid> = gate.given().collect();
        let (mut all, mut before) = (Vec::new(), Vec::new());
        for (number, commit) in commits.iter().enumerate() {
            all.push(entries(gate, quarantine, commit, paths(), cancel).await?);
            for (other, earlier) in commits[..number].iter().enumerate() {
                let done = quarantine
                    .command(&gate.repo)
                    .args(["merge-base", commit.as_str(), earlier.as_str()])
                    .answers(&[1])
                    .run(cancel)
                    .await?;
                let text = String::from_utf8_lossy(&done.stdout);
                let shared = match text.trim_end().parse::<Oid>() {
                    Ok(shared) => Some(entries(gate, quarantine, &shared, paths(), cancel).await?),
                    Err(_) => None,
                };
                before.push((number, other, shared));
            }
        }
        Ok(Self {
            entries: all,
            before,
        })
    }

    /// What is there in those that have not only what was there before another one changed it.
    fn newest<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = Option<&'a Entry>> {
        let at = move |number: usize| self.entries[number].get(path);
        let is_old = move |number: usize| {
            self.before.iter().any(|(one, two, shared)| {
                let other = match number {
                    number if number == *one => *two,
                    number if number == *two => *one,
                    _ => return false,
                };
                let shared = shared.as_ref().map(|entries| entries.get(path));
                shared == Some(at(number)) && at(other) != at(number)
            })
        };
        (0..self.entries.len())
            .filter(move |number| !is_old(*number))
            .map(at)
    }
}

/// Cuts the suspects so that the paths of each part fit into the arguments of one call.
fn in_calls<'a, 'b>(mut rest: &'b [Suspect<'a>]) -> impl Iterator<Item = &'b [Suspect<'a>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(200).take_while(|one| {
            bytes += one.path.len() + 16;
            bytes <= ARGUMENTS
        });
        // One path alone always fits: the walk cuts longer ones.
        let count = fits.count().max(1).min(rest.len());
        let (some, later) = rest.split_at(count);
        rest = later;
        (!some.is_empty()).then_some(some)
    })
}

async fn entries(
    gate: &Gate,
    quarantine: &Quarantine,
    commit: &Oid,
    paths: impl Iterator<Item = &[u8]>,
    cancel: &CancellationToken,
) -> Result<Entries, GateError> {
    // An empty path or one that ends in `/` would mean something else to `ls-tree`.
    let paths: BTreeSet<&[u8]> = paths
        .filter(|path| !path.is_empty() && !path.ends_with(b"/"))
        .collect();
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let done = quarantine
        .command(&gate.repo)
        .args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"])
        .args(paths.into_iter().map(std::ffi::OsStr::from_bytes))
        .run(cancel)
        .await?;
    let mut found = HashMap::new();
    for record in done
        .stdout
        .split(|&b| b == 0)
        .filter(|record| !record.is_empty())
    {
        let tab = record
            .iter()
            .position(|&b| b == b'\t')
            .ok_or_else(|| odd("ls-tree", "a line without a tab"))?;
        let mut words = record[..tab].split(|&b| b == b' ');
        let text = |bytes: Option<&[u8]>| {
            bytes
                .and_then(|b| std::str::from_utf8(b).ok())
                .map(str::to_owned)
        };
        let mode = text(words.next()).and_then(|mode| u32::from_str_radix(&mode, 8).ok());
        let id = text(words.nth(1)).and_then(|id| id.parse().ok());
        let (Some(mode), Some(id)) = (mode, id) else {
            return Err(odd("ls-tree", "a line of another form"));
        };
        found.insert(record[tab + 1..].to_vec(), Entry { mode, id });
    }
    Ok(found)
}
