//! One text as words, as git takes an alias apart (`split_cmdline` of its alias.c).

use super::Word;

/// `None` where git takes it for broken: a quote without an end, a backslash at the end.
pub(super) fn split(text: &[u8]) -> Option<Vec<Word>> {
    let (mut words, mut word) = (Vec::new(), Word::new());
    let mut quote = None;
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => quote = Some(byte),
            b'\\' if quote != Some(b'\'') => word.push(bytes.next()?),
            _ if quote.is_none() && is_space(byte) => {
                while bytes.next_if(|&next| is_space(next)).is_some() {}
                words.push(std::mem::take(&mut word));
            }
            _ => word.push(byte),
        }
    }
    words.push(word);
    quote.is_none().then_some(words)
}

/// Git's own table: without the vertical tab and the form feed of C's.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_apart_as_git_does() {
        let check = |text: &str, words: Option<&[&str]>| {
            let words = words.map(|words| words.iter().map(|word| word.as_bytes().to_vec()));
            assert_eq!(
                split(text.as_bytes()),
                words.map(Iterator::collect),
                "{text}"
            );
        };
        check("commit --no-verify", Some(&["commit", "--no-verify"]));
        check(
            "log  -1\t--format='%h %s'",
            Some(&["log", "-1", "--format=%h %s"]),
        );
        check(r#"a "b \" c" \'d"#, Some(&["a", "b \" c", "'d"]));
        check(r"'a\b'", Some(&[r"a\b"]));
        check("'a'\\''b'", Some(&["a'b"]));
        check("", Some(&[""]));
        check("a ", Some(&["a", ""]));
        check("'a", None);
        check("a\\", None);
    }
}
