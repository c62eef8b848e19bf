//! Words of shell commands that are printed to be copied.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use cofferdam::names::BranchName;
use cofferdam::text::printable_line;

/// `text` as one word of a shell command that can be copied from the terminal: what cannot be shown
/// as it is stands in `$'…'`, which bash, zsh and POSIX.1-2024 know.
pub(crate) fn shell_word(text: impl AsRef<OsStr>) -> String {
    let bytes = text.as_ref().as_bytes();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Ok(text) if printable_line(text) == text => format!("'{}'", text.replace('\'', "'\\''")),
        _ => {
            let mut word = String::from("$'");
            for &byte in bytes {
                match byte {
                    b'\'' | b'\\' => word.extend(['\\', char::from(byte)]),
                    b' '..=b'~' => word.push(char::from(byte)),
                    // Three digits, because a shorter escape would swallow a digit after it.
                    _ => {
                        let _ = write!(word, "\\{byte:03o}");
                    }
                }
            }
            word.push('\'');
            word
        }
    }
}

/// The option that means the dev sandbox of this branch, a space before it; nothing for that of the checkout.
pub(crate) fn branch_option(branch: Option<&BranchName>) -> String {
    branch.map_or_else(String::new, |branch| {
        format!(" --branch {}", shell_word(branch.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_survive_a_shell() {
        assert_eq!(shell_word("/a/b-c.log"), "/a/b-c.log");
        assert_eq!(shell_word("/a b/it's"), "'/a b/it'\\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("größe"), "'größe'");
        assert_eq!(shell_word("a\n'\\1"), "$'a\\012\\'\\\\1'");
        assert_eq!(shell_word(OsStr::from_bytes(b"\xff1")), "$'\\3771'");
    }
}
