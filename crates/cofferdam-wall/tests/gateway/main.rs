//! The real gateway: its control socket, and real sockets of sandboxes in real network namespaces.

mod control;
mod support;
mod wall;
