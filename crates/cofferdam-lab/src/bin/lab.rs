//! `lab COMMAND…`: runs a command in the house of a lab, to try things by hand.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use cofferdam_lab::lab;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = lab::role(&arguments) {
        return code;
    }
    let [directory, command @ ..] = arguments.as_slice() else {
        let _ = writeln!(io::stderr(), "usage: lab DIRECTORY COMMAND…");
        return ExitCode::from(2);
    };
    lab::enter(Path::new(directory), command).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "lab: {error}");
        ExitCode::FAILURE
    })
}
