//! Rules on a command line: several of them at once, and what is said of one that is none.

use cofferdam::wall::RuleError;

use crate::error::CliError;
use crate::ui::opening;

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

/// What was given to `verb` is no rule.
pub(super) fn no_rule(error: &RuleError, verb: &str) -> CliError {
    let hint = match error {
        RuleError::Localhost { meant, .. } => this_machine(meant),
        RuleError::Metadata(range) if verb == "allow" => format!(
            "what is there gives out this machine's own keys: for one run alone, give `cofferdam run` the option \
             `--allow {}`",
            if range.network().is_ipv6() {
                format!("[{range}]:80")
            } else {
                format!("{range}:80")
            }
        ),
        RuleError::Word(_) => format!(
            "each rule is TARGET[:PORT,PORT] [http|tls|plain], several one after the other: `cofferdam {verb} \
             a.example.com b.example.com:8443 tls`"
        ),
        _ => format!("see `cofferdam {verb} --help`"),
    };
    CliError::Misused {
        message: error.to_string(),
        hint,
    }
}

/// What to do where this machine was meant.
pub(super) fn this_machine(rule: &str) -> String {
    format!("if this machine is meant: `{}`", opening::command(rule))
}
