//! What goes wrong with sandboxes.

use super::Ability;
use crate::wall::WallError;

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This machine cannot give what the profile promises. Nothing was started.
    #[error("{what}")]
    Unsupported {
        /// Which part, as a sentence fragment that names the object.
        what: String,
        /// The next step for the user.
        hint: String,
    },
    /// Nobody answers where the engine is that has the sandbox, or is to have it. Nothing was done.
    #[error("{what}")]
    NoEngine {
        /// As in [`Self::Unsupported`].
        what: String,
        /// What helps, as a sentence fragment.
        hint: String,
    },
    /// It was never promised, and nothing was done.
    #[error("{who} cannot {ability}")]
    Unable {
        /// "the provider `docker`", "this sandbox".
        who: String,
        /// What was asked for.
        ability: Ability,
    },
    /// Nobody listens for a sandbox that outlives its maker: it was ended, or the machine was.
    #[error("the sandbox is not running")]
    NotRunning,
    /// One that is to be made is there already.
    #[error("the sandbox is running already")]
    Running,
    /// It was made by another version of Cofferdam, and understands nothing but its end.
    #[error("the sandbox speaks version {theirs} of its protocol, and this program version {ours}")]
    OtherVersion {
        /// The version that the program inside speaks.
        theirs: u32,
        /// The version that this program speaks.
        ours: u32,
    },
    /// Nothing starts in it until it is resumed.
    #[error("the sandbox is paused")]
    Paused,
    /// Somebody holds it by [`super::Sandbox::freeze`]: nothing starts in it until they are done.
    #[error("the sandbox stands still while its work is collected")]
    Frozen,
    /// Whoever watched what appears in its files is gone ([`super::Sandbox::watch`]): nothing runs in it until somebody does again.
    #[error("the sandbox stands still: nobody watches the checkout that it shares")]
    Unwatched,
    /// One of its programs goes on whatever is done. Nothing was stopped.
    #[error("the sandbox cannot be stopped for a while: its programs wake each other")]
    Restless,
    /// [`super::Sandbox::signal`] was given a program that the sandbox does not know.
    #[error("the sandbox knows no program {0}")]
    NoProgram(u64),
    /// [`super::Sandbox::connect`] found nobody listening at this port.
    #[error("nothing in the sandbox listens on port {0}")]
    NotListening(u16),
    /// [`super::Sandbox::connect`] failed for another reason.
    #[error("cannot connect to port {port} of the sandbox: {reason}")]
    Port {
        /// The port inside.
        port: u16,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// The program does not exist inside, or cannot be executed.
    #[error("cannot run `{program}` in the sandbox: {reason}")]
    Program {
        /// As it was called.
        program: String,
        /// Which kind of mistake it is.
        fault: ProgramFault,
        /// In the system's words.
        reason: String,
    },
    /// The same without a sandbox.
    #[error("cannot run `{program}`: {reason}")]
    HostProgram {
        /// As it was called.
        program: String,
        /// In the system's words.
        reason: String,
    },
    /// Files of it could not be put in, read or changed.
    #[error("cannot {action} the sandbox: {reason}")]
    Files {
        /// "put files into".
        action: &'static str,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// Who carries files inside has the user of the programs there, which may stop or kill it.
    #[error("cannot {action} the sandbox: a program in it ended the process that carries them")]
    CarrierEnded {
        /// "put files into".
        action: &'static str,
    },
    /// Whoever was to be process 1 inside did not get as far as saying so.
    #[error("the sandbox did not come up: {0}")]
    Start(String),
    /// The sandbox, or contact with it, is gone. Its processes are dead.
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// No sandbox starts without the wall that it was to have.
    #[error("the sandbox has no wall: {0}")]
    Wall(#[from] WallError),
    /// It did not answer within this many seconds.
    #[error("the sandbox did not answer within {0} s")]
    TimedOut(u64),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// What is wrong with a program that could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramFault {
    /// There is no such file, or what its first line names is missing.
    Missing,
    /// The file may not be executed, or is none.
    Forbidden,
    /// It cannot be started in the directory that was asked for.
    Directory,
    /// Something else; the text beside it says what.
    Other,
}
