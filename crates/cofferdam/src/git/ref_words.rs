//! Why git does not move a reference, in words of ours: git's own name neither what is in the way nor what to do about it.

use crate::text::printable;

/// What git says of a reference that it does not move, whole and as it came. Printable; the references are in it by their full names.
pub(crate) fn told(stderr: &str) -> String {
    let said = stderr.trim();
    let words = lock(said)
        .or_else(|| beside(said))
        .or_else(|| elsewhere(said))
        .unwrap_or_else(|| {
            let first = said.lines().next().unwrap_or_default();
            let first = first.trim_start_matches("fatal: ");
            first.trim_start_matches("prepare: ").to_owned()
        });
    printable(&words)
}

/// Whether git has said that a reference is in the way, or changes.
pub(crate) fn is_about_one(stderr: &str) -> bool {
    let raced = [
        "cannot lock ref",
        "is at ",
        "already exists",
        "unable to resolve",
        "Unable to create",
    ];
    raced.iter().any(|words| stderr.contains(words))
}

/// Another git command has its lock, or left it when it was killed.
fn lock(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("Unable to create '")?;
    let (path, rest) = rest.split_once("': ")?;
    if !rest.starts_with("File exists") {
        return None;
    }
    let of = match reference(said) {
        Some(reference) => format!("`{reference}`"),
        None => "its references".to_owned(),
    };
    Some(format!(
        "another git command has locked {of}: try again when it has ended, or where none is at work, `rm '{path}'` first"
    ))
}

/// A name that would be a directory for the other.
fn beside(said: &str) -> Option<String> {
    let (before, rest) = said.split_once("' exists; cannot create '")?;
    let (_, other) = before.rsplit_once('\'')?;
    let (wanted, _) = rest.split_once('\'')?;
    let branch = |name: &str| name.strip_prefix("refs/heads/").map(str::to_owned);
    let next = branch(other).map_or_else(String::new, |other| {
        format!(": rename that with `git branch -m {other} NAME`, or take another name")
    });
    Some(format!("`{wanted}` cannot be beside `{other}`{next}"))
}

/// It is not where it was.
fn elsewhere(said: &str) -> Option<String> {
    let reference = reference(said)?;
    let (_, rest) = said.split_once(&format!("'{reference}': "))?;
    let rest = rest.lines().next().unwrap_or_default();
    if let Some((at, was)) = rest
        .strip_prefix("is at ")
        .and_then(|rest| rest.split_once(" but expected "))
    {
        let short = |id: &str| id.chars().take(10).collect::<String>();
        let (at, was) = (short(at), short(was));
        return Some(format!("`{reference}` was at {was}, and is at {at} now"));
    }
    if rest.contains("already exists") {
        return Some(format!("`{reference}` is there already"));
    }
    rest.contains("unable to resolve")
        .then(|| format!("`{reference}` is not there any more"))
}

fn reference(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("cannot lock ref '")?;
    rest.split_once('\'').map(|(reference, _)| reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_of_references_is_told_with_what_to_do() {
        let lock = "fatal: prepare: cannot lock ref 'refs/heads/z': Unable to create '/r/.git/refs/heads/z.lock': File exists.\n\n\
                    Another git process seems to be running in this repository, e.g.\n";
        for (said, meant) in [
            (
                lock,
                "another git command has locked `refs/heads/z`: try again when it has ended, or where none is at work, \
                 `rm '/r/.git/refs/heads/z.lock'` first",
            ),
            (
                "fatal: Unable to create '/r/.git/packed-refs.lock': File exists.",
                "another git command has locked its references: try again when it has ended, or where none is at work, \
                 `rm '/r/.git/packed-refs.lock'` first",
            ),
            (
                "fatal: prepare: cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b'",
                "`refs/heads/a/b` cannot be beside `refs/heads/a`: rename that with `git branch -m a NAME`, or take another name",
            ),
            (
                "fatal: prepare: cannot lock ref 'refs/heads/a': is at 0123456789abcdef but expected fedcba9876543210",
                "`refs/heads/a` was at fedcba9876, and is at 0123456789 now",
            ),
            (
                "fatal: cannot lock ref 'refs/heads/a': reference already exists",
                "`refs/heads/a` is there already",
            ),
            (
                "fatal: cannot lock ref 'refs/heads/a': unable to resolve reference 'refs/heads/a'",
                "`refs/heads/a` is not there any more",
            ),
            (
                "fatal: refusing to update ref with bad name 'x'\nmore",
                "refusing to update ref with bad name 'x'",
            ),
        ] {
            assert_eq!(told(said), meant);
        }
    }
}
