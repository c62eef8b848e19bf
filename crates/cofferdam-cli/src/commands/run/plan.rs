//! From the command line to the library's options. Reads no file but standard input, and starts nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use cofferdam::RunOptions;
use cofferdam::agent::{self, AGENTS, AgentError, AgentOptions, AgentProvider};
use cofferdam::network::NetworkKind;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BindMount, BranchStrategy, Contained, CopyStrategy, Limits, PrivateCopy};
use cofferdam::session::{Hook, Hooks, NetworkOptions, PromptSource, RunLog};
use cofferdam::wall::rules::{CheckError, Loaded};
use cofferdam::wall::{self, Origin, Rule, RuleError};

use super::arguments::{Arguments, FileMode};
use super::prompt;
use crate::environment::Environment;
use crate::error::CliError;

/// The options of one run, without a place for its events.
pub(super) fn options(
    mut arguments: Arguments,
    environment: &Environment,
) -> Result<RunOptions, CliError> {
    let sandbox = sandbox(&arguments)?;
    let agent = agent(&arguments)?;
    let network = network(arguments.network, &arguments.allow)?;
    let variables = variables(&arguments.variables, environment)?;
    // Last, because it may wait for another program.
    let (prompt, attached) = prompt::source(&mut arguments, &environment.directory)?;
    if matches!(prompt, PromptSource::None) && !arguments.runs_command() {
        // Known before anything is made; the agent itself would say so only in its sandbox.
        let agent = agent.name().to_owned();
        return Err(AgentError::NoPrompt { agent }.into());
    }
    let directory = &environment.directory;
    let mut options = RunOptions::new(environment.home.clone(), directory.clone(), agent, sandbox);
    options.caller.git = environment.git.clone();
    options.caller.user_home.clone_from(&environment.user_home);
    options
        .caller
        .environment
        .clone_from(&environment.variables);
    options.session.environment = variables;
    options.task.prompt = prompt;
    options.task.attached = attached;
    options.task.login = arguments.login.map(|path| directory.join(path));
    options.session.name = arguments.name;
    options.task.max_iterations = arguments.max_iterations;
    options.task.completion_signals = arguments.completion_signals;
    options.task.idle_timeout = arguments.idle_timeout;
    options.task.completion_grace = arguments.grace;
    let hooks = |lines: Vec<String>| lines.into_iter().map(Hook::new).collect();
    options.session.hooks = Hooks {
        host_worktree_ready: hooks(arguments.on_worktree_ready),
        host_sandbox_ready: hooks(arguments.on_host_ready),
        sandbox_ready: hooks(arguments.on_sandbox_ready),
    };
    options.session.copy = arguments.copy;
    options.session.hide = arguments.hide;
    let usual = Limits::default();
    options.session.limits = Limits {
        processes: arguments.pids.or(usual.processes),
        memory: arguments.memory.or(usual.memory),
        cpus: arguments.cpus.or(usual.cpus),
        open_files: usual.open_files,
    };
    options.session.network = network;
    options.task.log = match (arguments.log, arguments.no_log) {
        (Some(path), _) => RunLog::File(directory.join(path)),
        (None, true) => RunLog::None,
        (None, false) => RunLog::Default,
    };
    Ok(options)
}

fn usage<T>(text: impl Into<String>) -> Result<T, CliError> {
    Err(CliError::Usage(text.into()))
}

fn agent(arguments: &Arguments) -> Result<std::sync::Arc<dyn AgentProvider>, CliError> {
    if arguments.agent.is_none() && arguments.command.is_empty() {
        let agents: Vec<String> = AGENTS
            .iter()
            .map(|kind| format!("`--agent {}`", kind.name))
            .collect();
        return usage(format!(
            "there is no agent: give `-- COMMAND`, or one of {}",
            agents.join(", ")
        ));
    }
    let options = AgentOptions {
        model: arguments.model.clone(),
        effort: arguments.effort.clone(),
        arguments: arguments.command.clone(),
    };
    Ok(agent::by_name(
        arguments.agent.as_deref().unwrap_or("command"),
        options,
    )?)
}

fn sandbox(arguments: &Arguments) -> Result<Contained, CliError> {
    let native = Native::new(NativeOptions::default());
    let strategy = match (&arguments.branch, arguments.merge_to_head) {
        (Some(branch), _) => BranchStrategy::Branch {
            branch: branch.clone(),
            base: arguments.base.clone(),
        },
        (None, true) => BranchStrategy::MergeToHead,
        (None, false) => BranchStrategy::Head,
    };
    if arguments.mode == FileMode::Copy {
        let strategy = match strategy {
            BranchStrategy::Head if arguments.head => {
                return usage(
                    "`--mode copy` cannot work in this checkout itself: leave out `--head`",
                );
            }
            BranchStrategy::Head | BranchStrategy::MergeToHead => CopyStrategy::MergeToHead,
            BranchStrategy::Branch { branch, base } => CopyStrategy::Branch { branch, base },
        };
        return Ok(PrivateCopy::new(native, strategy).into());
    }
    if strategy == BranchStrategy::Head && !arguments.copy.is_empty() {
        return usage("`--copy` is for a worktree: add `--merge-to-head` or `--branch NAME`");
    }
    Ok(BindMount::new(native, strategy).into())
}

/// Rules that do not go together are known before anything is made.
fn network(mode: NetworkKind, allow: &[String]) -> Result<NetworkOptions, CliError> {
    match mode {
        NetworkKind::Allowlist => {
            // Not by the parser of the command line, which would show the text as it is.
            let rules = allow.iter().map(|text| Rule::parse(text, Origin::Flag));
            let rules = match rules.collect::<Result<Vec<_>, _>>() {
                Ok(rules) => rules,
                Err(error) => {
                    return misused(
                        &error,
                        match &error {
                            RuleError::Localhost { meant, .. } => Some(meant),
                            _ => None,
                        },
                    );
                }
            };
            if let Err(error) = wall::rules::check(&Loaded::default(), &rules) {
                return misused(
                    &error,
                    match &error {
                        CheckError::Loopback { meant, .. } => Some(meant),
                        _ => None,
                    },
                );
            }
            Ok(NetworkOptions::Allowlist { rules })
        }
        _ if !allow.is_empty() => usage("`--allow` is for `--network allowlist` only"),
        NetworkKind::None => Ok(NetworkOptions::None),
        NetworkKind::Open => Ok(NetworkOptions::Open),
    }
}

/// A rule of `--allow` that is none; with the one that was meant, where that is known.
fn misused<T>(error: &dyn std::error::Error, meant: Option<&String>) -> Result<T, CliError> {
    Err(CliError::Misused {
        message: format!("`--allow`: {error}"),
        hint: match meant {
            Some(rule) => format!("if this machine is meant: `--allow {rule}`"),
            None => "see `cofferdam run --help`".to_owned(),
        },
    })
}

/// `KEY=VALUE` as it is, `KEY` from the caller's environment.
fn variables(
    given: &[OsString],
    environment: &Environment,
) -> Result<BTreeMap<OsString, OsString>, CliError> {
    let mut variables = BTreeMap::new();
    for item in given {
        let bytes = item.as_bytes();
        let (key, value) = match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => (
                &bytes[..at],
                Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned()),
            ),
            None => (bytes, None),
        };
        let shown = String::from_utf8_lossy(key).escape_debug().to_string();
        if key.is_empty() {
            return usage("`--env` needs a name: `--env KEY` or `--env KEY=VALUE`");
        }
        let key = OsStr::from_bytes(key);
        let Some(value) = value.or_else(|| environment.variables.get(key).cloned()) else {
            return usage(format!(
                "`--env {shown}`: it is not set in your environment"
            ));
        };
        variables.insert(key.to_owned(), value);
    }
    Ok(variables)
}
