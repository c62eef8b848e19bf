//! Values inside a shell expression are data, whatever they contain.
//!
//! A value never stands in the text that the shell parses as the template's own command. It is
//! assigned to a variable in front of it, in single quotes at the top level, where nothing but a
//! single quote is special (POSIX.1-2017, Shell Command Language, 2.2.2). The command refers to the
//! variable. The scanner below only decides how the reference is written, so that it works inside
//! the template's own quotes too; where it is wrong (here-documents), the reference comes out with
//! quotes around it, and the value is still data.

/// `VARIABLE='value'` and a line feed. `value` must not contain a NUL.
pub(super) fn assignment(key: &str, value: &str) -> String {
    format!("{}='{}'\n", variable(key), value.replace('\'', r"'\''"))
}

fn variable(key: &str) -> String {
    format!("COFFERDAM_ARG_{key}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Single,
    Double,
    /// `$(…)`, and plain parentheses in it or outside.
    Parenthesis,
    /// `$((…))` or `((…))`
    Arithmetic,
    /// `${…}`
    Brace,
    Comment,
}

/// What the last character makes of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A `#` would start a comment.
    WordStart,
    /// It opened a parenthesis: a word starts, and a second one is arithmetic.
    Opened,
    Backslash,
    Dollar,
    Other,
}

/// Knows inside which quotes the shell is after the text that was read.
#[derive(Debug)]
pub(super) struct Scanner {
    stack: Vec<Inside>,
    last: Last,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            stack: Vec::new(),
            last: Last::WordStart,
        }
    }
}

impl Scanner {
    pub(super) fn read(&mut self, text: &str) {
        for c in text.chars() {
            self.step(c);
        }
    }

    /// Some shells evaluate what a variable holds in arithmetic (`a[$(command)]`), and `${x:…}` is
    /// arithmetic too.
    pub(super) fn evaluates_values(&self) -> bool {
        self.stack
            .iter()
            .any(|inside| matches!(inside, Inside::Arithmetic | Inside::Brace))
    }

    /// Appends the reference to a value: always one word, never split, never expanded further.
    pub(super) fn push_variable(&mut self, body: &mut String, key: &str) {
        let variable = variable(key);
        // A backslash before the placeholder would escape the reference's first character.
        if self.last == Last::Backslash {
            body.push('\\');
        }
        let (open, close) = match self.stack.last() {
            Some(Inside::Single) => ("'\"", "\"'"),
            Some(Inside::Double) => ("", ""),
            _ => ("\"", "\""),
        };
        body.extend([open, "${", &variable, "}", close]);
        self.last = Last::Other;
    }

    fn step(&mut self, c: char) {
        let last = std::mem::replace(&mut self.last, Last::Other);
        if last == Last::Backslash {
            return;
        }
        match (self.stack.last(), c) {
            (Some(Inside::Comment), '\n') => {
                self.stack.pop();
                self.last = Last::WordStart;
            }
            (Some(Inside::Single), '\'')
            | (Some(Inside::Double), '"')
            | (Some(Inside::Parenthesis | Inside::Arithmetic), ')')
            | (Some(Inside::Brace), '}') => {
                self.stack.pop();
            }
            (Some(Inside::Comment | Inside::Single), _) => {}
            (_, '\\') => self.last = Last::Backslash,
            (_, '$') => self.last = Last::Dollar,
            (Some(Inside::Parenthesis), '(') if last == Last::Opened => {
                self.stack.push(Inside::Arithmetic);
            }
            (_, '(') if last == Last::Dollar => self.open(),
            (_, '{') if last == Last::Dollar => self.stack.push(Inside::Brace),
            (Some(Inside::Double), _) => {}
            (_, '"') => self.stack.push(Inside::Double),
            (_, '\'') => self.stack.push(Inside::Single),
            (_, '(') => self.open(),
            (Some(Inside::Brace), _) => {}
            (_, '#') if matches!(last, Last::WordStart | Last::Opened) => {
                self.stack.push(Inside::Comment);
            }
            (_, c) if c.is_whitespace() || ";&|".contains(c) => self.last = Last::WordStart,
            _ => {}
        }
    }

    fn open(&mut self) {
        self.stack.push(Inside::Parenthesis);
        self.last = Last::Opened;
    }
}
