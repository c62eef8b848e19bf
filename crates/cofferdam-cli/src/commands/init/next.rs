//! The commands that come next, as they are to be typed.

use std::path::Path;

use cofferdam::git::own_files::DIRECTORY;

use super::choices::Choices;
use super::kinds::{Backlog, FILL_IN, Template};
use crate::commands::making::ProviderName;
use crate::ui::shell::shell_word;

/// How far things are when the commands are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct State<'a> {
    /// There is something to commit.
    pub(super) changed: bool,
    /// The engine has the base of images. Without an engine it does not matter.
    pub(super) has_base: bool,
    /// The image is built as soon as they are printed.
    pub(super) builds: bool,
    /// The repository's top, where nobody stands there.
    pub(super) elsewhere: Option<&'a Path>,
}

/// One in each line.
pub(super) fn commands(choices: &Choices, state: State<'_>) -> Vec<String> {
    let directory = format!("{DIRECTORY}/prompts/{}", choices.template.name());
    let mut all = Vec::new();
    if let Some(top) = state.elsewhere {
        all.push(format!("cd {}", shell_word(top)));
    }
    if choices.backlog == Some(Backlog::Custom) {
        all.push(format!(
            "grep -rn {FILL_IN} {DIRECTORY}   # these are yours to fill in"
        ));
    }
    if choices.template == Template::Blank {
        all.push(format!(
            "${{EDITOR:-vi}} {directory}/task.md   # what the agent is to do"
        ));
    }
    if state.changed {
        all.push(format!(
            "git add {DIRECTORY} && git commit -m 'prompts for agents' -- {DIRECTORY}"
        ));
    }
    if choices.backlog == Some(Backlog::Github) {
        all.push("cofferdam approve   # what `gh` needs; it takes your GH_TOKEN".to_owned());
    }
    if choices.sandbox != ProviderName::Native {
        all.extend(builds(choices, state));
    }
    let run = choices.run_options();
    let program = if choices.has_program() {
        " -- PROGRAM"
    } else {
        ""
    };
    match choices.template {
        Template::Blank => {
            all.push(format!("cofferdam prompt check {directory}/task.md"));
            all.push(format!(
                "cofferdam run --plan {directory}/plan.yaml {run}{program}"
            ));
            all.push("cofferdam merge task".to_owned());
        }
        Template::SimpleLoop => {
            all.push(format!(
                "cofferdam prompt check {directory}/loop.md --run --sandbox {}",
                choices.sandbox.name()
            ));
            all.push(format!(
                "cofferdam run --plan {directory}/plan.yaml --again {run}{program}"
            ));
            all.push(
                "cofferdam merge loop && cofferdam gc && git branch -d cofferdam/loop".to_owned(),
            );
        }
        Template::SequentialReviewer
        | Template::ParallelPlanner
        | Template::ParallelPlannerWithReview => {
            all.push(format!("sh {directory}/run.sh{program}"));
        }
    }
    all
}

/// What makes the image of a container.
fn builds(choices: &Choices, state: State<'_>) -> Vec<String> {
    let sandbox = choices.sandbox.name();
    let mut all = Vec::new();
    if !state.has_base {
        all.push(format!(
            "cofferdam build-base --sandbox {sandbox}   # once, for all repositories; it takes minutes"
        ));
    }
    if choices.backlog == Some(Backlog::Custom) {
        // By then it is no longer what `init` wrote.
        all.push(format!(
            "cofferdam build --sandbox {sandbox}   # it shows the Dockerfile, and the command that builds just that"
        ));
    } else if !(state.builds && state.has_base) {
        // What it wrote itself nobody has to read before.
        let backlog = choices.backlog.map_or_else(String::new, |backlog| {
            format!(" --backlog {}", backlog.name())
        });
        all.push(format!(
            "cofferdam init . --build --template {} --agent {} --sandbox {sandbox}{backlog}",
            choices.template.name(),
            choices.agent,
        ));
    }
    all
}
