//! Two processes of one executable: the one that carries the connections of a user's sandboxes (see
//! [`cofferdam_wall::gateway`]), and the one that keeps a sandbox's place (see [`cofferdam_wall::supervisor`]).

use std::process::ExitCode;

use cofferdam_wall::{gateway, supervisor};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let ended = match &arguments[..] {
        [role] if role == supervisor::ROLE => supervisor::run().map_err(|error| error.to_string()),
        _ => gateway::run(&arguments).map_err(|error| error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            gateway::complain(&error);
            ExitCode::FAILURE
        }
    }
}
