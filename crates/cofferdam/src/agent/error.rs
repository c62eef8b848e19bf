//! What an agent cannot do.

/// A request that this agent cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Its program continues no earlier session.
    #[error("{agent} cannot resume a session")]
    NoResume {
        /// Its name.
        agent: String,
    },
    /// Its program continues a session only in place, never in a copy.
    #[error("{agent} cannot continue a copy of a session, only the session itself")]
    NoFork {
        /// Its name.
        agent: String,
    },
    /// Nothing is known of it that a person could work with at a terminal.
    #[error("{agent} has no terminal interface that Cofferdam knows")]
    NoInteractive {
        /// Its name.
        agent: String,
    },
    /// It does nothing without one.
    #[error("{agent} needs a prompt")]
    NoPrompt {
        /// Its name.
        agent: String,
    },
    /// Longer than the arguments of its program can be (`execve(2)`).
    #[error(
        "a prompt of {bytes} bytes does not fit on the command line of {agent}, which takes {most}"
    )]
    LongPrompt {
        /// Its name.
        agent: String,
        /// Of the prompt, in bytes.
        bytes: usize,
        /// The most that fits, in bytes.
        most: usize,
    },
    /// No id of a session has that form, so none is looked for.
    #[error("`{id}` is not a session of {agent}")]
    BadSession {
        /// Its name.
        agent: String,
        /// Printable.
        id: String,
    },
    /// The registry ([`super::AGENTS`]) has no agent of that name.
    #[error("no agent is called `{name}` (there are: {})", known.join(", "))]
    Unknown {
        /// Printable.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// Its program has no such option.
    #[error("agent `{agent}` takes no {option}")]
    NoOption {
        /// Its name.
        agent: &'static str,
        /// What was asked for: "model", "effort" and the like.
        option: &'static str,
    },
    /// A command of the user's, without the command.
    #[error("agent `{agent}` needs the program to run: give it after `--`")]
    NoProgram {
        /// Its name.
        agent: &'static str,
    },
}
