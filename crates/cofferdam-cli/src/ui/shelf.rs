//! What is only on the shelf, in words.

use cofferdam::names::BranchName;
use cofferdam::session::Unpushed;
use cofferdam::text::printable_line;

use super::human;
use super::shell::shell_word;

/// What is only on the shelf, and the command that brings it here. `push`: that command.
pub(crate) fn unpushed(one: &Unpushed, push: &str) -> String {
    let branch = printable_line(one.branch.as_str());
    let what = match one.commits {
        Some(commits) => human::plural(commits, "commit"),
        None => "commits".to_owned(),
    };
    let (are, them) = match one.commits {
        Some(1) => ("is", "it"),
        _ => ("are", "them"),
    };
    if one.diverged {
        return format!(
            "{what} on {branch} {are} only on the shelf, and {branch} has others here: merge those inside, after `cofferdam checkout {}` by `git merge host/{branch}`, \
             then `{push}`",
            shell_word(one.branch.as_str())
        );
    }
    format!("{what} on {branch} {are} only on the shelf: bring {them} home with `{push}`")
}

/// Files on the shelf that are in no commit, and where one sees them.
pub(crate) fn uncommitted(files: usize, branch: &BranchName) -> String {
    let are = if files == 1 { "is" } else { "are" };
    format!(
        "{} of {} on the shelf {are} in no commit: see with `cofferdam shell --branch {}`",
        human::plural(files, "file"),
        printable_line(branch.as_str()),
        shell_word(branch.as_str())
    )
}

/// The command that brings what is only on the shelf to a branch of the host's, from a sandbox that runs.
pub(crate) fn push(name: &str, one: &Unpushed) -> String {
    let refspec = shell_word(&one.refspec);
    format!("cofferdam exec {name} -- git push host {refspec}")
}

/// The same where the sandbox is gone: its shelf is there.
pub(crate) fn push_anew(one: &Unpushed) -> String {
    let (branch, refspec) = (shell_word(one.branch.as_str()), shell_word(&one.refspec));
    format!(
        "cofferdam start --branch {branch} && cofferdam exec --branch {branch} -- git push host {refspec}"
    )
}
