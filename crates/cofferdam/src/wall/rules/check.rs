//! What is said of a rule before it is added.

use cofferdam_wall::{Class, Policy, PolicyError, Protocol, Rule, Target};

use super::loaded::Loaded;

/// A rule that cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The rule is for UDP, and the gateway carries TCP alone.
    #[error("rule `{0}`: udp is not carried yet")]
    Udp(Box<Rule>),
    /// It can be meant, for names that lead there, and the config may say so; who writes it in passing means
    /// something else.
    #[error("`{rule}` is the sandbox itself there: a service of this machine is `{meant}`")]
    Loopback {
        /// As it would be added.
        rule: Box<Rule>,
        /// The target that would be right.
        meant: String,
    },
    /// It denies what another one allows, word for word.
    #[error(transparent)]
    Contradiction(#[from] PolicyError),
}

/// Whether new rules can stand beside those that are loaded.
pub fn check(loaded: &Loaded, new: &[Rule]) -> Result<(), CheckError> {
    if let Some(rule) = new.iter().find(|rule| rule.protocol() == Protocol::Udp) {
        return Err(CheckError::Udp(Box::new(rule.clone())));
    }
    for rule in new {
        if let Some(meant) = rule.meant_for_this_machine() {
            let rule = Box::new(rule.clone());
            return Err(CheckError::Loopback { rule, meant });
        }
    }
    Policy::compile([&loaded.rules, new].concat())?;
    Ok(())
}

/// What someone should know who opens this.
pub fn caution(rule: &Rule) -> Option<String> {
    match rule.target() {
        Target::Name(name) if name.is_host() => {
            Some("this opens a service on this machine itself".to_owned())
        }
        Target::Range(range) => match Class::of(range.network()) {
            Class::Public => None,
            class => Some(format!(
                "this opens {class}: what is there was not made for strangers"
            )),
        },
        Target::Name(_) | Target::Below(_) => None,
    }
}
