//! A checkout that a living sandbox shares goes its user's way: they commit, and switch branches. The sandbox's git is brought to the same
//! commit before it is used again, where nothing of its own is lost by that.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::life::turn;
use super::{Session, SessionError, has_uncollected};
use crate::git::own_files;
use crate::git::private_clone::{self, PrivateClone, PrivateHead};
use crate::git::refs_at::{RefsAt, names_of};
use crate::git::vault::Vault;
use crate::git::{Oid, Repository};
use crate::names::BranchName;
use crate::process::Exit;
use crate::sandbox::SandboxError;
use crate::session::form::Form;
use crate::session::inside::{Inside, Output};
use crate::session::located::discover;
use crate::session::watched;

/// The index of a large repository is written.
const LIMIT: Duration = Duration::from_secs(120);
/// Brings git to a commit as `git switch` does, but for the files, which are there. $1: the commit. $2: its branch, or nothing. $3: the
/// branch it was on, or nothing. $4: the commit that it is at, which is home. $5: that of $2, or nothing. Then what the sandbox does not
/// see. Ends with [`BUSY`] where something would be lost.
const MOVE: &str = r#"set -eu
git() { command git -c core.hooksPath=/dev/null "$@"; }
to=$1 branch=$2 from=$3 at=$4 old=$5
shift 5
own=$(git rev-parse --absolute-git-dir)
for one in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG rebase-merge rebase-apply index.lock; do
    [ ! -e "$own/$one" ] || exit 9
done
git diff-index --cached --quiet HEAD -- || exit 9
zero=$(printf %s "$to" | tr 0-9a-f 0)
{
    echo start
    if [ -z "$branch" ]; then
        printf 'option no-deref
update HEAD %s %s
' "$to" "$at"
    elif [ "$branch" = "$from" ]; then
        printf 'update refs/heads/%s %s %s
' "$branch" "$to" "$at"
    else
        printf 'update refs/heads/%s %s %s
' "$branch" "$to" "${old:-$zero}"
    fi
    echo prepare
    echo commit
} | git update-ref --stdin >/dev/null || exit 9
[ -z "$branch" ] || git symbolic-ref HEAD "refs/heads/$branch"
[ -z "$from" ] || [ "$from" = "$branch" ] || git update-ref -d "refs/heads/$from" "$at" || true
git reset -q "$to"
export GIT_LITERAL_PATHSPECS=1
[ $# = 0 ] || git ls-files -z -- "$@" | git update-index -z --skip-worktree --stdin
"#;
/// How [`MOVE`] says that it stays.
const BUSY: i32 = 9;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// It is where the checkout is.
    Same,
    /// It was brought there.
    Moved {
        /// The branch that is checked out, or `HEAD`.
        to: String,
    },
    /// It has commits of its own that are on no branch here, or something is staged or under way there, and stays where it is.
    Stays {
        /// What is checked out here.
        checked_out: String,
    },
}

impl Session {
    /// Brings the git of a sandbox that works in the user's checkout to what is checked out there now. Bounded: 120 s, and the
    /// export of what is new.
    pub async fn follow(&self) -> Result<Followed, SessionError> {
        if !watched::is_shared(self.record()) {
            return Ok(Followed::Same);
        }
        let caller = &self.caller;
        // What came home since the session began has moved what is checked out.
        let repository = &discover(caller, self.named.located.top().as_path()).await?;
        let head = &repository.head;
        let (branch, tip) = (head.branch().cloned(), head.commit().clone());
        let mut turn = turn(caller, &self.named).await?;
        let record = &turn.record;
        if record.branch == branch && (*record.begins() == tip || record.base == tip) {
            return Ok(Followed::Same);
        }
        let stays = || Followed::Stays {
            checked_out: head.branch_text(),
        };
        // Before it is asked whether they are home: what is made after that is not touched.
        let git = PrivateClone::at(turn.directory()).git_dir;
        let own = record.branch.as_ref().map(BranchName::full);
        let Ok(seen) = private_clone::read_refs(&git, repository.format, own.as_deref()) else {
            return Ok(stays());
        };
        let names = names_of(record.id, record.branch.as_ref());
        let refs = RefsAt::read(repository, names, &caller.cancel).await?;
        let left = has_uncollected(&caller.home, repository, record, &refs, &caller.cancel).await;
        // Whether it has some cannot be told: then nothing of it is touched.
        if left != Some(false) {
            return Ok(stays());
        }
        let tip_of = |branch: &Option<BranchName>| {
            let name = branch.as_ref().map(BranchName::full)?;
            let mut refs = seen.refs.iter();
            let found = refs.find(|(one, _)| *one == name.as_bytes());
            found.map(|(_, tip)| tip.clone())
        };
        let at = match &seen.head {
            Some(PrivateHead::Detached(tip)) => Some(tip.clone()),
            _ => tip_of(&turn.record.branch),
        };
        let Some(at) = at else {
            return Ok(stays());
        };
        // What was only kept is safe, but is on no branch: whoever made it goes on from there.
        let on_branch = own.as_ref().and_then(|own| refs.get(own));
        let places = [Some(&tip), Some(record.begins()), on_branch];
        if !self.is_below(repository, &at, &places).await {
            return Ok(stays());
        }
        // A branch of that name that was made inside.
        let namesake = tip_of(&branch).filter(|_| branch != record.branch);
        if let Some(namesake) = &namesake
            && !self.is_below(repository, namesake, &[Some(&tip)]).await
        {
            return Ok(stays());
        }
        let vault = Vault::open(&caller.home, repository);
        let exported = match vault {
            Ok(vault) => vault.export(repository, &tip, &caller.cancel).await,
            Err(error) => Err(error),
        };
        let exported = exported.map_err(|source| SessionError::Vault {
            name: self.name().to_string(),
            source,
        })?;
        for pack in &exported.packs {
            private_clone::give_back(turn.directory(), pack)?;
        }
        let word = |branch: &Option<BranchName>| {
            branch
                .as_ref()
                .map_or_else(String::new, ToString::to_string)
        };
        let fixed = [
            tip.to_string(),
            word(&branch),
            word(&turn.record.branch),
            at.to_string(),
            tip_of(&branch).map_or_else(String::new, |old| old.to_string()),
        ];
        let command = ["sh", "-c", MOVE, "sh"].map(OsString::from);
        let unseen = turn
            .record
            .hidden
            .iter()
            .map(|path| path.0.clone().into_os_string());
        let arguments = command
            .into_iter()
            .chain(fixed.map(OsString::from))
            .chain([own_files::DIRECTORY.into()])
            .chain(unseen);
        let moved = Inside {
            sandbox: self.sandbox(),
            arguments: arguments.collect(),
            // The checkout's, also where programs start elsewhere.
            directory: Some(&Form::read(turn.directory())?.workspace()),
            environment: &BTreeMap::new(),
            limit: LIMIT,
            output: Output::Captured(64 << 10),
        };
        let done = moved.run(&caller.cancel).await;
        let failed = |why: String| self.failed(SandboxError::Start(why));
        let done =
            done.map_err(|error| failed(format!("its git was not brought to {tip}: {error}")))?;
        if done.exit == Exit::Code(BUSY) {
            return Ok(stays());
        }
        if !done.exit.success() {
            let said =
                crate::text::printable_line(String::from_utf8_lossy(&done.stderr).trim_end());
            return Err(failed(format!("its git was not brought to {tip}: {said}")));
        }
        turn.record.branch = branch;
        turn.record.base = tip;
        turn.record.landed = None;
        turn.save()?;
        Ok(Followed::Moved {
            to: head.branch_text(),
        })
    }

    /// Whether one of `places` is the commit, or has it below.
    async fn is_below(
        &self,
        repository: &Repository,
        commit: &Oid,
        places: &[Option<&Oid>],
    ) -> bool {
        let cancel = &self.caller.cancel;
        let places = places.iter().copied().flatten();
        if places.clone().any(|place| place == commit) {
            return true;
        }
        for place in places {
            // What the repository does not have is an error there.
            let found = repository.is_ancestor(commit, place, cancel).await;
            if found.unwrap_or(false) {
                return true;
            }
        }
        false
    }
}
