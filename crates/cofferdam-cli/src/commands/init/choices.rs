//! What is chosen: by options, and at a terminal by answers.

use clap::{Args, ValueEnum};
use cofferdam::agent::AGENTS;

use super::kinds::{Backlog, Template};
use crate::commands::making::ProviderName;
use crate::commands::run;
use crate::error::CliError;
use crate::input;

/// The options.
#[derive(Debug, Clone, Args)]
pub(super) struct Chosen {
    /// Prompts and a plan to begin with, in `.cofferdam/prompts/`; it needs `--agent`, `--sandbox` and, but for `blank`, `--backlog`
    #[arg(long, value_enum, requires = "path", help_heading = "Template")]
    template: Option<Template>,

    /// The agent that works
    #[arg(
        long,
        value_name = "AGENT",
        value_parser = run::agents(),
        requires = "path",
        help_heading = "Template"
    )]
    agent: Option<String>,

    /// Where open items are
    #[arg(long, value_enum, requires = "path", help_heading = "Template")]
    backlog: Option<Backlog>,

    /// Where sandboxes are; an engine also builds the image (without it Docker, or Podman where there is no Docker)
    #[arg(long, value_enum, value_name = "PROVIDER", help_heading = "Template")]
    sandbox: Option<ProviderName>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) template: Template,
    pub(super) agent: String,
    pub(super) sandbox: ProviderName,
    /// None where the template has none.
    pub(super) backlog: Option<Backlog>,
}

impl Choices {
    /// What each `cofferdam run` is given.
    pub(super) fn run_options(&self) -> String {
        let sandbox = format!("--sandbox {}", self.sandbox.name());
        if self.has_program() {
            sandbox
        } else {
            format!("--agent {} {sandbox}", self.agent)
        }
    }

    /// The agent is a program that its user names after `--`.
    pub(super) fn has_program(&self) -> bool {
        self.agent == "command"
    }
}

impl Chosen {
    pub(super) fn sandbox(&self) -> Option<ProviderName> {
        self.sandbox
    }

    /// `None`: no template is wanted. At a terminal (`asks`) what no option says is asked for.
    pub(super) fn choices(self, asks: bool) -> Result<Option<Choices>, CliError> {
        // The provider alone is of a build.
        let is_wanted = self.template.is_some() || self.agent.is_some() || self.backlog.is_some();
        if !asks {
            return if is_wanted {
                self.all().map(Some)
            } else {
                Ok(None)
            };
        }
        let template = if let Some(template) = self.template {
            template
        } else {
            let all = Template::value_variants();
            let known: Vec<_> = all.iter().map(|one| one.name()).collect();
            let names = [&["none"], &known[..]].concat();
            match input::choice("prompts to begin with", &names, 0) {
                Some(number) if number > 0 => all[number - 1],
                _ => return Ok(None),
            }
        };
        let agent = if let Some(agent) = self.agent {
            agent
        } else {
            let names: Vec<_> = AGENTS.iter().map(|kind| kind.name).collect();
            names[answer("the agent", &names, "--agent")?].to_owned()
        };
        let sandbox = if let Some(sandbox) = self.sandbox {
            sandbox
        } else {
            let all = ProviderName::value_variants();
            let names: Vec<_> = all.iter().map(|one| one.name()).collect();
            all[answer("its sandbox", &names, "--sandbox")?]
        };
        let backlog = match self.backlog {
            _ if !template.needs_backlog() => None,
            Some(backlog) => Some(backlog),
            None => {
                let names = Backlog::ALL.map(Backlog::name);
                Some(Backlog::ALL[answer("the backlog", &names, "--backlog")?])
            }
        };
        Ok(Some(Choices {
            template,
            agent,
            sandbox,
            backlog,
        }))
    }

    /// Nobody can be asked.
    fn all(self) -> Result<Choices, CliError> {
        let needs_backlog = self.template.is_none_or(Template::needs_backlog);
        let missing = [
            ("--template", self.template.is_none()),
            ("--agent", self.agent.is_none()),
            ("--sandbox", self.sandbox.is_none()),
            ("--backlog", self.backlog.is_none() && needs_backlog),
        ];
        let missing: Vec<_> = missing.iter().filter(|(_, is)| *is).collect();
        let (Some(template), Some(agent), Some(sandbox), true) =
            (self.template, self.agent, self.sandbox, missing.is_empty())
        else {
            let names: Vec<_> = missing
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            return Err(CliError::Misused {
                message: format!("there is no terminal to ask for {}", names.join(", ")),
                hint: "for example `cofferdam init . --template simple-loop --agent claude-code --sandbox native --backlog github`".to_owned(),
            });
        };
        Ok(Choices {
            template,
            agent,
            sandbox,
            backlog: self.backlog.filter(|_| template.needs_backlog()),
        })
    }
}

fn answer(question: &str, names: &[&str], option: &str) -> Result<usize, CliError> {
    input::choice(question, names, 0).ok_or_else(|| CliError::Misused {
        message: format!("there is no answer for {question}"),
        hint: format!("give it by `{option}`: see `cofferdam init --help`"),
    })
}
