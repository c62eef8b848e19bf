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

/// Knows inside which quotes the shell is after the text that was read.
#[derive(Debug)]
pub(super) struct Scanner {
    stack: Vec<Inside>,
    escaped: bool,
    dollar: bool,
    /// The last character opened a parenthesis.
    opened: bool,
    /// A `#` here would start a comment.
    word_start: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            stack: Vec::new(),
            escaped: false,
            dollar: false,
            opened: false,
            word_start: true,
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
        if std::mem::take(&mut self.escaped) {
            body.push('\\');
        }
        body.push_str(&match self.stack.last() {
            Some(Inside::Single) => format!("'\"${{{variable}}}\"'"),
            Some(Inside::Double) => format!("${{{variable}}}"),
            _ => format!("\"${{{variable}}}\""),
        });
        self.dollar = false;
        self.opened = false;
        self.word_start = false;
    }

    fn step(&mut self, c: char) {
        let inside = self.stack.last().copied();
        let dollar = std::mem::take(&mut self.dollar);
        let opened = std::mem::take(&mut self.opened);
        let word_start = std::mem::take(&mut self.word_start);
        if std::mem::take(&mut self.escaped) {
            return;
        }
        match (inside, c) {
            (Some(Inside::Comment), '\n') | (Some(Inside::Single), '\'') => {
                self.stack.pop();
                self.word_start = c == '\n';
            }
            (Some(Inside::Comment | Inside::Single), _) => {}
            (_, '\\') => self.escaped = true,
            (_, '$') => self.dollar = true,
            (Some(Inside::Double), '"')
            | (Some(Inside::Parenthesis | Inside::Arithmetic), ')')
            | (Some(Inside::Brace), '}') => {
                self.stack.pop();
            }
            (Some(Inside::Parenthesis), '(') if opened => self.stack.push(Inside::Arithmetic),
            (_, '(') if dollar => self.open(),
            (_, '{') if dollar => self.stack.push(Inside::Brace),
            (Some(Inside::Double), _) => {}
            (_, '"') => self.stack.push(Inside::Double),
            (_, '\'') => self.stack.push(Inside::Single),
            (_, '(') => self.open(),
            (Some(Inside::Brace), _) => {}
            (_, '#') if word_start => self.stack.push(Inside::Comment),
            (_, c) => self.word_start = c.is_whitespace() || ";&|".contains(c),
        }
    }

    fn open(&mut self) {
        self.stack.push(Inside::Parenthesis);
        self.opened = true;
        self.word_start = true;
    }
}
