//! What lies in a sandbox's files and in no commit, as a commit: made by the sandbox's own git, where nothing of the host's
//! can be reached, and let in by the gate as every other. No branch has it.

use std::path::PathBuf;
use std::time::Duration;

use super::packing::Received;
use super::{CollectError, Collector, Source};
use crate::git::private_clone::{INSIDE_GIT_DIR, PrivateClone};
use crate::git::refs::{self, Own, Transaction};
use crate::git::{Oid, copied};
use crate::registry::{Mode, Owned};
use crate::sandbox::native::jail::{self, JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource};
use crate::session::layers;
use crate::session::mounts::jail_mounts;

/// Prints the commit, or a dash where there is nothing to commit, and how many paths git may not read and leaves out. Prints
/// nothing where git needs to look at nothing more closely. The same work is the same commit. Its arguments say which paths.
pub(in crate::session) const COMMIT_THE_REST: &str = "\
    export LC_ALL=C
    untracked=normal; test $# = 0 || untracked=all
    said=$(mktemp) || exit 1
    test -z \"$(git status --porcelain --untracked-files=$untracked --ignore-submodules=all -- \"$@\" 2>\"$said\")\" &&
        test ! -s \"$said\" && rm -f \"$said\" && exit 0
    index=$(mktemp) && cp \"$(git rev-parse --absolute-git-dir)/index\" \"$index\" || exit 1
    export GIT_INDEX_FILE=\"$index\"
    export GIT_AUTHOR_NAME=Cofferdam GIT_AUTHOR_EMAIL=agent@cofferdam.invalid
    export GIT_COMMITTER_NAME=Cofferdam GIT_COMMITTER_EMAIL=agent@cofferdam.invalid
    GIT_AUTHOR_DATE=$(git log -1 --format=%cI HEAD) && GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE || exit 1
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
    git add --all --ignore-errors -- \"$@\" >\"$said\" 2>&1
    cat \"$said\" >&2
    unread=$(grep 'Permission denied' \"$said\" | sort -u | wc -l)
    tree=$(git write-tree) && if test \"$tree\" = \"$(git rev-parse 'HEAD^{tree}')\"; then commit=-
    else commit=$(git commit-tree -p HEAD -m 'uncommitted work of the sandbox' \"$tree\"); fi && echo \"$commit\" $unread
    code=$?
    rm -f \"$index\" \"$said\"
    exit $code";
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
    },
    /// It stays where it is.
    Refused { why: String },
    /// The sandbox has ended, and left it in a worktree: there its user's own git shows it.
    Worktree(PathBuf),
}

impl Collector<'_> {
    /// Of a sandbox in which nothing runs.
    pub(in crate::session) async fn rest(&self, owned: &Owned) -> Result<Rest, CollectError> {
        if owned.record.mode == Mode::Layer && !layers::is_untouched(owned.directory()) {
            layers::stand(self.home, self.repo, &owned.record, self.cancel).await?;
        }
        let Some(source) = self.files(owned)? else {
            return self.let_in(owned, b"").await;
        };
        if !PrivateClone::at(owned.directory()).git_dir.is_dir() {
            if let MountSource::Path(path) = source {
                return Ok(Rest::Worktree(path));
            }
            let why = "the sandbox's git directory is gone".to_owned();
            return Ok(Rest::Refused { why });
        }
        let work_tree = "/workspace/files";
        let files = owned.record.workspace(self.home);
        // It writes objects, as the sandbox itself did.
        let mut mounts = jail_mounts(owned.directory());
        for mount in mounts
            .iter_mut()
            .filter(|mount| mount.target.as_os_str() == INSIDE_GIT_DIR)
        {
            mount.access = Access::ReadWrite;
        }
        mounts.push(Mount {
            source,
            target: work_tree.into(),
            access: Access::ReadOnly,
        });
        let request = JailRequest {
            mounts,
            // A hostile repository must not decide how much memory is used.
            arguments: [
                "/bin/sh".into(),
                "-c".into(),
                format!("ulimit -v 16777216; {COMMIT_THE_REST}").into(),
                "sh".into(),
            ]
            .into_iter()
            .chain(copied::but_untouched(owned.directory(), &files))
            .collect(),
            environment: [
                ("GIT_DIR", INSIDE_GIT_DIR),
                ("GIT_WORK_TREE", work_tree),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
            directory: work_tree.into(),
            stdin: Vec::new(),
            stdout: JailOutput::Capture(ANSWER),
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout: LIMIT,
        };
        let done = jail::run(request, self.cancel).await?;
        if !done.exit.success() {
            let said = String::from_utf8_lossy(&done.stderr_tail);
            let why = format!(
                "git cannot commit it, {}: {}",
                done.exit,
                crate::text::printable_line(said.trim_end())
            );
            return Ok(Rest::Refused { why });
        }
        self.let_in(owned, &done.stdout).await
    }

    /// Lets in what [`COMMIT_THE_REST`] answered.
    pub(in crate::session) async fn let_in(
        &self,
        owned: &Owned,
        answer: &[u8],
    ) -> Result<Rest, CollectError> {
        let answer = String::from_utf8_lossy(answer);
        let reference = refs::own(owned.record.id, Own::Uncommitted);
        let (made, unread) = answer.trim_end().split_once(' ').unwrap_or_default();
        let unread: u32 = unread.parse().unwrap_or(0);
        let Ok(commit) = made.parse::<Oid>() else {
            self.drop_reference(owned, &reference).await?;
            return Ok(match (made, unread) {
                ("-", 0) => Rest::Nothing,
                ("-", _) => Rest::Refused {
                    why: format!("its git may not read {}", paths(unread)),
                },
                _ if answer.trim_end().is_empty() => Rest::Nothing,
                _ => Rest::Refused {
                    why: "its git did not say which commit it made".to_owned(),
                },
            });
        };
        let there = refs::read(self.repo, &reference, self.cancel).await?;
        if there.as_ref() == Some(&commit) {
            return Ok(Rest::Commit { commit, unread });
        }
        let repo = self.repo.without_drivers(self.cancel).await?;
        let this = Collector {
            repo: &repo,
            ..*self
        };
        let received = this.receive(owned, &Source::State, &commit, Own::Uncommitted);
        match received.await? {
            Received::Refused { why, pack } => {
                // The files have it all.
                if let Some(pack) = pack {
                    crate::fsx::remove_file_if_exists(&pack)?;
                }
                Ok(Rest::Refused { why })
            }
            Received::Accepted(_) => Ok(Rest::Commit { commit, unread }),
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
    fn files(&self, owned: &Owned) -> Result<Option<MountSource>, CollectError> {
        let state = owned.directory();
        let path = match owned.record.mode {
            Mode::Layer if layers::is_untouched(state) => return Ok(None),
            Mode::Layer => return Ok(Some(layers::look(state)?)),
            Mode::Bind => owned.record.worktree.clone(),
            Mode::Copy => Some(owned.record.workspace(self.home)),
            Mode::Inside => None,
        };
        let path = path.filter(|path| path.is_dir());
        Ok(path.map(MountSource::Path))
    }
}

fn paths(count: u32) -> String {
    match count {
        1 => "a path".to_owned(),
        count => format!("{count} paths"),
    }
}
