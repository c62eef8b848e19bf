//! A plan from its file, with the prompt files that it names: all of it read once, before anything begins.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::bounds::{MAX_FILE, MAX_PROMPT};
use super::error::{PlanFault, PlanFileError};
use super::schema::Misplaced;
use super::tasks::{self, Plan};
use crate::fsx::{Context, Named, beneath};
use crate::text::{hex, printable_line};

impl Plan {
    /// Reads the file `path`. Its prompt files are below its directory.
    pub fn read(path: &Path) -> Result<Self, PlanFileError> {
        let named = Named::find(path)?;
        let (bytes, identity) = (named.read(MAX_FILE)?, named.place());
        Self::parse(path, &bytes, &named.into_directory(), identity)
    }

    /// The same of one that somebody has already. `name`: what messages call it; its prompt files are below `directory`.
    pub fn from_text(text: &str, name: &Path, directory: &Path) -> Result<Self, PlanFileError> {
        // Without a place of its own it is what it says.
        let identity = PathBuf::from(hex(&Sha256::digest(text)));
        let root = beneath::root(directory).context("open", directory)?;
        Self::parse(name, text.as_bytes(), &root, identity)
    }

    fn parse(
        path: &Path,
        bytes: &[u8],
        root: &OwnedFd,
        identity: PathBuf,
    ) -> Result<Self, PlanFileError> {
        let misplaced = |Misplaced { at, field, fault }| PlanFileError::Content {
            path: path.to_owned(),
            at,
            field,
            fault,
        };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let lines = before.split(|&byte| byte == b'\n').count() - 1;
            misplaced(Misplaced {
                at: crate::config::Position {
                    line: lines as u64 + 1,
                    column: 1,
                },
                field: String::new(),
                fault: PlanFault::NotUtf8,
            })
        })?;
        tasks::plan(text, &|file| prompt_file(root, file), identity).map_err(misplaced)
    }
}

/// Nothing leads out of the plan's directory, no link either.
fn prompt_file(root: &OwnedFd, file: &Path) -> Result<String, PlanFault> {
    let shown = printable_line(&file.to_string_lossy());
    let refuse = |why: &str| Err(PlanFault::PromptFile(format!("`{shown}`: {why}")));
    match beneath::read(root, file, MAX_PROMPT as u64) {
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => refuse("it is not UTF-8 text"),
        },
        Ok(None) => Err(PlanFault::LongPrompt),
        Err(Errno::NOENT | Errno::NOTDIR) => {
            refuse("there is no such file below the plan's directory")
        }
        Err(Errno::LOOP | Errno::XDEV) => {
            refuse("it is behind a symlink: put the file itself there")
        }
        Err(Errno::INVAL) => refuse("it is not a regular file"),
        Err(errno) => refuse(&std::io::Error::from(errno).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fsx;
    use crate::plan::{MAX_TASKS, Prompt};

    /// What is said of a plan in a directory with some files.
    fn read(text: &str) -> Result<Plan, String> {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fsx::private_dir(&top.join("prompts")).unwrap();
        for (name, text) in [
            ("prompts/a.md", "do {{A}}"),
            ("prompts/empty.md", " \n"),
            ("../outside.md", "canary"),
            ("plan.yaml", text),
        ] {
            fsx::write_private(&top.join(name), text.as_bytes()).unwrap();
        }
        fsx::write_private(&top.join("long.md"), &vec![b'x'; MAX_PROMPT + 1]).unwrap();
        fsx::write_private(&top.join("latin1.md"), b"\xe9").unwrap();
        symlink(place.path().join("outside.md"), top.join("link.md")).unwrap();
        symlink(place.path(), top.join("away")).unwrap();
        let path = top.join("plan.yaml");
        Plan::read(&path).map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains("canary"), "{text}");
            text.replace(&format!("{}:", path.display()), "")
        })
    }

    #[test]
    fn a_plan_says_what_its_tasks_are() {
        let plan = read(
            "tasks:\n- name: one\n  prompt: |\n    {{as it is}}\n- name: two\n  prompt_file: ./prompts/a.md\n  args: {A: x}\n  \
             agent: claude-code\n  model: m\n  branch: work/two\n  base: main\n  max_iterations: 3\n  after: [one]\n  \
             review: {prompt: look}\n",
        )
        .unwrap();
        let [one, two] = plan.tasks() else { panic!() };
        assert_eq!(one.branch.as_str(), "cofferdam/one");
        assert_eq!(one.prompt, Prompt::Text("{{as it is}}\n".to_owned()));
        assert_eq!(two.after, std::slice::from_ref(&one.name));
        let Prompt::Template {
            text, arguments, ..
        } = &two.prompt
        else {
            panic!()
        };
        assert_eq!((text.as_str(), arguments["A"].as_str()), ("do {{A}}", "x"));
        assert_eq!(
            two.review.as_ref().unwrap().prompt,
            Prompt::Text("look".to_owned())
        );
        assert_ne!(one.content(), two.content());
        // JSON is YAML: what an agent gives back is a plan as it is.
        read("{\"tasks\": [{\"name\": \"a\", \"prompt\": \"x\"}]}").unwrap();
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let task = |keys: &str| format!("tasks:\n- name: a\n  prompt: x\n{keys}");
        let other = |keys: &str| task(&format!("- name: b\n  prompt: x\n{keys}"));
        for (text, says) in [
            (String::new(), "1:1: unexpected end of input"),
            ("{}".to_owned(), "missing field `tasks`"),
            ("tasks: []".to_owned(), "1:1: tasks: there is no task"),
            (
                task("  hooks: []"),
                "4:3: tasks[0].hooks: unknown field `hooks`",
            ),
            (
                task("  env: {A: b}"),
                "because it may be an agent's work: everything else is an option of the command",
            ),
            (
                task("  review: {prompt: x, network: open}"),
                "unknown field `network`",
            ),
            (task("model: x"), "unknown field `model`"),
            ("tasks:\n- prompt: x".to_owned(), "missing field `name`"),
            (
                "tasks:\n- {name: a b, prompt: x}".to_owned(),
                "such as `a-b`",
            ),
            ("tasks:\n- {name: A, prompt: x}".to_owned(), "such as `a`"),
            (
                format!("tasks:\n- {{name: {}, prompt: x}}", "a".repeat(49)),
                "at most 48",
            ),
            (
                "tasks:\n- name: a".to_owned(),
                "2:9: tasks[0]: give either `prompt` or `prompt_file`",
            ),
            (task("  prompt_file: prompts/a.md"), "give either"),
            (
                "tasks:\n- {name: a, prompt: ' '}".to_owned(),
                "the prompt is empty",
            ),
            (task("  args: {A: b}"), "`args` are for a `prompt_file`"),
            (task("  branch: a..b"), "is not a valid branch name"),
            (
                task("  max_iterations: 0"),
                "4:3: tasks[0].max_iterations: invalid value",
            ),
            (
                task("  max_iterations: 101"),
                "4:19: tasks[0].max_iterations: a task has at most 100 iterations",
            ),
            (
                task("- name: a\n  prompt: y"),
                "4:9: tasks[1].name: task `a` is there already",
            ),
            (
                other("  branch: cofferdam/A"),
                "6:11: tasks[1].branch: task `a` has branch `cofferdam/a`",
            ),
            (other("  branch: cofferdam/a/x"), "git cannot have both"),
            (other("  branch: COFFERDAM"), "git cannot have both"),
            (
                other("  after: [c]"),
                "6:11: tasks[1].after: there is no task `c`",
            ),
            (
                task("  after: [b]\n- name: b\n  prompt: x\n  after: [a]"),
                "wait for one another: a after b after a",
            ),
            (task("  after: [a]"), "wait for one another: a after a"),
            (
                task("  review: {agent: codex}"),
                "tasks[0].review: give either",
            ),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.contains(says), "{text}\n{says}\n{said}");
        }
        // The controls.
        read(&task("")).unwrap();
        read(&other("  branch: cofferdam/ab")).unwrap();
        read(&other("  after: [a]")).unwrap();
    }

    #[test]
    fn prompt_files_are_below_the_plan_and_bounded() {
        for (file, says) in [
            (
                "/etc/hostname",
                "a prompt file is below the plan's directory",
            ),
            (
                "../outside.md",
                "a prompt file is below the plan's directory",
            ),
            ("prompts/../../outside.md", "a prompt file is below"),
            ("''", "a prompt file is below"),
            ("link.md", "it is behind a symlink"),
            ("away/outside.md", "it is behind a symlink"),
            ("prompts", "it is not a regular file"),
            ("none.md", "there is no such file"),
            ("long.md", "larger than 1 MiB"),
            ("latin1.md", "not UTF-8"),
            ("prompts/empty.md", "the prompt is empty"),
        ] {
            let said = read(&format!("tasks:\n- name: a\n  prompt_file: {file}")).unwrap_err();
            assert!(said.contains(says), "{file}: {said}");
            assert!(said.starts_with("3:16: "), "{file}: {said}");
        }
    }

    #[test]
    fn a_plan_is_bounded() {
        let tasks = |number: usize| {
            let tasks = (0..number).map(|number| format!("- {{name: t{number}, prompt: x}}\n"));
            format!("tasks:\n{}", tasks.collect::<String>())
        };
        assert_eq!(read(&tasks(MAX_TASKS)).unwrap().tasks().len(), MAX_TASKS);
        let said = read(&tasks(MAX_TASKS + 1)).unwrap_err();
        assert!(said.contains("202:3: tasks: more than 200 tasks"), "{said}");
        let mut text = tasks(1);
        let long = usize::try_from(MAX_FILE).unwrap() + 1 - text.len();
        text.push_str(&"#".repeat(long));
        assert!(read(&text).unwrap_err().contains("larger than"));
        text.pop();
        read(&text).unwrap();
        let prompt = |bytes| format!("tasks:\n- {{name: a, prompt: {}}}", "x".repeat(bytes));
        let most = MAX_PROMPT - 100;
        read(&prompt(most)).unwrap();
    }
}
