//! What was refused, for whoever called and for a log.

use std::fmt;

use super::Word;

/// The longest line of the log, in bytes.
const LONGEST: usize = 4096;

/// Why, and so what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// An option skips the hooks.
    SkipsHooks,
    /// A setting for this call or a variable turns them off.
    TurnsHooksOff,
    /// A setting that stays moves them.
    MovesHooks,
    /// A push overwrites what is there.
    Overwrites,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) command: &'static str,
    /// What stood there, without any value but those that we name ourselves.
    pub(super) what: String,
    pub(super) reason: Reason,
    /// The alias by which it was called.
    alias: Option<Word>,
}

impl Refusal {
    pub(super) fn new(command: &'static str, what: impl Into<String>, reason: Reason) -> Self {
        Self {
            command,
            what: what.into(),
            reason,
            alias: None,
        }
    }

    /// The outermost counts: that is what was typed.
    pub(super) fn by_alias(mut self, name: &[u8]) -> Self {
        self.alias = Some(name.to_vec());
        self
    }

    /// One line for the log: seconds since 1970, the subcommand and what was refused. Nothing of what else was said, which may be
    /// secret; so it has no control character either.
    pub(super) fn line(&self, seconds: u64) -> String {
        let mut line = format!("{seconds} {} {}", self.command, self.what);
        line.truncate(line.floor_char_boundary(LONGEST - 1));
        line.push('\n');
        line
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (command, what) = (self.command, &self.what);
        let called = match self.reason {
            Reason::TurnsHooksOff => format!("`git {command}` with `{what}`"),
            Reason::MovesHooks => format!("a change of `{what}`"),
            _ => format!("`git {command} {what}`"),
        };
        write!(f, "error: {called} is refused in this sandbox")?;
        if let Some(alias) = &self.alias {
            write!(f, " (the alias `{}`)", shown(alias))?;
        }
        let (why, instead) = match self.reason {
            Reason::SkipsHooks => (
                "it would skip the repository's hooks",
                "mend what the hooks find, and run it without that option",
            ),
            Reason::TurnsHooksOff => (
                "it would turn the repository's hooks off",
                "run it without that; a variable goes by `unset`",
            ),
            Reason::MovesHooks => (
                "it would turn the repository's hooks off",
                "leave them as they are; whoever owns the repository changes them outside of the sandbox",
            ),
            Reason::Overwrites => (
                "it would overwrite commits that are there already",
                "take in what is there (`git merge host/BRANCH` on the shelf, else `git pull --rebase`), or take a change back by `git revert`; then push without force",
            ),
        };
        writeln!(f, ": {why}\nhint: {instead}")?;
        f.write_str(
            "hint: going around this gains nothing: what leaves the sandbox passes the commit gate on the host\n",
        )
    }
}

/// For a terminal, whatever the bytes are.
fn shown(name: &[u8]) -> String {
    name.iter()
        .take(80)
        .map(|&byte| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '?',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_why_and_what_instead() {
        let refusal = Refusal::new("commit", "--no-verify", Reason::SkipsHooks);
        let text = refusal.to_string();
        assert!(
            text.starts_with("error: `git commit --no-verify` is refused"),
            "{text}"
        );
        assert!(
            text.contains("hooks") && text.contains("\nhint: "),
            "{text}"
        );
        assert_eq!(refusal.line(12), "12 commit --no-verify\n");

        let aliased = refusal.by_alias(b"c\x1b[31m\xff").to_string();
        assert!(aliased.contains("(the alias `c?[31m?`)"), "{aliased}");
        assert!(
            aliased
                .bytes()
                .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte))
        );

        let off = Refusal::new("push", "HUSKY=0", Reason::TurnsHooksOff).to_string();
        assert!(
            off.starts_with("error: `git push` with `HUSKY=0` is refused"),
            "{off}"
        );
    }

    #[test]
    fn a_line_has_an_end() {
        let refusal = Refusal::new("push", "x".repeat(10_000), Reason::Overwrites);
        let line = refusal.line(u64::MAX);
        assert!(line.len() == LONGEST && line.ends_with("x\n"));
    }
}
