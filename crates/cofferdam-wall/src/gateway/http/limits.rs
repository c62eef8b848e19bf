//! How much an HTTP connection may have, and how long it may take.

use std::time::Duration;

/// For the head of a request to be complete.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);
/// Between two requests of an HTTP/1 connection.
pub(super) const BETWEEN: Duration = Duration::from_secs(120);
/// Without a byte in either direction. Long: a model server may think for a quarter of an hour.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);
/// At the same time in one HTTP/2 connection.
pub(super) const MAX_STREAMS: u32 = 100;
/// Streams that were reset and are not forgotten yet: more end the connection.
pub(super) const MAX_RESETS: usize = 50;
pub(super) const MAX_HEADERS: usize = 128;
/// Bytes of an HTTP/2 head, as the protocol counts them.
pub(super) const MAX_LIST: u32 = 32 * 1024;
/// Bytes of unfinished heads in one HTTP/2 connection.
pub(super) const TWO: usize = 2 * MAX_LIST as usize;
/// What an HTTP/2 client says first when it has not asked whether it may (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
