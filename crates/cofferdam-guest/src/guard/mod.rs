//! `git` as it stands first in a sandbox's `PATH`: what goes around the repository's hooks or overwrites a branch is
//! refused with what to do instead; everything else is the real git, executed as if this were not there.
//!
//! A courtesy to people and agents, which explains. What holds is the commit gate on the host: this sees no git that is called
//! by its own path, no plumbing (`commit-tree`, `update-ref`, `send-pack`), no other program that writes a repository, and no
//! hook or alias in words that it cannot read (git puts its own directory before `PATH` for what it starts). So it never guesses:
//! what it does not know, it passes on.
//!
//! [`judge`] decides from words and variables alone: what git reads before a subcommand ([`globals`], [`settings`]), its options as
//! git's own parser takes them ([`options`], [`commands`], [`config`]), and what an alias stands for ([`split`], [`shell`]). A
//! [`refusal`] is told to whoever called and noted in the [`log`]; [`real`] finds and executes the real git.

mod builtins;
mod commands;
mod config;
pub(crate) mod environment;
mod globals;
mod judge;
mod log;
mod options;
pub(crate) mod real;
mod refusal;
mod settings;
mod shell;
mod split;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use environment::Environment;
use real::Real;

/// An argument, a name or a value: any bytes but NUL.
pub(crate) type Word = Vec<u8>;

/// A file of the host's, which it provides where it wants to know. No variable names it: those are the agent's.
const LOG: &str = "/.cofferdam/guard.log";
/// As a shell's where a program is not found, and where it cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTED: i32 = 126;

/// Whether the program was started under the name by which it guards.
pub(crate) fn is_meant(name: Option<&OsStr>) -> bool {
    name.and_then(|name| Path::new(name).file_name()) == Some(OsStr::new("git"))
}

/// Executes the real git, or tells why not. `words`: all that the program was started with, its name first. The exit code.
pub(crate) fn run(words: Vec<OsString>) -> i32 {
    let words: Vec<Word> = words.into_iter().map(OsStringExt::into_vec).collect();
    let environment = environment::own();
    let path = environment.get("PATH").unwrap_or(real::USUAL_PATH);
    let by_path = words.first().is_some_and(|name| name.contains(&b'/'));
    let real = match Real::find(path, by_path) {
        Ok(real) => real,
        Err(error) => return say(&format!("error: {error}\n"), NOT_FOUND),
    };
    let refused = refused(words.get(1..).unwrap_or_default(), &environment, &real);
    let Some(refusal) = refused else {
        let error = real.execute(&words);
        return say(&format!("error: {error}\n"), NOT_EXECUTED);
    };
    // Nobody needs the note for the refusal to hold.
    let _ = log::append(Path::new(LOG), &refusal.line(log::now()));
    say(&refusal.to_string(), 1)
}

fn refused(words: &[Word], environment: &Environment, real: &Real) -> Option<refusal::Refusal> {
    judge::judge(words, environment, &mut |context, name| {
        // Git looks for a program of that name first.
        let path = environment.get("PATH").unwrap_or(real::USUAL_PATH);
        (!real::has_external(path, name))
            .then(|| real.alias(context, name))
            .flatten()
    })
}

fn say(text: &str, code: i32) -> i32 {
    // Nobody may be listening.
    let _ = std::io::stderr().write_all(text.as_bytes());
    code
}
