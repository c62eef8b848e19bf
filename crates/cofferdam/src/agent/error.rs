//! What an agent cannot do.

/// A request that this agent cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Its program continues no earlier session.
    #[error("{agent} cannot resume a session")]
    NoResume {
        /// The agent's name.
        agent: String,
    },
    /// Its program continues a session only in place, never in a copy.
    #[error("{agent} cannot continue a copy of a session, only the session itself")]
    NoFork {
        /// The agent's name.
        agent: String,
    },
    /// Nothing is known of it that a person could work with at a terminal.
    #[error("{agent} has no terminal interface that Cofferdam knows")]
    NoInteractive {
        /// The agent's name.
        agent: String,
    },
    /// It does nothing without a prompt.
    #[error("{agent} needs a prompt")]
    NoPrompt {
        /// The agent's name.
        agent: String,
    },
    /// The prompt is longer than the arguments of its program can be (`execve(2)`).
    #[error(
        "a prompt of {bytes} bytes does not fit on the command line of {agent}, which takes {most}"
    )]
    LongPrompt {
        /// The agent's name.
        agent: String,
        /// How long the prompt is, in bytes.
        bytes: usize,
        /// The most that fits, in bytes.
        most: usize,
    },
    /// No id of this agent's sessions has that form, so none is looked for.
    #[error("`{id}` is not a session of {agent}")]
    BadSession {
        /// The agent's name.
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
        /// The agent's name.
        agent: &'static str,
        /// What was asked for: "model", "effort" and the like.
        option: &'static str,
    },
    /// The agent is a command of the user's, and no command was given.
    #[error("agent `{agent}` needs the program to run: give it after `--`")]
    NoProgram {
        /// The agent's name.
        agent: &'static str,
    },
}
