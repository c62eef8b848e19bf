//! The theme of the user's own zsh, as their start files name it for oh-my-zsh.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::fsx;

/// Longer ones are not looked through.
const LIMIT: u64 = 1 << 20;
/// Words that may stand before an assignment, with options of theirs.
const DECLARING: [&str; 4] = ["export", "typeset", "declare", "readonly"];

/// What the start files say in so many words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub(super) name: String,
    /// Where themes of the user's own are.
    pub(super) directory: PathBuf,
}

/// The one that `.zshrc` names; none where it names none. `environment`: of this machine.
pub fn theme(user_home: &Path, environment: &BTreeMap<OsString, OsString>) -> Option<Theme> {
    let mut known = vec![("HOME", user_home.to_owned())];
    // Who was started by their zsh has it.
    let exported = environment.get(OsStr::new("ZDOTDIR")).map(PathBuf::from);
    let zshenv = text(&user_home.join(".zshenv"));
    let files = exported.filter(|path| path.is_absolute());
    let files = files.or_else(|| directory(&zshenv, "ZDOTDIR", &known));
    let files = files.unwrap_or_else(|| user_home.to_owned());
    let zshrc = text(&files.join(".zshrc"));
    known.push(("ZDOTDIR", files));
    let name = assigned(&zshrc, "ZSH_THEME")?;
    // A name and no program: what is made of it is sourced.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    let zsh = directory(&zshrc, "ZSH", &known);
    let zsh = zsh.unwrap_or_else(|| user_home.join(".oh-my-zsh"));
    let custom = zsh.join("custom");
    known.push(("ZSH", zsh));
    let custom = directory(&zshrc, "ZSH_CUSTOM", &known).unwrap_or(custom);
    Some(Theme {
        name: name.to_owned(),
        directory: custom.join("themes"),
    })
}

/// What is sourced before oh-my-zsh.
pub(super) fn assignment(name: &str) -> Vec<u8> {
    format!("ZSH_THEME=\"{name}\"\n").into_bytes()
}

/// Empty where there is none.
fn text(path: &Path) -> String {
    let text = fsx::read_bounded(path, LIMIT).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The last value that a line gives the variable, without its quotation marks.
fn assigned<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut values = text.lines().rev().filter_map(|line| {
        let mut rest = line.trim_start();
        let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if DECLARING.contains(&first) {
            rest = after.trim_start();
            while rest.starts_with('-') {
                rest = rest.split_once(' ')?.1.trim_start();
            }
        }
        rest.strip_prefix(name)?.strip_prefix('=')
    });
    let value = values.next()?;
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
        _ => value.split([' ', '\t', '#', ';', '&', '|']).next(),
    }
}

/// The same, of one that names a directory: from the root, or below what a variable of `known` holds.
fn directory(text: &str, name: &str, known: &[(&str, PathBuf)]) -> Option<PathBuf> {
    let value = assigned(text, name)?;
    let is_plain = |text: &str| !text.contains(['$', '`', '\\', '*', '"']);
    let below = |(name, base): &(&str, PathBuf)| {
        let forms = [format!("${name}"), format!("${{{name}}}")];
        let home = (*name == "HOME").then(|| "~".to_owned());
        let mut forms = forms.into_iter().chain(home);
        let rest = forms.find_map(|form| value.strip_prefix(&form))?;
        let is_whole = rest.is_empty() || rest.starts_with('/');
        (is_whole && is_plain(rest)).then(|| base.join(rest.trim_start_matches('/')))
    };
    let whole = Path::new(value);
    let whole = (whole.is_absolute() && is_plain(value)).then(|| whole.to_owned());
    known.iter().find_map(below).or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The theme of a user whose files say this.
    fn found(files: &[(&str, &str)], zdotdir: Option<&str>) -> Option<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            crate::fsx::private_dir(path.parent().unwrap()).unwrap();
            crate::fsx::write_private(&path, text.as_bytes()).unwrap();
        }
        let value = zdotdir.map(|below| home.path().join(below).into_os_string());
        let environment = value.map(|value| (OsString::from("ZDOTDIR"), value));
        let Theme { name, directory } = theme(home.path(), &environment.into_iter().collect())?;
        let shown = directory.to_string_lossy().into_owned();
        Some((name, shown.replace(home.path().to_str().unwrap(), "~")))
    }

    // covers: S1-115, S1-116
    #[test]
    fn it_is_the_last_that_is_named_in_so_many_words() {
        for (text, expected) in [
            ("", None),
            ("ZSH_THEME=\"robbyrussell\"\n", Some("robbyrussell")),
            ("ZSH_THEME='a'\n  ZSH_THEME=b # mine\n", Some("b")),
            ("ZSH_THEME=a; x\n", Some("a")),
            ("export ZSH_THEME=a\n", Some("a")),
            (
                "\texport  ZSH_THEME=\"a b\"\nexport ZSH_THEME='b'\n",
                Some("b"),
            ),
            ("typeset -g -x ZSH_THEME=a && x\n", Some("a")),
            (
                "ZSH_THEME=\"powerlevel10k/powerlevel10k\"\n",
                Some("powerlevel10k/powerlevel10k"),
            ),
            ("# ZSH_THEME=\"old\"\n", None),
            ("# export ZSH_THEME=\"old\"\n", None),
            ("echo ZSH_THEME=a\n", None),
            ("export -p\n", None),
            ("ZSH_THEME=\"\"\n", None),
            ("ZSH_THEME=\"$(touch /tmp/x)\"\n", None),
            ("export ZSH_THEME=$OTHER\n", None),
            ("MY_ZSH_THEME=a\n", None),
        ] {
            let found = found(&[(".zshrc", text)], None);
            assert_eq!(found.map(|(name, _)| name).as_deref(), expected, "{text:?}");
        }
        assert_eq!(assignment("robbyrussell"), b"ZSH_THEME=\"robbyrussell\"\n");
    }

    // covers: S1-115, S1-118
    #[test]
    fn start_files_and_themes_are_where_the_user_has_them() {
        let usual = "~/.oh-my-zsh/custom/themes";
        for (lines, directory) in [
            ("", usual),
            ("export ZSH=\"$HOME/.omz\"", "~/.omz/custom/themes"),
            ("ZSH=~/.omz\nZSH_CUSTOM=$ZSH/mine", "~/.omz/mine/themes"),
            ("export ZSH_CUSTOM=~/zsh", "~/zsh/themes"),
            ("ZSH_CUSTOM=\"${HOME}/zsh\"", "~/zsh/themes"),
            ("ZSH_CUSTOM=${ZDOTDIR}/zsh", "~/zsh/themes"),
            ("ZSH_CUSTOM=/opt/zsh", "/opt/zsh/themes"),
            // What only a shell could tell.
            ("ZSH_CUSTOM=$(pwd)", usual),
            ("ZSH_CUSTOM=$HOMES/zsh", usual),
            ("ZSH_CUSTOM=~other/zsh", usual),
            ("ZSH_CUSTOM=zsh", usual),
            ("ZSH_CUSTOM=$HOME/$MINE", usual),
        ] {
            let text = format!("{lines}\nZSH_THEME=a\n");
            let found = found(&[(".zshrc", &text)], None);
            assert_eq!(found.unwrap().1, directory, "{lines:?}");
        }
        let theirs = (".config/zsh/.zshrc", "ZSH_THEME=a\nZSH=$ZDOTDIR/omz\n");
        let there = Some(("a".to_owned(), "~/.config/zsh/omz/custom/themes".to_owned()));
        let names_it = (".zshenv", "export ZDOTDIR=\"$HOME/.config/zsh\"\n");
        assert_eq!(found(&[theirs, names_it], None), there);
        assert_eq!(found(&[theirs], Some(".config/zsh")), there);
        assert_eq!(found(&[theirs], None), None);
    }
}
