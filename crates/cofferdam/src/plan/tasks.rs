//! What a plan says, checked whole: names, branches, prompts and order. Pure but for the prompt files, which its caller reads.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde_saphyr::Spanned;
use sha2::{Digest, Sha256};

use super::bounds::{MAX_ITERATIONS, MAX_NAME, MAX_PROMPT, MAX_TASKS, MAX_TEXT};
use super::error::PlanFault;
use super::order;
use super::schema::{self, Misplaced, wrong};
use crate::names::{BranchName, Slug};
use crate::text::hex;

/// Tasks that can be run: each name and each branch once, and an order in which all have their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(super) tasks: Vec<PlannedTask>,
    /// For which ones each waits, by number.
    pub(super) after: Vec<Vec<usize>>,
    /// What makes it the same plan another time.
    pub(super) identity: PathBuf,
}

impl Plan {
    /// In the file's order; one at least.
    pub fn tasks(&self) -> &[PlannedTask] {
        &self.tasks
    }
}

/// One task of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedTask {
    /// Of the task and of its sandbox.
    pub name: Slug,
    /// What its agent is asked.
    pub prompt: Prompt,
    /// Which agent does it.
    pub agent: AgentChoice,
    /// Where its commits go.
    pub branch: BranchName,
    /// Where a new branch starts. `None`: at HEAD.
    pub base: Option<String>,
    /// How often its agent is started at most; else the caller says so.
    pub max_iterations: Option<NonZeroU32>,
    /// These have to end well first.
    pub after: Vec<Slug>,
    /// Another start of an agent on the same branch, when the first one made commits.
    pub review: Option<Review>,
}

/// As [`PlannedTask::review`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Review {
    /// What the reviewer is asked.
    pub prompt: Prompt,
    /// Which agent looks.
    pub agent: AgentChoice,
}

/// What an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Passed as it is.
    Text(String),
    /// The text of a prompt file, in which arguments and shell expressions are replaced.
    Template {
        /// As the plan names it.
        file: String,
        /// As it is in the file.
        text: String,
        /// What is given for each name.
        arguments: BTreeMap<String, String>,
    },
}

/// Which agent, where the plan says so: what it leaves open is the caller's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AgentChoice {
    /// The agent's name.
    pub agent: Option<String>,
    /// As the agent names it.
    pub model: Option<String>,
    /// As the agent names it.
    pub effort: Option<String>,
}

impl PlannedTask {
    /// Names its content: another one is another task.
    pub(super) fn content(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        hex(&Sha256::digest(text))
    }
}

/// How a prompt file is read: an error is a sentence about it.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<String, PlanFault>;

/// What the text of a plan says.
pub(super) fn plan(text: &str, read: ReadFile<'_>, identity: PathBuf) -> Result<Plan, Misplaced> {
    let file = schema::parse(text)?;
    let whole = |fault| Misplaced {
        at: crate::config::Position { line: 1, column: 1 },
        field: "tasks".to_owned(),
        fault,
    };
    if file.tasks.is_empty() {
        return Err(whole(PlanFault::NoTask));
    }
    if file.tasks.len() > MAX_TASKS {
        return Err(wrong(&file.tasks[MAX_TASKS], "tasks", PlanFault::TooMany));
    }
    let mut tasks: Vec<PlannedTask> = Vec::new();
    for (number, found) in file.tasks.iter().enumerate() {
        let one = task(&found.value, &format!("tasks[{number}]"), read, &tasks)?;
        tasks.push(one);
    }
    let mut after = Vec::new();
    for (number, found) in file.tasks.iter().enumerate() {
        let mut firsts = Vec::new();
        for first in found.value.after.iter().flatten() {
            let at = tasks
                .iter()
                .position(|task| task.name.as_str() == first.value);
            firsts.push(at.ok_or_else(|| {
                let name = crate::text::printable_line(&first.value);
                wrong(
                    first,
                    format!("tasks[{number}].after"),
                    PlanFault::NoSuchTask(name),
                )
            })?);
        }
        tasks[number].after = firsts.iter().map(|&at| tasks[at].name.clone()).collect();
        after.push(firsts);
    }
    if let Some(circle) = order::circle(&after) {
        let mut names: Vec<&str> = circle.iter().map(|&at| tasks[at].name.as_str()).collect();
        names.push(names[0]);
        let names = names.join(" after ");
        let found = &file.tasks[circle[0]];
        let field = format!("tasks[{}].after", circle[0]);
        return Err(wrong(found, field, PlanFault::Cycle(names)));
    }
    Ok(Plan {
        tasks,
        after,
        identity,
    })
}

/// `before`: the tasks above it in the file.
fn task(
    found: &schema::Task,
    field: &str,
    read: ReadFile<'_>,
    before: &[PlannedTask],
) -> Result<PlannedTask, Misplaced> {
    let name = name(&found.name, field)?;
    if before.iter().any(|other| other.name == name) {
        return Err(wrong(
            &found.name,
            format!("{field}.name"),
            PlanFault::Twice(name),
        ));
    }
    let (branch, at) = match &found.branch {
        Some(branch) => (text(branch, field, "branch")?, branch),
        None => (format!("cofferdam/{name}"), &found.name),
    };
    let branch_field = || format!("{field}.branch");
    let branch: BranchName =
        (branch.parse()).map_err(|error| wrong(at, branch_field(), PlanFault::Branch(error)))?;
    if let Some(other) = before.iter().find(|other| meet(&other.branch, &branch)) {
        let (other, branch) = (other.name.clone(), other.branch.clone());
        return Err(wrong(
            at,
            branch_field(),
            PlanFault::BranchTwice { other, branch },
        ));
    }
    let asked = Asked {
        place: &found.name,
        prompt: found.prompt.as_ref(),
        file: found.prompt_file.as_ref(),
        arguments: found.args.as_ref(),
    };
    let choice = [&found.agent, &found.model, &found.effort];
    Ok(PlannedTask {
        prompt: prompt(&asked, field, read)?,
        agent: agent(choice, field)?,
        branch,
        base: optional(found.base.as_ref(), field, "base")?,
        max_iterations: iterations(found.max_iterations.as_ref(), field)?,
        after: Vec::new(),
        review: match &found.review {
            None => None,
            Some(review) => Some(self::review(review, &format!("{field}.review"), read)?),
        },
        name,
    })
}

fn review(
    found: &Spanned<schema::Review>,
    field: &str,
    read: ReadFile<'_>,
) -> Result<Review, Misplaced> {
    let schema::Review {
        prompt: given,
        prompt_file,
        args,
        agent: name,
        model,
        effort,
    } = &found.value;
    let asked = Asked {
        place: found,
        prompt: given.as_ref(),
        file: prompt_file.as_ref(),
        arguments: args.as_ref(),
    };
    Ok(Review {
        prompt: prompt(&asked, field, read)?,
        agent: agent([name, model, effort], field)?,
    })
}

fn name(found: &Spanned<String>, field: &str) -> Result<Slug, Misplaced> {
    let slug = Slug::from_text(&found.value);
    match slug {
        Ok(slug) if slug.as_str() == found.value && slug.as_str().len() <= MAX_NAME => Ok(slug),
        slug => {
            let meant = slug.map_or_else(|_| "fix-login".to_owned(), |slug| slug.to_string());
            let meant = meant[..meant.len().min(MAX_NAME)].trim_end_matches('-');
            let fault = PlanFault::Name(meant.to_owned());
            Err(wrong(found, format!("{field}.name"), fault))
        }
    }
}

/// Whether two branches are one, for git or for a file system that folds case, or one would be a directory of the other.
fn meet(one: &BranchName, other: &BranchName) -> bool {
    let [one, other] = [one, other].map(|branch| branch.as_str().to_lowercase());
    let is_below = |one: &str, other: &str| {
        one.strip_prefix(other)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || is_below(&one, &other) || is_below(&other, &one)
}

/// Where a prompt comes from, as the file says it.
struct Asked<'a, T> {
    /// What is named where neither is there.
    place: &'a Spanned<T>,
    prompt: Option<&'a Spanned<String>>,
    file: Option<&'a Spanned<String>>,
    arguments: Option<&'a BTreeMap<String, String>>,
}

fn prompt<T>(asked: &Asked<'_, T>, field: &str, read: ReadFile<'_>) -> Result<Prompt, Misplaced> {
    let (prompt, at) = match (asked.prompt, asked.file) {
        (Some(found), None) => {
            if asked.arguments.is_some() {
                return Err(wrong(
                    found,
                    format!("{field}.args"),
                    PlanFault::ArgsWithout,
                ));
            }
            (Prompt::Text(found.value.clone()), found)
        }
        (None, Some(found)) => {
            let misplaced = |fault| wrong(found, format!("{field}.prompt_file"), fault);
            let path = Path::new(&found.value);
            let mut parts = path.components();
            let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if found.value.is_empty() || !parts.all(stays) {
                return Err(misplaced(PlanFault::Outside));
            }
            let arguments = asked.arguments.cloned().unwrap_or_default();
            let is_long = |text: &String| text.len() > MAX_TEXT;
            if arguments
                .iter()
                .any(|(key, value)| is_long(key) || is_long(value))
            {
                return Err(misplaced(PlanFault::TooLong(MAX_TEXT)));
            }
            let prompt = Prompt::Template {
                file: found.value.clone(),
                text: read(path).map_err(misplaced)?,
                arguments,
            };
            (prompt, found)
        }
        _ => return Err(wrong(asked.place, field, PlanFault::OnePrompt)),
    };
    let (Prompt::Text(text) | Prompt::Template { text, .. }) = &prompt;
    if text.trim().is_empty() {
        return Err(wrong(at, field, PlanFault::EmptyPrompt));
    }
    if text.len() > MAX_PROMPT {
        return Err(wrong(at, field, PlanFault::LongPrompt));
    }
    Ok(prompt)
}

fn agent(
    [agent, model, effort]: [&Option<Spanned<String>>; 3],
    field: &str,
) -> Result<AgentChoice, Misplaced> {
    Ok(AgentChoice {
        agent: optional(agent.as_ref(), field, "agent")?,
        model: optional(model.as_ref(), field, "model")?,
        effort: optional(effort.as_ref(), field, "effort")?,
    })
}

fn iterations(
    found: Option<&Spanned<NonZeroU32>>,
    field: &str,
) -> Result<Option<NonZeroU32>, Misplaced> {
    let Some(found) = found else { return Ok(None) };
    if found.value.get() > MAX_ITERATIONS {
        let field = format!("{field}.max_iterations");
        return Err(wrong(found, field, PlanFault::Iterations));
    }
    Ok(Some(found.value))
}

fn optional(
    found: Option<&Spanned<String>>,
    field: &str,
    key: &str,
) -> Result<Option<String>, Misplaced> {
    found.map(|found| text(found, field, key)).transpose()
}

fn text(found: &Spanned<String>, field: &str, key: &str) -> Result<String, Misplaced> {
    if found.value.len() > MAX_TEXT {
        let fault = PlanFault::TooLong(MAX_TEXT);
        return Err(wrong(found, format!("{field}.{key}"), fault));
    }
    Ok(found.value.clone())
}
