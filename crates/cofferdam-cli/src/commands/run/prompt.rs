//! Where the prompt comes from: an option, a file, or standard input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cofferdam::session::PromptSource;

use super::arguments::Arguments;
use crate::error::CliError;
use crate::input::{Need, PromptInputError, read};

/// The prompt of a run, and what is piped in beside it: a log, a diff. Read before anything is made: until then
/// Ctrl-C ends the command at once.
pub(super) fn source(
    arguments: &mut Arguments,
    directory: &Path,
) -> Result<(PromptSource, Option<String>), CliError> {
    let values = prompt_arguments(std::mem::take(&mut arguments.template_values))?;
    let prompt = match (arguments.prompt.take(), arguments.prompt_file.take()) {
        (Some(text), _) if text.trim().is_empty() => return Err(PromptInputError::Empty.into()),
        (Some(text), _) if text == "-" => {
            let text = read(Need::Certain)?.ok_or(PromptInputError::NothingPiped)?;
            return Ok((PromptSource::Inline(text), None));
        }
        (Some(text), _) => PromptSource::Inline(text),
        (None, Some(path)) if path == Path::new("-") => {
            let text = read(Need::Certain)?.ok_or(PromptInputError::NothingPiped)?;
            let source = PromptSource::TemplateText {
                name: PathBuf::from("standard input"),
                text,
                arguments: values,
            };
            return Ok((source, None));
        }
        (None, Some(path)) => PromptSource::Template {
            path: directory.join(path),
            arguments: values,
        },
        (None, None) => {
            let need = if arguments.runs_command() {
                Need::Possible
            } else {
                Need::Wanted
            };
            let source = read(need)?.map_or(PromptSource::None, PromptSource::Inline);
            return Ok((source, None));
        }
    };
    Ok((prompt, read(Need::Beside)?))
}

/// The values of `--arg`.
fn prompt_arguments(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CliError> {
    let mut arguments = BTreeMap::new();
    for (key, value) in pairs {
        if arguments.contains_key(&key) {
            let key = key.escape_debug();
            return Err(CliError::Usage(format!("`--arg {key}=` is given twice")));
        }
        arguments.insert(key, value);
    }
    Ok(arguments)
}
