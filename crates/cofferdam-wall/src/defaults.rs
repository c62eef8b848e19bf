//! The default allowlist: the names that coding agents and the usual package programs need.
//!
//! The list is data (`defaults.txt`); nothing else in this crate knows a host name.

use crate::rule::{Origin, Rule, RuleError};

/// The list as it is written, groups and comments included.
pub const TEXT: &str = include_str!("defaults.txt");

/// A line of a list of rules is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the list: {error}")]
pub struct ListError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    #[source]
    pub error: RuleError,
}

/// The rules of the default list.
///
/// # Errors
/// Never for the list that is built in; a test reads it.
pub fn rules() -> Result<Vec<Rule>, ListError> {
    parse(TEXT, Origin::Defaults)
}

/// Reads a list: one rule a line in its text form, `#` begins a comment line.
pub fn parse(text: &str, origin: Origin) -> Result<Vec<Rule>, ListError> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| Rule::parse(text, origin).map_err(|error| ListError { line, error }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Kind, Target};

    // covers: S1-79 S1-80 S1-81 S1-82 S1-83 S1-84 S1-85 S1-86 S1-87 S1-88 S3-52 S3-56
    #[test]
    fn the_list_is_exactly_this() {
        let seed_1 = [
            "api.anthropic.com",
            "api.claude.ai",
            "claude.ai",
            "statsig.anthropic.com",
            "sentry.io",
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "repo.yarnpkg.com",
            "registry.bun.sh",
            "registry.npmmirror.com",
            "proxy.golang.org",
            "sum.golang.org",
            "storage.googleapis.com",
            "crates.io",
            "static.crates.io",
            "index.crates.io",
            "static.rust-lang.org",
            "rubygems.org",
            "api.rubygems.org",
            "index.rubygems.org",
            "pypi.org",
            "files.pythonhosted.org",
            "github.com",
            "api.github.com",
            "raw.githubusercontent.com",
            "objects.githubusercontent.com",
            "codeload.github.com",
            "pkg-containers.githubusercontent.com",
            "ghcr.io",
            "download.cypress.io",
            "cdn.cypress.io",
            "cdn.playwright.dev",
            "playwright.download.prss.microsoft.com",
            "cdn.jsdelivr.net",
            "dl-cdn.alpinelinux.org",
            "deb.nodesource.com",
        ];
        assert_eq!(seed_1.len(), 36);
        let seed_3 = [
            "openrouter.ai",
            "api.openai.com",
            "auth.openai.com",
            "chatgpt.com",
        ];
        // An agent of seed 2 whose model is nowhere among them.
        let seed_2 = ["generativelanguage.googleapis.com"];
        let rules = rules().unwrap();
        let names: Vec<String> = rules.iter().map(|rule| rule.target().to_string()).collect();
        assert_eq!(names, [&seed_1[..], &seed_3, &seed_2].concat());
        for rule in &rules {
            assert!(matches!(rule.target(), Target::Name(_)), "{rule}");
            assert_eq!(rule.ports().listed(), Some(&[80, 443][..]), "{rule}");
            assert_eq!(
                (rule.kind_at(80), rule.kind_at(443)),
                (Kind::Http, Kind::Tls),
                "{rule}"
            );
            assert_eq!(rule.origin(), Origin::Defaults, "{rule}");
        }
    }

    #[test]
    fn an_error_names_the_line() {
        let error = parse("# one\n\na.test\nhttp://b.test\n", Origin::Global).unwrap_err();
        assert_eq!(error.line, 4);
        assert!(
            error
                .to_string()
                .starts_with("line 4 of the list: host name `http://b.test`"),
            "{error}"
        );
        assert_eq!(parse("# nothing\n", Origin::Global), Ok(vec![]));
    }
}
