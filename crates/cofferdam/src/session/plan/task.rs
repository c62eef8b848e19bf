//! What an agent is going to be asked, in a sandbox that is planned or there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::{Plan, PlanError};
use crate::agent::AgentRequest;
use crate::prompt::{self, PromptError, Substituted};
use crate::session::conversation::ConversationError;
use crate::session::envfile::Withheld;
use crate::session::error::RunErrorKind;
use crate::session::event::Notice;
use crate::session::login::Login;
use crate::session::options::{PromptSource, RunOptions};
use crate::session::{access, model, variables};

/// What will be asked of the agent, and what it gets for it. Made by [`plan`] alone.
#[derive(Debug)]
pub(in crate::session) struct TaskPlan {
    pub prompt: Prompt,
    pub unused_arguments: Vec<String>,
    /// Everything the agent finds in its environment beside the provider's own.
    pub environment: BTreeMap<OsString, OsString>,
    /// What a file of the repository may not say.
    pub withheld: Withheld,
    /// The agent's login.
    pub login: Option<Login>,
    /// What the user should know before the agent starts.
    pub notices: Vec<Notice>,
}

/// The prompt before its shell expressions are expanded.
#[derive(Debug)]
pub(in crate::session) enum Prompt {
    Plain(String),
    Template(Substituted),
}

impl Prompt {
    /// Puts `text` below it, an empty line between.
    fn attach(&mut self, text: &str) -> Result<(), PromptError> {
        match self {
            Self::Plain(prompt) if prompt.is_empty() => text.clone_into(prompt),
            Self::Plain(prompt) => {
                let between = if prompt.ends_with('\n') { "\n" } else { "\n\n" };
                prompt.push_str(between);
                prompt.push_str(text);
            }
            Self::Template(template) => template.attach(text)?,
        }
        Ok(())
    }

    /// All of it but what shell expressions will print.
    fn known(&self) -> String {
        match self {
            Self::Plain(prompt) => prompt.clone(),
            Self::Template(template) => template.render(&[]),
        }
    }
}

/// Refuses what could only fail: an agent without a prompt, a key or a way to its model.
pub(in crate::session) async fn plan(
    options: &RunOptions,
    plan: &Plan,
) -> Result<TaskPlan, RunErrorKind> {
    let empty = |signal: &String| signal.trim().is_empty();
    if options.task.completion_signals.iter().any(empty) {
        return Err(PlanError::EmptySignal.into());
    }
    if let Some(resume) = &options.task.resume {
        // Of an agent that cannot, nothing is made first.
        let mut request = AgentRequest::new("resume");
        request.resume = Some(resume.session.clone());
        request.fork = resume.fork;
        (options.task.agent.command(&request)).map_err(ConversationError::from)?;
    }
    let (repository, record) = (&plan.repository, &plan.record);
    let (mut prompt, unused_arguments) = prompt(
        &options.task.prompt,
        &plan.source_branch,
        &plan.target_branch,
    )?;
    if let Some(text) = &options.task.attached {
        prompt.attach(text).map_err(|source| RunErrorKind::Prompt {
            path: named(&options.task.prompt),
            source,
        })?;
    }
    if options.task.attendant.is_some() {
        // It goes onto a command line, and what that does not take is known before there is a sandbox.
        let request = AgentRequest::new(prompt.known());
        let command = options.task.agent.interactive(&request);
        command.map_err(PlanError::Request)?;
    }
    let (environment, withheld) = variables::of_a_run(options, repository).await?;
    let (mut login, mut notices) = (None, Vec::new());
    if options.session.on_host {
        // Its user's own program has its own way to its model.
        if matches!(&prompt, Prompt::Template(template) if !template.expressions().is_empty()) {
            return Err(PlanError::ExpressionsOnHost.into());
        }
    } else {
        login = Login::find(options)?;
        let logged_in = login.is_some();
        let top = repository.top.as_path();
        notices.extend(access::check(
            options,
            top,
            &environment,
            &withheld,
            logged_in,
        )?);
        let reach = model::check(options, &repository.top, record.id, &environment, logged_in)?;
        notices.extend(reach);
    }
    Ok(TaskPlan {
        prompt,
        unused_arguments,
        environment,
        withheld,
        login,
        notices,
    })
}

/// What messages call a prompt.
fn named(source: &PromptSource) -> PathBuf {
    match source {
        PromptSource::Template { path, .. } | PromptSource::TemplateText { name: path, .. } => {
            path.clone()
        }
        PromptSource::None | PromptSource::Inline(_) => PathBuf::from("the prompt"),
    }
}

/// What the agent is asked, and the arguments that it has no place for.
pub(in crate::session) fn prompt(
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
