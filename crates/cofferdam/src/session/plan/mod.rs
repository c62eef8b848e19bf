//! Plan: everything that can be decided and refused before anything is made.

mod branches;
pub(super) mod error;
mod mode;
mod task;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;

pub use error::PlanError;
pub(super) use task::{Prompt, TaskPlan, plan as plan_task, prompt};

use self::branches::branches;
use super::check_plan::CheckPlan;
use super::configured::{effective, plain};
use super::error::RunErrorKind;
use super::event::Notice;
use super::extra::{self, ExtraMountError};
use super::manage::recover_in;
use super::mode_reason::ModeReason;
use super::options::{Caller, SessionOptions};
use super::{as_root, dev, hide, network, place, ports, protect};
use crate::config::{Source, Valued};
use crate::git::discovery::{self, Start};
use crate::git::identity::{self, UserConfig};
use crate::git::{Identity, Repository, copies};
use crate::names::{SandboxId, Slug};
use crate::registry::{
    self, ExtraMount, Lifetime, Mode, PathText, Phase, Record, RegistryError, Setup, Strategy,
    VERSION,
};
use crate::sandbox::{Ability, Contained};

/// What will be done. Made by [`plan`] alone.
#[derive(Debug)]
pub(super) struct Plan {
    pub repository: Repository,
    pub config: UserConfig,
    /// Author of the agent's commits and of a merge.
    pub author: Identity,
    pub record: Record,
    /// Why its files are where they are.
    pub why_mode: ModeReason,
    /// The commit that the branch has now; `None`: it will be made at the base.
    pub branch_exists: bool,
    pub source_branch: String,
    pub target_branch: String,
    /// What the user should know before anything is made.
    pub notices: Vec<Notice>,
    /// `/workspace/<repo>` inside.
    pub workdir: PathBuf,
    /// What runs once inside, when it is up.
    pub setup: Option<SetUp>,
    /// What commits must pass before a branch moves to them.
    pub checks: CheckPlan,
    /// The configuration has commands for a root inside, and there can be one.
    pub root: bool,
}

/// `setup` of the configuration.
#[derive(Debug)]
pub(super) struct SetUp {
    pub command: Valued<String>,
    /// It is none of the configuration's ([`SessionOptions::setup`]): an image without a shell has no use for it.
    pub is_default: bool,
    /// Its variables where the repository wants it.
    pub plain: BTreeMap<OsString, OsString>,
}

/// Plans, once nothing of a dead command's is left in the workspace or where the commits are to land. Also says what
/// was.
pub(super) async fn settled(
    caller: &Caller,
    options: &SessionOptions,
) -> Result<(Plan, Vec<String>), RunErrorKind> {
    let first = plan(caller, options).await?;
    settle(caller, options, first).await
}

/// As [`settled`], with a first plan.
pub(super) async fn settle(
    caller: &Caller,
    options: &SessionOptions,
    first: Plan,
) -> Result<(Plan, Vec<String>), RunErrorKind> {
    let Plan {
        repository, record, ..
    } = &first;
    let mut places = Vec::new();
    if record.mode == Mode::Bind {
        let branch = record.branch.as_ref();
        places.push(place::workspace(repository, &record.strategy, branch));
    }
    if matches!(record.strategy, Strategy::MergeToHead { .. }) {
        places.push(repository.top.as_path().to_owned());
    }
    let (home, user) = (&caller.home, caller.user_home.as_deref());
    let mut finished = Vec::new();
    for place in &places {
        let done = recover_in(home, repository, place, user, &caller.cancel).await;
        finished.extend(done.map_err(|error| RunErrorKind::Left(Box::new(error)))?);
    }
    if finished.is_empty() {
        return Ok((first, finished));
    }
    // Its commits may have moved what is checked out.
    Ok((plan(caller, options).await?, finished))
}

pub(super) async fn plan(caller: &Caller, options: &SessionOptions) -> Result<Plan, RunErrorKind> {
    let home = caller.user_home.as_deref();
    let (git, cancel) = (&caller.git, &caller.cancel);
    let workspaces = registry::workspaces(&caller.home)?;
    let start = Start::find(&options.repository, &workspaces)?;
    let (repository, config, unread) = tokio::join!(
        Repository::discover(git, &start, home, cancel),
        identity::user_config_around(git, &start, home, cancel),
        network::unread(caller)
    );
    // What git says of the directory explains more than what it says of the configuration.
    let (repository, config) = (repository?, config?);
    let author = options.identity.clone().or_else(|| config.identity.clone());
    let author = author.unwrap_or_else(Identity::fallback);
    network::check(&options.network, &options.sandbox)?;
    options.sandbox.check_limits(&options.limits)?;
    if matches!(options.sandbox, Contained::Isolated(_))
        && !options.sandbox.abilities().has(Ability::Git)
    {
        // One of the two brings its work home.
        options.sandbox.require(Ability::Files)?;
    }
    let id = SandboxId::random().map_err(|source| {
        crate::fsx::FileError::new("get random numbers from", "/dev/urandom", source)
    })?;
    let created = Timestamp::now();
    let name = match (&options.dev, &options.name) {
        (Some(of), _) => dev::name(caller, &repository.top, of)?,
        (None, Some(name)) => Slug::sandbox_name(name).map_err(PlanError::from)?,
        (None, None) => Slug::from_text(&format!(
            "{}-{}",
            created.strftime("%Y%m%d-%H%M%S"),
            id.short()
        ))
        .map_err(PlanError::from)?,
    };
    if options.name.is_some() {
        match registry::find(&caller.home, &repository.top, name.as_str()) {
            Ok(_) => return Err(PlanError::NameTaken(name).into()),
            Err(RegistryError::Unknown { .. }) => {}
            // Whoever wrote what cannot be read may have a sandbox of that name.
            Err(error) => return Err(error.into()),
        }
    }
    let branches = branches(caller, options, &repository, &name).await?;
    let main = discovery::main(&repository.top);
    let image = options.sandbox.check(&main).await?;
    // An engine has said by now what it can limit.
    options.sandbox.check_limits(&options.limits)?;
    place::check_own(caller, &repository)?;
    let (mode, why_mode) = mode::choose(caller, options, &repository, &branches.strategy).await?;
    place::check(
        caller,
        options,
        &repository,
        mode,
        &branches.strategy,
        branches.branch.as_ref(),
    )?;
    let target_branch = repository.head.branch_text();
    let source_branch = branches
        .branch
        .as_ref()
        .map_or_else(|| "HEAD".to_owned(), ToString::to_string);
    let mut notices: Vec<Notice> = unread.into_iter().collect();
    if let Some(given) = options
        .name
        .as_ref()
        .filter(|given| **given != name.as_str())
    {
        let (given, name) = (given.clone(), name.clone());
        notices.push(Notice::Renamed { given, name });
    }
    copies::check(repository.top.as_path(), &options.copy)?;
    let found = effective(caller, &repository.top).await;
    if let Some(problem) = found.unread_setting() {
        let problem = problem.to_string();
        return Err(PlanError::Unread { problem }.into());
    }
    let checks = CheckPlan::of(&found);
    let config_says = found.config;
    let top = repository.top.as_path();
    let default = options.setup.clone().map(|value| Valued {
        value,
        source: Source::Global,
        line: 0,
    });
    let setup = config_says.setup.clone().or(default).map(|command| SetUp {
        plain: plain(&config_says),
        is_default: config_says.setup.is_none(),
        command,
    });
    let protected = config_says.protect.iter();
    let protected = protected.filter_map(|one| protect::plain(top, &one.value));
    let protected: Vec<PathBuf> = protected.collect::<Result<_, _>>()?;
    let hidden = hide::plan(
        &repository,
        &branches.base,
        &options.hide,
        &config_says.hide,
        &caller.cancel,
    )
    .await?;
    if !hidden.in_vain.is_empty() {
        let paths = hidden.in_vain.iter().map(|one| {
            let (path, file) = (one.value.display(), one.source.file());
            format!("{path} ({file}:{})", one.line)
        });
        let paths = paths.collect();
        notices.push(Notice::NothingHidden { paths });
    }
    let hidden: Vec<PathText> = hidden.paths.into_iter().map(PathText).collect();
    let mounts = Box::pin(mounts(caller, options, &repository, id, &hidden)).await?;
    let workdir = if options.on_host {
        place::workspace(&repository, &branches.strategy, branches.branch.as_ref())
    } else {
        PathBuf::from("/workspace").join(repository.top.slug().as_str())
    };
    let volumes = match &options.dev {
        Some(_) => dev::volumes(caller, repository.top.as_path()).map_err(PlanError::from)?,
        None => Vec::new(),
    };
    let is_dev = options.dev.is_some();
    let network = Some(options.network.kind());
    let ports = ports::wanted(&options.ports, options.ports_configured, is_dev, network);
    let ports = ports.map_err(PlanError::from)?;
    let root =
        as_root::can_be(is_dev, options.sandbox.abilities()) && as_root::is_wanted(&config_says);
    let record = Record {
        version: VERSION,
        id,
        name,
        repository: repository.top.as_path().to_owned(),
        common_dir: discovery::shared(repository.top.as_path()),
        provider: options.sandbox.provider_name().to_owned(),
        image,
        mode,
        strategy: branches.strategy,
        branch: branches.branch,
        branch_is_ours: branches.ours,
        base: branches.base,
        created,
        phase: Phase::Creating,
        worktree: None,
        made_directories: Vec::new(),
        nested_before: Vec::new(),
        adopted: Vec::new(),
        hidden,
        protected: protected.into_iter().map(PathText).collect(),
        checked: !checks.is_nothing(),
        is_check: false,
        on_host: options.on_host,
        kept: None,
        outcome: None,
        network: Some(options.network.reach()),
        lifetime: Lifetime::Command,
        setup: Setup::Done,
        landed: None,
        landed_at: None,
        squashed: None,
        took_work: false,
        mounts,
        volumes,
        ports,
        ports_configured: options.ports_configured,
        dev: options.dev.clone(),
    };
    Ok(Plan {
        repository,
        config,
        author,
        record,
        why_mode,
        branch_exists: branches.exists,
        source_branch,
        target_branch,
        notices,
        workdir,
        setup,
        checks,
        root,
    })
}

async fn mounts(
    caller: &Caller,
    options: &SessionOptions,
    repository: &Repository,
    id: SandboxId,
    hidden: &[PathText],
) -> Result<Vec<ExtraMount>, RunErrorKind> {
    if matches!(options.sandbox, Contained::Isolated(_)) && !options.mounts.is_empty() {
        let provider = options.sandbox.provider_name().to_owned();
        return Err(PlanError::from(ExtraMountError::NoMounts { provider }).into());
    }
    let beside = extra::Beside {
        caller,
        repository,
        id,
        hidden,
    };
    let checked = extra::check(&options.mounts, beside).await;
    checked.map_err(|error| match error {
        RunErrorKind::Plan(PlanError::Mount(ExtraMountError::Cancelled)) => RunErrorKind::Cancelled,
        error => error,
    })
}
