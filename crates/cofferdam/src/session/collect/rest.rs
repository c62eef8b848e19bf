//! What lies in a sandbox's files and in no commit, as a commit: made by the sandbox's own git, where nothing of the host's
//! can be reached, and let in by the gate as every other. No branch has it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::left::{self, Left, no_trap};
use super::packing::Received;
use super::{CollectError, Collector, Source};
use crate::git::private_clone::{self, INSIDE_GIT_DIR, PrivateClone};
use crate::git::refs::{self, Own, Transaction};
use crate::git::{Oid, bare, copied};
use crate::registry::{Mode, Owned};
use crate::sandbox::native::jail::{self, JailOutcome, JailOutput, JailRequest};
use crate::sandbox::{Access, MountSource};
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
    failed=0
    { ",
            $add,
            "; } >\"$said\" 2>&1
    cat \"$said\" >&2
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

/// The same of what [`super::left`] found: what is gone, and what is added whoever ignores it. Everything is looked at where
/// that is asked for; its arguments say then which paths.
const COMMIT_WHAT_IS_LEFT: &str = commit!(
    no_trap!(),
    concat!(index_of_left!(), " && ", staged!()),
    concat!(add_left!(), "\n", keep_more!()),
    ":",
    "git commit-tree -p HEAD -m 'uncommitted work of the sandbox' \"$tree\""
);

/// New files that the ignore files of `$BASE` cover are not added, whatever became of those files since. Only those on the way to a new
/// file are looked at.
macro_rules! drop_ignored {
    () => {
        "drop_ignored() {
        rules=$(mktemp -d) || return 1
        git diff-index --cached -z --name-only --no-renames --diff-filter=A --ignore-submodules=all HEAD >\"$rules/.added\" || return 1
        test -s \"$rules/.added\" || { rm -rf \"$rules\"; return 0; }
        # What a killed writer of ours left.
        grep -zE '(^|/)[.]cofferdam-sync-[0-9a-f]{16}$' \"$rules/.added\" >\"$rules/.ours\" || :
        test ! -s \"$rules/.ours\" || git update-index -z --force-remove --stdin <\"$rules/.ours\" || return 1
        cp \"$rules/.added\" \"$rules/.up\"
        while test -s \"$rules/.up\"; do
            xargs -0 dirname -z -- <\"$rules/.up\" | sort -zu >\"$rules/.next\"
            cat \"$rules/.next\" >>\"$rules/.all\"
            grep -zvx '[.]' \"$rules/.next\" >\"$rules/.up\" || :
        done
        sort -zu \"$rules/.all\" | sed -z 's|^[.]$||; s|$|/.gitignore|; s|^/||' >\"$rules/.names\"
        xargs -0 git ls-tree -z --full-tree \"$BASE\" -- <\"$rules/.names\" >\"$rules/.tree\" || return 1
        if test -s \"$rules/.tree\"; then
            mkdir \"$rules/tree\" && GIT_INDEX_FILE=\"$rules/.index\" git update-index -z --index-info <\"$rules/.tree\" &&
                GIT_INDEX_FILE=\"$rules/.index\" git checkout-index --all --prefix=\"$rules/tree/\" || return 1
            (cd \"$rules/tree\" && unset GIT_LITERAL_PATHSPECS &&
                GIT_DIR=$READER GIT_WORK_TREE=$rules/tree git check-ignore -z --no-index --stdin <\"$rules/.added\" >\"$rules/.drop\")
            test $? -le 1 || return 1
            test ! -s \"$rules/.drop\" || git update-index -z --force-remove --stdin <\"$rules/.drop\" || return 1
        fi
        rm -rf \"$rules\"
    }
    drop_left_out() {
        test -s \"$READER/left-out\" || return 0
        # One that is refused as a directory stands for what is in it.
        xargs -0 git ls-files -z -- <\"$READER/left-out\" >\"$index.out\" &&
            git update-index -z --force-remove --stdin <\"$index.out\" &&
            xargs -0 git ls-tree -r -z --full-tree HEAD -- <\"$READER/left-out\" >\"$index.tree\" &&
            git update-index -z --index-info <\"$index.tree\"
        code=$?; rm -f \"$index.out\" \"$index.tree\"; return $code
    }"
    };
}

/// Takes the commit `$MADE` back, where it is the last one: what it changed is in the files, and in no commit.
const TAKE_BACK: &str = "export LC_ALL=C
    test \"$(git rev-parse HEAD)\" = \"$MADE\" && parent=$(git rev-parse \"$MADE^\") || exit 1
    new=$(mktemp -u \"$GIT_DIR/index.cofferdam-XXXXXX\") && GIT_INDEX_FILE=\"$new\" git read-tree \"$parent\" && chmod 644 \"$new\" || exit 1
    mv -fT \"$new\" \"$GIT_DIR/index\" && git update-ref -m 'cofferdam: the gate refused it' HEAD \"$parent\" \"$MADE\"";

/// The same as the next commit of what is checked out, with `$TOOL` and the paths for a message. The index inside has it too.
const RECORD_WHAT_IS_LEFT: &str = commit!(
    concat!(
        no_trap!(),
        "for under_way in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply sequencer; do
        test ! -e \"$GIT_DIR/$under_way\" || { echo 'a merge or a rebase is under way inside: finish it, or abort it' >&2; exit 4; }
    done
    test ! -e \"$GIT_DIR/index.lock\" || {
        echo \"a git inside holds $GIT_DIR/index.lock; where none runs any more, remove that file inside\" >&2; exit 4; }
    rm -rf \"$GIT_DIR\"/index.cofferdam-*
    install() {
        new=$(mktemp \"$GIT_DIR/index.cofferdam-XXXXXX\") && cat \"$index\" >\"$new\" && chmod 644 \"$new\" && mv -fT \"$new\" \"$GIT_DIR/index\"
    }
    record() {
        head=$(git rev-parse HEAD) && git diff-tree -r --name-only --no-renames \"$head\" \"$tree\" >\"$said\" || return 1
        count=$(wc -l <\"$said\") && IFS= read -r first <\"$said\" || return 1
        test $count = 1 || first=\"$first and $((count - 1)) more\"
        made=$({ printf '%s: %s\\n' \"$TOOL\" \"$first\"; test $count = 1 || { echo; head -n 100 \"$said\"; }; } |
            GIT_AUTHOR_NAME=$NAME GIT_AUTHOR_EMAIL=$EMAIL GIT_AUTHOR_DATE=$NOW GIT_COMMITTER_NAME=$NAME \\
            GIT_COMMITTER_EMAIL=$EMAIL GIT_COMMITTER_DATE=$NOW git commit-tree -p \"$head\" \"$tree\") || return 1
        # Who dies in between leaves it staged, and the next one commits it.
        install && git update-ref -m \"cofferdam: $TOOL\" HEAD \"$made\" \"$head\" && echo \"$made\"
    }
    ",
        drop_ignored!()
    ),
    index_of_left!(),
    concat!(
        add_left!(),
        "
    drop_ignored && drop_left_out || failed=1"
    ),
    "install",
    "record"
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
        commit: Oid,
        /// So many paths could not be read and are not in it.
        unread: u32,
        /// Beside its files the sandbox has something that is not in it: staged, or a merge or a rebase under way.
        more: bool,
    },
    /// It stays where it is.
    Refused { why: String },
    /// The sandbox has ended, and left it in a worktree: there its user's own git shows it.
    Worktree(PathBuf),
}

/// Who changed the files of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) struct Recording<'a> {
    /// The commit's message begins with it.
    pub(in crate::session) tool: &'a str,
    /// What is to be in no commit.
    pub(in crate::session) left_out: &'a [PathBuf],
}

/// What became of changes that were to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// There are none.
    Nothing,
    /// They are the next commit inside.
    Commit {
        /// So many paths could not be read and are not in it.
        unread: u32,
        /// Why others are not in it that the gate does not let in; they stay where they are.
        left_out: Option<String>,
    },
    /// They stay where they are, uncommitted.
    Refused { why: String },
}

const NO_ANSWER: &str = "its git did not say which commit it made";

/// What one of the scripts printed: hostile, as a filter of the sandbox's may print too.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Nothing where there is nothing to commit.
    made: Option<Oid>,
    unread: u32,
    more: bool,
}

impl Answer {
    /// `None`: it is none, or more than one.
    fn of(printed: &[u8]) -> Option<Self> {
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

    /// What [`Self::rest`] would find in files of the sandbox's own, as the next commit of what is checked out inside. Nothing in it
    /// runs. The commit with it.
    pub(in crate::session) async fn record(
        &self,
        owned: &Owned,
        by: &Recording<'_>,
    ) -> Result<(Recorded, Option<Oid>), CollectError> {
        let refused = |why: String| Ok((Recorded::Refused { why }, None));
        if !owned.record.mode.owns_files() {
            return refused("its files are its user's own".to_owned());
        }
        let Some(source) = self.files(owned).await? else {
            return Ok((Recorded::Nothing, None));
        };
        if !PrivateClone::at(owned.directory()).git_dir.is_dir() {
            return refused("the sandbox's git directory is gone".to_owned());
        }
        // Git would wait at a pipe in there for ever.
        private_clone::tidy(&PrivateClone::at(owned.directory()).git_dir)?;
        let left = self.left(owned).await;
        if left.as_ref().is_some_and(Left::is_nothing) {
            return Ok((Recorded::Nothing, None));
        }
        self.put_left(owned, left)?;
        left::put_left_out(owned, by.left_out)?;
        let which = match owned.record.mode {
            Mode::Copy => {
                copied::but_untouched(owned.directory(), &owned.record.workspace(self.home))
            }
            _ => Vec::new(),
        };
        let now = jiff::Timestamp::now().as_second();
        let more = [
            ("TOOL", by.tool.to_owned()),
            ("NAME", self.author.name.clone()),
            ("EMAIL", self.author.email.clone()),
            ("NOW", format!("@{now} +0000")),
        ];
        let script = RECORD_WHAT_IS_LEFT;
        let done = self.commit(owned, source, script, which, more).await?;
        if !done.exit.success() {
            return refused(why(&done));
        }
        let Some(answer) = Answer::of(&done.stdout) else {
            return refused(NO_ANSWER.to_owned());
        };
        let (unread, left_out) = (answer.unread, None);
        Ok(match answer.made {
            Some(made) => (Recorded::Commit { unread, left_out }, Some(made)),
            None if unread == 0 => (Recorded::Nothing, None),
            None => return refused(format!("its git cannot read {}", paths(unread))),
        })
    }

    /// Takes back what [`Self::record`] made, where the gate did not let it in. `false`: it stays.
    pub(in crate::session) async fn take_back(
        &self,
        owned: &Owned,
        made: &Oid,
    ) -> Result<bool, CollectError> {
        let Some(source) = self.files(owned).await? else {
            return Ok(false);
        };
        let more = [("MADE", made.to_string())];
        let done = self.commit(owned, source, TAKE_BACK, Vec::new(), more);
        Ok(done.await?.exit.success())
    }

    /// Runs one of the scripts that make a commit.
    async fn commit(
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
            // A hostile repository must not decide how much memory is used.
            arguments: [
                "/bin/sh".into(),
                "-c".into(),
                format!("ulimit -v 16777216; {script}").into(),
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
    async fn files(&self, owned: &Owned) -> Result<Option<MountSource>, CollectError> {
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
fn why(done: &JailOutcome) -> String {
    let said = String::from_utf8_lossy(&done.stderr_tail);
    let said = crate::text::printable_line(said.trim_end());
    format!("git cannot commit it, {}: {said}", done.exit)
}

fn paths(count: u32) -> String {
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
