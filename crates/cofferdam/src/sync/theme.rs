//! The theme of the user's own zsh, as their `.zshrc` names it for oh-my-zsh.

use std::path::Path;

use crate::fsx;

/// Longer ones are not looked through.
const LIMIT: u64 = 1 << 20;

/// Its name, where `.zshrc` says it in so many words.
pub(super) fn named(user_home: &Path) -> Option<String> {
    let text = fsx::read_bounded(&user_home.join(".zshrc"), LIMIT).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut said =
        (text.lines().rev()).filter_map(|line| line.trim_start().strip_prefix("ZSH_THEME="));
    let value = said.next()?;
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next()?,
        _ => value.split([' ', '\t', '#', ';']).next()?,
    };
    // A name and no program: the file is sourced.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    (!value.is_empty() && value.chars().all(plain)).then(|| value.to_owned())
}

/// What is sourced before oh-my-zsh.
pub(super) fn assignment(name: &str) -> Vec<u8> {
    format!("ZSH_THEME=\"{name}\"\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: S1-115, S1-116
    #[test]
    fn it_is_the_last_that_is_named_in_so_many_words() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(named(place.path()), None);
        for (text, expected) in [
            ("ZSH_THEME=\"robbyrussell\"\n", Some("robbyrussell")),
            ("ZSH_THEME='a'\n  ZSH_THEME=b # mine\n", Some("b")),
            (
                "ZSH_THEME=\"powerlevel10k/powerlevel10k\"\n",
                Some("powerlevel10k/powerlevel10k"),
            ),
            ("# ZSH_THEME=\"old\"\n", None),
            ("ZSH_THEME=\"\"\n", None),
            ("ZSH_THEME=\"$(touch /tmp/x)\"\n", None),
            ("ZSH_THEME=$OTHER\n", None),
            ("MY_ZSH_THEME=a\n", None),
        ] {
            crate::fsx::write_private(&place.path().join(".zshrc"), text.as_bytes()).unwrap();
            assert_eq!(named(place.path()).as_deref(), expected, "{text:?}");
        }
        assert_eq!(assignment("robbyrussell"), b"ZSH_THEME=\"robbyrussell\"\n");
    }
}
