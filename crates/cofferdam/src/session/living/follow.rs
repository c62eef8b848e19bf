//! A checkout that a living sandbox shares goes its user's way: they commit, and switch branches. The sandbox's git is brought to the same
//! commit before it is used again, where nothing of its own is lost by that.

use std::collections::BTreeMap;
use std::time::Duration;

use super::life::turn;
use super::{Session, SessionError, has_uncollected};
use crate::git::private_clone;
use crate::git::refs_at::{RefsAt, names_of};
use crate::git::vault::Vault;
use crate::names::BranchName;
use crate::sandbox::SandboxError;
use crate::session::inside::{Inside, Output};
use crate::session::watched;

/// The index of a large repository is written.
const LIMIT: Duration = Duration::from_secs(120);
/// Brings git to a commit as `git switch` does, but for the files, which are there. $1: the commit. $2: its branch, or nothing. $3: the
/// branch it was on, or nothing, which is home.
const MOVE: &str = r#"set -eu
git() { command git -c core.hooksPath=/dev/null "$@"; }
if [ -n "$2" ]; then
    git update-ref "refs/heads/$2" "$1"
    git symbolic-ref HEAD "refs/heads/$2"
else
    git update-ref --no-deref HEAD "$1"
fi
[ -z "$3" ] || [ "$3" = "$2" ] || git update-ref -d "refs/heads/$3"
git reset -q "$1"
"#;

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
    /// It has commits of its own that are not home, and stays where it is.
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
        let (caller, repository) = (&self.caller, &self.named.repository);
        let head = &repository.head;
        let (branch, tip) = (head.branch().cloned(), head.commit().clone());
        let mut turn = turn(caller, &self.named).await?;
        let record = &turn.record;
        if record.branch == branch && (*record.begins() == tip || record.base == tip) {
            return Ok(Followed::Same);
        }
        let names = names_of(record.id, record.branch.as_ref());
        let refs = RefsAt::read(repository, names, &caller.cancel).await?;
        let left = has_uncollected(&caller.home, repository, record, &refs, &caller.cancel).await;
        // Whether it has some cannot be told: then nothing of it is touched.
        if left != Some(false) {
            return Ok(Followed::Stays {
                checked_out: head.branch_text(),
            });
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
        let arguments = [
            "sh",
            "-c",
            MOVE,
            "sh",
            tip.as_str(),
            &word(&branch),
            &word(&turn.record.branch),
        ];
        let done = Inside {
            sandbox: self.sandbox(),
            arguments: arguments.map(Into::into).to_vec(),
            directory: None,
            environment: &BTreeMap::new(),
            limit: LIMIT,
            output: Output::Captured(64 << 10),
        };
        let done = done.run(&caller.cancel).await;
        let failed = |why: String| self.failed(SandboxError::Start(why));
        let done =
            done.map_err(|error| failed(format!("its git was not brought to {tip}: {error}")))?;
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
}
