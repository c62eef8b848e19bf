//! How a supervisor and its files are called.

/// The first argument of the executable in this role.
pub const ROLE: &str = "supervise";
/// How it is called where processes are listed.
pub const NAME: &str = "cofferdam-supervisor";
/// Its socket in the sandbox's state directory.
pub const SOCKET: &str = "supervisor.sock";
/// The compiled list of rules there. A sandbox that has one lives until it is deleted.
pub const RULES: &str = "rules";
/// When the sandbox ended without a word to its supervisor, in seconds since 1970: whoever ends one takes it away again.
pub const ENDED: &str = "ended";
/// What it said before it ended otherwise than asked.
pub const ERRORS: &str = "supervisor.stderr";
