//! What to do about what the user named for a run: their hooks, the expressions of their template, their files.

use std::path::Path;

use cofferdam::agent::AgentError;
use cofferdam::fsx::FileError;
use cofferdam::git::before::BeforeError;
use cofferdam::git::copies::CopyError;
use cofferdam::prompt::PromptError;
use cofferdam::session::{
    AgentFailure, HookError, HookPoint, LoginError, OutputError, RunError, RunErrorKind, Spent,
};
use cofferdam::text::printable_line;

use super::living;
use super::plan;
use crate::ui::shell::shell_word;
use crate::ui::table::fit;

/// What is said once for the whole error, as it needs more than its own cause.
pub(super) fn hint(error: &RunError) -> Option<String> {
    let log = error.kept.log.as_deref();
    match &error.kind {
        RunErrorKind::Hook(hook) => Some(hook_hint(hook, log)),
        RunErrorKind::Expression(_) => Some(EXPRESSION_HINT.to_owned()),
        RunErrorKind::Login(error) => login_hint(error),
        RunErrorKind::Output(error) => Some(output_hint(error)),
        RunErrorKind::Unwatched(_) => Some(living::UNWATCHED.to_owned()),
        RunErrorKind::Before(BeforeError::Trap(pipe)) => {
            Some(format!("remove it: `rm {}`", shell_word(pipe)))
        }
        RunErrorKind::Repository(_)
        | RunErrorKind::Plan(_)
        | RunErrorKind::Prompt { .. }
        | RunErrorKind::EnvFile(_)
        | RunErrorKind::Registry(_)
        | RunErrorKind::Left(_)
        | RunErrorKind::Session(_)
        | RunErrorKind::File(_)
        | RunErrorKind::Git(_)
        | RunErrorKind::Worktree(_)
        | RunErrorKind::Tree(_)
        | RunErrorKind::Vault(_)
        | RunErrorKind::Runs(_)
        | RunErrorKind::Before(_)
        | RunErrorKind::Copy(_)
        | RunErrorKind::Prepare { .. }
        | RunErrorKind::StepTimedOut { .. }
        | RunErrorKind::Sandbox(_)
        | RunErrorKind::Agent { .. }
        | RunErrorKind::Collect(_)
        | RunErrorKind::Conversation(_)
        | RunErrorKind::Cancelled => None,
    }
}

const EXPRESSION_HINT: &str = "it runs in the sandbox, at the top of the repository: correct it in the template, or let \
                               it fail with ` || true` at its end";

/// What the agent said instead is in the run log.
fn output_hint(error: &OutputError) -> String {
    match &error.raw {
        Some(raw) => format!("it said: {}", fit(&printable_line(raw), RAW)),
        None => format!(
            "say in the prompt that it ends with <{0}>…</{0}>, and what is to be between",
            error.tag
        ),
    }
}

/// Characters that are shown of what an agent said.
const RAW: usize = 300;

/// The agent's work has no success.
pub(super) fn agent_hint(error: &AgentFailure) -> Option<String> {
    match error {
        AgentFailure::Idle(_) => Some("allow more with `--idle-timeout`".to_owned()),
        AgentFailure::Budget(spent) => Some(match spent {
            Spent::Time(_) => "allow more with `--max-time`".to_owned(),
            Spent::Tokens(_) => "allow more with `--max-tokens`".to_owned(),
            _ => "allow more with `--max-cost`".to_owned(),
        }),
        AgentFailure::Quota { until, .. } => Some(match until {
            Some(until) => format!(
                "it ends at {until}: go on then with `cofferdam continue`, or let a run wait for it with `--wait-for-quota`"
            ),
            None => "go on later with `cofferdam continue`, or let a run wait for it with `--wait-for-quota`".to_owned(),
        }),
        AgentFailure::Request(_)
        | AgentFailure::Sandbox(_)
        | AgentFailure::Exit { .. }
        | AgentFailure::Reported(_)
        | AgentFailure::Silent(_)
        | AgentFailure::Cancelled => None,
    }
}

/// It was asked for what it cannot do.
pub(super) fn request_hint(error: &AgentError) -> Option<String> {
    match error {
        AgentError::NoPrompt { .. } => Some(plan::PROMPT_HINT.to_owned()),
        AgentError::NoProgram { .. } => Some(
            "name it behind `--` at the end of the same command, such as `-- ./my-agent.sh`"
                .to_owned(),
        ),
        AgentError::LongPrompt { .. } => {
            Some("put it into a file, and name that in a short prompt".to_owned())
        }
        AgentError::NoResume { .. }
        | AgentError::NoFork { .. }
        | AgentError::NoInteractive { .. }
        | AgentError::BadSession { .. }
        | AgentError::Unknown { .. }
        | AgentError::NoOption { .. } => None,
    }
}

pub(super) fn prompt_hint(error: &PromptError) -> Option<String> {
    match error {
        PromptError::File(error) => Some(template_hint(error)),
        PromptError::Empty => Some("write into it what the agent is to do".to_owned()),
        PromptError::MissingArgument { key, also, .. } => Some(plan::arguments_hint(key, also)),
        PromptError::ReservedArgument { .. }
        | PromptError::NulInArgument { .. }
        | PromptError::Evaluated { .. }
        | PromptError::NulInExpression { .. }
        | PromptError::LongExpression { .. } => None,
        PromptError::TooManyExpressions { .. } => {
            Some("let one command print what several do".to_owned())
        }
        PromptError::TooLong { .. } => {
            Some("put the material into the repository, and its place into the prompt".to_owned())
        }
    }
}

pub(super) fn copy_hint(error: &CopyError) -> Option<String> {
    let hint = "check the name: it counts from the top of the repository, wherever you stand in it";
    match error {
        CopyError::Missing { .. } => Some(hint.to_owned()),
        CopyError::Refused { .. } | CopyError::Cancelled | CopyError::File(_) => None,
    }
}

/// No agent has started yet.
fn hook_hint(hook: &HookError, log: Option<&Path>) -> String {
    if hook.sandbox_gone {
        return "the sandbox ended while the command ran in it: if nobody meant it to, try again; `cofferdam list` shows what is there"
            .to_owned();
    }
    let (option, place) = match hook.point {
        HookPoint::WorktreeReady => (
            "`--on-worktree-ready`",
            "on your machine, in the worktree, where only committed files are and what `--copy` names",
        ),
        HookPoint::HostSandboxReady => (
            "`--on-host-ready`",
            "on your machine, in the directory that the sandbox works in",
        ),
        HookPoint::SandboxReady => (
            "`--on-sandbox-ready`",
            "in the sandbox, which has no network but what rules open",
        ),
        HookPoint::Setup => (
            "`setup` in the configuration",
            "in the sandbox, in the repository's files, with no network but what rules open",
        ),
        HookPoint::Check => (
            "`gate.checks` in the configuration",
            "in a sandbox of its own, in the files of the commits",
        ),
        HookPoint::OnSync => (
            "`on_sync` in the configuration",
            "in the agent's home in the sandbox, which has no network but what rules open",
        ),
    };
    let left = match hook.point {
        HookPoint::OnSync => "those after it were not run",
        _ => "no agent was started",
    };
    let mut hint = format!("{left}; correct the command after {option}: it runs {place}");
    if let Some(log) = log {
        hint.push_str(&format!("; all that it said: `less {}`", shell_word(log)));
    }
    hint
}

fn login_hint(error: &LoginError) -> Option<String> {
    match error {
        LoginError::Unreadable { source, .. } if source.link().is_some() => link_hint(source),
        LoginError::Unreadable { usual, .. } => Some(format!(
            "its program keeps one in `~/{usual}` once it is logged in: `--login ~/{usual}`"
        )),
        LoginError::Foreign(foreign) => {
            let usual = foreign.usual;
            let first = foreign
                .program
                .as_ref()
                .map_or_else(String::new, |program| {
                    format!("log in with `{program}`, then ")
                });
            Some(format!("{first}give its own: `--login ~/{usual}`"))
        }
        LoginError::NoFile { .. } => Some("leave out `--login`".to_owned()),
        LoginError::File(_)
        | LoginError::Volume(_)
        | LoginError::Registry(_)
        | LoginError::NoLogin { .. }
        | LoginError::NotGiven(_) => None,
    }
}

/// A link of a checkout that was not followed.
pub(super) fn link_hint(error: &FileError) -> Option<String> {
    let link = error.link()?;
    Some(format!(
        "see who made it with `ls -l {}`; where it leads is yours to name, or leave the file out",
        shell_word(&link.link)
    ))
}

/// A template that cannot be read.
fn template_hint(error: &FileError) -> String {
    let path = &error.path;
    if let Some(hint) = link_hint(error) {
        hint
    } else if error.is_not_found() {
        "`--prompt-file` takes the path of a template, from the directory that you are in; what the agent is to do \
         can also be said with `--prompt TEXT`"
            .to_owned()
    } else if path.is_dir() {
        format!("name a file in it: `ls {}`", shell_word(path))
    } else {
        "`--prompt-file` takes a text file in UTF-8 that you can read".to_owned()
    }
}
