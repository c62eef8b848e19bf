//! The process that carries the connections of a user's sandboxes: see [`cofferdam_wall::gateway`].

use std::process::ExitCode;

use cofferdam_wall::gateway;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match gateway::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            gateway::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
