//! What an agent cannot do.

/// A request that this agent cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    #[error("{agent} cannot resume a session")]
    NoResume { agent: String },
    #[error("{agent} cannot continue a copy of a session, only the session itself")]
    NoFork { agent: String },
    #[error("{agent} has no terminal interface that Cofferdam knows")]
    NoInteractive { agent: String },
    #[error("{agent} needs a prompt")]
    NoPrompt { agent: String },
    #[error(
        "a prompt of {bytes} bytes does not fit on the command line of {agent}, which takes {most}"
    )]
    LongPrompt {
        agent: String,
        bytes: usize,
        most: usize,
    },
    #[error("`{id}` is not a session of {agent}")]
    BadSession {
        agent: String,
        /// Printable.
        id: String,
    },
    #[error("no agent is called `{name}` (there are: {})", known.join(", "))]
    Unknown {
        /// Printable.
        name: String,
        known: Vec<&'static str>,
    },
    #[error("agent `{agent}` takes no {option}")]
    NoOption {
        agent: &'static str,
        option: &'static str,
    },
    #[error("agent `{agent}` needs the program to run: give it after `--`")]
    NoProgram { agent: &'static str },
}
