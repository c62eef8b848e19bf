//! Files of a repository: what is there stays, or stays beside what is written anew.

use std::path::{Path, PathBuf};

use cofferdam::git::own_files::{self, DIRECTORY};
use cofferdam::image::STARTER;
use cofferdam::volumes::{self, Purpose};
use cofferdam::{config, fsx};

use super::choices::Choices;
use super::templates;
use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// What the name of a file ends with that another one took the place of.
const BEFORE: &str = ".before";

/// What the two files of every repository say.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) config: String,
    pub(super) recipe: String,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            config: config::INITIAL_OF_REPOSITORY.to_owned(),
            recipe: STARTER.to_owned(),
        }
    }
}

impl Texts {
    /// `origin`: where the repository came from.
    pub(super) fn of(choices: &Choices, origin: Option<&str>) -> Self {
        Self {
            config: templates::config(choices, origin),
            recipe: templates::recipe(choices),
        }
    }
}

/// Its configuration, the recipe of its image, and what outlives its sandboxes. Whether anything was written.
pub(super) fn of_repository(
    top: &Path,
    force: bool,
    texts: &Texts,
    environment: &Environment,
) -> Result<bool, CliError> {
    let place = top.join(DIRECTORY);
    directory(&place)?;
    let mut wrote = false;
    for (name, text, first, what) in [
        (
            "config.yaml",
            &texts.config,
            config::INITIAL_OF_REPOSITORY,
            "what sandboxes of this repository have, as examples",
        ),
        (
            "Dockerfile",
            &texts.recipe,
            STARTER,
            "what their image has beside the base",
        ),
    ] {
        let path = place.join(name);
        // What `init` wrote before and nobody changed is nobody's loss.
        let done = if text != first && is_text(&path, first) {
            fsx::write_with_mode(&path, text.as_bytes(), 0o644).map_err(failed)?;
            true
        } else {
            file(&place, name, text, force)?
        };
        if done {
            output::note(&format!("wrote {}: {what}\n", shell_word(&path)));
        } else if text != first && !is_text(&path, text) {
            output::note(&format!(
                "it may need what `init` would have added:\n{}",
                set_in(&text[first.len()..])
            ));
        }
        wrote |= done;
    }
    // What outlives its sandboxes.
    for purpose in Purpose::ALL {
        let opened = volumes::open(&environment.home, purpose, top);
        opened.map_err(|error| CliError::Failed {
            message: error.to_string(),
            hint: "see `cofferdam volume list`".to_owned(),
        })?;
    }
    Ok(wrote)
}

/// The files of a template, in a directory of its own. Whether anything was written.
pub(super) fn of_template(top: &Path, force: bool, choices: &Choices) -> Result<bool, CliError> {
    let mut place = top.join(DIRECTORY);
    // Before anybody is told to commit what is in it.
    own_files::ignore(&place).map_err(failed)?;
    for name in ["prompts", choices.template.name()] {
        place.push(name);
        directory(&place)?;
    }
    let mut wrote = false;
    for one in templates::files(choices) {
        if file(&place, one.name, &one.text, force)? {
            let path = shell_word(place.join(one.name));
            output::note(&format!("wrote {path}\n"));
            wrote = true;
        }
    }
    Ok(wrote)
}

/// Whether that is all that the file has. It may be anything's link.
pub(super) fn is_text(path: &Path, text: &str) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let most = text.len() as u64 + 1;
    is_file && fsx::read_bounded(path, most).is_ok_and(|found| found == text.as_bytes())
}

/// Whether it was written: one that is there stays, or with `force` stays beside it.
fn file(place: &Path, name: &str, text: &str, force: bool) -> Result<bool, CliError> {
    let path = place.join(name);
    if is_text(&path, text) {
        return Ok(false);
    }
    if path.symlink_metadata().is_ok() {
        if !force {
            let shown = shell_word(&path);
            output::note(&format!("{shown} is there already, and stays as it is\n"));
            return Ok(false);
        }
        let before = free(place, name);
        std::fs::rename(&path, &before)
            .map_err(|error| failed(fsx::FileError::new("move", &path, error)))?;
        output::note(&format!("what was there is {} now\n", shell_word(&before)));
    }
    fsx::write_with_mode(&path, text.as_bytes(), 0o644).map_err(failed)?;
    Ok(true)
}

/// A directory that is none of another place.
fn directory(place: &Path) -> Result<(), CliError> {
    match place.symlink_metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(CliError::Failed {
            message: format!("{} is no directory", shell_word(place)),
            hint: "move it away: a repository's settings are in a directory of that name"
                .to_owned(),
        }),
        Err(_) => std::fs::create_dir(place)
            .map_err(|error| failed(fsx::FileError::new("make", place, error))),
    }
}

/// The first name for what was there that nothing has.
fn free(place: &Path, name: &str) -> PathBuf {
    let mut before = place.join(format!("{name}{BEFORE}"));
    let mut number = 2;
    while before.symlink_metadata().is_ok() {
        before = place.join(format!("{name}{BEFORE}-{number}"));
        number += 1;
    }
    before
}

fn set_in(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| format!("  {line}\n")).collect()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it stands where errors are mapped"
)]
fn failed(error: fsx::FileError) -> CliError {
    CliError::Failed {
        message: error.to_string(),
        hint: "nothing of it counts before it is written: try again then".to_owned(),
    }
}
