//! Has the agent said that nothing is left to do? (S2-17)
//!
//! A signal counts only in a final message of the agent that is no error. Tool output, files,
//! standard error and other lines never become such a message; a prompt that the agent repeats is
//! not the agent's word either:
//!
//! - Where the agent's program marks its final message (claude-code, codex), the message is searched
//!   after the whole prompt, and every line that repeats a longer line of the prompt, were taken out.
//! - Where it does not (`command`), a line of output is a final message if it is the signal and
//!   nothing else, and is not part of an echo: see `Echo`.

use std::collections::HashSet;

use super::event::AgentEvent;

/// The first of `signals` that stands in `text`. An empty signal never does.
pub fn signal_in<'s>(text: &str, signals: &'s [String]) -> Option<&'s str> {
    signals
        .iter()
        .map(String::as_str)
        .find(|signal| !signal.is_empty() && text.contains(signal))
}

/// The signal by which `event` ends a run that asked `prompt`.
pub fn completion<'s>(event: &AgentEvent, prompt: &str, signals: &'s [String]) -> Option<&'s str> {
    let AgentEvent::Result {
        text,
        is_error: false,
    } = event
    else {
        return None;
    };
    let signal = signal_in(text, signals)?;
    if signal_in(prompt, signals).is_none() {
        return Some(signal);
    }
    signal_in(&without_quotes(text, prompt, signals), signals)
}

/// `text` without what it repeats of the prompt. A line of the prompt that is nothing but a signal
/// is no quote by itself: it is what the agent was told to say.
fn without_quotes(text: &str, prompt: &str, signals: &[String]) -> String {
    let bare = |line: &str| signals.iter().any(|signal| signal.trim() == line);
    let whole = prompt.trim();
    let text = if bare(whole) {
        text.to_owned()
    } else {
        text.replace(whole, "")
    };
    let quotable: HashSet<&str> = prompt
        .lines()
        .map(str::trim)
        .filter(|line| !bare(line) && signal_in(line, signals).is_some())
        .collect();
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !quotable.contains(line.trim()))
        .collect();
    kept.join("\n")
}

/// So many characters before a signal must be the prompt's for the signal to be an echo.
const CONTEXT: usize = 16;

/// Tells an agent's own signal from a prompt that it prints back, for agents whose output is plain
/// text.
///
/// The signal in an echo follows what precedes it in the prompt. So a signal line is an echo if the
/// [`CONTEXT`] characters printed before it (fewer where the prompt has fewer) are those before the
/// signal somewhere in the prompt. White space, line breaks, control characters and terminal
/// escapes do not count: indented, wrapped and coloured echoes are found too. A signal at the very
/// start of the prompt has nothing before it; there the line is held until what follows decides, and
/// if the prompt is nothing but the signal, the first such line is the echo.
///
/// What this cannot know: an agent that prints only a part of the prompt which begins less than
/// those characters before the signal (`tail -n 1`) has said the signal.
#[derive(Debug)]
pub(super) struct Echo {
    signals: Vec<String>,
    /// What precedes a signal in the prompt, by signal.
    contexts: HashSet<(usize, String)>,
    /// What follows a signal at the very start of the prompt, by signal.
    starts: Vec<(usize, String)>,
    /// Lines of the prompt that contain as much as a bounded line of output keeps.
    prompt: String,
    /// The last characters printed.
    printed: String,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    signal: usize,
    /// What the prompt has next and the output must have for this to be an echo.
    expected: String,
    followed: bool,
}

impl Echo {
    pub(super) fn new(prompt: &str, signals: &[String]) -> Self {
        let signals: Vec<String> = signals
            .iter()
            .map(|s| s.trim().to_owned())
            .filter(|s| !s.is_empty())
            .collect();
        let mut echo = Self {
            contexts: HashSet::new(),
            starts: Vec::new(),
            prompt: String::new(),
            printed: String::new(),
            held: None,
            signals,
        };
        let dense = dense(prompt);
        for (index, signal) in echo.signals.iter().enumerate() {
            let signal: String = self::dense(signal);
            if signal.is_empty() {
                continue;
            }
            for (at, _) in dense.match_indices(&signal) {
                if at == 0 {
                    let rest = &dense[signal.len()..];
                    let rest: String = rest.chars().take(CONTEXT).collect();
                    echo.starts.push((index, rest));
                } else {
                    echo.contexts.insert((index, tail(&dense[..at]).to_owned()));
                }
            }
        }
        if !echo.contexts.is_empty() {
            prompt.clone_into(&mut echo.prompt);
        }
        echo
    }

    /// Takes one line of output; gives the signals that are now known to be the agent's own.
    pub(super) fn line(&mut self, line: &str, truncated: bool) -> Vec<String> {
        let mut said = Vec::new();
        if self.contexts.is_empty() && self.starts.is_empty() && self.held.is_none() {
            // The prompt holds no signal.
            let found = self
                .signals
                .iter()
                .find(|signal| !truncated && *signal == line.trim());
            said.extend(found.cloned());
            return said;
        }
        let visible = dense(line);
        if let Some(signal) = self.settle(&visible) {
            said.push(signal);
        }
        if !truncated
            && let Some(index) = self.signals.iter().position(|signal| signal == line.trim())
            && !self.follows_the_prompt(index)
        {
            match self.starts.iter().position(|(signal, _)| *signal == index) {
                None => said.push(self.signals[index].clone()),
                Some(start) if self.starts[start].1.is_empty() => {
                    self.starts.remove(start);
                }
                Some(start) => {
                    let expected = self.starts[start].1.clone();
                    self.held = Some(Held {
                        signal: index,
                        expected,
                        followed: false,
                    });
                }
            }
        }
        self.printed.push_str(&visible);
        if truncated {
            self.complete_from_prompt(line);
        }
        let keep = tail(&self.printed).to_owned();
        self.printed = keep;
        said
    }

    /// The output has ended.
    pub(super) fn end(&mut self) -> Option<String> {
        let held = self.held.take()?;
        (!held.followed).then(|| self.signals[held.signal].clone())
    }

    /// Compares what is printed after a held signal with what the prompt has there.
    fn settle(&mut self, visible: &str) -> Option<String> {
        let mut held = self.held.take()?;
        if let Some(rest) = held.expected.strip_prefix(visible) {
            // A part of it, or an empty line: still open.
            held.followed |= !visible.is_empty();
            held.expected = rest.into();
            if !held.expected.is_empty() {
                self.held = Some(held);
            }
            return None;
        }
        if visible.starts_with(&held.expected) {
            return None;
        }
        Some(self.signals[held.signal].clone())
    }

    fn follows_the_prompt(&self, signal: usize) -> bool {
        // Contexts shorter than `CONTEXT` are those at the start of the prompt.
        self.printed.char_indices().any(|(at, _)| {
            self.contexts
                .contains(&(signal, self.printed[at..].to_owned()))
        })
    }

    /// A line longer than the bound lost its end. If it is a line of the prompt, its end is known.
    fn complete_from_prompt(&mut self, kept: &str) {
        let kept = kept.trim_end_matches('\u{fffd}').trim();
        let line = self
            .prompt
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(kept));
        if let Some(line) = line.filter(|_| !kept.is_empty()) {
            self.printed = tail(&dense(line)).into();
        }
    }
}

fn tail(text: &str) -> &str {
    text.char_indices()
        .rev()
        .nth(CONTEXT - 1)
        .map_or(text, |(at, _)| &text[at..])
}

/// The visible characters of `text`: no white space, control characters or terminal escapes.
fn dense(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            match chars.next() {
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => while chars.next().is_some_and(|c| c != '\u{7}' && c != '\\') {},
                _ => {}
            }
        } else if !c.is_whitespace() && !c.is_control() {
            out.push(c);
        }
    }
    out
}
