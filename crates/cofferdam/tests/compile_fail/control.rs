//! What the others get wrong, done right: it compiles.

use cofferdam::RunOptions;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::home::Home;
use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{
    BindMount, BranchStrategy, Contained, CopyStrategy, Isolated, IsolatedProvider, PrivateCopy,
};

fn with(provider: impl IsolatedProvider + 'static) -> Isolated {
    Isolated::new(provider, CopyStrategy::MergeToHead)
}

fn main() {
    let native = || Native::new(NativeOptions::default());
    PrivateCopy::new(native(), CopyStrategy::MergeToHead);
    let sandbox = BindMount::new(native(), BranchStrategy::Head);
    let _: Contained = sandbox.into();
    let sandbox = BindMount::new(native(), BranchStrategy::MergeToHead);
    let agent = agent::by_name("command", AgentOptions::default()).unwrap();
    RunOptions::new(Home::new("/h"), "/r", agent, sandbox);
}
