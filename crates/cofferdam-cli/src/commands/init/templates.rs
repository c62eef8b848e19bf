//! What there is to begin with: prompts, plans and scripts, filled in from what was chosen.

use cofferdam::agent::AGENTS;

use super::choices::Choices;
use super::kinds::{Backlog, FILL_IN, Template};

/// One file of a template.
#[derive(Debug)]
pub(super) struct TemplateFile {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// As they stand in the source; what is in double braces is filled in by [`files`], or by a run.
type Sources = &'static [(&'static str, &'static str)];

macro_rules! sources {
    ($directory:literal: $($name:literal),+) => {
        &[$(($name, include_str!(concat!("templates/", $directory, "/", $name)))),+]
    };
}

const BLANK: Sources = sources!("blank": "plan.yaml", "task.md");
const SIMPLE_LOOP: Sources = sources!("simple-loop": "plan.yaml", "loop.md");
const SEQUENTIAL: Sources =
    sources!("sequential-reviewer": "plan.yaml", "work.md", "review.md", "run.sh");
const PARALLEL: Sources =
    sources!("parallel-planner": "plan.md", "plan.schema.json", "work.md", "run.sh");
/// For a backlog that is files of the repository.
const CLOSING: Sources = sources!("parallel-planner": "closing.sh");
/// It reviews what one task did, whatever chose the task.
const REVIEW: Sources = sources!("sequential-reviewer": "review.md");

impl Template {
    /// `closing`: what closes items once their branch is merged.
    fn sources(
        self,
        closing: Sources,
    ) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let (own, more): (Sources, Sources) = match self {
            Self::Blank => (BLANK, &[]),
            Self::SimpleLoop => (SIMPLE_LOOP, &[]),
            Self::SequentialReviewer => (SEQUENTIAL, &[]),
            Self::ParallelPlanner => (PARALLEL, &[]),
            Self::ParallelPlannerWithReview => (PARALLEL, REVIEW),
        };
        let closing = if self.is_parallel() { closing } else { &[] };
        own.iter().chain(more).chain(closing)
    }

    fn is_parallel(self) -> bool {
        matches!(
            self,
            Self::ParallelPlanner | Self::ParallelPlannerWithReview
        )
    }

    fn with_review(self) -> bool {
        self == Self::ParallelPlannerWithReview
    }
}

/// The files of what was chosen.
pub(super) fn files(choices: &Choices) -> Vec<TemplateFile> {
    let items = choices.backlog.map(Backlog::commands).unwrap_or_default();
    let review = |text| {
        if choices.template.with_review() {
            text
        } else {
            ""
        }
    };
    let run = choices.run_options();
    let values = [
        ("LIST_ITEMS", items.list),
        ("VIEW_ITEM", items.view),
        ("VIEW_THIS", items.view_this),
        ("CLOSE_ITEM", items.close),
        ("CLOSE_TASK", items.close_task),
        ("CLOSE_MERGED", items.close_merged),
        ("CLOSED", items.closed),
        ("RUN", &run),
        ("SANDBOX", choices.sandbox.name()),
        ("NAME", choices.template.name()),
        (
            "PLAN_REVIEW",
            review(r#", "review": {"prompt_file": "review.md"}"#),
        ),
        ("SCHEMA_NEEDS_REVIEW", review(r#", "review""#)),
        (
            "SCHEMA_REVIEW",
            review("\n          \"review\": {\"const\": {\"prompt_file\": \"review.md\"}},"),
        ),
    ];
    let fill = |text: &str| {
        values.iter().fold(text.to_owned(), |text, (key, value)| {
            text.replace(&format!("{{{{{key}}}}}"), value)
        })
    };
    let closing = if items.close_merged.is_empty() {
        &[]
    } else {
        CLOSING
    };
    let sources = choices.template.sources(closing);
    let files = sources.map(|(name, text)| TemplateFile {
        name,
        text: fill(text),
    });
    files.collect()
}

/// The commands of a backlog. `ID` is for an agent to put an item's in, `{{ID}}` is filled in by a run.
#[derive(Debug, Default)]
struct Commands {
    list: &'static str,
    view: &'static str,
    view_this: &'static str,
    close: &'static str,
    /// What is left to do then, as the end of a sentence.
    closed: &'static str,
    /// What one of many tasks that work side by side does with its item, a sentence.
    close_task: &'static str,
    /// What a script has closed in a sandbox once that item's work is merged: a command of the shell without `'`, whose `$1` is its id. Empty
    /// where the task closes it.
    close_merged: &'static str,
}

impl Backlog {
    fn commands(self) -> Commands {
        match self {
            Self::Github => Commands {
                list: "gh issue list --state open --limit 100 --json number,title,labels",
                // Where nobody has a terminal, `--comments` prints the comments and nothing else.
                view: "gh issue view ID --json title,body,labels,comments",
                view_this: "gh issue view {{ID}} --json title,body,labels,comments",
                close: "gh issue close ID --comment 'what was done'",
                closed: "",
                close_task: "Then close the item with `gh issue close {{ID}} --comment 'what was done'`.",
                close_merged: "",
            },
            Self::Beads => Commands {
                list: "bd ready --json",
                view: "bd show ID",
                view_this: "bd show {{ID}}",
                close: "bd close ID --reason 'what was done'",
                // What is in no commit does not come home, and keeps the branch from whoever works on it next.
                closed: ", and commit what that changes in `.beads`",
                // All items are lines of one file.
                close_task: "Leave the item open, and `.beads` as it is: what closes items is done when this branch is merged.",
                close_merged: r#"bd close "$1" --reason merged && git add .beads && { git diff --cached --quiet -- .beads || git commit -qm "close $1" -- .beads; }"#,
            },
            Self::Custom => Commands {
                list: "echo 'FILL-IN: a command that lists the open items' >&2; exit 1",
                view: "FILL-IN: a command that shows item ID",
                view_this: "echo 'FILL-IN: a command that shows item' {{ID}} >&2; exit 1",
                close: "FILL-IN: a command that closes item ID",
                closed: "",
                close_task: "Then close the item with `FILL-IN: a command that closes item {{ID}}`.",
                close_merged: "",
            },
        }
    }

    /// What the repository's image gets for it.
    fn tools(self) -> &'static str {
        match self {
            Self::Github => {
                "\n# The backlog, GitHub's issues: `gh` is in the base, but for the small one.\nUSER root\n\
                 RUN command -v gh \\\n    || { apt-get update \\\n    && apt-get install -y --no-install-recommends gh \\\n    \
                 && rm -rf /var/lib/apt/lists/*; }\n"
            }
            Self::Beads => {
                "\n# The backlog, Beads. What its package runs when it is installed fetches the program from GitHub, which is not open to builds:\n\
                 # `cofferdam allow github.com release-assets.githubusercontent.com` before the first one, `cofferdam revoke` of both after it.\n\
                 USER root\nRUN npm install --global @beads/bd@1.3.0\n"
            }
            Self::Custom => {
                "\n# The backlog. FILL-IN: what installs the program that the prompts call.\n"
            }
        }
    }

    /// What it asks for in the repository's configuration. It waits for who reads it.
    fn request(self, origin: Option<&str>) -> String {
        match self {
            Self::Github => {
                let repository = origin.and_then(of_github);
                let repository = repository.unwrap_or_else(|| format!("{FILL_IN}/NAME"));
                format!(
                    "\n# For `gh`, which the prompts in .cofferdam/prompts call. It counts once `cofferdam approve` has shown it to you. Whoever is in\n\
                     # the sandbox can do what the token can: one for this repository alone that reads and writes issues is enough.\n\
                     firewall:\n  allow:\n    - domain: api.github.com\nenv:\n  GH_TOKEN: $GH_TOKEN\n  GH_REPO: {repository}\n"
                )
            }
            Self::Beads => "\n# `bd` needs nothing of the network. Its `.beads` is in the sandbox where it is committed, or with `--copy .beads`.\n".to_owned(),
            Self::Custom => format!("\n# {FILL_IN}: what the backlog's command needs, a destination or a variable; it counts once `cofferdam approve` has shown it to you.\n"),
        }
    }
}

/// `.cofferdam/config.yaml` with what the choice needs.
pub(super) fn config(choices: &Choices, origin: Option<&str>) -> String {
    let request = choices.backlog.map(|backlog| backlog.request(origin));
    let initial = cofferdam::config::INITIAL_OF_REPOSITORY;
    format!("{initial}{}", request.unwrap_or_default())
}

/// `.cofferdam/Dockerfile` with what the choice needs.
pub(super) fn recipe(choices: &Choices) -> String {
    let tools = choices.backlog.map(Backlog::tools).unwrap_or_default();
    // A program of the user's is theirs to install.
    let kind = AGENTS.iter().find(|kind| kind.name == choices.agent);
    let agent = match kind.filter(|_| !choices.has_program()) {
        Some(kind) => match &kind.npm {
            Some(npm) if cofferdam::image::base_has(npm.package) => String::new(),
            Some(npm) => format!(
                "\n# The agent; a version after its name, as in PACKAGE@1.2.3, is the same tomorrow:\nUSER root\nRUN npm install --global {}\n",
                npm.package
            ),
            None => format!(
                "\n# The agent, for the user of the image: {}\n",
                kind.install
            ),
        },
        None => String::new(),
    };
    format!("{}{agent}{tools}", cofferdam::image::STARTER)
}

/// OWNER/NAME of a repository there.
fn of_github(url: &str) -> Option<String> {
    let (_, path) = url.split_once("github.com")?;
    let path = path.trim_start_matches([':', '/']).trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let (owner, name) = path.split_once('/')?;
    let is_plain = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    (is_plain(owner) && is_plain(name)).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_of_github_is_known_by_its_url() {
        for url in [
            "https://github.com/acme/tool",
            "https://x:y@github.com/acme/tool.git",
            "git@github.com:acme/tool.git",
            "ssh://git@github.com/acme/tool/",
        ] {
            assert_eq!(of_github(url).as_deref(), Some("acme/tool"), "{url}");
        }
        for url in [
            "https://gitlab.com/acme/tool",
            "/srv/github.com",
            "git@github.com:acme/a b",
            "https://github.com/acme/tool/more",
            "https://github.com/acme/$(id)",
        ] {
            assert_eq!(of_github(url), None, "{url}");
        }
    }
}
