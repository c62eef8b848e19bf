//! A private copy is not the host's directory either.

use cofferdam::sandbox::native::{Native, NativeOptions};
use cofferdam::sandbox::{BranchStrategy, PrivateCopy};

fn main() {
    PrivateCopy::new(Native::new(NativeOptions::default()), BranchStrategy::Head);
}
