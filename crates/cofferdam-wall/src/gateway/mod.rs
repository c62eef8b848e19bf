//! The gateway: the one process of a user on the host that carries the connections of their sandboxes. It
//! holds their policies; a sandbox holds nothing but the sockets it handed over.
//!
//! The main thread answers the library (`server`). Worker threads, each with a runtime of its own, carry
//! the connections; those of one sandbox are spread over all of them. One thread writes the logs.
//!
//! - `start`, `confine`, `filter`: what the process gives up before it reads its first byte.
//! - `server`, `channel`, `descriptors`: the library's questions.
//! - `sandbox`, `books`, `flows`: what is known of one sandbox; the policy in force; its open connections.
//! - `proof`: what a sandbox reaches while its wall is tried.
//! - `accept`, `transparent`, `lookups`, `packets`: what arrives out of a sandbox.
//! - `door`, `gate`, `dial`, `resolve`, `copy`: how something gets out.
//! - `hello`, `retry`, `http`, `proxy`, `stream`: what is looked at in it, and the port for programs that want a proxy.
//! - `journal`, `refused`: what is told about it. `rate`, `room`, `budget`: how much a sandbox may have.

mod accept;
mod asked;
mod books;
mod budget;
mod bulk;
mod channel;
mod complaint;
mod confine;
mod copy;
mod descriptors;
mod dial;
mod door;
mod error;
mod explain;
mod failure;
mod filter;
mod flows;
mod hello;
mod hello_error;
mod http;
mod journal;
mod lookups;
mod nflog;
mod packets;
mod proof;
mod proxy;
mod rate;
mod refused;
mod reset;
mod resolve;
mod retry;
mod room;
mod sandbox;
mod sandbox_door;
mod server;
mod start;
mod stream;
mod transparent;
mod wanted;
mod workers;

#[cfg(test)]
mod testing;

use std::ffi::OsString;

pub use complaint::complain;
pub use error::GatewayError;
pub use filter::FilterError;
pub use start::StartError;

/// The whole life of the process. `arguments` are those of the command: see `start`.
pub fn run(arguments: &[OsString]) -> Result<(), GatewayError> {
    let started = start::prepare(arguments)?;
    let workers = workers::count();
    confine::confine();
    let (journals, writer) = journal::start().map_err(GatewayError::Thread)?;
    let workers = workers::start(workers).map_err(GatewayError::Thread)?;
    // Last: every thread is there, and none has read anything yet.
    filter::install()?;
    let outcome = server::serve(started, workers, journals);
    // Every sandbox is gone by now, so its last entries are in the queue.
    writer.finish();
    outcome
}
