//! The attacks on the wall, each with a control that shows that it works where there is no wall.
//!
//! This program is three: the suite, the lab around it (an internet of its own, in namespaces) and the
//! hostile program in the sandboxes. It takes names of attacks as the usual test programs take filters.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test starts programs, writes files, prints its table and fails by panicking"
)]

mod addresses;
mod agents;
mod bench;
mod careless;
mod engine;
mod house;
mod inside;
mod life;
mod loading;
mod lookups;
mod names;
mod packets;
mod place;
mod selection;
mod services;
mod table;
mod trial;
mod upstream;
mod user;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use cofferdam_lab::{lab, probe, sample};

use selection::Selection;

const IN_HOUSE: &str = "--in-house";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = lab::role(&arguments).or_else(|| probe::role(&arguments)) {
        return code;
    }
    match arguments.as_slice() {
        [part, directory, rest @ ..] if part == IN_HOUSE => {
            table::run(Path::new(directory), &Selection::read(rest))
        }
        all => outside(all),
    }
}

/// Makes the lab and starts this program again in its house.
fn outside(arguments: &[OsString]) -> ExitCode {
    if Selection::read(arguments).list_only {
        return table::list();
    }
    if sample::all() && engine::wanted().is_none() && !rustix::process::geteuid().is_root() {
        table::say_untried();
    }
    // A short name: the paths of sockets are short.
    let directory = tempfile::Builder::new().prefix("cw-").tempdir().unwrap();
    let mut command = vec![
        std::env::current_exe().unwrap().into_os_string(),
        IN_HOUSE.into(),
        directory.path().into(),
    ];
    command.extend_from_slice(arguments);
    lab::enter(directory.path(), &command).unwrap()
}
