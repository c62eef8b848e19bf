//! What the tests need around the product, all of it on this machine and without the internet. Used by
//! tests and benchmarks only; nothing of it is in the product.

pub mod fuzz;
pub mod lab;
pub mod model;
pub mod opens;
pub mod probe;
pub mod sample;
pub mod skip;
pub mod stuck;
pub mod turn;
pub mod verdict;
pub mod way;
