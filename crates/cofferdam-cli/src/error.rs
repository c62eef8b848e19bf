//! The one place that turns errors into a message, hints and an exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use cofferdam::agent::AgentError;
use cofferdam::fsx::FileError;
use cofferdam::git::RepositoryError;
use cofferdam::git::copies::CopyError;
use cofferdam::git::refs::RefError;
use cofferdam::git::trees::TreeError;
use cofferdam::git::vault::VaultError;
use cofferdam::git::worktree::WorktreeError;
use cofferdam::names::NameError;
use cofferdam::process::ProcessError;
use cofferdam::prompt::PromptError;
use cofferdam::registry::RegistryError;
use cofferdam::sandbox::SandboxError;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{
    AgentFailure, CollectError, Landing, PlanError, RunError, RunErrorKind, SessionError,
};
use cofferdam::text::{printable, printable_bytes_line};
use cofferdam::wall::WallError;
use cofferdam::wall::change::ChangeError;
use cofferdam::wall::log::LogError;

use crate::environment::EnvironmentError;
use crate::input::PromptInputError;
use crate::ui::shell::shell_word;
use crate::ui::{style, summary};

mod living;
mod names;
mod plan;
mod told;
mod wall;

pub(crate) use plan::{access_hint, env_file_hint, hint_within};
pub(crate) use wall::hint as wall_hint;

/// 2: the command line cannot be understood (the code that clap uses too).
const USAGE: u8 = 2;

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
    let text = render(error, colour);
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    match error {
        CliError::Usage(_)
        | CliError::Misused { .. }
        | CliError::Agent(_)
        | CliError::Prompt(_) => ExitCode::from(USAGE),
        CliError::NotStarted { code, .. } => ExitCode::from(*code),
        _ => ExitCode::FAILURE,
    }
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
    let run = match error {
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

fn shown(path: &std::path::Path) -> String {
    printable_bytes_line(path.as_os_str().as_bytes())
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
        next = held(current).or_else(|| current.source());
    }
    if let CliError::Run(run) = error {
        hints.extend(told::hint(run).map(|hint| printable(&hint)));
    }
    if let CliError::Run(run) = error
        && let Some(name) = &run.kept.name
        && matches!(run.kept.landing, Some(Landing::Kept { .. }))
    {
        hints.push(format!("look at the commits with `cofferdam log {name}`"));
    }
    hints
}

/// The error that a variant holds and speaks for: the chain of causes skips it.
fn held<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<CliError>() {
        return match error {
            CliError::Environment(error) => Some(error),
            CliError::Agent(error) => Some(error),
            CliError::Run(error) => Some(&error.kind),
            CliError::Manage(error) => Some(error),
            CliError::Session(error) => Some(error),
            CliError::NotStarted { error, .. } => Some(error.as_ref()),
            CliError::Wall(error) => Some(error),
            CliError::Change(error) => Some(error),
            CliError::NetworkLog(error) => Some(error),
            CliError::File(error) => Some(error),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<RunErrorKind>() {
        return match error {
            RunErrorKind::Repository(error) => Some(error),
            RunErrorKind::Plan(error) => Some(error),
            RunErrorKind::Login(error) => Some(error),
            RunErrorKind::Copy(error) => Some(error),
            RunErrorKind::Registry(error) => Some(error),
            RunErrorKind::Git(error) => Some(error),
            RunErrorKind::Prompt { source, .. } => Some(source),
            RunErrorKind::Worktree(error) => Some(error),
            RunErrorKind::Tree(error) => Some(error),
            RunErrorKind::Vault(error) => Some(error),
            RunErrorKind::Sandbox(error) => Some(error),
            RunErrorKind::Agent { failure, .. } => Some(failure),
            RunErrorKind::Collect(error) => Some(error),
            RunErrorKind::Left(error) => Some(error.as_ref()),
            RunErrorKind::Session(error) => Some(error.as_ref()),
            RunErrorKind::EnvFile(_)
            | RunErrorKind::File(_)
            | RunErrorKind::Before(_)
            | RunErrorKind::Prepare { .. }
            | RunErrorKind::StepTimedOut { .. }
            | RunErrorKind::Hook(_)
            | RunErrorKind::Expression(_)
            | RunErrorKind::Cancelled => None,
        };
    }
    if let Some(PlanError::Name(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(error) = error.downcast_ref::<SessionError>() {
        return living::held(error);
    }
    if let Some(error) = error.downcast_ref::<ManageError>() {
        return match error {
            ManageError::Repository(error) => Some(error),
            ManageError::Registry(error) => Some(error),
            ManageError::Git(error) => Some(error),
            ManageError::Collect(error) => Some(error),
            ManageError::Worktree(error) => Some(error),
            ManageError::Refs(error) => Some(error),
            ManageError::File(_)
            | ManageError::Running { .. }
            | ManageError::Interrupted { .. }
            | ManageError::Uncollectable { .. }
            | ManageError::HalfMerged { .. }
            | ManageError::NoBranch { .. }
            | ManageError::DetachedTarget
            | ManageError::UncommittedWork { .. }
            | ManageError::KeptWork { .. }
            | ManageError::OtherCleansUp
            | ManageError::Orphaned { .. }
            | ManageError::Ambiguous { .. }
            | ManageError::Alive { .. }
            | ManageError::NoIdentity => None,
        };
    }
    if let Some(error) = error.downcast_ref::<ChangeError>() {
        return match error {
            ChangeError::Registry(error) => Some(error),
            ChangeError::Wall(error) => Some(error),
            ChangeError::Add(_) => None,
        };
    }
    match error.downcast_ref::<AgentFailure>()? {
        AgentFailure::Request(error) => Some(error),
        AgentFailure::Sandbox(error) => Some(error),
        AgentFailure::Exit { .. }
        | AgentFailure::Reported(_)
        | AgentFailure::Idle(_)
        | AgentFailure::Cancelled => None,
    }
}

fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<CliError>() {
        return match error {
            CliError::Failed { hint, .. }
            | CliError::Misused { hint, .. }
            | CliError::NotStarted { hint, .. }
            | CliError::Program { hint, .. } => Some(hint.clone()),
            CliError::Usage(_) => Some("see `cofferdam run --help`".to_owned()),
            CliError::Prompt(error) => Some(error.hint()),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<SandboxError>() {
        return sandbox_hint(error);
    }
    if let Some(error) = error.downcast_ref::<SessionError>() {
        return living::hint(error);
    }
    if let Some(error) = error.downcast_ref::<RepositoryError>() {
        return repository_hint(error);
    }
    if let Some(error) = error.downcast_ref::<PlanError>() {
        return plan::plan_hint(error);
    }
    if let Some(error) = error.downcast_ref::<ManageError>() {
        return manage_hint(error);
    }
    if let Some(error) = error.downcast_ref::<EnvironmentError>() {
        return Some(environment_hint(error));
    }
    if let Some(error) = error.downcast_ref::<WallError>() {
        return Some(wall_hint(error));
    }
    if let Some(LogError::Unknown { .. } | LogError::None { .. }) = error.downcast_ref() {
        return Some(NO_LOG_HINT.to_owned());
    }
    if let Some(AgentFailure::Idle(_)) = error.downcast_ref() {
        return Some("allow more with `--idle-timeout`".to_owned());
    }
    match error.downcast_ref() {
        Some(AgentError::NoPrompt { .. }) => {
            return Some(plan::PROMPT_HINT.to_owned());
        }
        Some(AgentError::NoProgram { .. }) => {
            return Some("for example `cofferdam run -- ./my-agent.sh`".to_owned());
        }
        _ => {}
    }
    if let Some(PromptError::File(error)) = error.downcast_ref() {
        return Some(told::template_hint(error));
    }
    if let Some(CopyError::Missing { .. }) = error.downcast_ref() {
        return Some(
            "check the name: it counts from the top of the repository, wherever you stand in it"
                .to_owned(),
        );
    }
    if let Some(PromptError::Empty) = error.downcast_ref() {
        return Some("write into it what the agent is to do".to_owned());
    }
    if let Some(PromptError::MissingArgument { key, also, .. }) = error.downcast_ref() {
        return Some(plan::arguments_hint(key, also));
    }
    if let Some(error) = error.downcast_ref::<WorktreeError>() {
        return names::worktree_hint(error);
    }
    if let Some(error) = error.downcast_ref::<RefError>() {
        return names::ref_hint(error);
    }
    if let Some(VaultError::PartialClone { repository, .. }) = error.downcast_ref() {
        return Some(names::complete_hint(repository));
    }
    if let Some(TreeError::File(_) | TreeError::Index(_)) = error.downcast_ref() {
        return Some("mend that, or leave the files in a worktree: `--mode bind`".to_owned());
    }
    if let Some(error) = error.downcast_ref::<NameError>() {
        return names::name_hint(error);
    }
    if error.is::<CollectError>() {
        return Some(
            "nothing is lost: `cofferdam gc` tries again to bring the commits home".to_owned(),
        );
    }
    if let Some(error) = error.downcast_ref() {
        return Some(registry_hint(error));
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return disk_hint(error);
    }
    if let Some(ProcessError::Start { program, .. }) = error.downcast_ref()
        && (program == "git" || program.ends_with("/git"))
    {
        return Some(GIT_HINT.to_owned());
    }
    None
}

const NO_LOG_HINT: &str = "see which sandboxes there are with `cofferdam list`; a log is kept for 30 days after its sandbox";

fn registry_hint(error: &RegistryError) -> String {
    match error {
        RegistryError::Unknown {
            on_branch: Some(name),
            ..
        } => format!("the sandbox on that branch is `{name}`"),
        RegistryError::Unknown { repository, .. } => format!(
            "see which there are in {} with `cofferdam list`",
            shown(repository)
        ),
        RegistryError::InUse(_) => "wait until that command has ended, and try again".to_owned(),
        RegistryError::Gone(_) => "see what there is with `cofferdam list`".to_owned(),
        RegistryError::Record { path, .. } => format!(
            "another version of cofferdam may have written it; {} holds all that it knows of that sandbox",
            shown(path.parent().unwrap_or(path))
        ),
        RegistryError::Written { path, .. } => format!(
            "it names the repositories in which agents have written; to begin a new one: `rm {}`",
            shell_word(path)
        ),
        RegistryError::NameTaken(name) => names::taken_hint(name),
        // Of what a disk lacks its own error tells.
        RegistryError::File(error) if disk_hint(&error.source).is_some() => String::new(),
        RegistryError::File(_) => {
            "see `cofferdam doctor`, or set COFFERDAM_HOME to a directory of your own".to_owned()
        }
    }
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

fn environment_hint(error: &EnvironmentError) -> String {
    let hint = match error {
        EnvironmentError::Directory { .. } => "give another directory with `-C DIR`",
        EnvironmentError::NoHome => "set HOME, or COFFERDAM_HOME to a directory of your own",
        EnvironmentError::RelativeHome(_) => "set COFFERDAM_HOME to an absolute path",
    };
    hint.to_owned()
}

fn manage_hint(error: &ManageError) -> Option<String> {
    let hint = match error {
        ManageError::Running { .. } => "wait for its end, or stop it with Ctrl-C in its terminal",
        ManageError::Interrupted { .. } => "bring its commits home with `cofferdam gc`",
        ManageError::OtherCleansUp => "wait for its end, then `cofferdam gc` says what is left",
        ManageError::DetachedTarget => "check out a branch with `git switch NAME`",
        ManageError::UncommittedWork { name, files, .. } if files.is_empty() => {
            return Some(format!(
                "see it with `cofferdam diff --uncommitted {name}`, bring it here with `cofferdam apply {name}`, or let go of \
                 it: `cofferdam delete --force {name}`"
            ));
        }
        ManageError::UncommittedWork { name, .. } | ManageError::KeptWork { name, .. } => {
            return Some(format!(
                "save what you need of it, then `cofferdam delete --force {name}`"
            ));
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
                "`cofferdam delete --purge {name}` deletes it without them: they cannot be brought back"
            ));
        }
        ManageError::HalfMerged { name, .. } => {
            return Some(format!(
                "when nothing is in its way, finish it with `cofferdam gc`; `cofferdam delete --purge {name}` leaves the checkout as it is"
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
        SandboxError::Unsupported { hint, .. } => Some(hint.clone()),
        SandboxError::Start(_) => {
            Some("see what this machine lacks with `cofferdam doctor`".to_owned())
        }
        SandboxError::Wall(error) => Some(wall_hint(error)),
        SandboxError::Program { .. }
        | SandboxError::Gone(_)
        | SandboxError::TimedOut(_)
        | SandboxError::Unable { .. }
        | SandboxError::NotRunning
        | SandboxError::Running
        | SandboxError::OtherVersion { .. }
        | SandboxError::Paused
        | SandboxError::Frozen
        | SandboxError::Restless
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
