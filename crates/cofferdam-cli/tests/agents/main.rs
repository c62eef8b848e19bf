//! The real Claude Code and the real Codex behind the wall, with a scripted model on this machine: they
//! work, meet errors, are cancelled and log in. `scripts/test` installs them. So are OpenCode, Pi, Copilot, Gemini CLI and
//! Qwen Code, but for logins and terminals, where they are: see `Program::is_wanted`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test starts programs, writes files and fails by panicking"
)]

mod cancel;
mod dev;
mod faults;
mod go_on;
mod installed;
mod interactive;
mod login;
mod mcp;
mod program;
mod work;
mod world;
