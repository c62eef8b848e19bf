//! What is written down of a run: by these steps whoever runs it, wherever.

use std::ffi::OsString;
use std::path::Path;

use jiff::Timestamp;

use super::emitter::Emitter;
use super::error::{RunError, RunErrorKind};
use super::event::Notice;
use super::options::{PromptSource, RunOptions};
use super::plan::Plan;
use super::report::RunReport;
use crate::home::Home;
use crate::path_json::PathText;
use crate::runs::{Ended, Recorder, RunRecord, VERSION, first_line};

/// The agent that is any program.
const COMMAND: &str = "command";

/// Before the agent starts.
pub(super) fn begin(
    options: &RunOptions,
    plan: &Plan,
    log: Option<&Path>,
) -> Result<Recorder, RunErrorKind> {
    let (agent, chosen) = (&options.task.agent, options.task.agent.options());
    let recorder = Recorder::begin(&options.caller.home, |id| RunRecord {
        version: VERSION,
        id,
        repository: plan.repository.top.as_path().to_owned(),
        sandbox: plan.record.id,
        name: plan.record.name.clone(),
        provider: plan.record.provider.clone(),
        image: plan.record.image.clone(),
        mode: plan.record.mode,
        strategy: plan.record.strategy.clone(),
        branch: plan.source_branch.clone(),
        target: plan.target_branch.clone(),
        workdir: plan.workdir.clone(),
        agent: agent.name().to_owned(),
        model: chosen.model,
        effort: chosen.effort,
        arguments: (chosen.arguments.into_iter())
            .map(|argument| PathText(argument.into()))
            .collect(),
        task: match &options.task.prompt {
            // A program has its task in its words.
            PromptSource::None if agent.name() == COMMAND => {
                in_words(&options.task.agent.options().arguments)
            }
            prompt => task(prompt),
        },
        continues: options.task.resume.as_ref().and_then(|resume| resume.run),
        fork: options
            .task
            .resume
            .as_ref()
            .is_some_and(|resume| resume.fork),
        cost_before_micro_usd: (options.task.resume.as_ref())
            .map_or(0, |resume| resume.cost_micro_usd),
        began: Timestamp::now(),
        log: log.map(|path| PathText(path.to_owned())),
        iterations: Vec::new(),
        ended: None,
    });
    Ok(recorder?)
}

fn in_words(arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    first_line(&words.join(" "))
}

fn task(prompt: &PromptSource) -> String {
    match prompt {
        PromptSource::None => String::new(),
        PromptSource::Inline(text) => first_line(text),
        PromptSource::Template { path, .. } => first_line(&path.to_string_lossy()),
        PromptSource::TemplateText { name, .. } => first_line(&name.to_string_lossy()),
    }
}

/// When its commits are home, or it has failed. What cannot be written is said: the run itself is as it is.
pub(super) fn end(
    recorder: Recorder,
    home: &Home,
    result: &Result<RunReport, RunError>,
    events: &Emitter,
) {
    let mut ended = Ended::now();
    match result {
        Ok(report) => {
            ended.completion.clone_from(&report.completion);
            ended.landing = Some(report.landing.to_string());
            ended.commits = report.commits.len();
        }
        Err(error) => {
            ended.error = Some(error.to_string());
            ended.landing = error.kept.landing.as_ref().map(ToString::to_string);
            ended.commits = error.kept.commits.len();
        }
    }
    if let Err(error) = recorder.end(home, ended) {
        let text = format!("the record of the run was not written: {error}");
        events.notice(Notice::Other { text });
    }
}
