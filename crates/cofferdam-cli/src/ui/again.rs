//! What to do with commits that were collected, or that a merge left where they were: the exact command, also where somebody is at work in
//! the checkout.

use cofferdam::names::Slug;
use cofferdam::session::Landing;

use super::shell::shell_word;

/// A merge, as it is given again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Again<'a> {
    pub(crate) name: &'a str,
    /// The options that it was given with, a space after each.
    pub(crate) options: &'a str,
    /// The sandboxes that are at work in the checkout, with spaces between: nothing is merged there as long as they are.
    pub(crate) at_work: &'a str,
    /// Uncommitted work of the user's would be overwritten.
    pub(crate) in_the_way: bool,
    /// Its files lie in the checkout, in the way of git's own merge.
    pub(crate) lies_there: bool,
    /// Something in its git directory cannot be read, and nothing comes home for that.
    pub(crate) unreadable: bool,
}

/// The names of sandboxes, as words of a command.
pub(crate) fn words(names: &[Slug]) -> String {
    let names: Vec<&str> = names.iter().map(Slug::as_str).collect();
    names.join(" ")
}

impl<'a> Again<'a> {
    pub(crate) fn of(name: &'a str) -> Self {
        Self {
            name,
            options: "",
            at_work: "",
            in_the_way: false,
            lies_there: false,
            unreadable: false,
        }
    }

    /// The commands, one after the other where sandboxes have to be stopped for it. `options`: before its own.
    pub(crate) fn line(&self, options: &str) -> String {
        let Self { name, at_work, .. } = self;
        let merge = format!("cofferdam merge {options}{}{name}", self.options);
        if at_work.is_empty() {
            return merge;
        }
        format!("cofferdam stop {at_work} && {merge} && cofferdam start {at_work}")
    }

    /// The same where work of the user's is in the way.
    fn beside_the_users(&self) -> String {
        let line = self.line("");
        format!(
            "git stash --include-untracked && {line}   # or commit what is yours first; `git stash pop` brings it back, but for \
             new files that came too: yours stay in the stash"
        )
    }
}

/// What to do with commits that `cofferdam merge` left where they were.
pub(crate) fn after_merge(landing: &Landing, again: Again<'_>) -> Option<String> {
    let Landing::Kept { reference, .. } = landing else {
        return None;
    };
    let again = Again {
        at_work: landing.stop_first().unwrap_or(again.at_work),
        ..again
    };
    let name = again.name;
    if landing.waits_for_the_user() {
        return Some(after_the_users(&again.line("")));
    }
    if landing.has_failed_checks() {
        let all_the_same = again.line("--no-checks ");
        return Some(format!(
            "cofferdam diff {name}   # `{all_the_same}` if that is what you want"
        ));
    }
    if landing.waits_for_local_changes() || landing.stop_first().is_some() && again.in_the_way {
        return Some(again.beside_the_users());
    }
    if landing.stop_first().is_some() {
        return Some(again.line(""));
    }
    if again.options.contains("--squash ") && !landing.is_to_be_looked_at() {
        return Some(format!(
            "git merge --squash {}   # commit or stash changes of your own first; `git commit` ends it",
            shell_word(reference)
        ));
    }
    let merge = format!("git merge {}", shell_word(reference));
    if landing.is_to_be_looked_at() {
        let reference = shell_word(reference);
        return Some(format!(
            "git diff --stat HEAD...{reference}   # `{merge}` if that is what you want"
        ));
    }
    Some(if again.lies_there {
        format!("git stash --include-untracked && {merge}")
    } else {
        format!("{merge}   # commit or stash changes of your own first")
    })
}

/// What to do after a collecting from a sandbox that goes on.
pub(crate) fn after_collect(landing: &Landing, again: Again<'_>) -> Option<String> {
    match landing {
        kept @ Landing::Kept { .. }
            if kept.is_to_be_looked_at()
                || kept.has_failed_checks()
                || kept.waits_for_the_user() =>
        {
            after_merge(kept, again)
        }
        // What works in the checkout is there.
        Landing::Landed { .. } if again.lies_there => None,
        Landing::Landed { .. } | Landing::Kept { .. } => Some(again.line("")),
        Landing::Refused { .. } if again.unreadable => {
            let name = again.name;
            // Into no file that is there.
            Some(format!(
                "(set -C; cofferdam exec {name} -- tar -c . > {name}.tar)   # saves its files; what can be mended in its git, mend inside"
            ))
        }
        Landing::Refused { .. } => {
            let name = again.name;
            Some(format!(
                "cofferdam shell {name}   # mend that inside, then `cofferdam collect {name}`"
            ))
        }
        Landing::Nothing => None,
    }
}

/// The user ends what they have begun, and does `then`. What is printed can be run as it stands.
fn after_the_users(then: &str) -> String {
    format!("git status   # end what is under way, then: {then}")
}
