//! An unattended run without a sandbox does not compile, nor does a session.

use cofferdam::RunOptions;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::host::NoSandbox;
use cofferdam::session::SessionOptions;

fn main() {
    let agent = agent::by_name("command", AgentOptions::default()).unwrap();
    let sandbox = NoSandbox::default();
    RunOptions::new(Home::new("/h"), "/r", agent, sandbox.clone());
    SessionOptions::new("/r", sandbox);
}
