//! Whose doing a failure is. What a sandbox made is refused, kept and never tried again; what this
//! machine lacks is an error, and the next try may do better.

use super::{GateError, Refusal};
use crate::git::GitError;
use crate::process::{Exit, ProcessError};
use crate::text::printable_line;

/// Ends of lines that the system gave to git, not the pack.
const OF_THE_HOST: [&str; 8] = [
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
    "Read-only file system",
    "Too many open files",
    "Too many open files in system",
    "Resource temporarily unavailable",
    "Stale file handle",
];
/// The end of a program that what it reads has broken.
const CRASHES: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Lines about an object, which end in words of the object's own: an address in a `.gitmodules`, a name.
const OF_AN_OBJECT: [&str; 3] = ["error: object ", "warning: object ", "fatal: fsck error"];

/// Whether git's words name something that this machine lacks.
pub(super) fn lacks_something(stderr: &str) -> bool {
    let of_git = |line: &&str| !OF_AN_OBJECT.iter().any(|start| line.starts_with(start));
    stderr.lines().filter(of_git).any(|line| {
        OF_THE_HOST
            .iter()
            .any(|words| line.trim_end().ends_with(words))
    })
}

/// Whether a program that read a sandbox's objects ended for what they are. Nothing in a pack sends a
/// signal such as SIGKILL: that was a person, or a machine without memory.
pub(crate) fn broke(exit: Exit, stderr: &str) -> bool {
    let ended = match exit {
        Exit::Code(_) => true,
        Exit::Signal(signal) => CRASHES.contains(&signal),
    };
    ended && !lacks_something(stderr)
}

/// A failure while objects of a sandbox were read, as a refusal where they are the cause.
pub(super) fn refuse_if_theirs(error: GateError) -> GateError {
    let why = match &error {
        GateError::Git(GitError::Failed {
            command,
            exit,
            stderr,
        }) if broke(*exit, stderr) => Refusal::Unreadable {
            reason: printable_line(&format!(
                "`git {command}` ended with {exit}: {}",
                stderr.trim_end()
            ))
            .chars()
            .take(500)
            .collect(),
        },
        GateError::Git(GitError::Output { command, what }) => Refusal::Unreadable {
            reason: printable_line(&format!("`git {command}`: {what}")),
        },
        GateError::Git(GitError::Process(ProcessError::TooMuchOutput { limit, .. })) => {
            Refusal::TooMuch {
                what: "bytes of names",
                limit: *limit as u64,
            }
        }
        GateError::Git(GitError::Process(ProcessError::TimedOut { limit, .. }))
        | GateError::TimedOut(limit) => Refusal::TooSlow(*limit),
        _ => return error,
    };
    GateError::refused(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(exit: Exit, stderr: &str) -> GateError {
        GateError::Git(GitError::Failed {
            command: "log".into(),
            exit,
            stderr: stderr.into(),
        })
    }

    fn check(error: GateError, refused: bool) {
        let text = format!("{error:?}");
        let done = matches!(refuse_if_theirs(error), GateError::Refused { .. });
        assert_eq!(done, refused, "{text}");
    }

    #[test]
    fn what_a_sandbox_made_is_refused_and_what_the_machine_lacks_is_an_error() {
        check(failed(Exit::Code(128), "fatal: bad tree"), true);
        check(failed(Exit::Signal(libc::SIGSEGV), ""), true);
        check(failed(Exit::Signal(libc::SIGKILL), ""), false);
        check(failed(Exit::Signal(libc::SIGTERM), ""), false);
        let full = "error: x\nfatal: write error: No space left on device";
        check(failed(Exit::Code(128), full), false);
        // The words of a name are not the system's.
        let name = "fatal: `No space left on device' is no commit";
        check(failed(Exit::Code(128), name), true);
        for line in [
            "error: object 1f: gitmodulesUrl: disallowed submodule url: -uNo space left on device",
            "warning: object 1f: gitmodulesPath: -Input/output error",
        ] {
            let stderr = format!("{line}\nfatal: fsck error in packed object");
            check(failed(Exit::Code(128), &stderr), true);
        }
        check(GateError::Cancelled, false);
        let slow = std::time::Duration::from_secs(1);
        check(GateError::TimedOut(slow), true);
    }
}
