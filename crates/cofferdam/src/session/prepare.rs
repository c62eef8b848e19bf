//! Prepare: what an agent needs, made in the order of the design: before-ref, worktree, copies,
//! host hooks, private clone, sandbox, ready hooks. The record is written before each thing that
//! outlives a `kill -9`, so that whoever comes next can dispose of it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::announce;
use super::appearing;
use super::emitter::Emitter;
use super::event::{Event, Notice};
use super::hide;
use super::holder::Holder;
use super::hooks;
use super::inside::Inside;
use super::mounts::{self, GitPlace, Workspace};
use super::options::{RunOptions, Timeouts};
use super::place as host_place;
use super::plan::{Plan, PlanError};
use super::protect;
use super::report::RunErrorKind;
use super::shared;
use super::submodules;
use crate::agent::{self, AGENTS, AgentOptions, AgentProgram, AgentProvider};
use crate::fsx::{self, Context};
use crate::git::appearing::Watch;
use crate::git::before::{self, BeforeLimits};
use crate::git::index::{self, Owner};
use crate::git::nested::{self, Found};
use crate::git::private_clone::{PrivateClone, PrivateCloneSpec};
use crate::git::progress::Progress;
use crate::git::vault::Vault;
use crate::git::worktree::{self, Worktree, WorktreeError};
use crate::git::{Repository, UserRules, copies};
use crate::names::BranchName;
use crate::registry::written;
use crate::registry::{self, Mode, Owned, Phase, Record, Strategy};
use crate::sandbox::{
    Contained, HostProgram, IsolatedSandbox, Lifetime, Sandbox, SandboxError, SandboxSpec,
};
use crate::wall::Registration;

/// Fewer are written before anybody can read how many.
const MANY_FILES: u64 = 1000;

/// A sandbox that is up, its workspace in place.
#[derive(Debug, Clone)]
pub(super) enum Ready {
    Mounted(Arc<dyn Sandbox>),
    Isolated(Arc<dyn IsolatedSandbox>),
}

impl Ready {
    pub(super) fn sandbox(&self) -> &dyn Sandbox {
        match self {
            Self::Mounted(sandbox) => sandbox.as_ref(),
            Self::Isolated(sandbox) => sandbox.as_ref(),
        }
    }
}

/// Brings the sandbox up, and returns what is to be watched while an agent works. On an error, what was made is
/// described by `owned`'s record.
pub(super) async fn prepare(
    options: &RunOptions,
    plan: &Plan,
    owned: &mut Owned,
    events: &Emitter,
    slot: &mut Option<Ready>,
) -> Result<Option<Watch>, RunErrorKind> {
    let cancel = &options.cancel;
    let scratch = owned.directory().join("scratch-before");
    let watch = if options.hooks.host_worktree_ready.is_empty() {
        // Nothing changes the user's files before the agent starts: looking for uncommitted work
        // and starting the sandbox can overlap.
        let made = tokio::try_join!(
            record_before(options, plan, scratch, events),
            make(options, plan, owned, events, slot)
        );
        made?.1
    } else {
        record_before(options, plan, scratch, events).await?;
        make(options, plan, owned, events, slot).await?
    };
    let Some(ready) = slot else {
        return Err(SandboxError::Start("no sandbox".into()).into());
    };
    if let Some(login) = &plan.login {
        let (sandbox, inside) = (ready.sandbox(), &plan.environment);
        login.give(sandbox, inside, cancel).await?;
    }
    let workspace = owned.record.workspace(&options.home);
    let (host, inside) = tokio::join!(
        hooks::on_host(
            "host.onSandboxReady",
            &options.hooks.host_sandbox_ready,
            &workspace,
            &options.caller_environment,
            events,
            cancel,
        ),
        hooks::in_sandbox(
            &options.hooks.sandbox_ready,
            ready.sandbox(),
            &plan.environment,
            events,
            cancel
        )
    );
    host?;
    inside?;
    Ok(watch)
}

/// Everything from the vault to a running sandbox. Returns what is to be watched while an agent works.
async fn make(
    options: &RunOptions,
    plan: &Plan,
    owned: &mut Owned,
    events: &Emitter,
    slot: &mut Option<Ready>,
) -> Result<Option<Watch>, RunErrorKind> {
    let cancel = &options.cancel;
    let state = owned.directory().to_owned();
    let vault = Vault::open(&options.home, &plan.repository)?;
    let (exported, ()) = tokio::try_join!(
        async {
            Ok(vault
                .export(&plan.repository, &plan.record.base, cancel)
                .await?)
        },
        make_worktree(options, plan, owned, events)
    )?;
    let workspace = owned.record.workspace(&options.home);
    let git = git_place(owned.record.mode, &workspace)?;
    hooks::on_host(
        "host.onWorktreeReady",
        &options.hooks.host_worktree_ready,
        &workspace,
        &options.caller_environment,
        events,
        cancel,
    )
    .await?;

    events.emit(&Event::Step {
        step: "private clone",
    });
    let scratch = state.join("scratch");
    let hidden = hidden_paths(&owned.record);
    let seen = seen_from(owned, &plan.repository)?;
    if owned.record.mode == Mode::Bind {
        owned.held = crate::git::occupy(&seen.git_dir, cancel).await?;
    }
    let branch = owned.record.branch.as_ref();
    let clone = async {
        let base = &plan.record.base;
        let index = index::build(&seen, base, Owner::AGENT, &hidden, &scratch, cancel).await;
        let index = index.map_err(step("index"))?;
        PrivateClone::create(&PrivateCloneSpec {
            directory: &state,
            repo: &plan.repository,
            export: &exported,
            branch,
            identity: Some(&plan.author),
            config: &plan.config,
            index: Some(&index.bytes),
        })?
        .exclude(&hidden)?;
        Ok::<_, RunErrorKind>((index.gitlinks, index.hidden))
    };
    // Both grow with the number of files; they share nothing.
    // A worktree that was just made has only new files; a hook of the user's may have linked others to it.
    let shared = owned.record.mode == Mode::Bind
        && (owned.record.worktree.is_none() || !options.hooks.host_worktree_ready.is_empty());
    let nested = nested_git(owned.record.mode, &workspace, shared);
    let ((gitlinks, mut tracked), found) = tokio::try_join!(clone, nested)?;
    let (submodules, covered) = if owned.record.mode == Mode::Bind {
        let place = submodules::Place {
            home: &options.home,
            state: &state,
            comparing: &plan.config.comparing,
            hidden: &hidden,
        };
        let submodules = place.prepare(&seen, &plan.record.base, &gitlinks, cancel);
        let covered = hide::cover(&state, &workspace, &hidden)?;
        let submodules = submodules.await?;
        tracked.extend(submodules.tracked);
        (submodules.shown, covered)
    } else {
        (Vec::new(), Vec::new())
    };
    for notice in hide::limits(&workspace, &covered, tracked)
        .into_iter()
        .chain(submodules::notice(&submodules))
    {
        events.notice(notice);
    }
    let home = options.caller_home.as_deref();
    let steering = plan
        .config
        .steering
        .in_tree(&plan.repository, home, &workspace);
    let read_only = protect::protect(owned, options, gitlinks, found.git, steering, events)?;
    let frozen = shared::freeze(&workspace, &found.inodes, events)?;
    shared::cover_doors(&state, &workspace, &found.doors)?;
    if shared {
        shared::remember(&state, &found.inodes)?;
    }

    // From here on an agent or a hook may have made commits and files.
    written::remember(&options.home, &owned.record)?;
    owned.set_phase(Phase::Active)?;
    let place = Workspace {
        source: &workspace,
        target: &plan.workdir,
        state: owned.directory(),
        git,
        mask_config: owned.record.mode == Mode::Bind,
        read_only: &read_only,
        frozen: &frozen,
        doors: &found.doors,
        submodules: &submodules,
        hidden: &covered,
    };
    start(options, plan, owned, &place, events, slot).await?;
    // In other worktrees nobody but their agent is.
    if owned.record.strategy != Strategy::Head {
        return Ok(None);
    }
    Ok(appearing::start(owned, workspace, found.directories, events).await)
}

fn rules<'a>(options: &'a RunOptions, plan: &'a Plan) -> UserRules<'a> {
    UserRules {
        config: Some(&plan.config),
        caller_home: options.caller_home.as_deref(),
    }
}

fn hidden_paths(record: &Record) -> Vec<PathBuf> {
    record.hidden.iter().map(|path| path.0.clone()).collect()
}

/// Before `head` on a dirty tree, the user's state is recorded (invariant 9).
async fn record_before(
    options: &RunOptions,
    plan: &Plan,
    scratch: PathBuf,
    events: &Emitter,
) -> Result<(), RunErrorKind> {
    if plan.record.strategy != Strategy::Head {
        return Ok(());
    }
    let (repo, id, cancel) = (&plan.repository, plan.record.id, &options.cancel);
    let (rules, hidden) = (rules(options, plan), hidden_paths(&plan.record));
    let seen = before::look(repo, rules, &hidden, scratch, cancel).await?;
    let uncommitted = seen.changes().0.len();
    events.announce(|| announce::events(options, plan, events.path(), uncommitted));
    let recorded = before::record(repo, seen, id, BeforeLimits::default(), cancel);
    let Some(recorded) = recorded.await? else {
        return Ok(());
    };
    events.notice(Notice::BeforeRecorded {
        reference: before::reference(id),
    });
    for (path, why) in recorded.not_recorded {
        let text = format!("{} was not recorded: {why}", path.display());
        events.notice(Notice::Other { text });
    }
    Ok(())
}

async fn make_worktree(
    options: &RunOptions,
    plan: &Plan,
    owned: &mut Owned,
    events: &Emitter,
) -> Result<(), RunErrorKind> {
    let cancel = &options.cancel;
    let repo = &plan.repository;
    if owned.record.mode == Mode::Copy {
        fsx::private_dir(&owned.record.workspace(&options.home))?;
    }
    if let (Some(branch), false) = (
        &owned.record.branch,
        owned.record.strategy == Strategy::Head,
    ) {
        events.emit(&Event::Step { step: "worktree" });
        if owned.record.mode == Mode::Bind {
            let path = worktree::directory(repo).join(worktree::directory_name(branch));
            // What is there already is not this sandbox's: it must not be in the record.
            if std::fs::symlink_metadata(&path).is_err() {
                owned.record.worktree = Some(path);
                owned.save()?;
            }
            let rules = rules(options, plan);
            let base = (!plan.branch_exists).then_some(&plan.record.base);
            let branch = branch.clone();
            let sink = options.events.clone();
            let progress = Progress::new(move |done, of| {
                let step = "worktree";
                if of >= MANY_FILES {
                    sink.emit(&Event::Progress { step, done, of });
                }
            });
            if let Err(error) =
                worktree::add_watched(repo, &branch, base, rules, Some(&progress), cancel).await
            {
                owned.record.worktree = None;
                owned.save()?;
                return Err(branch_held(options, repo, branch, error)?);
            }
        } else {
            let full = branch.full();
            for listed in worktree::list(repo, cancel).await? {
                if listed.branch.as_deref() == Some(full.as_bytes()) {
                    let (branch, at) = (branch.clone(), listed.path);
                    return Err(PlanError::CheckedOut { branch, at }.into());
                }
            }
        }
    }
    copies(
        options,
        plan,
        &owned.record.workspace(&options.home),
        events,
    )
    .await
}

/// Two runs began at once on one branch: planning did not see the other's worktree yet.
fn branch_held(
    options: &RunOptions,
    repo: &Repository,
    branch: BranchName,
    error: WorktreeError,
) -> Result<RunErrorKind, RunErrorKind> {
    let held = matches!(
        error,
        WorktreeError::Preserved { .. } | WorktreeError::CheckedOut { .. }
    );
    let holder = if held {
        Holder::of(&options.home, &repo.top, &branch)?
    } else {
        None
    };
    Ok(match holder {
        Some(holder) => PlanError::BranchHeld { branch, holder }.into(),
        None => error.into(),
    })
}

async fn copies(
    options: &RunOptions,
    plan: &Plan,
    workspace: &Path,
    events: &Emitter,
) -> Result<(), RunErrorKind> {
    if options.copy.is_empty() {
        return Ok(());
    }
    events.emit(&Event::Step { step: "copies" });
    let Timeouts { copy: limit, .. } = options.timeouts;
    let hidden = hidden_paths(&plan.record);
    let copied = copies::copy_into(
        workspace,
        plan.repository.top.as_path(),
        &options.copy,
        &hidden,
        &options.cancel,
    );
    let copied =
        tokio::time::timeout(limit, copied)
            .await
            .map_err(|_| RunErrorKind::StepTimedOut {
                step: "copying into the worktree",
                limit,
            })??;
    for path in copied.missing {
        events.notice(Notice::CopyMissing { path });
    }
    for path in copied.skipped {
        let text = format!(
            "{} was not copied: it is no file, directory or link",
            path.display()
        );
        events.notice(Notice::Other { text });
    }
    Ok(())
}

/// The repository as seen from the workspace: its index has the files' stat data.
fn seen_from(owned: &Owned, repo: &Repository) -> Result<Repository, RunErrorKind> {
    match (&owned.record.worktree, &owned.record.branch) {
        (Some(path), Some(branch)) => {
            let base = owned.record.base.clone();
            Ok(Worktree::find(repo, path, branch.clone(), base)?.repository(repo)?)
        }
        _ => Ok(repo.clone()),
    }
}

/// How the workspace's `.git` is covered.
fn git_place(mode: Mode, workspace: &Path) -> Result<GitPlace, RunErrorKind> {
    let dot_git = workspace.join(".git");
    if mode == Mode::Copy {
        fsx::private_dir(&dot_git)?;
        return Ok(GitPlace::Directory);
    }
    let found = std::fs::symlink_metadata(&dot_git).context("look at", &dot_git)?;
    if found.is_symlink() {
        return Err(PlanError::GitSymlink(dot_git).into());
    }
    Ok(if found.is_dir() {
        GitPlace::Directory
    } else {
        GitPlace::Pointer
    })
}

/// What [`nested::scan_before`] finds below a workspace that is the host's.
async fn nested_git(mode: Mode, workspace: &Path, inodes: bool) -> Result<Found, RunErrorKind> {
    if mode == Mode::Copy {
        return Ok(Found::default());
    }
    let top = workspace.to_owned();
    let failed = step("scan for nested git directories");
    let scan = tokio::task::spawn_blocking(move || nested::scan_before(&top, inodes)).await;
    scan.map_err(step("scan for nested git directories"))?
        .map_err(failed)
}

async fn start(
    options: &RunOptions,
    plan: &Plan,
    owned: &Owned,
    place: &Workspace<'_>,
    events: &Emitter,
    slot: &mut Option<Ready>,
) -> Result<(), RunErrorKind> {
    events.emit(&Event::Step { step: "sandbox" });
    let began = Instant::now();
    let isolated = matches!(options.sandbox, Contained::Isolated(_));
    let spec = SandboxSpec {
        id: owned.record.id,
        slug: owned.record.name.clone(),
        hostname: format!(
            "cofferdam-{}-{}",
            plan.repository.top.slug(),
            owned.record.name
        ),
        workdir: plan.workdir.clone(),
        mounts: if isolated {
            Vec::new()
        } else {
            mounts::mounts(place)
        },
        environment: std::collections::BTreeMap::new(),
        search_path: options
            .caller_environment
            .get(std::ffi::OsStr::new("PATH"))
            .cloned(),
        caller_home: options.caller_home.clone(),
        programs: programs(options.agent.as_ref()),
        unseen: registry::unseen(
            &options.home,
            plan.repository.top.as_path(),
            options.caller_home.as_deref(),
        )?,
        limits: options.limits.clone(),
        network: options
            .network
            .spec(&options.home, &owned.record, &plan.repository.top),
        lifetime: Lifetime::WithMaker,
    };
    host_place::check_mounts(&spec.mounts, &options.home)?;
    let limit = options.timeouts.sandbox_start;
    let create = async {
        match &options.sandbox {
            Contained::BindMount(kind) => Ok(Ready::Mounted(
                kind.provider.create(&spec, &options.cancel).await?,
            )),
            Contained::PrivateCopy(kind) => Ok(Ready::Mounted(
                kind.provider.create(&spec, &options.cancel).await?,
            )),
            Contained::Isolated(kind) => Ok(Ready::Isolated(
                kind.provider.create(&spec, &options.cancel).await?,
            )),
        }
    };
    let ready =
        tokio::time::timeout(limit, create)
            .await
            .map_err(|_| RunErrorKind::StepTimedOut {
                step: "starting the sandbox",
                limit,
            })?;
    let ready = slot.insert(ready.map_err(|error: SandboxError| match error {
        SandboxError::Cancelled => RunErrorKind::Cancelled,
        error => error.into(),
    })?);
    let problems = ready.sandbox().wall().map(Registration::problems);
    for problem in problems.unwrap_or_default() {
        let text = problem.message();
        let said = |notice: &Notice| matches!(notice, Notice::ConfigUnread { text: said } if *said == text);
        if plan.notices.iter().any(said) {
            continue;
        }
        events.notice(Notice::NetworkConfig { text });
    }
    if let Ready::Isolated(sandbox) = ready {
        let sent = super::transfer::send(
            owned.directory(),
            place.source,
            &plan.workdir,
            sandbox.as_ref(),
        );
        tokio::time::timeout(limit, sent)
            .await
            .map_err(|_| RunErrorKind::StepTimedOut {
                step: "copying into the sandbox",
                limit,
            })??;
    }
    if owned.record.mode == Mode::Copy {
        check_out(options, plan, ready.sandbox()).await?;
    }
    events.emit(&Event::SandboxReady {
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    Ok(())
}

/// The programs that a sandbox shows as the user has them: this agent's, and those of all agents that are known,
/// because scripts start them too.
fn programs(agent: &dyn AgentProvider) -> Vec<HostProgram> {
    let known = AGENTS.iter().filter_map(|kind| {
        let agent = agent::by_name(kind.name, AgentOptions::default()).ok()?;
        agent.program().map(host_program)
    });
    let own = agent.program().map(host_program);
    let mut programs: Vec<HostProgram> = Vec::new();
    for program in own.into_iter().chain(known) {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    programs
}

fn host_program(program: AgentProgram<'_>) -> HostProgram {
    HostProgram {
        name: program.name.to_owned(),
        directories: program.directories.iter().map(PathBuf::from).collect(),
    }
}

/// Writes the source commit's files into a private copy, by the sandbox's own git.
async fn check_out(
    options: &RunOptions,
    plan: &Plan,
    sandbox: &dyn Sandbox,
) -> Result<(), RunErrorKind> {
    let inside = Inside {
        sandbox,
        arguments: ["git", "reset", "--hard", "--quiet", "HEAD"]
            .map(Into::into)
            .to_vec(),
        environment: &plan.environment,
        limit: options.timeouts.sandbox_start,
        output_limit: 1 << 20,
    };
    let done = inside.run(&options.cancel).await.map_err(step("copy"))?;
    if done.exit.success() {
        return Ok(());
    }
    let text = crate::text::printable(String::from_utf8_lossy(&done.stderr).trim_end());
    Err(SandboxError::Start(format!("the checkout in it failed: {text}")).into())
}

/// Wraps a module's own error with the step's name.
pub(super) fn step<E: Error + Send + Sync + 'static>(
    step: &'static str,
) -> impl Fn(E) -> RunErrorKind {
    move |source| RunErrorKind::Prepare {
        step,
        source: Box::new(source),
    }
}
