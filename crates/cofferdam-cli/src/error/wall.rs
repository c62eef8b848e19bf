//! What to do about the wall.

use cofferdam::wall::WallError;

/// The next step.
pub(crate) fn hint(error: &WallError) -> String {
    match error {
        WallError::Directory { path, .. } => format!(
            "look at {}, and remove it: the next command makes it anew",
            path.display()
        ),
        WallError::Silent {
            process: Some(pid), ..
        } => format!(
            "it may be stopped: `kill -CONT {pid}` lets it go on, `kill -9 {pid}` ends it and the next \
             command starts another"
        ),
        WallError::Silent { process: None, .. } => {
            "try again; `cofferdam doctor` says whether a gateway runs".to_owned()
        }
        WallError::File(_) => {
            "see `cofferdam doctor`, or set COFFERDAM_HOME to a directory of your own".to_owned()
        }
        WallError::Start(_) | WallError::Ended(_) => {
            "see what this machine lacks with `cofferdam doctor`".to_owned()
        }
        WallError::NotRunning => "a sandbox that needs one starts it".to_owned(),
        WallError::Busy(_) => {
            "wait for it, or end it: a stopped `cofferdam allow` or `cofferdam net reload` holds the lock"
                .to_owned()
        }
        WallError::Breached(_) => "nothing was started; run with `--network none`, and report it with what \
                                   `cofferdam doctor` says"
            .to_owned(),
        WallError::Io(_) | WallError::Protocol(_) => {
            "try again; if it stays, another version of cofferdam may be at work on the same COFFERDAM_HOME"
                .to_owned()
        }
        WallError::Refused(_) => "see the rules that count with `cofferdam net rules`".to_owned(),
        WallError::Lost(_) => "start the run again: its commits are kept".to_owned(),
    }
}
