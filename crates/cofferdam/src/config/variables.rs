//! `env`: variables, as they are or from this machine.

use std::collections::BTreeMap;

use serde_saphyr::Spanned;

use super::content::{ContentError, LONGEST_VARIABLE, Located, Misplaced, Variable};
use super::fields::{line, wrong};

/// By their names.
pub(super) type Entries = BTreeMap<String, Spanned<String>>;

pub(super) fn located(found: &Entries) -> Result<BTreeMap<String, Located<Variable>>, Misplaced> {
    let one = |(name, text): (&String, &Spanned<String>)| {
        let refuse = |problem| wrong(text, format!("env.{name}"), problem);
        if !is_name(name) {
            return Err(refuse(ContentError::VariableName));
        }
        let value = variable(&text.value).map_err(refuse)?;
        if let Variable::Text(text) = &value
            && name.len() + 1 + text.len() > LONGEST_VARIABLE
        {
            return Err(refuse(ContentError::VariableLength));
        }
        let line = line(text);
        Ok((name.clone(), Located { value, line }))
    };
    found.iter().map(one).collect()
}

/// What every shell can export.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `$NAME` is one of this machine's, `$$` a dollar, and everything else is meant as it is written.
fn variable(text: &str) -> Result<Variable, ContentError> {
    if text.contains('\0') {
        return Err(ContentError::NoText);
    }
    let Some(rest) = text.strip_prefix('$') else {
        return Ok(Variable::Text(text.to_owned()));
    };
    if rest.starts_with('$') {
        return Ok(Variable::Text(rest.to_owned()));
    }
    let inner = rest
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let name = inner.unwrap_or(rest);
    if is_name(name) {
        return Ok(Variable::OfHost(name.to_owned()));
    }
    Err(ContentError::HostVariable)
}
