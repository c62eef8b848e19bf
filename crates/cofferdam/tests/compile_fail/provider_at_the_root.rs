//! Each provider has an import path of its own: neither the root nor the module of all providers has it.

use cofferdam::Native;
use cofferdam::sandbox::Native as _;

fn main() {}
