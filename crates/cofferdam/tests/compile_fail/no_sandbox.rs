//! An unattended run without a sandbox does not compile.

use cofferdam::RunOptions;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::BranchStrategy;
use cofferdam::sandbox::host::NoSandbox;

fn main() {
    let agent = agent::by_name("command", AgentOptions::default()).unwrap();
    let sandbox = NoSandbox { strategy: BranchStrategy::Head };
    RunOptions::new(Home::new("/h"), "/r", agent, sandbox);
}
