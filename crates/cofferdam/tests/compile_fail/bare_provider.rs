//! A provider without a strategy is no sandbox yet.

use cofferdam::sandbox::Contained;
use cofferdam::sandbox::native::{Native, NativeOptions};

fn main() {
    let _: Contained = Native::new(NativeOptions::default()).into();
}
