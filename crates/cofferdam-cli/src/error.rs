//! The one place that turns errors into a message, hints and an exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::process::ExitCode;

use cofferdam::agent::AgentError;
use cofferdam::fsx::FileError;
use cofferdam::git::RepositoryError;
use cofferdam::git::trees::TreeError;
use cofferdam::image::ImageError;
use cofferdam::plan::{Failure, PlanFileError, PlanRunError};
use cofferdam::process::ProcessError;
use cofferdam::registry::RegistryError;
use cofferdam::runs::RunsError;
use cofferdam::sandbox::SandboxError;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{
    AgentFailure, CollectError, Landing, LoginError, RunError, RunErrorKind, SessionError,
    ShelfError,
};
use cofferdam::text::{printable, printable_path as shown};
use cofferdam::volumes::VolumeError;
use cofferdam::wall::WallError;
use cofferdam::wall::change::ChangeError;
use cofferdam::wall::log::LogError;

use crate::environment::EnvironmentError;
use crate::input::PromptInputError;
use crate::ui::shell::shell_word;
use crate::ui::{output, shelf, style, summary};

mod chain;
mod image;
mod living;
mod mount;
mod names;
mod plan;
mod told;
mod volume;
mod wall;

pub(crate) use mount::mount_hint;
pub(crate) use plan::{access_hint, env_file_hint, hint_within};
pub(crate) use wall::hint as wall_hint;

/// 2: the command line cannot be understood (the code that clap uses too).
const USAGE: u8 = 2;
/// 75: the model says "not now", and later it may go (`EX_TEMPFAIL` of sysexits.h).
pub(crate) const LATER: u8 = 75;

/// Everything that ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line asks for something that does not go together.
    #[error("{0}")]
    Usage(String),
    /// As [`Self::Usage`], and the command knows the next step.
    #[error("{message}")]
    Misused { message: String, hint: String },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Prompt(#[from] PromptInputError),
    #[error(transparent)]
    Run(#[from] RunError),
    /// The agent's program could not be started, and the command knows what to do about it.
    #[error("{error}")]
    Program { error: Box<RunError>, hint: String },
    /// A sandbox that stays could not be made: at which step, in the words of the fourth document.
    #[error("{step}: {error}")]
    Unmade {
        step: &'static str,
        #[source]
        error: Box<CliError>,
    },
    #[error(transparent)]
    Manage(#[from] ManageError),
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A program that could not be started in a sandbox: the exit code is a shell's.
    #[error("{error}")]
    NotStarted {
        error: Box<SessionError>,
        code: u8,
        hint: String,
    },
    #[error(transparent)]
    Wall(#[from] WallError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    NetworkLog(#[from] LogError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Runs(#[from] RunsError),
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
    #[error(transparent)]
    PlanRun(#[from] PlanRunError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot start the event loop: {0}")]
    Runtime(std::io::Error),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
    #[error("{message}")]
    Failed { message: String, hint: String },
    /// The user's signal ended the command, and whatever there is to say was said.
    #[error("interrupted")]
    Interrupted { code: u8 },
}

impl CliError {
    /// What is wrong with a word of the command line, the help of its command says: its name, such as `prompt check`.
    pub(crate) fn of(self, command: &str) -> Self {
        match self {
            Self::Usage(message) => Self::Misused {
                message,
                hint: format!("see `cofferdam {command} --help`"),
            },
            error => error,
        }
    }

    /// Without the step before it.
    fn plain(&self) -> &Self {
        match self {
            Self::Unmade { error, .. } => error.as_ref(),
            error => error,
        }
    }
}

/// Prints `error` on standard error and gives the exit code.
pub(crate) fn report(error: &CliError, colour: bool) -> ExitCode {
    match error {
        // The reader has what it wanted (`cofferdam list | head -1`).
        CliError::Output(source) if source.kind() == ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        CliError::Interrupted { code } => return ExitCode::from(*code),
        _ => {}
    }
    output::note(&render(error, colour));
    match error {
        CliError::Usage(_)
        | CliError::Misused { .. }
        | CliError::Agent(_)
        | CliError::Prompt(_) => ExitCode::from(USAGE),
        CliError::NotStarted { code, .. } => ExitCode::from(*code),
        CliError::Run(error) if is_quota(error) => ExitCode::from(LATER),
        _ => ExitCode::FAILURE,
    }
}

/// Whether it was the model's limit that ended it.
pub(crate) fn is_quota(error: &RunError) -> bool {
    matches!(
        error.kind,
        RunErrorKind::Agent {
            failure: AgentFailure::Quota { .. },
            ..
        }
    )
}

/// The message, its causes, what was kept, and hints: one each line.
pub(crate) fn render(error: &CliError, colour: bool) -> String {
    let label = |text: &str, style| style::paint(text, style, colour);
    let stopped = |error: &RunError| matches!(error.kind, RunErrorKind::Cancelled);
    let mut out = match error {
        CliError::Run(error) if stopped(error) => {
            format!(
                "{} the run was stopped\n",
                label("stopped:", style::WARNING)
            )
        }
        _ => format!(
            "{} {}\n",
            label("error:", style::ERROR),
            marked(&message(error))
        ),
    };
    let run = match error.plain() {
        CliError::Run(run) => Some(run),
        CliError::Program { error, .. } => Some(&**error),
        _ => None,
    };
    if let Some(run) = run {
        out.push_str(&summary::unfinished(&run.kept, stopped(run), colour));
    }
    for hint in hints(error) {
        let _ = writeln!(out, "{} {}", label("hint:", style::HINT), marked(&hint));
    }
    out
}

/// Lines after the first are what a program said: none of them passes as one of ours.
fn marked(text: &str) -> String {
    text.replace('\n', "\n  | ")
}

/// The error and those of its causes that it does not already quote.
pub(crate) fn message(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    printable(&text)
}

/// The next steps for everything in the chain of causes that has one.
fn hints(error: &CliError) -> Vec<String> {
    let mut hints = Vec::new();
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = next {
        // Of a sandbox that lives on nobody else brings the commits home.
        let said = current.is::<CollectError>() && !hints.is_empty();
        if let Some(hint) = hint(current).filter(|_| !said) {
            let hint = printable(&hint);
            if !hint.is_empty() && !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        next = chain::held(current).or_else(|| current.source());
    }
    if let CliError::Run(run) = error.plain() {
        hints.extend(told::hint(run).map(|hint| printable(&hint)));
    }
    if let CliError::Run(run) = error.plain()
        && let Some(name) = &run.kept.name
        && matches!(run.kept.landing, Some(Landing::Kept { .. }))
    {
        hints.push(format!("look at the commits with `cofferdam log {name}`"));
    }
    hints
}

/// The next step of one error, whatever caused it.
fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    of(error, command_hint)
        .or_else(|| of(error, image::hint))
        .or_else(|| of(error, sandbox_hint))
        .or_else(|| of(error, living::hint))
        .or_else(|| of(error, repository_hint))
        .or_else(|| of(error, plan::plan_hint))
        .or_else(|| of(error, manage_hint))
        .or_else(|| of(error, environment_hint))
        .or_else(|| of(error, |error| Some(wall_hint(error))))
        .or_else(|| of(error, log_hint))
        .or_else(|| of(error, told::agent_hint))
        .or_else(|| of(error, told::request_hint))
        .or_else(|| of(error, told::prompt_hint))
        .or_else(|| of(error, told::link_hint))
        .or_else(|| of(error, told::copy_hint))
        .or_else(|| of(error, names::worktree_hint))
        .or_else(|| of(error, names::ref_hint))
        .or_else(|| of(error, names::vault_hint))
        .or_else(|| of(error, tree_hint))
        .or_else(|| of(error, names::name_hint))
        .or_else(|| of(error, collect_hint))
        .or_else(|| of(error, registry_hint))
        .or_else(|| of(error, volume::volume_hint))
        .or_else(|| of(error, volume::shelf_hint))
        .or_else(|| of(error, runs_hint))
        .or_else(|| of(error, plan_run_hint))
        .or_else(|| of(error, plan_file_hint))
        .or_else(|| of(error, disk_hint))
        .or_else(|| of(error, process_hint))
}

/// `None` also where it is no such error: each is of one kind.
fn of<E: Error + 'static>(
    error: &(dyn Error + 'static),
    hint: impl FnOnce(&E) -> Option<String>,
) -> Option<String> {
    error.downcast_ref().and_then(hint)
}

fn command_hint(error: &CliError) -> Option<String> {
    match error {
        CliError::Failed { hint, .. }
        | CliError::Misused { hint, .. }
        | CliError::NotStarted { hint, .. }
        | CliError::Program { hint, .. } => Some(hint.clone()),
        CliError::Prompt(error) => Some(error.hint()),
        // What they hold has hints of its own, or there is nothing to be done.
        CliError::Usage(_)
        | CliError::Environment(_)
        | CliError::Agent(_)
        | CliError::Run(_)
        | CliError::Unmade { .. }
        | CliError::Manage(_)
        | CliError::Session(_)
        | CliError::Wall(_)
        | CliError::Change(_)
        | CliError::NetworkLog(_)
        | CliError::File(_)
        | CliError::Volume(_)
        | CliError::Runs(_)
        | CliError::Login(_)
        | CliError::PlanFile(_)
        | CliError::PlanRun(_)
        | CliError::Shelf(_)
        | CliError::Registry(_)
        | CliError::Runtime(_)
        | CliError::Output(_)
        | CliError::Image(_)
        | CliError::Interrupted { .. } => None,
    }
}

fn runs_hint(error: &RunsError) -> Option<String> {
    match error {
        RunsError::Unknown { .. } => Some("see which there are with `cofferdam runs`".to_owned()),
        RunsError::AtWork(_) => Some("wait for its end, or end it by Ctrl-C there".to_owned()),
        RunsError::NoConversation(run) => {
            Some(format!("see what it printed with `cofferdam logs {run}`"))
        }
        RunsError::NotNew { run, .. } => Some(format!(
            "name a directory that is not there yet: `cofferdam runs export {run} DIR`"
        )),
        RunsError::NoParent { run, to } => to.parent().map(|parent| {
            format!(
                "make that one first: `mkdir -p -- {} && cofferdam runs export {run} -- {}`",
                shell_word(parent),
                shell_word(to)
            )
        }),
        RunsError::File(_) | RunsError::Unreadable { .. } => None,
    }
}

fn plan_run_hint(error: &PlanRunError) -> Option<String> {
    match error {
        PlanRunError::AtWork => Some("wait for its end, or end it by Ctrl-C there".to_owned()),
        PlanRunError::CheckedOut { .. } => {
            Some("give the task another branch, or check out another one".to_owned())
        }
        PlanRunError::Unreadable { path, .. } => Some(format!(
            "move it away: then every task of the plan is run anew: `mv {0} {0}.before`",
            shell_word(path)
        )),
        PlanRunError::Agent { .. }
        | PlanRunError::File(_)
        | PlanRunError::Repository(_)
        | PlanRunError::Registry(_)
        | PlanRunError::Cancelled => None,
    }
}

fn plan_file_hint(error: &PlanFileError) -> Option<String> {
    let hint = match error {
        // Where it is a link there is more to say.
        PlanFileError::File(error) if error.link().is_some() => return told::link_hint(error),
        PlanFileError::File(_) => "a plan is a file: docs/orchestration.md shows one",
        PlanFileError::Content { .. } => {
            "mend it at that place: docs/orchestration.md has all keys"
        }
    };
    Some(hint.to_owned())
}

/// As [`render`], of one task of a plan.
pub(crate) fn of_task(failure: &Failure, colour: bool) -> String {
    let label = |text: &str, style| style::paint(text, style, colour);
    let Failure::Run(error) = failure else {
        let said = marked(&message(failure));
        let mut out = format!("{} {said}\n", label("error:", style::ERROR));
        push_hint(&mut out, first_hint(failure), colour);
        return out;
    };
    let stopped = matches!(error.kind, RunErrorKind::Cancelled);
    let mut out = if stopped {
        format!(
            "{} the run was stopped\n",
            label("stopped:", style::WARNING)
        )
    } else {
        let said = marked(&message(&**error));
        format!("{} {said}\n", label("error:", style::ERROR))
    };
    out.push_str(&summary::unfinished(&error.kept, stopped, colour));
    let hint = first_hint(&**error).or_else(|| told::hint(error));
    push_hint(&mut out, hint, colour);
    out
}

/// The next step of the first in the chain of causes that has one.
fn first_hint(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(hint) = hint(current).filter(|hint| !hint.is_empty()) {
            return Some(hint);
        }
        next = chain::held(current).or_else(|| current.source());
    }
    None
}

fn push_hint(out: &mut String, hint: Option<String>, colour: bool) {
    if let Some(hint) = hint {
        let label = style::paint("hint:", style::HINT, colour);
        let _ = writeln!(out, "{label} {}", marked(&printable(&hint)));
    }
}

fn log_hint(error: &LogError) -> Option<String> {
    match error {
        LogError::Unknown { .. } | LogError::None { .. } => Some(NO_LOG_HINT.to_owned()),
        LogError::File(_) => None,
    }
}

fn tree_hint(error: &TreeError) -> Option<String> {
    match error {
        TreeError::File(_) | TreeError::Index(_) => {
            Some("mend that, or leave the files in a worktree: `--mode bind`".to_owned())
        }
        TreeError::Git(_) | TreeError::Cancelled => None,
    }
}

/// Whatever kept the commits from coming home.
#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
fn collect_hint(error: &CollectError) -> Option<String> {
    let otherwise = "nothing is lost: `cofferdam gc` tries again to bring the commits home";
    Some(living::not_home(error, "cofferdam gc", otherwise))
}

fn process_hint(error: &ProcessError) -> Option<String> {
    match error {
        ProcessError::Start { program, .. } if program == "git" || program.ends_with("/git") => {
            Some(GIT_HINT.to_owned())
        }
        ProcessError::Start { .. }
        | ProcessError::TimedOut { .. }
        | ProcessError::Cancelled { .. }
        | ProcessError::TooMuchOutput { .. }
        | ProcessError::Io { .. } => None,
    }
}

const NO_LOG_HINT: &str = "see which sandboxes there are with `cofferdam list`; a log is kept for 30 days after its sandbox";

pub(crate) fn registry_hint(error: &RegistryError) -> Option<String> {
    let hint = match error {
        RegistryError::Unknown {
            on_branch: Some(name),
            ..
        } => format!("the sandbox on that branch is `{name}`"),
        RegistryError::Unknown {
            elsewhere: Some(at),
            ..
        } if at.join(".git").symlink_metadata().is_ok() => format!(
            "there is one of that name in {0}: `cofferdam -C {1} list`",
            shown(at),
            shell_word(&**at)
        ),
        RegistryError::Unknown {
            elsewhere: Some(at),
            ..
        } => format!(
            "it was made in {}, which is gone: `cofferdam list --all-repos` says what can be done",
            shown(at)
        ),
        RegistryError::Unknown { repository, .. } => format!(
            "see which there are in {} with `cofferdam list`",
            shown(repository)
        ),
        RegistryError::InUse(_) => "wait until that command has ended, and try again".to_owned(),
        RegistryError::Gone(_) => "see what there is with `cofferdam list`".to_owned(),
        RegistryError::Record { path, .. } if path.ends_with("sandbox.json") => {
            "use the version of cofferdam that wrote it; `cofferdam collect` and `cofferdam delete` work without it".to_owned()
        }
        RegistryError::Record { path, .. } => format!(
            "use the version of cofferdam that wrote it, or move {} away, which holds all that is known of that sandbox",
            shown(path.parent().unwrap_or(path))
        ),
        RegistryError::Written { path, .. } => format!(
            "it names the repositories in which agents have written; to begin a new one: `rm {}`",
            shell_word(path)
        ),
        RegistryError::NameTaken(name) => names::taken_hint(name),
        RegistryError::BranchTaken { by, .. } => {
            format!("give `--branch` another name, or wait for it: `cofferdam status {by}`")
        }
        // Of what a disk lacks its own error tells.
        RegistryError::File(error) if disk_hint(&error.source).is_some() => return None,
        RegistryError::File(_) => {
            "see `cofferdam doctor`, or set COFFERDAM_HOME to a directory of your own".to_owned()
        }
    };
    Some(hint)
}

/// Where a disk takes nothing more, whatever was being done.
fn disk_hint(error: &std::io::Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "nothing is lost: make room on that disk, then give the same command again"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "nothing is lost: let that disk be written again, then give the same command again; for new sandboxes \
             COFFERDAM_HOME may name another place"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

const GIT_HINT: &str = "install git 2.39 or newer, for example with `apt-get install git`";

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
fn environment_hint(error: &EnvironmentError) -> Option<String> {
    let hint = match error {
        EnvironmentError::Directory { .. } => "give another directory with `-C DIR`",
        EnvironmentError::NoHome => "set HOME, or COFFERDAM_HOME to a directory of your own",
        EnvironmentError::RelativeHome(_) => "set COFFERDAM_HOME to an absolute path",
    };
    Some(hint.to_owned())
}

fn manage_hint(error: &ManageError) -> Option<String> {
    let hint = match error {
        ManageError::Running { .. } => "wait for its end, or stop it with Ctrl-C in its terminal",
        ManageError::Unasked { process, .. } => {
            return Some(format!("end it there, or by a signal: `kill {process}`"));
        }
        ManageError::Interrupted { .. } => "bring its commits home with `cofferdam gc`",
        ManageError::OtherCleansUp => "wait for its end, then `cofferdam gc` says what is left",
        ManageError::Refused {
            name,
            pack,
            has_files,
            ..
        } => {
            let kept = pack.as_ref().map_or_else(String::new, |pack| {
                format!("it is kept in {}; ", shell_word(pack))
            });
            let inside = if *has_files {
                format!(
                    "mend it inside with `cofferdam shell {name}`, then `cofferdam collect {name}` brings it home; "
                )
            } else {
                String::new()
            };
            return Some(format!(
                "{kept}{inside}when nothing of it is needed: `cofferdam delete --force {name}`"
            ));
        }
        ManageError::Unpushed { name, unpushed } => {
            return Some(format!(
                "bring it to a branch here, through the gate, with `{}`",
                shelf::push(name, unpushed)
            ));
        }
        ManageError::DetachedTarget => "check out a branch with `git switch NAME`",
        ManageError::UncommittedWork { name, files, .. } if files.is_empty() => {
            return Some(format!(
                "see it with `cofferdam diff --uncommitted {name}`, bring it here with `cofferdam apply {name}` before you delete \
                 it; when nothing of it is needed: `cofferdam delete --force {name}`"
            ));
        }
        ManageError::KeptWork { name, path } if path.extension().is_some_and(|it| it == "pack") => {
            return Some(format!(
                "where it was mended inside since, nothing of it is needed: `cofferdam delete --force {name}`; else copy that file first (`git unpack-objects` reads it)"
            ));
        }
        ManageError::OnNoOtherBranch { name, .. } => {
            return Some(format!(
                "see them with `cofferdam log {name}`, take them with `cofferdam merge {name}`; when nothing of them is needed: \
                 `cofferdam delete --force --purge {name}`"
            ));
        }
        ManageError::UncommittedWork { name, .. } | ManageError::KeptWork { name, .. } => {
            return Some(format!(
                "save what you need of it, then `cofferdam delete --force {name}`"
            ));
        }
        ManageError::NoBranch { beside, .. } if !beside.is_empty() => {
            return summary::take(beside, "");
        }
        ManageError::NoBranch { running: true, .. } => {
            "wait for the end of its run: `cofferdam list` shows how it stands"
        }
        ManageError::NoBranch {
            name,
            branch,
            tip: Some(tip),
            ..
        } => {
            return Some(format!(
                "bring it back with `git branch {} {}`, or forget the sandbox with `cofferdam delete {name}`",
                shell_word(branch),
                tip.short()
            ));
        }
        ManageError::NoBranch { name, .. } => {
            return Some(format!(
                "forget the sandbox with `cofferdam delete {name}`; what was deleted before is in `git for-each-ref \
                 refs/cofferdam/trash`"
            ));
        }
        ManageError::Orphaned { id, .. } => {
            return Some(format!(
                "put the repository back and run `cofferdam gc`, or give it up with `cofferdam delete --force {id}`"
            ));
        }
        ManageError::Ambiguous { ids, .. } => {
            let commands: Vec<String> = ids
                .iter()
                .map(|id| format!("`cofferdam delete {id}`"))
                .collect();
            return Some(format!("name one by its id: {}", commands.join(", ")));
        }
        ManageError::Uncollectable { name, .. } => {
            return Some(format!(
                "`cofferdam delete --force --purge {name}` deletes it without them: they cannot be brought back"
            ));
        }
        ManageError::Applying { name, .. } => {
            return Some(format!(
                "finish it with `cofferdam apply {name}`, or take it back with `cofferdam apply --undo {name}`; `cofferdam delete \
                 --force {name}` leaves the checkout as it is"
            ));
        }
        ManageError::BranchLeft { name, .. } => {
            return Some(format!(
                "when nothing is in its way any more, `cofferdam delete {name}` deletes it"
            ));
        }
        ManageError::HalfMerged { name, .. } => {
            return Some(format!(
                "when nothing is in its way, finish it with `cofferdam gc`; `cofferdam delete --force --purge {name}` leaves the checkout as it is"
            ));
        }
        ManageError::Alive {
            name,
            source: SandboxError::NoEngine { .. },
        } => return Some(living::gone_for_good(name)),
        ManageError::Others { id, .. } => {
            return Some(format!(
                "end it with the program that made it; then `cofferdam delete --purge {id}` forgets it"
            ));
        }
        ManageError::NoIdentity => {
            "set one: `git config --global user.name NAME && git config --global user.email ADDRESS`"
        }
        ManageError::Repository(_)
        | ManageError::Registry(_)
        | ManageError::Git(_)
        | ManageError::File(_)
        | ManageError::Collect(_)
        | ManageError::Alive { .. }
        | ManageError::Worktree(_)
        | ManageError::Refs(_) => return None,
    };
    Some(hint.to_owned())
}

fn sandbox_hint(error: &SandboxError) -> Option<String> {
    match error {
        SandboxError::Unsupported { hint, .. } | SandboxError::NoEngine { hint, .. } => {
            Some(hint.clone())
        }
        SandboxError::Start(_) => {
            Some("see what this machine lacks with `cofferdam doctor`".to_owned())
        }
        SandboxError::Wall(error) => Some(wall_hint(error)),
        SandboxError::HostProgram { .. } => Some(
            "see which agents there are with `cofferdam doctor`, and install it where your `PATH` leads"
                .to_owned(),
        ),
        SandboxError::Program { .. }
        | SandboxError::Gone(_)
        | SandboxError::TimedOut(_)
        | SandboxError::Unable { .. }
        | SandboxError::NotRunning
        | SandboxError::Running
        | SandboxError::OtherVersion { .. }
        | SandboxError::Paused
        | SandboxError::Frozen
        | SandboxError::Unwatched
        | SandboxError::Restless
        | SandboxError::CarrierEnded { .. }
        | SandboxError::NoProgram(_)
        | SandboxError::NotListening(_)
        | SandboxError::Port { .. }
        | SandboxError::Files { .. }
        | SandboxError::Cancelled => None,
    }
}

fn repository_hint(error: &RepositoryError) -> Option<String> {
    let hint = match error {
        RepositoryError::NotARepository { .. } => {
            "start it in a repository, name one with `-C DIR`, or make one with `git init`"
                .to_owned()
        }
        RepositoryError::AgentsOwn {
            workspace, in_use, ..
        } => {
            if *in_use {
                format!(
                    "wait for its end, or work from `-C {}`",
                    shell_word(workspace)
                )
            } else {
                "its command died: bring its work home with `cofferdam gc`".to_owned()
            }
        }
        RepositoryError::Elsewhere { top, .. } => {
            format!("name that checkout itself with `-C {}`", shell_word(top))
        }
        RepositoryError::Bare { .. } => {
            "make a checkout with `git clone`, or with `git worktree add`".to_owned()
        }
        RepositoryError::Unborn { .. } => {
            "make the first commit: `git commit --allow-empty -m start`".to_owned()
        }
        RepositoryError::ForeignOwner { path } => format!(
            "if you trust it: `git config --global --add safe.directory '{}'`",
            path.to_string_lossy()
        ),
        RepositoryError::OldGit { .. } => GIT_HINT.to_owned(),
        RepositoryError::BranchName(_) => "rename it with `git branch -m NAME`".to_owned(),
        RepositoryError::Path { .. } | RepositoryError::Git(_) => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use cofferdam::git::GitError;
    use cofferdam::git::before::BeforeError;
    use cofferdam::git::gate::GateError;
    use cofferdam::git::refs::RefError;
    use cofferdam::git::vault::VaultError;
    use cofferdam::names::Slug;

    use super::*;

    #[test]
    fn hints_follow_the_chain_of_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] SandboxError);
        let inner = SandboxError::Unsupported {
            what: "no namespaces".into(),
            hint: "do x".into(),
        };
        let outer = Outer(inner);
        assert_eq!(message(&outer), "outer: no namespaces");
        assert_eq!(outer.source().and_then(hint), Some("do x".to_owned()));
    }

    /// An error that speaks with its cause's words is passed over by whoever follows the causes; its hint is not.
    #[test]
    fn hints_are_found_behind_errors_that_speak_for_others() {
        let lacking = || ProcessError::Start {
            program: "/usr/bin/git".to_owned(),
            source: ErrorKind::NotFound.into(),
        };
        let full = RefError::TrashFull(Slug::from_text("one").unwrap());
        let run = |kind| {
            let kept = Box::default();
            hints(&CliError::Run(RunError { kind, kept }))
        };
        let gate = GateError::Git(GitError::Process(lacking()));
        let kinds: [RunErrorKind; 4] = [
            RepositoryError::Git(lacking().into()).into(),
            VaultError::Git(lacking().into()).into(),
            BeforeError::Git(lacking().into()).into(),
            CollectError::Gate(gate).into(),
        ];
        for kind in kinds {
            let told = format!("{kind:?}");
            assert!(run(kind).contains(&GIT_HINT.to_owned()), "{told}");
        }
        let told = run(CollectError::Refs(full).into());
        assert!(told.iter().any(|hint| hint.contains("trash")), "{told:?}");
    }

    #[test]
    fn control_bytes_are_escaped_in_messages_and_hints() {
        let error = CliError::Failed {
            message: "a\u{1b}[2J".into(),
            hint: "b\u{9b}".into(),
        };
        let text = render(&error, false);
        assert_eq!(text, "error: a\\u{1b}[2J\nhint: b\\u{9b}\n");
    }
}
