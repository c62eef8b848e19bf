//! The gateway: the one process of a user on the host that carries the connections of his sandboxes. It
//! holds their policies; a sandbox holds nothing but the sockets it handed over.

#![expect(dead_code, reason = "being built")]

mod door;
mod hello;
mod http;
mod proxy;
mod stream;

#[cfg(test)]
mod testing;
