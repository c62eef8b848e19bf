//! The commands that come next, as they are to be typed.

use std::path::Path;

use cofferdam::git::own_files::DIRECTORY;

use super::choices::Choices;
use super::kinds::{Backlog, FILL_IN, Template};
use crate::commands::making::ProviderName;
use crate::ui::shell::shell_word;

/// One in each line. `changed`: there is something to commit; `elsewhere`: the repository's top, where nobody stands there.
pub(super) fn commands(choices: &Choices, changed: bool, elsewhere: Option<&Path>) -> Vec<String> {
    let directory = format!("{DIRECTORY}/prompts/{}", choices.template.name());
    let mut all = Vec::new();
    if let Some(top) = elsewhere {
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
    if changed {
        all.push(format!(
            "git add {DIRECTORY} && git commit -m 'prompts for agents' -- {DIRECTORY}"
        ));
    }
    if choices.backlog == Some(Backlog::Github) {
        all.push("cofferdam approve   # what `gh` needs; it takes your GH_TOKEN".to_owned());
    }
    if choices.sandbox != ProviderName::Native {
        // What it wrote itself nobody has to read before.
        let backlog = choices.backlog.map_or_else(String::new, |backlog| {
            format!(" --backlog {}", backlog.name())
        });
        all.push(format!(
            "cofferdam init . --build --template {} --agent {} --sandbox {}{backlog}",
            choices.template.name(),
            choices.agent,
            choices.sandbox.name(),
        ));
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
