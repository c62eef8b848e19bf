//! The rules that all sources say together, each with where it stands.

use std::path::Path;
use std::sync::Arc;

use cofferdam_wall::control::RuleLine;
use cofferdam_wall::{Policy, PolicyError, Protocol, Rule};

use super::problem::Problem;

/// So many pairs of contradicting rules are sorted out; with more, no rule is trusted.
pub(super) const MAX_CONTRADICTIONS: usize = 16;

/// What the sources say now.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All that are in force.
    pub rules: Vec<Rule>,
    /// For each rule where it stands.
    pub written: Vec<WrittenAt>,
    /// What was left out, and why: never a reason to open more.
    pub problems: Vec<Problem>,
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenAt {
    /// None: built in, or given on the command line.
    pub file: Option<Arc<Path>>,
    /// From 1.
    pub line: Option<u64>,
}

impl Loaded {
    /// The rules as the gateway takes them.
    pub fn lines(&self) -> Vec<RuleLine> {
        let line = |rule: &Rule| RuleLine {
            text: rule.to_string(),
            origin: rule.origin(),
        };
        self.rules.iter().map(line).collect()
    }

    pub(in crate::wall) fn push(
        &mut self,
        rule: Rule,
        file: Option<&Arc<Path>>,
        line: Option<u64>,
    ) {
        if rule.protocol() == Protocol::Udp {
            let rule = Box::new(rule);
            self.problems.push(Problem::Udp { rule });
            return;
        }
        self.rules.push(rule);
        let file = file.cloned();
        self.written.push(WrittenAt { file, line });
    }

    /// Takes out what contradicts, so that the rest makes a policy.
    pub(super) fn settle(&mut self) {
        for _ in 0..MAX_CONTRADICTIONS {
            let Err(error) = Policy::compile(self.rules.clone()) else {
                return;
            };
            let PolicyError::Contradiction { first, second, .. } = &error;
            let kept: Vec<bool> = self
                .rules
                .iter()
                .map(|rule| rule != &**first && rule != &**second)
                .collect();
            let mut keep = kept.iter();
            self.rules.retain(|_| keep.next() == Some(&true));
            let mut keep = kept.iter();
            self.written.retain(|_| keep.next() == Some(&true));
            self.problems.push(error.into());
        }
        if Policy::compile(self.rules.clone()).is_err() {
            self.rules.clear();
            self.written.clear();
            self.problems.push(Problem::Contradictions);
        }
    }
}
