//! What was changed in a sandbox's own files, as the next commit of what is checked out there: made by the sandbox's own git, as
//! [`super::rest`] makes one of uncommitted work.

use std::path::PathBuf;

use super::by_paths::{ODD, RECORD_BY_PATHS};
use super::left::{self, Left, no_trap};
use super::rest::{Answer, NO_ANSWER, add_left, commit, first_said, index_of_left, paths, why};
use super::spared::{drop_ignored, under_way};
use super::{CollectError, Collector};
use crate::git::private_clone::{self, PrivateClone};
use crate::git::{Oid, copied};
use crate::process::Exit;
use crate::registry::{Mode, Owned};

/// Takes the commit `$MADE` back, where it is the last one: what it changed is in the files, and in no commit.
const TAKE_BACK: &str = "export LC_ALL=C
    test \"$(git rev-parse HEAD)\" = \"$MADE\" && parent=$(git rev-parse \"$MADE^\") || exit 1
    new=$(mktemp -u \"$GIT_DIR/index.cofferdam-XXXXXX\") && GIT_INDEX_FILE=\"$new\" git read-tree \"$parent\" && chmod 644 \"$new\" || exit 1
    mv -fT \"$new\" \"$GIT_DIR/index\" && git update-ref -m 'cofferdam: the gate refused it' HEAD \"$parent\" \"$MADE\"";

/// The same as the next commit of what is checked out, with `$TOOL` and the paths for a message. The index inside has it too.
const RECORD_WHAT_IS_LEFT: &str = commit!(
    concat!(
        no_trap!(),
        under_way!(),
        "
    rm -rf \"$GIT_DIR\"/index.cofferdam-*
    new_ones() { git diff-index --cached -z --name-only --no-renames --diff-filter=A --ignore-submodules=all HEAD; }
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
    drop_ignored && drop_left_out || fatal=1"
    ),
    "install",
    "record"
);

/// Who changed the files of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) struct Recording<'a> {
    /// The commit's message begins with it.
    pub(in crate::session) tool: &'a str,
    /// What is to be in no commit.
    pub(in crate::session) left_out: &'a [PathBuf],
}

/// The commit of what was changed.
#[derive(Debug, Clone)]
pub(in crate::session) struct NextCommit {
    pub(in crate::session) commit: Oid,
    /// The index inside has what it has, and nothing else.
    pub(in crate::session) is_index: bool,
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
    Refused {
        /// Why, as a sentence fragment.
        why: String,
    },
}

impl Collector<'_> {
    /// What [`Self::rest`] would find in files of the sandbox's own, as the next commit of what is checked out inside. Nothing in it
    /// runs. The commit with it.
    pub(in crate::session) async fn record(
        &self,
        owned: &Owned,
        by: &Recording<'_>,
    ) -> Result<(Recorded, Option<NextCommit>), CollectError> {
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
        let left = left.unwrap_or_else(Left::unknown);
        left::put_lists(owned, &left)?;
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
        let commit = |script| {
            let (source, which) = (source.clone(), which.clone());
            self.commit(owned, source, script, which, more.clone())
        };
        let mut done = None;
        if !left.staged && by.left_out.is_empty() {
            let by_paths = commit(RECORD_BY_PATHS).await?;
            done = (by_paths.exit != Exit::Code(ODD)).then_some(by_paths);
        }
        let is_index = done.is_some();
        let done = if let Some(done) = done {
            done
        } else {
            self.put_index_of(owned, &left)?;
            commit(RECORD_WHAT_IS_LEFT).await?
        };
        if !done.exit.success() {
            return refused(why(&done));
        }
        let Some(answer) = Answer::of(&done.stdout) else {
            return refused(NO_ANSWER.to_owned());
        };
        let (unread, left_out) = (answer.unread, None);
        Ok(match answer.made {
            Some(commit) => {
                let made = NextCommit { commit, is_index };
                (Recorded::Commit { unread, left_out }, Some(made))
            }
            None if unread == 0 => (Recorded::Nothing, None),
            None => {
                let said = first_said(&done);
                return refused(format!("its git cannot read {}: {said}", paths(unread)));
            }
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
}
