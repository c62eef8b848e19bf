//! A template's text, cut into its parts once.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{EXPRESSION_LIMIT, MOST_EXPRESSIONS, PROMPT_LIMIT, Position, PromptError};
use super::quote;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Words(Words),
    Expression { command: Words, at: Position },
}

/// Text with placeholders.
type Words = Vec<Word>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Text(String),
    Key { key: String, at: Position },
}

/// The arguments that are always there (S2-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtins<'a> {
    /// The branch that the agent works on.
    pub source_branch: &'a str,
    /// The host's branch at the start.
    pub target_branch: &'a str,
}

const SOURCE_BRANCH: &str = "SOURCE_BRANCH";
const TARGET_BRANCH: &str = "TARGET_BRANCH";

impl Template {
    /// Finds the placeholders `{{KEY}}` (white space inside the braces is fine, the key is an ASCII
    /// identifier) and the shell expressions `` !`command` `` (at least one character, no backtick
    /// inside, may span lines). Everything else is text, unclosed forms too.
    pub fn parse(text: &str) -> Result<Self, PromptError> {
        let mut reader = Reader {
            text,
            at: 0,
            position: Position { line: 1, column: 1 },
        };
        let (mut parts, mut expressions) = (Vec::new(), 0);
        while let Some((start, command, end)) = next_expression(text, reader.at) {
            let before = reader.words(start);
            if !before.is_empty() {
                parts.push(Part::Words(before));
            }
            let at = reader.position;
            if command.contains('\0') {
                return Err(PromptError::NulInExpression { at });
            }
            expressions += 1;
            if expressions > MOST_EXPRESSIONS {
                return Err(PromptError::TooManyExpressions { at });
            }
            reader.skip_to(start + "!`".len());
            let command = reader.words(end - 1);
            reader.skip_to(end);
            parts.push(Part::Expression { command, at });
        }
        let rest = reader.words(text.len());
        if !rest.is_empty() {
            parts.push(Part::Words(rest));
        }
        Ok(Self { parts })
    }

    /// The arguments that the template needs, without the built-in ones, in order of first use.
    pub fn keys(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.placeholders()
            .map(|(key, _)| key)
            .filter(|key| !is_builtin(key) && seen.insert(*key))
            .collect()
    }

    fn placeholders(&self) -> impl Iterator<Item = (&str, Position)> {
        let words = self.parts.iter().flat_map(|part| match part {
            Part::Words(words) | Part::Expression { command: words, .. } => words,
        });
        words.filter_map(|word| match word {
            Word::Text(_) => None,
            Word::Key { key, at } => Some((key.as_str(), *at)),
        })
    }

    /// Fills in every placeholder. Also gives the names of arguments that the template does not use
    /// (S2-29).
    pub fn substitute(
        &self,
        arguments: &BTreeMap<String, String>,
        builtins: Builtins<'_>,
    ) -> Result<(Substituted, Vec<String>), PromptError> {
        for key in [SOURCE_BRANCH, TARGET_BRANCH] {
            if arguments.contains_key(key) {
                return Err(PromptError::ReservedArgument { key });
            }
        }
        let value = |key: &str| match key {
            SOURCE_BRANCH => Some(builtins.source_branch),
            TARGET_BRANCH => Some(builtins.target_branch),
            _ => arguments.get(key).map(String::as_str),
        };
        let mut seen = BTreeSet::new();
        let missing = self.placeholders();
        let missing: Vec<(&str, Position)> = missing
            .filter(|(key, _)| value(key).is_none() && seen.insert(*key))
            .collect();
        if let Some(((key, at), also)) = missing.split_first() {
            return Err(PromptError::MissingArgument {
                key: (*key).to_owned(),
                at: *at,
                also: also.iter().map(|(key, _)| (*key).to_owned()).collect(),
            });
        }
        // Every placeholder has a value from here on.
        let value = |key: &str| value(key).unwrap_or_default();
        // Summed before it is made: a value may stand in many places.
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Words(words) => Some(words),
            Part::Expression { .. } => None,
        });
        let bytes = words.flatten().map(|word| match word {
            Word::Text(text) => text.len(),
            Word::Key { key, .. } => value(key).len(),
        });
        fits(bytes.fold(0, usize::saturating_add))?;

        let mut substituted = Substituted {
            texts: vec![String::new()],
            expressions: Vec::new(),
        };
        for part in &self.parts {
            match part {
                Part::Words(words) => substituted.push_words(words, value),
                Part::Expression { command, at } => {
                    let command = fill_expression(command, *at, value)?;
                    substituted
                        .expressions
                        .push(Expression { command, at: *at });
                    substituted.texts.push(String::new());
                }
            }
        }
        let used: BTreeSet<&str> = self.placeholders().map(|(key, _)| key).collect();
        let unused = arguments
            .keys()
            .filter(|key| !used.contains(key.as_str()))
            .cloned()
            .collect();
        Ok((substituted, unused))
    }
}

/// A template with its arguments in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substituted {
    /// Always one more than there are expressions: they stand between the texts.
    texts: Vec<String>,
    expressions: Vec<Expression>,
}

/// A line (or several) for `sh -c` in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Complete with its values: needs nothing from the environment.
    pub command: String,
    /// Where it stands in the template.
    pub at: Position,
}

impl Substituted {
    /// What to run before each iteration, in the order of the template.
    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// What stands before, between and after the expressions: always one more than there are of them.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether there is nothing in it for an agent, whatever its expressions would print: it has none.
    pub fn is_blank(&self) -> bool {
        self.expressions.is_empty() && self.texts.iter().all(|text| text.trim().is_empty())
    }

    /// Bytes of all texts: without what the expressions print.
    pub fn bytes(&self) -> usize {
        self.texts.iter().map(String::len).sum()
    }

    /// Puts `text` below everything, an empty line between. Nothing in it is looked at.
    pub fn attach(&mut self, text: &str) -> Result<(), PromptError> {
        fits(self.bytes().saturating_add(text.len()))?;
        if let Some(last) = self.texts.last_mut() {
            last.push_str(if last.ends_with('\n') { "\n" } else { "\n\n" });
            last.push_str(text);
        }
        Ok(())
    }

    /// The prompt: `outputs` are the standard outputs of the expressions in their order; white space
    /// at their ends is dropped, nothing in them is looked at. A missing one is empty.
    pub fn render(&self, outputs: &[String]) -> String {
        let mut prompt = String::new();
        for (index, text) in self.texts.iter().enumerate() {
            prompt.push_str(text);
            if index < self.expressions.len() {
                prompt.push_str(
                    outputs
                        .get(index)
                        .map(|out| out.trim_end())
                        .unwrap_or_default(),
                );
            }
        }
        prompt
    }

    fn push_words<'a>(&mut self, words: &'a Words, value: impl Fn(&'a str) -> &'a str) {
        let Some(text) = self.texts.last_mut() else {
            return;
        };
        for word in words {
            text.push_str(match word {
                Word::Text(text) => text,
                Word::Key { key, .. } => value(key),
            });
        }
    }
}

fn fits(bytes: usize) -> Result<(), PromptError> {
    if bytes > PROMPT_LIMIT {
        return Err(PromptError::TooLong { bytes });
    }
    Ok(())
}

/// Values become shell variables of the expression; the template's own text refers to them.
fn fill_expression<'a>(
    command: &'a Words,
    at: Position,
    value: impl Fn(&'a str) -> &'a str,
) -> Result<String, PromptError> {
    let mut assigned = BTreeMap::new();
    let mut body = String::new();
    let mut shell = quote::Scanner::default();
    for word in command {
        match word {
            Word::Text(text) => {
                shell.read(text);
                body.push_str(text);
            }
            Word::Key { key, at } => {
                let value = value(key);
                if value.contains('\0') {
                    return Err(PromptError::NulInArgument {
                        key: key.clone(),
                        at: *at,
                    });
                }
                if shell.evaluates_values() {
                    return Err(PromptError::Evaluated {
                        key: key.clone(),
                        at: *at,
                    });
                }
                assigned.insert(key.as_str(), value);
                shell.push_variable(&mut body, key);
            }
        }
    }
    let mut script = String::new();
    for (key, value) in assigned {
        script.push_str(&quote::assignment(key, value));
    }
    script.push_str(&body);
    if script.len() > EXPRESSION_LIMIT {
        return Err(PromptError::LongExpression {
            at,
            bytes: script.len(),
        });
    }
    Ok(script)
}

fn is_builtin(key: &str) -> bool {
    matches!(key, SOURCE_BRANCH | TARGET_BRANCH)
}

/// The next shell expression from `from` on: where it starts, its command, where it ends.
fn next_expression(text: &str, from: usize) -> Option<(usize, &str, usize)> {
    let mut from = from;
    loop {
        let start = from + text[from..].find("!`")?;
        let inner = start + "!`".len();
        let close = inner + text[inner..].find('`')?;
        if close > inner {
            return Some((start, &text[inner..close], close + 1));
        }
        from = inner;
    }
}

/// The key of a placeholder at the start of `text`, and the placeholder's length in bytes.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?.trim_start();
    let length = inner
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count();
    let key = &inner[..length];
    if key.is_empty() || key.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let rest = inner[length..].trim_start().strip_prefix("}}")?;
    Some((key, text.len() - rest.len()))
}

/// Walks through the template and knows line and column.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    position: Position,
}

impl Reader<'_> {
    fn words(&mut self, end: usize) -> Words {
        let mut words = Words::new();
        let mut plain = self.at;
        let mut look = self.at;
        while let Some(found) = self.text[look..end].find("{{") {
            let open = look + found;
            let Some((key, length)) = placeholder(&self.text[open..end]) else {
                look = open + 1;
                continue;
            };
            if open > plain {
                words.push(Word::Text(self.text[plain..open].to_owned()));
            }
            self.skip_to(open);
            words.push(Word::Key {
                key: key.to_owned(),
                at: self.position,
            });
            plain = open + length;
            look = plain;
        }
        if end > plain {
            words.push(Word::Text(self.text[plain..end].to_owned()));
        }
        self.skip_to(end);
        words
    }

    fn skip_to(&mut self, end: usize) {
        for c in self.text[self.at..end].chars() {
            if c == '\n' {
                self.position.line += 1;
                self.position.column = 1;
            } else {
                self.position.column += 1;
            }
        }
        self.at = end;
    }
}
