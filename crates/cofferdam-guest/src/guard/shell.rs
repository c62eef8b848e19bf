//! The commands in a text for a shell, as far as they can be seen without being one.
//!
//! For an alias that begins with `!`, and for `rebase --exec`: git puts its own directory before `PATH` for those, so what they call is
//! the real git, and nobody looks again. Nothing is expanded but all arguments at once (`"$@"`).

use super::Word;

/// What may stand before a command without being part of it.
const BEFORE: &[&[u8]] = &[
    b"{", b"!", b"if", b"then", b"else", b"elif", b"while", b"until", b"do", b"exec", b"command",
];

/// The words of each simple command.
pub(super) fn commands(text: &[u8]) -> Vec<Vec<Word>> {
    let mut reader = Reader::default();
    reader.read(text);
    for command in &mut reader.commands {
        let before = command.iter().take_while(|word| BEFORE.contains(&&***word));
        command.drain(..before.count());
    }
    reader.commands
}

/// The words of a command with what a text is given: where they name all of it, and after the last one.
pub(super) fn given(words: &[Word], arguments: &[Word], is_last: bool) -> Vec<Word> {
    let named = words.iter().position(|word| word == b"$@");
    let (before, after) = match named {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let in_between = if named.is_some() { arguments } else { &[] };
    let at_the_end = if is_last { arguments } else { &[] };
    [before, in_between, after, at_the_end].concat()
}

#[derive(Debug, Default)]
struct Reader {
    commands: Vec<Vec<Word>>,
    command: Vec<Word>,
    word: Option<Word>,
    /// The next word is a file.
    is_redirected: bool,
}

impl Reader {
    fn read(&mut self, text: &[u8]) {
        let mut bytes = text.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\'' => {
                    let quoted = bytes.by_ref().take_while(|&byte| byte != b'\'');
                    self.word.get_or_insert_default().extend(quoted);
                }
                b'"' => {
                    let word = self.word.get_or_insert_default();
                    while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
                        word.push(byte);
                        if byte == b'\\'
                            && bytes.peek().is_some_and(|next| b"\\\"$`".contains(next))
                        {
                            word.pop();
                            word.extend(bytes.next());
                        }
                    }
                }
                b'\\' => self.word.get_or_insert_default().extend(bytes.next()),
                b'#' if self.word.is_none() => {
                    while bytes.next_if(|&byte| byte != b'\n').is_some() {}
                }
                b'<' | b'>' => {
                    self.end_word();
                    self.is_redirected = true;
                    while bytes.next_if(|next| b"<>&|".contains(next)).is_some() {}
                }
                b';' | b'&' | b'|' | b'\n' | b'(' | b')' => self.end_command(),
                b' ' | b'\t' | b'\r' => self.end_word(),
                _ => self.word.get_or_insert_default().push(byte),
            }
        }
        self.end_command();
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_redirected) {
            self.command.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_redirected = false;
        let command = std::mem::take(&mut self.command);
        if !command.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_what_a_shell_runs() {
        let check = |text: &str, expected: &[&[&str]]| {
            let found = commands(text.as_bytes());
            let found = found.iter().map(|command| {
                let words = command.iter().map(|word| String::from_utf8_lossy(word));
                words.collect::<Vec<_>>()
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
        };
        check("git commit -n", &[&["git", "commit", "-n"]]);
        check(
            "git add -A && git commit -m 'a; b'",
            &[&["git", "add", "-A"], &["git", "commit", "-m", "a; b"]],
        );
        check(
            "f() { git commit \"$@\" 2>&1 >/dev/null -n; }; f",
            &[&["f"], &["git", "commit", "$@", "2", "-n"], &["}"], &["f"]],
        );
        check("a # git commit -n\nb", &[&["a"], &["b"]]);
        check(
            "if ! git diff; then exec git push -f",
            &[&["git", "diff"], &["git", "push", "-f"]],
        );
        check(r#""a \" b" c\ d"#, &[&["a \" b", "c d"]]);
        check("'a", &[&["a"]]);
        check("", &[]);
    }

    #[test]
    fn arguments_stand_where_they_are_named_and_at_the_end() {
        let words = |text: &str| -> Vec<Word> {
            let words = text.split_whitespace();
            words.map(|word| word.as_bytes().to_vec()).collect()
        };
        let check = |text, is_last, expected| {
            let given = given(&words(text), &words("-x y"), is_last);
            assert_eq!(given, words(expected), "{text}");
        };
        check("commit $@ -n", false, "commit -x y -n");
        check("commit $@ -n", true, "commit -x y -n -x y");
        check("commit -n", false, "commit -n");
        check("commit -n", true, "commit -n -x y");
    }
}
