//! Where the agent's program looks for its model, checked against the rules before anything starts: what
//! the wall refuses there is a program that tries again for minutes and says nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;

use cofferdam_wall::{Class, Destination, HostName, Policy, Protocol, Request};

use super::event::Notice;
use super::network_options::{self, NetworkOptions};
use super::options::RunOptions;
use super::plan::error::PlanError;
use crate::names::{RepoPath, SandboxId};

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    scheme: &'static str,
    host: Host,
    port: u16,
    /// More than a `/` stands after it. What that is, is no business of a message: a path and a query may hold keys.
    has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(HostName),
    Address(IpAddr),
}

/// Refuses an address that the user gave and the network does not; of the usual one only a word is said:
/// arguments of the program may well send it elsewhere.
pub(super) fn check(
    options: &RunOptions,
    repository: &RepoPath,
    sandbox: SandboxId,
    environment: &BTreeMap<OsString, OsString>,
    logged_in: bool,
) -> Result<Option<Notice>, PlanError> {
    let Some(known) = options.task.agent.base_url(logged_in) else {
        return Ok(None);
    };
    if options.session.network == NetworkOptions::Open {
        return Ok(None);
    }
    let variable = known.variable;
    let given = environment.get(OsStr::new(variable));
    let given = given.filter(|value| !value.is_empty());
    let text = given.map_or(Some(known.usual), |value| value.to_str());
    let Some(server) = text.and_then(Server::parse) else {
        return Err(PlanError::ModelAddress { variable });
    };
    if server.is_inside() {
        // What a hook starts inside may well be the model.
        if !options.session.hooks.sandbox_ready.is_empty() {
            return Ok(None);
        }
        return Err(PlanError::ModelInside {
            variable,
            what: server.place(),
            url: server.on_this_machine(),
            has_more: server.has_more,
            opens: format!("{}:{}", HostName::HOST, server.port),
        });
    }
    let Some((reason, opens)) = refusal(options, repository, sandbox, &server) else {
        return Ok(None);
    };
    let what = server.place();
    if given.is_none() {
        return Ok(Some(Notice::ModelRefused {
            what,
            reason,
            opens,
        }));
    }
    Err(PlanError::ModelRefused {
        variable,
        what,
        reason,
        opens,
    })
}

/// Why the sandbox will not reach it, and the rule that would change that.
fn refusal(
    options: &RunOptions,
    repository: &RepoPath,
    sandbox: SandboxId,
    server: &Server,
) -> Option<(String, Option<String>)> {
    let NetworkOptions::Allowlist { rules } = &options.session.network else {
        return Some(("with `--network none` nothing is reached".to_owned(), None));
    };
    let loaded = network_options::sources(&options.caller.home, repository, sandbox, rules).load();
    // What was loaded makes a policy: what contradicts was taken out.
    let policy = Policy::compile(loaded.rules).unwrap_or_default();
    let destination = match &server.host {
        Host::Name(name) => Destination::Name(name),
        Host::Address(address) => Destination::Address(*address),
    };
    let request = Request {
        destination,
        port: server.port,
        protocol: Protocol::Tcp,
    };
    let refusal = policy.decide(&request).err()?;
    Some((refusal.to_string(), refusal.opening_rule()))
}

impl Server {
    /// Reads `http://` and `https://` addresses (RFC 3986, 3.2). A user and a password in it are left out: the
    /// result is shown.
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let (scheme, usual) = match scheme.to_ascii_lowercase().as_str() {
            "http" => ("http", 80),
            "https" => ("https", 443),
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let has_more = !matches!(rest, "" | "/");
        let place = authority
            .rsplit_once('@')
            .map_or(authority, |(_, place)| place);
        let (host, port) = if let Some(bracketed) = place.strip_prefix('[') {
            let (address, port) = bracketed.split_once(']')?;
            (Host::Address(IpAddr::V6(address.parse().ok()?)), port)
        } else {
            let at = place.find(':').unwrap_or(place.len());
            let (host, port) = place.split_at(at);
            let host = match host.parse() {
                Ok(address) => Host::Address(IpAddr::V4(address)),
                Err(_) => Host::Name(host.parse().ok()?),
            };
            (host, port)
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => usual,
            Some("") => usual,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0)?
            }
            _ => return None,
        };
        Some(Self {
            scheme,
            host,
            port,
            has_more,
        })
    }

    /// Whether a program that dials it reaches its own machine.
    fn is_inside(&self) -> bool {
        match &self.host {
            Host::Name(name) => name.is_localhost(),
            Host::Address(address) => {
                address.is_unspecified() || Class::of(*address) == Class::Loopback
            }
        }
    }

    fn place(&self) -> String {
        let port = self.port;
        match &self.host {
            Host::Name(name) => format!("{name}:{port}"),
            Host::Address(IpAddr::V4(v4)) => format!("{v4}:{port}"),
            Host::Address(IpAddr::V6(v6)) => format!("[{v6}]:{port}"),
        }
    }

    fn on_this_machine(&self) -> String {
        let Self { scheme, port, .. } = self;
        format!("{scheme}://{}:{port}", HostName::HOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_programs_read_them() {
        for (url, place) in [
            ("https://api.anthropic.com", Some("api.anthropic.com:443")),
            ("http://models.test", Some("models.test:80")),
            ("HTTPS://Models.Test:8443/v1?x=1", Some("models.test:8443")),
            ("https://user:p%40ss@models.test/", Some("models.test:443")),
            ("https://a@evil.test:1@models.test:2", Some("models.test:2")),
            (" http://10.0.0.5:4000/ ", Some("10.0.0.5:4000")),
            ("http://[2001:db8::1]:8080/v1", Some("[2001:db8::1]:8080")),
            ("http://[2001:db8::1]", Some("[2001:db8::1]:80")),
            ("http://models.test:/v1", Some("models.test:80")),
            ("http://models.test#x@y", Some("models.test:80")),
            ("models.test:8080", None),
            ("ftp://models.test", None),
            ("http://", None),
            ("http://:80", None),
            ("http://models.test:0", None),
            ("http://models.test:70000", None),
            ("http://models.test:+80", None),
            ("http://models.test:80:80", None),
            ("http://[models.test]:80", None),
            ("http://[::1", None),
            ("http://0x7f.1:80", None),
            ("http://a b.test", None),
        ] {
            let found = Server::parse(url).map(|server| server.place());
            assert_eq!(found.as_deref(), place, "{url}");
        }
    }

    #[test]
    fn a_loopback_address_is_the_sandbox_itself() {
        for (url, meant) in [
            (
                "http://localhost:11434/v1",
                Some("http://host.cofferdam.internal:11434"),
            ),
            (
                "https://u:p@LOCALHOST.",
                Some("https://host.cofferdam.internal:443"),
            ),
            (
                "http://api.localhost:1?q",
                Some("http://host.cofferdam.internal:1"),
            ),
            (
                "http://127.0.0.1:80",
                Some("http://host.cofferdam.internal:80"),
            ),
            (
                "http://127.8.9.1:80/k/SECRET#SECRET",
                Some("http://host.cofferdam.internal:80"),
            ),
            ("http://[::1]:80", Some("http://host.cofferdam.internal:80")),
            (
                "http://[::ffff:127.0.0.1]:80",
                Some("http://host.cofferdam.internal:80"),
            ),
            (
                "http://0.0.0.0:80",
                Some("http://host.cofferdam.internal:80"),
            ),
            ("http://host.cofferdam.internal:80", None),
            ("http://localhost.test:80", None),
            ("http://10.0.0.1:80", None),
        ] {
            let server = Server::parse(url).unwrap();
            let found = server.is_inside().then(|| server.on_this_machine());
            assert_eq!(found.as_deref(), meant, "{url}");
        }
    }
}
