//! What the agent is to give back, as the command line says it.

use std::path::Path;

use cofferdam::fsx::{Destination, FileError, Named};
use cofferdam::session::{Output, RunReport};
use serde_json::Value;

use super::arguments::Arguments;
use crate::environment::Environment;
use crate::error::CliError;

/// Bytes of a schema.
const LONGEST: u64 = 1 << 20;
/// So many faults of an answer are told to the agent.
const TOLD: usize = 5;

pub(super) fn output(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<Option<Output>, CliError> {
    let Some(tag) = &arguments.output_tag else {
        return Ok(None);
    };
    let output = match &arguments.output_schema {
        None => Output::text(tag),
        Some(path) => {
            let path = environment.directory.join(path);
            let (schema, validator) = schema(&path)?;
            Output::checked(tag, move |text| {
                let value: Value = serde_json::from_str(text)
                    .map_err(|error| format!("it is no JSON: {error}"))?;
                let faults: Vec<String> = validator
                    .iter_errors(&value)
                    .take(TOLD)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                if faults.is_empty() {
                    Ok(value)
                } else {
                    Err(format!(
                        "{}; its JSON Schema is {schema}",
                        faults.join("; ")
                    ))
                }
            })
        }
    };
    let output = output.map_err(|error| CliError::Misused {
        message: error.to_string(),
        hint: "for example `--output-tag plan`".to_owned(),
    })?;
    Ok(Some(output.with_retries(arguments.output_retries)))
}

/// What it gave back, into the file that its user named: JSON, or a text as it is.
pub(super) fn write(report: &RunReport, path: &Path) -> Result<(), CliError> {
    let text = match &report.output {
        None => return Ok(()),
        Some(Value::String(text)) => format!("{text}\n"),
        Some(value) => format!("{value:#}\n"),
    };
    Ok(Destination::find(path)?.write(text.as_bytes(), 0o644)?)
}

fn schema(path: &Path) -> Result<(Value, jsonschema::Validator), CliError> {
    let bytes = Named::find(path)?.read(LONGEST)?;
    let wrong = |why: String| {
        let why = std::io::Error::other(format!("it is no JSON Schema: {why}"));
        FileError::new("use", path, why)
    };
    let schema: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let validator = jsonschema::validator_for(&schema).map_err(|error| wrong(error.to_string()))?;
    Ok((schema, validator))
}
