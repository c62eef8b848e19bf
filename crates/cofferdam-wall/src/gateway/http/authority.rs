//! Which host and port a request is for: everything in it that says so, read once and strictly.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Method;
use hyper::http::request::Parts;
use hyper::http::uri::Scheme;
use hyper::{Version, header};

use crate::gateway::wanted::Wanted;
use crate::{HostName, NameError};

/// The port of `http` where none is written.
const HTTP: u16 = 80;

/// A request that two programs could take for different hosts: never passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the request names no host")]
    NoHost,
    #[error("the request has more than one Host")]
    SeveralHosts,
    #[error("the request is for `{line}` in its first line and for `{host}` in its Host")]
    Disagree { line: Authority, host: Authority },
    #[error("the target of the request is neither a path nor an http address")]
    Target,
    #[error("CONNECT belongs to the proxy port, not into a connection to one host")]
    Connect,
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// A text that is no `HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthorityError {
    #[error("what stands there as the host is neither a host name nor an address")]
    Host,
    /// Nothing of the text is repeated here or in the others: it may be a password.
    #[error("a user or a password before the host: it belongs into a header of the request")]
    UserInfo,
    #[error("what stands in brackets is not an IPv6 address")]
    Brackets,
    #[error("what stands after the host is not a port: ports are 1 to 65535")]
    Port,
    #[error("the port is missing: write HOST:PORT")]
    NoPort,
    #[error("a host that is not ASCII")]
    Bytes,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) wanted: Wanted,
    pub(crate) port: u16,
}

impl Authority {
    /// `HOST[:PORT]`, the port as digits only. Without `default` a port must be there.
    pub(crate) fn parse(text: &str, default: Option<u16>) -> Result<Self, AuthorityError> {
        if text.contains('@') {
            return Err(AuthorityError::UserInfo);
        }
        let (wanted, port) = if let Some(rest) = text.strip_prefix('[') {
            let brackets = || AuthorityError::Brackets;
            let (address, port) = rest.split_once(']').ok_or_else(brackets)?;
            let address: Ipv6Addr = address.parse().map_err(|_| brackets())?;
            let port = match port.strip_prefix(':') {
                None if port.is_empty() => None,
                None => return Err(brackets()),
                Some(port) => Some(port),
            };
            (Wanted::Address(address.into()), port)
        } else {
            let (host, port) = match text.split_once(':') {
                None => (text, None),
                Some((host, port)) => (host, Some(port)),
            };
            (host_of(host).map_err(|_| AuthorityError::Host)?, port)
        };
        let port = match port {
            None => default.ok_or(AuthorityError::NoPort)?,
            Some(digits) => port_of(digits)?,
        };
        Ok(Self { wanted, port })
    }

    /// As it stands in a Host: the port only where it is not the usual one.
    pub(crate) fn to_host(&self) -> String {
        if self.port == HTTP {
            host_text(&self.wanted)
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", host_text(&self.wanted), self.port)
    }
}

/// A name, or an IPv4 address in its one usual form.
pub(crate) fn host_of(text: &str) -> Result<Wanted, NameError> {
    match text.parse::<Ipv4Addr>() {
        Ok(address) => Ok(Wanted::Address(IpAddr::V4(address))),
        Err(_) => Ok(Wanted::Name(text.parse::<HostName>()?)),
    }
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) authority: Authority,
    /// The whole address stood in the first line, as for a proxy.
    pub(crate) absolute: bool,
}

/// Reads it. Where more than one place says it, all say the same.
pub(crate) fn asked(head: &Parts) -> Result<Asked, Malformed> {
    if head.method == Method::CONNECT {
        return Err(Malformed::Connect);
    }
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Malformed::SeveralHosts);
    }
    let host = match host {
        None => None,
        Some(value) => {
            let text = value.to_str().map_err(|_| AuthorityError::Bytes)?;
            Some(Authority::parse(text, Some(HTTP))?)
        }
    };
    let two = head.version == Version::HTTP_2;
    let line = match (head.uri.scheme(), head.uri.authority()) {
        (Some(scheme), Some(authority)) if *scheme == Scheme::HTTP => {
            Some(Authority::parse(authority.as_str(), Some(HTTP))?)
        }
        (None, None) => None,
        // https in the clear, another scheme, or an authority without one.
        _ => return Err(Malformed::Target),
    };
    let path = head.uri.path();
    if line.is_none() && !path.starts_with('/') && !(path == "*" && head.method == Method::OPTIONS)
    {
        return Err(Malformed::Target);
    }
    match (line, host) {
        (None, None) => Err(Malformed::NoHost),
        // RFC 9112, 3.2: HTTP/1.1 has a Host in any case.
        (Some(_), None) if !two => Err(Malformed::NoHost),
        (Some(line), Some(host)) if line != host => Err(Malformed::Disagree { line, host }),
        (Some(authority), _) => Ok(Asked {
            authority,
            absolute: !two,
        }),
        (None, Some(authority)) => Ok(Asked {
            authority,
            absolute: false,
        }),
    }
}

fn host_text(wanted: &Wanted) -> String {
    match wanted {
        Wanted::Name(name) => name.to_string(),
        Wanted::Address(IpAddr::V4(address)) => address.to_string(),
        Wanted::Address(IpAddr::V6(address)) => format!("[{address}]"),
    }
}

/// One spelling per number: no sign, no leading zero.
fn port_of(digits: &str) -> Result<u16, AuthorityError> {
    digits
        .parse()
        .ok()
        .filter(|port: &u16| *port != 0 && port.to_string() == digits)
        .ok_or(AuthorityError::Port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_have_one_reading() {
        for (text, read) in [
            ("allowed.test", "allowed.test:80"),
            ("ALLOWED.Test.", "allowed.test:80"),
            ("allowed.test:8080", "allowed.test:8080"),
            ("203.0.113.9", "203.0.113.9:80"),
            ("203.0.113.9:81", "203.0.113.9:81"),
            ("[2001:db8::1]:81", "[2001:db8::1]:81"),
            ("[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]:80"),
        ] {
            let authority = Authority::parse(text, Some(80)).unwrap();
            assert_eq!(authority.to_string(), read, "{text}");
            assert_eq!(
                Authority::parse(&authority.to_host(), Some(80)),
                Ok(authority)
            );
        }
        for text in [
            "",
            ":80",
            "allowed.test:",
            "allowed.test:080",
            "allowed.test:+80",
            "allowed.test:0",
            "allowed.test:65536",
            "allowed.test:80:80",
            "allowed.test:443@denied.test",
            "user@allowed.test",
            "allowed.test/",
            "allowed%2etest",
            "allowed.test ",
            " allowed.test",
            "allowed.test\0.test",
            "allowed.test,denied.test",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "203.0.113.9.",
            "::1",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[127.0.0.1]",
            "[allowed.test]",
            "[fe80::1%eth0]",
            "[fe80::1%25eth0]",
        ] {
            assert!(Authority::parse(text, Some(80)).is_err(), "{text:?}");
        }
        assert_eq!(
            Authority::parse("allowed.test", None)
                .unwrap_err()
                .to_string(),
            "the port is missing: write HOST:PORT"
        );
    }

    // Attack on the user: a log that keeps the passwords of addresses.
    #[test]
    fn nothing_of_a_user_or_a_password_is_repeated() {
        for text in [
            "user:hunter2@allowed.test:443",
            "hunter2@allowed.test",
            "allowed.test:hunter2",
            "[hunter2]:443",
            "[::1]hunter2",
            "user:hunter2@[::1]:443",
            "allowed.test:443@hunter2",
            "hunter2 hunter2",
            "-hunter2-.test",
        ] {
            let error = Authority::parse(text, Some(80)).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_back(text in "\\PC{0,60}|[a-f0-9.:@%\\[\\]\0 -]{0,60}") {
            if let Ok(authority) = Authority::parse(&text, Some(80)) {
                prop_assert_eq!(Authority::parse(&authority.to_string(), None), Ok(authority));
            }
        }
    }
}
