//! The addresses that the lab itself uses. All of those for documentation (RFC 5737, RFC 3849) belong to the
//! internet's side, as does everything else but [`HOUSE`] and [`HOUSE_6`].

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
