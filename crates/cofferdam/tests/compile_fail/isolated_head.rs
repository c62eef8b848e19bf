//! A sandbox with files of its own cannot work in the host's directory: `head` does not compile.

use cofferdam::sandbox::{BranchStrategy, Isolated, IsolatedProvider};

fn with(provider: impl IsolatedProvider + 'static) -> Isolated {
    Isolated::new(provider, BranchStrategy::Head)
}

fn main() {}
