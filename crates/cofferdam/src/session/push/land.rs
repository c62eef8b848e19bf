//! One push: whose branch it is, what of the host's it goes on from, the gate, the checks, and the branch moves.

use std::fmt::Display;
use std::path::PathBuf;

use cofferdam_guest::protocol::push::{Answer, From, Push};

use super::Of;
use super::door::Waiting;
use super::known::Known;
use super::pack::{self, Behind, Packed, Packing};
use crate::git::discovery::Start;
use crate::git::gate::{self, Accepted, Gate, GateError};
use crate::git::land::{self, Expected, Landing};
use crate::git::refs::{self, Own, Transaction};
use crate::git::refs_at::RefsAt;
use crate::git::worktree::{self, WorktreeError};
use crate::git::{Oid, Repository, bare};
use crate::names::BranchName;
use crate::process::Input;
use crate::registry::{self, Record};
use crate::session::check_plan::CheckPlan;
use crate::session::checks::{self, Checks};
use crate::session::collect::rules;
use crate::session::configured::effective;
use crate::session::event::Notice;
use crate::session::holder::Holder;
use crate::session::jailed::Objects;
use crate::session::protect;
use crate::session::shelf::{self, List, Noted};
use crate::volumes::VolumeError;

/// In the state directory: what a push needs for its time, and what later ones go on from.
const DIRECTORY: &str = "push";
const KNOWN: &str = "known";
const READER: &str = "reader";
/// New branches below this are any sandbox's to make.
const OURS: &str = "cofferdam/";
/// So many commits of the host's are looked for behind a push.
const GIVEN: usize = 8;
/// So many branches are on a shelf's list before pushes make no more. What is said of them fits into one answer.
const BRANCHES: usize = 128;

/// Why nothing moved. What it says goes to a program inside: no path of the host's is in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("too many pushes")]
    TooMany {
        /// Seconds.
        left: u64,
    },
    #[error("it is no branch's name")]
    Name(String),
    #[error("the branch is checked out on the host")]
    CheckedOut,
    #[error("the branch is not this sandbox's")]
    Foreign(BranchName),
    #[error("another sandbox works on the branch")]
    Held(String),
    #[error("there are many branches already")]
    Full,
    #[error("the commit is not there")]
    Missing(From),
    #[error("it shares no commit with the host")]
    Unrelated,
    #[error("not a fast-forward")]
    NotForward(BranchName),
    #[error("the commit gate refuses it")]
    Gate(String),
    #[error("its checks did not succeed")]
    Checks(#[source] checks::Failed),
    #[error("the branch moved meanwhile")]
    Moved(BranchName),
    #[error("the branch is locked on the host")]
    Locked { branch: BranchName, why: String },
    #[error("the branch is another name of one on the host")]
    Symbolic(BranchName),
    #[error("something is wrong on the host")]
    Host { branch: Option<String>, why: String },
}

impl Refused {
    fn hint(&self) -> String {
        match self {
            Self::TooMany { left } => format!("push again in {left} s"),
            Self::Name(why) | Self::Gate(why) => why.clone(),
            Self::Checks(failed) => failed.to_string(),
            Self::CheckedOut => {
                "what is committed in the workspace gets there when one leaves; a branch that is checked out nowhere can be pushed".to_owned()
            }
            Self::Foreign(branch) => format!(
                "`cofferdam checkout {branch}` on the host makes it one; a new name that begins with {OURS} is one already"
            ),
            Self::Full => format!("pushes have made {BRANCHES}, or nearly; push to one of them"),
            Self::Held(holder) => format!("it is in use by `{holder}`; push under another name"),
            Self::Missing(From::Shelf) => "push from a working tree on the shelf".to_owned(),
            Self::Missing(From::Workspace) => {
                "push from a working tree on the shelf or from the workspace: other repositories are not looked at".to_owned()
            }
            Self::Unrelated => "begin from a commit that came from there: `git fetch host` on the shelf brings what is checked out there now".to_owned(),
            Self::NotForward(branch) => format!(
                "the host has commits on it that are not in what is pushed: after `cofferdam checkout {branch}` there, `git merge host/{branch}` \
                 on the shelf, and push again"
            ),
            Self::Moved(_) => "push again".to_owned(),
            Self::Locked { .. } => "another git is at work there, or was cut short: push again; whoever leaves the sandbox there is told what is in the way".to_owned(),
            Self::Symbolic(branch) => format!("push to the branch that {branch} leads to, or under another name"),
            Self::Host { .. } => "whoever leaves the sandbox there is told what".to_owned(),
        }
    }

    /// As the sandbox hears it; what is the host's own is told there.
    pub(super) fn into_answer(self, of: Of<'_>) -> Answer {
        let told = match &self {
            Self::Host { branch, why } => Some((branch.clone(), why)),
            Self::Locked { branch, why } => Some((Some(branch.to_string()), why)),
            _ => None,
        };
        if let Some((branch, why)) = told {
            let what = match branch {
                Some(branch) => format!("a push of {branch} from inside"),
                None => "a push from inside".to_owned(),
            };
            let text = format!("{what} failed: {why}");
            of.events.notice(Notice::Other { text });
        }
        Answer::Refused {
            why: self.to_string(),
            hint: self.hint(),
        }
    }

    fn host(why: &impl Display) -> Self {
        Self::Host {
            branch: None,
            why: why.to_string(),
        }
    }
}

/// A sandbox that may push, as it is now.
struct Pushing<'a> {
    of: Of<'a>,
    record: Record,
    repository: Repository,
    /// The branches that its user has brought to the shelf.
    noted: Noted,
    /// The configuration has checks by now.
    is_checked: bool,
}

/// What is behind it in the host's history.
struct Bases {
    /// None of them is in the history of another one.
    all: Vec<Oid>,
    /// A commit of its user's: what checks are to be is what it has.
    trusted: Oid,
}

/// The branches of the host's that a push could move, and what they are at.
pub(super) async fn branches(of: Of<'_>) -> Result<Vec<(String, String)>, Refused> {
    let pushing = Pushing::open(of).await?;
    let names: Vec<BranchName> = pushing
        .own()
        .filter(|branch| pushing.is_free(branch))
        .cloned()
        .collect();
    let full = names.iter().map(BranchName::full).collect();
    let read = RefsAt::read(&pushing.repository, full, &of.caller.cancel).await;
    let refs = read.map_err(|error| Refused::host(&error))?;
    let at = names.iter().take(BRANCHES).filter_map(|branch| {
        let tip = refs.get(&branch.full())?;
        Some((branch.to_string(), tip.to_string()))
    });
    Ok(at.collect())
}

/// Moves a branch of the host's to a commit of the sandbox's.
pub(super) async fn push(of: Of<'_>, asked: &Push, waiting: &mut Waiting) -> Result<(), Refused> {
    let branch: BranchName = asked
        .branch
        .parse()
        .map_err(|error: crate::names::NameError| Refused::Name(error.to_string()))?;
    let named = |refused| match refused {
        Refused::Host { why, .. } => Refused::Host {
            branch: Some(branch.to_string()),
            why,
        },
        other => other,
    };
    let Ok(tip) = asked.tip.parse::<Oid>() else {
        return Err(Refused::Missing(asked.from));
    };
    let pushing = Pushing::open(of).await.map_err(named)?;
    let pushed = Box::pin(pushing.push(&branch, &tip, asked, waiting)).await;
    pushed.map_err(named)
}

impl<'a> Pushing<'a> {
    async fn open(of: Of<'a>) -> Result<Self, Refused> {
        let caller = of.caller;
        let found = async {
            let record =
                registry::load(&caller.home, of.id).map_err(|error| Refused::host(&error))?;
            let workspaces =
                registry::workspaces(&caller.home).map_err(|error| Refused::host(&error))?;
            let start = Start::find(&record.repository, &workspaces)
                .map_err(|error| Refused::host(&error))?;
            let user = caller.user_home.as_deref();
            let found = Repository::discover(&caller.git, &start, user, &caller.cancel).await;
            let repository = found.map_err(|error| Refused::host(&error))?;
            Ok((record, repository))
        };
        let (mut record, repository) = Box::pin(found).await?;
        let found = effective(caller, &repository.top).await;
        let top = repository.top.as_path();
        record.protected = protect::by_now(&record.protected, &found.config, top);
        let noted = shelf::noted(&caller.home, &record, List::Brought)
            .map_err(|error| Refused::host(&error))?;
        Ok(Self {
            of,
            record,
            repository,
            noted,
            is_checked: !CheckPlan::of(&found).is_nothing(),
        })
    }

    /// Those that it may move forward: all that its user has brought to the shelf, which is one for all of a checkout.
    fn own(&self) -> impl Iterator<Item = &BranchName> {
        let lived_in = self.record.dev.iter().filter_map(|dev| dev.branch.as_ref());
        let noted = self.noted.branches();
        lived_in
            .filter(|branch| !self.noted.has(branch))
            .chain(noted)
    }

    /// Whether it is checked out nowhere.
    fn is_free(&self, branch: &BranchName) -> bool {
        worktree::check_free(&self.repository, branch).is_ok()
    }

    fn directory(&self) -> PathBuf {
        self.of.caller.home.sandbox(self.of.id).join(DIRECTORY)
    }

    async fn push(
        &self,
        branch: &BranchName,
        tip: &Oid,
        asked: &Push,
        waiting: &mut Waiting,
    ) -> Result<(), Refused> {
        let (caller, repository) = (self.of.caller, &self.repository);
        let cancel = &caller.cancel;
        let at = self.may_move(branch).await?;
        let directory = self.directory();
        crate::fsx::private_dir(&directory).map_err(|error| Refused::host(&error))?;
        let known = Known::at(directory.join(KNOWN));
        let mut known = known.map_err(|error| Refused::host(&error))?;
        let pushed = shelf::noted(&caller.home, &self.record, List::Pushed);
        let pushed = pushed.map_err(|error| Refused::host(&error))?;
        let given = self.given(branch, at.as_ref(), &pushed);
        let reader = directory.join(READER);
        bare::make(repository, &reader).map_err(|error| Refused::host(&error))?;
        let limit = caller.collect_limit / 4;
        let begun = Packing::begin(
            self.objects(asked.from)?,
            reader,
            tip,
            &given,
            limit,
            cancel,
        );
        let mut packing = begun.map_err(|error| Refused::host(&error))?;
        let behind = packing.behind(&given).await;
        let Some(behind) = behind.map_err(|error| Refused::host(&error))? else {
            return Err(why_not(packing, asked.from).await);
        };
        // The sandbox's word: the branch itself is asked again when it moves.
        if at.as_ref().is_some_and(|at| behind.get(at) != Some(at)) {
            return Err(Refused::NotForward(branch.clone()));
        }
        let bases = self.bases(branch, &given, &behind).await?;
        if asked.dry_run {
            return Ok(());
        }
        let have = known
            .have(&caller.home, repository, &bases.all, cancel)
            .await;
        have.map_err(|error| Refused::host(&error))?;
        let quiet = repository.without_drivers(cancel).await;
        let quiet = quiet.map_err(|error| Refused::host(&error))?;
        let (base, others) = bases.all.split_first().ok_or(Refused::Unrelated)?;
        let gate = Gate {
            repo: quiet,
            id: self.of.id,
            base: base.clone(),
            known: others.to_vec(),
            alternate: known.directory().to_owned(),
            state: directory.clone(),
            holder: Own::Pushed,
            limits: gate::Limits {
                time: limit,
                ..gate::Limits::default()
            },
            rules: rules(&self.record),
        };
        let accepted = self.receive(&gate, packing, tip).await?;
        let moved = self.judged_and_moved(branch, at.as_ref(), &bases.trusted, &accepted, waiting);
        let moved = moved.await;
        self.let_go(tip).await;
        moved?;
        // It has landed, whatever becomes of that.
        if let Err(why) = self.remember(branch, tip, &mut known, &accepted).await {
            let text = format!(
                "what a push of {branch} brought is not remembered for the next one: {why}"
            );
            self.of.events.notice(Notice::Other { text });
        }
        self.tell(branch, at.as_ref(), &accepted);
        Ok(())
    }

    /// For the next push.
    async fn remember(
        &self,
        branch: &BranchName,
        tip: &Oid,
        known: &mut Known,
        accepted: &Accepted,
    ) -> Result<(), VolumeError> {
        let (home, record) = (&self.of.caller.home, &self.record);
        known.add(tip, accepted.pack())?;
        shelf::note(home, record, List::Pushed, branch, tip).await?;
        if self.own().any(|own| own == branch) {
            return Ok(());
        }
        // What judges of its commits is what its user has checked out.
        let start = self.repository.head.commit();
        shelf::note(home, record, List::Brought, branch, start).await
    }

    /// What the branch is at, where it may move.
    async fn may_move(&self, branch: &BranchName) -> Result<Option<Oid>, Refused> {
        let (caller, repository) = (self.of.caller, &self.repository);
        match worktree::check_free(repository, branch) {
            Ok(()) => {}
            Err(WorktreeError::CheckedOut { .. } | WorktreeError::Preserved { .. }) => {
                return Err(Refused::CheckedOut);
            }
            Err(error) => return Err(Refused::host(&error)),
        }
        // A symbolic one leads to another, and is never packed (git-symbolic-ref(1)).
        let place = repository.common_dir.join(branch.full());
        if crate::fsx::read_bounded(&place, 4096).is_ok_and(|text| text.starts_with(b"ref:")) {
            return Err(Refused::Symbolic(branch.clone()));
        }
        let at = refs::read(repository, &branch.full(), &caller.cancel).await;
        let at = at.map_err(|error| Refused::host(&error))?;
        let is_new = at.is_none() && branch.as_str().starts_with(OURS);
        if !is_new && !self.own().any(|own| own == branch) {
            return Err(Refused::Foreign(branch.clone()));
        }
        let holder = Holder::of(&caller.home, &repository.top, branch);
        match holder.map_err(|error| Refused::host(&error))? {
            Some(holder) => Err(Refused::Held(holder.name.to_string())),
            None if is_new && self.has_many().await? => Err(Refused::Full),
            None => Ok(at),
        }
    }

    /// Those that its user has removed make room again.
    async fn has_many(&self) -> Result<bool, Refused> {
        let names: Vec<String> = self.noted.branches().map(BranchName::full).collect();
        if names.len() < BRANCHES {
            return Ok(false);
        }
        let read = RefsAt::read(&self.repository, names.clone(), &self.of.caller.cancel).await;
        let refs = read.map_err(|error| Refused::host(&error))?;
        let there = names.iter().filter(|name| refs.get(name).is_some());
        Ok(there.count() >= BRANCHES)
    }

    /// Commits of the host's that the sandbox was given, those first that are nearest. Where the branch is somewhere else it has what
    /// the sandbox never had.
    fn given(&self, branch: &BranchName, at: Option<&Oid>, pushed: &Noted) -> Vec<Oid> {
        let record = &self.record;
        let pushed = at.filter(|at| pushed.commits(branch).any(|tip| tip == *at));
        let own = [pushed, record.landed.as_ref(), Some(&record.base)];
        let all = own.into_iter().flatten();
        let mut given: Vec<Oid> = Vec::new();
        for one in all.chain(self.noted.commits(branch)) {
            if !given.contains(one) && given.len() < GIVEN {
                given.push(one.clone());
            }
        }
        given
    }

    fn objects(&self, from: From) -> Result<Objects, Refused> {
        match from {
            From::Workspace => Ok(Objects::of(&self.of.caller.home.sandbox(self.of.id))),
            From::Shelf => {
                let shelf = shelf::of(&self.of.caller.home, &self.record);
                let shelf = shelf.map_err(|error| Refused::host(&error))?;
                let shelf = shelf.ok_or(Refused::Missing(from))?;
                Ok(pack::of_shelf(shelf.files()))
            }
        }
    }

    /// What the sandbox says is behind its commit, as far as it is in the history of what it was given.
    async fn bases(
        &self,
        branch: &BranchName,
        given: &[Oid],
        behind: &Behind,
    ) -> Result<Bases, Refused> {
        let (repository, cancel) = (&self.repository, &self.of.caller.cancel);
        let mut all: Vec<Oid> = Vec::new();
        for (one, common) in behind {
            if all.contains(common) {
                continue;
            }
            if !given.contains(common) {
                let is_behind = repository.is_ancestor(common, one, cancel).await;
                if !is_behind.map_err(|error| Refused::host(&error))? {
                    return Err(Refused::Unrelated);
                }
            }
            all.push(common.clone());
        }
        if all.is_empty() {
            return Err(Refused::Unrelated);
        }
        if all.len() > 1 {
            let independent = repository.independent(&all, cancel).await;
            all = independent.map_err(|error| Refused::host(&error))?;
        }
        let start = self.noted.commits(branch).next();
        let trusted = start.unwrap_or(self.repository.head.commit()).clone();
        Ok(Bases { all, trusted })
    }

    async fn receive(&self, gate: &Gate, packing: Packing, tip: &Oid) -> Result<Accepted, Refused> {
        let Packing { pack, ended } = packing;
        let received = gate
            .receive(Input::Fd(pack), tip, &self.of.caller.cancel)
            .await;
        let error = match received {
            Ok(accepted) => return Ok(accepted),
            Err(error) => error,
        };
        // A pack that could not be made explains a refusal better than its remains do.
        if let GateError::Refused {
            pack: Some(remains),
            ..
        } = &error
        {
            // It is where it came from.
            let _ = crate::fsx::remove_file_if_exists(remains);
        }
        match (error, ended.await) {
            (_, Ok(Packed::Failed(exit, said))) => {
                Err(Refused::Gate(format!("git cannot pack it, {exit}: {said}")))
            }
            (GateError::Refused { why, .. }, _) => Err(Refused::Gate(why.to_string())),
            (error @ GateError::TimedOut(_), _) => Err(Refused::Gate(error.to_string())),
            (error, _) => Err(Refused::host(&error)),
        }
    }

    async fn judged_and_moved(
        &self,
        branch: &BranchName,
        at: Option<&Oid>,
        trusted: &Oid,
        accepted: &Accepted,
        waiting: &mut Waiting,
    ) -> Result<(), Refused> {
        let (caller, repository) = (self.of.caller, &self.repository);
        if self.is_checked {
            waiting
                .say("it passed the gate, and is checked now".to_owned())
                .await;
        }
        let checks = Checks::new(caller.clone());
        let judged = checks.attempt(repository, &self.record, (trusted, accepted.tip()));
        if let Err(failed) = Box::pin(judged).await {
            for line in failed.printed() {
                waiting.say(line.to_owned()).await;
            }
            return Err(Refused::Checks(failed));
        }
        let expected = at.map_or(Expected::New, Expected::At);
        let landing =
            land::branch(repository, branch, expected, None, accepted, &caller.cancel).await;
        let why = match landing.map_err(|error| Refused::host(&error))? {
            Landing::Landed { .. } => return Ok(()),
            Landing::Kept { why, .. } => why,
            Landing::Nothing | Landing::Refused { .. } => {
                return Err(Refused::Moved(branch.clone()));
            }
        };
        // Which of the host's it is does not go inside.
        let now = refs::read(repository, &branch.full(), &caller.cancel).await;
        if now.map_err(|error| Refused::host(&error))?.as_ref() != at {
            return Err(Refused::Moved(branch.clone()));
        }
        let all = land::worktrees(repository, &caller.cancel).await;
        let full = branch.full();
        let mut all = all.map_err(|error| Refused::host(&error))?.into_iter();
        if all.any(|one| one.branch.as_deref() == Some(full.as_str())) {
            return Err(Refused::CheckedOut);
        }
        let branch = branch.clone();
        Err(if why.contains(".lock") || why.starts_with(land::AT_WORK) {
            Refused::Locked { branch, why }
        } else {
            Refused::host(&why)
        })
    }

    /// The reference that held them meanwhile.
    async fn let_go(&self, tip: &Oid) {
        let reference = refs::own(self.of.id, Own::Pushed);
        let done = Transaction::new(format!("cofferdam {}", self.of.id))
            .delete(&reference, tip)
            .commit(&self.repository, &self.of.caller.cancel);
        // The next one takes its place.
        let _ = done.await;
    }

    fn tell(&self, branch: &BranchName, at: Option<&Oid>, accepted: &Accepted) {
        let (commits, tip) = (accepted.commits().len(), accepted.tip().short());
        let what = match at {
            Some(at) => format!("{branch} went from {} to {tip}", at.short()),
            None => format!("{branch} is new, at {tip}"),
        };
        let number = if commits == 1 {
            "1 commit".to_owned()
        } else {
            format!("{commits} commits")
        };
        let text = format!("{what}, by a push from inside: {number} through the gate");
        self.of.events.notice(Notice::Other { text });
        if !accepted.executes().is_empty() {
            let paths = accepted.executes().to_vec();
            self.of.events.notice(Notice::Executes { paths });
        }
        for text in accepted.notes() {
            let text = text.clone();
            self.of.events.notice(Notice::Other { text });
        }
    }
}

/// It said nothing of what is behind it.
async fn why_not(packing: Packing, from: From) -> Refused {
    let Packing { pack, ended } = packing;
    drop(pack);
    match ended.await {
        Ok(Packed::Missing) => Refused::Missing(from),
        Ok(Packed::Done) => Refused::Unrelated,
        Ok(Packed::Failed(exit, said)) => {
            Refused::Gate(format!("git cannot pack it, {exit}: {said}"))
        }
        Err(error) => Refused::host(&error),
    }
}
