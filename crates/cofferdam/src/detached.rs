//! Processes that outlive whoever starts them: how one is started, and what it does first. Who carries a sandbox's wall is a
//! program of its own, and starts a gateway by itself (`cofferdam-wall`).

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use cofferdam_wall::keys;

/// How long its file may be busy.
const BUSY: Duration = Duration::from_millis(500);

/// Starts it in no directory of the user's. Its number, if it lives: the runtime reaps it if it ends before its starter, and nobody
/// ends it with that. In a runtime of tokio's.
///
/// A file that another process has just written is busy until no child of that one has it open, which is a matter of moments.
pub fn start(mut command: Command) -> io::Result<Option<u32>> {
    command.current_dir("/");
    let mut command = tokio::process::Command::from(command);
    let until = Instant::now() + BUSY;
    loop {
        // Its session is its own only when it has begun.
        match keys::withheld(|| command.spawn()) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                if Instant::now() > until {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            started => return Ok(started?.id()),
        }
    }
}

/// In such a process: keys pressed at its starter's terminal are not for it, nor the end of that. It leads a session of its own
/// from now on (setsid(2)), unless its starter made it the leader of a process group.
pub fn begin() {
    _ = rustix::process::setsid();
}
