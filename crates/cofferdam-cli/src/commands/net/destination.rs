//! What `net test` is asked about: host and port, however they were written.

use std::net::IpAddr;

use cofferdam::wall::Target;

use crate::error::CliError;
use crate::ui::shell::shell_word;

/// A name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Destination {
    /// Reads `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or a URL; `port` is what was given beside it.
    pub(super) fn read(text: &str, port: Option<u16>) -> Result<Self, CliError> {
        let (usual, rest) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                (usual_port(scheme), host)
            }
            None => (None, text),
        };
        let (host, stated) = split(rest).ok_or_else(|| {
            let said = text.escape_debug();
            misused(format!("`{said}` has no port from 1 to 65535"))
        })?;
        check(host, text)?;
        let port = match (port, stated, usual) {
            (Some(given), Some(stated), _) if given != stated => {
                let said = format!("`{}` names port {stated}, not {given}", text.escape_debug());
                return Err(misused(said));
            }
            (Some(port), ..) | (None, Some(port), _) | (None, None, Some(port)) => port,
            (None, None, None) => {
                return Err(CliError::Misused {
                    message: format!("`{}` names no port", text.escape_debug()),
                    hint: format!("for example `cofferdam net test {} 443`", shell_word(host)),
                });
            }
        };
        let host = host.to_owned();
        Ok(Self { host, port })
    }
}

impl std::fmt::Display for Destination {
    /// A name is one that was checked.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        "ssh" => Some(22),
        _ => None,
    }
}

/// `None`: what stands after the host is no port.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':')?)),
        None if text.parse::<IpAddr>().is_ok() => (text, None),
        None => text
            .rsplit_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None => Some((host, None)),
        Some(port) => {
            let number = port.parse().ok().filter(|&number: &u16| number > 0)?;
            Some((host, Some(number)))
        }
    }
}

fn check(host: &str, text: &str) -> Result<(), CliError> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    match host.parse() {
        Ok(Target::Name(_)) => Ok(()),
        Ok(Target::Below(_) | Target::Range(_)) => Err(misused(format!(
            "`{}` is many hosts, and one is asked about",
            text.escape_debug()
        ))),
        Err(error) => Err(misused(error.to_string())),
    }
}

fn misused(message: String) -> CliError {
    CliError::Misused {
        message,
        hint: "name a host and a port, as in `cofferdam net test example.com 443`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, port: Option<u16>) -> Option<(String, u16)> {
        let read = Destination::read(text, port).ok()?;
        Some((read.host, read.port))
    }

    #[test]
    fn hosts_and_ports_in_every_way_of_writing() {
        for (text, port, host, want) in [
            ("a.test", Some(443), "a.test", 443),
            ("a.test:8443", None, "a.test", 8443),
            ("a.test:8443", Some(8443), "a.test", 8443),
            ("http://x", None, "x", 80),
            ("HTTPS://u:p@a.test/x?y#z", None, "a.test", 443),
            ("https://a.test:8443/x", None, "a.test", 8443),
            ("http://a.test", Some(8080), "a.test", 8080),
            ("192.0.2.1", Some(80), "192.0.2.1", 80),
            ("2001:db8::1", Some(80), "2001:db8::1", 80),
            ("[2001:db8::1]:80", None, "2001:db8::1", 80),
        ] {
            assert_eq!(read(text, port), Some((host.to_owned(), want)), "{text}");
        }
        for (text, port) in [
            ("a.test", None),
            ("ftp://a.test", None),
            ("a.test:80", Some(443)),
            ("a.test:0", None),
            ("a.test:x", None),
            ("a.test/x", Some(80)),
            ("*.a.test", Some(80)),
            ("10.0.0.0/8", Some(80)),
            ("", Some(80)),
            ("a b", Some(80)),
        ] {
            assert_eq!(read(text, port), None, "{text}");
        }
    }
}
