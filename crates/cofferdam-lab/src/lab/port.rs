//! What listens at every address of the internet.

/// HTTP/1 and HTTP/2 without TLS: answers with what it saw. `/redirect?URL` answers 302.
pub const HTTP: [u16; 2] = [80, 8080];
/// TLS with a certificate for whatever name was asked for, and the same HTTP inside.
pub const TLS: [u16; 3] = [443, 853, 8443];
/// The server speaks first, then repeats what it hears.
pub const BANNER: [u16; 3] = [22, 3306, 5432];
/// Repeats what it hears.
pub const ECHO: [u16; 3] = [7, 25, 4000];
