//! Plan: everything that can be decided and refused before anything is made.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;

use super::access;
use super::envfile::{NotTrusted, Withheld};
use super::event::Notice;
use super::hide;
use super::holder::Holder;
use super::login::Login;
use super::model;
use super::network;
use super::options::{PromptSource, RunOptions};
use super::place;
use super::program;
use super::report::RunErrorKind;
use super::variables;
use crate::git::discovery::Start;
use crate::git::identity::{self, UserConfig};
use crate::git::{Head, Identity, Oid, Repository, copies, worktree};
use crate::names::{BranchName, NameError, SandboxId, Slug};
use crate::prompt::{self, PromptError, Substituted};
use crate::registry::{self, Mode, PathText, Phase, Record, Strategy, VERSION};
use crate::sandbox::{BranchStrategy, Contained, NetworkKind};

/// A run that cannot be, found before anything was made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("HEAD is detached: there is no branch to merge into")]
    DetachedTarget,
    #[error("`--copy` needs a worktree, and the head strategy works in the checkout itself")]
    CopyWithHead,
    #[error("{} cannot be hidden: {why}", path.display())]
    Hide { path: PathBuf, why: &'static str },
    #[error("branch `{branch}` is checked out in {}", at.display())]
    CheckedOut { branch: BranchName, at: PathBuf },
    #[error("`{0}` does not name a commit")]
    UnknownBase(String),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    /// Another sandbox works on that branch, or left work there that is in no commit.
    #[error("branch `{branch}` is {holder}")]
    BranchHeld { branch: BranchName, holder: Holder },
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("branch `{0}` exists already, and it would be this sandbox's temporary branch")]
    BranchTaken(BranchName),
    #[error("{} is a symlink: the head strategy cannot cover it", .0.display())]
    GitSymlink(PathBuf),
    #[error("Cofferdam's own directory {} is the one for settings in this repository", .0.display())]
    SharedHome(PathBuf),
    #[error("{} is not given to a sandbox: Cofferdam's own directory {} is in it", directory.display(), home.display())]
    ShowsHome { directory: PathBuf, home: PathBuf },
    #[error("{} is not given to a sandbox: it is in Cofferdam's own directory {}", directory.display(), home.display())]
    InHome { directory: PathBuf, home: PathBuf },
    #[error("{} is not given to a sandbox: {why}", directory.display())]
    RefusedWorkspace {
        directory: PathBuf,
        why: &'static str,
    },
    #[error("there are {count} sockets, pipes or devices of other programs in the workspace: {}{}", listed(some), if *count > some.len() { " …" } else { "" })]
    ManySockets { count: usize, some: Vec<PathBuf> },
    #[error("{count} files of the workspace have names outside of it, or run with rights of their owner's, and lie too far apart to be made read-only: {}{}", listed(some), if *count > some.len() { " …" } else { "" })]
    ManyLinks { count: usize, some: Vec<PathBuf> },
    #[error("an empty completion signal would match everything")]
    EmptySignal,
    #[error("`{variable}` says that the agent's model is at {what}, which is refused: {reason}")]
    ModelRefused {
        variable: &'static str,
        /// Host and port.
        what: String,
        reason: String,
        /// The text of the rule that would open it, if one should.
        opens: Option<String>,
    },
    /// The loopback of a sandbox is its own, and nothing has been started there.
    #[error(
        "`{variable}` says that the agent's model is at {what}, and that is the sandbox itself there"
    )]
    ModelInside {
        variable: &'static str,
        what: String,
        /// Scheme, host and port of the same on this machine, as a sandbox reaches it.
        url: String,
        /// The address goes on after its port. That part may hold a key, and is not shown.
        has_more: bool,
        /// The rule that opens it.
        opens: String,
    },
    #[error("`{variable}` is no http or https address of a model")]
    ModelAddress { variable: &'static str },
    #[error("{agent} has neither a key nor a login: its model would not answer it")]
    NoAccess {
        agent: String,
        /// The variables each of which is enough.
        keys: &'static [&'static str],
        /// The file, relative to a home, in which its program keeps a login.
        login: Option<&'static str>,
        /// The program that makes the login.
        program: Option<String>,
    },
    /// The agent's key is in a file that may be the repository's.
    #[error(
        "{agent} has no key: `.cofferdam/.env` sets {variable}, and no key is taken from it, because {why}"
    )]
    KeyWithheld {
        agent: String,
        variable: String,
        why: NotTrusted,
        /// The repository's.
        top: PathBuf,
    },
    #[error("provider `{provider}` cannot give its sandboxes the network `{}`; it gives {}", asked.as_str(), network::listed(given))]
    NoSuchNetwork {
        provider: String,
        asked: NetworkKind,
        given: Vec<NetworkKind>,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// What will be done. Made by [`plan`] alone.
#[derive(Debug)]
pub(super) struct Plan {
    pub repository: Repository,
    pub config: UserConfig,
    /// Author of the agent's commits and of a merge.
    pub author: Identity,
    pub record: Record,
    /// The commit that the branch has now; `None`: it will be made at the base.
    pub branch_exists: bool,
    pub source_branch: String,
    pub target_branch: String,
    pub prompt: Prompt,
    pub unused_arguments: Vec<String>,
    /// Everything the agent finds in its environment beside the provider's own.
    pub environment: BTreeMap<OsString, OsString>,
    /// What a file of the repository may not say.
    pub withheld: Withheld,
    /// The agent's login.
    pub login: Option<Login>,
    /// What the user should know before anything is made.
    pub notices: Vec<Notice>,
    /// `/workspace/<repo>` inside.
    pub workdir: PathBuf,
}

/// The prompt before its shell expressions are expanded.
#[derive(Debug)]
pub(super) enum Prompt {
    Plain(String),
    Template(Substituted),
}

impl Prompt {
    /// Puts `text` below it, an empty line between.
    fn attach(&mut self, text: &str) {
        match self {
            Self::Plain(prompt) if prompt.is_empty() => text.clone_into(prompt),
            Self::Plain(prompt) => {
                let between = if prompt.ends_with('\n') { "\n" } else { "\n\n" };
                prompt.push_str(between);
                prompt.push_str(text);
            }
            Self::Template(template) => template.attach(text),
        }
    }
}

pub(super) async fn plan(options: &RunOptions) -> Result<Plan, RunErrorKind> {
    let home = options.caller.user_home.as_deref();
    let (git, cancel) = (&options.caller.git, &options.caller.cancel);
    let workspaces = registry::workspaces(&options.caller.home)?;
    let start = Start::find(&options.session.repository, &workspaces)?;
    let (repository, config, unread) = tokio::join!(
        Repository::discover(git, &start, home, cancel),
        identity::user_config_around(git, &start, home, cancel),
        network::unread(options)
    );
    // What git says of the directory explains more than what it says of the configuration.
    let (repository, config) = (repository?, config?);
    let author = options
        .session
        .identity
        .clone()
        .or_else(|| config.identity.clone());
    let author = author.unwrap_or_else(Identity::fallback);
    if options
        .task
        .completion_signals
        .iter()
        .any(|signal| signal.trim().is_empty())
    {
        return Err(PlanError::EmptySignal.into());
    }
    network::check(&options.session.network, &options.session.sandbox)?;
    options
        .session
        .sandbox
        .check_limits(&options.session.limits)?;
    let id = SandboxId::random().map_err(|source| {
        crate::fsx::FileError::new("get random numbers from", "/dev/urandom", source)
    })?;
    let created = Timestamp::now();
    let name = match &options.session.name {
        Some(name) => Slug::sandbox_name(name).map_err(PlanError::from)?,
        None => Slug::from_text(&format!(
            "{}-{}",
            created.strftime("%Y%m%d-%H%M%S"),
            id.short()
        ))
        .map_err(PlanError::from)?,
    };
    if options.session.name.is_some()
        && registry::find(&options.caller.home, &repository.top, name.as_str()).is_ok()
    {
        return Err(PlanError::NameTaken(name).into());
    }
    let branches = branches(options, &repository, &name).await?;
    let mode = match &options.session.sandbox {
        Contained::BindMount(_) => Mode::Bind,
        Contained::PrivateCopy(_) | Contained::Isolated(_) => Mode::Copy,
    };
    place::check(
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
    let (mut prompt, unused_arguments) =
        prompt(&options.task.prompt, &source_branch, &target_branch)?;
    if let Some(text) = &options.task.attached {
        prompt.attach(text);
    }
    let (environment, withheld) = variables::of_a_run(options, &repository).await?;
    let login = Login::find(options)?;
    let mut notices: Vec<Notice> = unread.into_iter().collect();
    if let Some(given) = options
        .session
        .name
        .as_ref()
        .filter(|given| **given != name.as_str())
    {
        let (given, name) = (given.clone(), name.clone());
        notices.push(Notice::Renamed { given, name });
    }
    notices.extend(access::check(
        options,
        repository.top.as_path(),
        &environment,
        &withheld,
        login.is_some(),
    )?);
    let logged_in = login.is_some();
    notices.extend(model::check(
        options,
        &repository.top,
        id,
        &environment,
        logged_in,
    )?);
    program::check(
        options,
        &repository,
        &branches.strategy,
        &branches.base,
        &environment,
    )
    .await?;
    copies::check(repository.top.as_path(), &options.session.copy)?;
    let hidden = hide::plan(
        &repository,
        &branches.base,
        &options.session.hide,
        &options.caller.cancel,
    )
    .await?;
    let workdir = PathBuf::from("/workspace").join(repository.top.slug().as_str());
    let record = Record {
        version: VERSION,
        id,
        name,
        repository: repository.top.as_path().to_owned(),
        provider: options.session.sandbox.provider_name().to_owned(),
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
        hidden: hidden.into_iter().map(PathText).collect(),
        kept: None,
        outcome: None,
        network: Some(options.session.network.reach()),
    };
    Ok(Plan {
        repository,
        config,
        author,
        record,
        branch_exists: branches.exists,
        source_branch,
        target_branch,
        prompt,
        unused_arguments,
        environment,
        withheld,
        login,
        notices,
        workdir,
    })
}

struct Branches {
    strategy: Strategy,
    branch: Option<BranchName>,
    base: Oid,
    exists: bool,
    ours: bool,
}

async fn branches(
    options: &RunOptions,
    repository: &Repository,
    name: &Slug,
) -> Result<Branches, RunErrorKind> {
    let cancel = &options.caller.cancel;
    match options.session.sandbox.strategy() {
        BranchStrategy::Head => {
            if !options.session.copy.is_empty() {
                return Err(PlanError::CopyWithHead.into());
            }
            Ok(Branches {
                strategy: Strategy::Head,
                branch: repository.head.branch().cloned(),
                base: repository.head.commit().clone(),
                exists: true,
                ours: false,
            })
        }
        BranchStrategy::MergeToHead => {
            let Head::Branch {
                name: target,
                commit,
            } = &repository.head
            else {
                return Err(PlanError::DetachedTarget.into());
            };
            let branch: BranchName = format!("cofferdam/{name}")
                .parse()
                .map_err(PlanError::from)?;
            // Only a name that the user chose can meet an old branch.
            if options.session.name.is_some()
                && repository.resolve(&branch.full(), cancel).await?.is_some()
            {
                return Err(PlanError::BranchTaken(branch).into());
            }
            Ok(Branches {
                strategy: Strategy::MergeToHead {
                    target: target.clone(),
                },
                branch: Some(branch),
                base: commit.clone(),
                exists: false,
                ours: true,
            })
        }
        BranchStrategy::Branch { branch, base } => {
            if repository.head.branch() == Some(&branch) {
                let at = repository.top.as_path().to_owned();
                return Err(PlanError::CheckedOut { branch, at }.into());
            }
            if let Some(holder) = Holder::of(&options.caller.home, &repository.top, &branch)? {
                return Err(PlanError::BranchHeld { branch, holder }.into());
            }
            worktree::check_free(repository, &branch)?;
            let tip = repository.resolve(&branch.full(), cancel).await?;
            let (start, exists) = match (tip, base) {
                (Some(tip), _) => (tip, true),
                (None, None) => (repository.head.commit().clone(), false),
                (None, Some(base)) => {
                    let found = repository.resolve(&base, cancel).await?;
                    (found.ok_or(PlanError::UnknownBase(base))?, false)
                }
            };
            Ok(Branches {
                strategy: Strategy::Branch,
                branch: Some(branch),
                base: start,
                exists,
                ours: !exists,
            })
        }
    }
}

fn prompt(
    source: &PromptSource,
    source_branch: &str,
    target_branch: &str,
) -> Result<(Prompt, Vec<String>), RunErrorKind> {
    match source {
        PromptSource::None => Ok((Prompt::Plain(String::new()), Vec::new())),
        PromptSource::Inline(text) if text.trim().is_empty() => Err(PlanError::EmptyPrompt.into()),
        PromptSource::Inline(text) => Ok((Prompt::Plain(text.clone()), Vec::new())),
        PromptSource::Template { path, arguments }
        | PromptSource::TemplateText {
            name: path,
            arguments,
            ..
        } => {
            let named = |source| RunErrorKind::Prompt {
                path: path.clone(),
                source,
            };
            let text = match source {
                PromptSource::TemplateText { text, .. } => text.clone(),
                _ => prompt::read_template(path).map_err(named)?,
            };
            let template = prompt::Template::parse(&text).map_err(named)?;
            let builtins = prompt::Builtins {
                source_branch,
                target_branch,
            };
            let (substituted, unused) = template.substitute(arguments, builtins).map_err(named)?;
            if substituted.is_blank() {
                return Err(named(PromptError::Empty));
            }
            Ok((Prompt::Template(substituted), unused))
        }
    }
}
