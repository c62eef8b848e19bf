//! What lies in a sandbox's files and in no commit, as a commit: made by the sandbox's own git, where nothing of the host's
//! can be reached, and let in by the gate as every other. No branch has it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::left::{self, Left, no_trap};
use super::packing::Received;
use super::{CollectError, Collector, Source};
use crate::git::private_clone::{INSIDE_GIT_DIR, PrivateClone};
use crate::git::refs::{self, Own, Transaction};
use crate::git::{Oid, bare, copied};
use crate::registry::{Mode, Owned};
use crate::sandbox::native::jail::{self, JailOutcome, JailOutput, JailRequest};
use crate::sandbox::{Access, MountSource};
use crate::session::jailed::ADDRESSES;
use crate::session::layers;

/// A script that makes the commit. `$before`: what comes first. `$index`, `$add`: how the file `$index` becomes the one to begin
/// with, and what adds the work to it. `$same`: what is done where the commit has it all; `$make`: prints the commit of `$tree`.
macro_rules! commit {
    ($before:expr, $index:expr, $add:expr, $same:literal, $make:literal) => {
        concat!(
            "export LC_ALL=C
    said=$(mktemp) || exit 1
    more=
    ",
            $before,
            "
    index=$(mktemp) || exit 1
    ",
            $index,
            " || exit 1
    export GIT_INDEX_FILE=\"$index\"
    export GIT_AUTHOR_NAME=Cofferdam GIT_AUTHOR_EMAIL=agent@cofferdam.invalid
    export GIT_COMMITTER_NAME=Cofferdam GIT_COMMITTER_EMAIL=agent@cofferdam.invalid
    GIT_AUTHOR_DATE=$(git log -1 --no-mailmap --format=%cI HEAD) && GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE || exit 1
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
    failed=0 fatal=
    { ",
            $add,
            "; } >\"$said\" 2>&1
    cat \"$said\" >&2
    test -z \"$fatal\" || exit 1
    unread=$(grep -E 'Permission denied|could not open directory|can only add regular files' \"$said\" | sort -u | wc -l)
    if test $failed != 0 || git config --get-regexp '^filter[.]' >/dev/null; then
        test \"$unread\" -gt 0 || unread=1
    fi
    tree=$(git write-tree) && if test \"$tree\" = \"$(git rev-parse 'HEAD^{tree}')\"; then commit=-; ",
            $same,
            "
    else commit=$(",
            $make,
            "); fi && echo \"$commit\" $unread $more
    code=$?
    rm -f \"$index\" \"$index.staged\" \"$index.all\" \"$said\"
    exit $code"
        )
    };
}

pub(super) use commit;

/// Writes down what is staged, to be compared by [`keep_more`].
macro_rules! staged {
    () => {
        "GIT_INDEX_FILE=\"$index\" git diff-index --cached --no-renames --ignore-submodules=all HEAD >\"$index.staged\""
    };
}

/// Whether the sandbox has something beside its files that the commit does not have: staged otherwise than its files are, or a merge
/// or a rebase under way.
macro_rules! keep_more {
    () => {
        "git diff-index --cached --no-renames --ignore-submodules=all HEAD >\"$index.all\"
    if grep -vxF -f \"$index.all\" \"$index.staged\" >/dev/null; then more=1; fi
    own=$(git rev-parse --absolute-git-dir)
    for one in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
        if test -e \"$own/$one\"; then more=1; fi
    done"
    };
}

/// Prints the commit, or a dash where there is nothing to commit, and how many paths git cannot read or take, and leaves out; and `1`
/// where there is [`keep_more`]. Prints nothing where git needs to look at nothing more closely. The same work is the same commit. Its
/// arguments say which paths.
pub(in crate::session) const COMMIT_THE_REST: &str = commit!(
    concat!(
        no_trap!(),
        "unset GIT_LITERAL_PATHSPECS
    untracked=normal; test $# = 0 || untracked=all
    test -z \"$(git status --porcelain --untracked-files=$untracked --ignore-submodules=all -- \"$@\" 2>\"$said\")\" &&
        test ! -s \"$said\" && rm -f \"$said\" && exit 0"
    ),
    // As old as it was: git looks again at files that are no older (gitformat-index(5), racy git).
    concat!(
        "cp --preserve=timestamps \"$(git rev-parse --absolute-git-dir)/index\" \"$index\" && ",
        staged!()
    ),
    concat!("git add --all --ignore-errors -- \"$@\" || failed=1; ", keep_more!()),
    ":",
    "git commit-tree -p HEAD -m 'uncommitted work of the sandbox' \"$tree\""
);

/// How the index becomes the one to begin with where [`super::left`] has looked.
macro_rules! index_of_left {
    () => {
        "if test -e \"$READER/index\"; then cat \"$READER/index\" >\"$index\"
    else rm \"$index\" && GIT_INDEX_FILE=\"$index\" git read-tree HEAD; fi"
    };
}

pub(super) use index_of_left;

/// What it found is added.
macro_rules! add_left {
    () => {
        "everything() (unset GIT_LITERAL_PATHSPECS; git add --all --ignore-errors -- \"$@\")
    # Each git reads the whole index: none begins for nothing.
    if test -e \"$READER/gone\"; then test ! -s \"$READER/gone\" || git update-index -z --add --remove --stdin <\"$READER/gone\"; else false; fi ||
        everything \"$@\" || failed=1
    if test -s \"$READER/add\"; then
        git add --all --force --ignore-errors --pathspec-from-file=\"$READER/add\" --pathspec-file-nul ||
            { failed=1; everything \"$@\"; }
    fi"
    };
}

pub(super) use add_left;

/// The same of what [`super::left`] found: what is gone, and what is added whoever ignores it. Everything is looked at where
/// that is asked for; its arguments say then which paths.
const COMMIT_WHAT_IS_LEFT: &str = commit!(
    no_trap!(),
    concat!(index_of_left!(), " && ", staged!()),
    concat!(add_left!(), "\n", keep_more!()),
    ":",
    "git commit-tree -p HEAD -m 'uncommitted work of the sandbox' \"$tree\""
);

/// An id, a number and a line end.
pub(in crate::session) const ANSWER: usize = 100;
const LIMIT: Duration = Duration::from_mins(2);

/// What became of uncommitted work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// There is none.
    Nothing,
    /// In the repository. Its only parent is what is checked out in the sandbox.
    Commit {
        /// It has everything that was in no commit.
        commit: Oid,
        /// So many paths could not be read and are not in it.
        unread: u32,
        /// Beside its files the sandbox has something that is not in it: staged, or a merge or a rebase under way.
        more: bool,
    },
    /// It stays where it is.
    Refused {
        /// Why, as a sentence fragment.
        why: String,
    },
    /// The sandbox has ended, and left it in a worktree: there its user's own git shows it.
    Worktree(PathBuf),
}

pub(super) const NO_ANSWER: &str = "its git did not say which commit it made";

/// What one of the scripts printed: hostile, as a filter of the sandbox's may print too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Nothing where there is nothing to commit.
    pub(super) made: Option<Oid>,
    pub(super) unread: u32,
    more: bool,
}

impl Answer {
    /// `None`: it is none, or more than one.
    pub(super) fn of(printed: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(printed).ok()?.strip_suffix('\n')?;
        if line.contains('\n') {
            return None;
        }
        let mut words = line.trim_end().split(' ');
        let made = match words.next()? {
            "-" => None,
            id => Some(id.parse().ok()?),
        };
        let unread = words.next()?.parse().ok()?;
        let more = match words.next() {
            None => false,
            Some("1") => true,
            Some(_) => return None,
        };
        words
            .next()
            .is_none()
            .then_some(Self { made, unread, more })
    }
}

impl Collector<'_> {
    /// Of a sandbox in which nothing runs.
    pub(in crate::session) async fn rest(&self, owned: &Owned) -> Result<Rest, CollectError> {
        // Made of it since, or it worked there: its user may have gone on in it.
        let worktree = owned.record.worktree.clone();
        if owned.record.mode != Mode::Bind
            && let Some(path) = worktree.filter(|path| path.is_dir())
        {
            return Ok(Rest::Worktree(path));
        }
        let Some(source) = self.files(owned).await? else {
            return self.let_in(owned, b"").await;
        };
        if !PrivateClone::at(owned.directory()).git_dir.is_dir() {
            if let MountSource::Path(path) = source {
                return Ok(Rest::Worktree(path));
            }
            let why = "the sandbox's git directory is gone".to_owned();
            return Ok(Rest::Refused { why });
        }
        let files = owned.record.workspace(self.home);
        let but_copied = || copied::but_untouched(owned.directory(), &files);
        let mut is_told = true;
        let (script, which) = if owned.record.mode.owns_files() {
            let left = self.left(owned).await;
            if left.as_ref().is_some_and(Left::is_nothing) {
                return self.let_in(owned, b"").await;
            }
            is_told = left.is_some();
            self.put_left(owned, left)?;
            let which = match owned.record.mode {
                Mode::Copy => but_copied(),
                _ => Vec::new(),
            };
            (COMMIT_WHAT_IS_LEFT, which)
        } else {
            bare::make(self.repo, &owned.directory().join(left::PLACE))?;
            (COMMIT_THE_REST, but_copied())
        };
        let done = self.commit(owned, source, script, which, []).await?;
        if !done.exit.success() {
            return Ok(Rest::Refused { why: why(&done) });
        }
        Ok(match self.let_in(owned, &done.stdout).await? {
            // It took what it found; nobody can tell whether that is all.
            Rest::Commit {
                commit,
                unread: 0,
                more,
            } if !is_told => Rest::Commit {
                commit,
                unread: 1,
                more,
            },
            Rest::Nothing if !is_told => Rest::Refused {
                why: "its git does not say what it is".to_owned(),
            },
            rest => rest,
        })
    }

    /// Runs one of the scripts that make a commit.
    pub(super) async fn commit(
        &self,
        owned: &Owned,
        source: MountSource,
        script: &str,
        which: Vec<OsString>,
        more: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<JailOutcome, CollectError> {
        let mut environment = left::environment(owned);
        let more = more.into_iter();
        environment.extend(more.map(|(name, value)| (name.into(), value.into())));
        let mut mounts = left::mounts(owned, source);
        // It writes objects, as the sandbox itself did.
        for mount in mounts
            .iter_mut()
            .filter(|mount| mount.target.as_os_str() == INSIDE_GIT_DIR)
        {
            mount.access = Access::ReadWrite;
        }
        let request = JailRequest {
            mounts,
            arguments: [
                "/bin/sh".into(),
                "-c".into(),
                format!("{ADDRESSES}; {script}").into(),
                "sh".into(),
            ]
            .into_iter()
            .chain(which)
            .collect(),
            environment,
            directory: left::FILES.into(),
            stdin: Vec::new(),
            stdout: JailOutput::Capture(ANSWER),
            limits: left::limits(owned),
            timeout: LIMIT,
        };
        Ok(jail::run(request, self.cancel).await?)
    }

    /// Lets in what [`COMMIT_THE_REST`] answered.
    pub(in crate::session) async fn let_in(
        &self,
        owned: &Owned,
        answer: &[u8],
    ) -> Result<Rest, CollectError> {
        let reference = refs::own(owned.record.id, Own::Uncommitted);
        let (commit, unread, more) = match Answer::of(answer) {
            Some(Answer {
                made: Some(commit),
                unread,
                more,
            }) => (commit, unread, more),
            none => {
                self.drop_reference(owned, &reference).await?;
                return Ok(match none {
                    Some(Answer { unread: 0, .. }) => Rest::Nothing,
                    Some(Answer { unread, .. }) => Rest::Refused {
                        why: format!("its git cannot read {}", paths(unread)),
                    },
                    // It needed to look at nothing.
                    None if answer.is_empty() => Rest::Nothing,
                    None => Rest::Refused {
                        why: NO_ANSWER.to_owned(),
                    },
                });
            }
        };
        let there = refs::read(self.repo, &reference, self.cancel).await?;
        if there.as_ref() == Some(&commit) {
            return Ok(Rest::Commit {
                commit,
                unread,
                more,
            });
        }
        let repo = self.repo.without_drivers(self.cancel).await?;
        let this = Collector {
            repo: &repo,
            ..*self
        };
        let received = this.receive(owned, &Source::State, &commit, Own::Uncommitted);
        match received.await? {
            Received::Refused { why, pack, .. } => {
                // The files have it all.
                if let Some(pack) = pack {
                    crate::fsx::remove_file_if_exists(&pack)?;
                }
                Ok(Rest::Refused { why })
            }
            Received::Accepted(_) => Ok(Rest::Commit {
                commit,
                unread,
                more,
            }),
        }
    }

    async fn drop_reference(&self, owned: &Owned, reference: &str) -> Result<(), CollectError> {
        if let Some(at) = refs::read(self.repo, reference, self.cancel).await? {
            Transaction::new(format!("cofferdam {}", owned.record.id))
                .delete(reference, &at)
                .commit(self.repo, self.cancel)
                .await?;
        }
        Ok(())
    }

    /// Where the files are; `None`: nobody changed any, or they are gone.
    pub(super) async fn files(&self, owned: &Owned) -> Result<Option<MountSource>, CollectError> {
        let state = owned.directory();
        let path = match owned.record.mode {
            Mode::Layer if layers::is_untouched(state) => return Ok(None),
            Mode::Layer => {
                layers::stand(
                    self.home,
                    self.repo,
                    &owned.record,
                    self.events.callers(),
                    self.cancel,
                )
                .await?;
                return Ok(Some(layers::look(state)?));
            }
            Mode::Bind => owned.record.worktree.clone(),
            Mode::Copy => Some(owned.record.workspace(self.home)),
            Mode::Inside => None,
        };
        let path = path.filter(|path| path.is_dir());
        Ok(path.map(MountSource::Path))
    }
}

/// Why there is no commit.
pub(super) fn why(done: &JailOutcome) -> String {
    let said = String::from_utf8_lossy(&done.stderr_tail);
    let said = crate::text::printable_line(said.trim_end());
    format!("git cannot commit it, {}: {said}", done.exit)
}

/// The first that git said of what it cannot read; it names a path.
pub(super) fn first_said(done: &JailOutcome) -> String {
    let said = String::from_utf8_lossy(&done.stderr_tail);
    let first = said.lines().find(|line| !line.trim().is_empty());
    crate::text::printable_line(first.unwrap_or("it does not say why"))
}

pub(super) fn paths(count: u32) -> String {
    match count {
        1 => "a path".to_owned(),
        count => format!("{count} paths"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter of the sandbox's may print before the script does.
    #[test]
    fn an_answer_is_one_line_of_the_script() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let made = Some(id.parse().unwrap());
        let of = |text: &str| Answer::of(text.as_bytes());
        let answer = |made, unread, more| Some(Answer { made, unread, more });
        assert_eq!(of(&format!("{id} 0\n")), answer(made.clone(), 0, false));
        assert_eq!(of(&format!("{id} 2 1\n")), answer(made, 2, true));
        assert_eq!(of("- 0 \n"), answer(None, 0, false));
        for forged in [
            String::new(),
            "- 0".to_owned(),
            format!("{id}\n"),
            format!("{id} 0\n{id} 1\n"),
            format!("{id} 0 {id} 1\n"),
            format!("{id} 0 1 1\n"),
            format!("{id} 0 0\n"),
            format!("{id} none\n"),
            format!("{id} -1\n"),
            "main 0\n".to_owned(),
        ] {
            assert_eq!(of(&forged), None, "{forged:?}");
        }
    }
}
