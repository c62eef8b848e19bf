//! Several rules on one command line.

use cofferdam::wall::RuleError;

use super::allow::no_rule;
use crate::error::CliError;

/// The words that may stand after a target.
const AFTER: [&str; 4] = ["udp", "http", "tls", "plain"];

/// The text of each rule. An argument that is such a word belongs to the one before, and every other one begins the
/// next rule; what has neither a dot nor a colon is a mistyped word rather than a name.
pub(super) fn rules(arguments: &[String], verb: &str) -> Result<Vec<String>, CliError> {
    let mut rules: Vec<String> = Vec::new();
    for argument in arguments {
        match rules.last_mut() {
            Some(rule) if AFTER.contains(&argument.as_str()) => {
                rule.push(' ');
                rule.push_str(argument);
            }
            Some(_) if !argument.contains(['.', ':']) => {
                let word = argument.escape_default().take(80).collect();
                return Err(no_rule(&RuleError::Word(word), verb));
            }
            _ => rules.push(argument.clone()),
        }
    }
    Ok(rules)
}
