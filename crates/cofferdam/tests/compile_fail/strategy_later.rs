//! The strategy is chosen where the provider is given, and stays.

use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BindMount, BranchStrategy};

fn main() {
    let mut sandbox = BindMount::new(Native::new(NativeOptions::default()), BranchStrategy::Head);
    sandbox.strategy = BranchStrategy::MergeToHead;
}
