//! Where the prompt comes from: an option, a file, or standard input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cofferdam::RunError;
use cofferdam::fsx::Named;
use cofferdam::prompt::{self as template, Template};
use cofferdam::session::{PromptSource, RunErrorKind};

use super::arguments::Arguments;
use crate::error::CliError;
use crate::input::{Need, PromptInputError, read};
use crate::ui::output;

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
        (None, Some(path)) => file(directory.join(path), values)?,
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

/// A template in a file. What can be read only once, such as `<(command)`, is read here: until now Ctrl-C ends the command at once.
pub(in crate::commands) fn file(
    path: PathBuf,
    arguments: BTreeMap<String, String>,
) -> Result<PromptSource, CliError> {
    if !Named::find(&path).is_ok_and(|named| named.is_stream()) {
        // What is wrong with it is said by who runs it.
        return Ok(PromptSource::Template { path, arguments });
    }
    let text = template::read_template(&path).map_err(|source| RunError {
        kind: RunErrorKind::Prompt {
            path: path.clone(),
            source,
        },
        kept: Box::default(),
    })?;
    Ok(PromptSource::TemplateText {
        name: path,
        text,
        arguments,
    })
}

/// The prompt of a run whose user is at the terminal: values that the template needs are asked for there.
pub(super) fn asked(arguments: &mut Arguments, directory: &Path) -> Result<PromptSource, CliError> {
    let mut values = prompt_arguments(std::mem::take(&mut arguments.template_values))?;
    let piped = || CliError::from(PromptInputError::Terminal);
    let path = match (arguments.prompt.take(), arguments.prompt_file.take()) {
        (Some(text), _) if text == "-" => return Err(piped()),
        (None, Some(path)) if path == Path::new("-") => return Err(piped()),
        (Some(text), _) if text.trim().is_empty() => return Err(PromptInputError::Empty.into()),
        (Some(text), _) => return Ok(PromptSource::Inline(text)),
        (None, Some(path)) => directory.join(path),
        (None, None) => return Ok(PromptSource::None),
    };
    // What is wrong with the template is said by who runs it.
    if !Named::find(&path).is_ok_and(|named| named.is_stream())
        && let Ok(text) = template::read_template(&path)
        && let Ok(template) = Template::parse(&text)
    {
        for key in template.keys() {
            if !values.contains_key(key) {
                values.insert(key.to_owned(), ask(key)?);
            }
        }
    }
    file(path, values)
}

fn ask(key: &str) -> Result<String, CliError> {
    output::note(&format!("{key}: "));
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    match read {
        Ok(1..) => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        Ok(0) => Err(CliError::Usage(format!(
            "the template needs a value of {{{{{key}}}}}: give it with `--arg {key}=VALUE`"
        ))),
        Err(error) => Err(PromptInputError::Read(error).into()),
    }
}

/// The values of `--arg`.
pub(in crate::commands) fn prompt_arguments(
    pairs: Vec<(String, String)>,
) -> Result<BTreeMap<String, String>, CliError> {
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
