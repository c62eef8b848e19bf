//! `probe serve SOCKET`: a hostile program that does what it is asked over a unix socket.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use cofferdam_lab::probe;

fn main() -> ExitCode {
    let role = std::iter::once(OsString::from("--probe"));
    let arguments: Vec<OsString> = role.chain(std::env::args_os().skip(1)).collect();
    probe::role(&arguments).unwrap_or_else(|| {
        let _ = writeln!(io::stderr(), "usage: probe serve SOCKET");
        ExitCode::from(2)
    })
}
