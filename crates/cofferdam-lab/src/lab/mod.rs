//! An internet in two network namespaces: in the "house" a command runs as on any machine, in the
//! "internet" everything it could reach is ours, and every frame that arrives there is kept.
//!
//! Both are children of the caller's namespaces and end with it. An ordinary user gets them too, in a user
//! namespace that maps nothing but the caller: the command has capabilities there until it gives them up.

pub mod control;
mod dns;
mod frame;
mod namespaces;
mod origins;
mod recorder;
mod tls;

pub use dns::{Query, Reply};
pub use frame::{Packet, Transport};
pub use namespaces::{enter, role};
pub use origins::Visit;

/// The addresses that the lab itself uses. All of those for documentation (RFC 5737, RFC 3849) belong to the
/// internet's side, as does everything else but [`HOUSE`] and [`HOUSE_6`].
pub mod place {
    /// The house on the wire.
    pub const HOUSE: &str = "192.0.2.2";
    pub const HOUSE_6: &str = "2001:db8:1::2";
    /// The other end of the wire: the house's default route.
    pub const ROUTER: &str = "192.0.2.1";
    pub const ROUTER_6: &str = "2001:db8:1::1";
    /// The only name server, and what the house's resolv.conf says.
    pub const DNS: &str = "192.0.2.53";
    /// A name that is there from the start, where it leads, and that nobody may keep the answer (time to live 0).
    pub const NAME: &str = "origin.test";
    pub const ORIGIN: &str = "203.0.113.1";
}

/// What listens at every address of the internet.
pub mod port {
    /// HTTP/1 and HTTP/2 without TLS: answers with what it saw. `/redirect?URL` answers 302.
    pub const HTTP: [u16; 2] = [80, 8080];
    /// TLS with a certificate for whatever name was asked for, and the same HTTP inside.
    pub const TLS: [u16; 3] = [443, 853, 8443];
    /// The server speaks first, then repeats what it hears.
    pub const BANNER: [u16; 3] = [22, 3306, 5432];
    /// Repeats what it hears.
    pub const ECHO: [u16; 3] = [7, 25, 4000];
}
