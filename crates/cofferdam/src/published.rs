//! Ports of this machine's loopback that lead into a sandbox, as people write them.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// So many one sandbox may have.
pub const MOST_PORTS: usize = 64;

/// A port of this machine's loopback, and the one inside that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PublishedPort {
    /// The port here.
    pub host: NonZeroU16,
    /// The port in the sandbox.
    pub inside: NonZeroU16,
}

/// A text names no ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Neither a number nor a pair of them; here it is.
    #[error("`{}` is no port such as 3000, or 8080:80 for port 80 inside at port 8080 here", .0.escape_debug())]
    NoPort(String),
    /// It begins with an address; here it is.
    #[error(
        "`{}` is not this machine's loopback: leave the address out, nobody else's machine comes in", .0.escape_debug()
    )]
    NotLoopback(String),
    /// Two would lead to different places.
    #[error("port {0} of this machine is named twice")]
    Twice(NonZeroU16),
    /// There are more ports than one sandbox may publish.
    #[error("more than {MOST_PORTS} ports")]
    TooMany,
}

impl FromStr for PublishedPort {
    type Err = PortError;

    /// `PORT`, or `HOST:PORT`; in front of that `127.0.0.1:` may stand, as engines have it.
    fn from_str(text: &str) -> Result<Self, PortError> {
        let wrong = || PortError::NoPort(text.to_owned());
        let rest = match text.rsplitn(3, ':').nth(2) {
            None => text,
            Some(address) => {
                if !["127.0.0.1", "localhost"].contains(&address) {
                    return Err(PortError::NotLoopback(address.to_owned()));
                }
                &text[address.len() + 1..]
            }
        };
        let port = |text: &str| {
            let digits = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or_else(wrong)
        };
        let (host, inside) = rest.split_once(':').unwrap_or((rest, rest));
        Ok(Self {
            host: port(host)?,
            inside: port(inside)?,
        })
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.inside)
    }
}

/// The ports of one sandbox: no port of this machine leads to two places.
pub fn together(ports: Vec<PublishedPort>) -> Result<Vec<PublishedPort>, PortError> {
    let mut together: Vec<PublishedPort> = Vec::new();
    for one in ports {
        match together.iter().find(|other| other.host == one.host) {
            None => together.push(one),
            Some(other) if *other == one => {}
            Some(_) => return Err(PortError::Twice(one.host)),
        }
    }
    if together.len() > MOST_PORTS {
        return Err(PortError::TooMany);
    }
    Ok(together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_engines_have_them() {
        let read = |text: &str| text.parse::<PublishedPort>().map(|port| port.to_string());
        for (text, wanted) in [
            ("3000", "3000:3000"),
            ("8080:80", "8080:80"),
            ("127.0.0.1:8080:80", "8080:80"),
            ("localhost:8080:80", "8080:80"),
            ("65535", "65535:65535"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
        }
        for text in [
            "", "0", "65536", "080", "+1", "-1", "80:", ":80", "a", "80:a", "80/tcp", " 80", "8０",
        ] {
            let wrong = PortError::NoPort(text.to_owned());
            assert_eq!(read(text), Err(wrong), "{text}");
        }
        for (text, address) in [
            ("0.0.0.0:80:80", "0.0.0.0"),
            ("[::1]:80:80", "[::1]"),
            ("192.0.2.1:1:2", "192.0.2.1"),
            (":80:80", ""),
        ] {
            let wrong = PortError::NotLoopback(address.to_owned());
            assert_eq!(read(text), Err(wrong), "{text}");
        }
    }

    #[test]
    fn none_leads_to_two_places() {
        let all = |texts: &[&str]| {
            let ports = texts.iter().map(|text| text.parse().unwrap());
            together(ports.collect()).map(|ports| ports.len())
        };
        assert_eq!(all(&["80", "80:80", "81:80"]), Ok(2));
        let eighty = NonZeroU16::new(80).unwrap();
        assert_eq!(all(&["80", "80:81"]), Err(PortError::Twice(eighty)));
        let many: Vec<String> = (1..66).map(|port: u16| port.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(all(&many), Err(PortError::TooMany));
        assert_eq!(all(&many[..64]), Ok(64));
    }
}
