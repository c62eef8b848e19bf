//! What `git push host` says inside to whoever watches the sandbox's checkout on the host, over a socket that the sandbox sees: one
//! question on each connection, in a frame with its version before it. The host takes every word for a hostile program's.

use serde::{Deserialize, Serialize};

pub use cofferdam_frame::{FrameError, HEAD, decode};

/// The longest body of a frame in bytes.
const MOST: usize = 64 << 10;
/// Changes with the meaning of a message: a sandbox may have been started by an older version than its watcher.
pub const VERSION: u32 = 1;
/// Where the socket's directory is inside. The directory stays, and the socket is made anew by each watcher.
pub const DOOR: &str = "/.cofferdam/pushes";
/// Its name there.
pub const SOCKET: &str = "s";
/// The git directory of the shelf.
pub const SHELF: &str = "/repo-shelf/repo/.git";

/// A whole frame, head included.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    cofferdam_frame::encode::<MOST>(value)
}

/// The length of the body that follows this head.
pub fn body_length(head: [u8; HEAD]) -> Result<usize, FrameError> {
    cofferdam_frame::body_length::<MOST>(head)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Which branches of the host's may be pushed to, of those that are there.
    Branches,
    Push(Push),
}

/// One branch that is to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    pub from: From,
    /// Without `refs/heads/`.
    pub branch: String,
    /// The commit, in hexadecimal digits.
    pub tip: String,
    /// Nothing is to move.
    pub dry_run: bool,
}

/// Where the commits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum From {
    Shelf,
    /// The repository of the checkout, as the sandbox has it.
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Their names and what they are at.
    Branches(Vec<(String, String)>),
    /// A line for whoever waits. Another answer follows.
    Said(String),
    Landed,
    /// Nothing moved.
    Refused {
        /// In a few words, for git's own line.
        why: String,
        /// What to do.
        hint: String,
    },
}
