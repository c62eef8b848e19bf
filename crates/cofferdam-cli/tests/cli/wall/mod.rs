//! The wall as its users meet it: real runs, and a service of the test's own on this machine's
//! loopback, which a sandbox reaches as `host.cofferdam.internal:PORT` where a rule says so.

mod bad_input;
mod change;
mod gateway;
mod log;
mod model;
mod refusals;
mod state;
mod traffic;
mod world;
