//! Git's own options, which stand before the subcommand.

use super::Word;
use super::environment::Environment;
use super::settings::Setting;

/// They take nothing.
const ALONE: &[&str] = &[
    "-p",
    "--paginate",
    "-P",
    "--no-pager",
    "--bare",
    "--literal-pathspecs",
    "--no-literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--no-optional-locks",
    "--no-advice",
];

/// They take the next word, or what follows an equals sign.
const WITH_VALUE: &[&str] = &[
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--attr-source",
    "--shallow-file",
    "--config-env",
];

/// They take the next word, and nothing in their own.
const SHORT_WITH_VALUE: &[&str] = &["-C", "-c"];

/// Those by which git finds its configuration.
const STEERING: &[&str] = &[
    "-C",
    "-c",
    "--config-env",
    "--git-dir",
    "--work-tree",
    "--bare",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Globals {
    pub(super) settings: Vec<Setting>,
    /// Options to ask git for its configuration with, as they were given.
    pub(super) steering: Vec<Word>,
}

/// What stands before the subcommand, and from it on: nothing where git runs none.
pub(super) fn read<'w>(words: &'w [Word], environment: &Environment) -> (Globals, &'w [Word]) {
    let mut globals = Globals::default();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if word.first() != Some(&b'-') {
            return (globals, rest);
        }
        rest = after;
        // Without a value it prints one and ends.
        if ALONE.iter().any(is(word)) || word.starts_with(b"--exec-path=") {
            globals.keep(&[word]);
            continue;
        }
        if SHORT_WITH_VALUE.iter().chain(WITH_VALUE).any(is(word)) {
            let Some((value, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            globals.keep(&[word, value]);
            globals.set(word, value, environment);
            continue;
        }
        let joined = WITH_VALUE.iter().find_map(|name| {
            let value = word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some((name.as_bytes(), value))
        });
        let Some((name, value)) = joined else {
            // `--version`, `--list-cmds=`, or what git does not know either.
            break;
        };
        globals.keep(&[word]);
        globals.set(name, value, environment);
    }
    (globals, &[])
}

fn is(word: &[u8]) -> impl Fn(&&str) -> bool {
    move |name| name.as_bytes() == word
}

impl Globals {
    fn keep(&mut self, words: &[&Word]) {
        let name = words[0].split(|&byte| byte == b'=').next();
        if STEERING.iter().any(is(name.unwrap_or_default())) {
            self.steering.extend(words.iter().copied().cloned());
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8], environment: &Environment) {
        match name {
            b"-c" => self.settings.push(Setting::option(value)),
            b"--config-env" => self.settings.push(Setting::variable(value, environment)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ')
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    #[test]
    fn the_subcommand_is_found() {
        let check = |text: &str, rest: &str, steering: &str| {
            let words_of = |text: &str| {
                if text.is_empty() {
                    Vec::new()
                } else {
                    words(text)
                }
            };
            let all = words(text);
            let (globals, found) = read(&all, &Environment::default());
            assert_eq!(found, words_of(rest), "{text}");
            assert_eq!(globals.steering, words_of(steering), "{text}");
        };
        check("commit -n", "commit -n", "");
        check("-C commit push -f", "push -f", "-C commit");
        check("-c a.b=c -p push", "push", "-c a.b=c");
        check(
            "--git-dir=x --git-dir y push",
            "push",
            "--git-dir=x --git-dir y",
        );
        check("--exec-path=/x --no-pager push", "push", "");
        check("--namespace commit --bare push", "push", "--bare");
        check("--attr-source=HEAD push", "push", "");
        check(
            "--super-prefix a/ --config-env=a.b=HOME push",
            "push",
            "--config-env=a.b=HOME",
        );
        // Git prints something, or fails.
        for text in [
            "--version push",
            "--exec-path push",
            "--list-cmds=main push",
            "-cx push",
            "-C",
            "--nothing push",
        ] {
            check(text, "", "");
        }
    }

    #[test]
    fn what_is_set_is_seen() {
        let mut environment = Environment::default();
        environment.set(b"X", b"+a");
        for (text, moves, forces) in [
            ("-c core.hooksPath=/x push", true, false),
            ("-c core.hooksPath push", true, false),
            ("--config-env=core.hooksPath=X push", true, false),
            ("--config-env core.hooksPath=X push", true, false),
            ("--config-env=remote.a.push=X push", false, true),
            ("-C core.hooksPath=/x push", false, false),
        ] {
            let all = words(text);
            let (globals, _) = read(&all, &environment);
            assert_eq!(
                globals.settings.iter().any(Setting::moves_hooks),
                moves,
                "{text}"
            );
            assert_eq!(
                globals.settings.iter().any(Setting::forces),
                forces,
                "{text}"
            );
        }
    }
}
