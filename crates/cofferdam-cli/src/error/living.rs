//! What to do about sandboxes that live on.

use std::error::Error;

use cofferdam::sandbox::SandboxError;
use cofferdam::session::{CollectError, ExtraMountError, SessionError, SyncError, WatchError};
use cofferdam::wall::supervisor::SupervisorError;

use super::mount;
use crate::ui::shell::shell_word;

/// What there is to do where a checkout cannot be watched: inotify has bounds for all programs of a user.
pub(super) const UNWATCHED: &str = "where inotify is used up, stop another sandbox, or raise `fs.inotify.max_user_watches` and \
                                    `fs.inotify.max_user_instances` (sysctl); a sandbox without `--head` has files of its own";

/// The next step.
pub(super) fn hint(error: &SessionError) -> Option<String> {
    let hint = match error {
        SessionError::OfARun { name } => format!(
            "look at its work with `cofferdam log {name}`; one that stays is made with `cofferdam create NAME`"
        ),
        SessionError::Making { .. } => "wait until its `cofferdam create` is through".to_owned(),
        SessionError::FailedSetup { name } => format!(
            "look into it with `cofferdam shell {name}`, then set it up again with `cofferdam start {name}`, or make it anew: `cofferdam delete --force {name}`"
        ),
        SessionError::SetUp { name, .. } => format!(
            "look into it with `cofferdam shell {name}`; `cofferdam start {name}` sets it up again"
        ),
        SessionError::Missing { name, .. } => format!(
            "bring home what is committed with `cofferdam collect {name}`; remove the rest with \
             `cofferdam delete --force {name}`"
        ),
        SessionError::Undermined { name } => format!(
            "they are written again by `cofferdam stop {name}` and `cofferdam start {name}`; nothing of what was changed \
             in it is lost"
        ),
        SessionError::Ended { name } => format!(
            "what it committed: `cofferdam log {name}`; what it did not: `cofferdam diff --uncommitted {name}`; go on \
             in it with `cofferdam shell {name}`, if it kept its files"
        ),
        SessionError::InWorktree { path, .. } => format!(
            "go on there; or save what you need of it, then `git worktree remove --force {}`",
            shell_word(path)
        ),
        SessionError::NoDev { of, .. } => match &of.branch {
            Some(branch) => format!("make it with `cofferdam start --branch {branch}`"),
            None => "make it with `cofferdam start`; any other sandbox is named, as `cofferdam list` names it".to_owned(),
        },
        SessionError::Stopped { name, .. } => format!("start it with `cofferdam start {name}`"),
        SessionError::Running { name } => format!("use it with `cofferdam shell {name}`"),
        SessionError::Paused { name } => format!("let it go on with `cofferdam resume {name}`"),
        SessionError::Busy { .. } => "wait for its end, and try again".to_owned(),
        SessionError::AtWork { name } => format!(
            "see what it does with `cofferdam logs {name} run --follow`, and wait for its end; or make another sandbox \
             for the other one: `cofferdam create NAME`"
        ),
        SessionError::InUse {
            name, paused: true, ..
        } => format!(
            "let it go on with `cofferdam resume {name}`, and wait for its end; or end it with the sandbox: `cofferdam delete --force \
             {name}`"
        ),
        SessionError::InUse { name, .. } => format!(
            "see what runs there with `cofferdam status {name}`; wait for its end, or end it with the sandbox: \
             `cofferdam delete --force {name}`"
        ),
        SessionError::OtherProvider { .. } => {
            "use the version of cofferdam, or the program, that made it".to_owned()
        }
        SessionError::Unfinished { name } => {
            format!("remove what there is of it with `cofferdam delete {name}`")
        }
        SessionError::Sync {
            name,
            source: SyncError::Hook(hook),
        } if hook.sandbox_gone => format!(
            "it ended while the command ran in it: `cofferdam start {name}` starts it, and syncs it again"
        ),
        SessionError::Sync { name, .. } => format!(
            "it runs, without what comes after that; mend it, and `cofferdam sync {name}` goes on"
        ),
        SessionError::Sandbox { name, source } => return in_the_sandbox(name, source),
        SessionError::Supervisor { name, source } => match source {
            SupervisorError::OtherVersion(_)
            | SupervisorError::Silent(_)
            | SupervisorError::Protocol(_) => again(name),
            SupervisorError::Stranger(_) => {
                "set COFFERDAM_HOME to a directory that nobody else can write".to_owned()
            }
            SupervisorError::File(_)
            | SupervisorError::Taken
            | SupervisorError::Start(_)
            | SupervisorError::NotRunning
            | SupervisorError::Ended
            | SupervisorError::Refused(_)
            | SupervisorError::Io(_) => format!("try again; if it stays so: {}", again(name)),
        },
        SessionError::Unwatched {
            source: WatchError::Blind(_) | WatchError::Told(_),
            ..
        } => UNWATCHED.to_owned(),
        SessionError::Unwatched { name, .. } => {
            format!("try again; if it stays so: {}", again(name))
        }
        SessionError::NotPaused { name, .. } => {
            format!("try again; or end its programs with `cofferdam stop {name}`: its files stay")
        }
        SessionError::NotResumed { name, .. } => format!(
            "try again; or end its programs and begin anew, its files stay: `cofferdam stop {name} && cofferdam start {name}`"
        ),
        SessionError::Rules { name, .. } => {
            format!("mend that, then `cofferdam resume {name}`; `cofferdam doctor` looks at it too")
        }
        SessionError::Collect {
            name,
            ended,
            source,
        } => {
            let again = format!("cofferdam collect {name}");
            let otherwise =
                format!("nothing is lost, and the sandbox stays; try again with `{again}`");
            let hint = not_home(source, &again, &otherwise);
            if *ended {
                let why =
                    "its programs could not be stopped for a while, so the sandbox was stopped";
                format!("{hint}; {why}: start it with `cofferdam start {name}`")
            } else {
                hint
            }
        }
        // Their causes have hints of their own, or there is nothing to mend.
        SessionError::Mount {
            source: ExtraMountError::Cancelled,
            ..
        }
        | SessionError::Registry(_)
        | SessionError::Repository(_)
        | SessionError::Git(_)
        | SessionError::File(_)
        | SessionError::Wall { .. }
        | SessionError::Vault { .. }
        | SessionError::Login { .. }
        | SessionError::Manage(_)
        | SessionError::EnvFile(_)
        | SessionError::Plan(_) => return None,
        SessionError::Mount { name, source } => mount::of_one_that_is(name, source),
    };
    Some(hint)
}

/// What there is to do where commits did not come home. `again`: the command that tries again; `otherwise`: where nothing is to be
/// mended before that.
pub(super) fn not_home(source: &CollectError, again: &str, otherwise: &str) -> String {
    match source {
        CollectError::NoBase { history, .. } => format!(
            "bring it back with `cp {}/* \"$(git rev-parse --git-path objects/pack)\"`, then `{again}`",
            shell_word(history)
        ),
        CollectError::Inside(_) => "nothing is lost as long as the sandbox is there: open it with the program that made it, which \
                                    has its provider"
            .to_owned(),
        CollectError::Registry(_)
        | CollectError::File(_)
        | CollectError::Git(_)
        | CollectError::Worktree(_)
        | CollectError::PrivateRefs(_)
        | CollectError::Gate(_)
        | CollectError::Land(_)
        | CollectError::Refs(_)
        | CollectError::Changes(_)
        | CollectError::Jail(_)
        | CollectError::Pack { .. }
        | CollectError::Foreign(_)
        | CollectError::TimedOut(_)
        | CollectError::Cancelled => otherwise.to_owned(),
    }
}

/// What there is to do about a sandbox whose engine will not be there again.
pub(super) fn gone_for_good(name: &str) -> String {
    format!(
        "if it will never be there again, give its containers up with `cofferdam delete --force {name}`: what was committed comes home"
    )
}

fn again(name: &str) -> String {
    format!("stop it with `cofferdam stop {name}`, then start it with `cofferdam start {name}`")
}

fn in_the_sandbox(name: &str, error: &SandboxError) -> Option<String> {
    let hint = match error {
        SandboxError::OtherVersion { .. } | SandboxError::TimedOut(_) => again(name),
        SandboxError::Gone(_) => format!("see how it is with `cofferdam status {name}`"),
        SandboxError::NotRunning => format!("start it with `cofferdam start {name}`"),
        SandboxError::Running => format!("use it with `cofferdam shell {name}`"),
        SandboxError::Paused => format!("let it go on with `cofferdam resume {name}`"),
        SandboxError::Unwatched => {
            format!("have it watched again with `cofferdam status {name}`, and try again")
        }
        SandboxError::Frozen => "try again when what is under way there has ended".to_owned(),
        SandboxError::Restless => format!(
            "some program there cannot be stopped for a while: end all of them with `cofferdam stop {name}`, or the \
             sandbox with `cofferdam delete --force {name}`"
        ),
        SandboxError::CarrierEnded { .. } => format!(
            "see what runs there with `cofferdam status {name}`, and try again; or end all of it first, its files stay: \
             `cofferdam stop {name} && cofferdam start {name}`"
        ),
        SandboxError::NoProgram(_) => {
            format!("see what runs with `cofferdam status {name}`")
        }
        SandboxError::NotListening(_) => {
            format!("see what runs there with `cofferdam status {name}`, and start its server")
        }
        // Beside its own.
        SandboxError::NoEngine { .. } => gone_for_good(name),
        // They have hints of their own, or need none.
        SandboxError::Program { .. }
        | SandboxError::HostProgram { .. }
        | SandboxError::Unsupported { .. }
        | SandboxError::Unable { .. }
        | SandboxError::Files { .. }
        | SandboxError::Port { .. }
        | SandboxError::Start(_)
        | SandboxError::Wall(_)
        | SandboxError::Cancelled => return None,
    };
    Some(hint)
}

/// The error that a variant speaks for.
pub(super) fn held(error: &SessionError) -> Option<&(dyn Error + 'static)> {
    match error {
        SessionError::Registry(error) => Some(error),
        SessionError::Repository(error) => Some(error),
        SessionError::Git(error) => Some(error),
        SessionError::File(error) => Some(error),
        SessionError::Manage(error) => Some(error.as_ref()),
        SessionError::EnvFile(error) => Some(error),
        SessionError::Plan(error) => Some(error),
        // What is said of a sandbox that is to be made is no help with one that is there.
        SessionError::Mount { .. }
        | SessionError::OfARun { .. }
        | SessionError::Making { .. }
        | SessionError::FailedSetup { .. }
        | SessionError::SetUp { .. }
        | SessionError::Missing { .. }
        | SessionError::Undermined { .. }
        | SessionError::Ended { .. }
        | SessionError::InWorktree { .. }
        | SessionError::NoDev { .. }
        | SessionError::Stopped { .. }
        | SessionError::Running { .. }
        | SessionError::Paused { .. }
        | SessionError::Busy { .. }
        | SessionError::InUse { .. }
        | SessionError::AtWork { .. }
        | SessionError::OtherProvider { .. }
        | SessionError::Unfinished { .. }
        | SessionError::Sandbox { .. }
        | SessionError::Unwatched { .. }
        | SessionError::Supervisor { .. }
        | SessionError::Wall { .. }
        | SessionError::Vault { .. }
        | SessionError::Login { .. }
        | SessionError::NotPaused { .. }
        | SessionError::NotResumed { .. }
        | SessionError::Rules { .. }
        | SessionError::Sync { .. }
        | SessionError::Collect { .. } => None,
    }
}
