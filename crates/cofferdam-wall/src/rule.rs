//! One rule: what it opens, and who said so.
//!
//! Rules only ever allow. Their text form is one line, `TARGET[:PORT,…] [udp|http|tls|plain]`:
//! `github.com`, `*.example.com:8443`, `10.1.0.0/16:5432,6379`, `[2001:db8::/32]:443`, `10.1.0.53:53 udp`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::cidr::{Cidr, CidrError};
use crate::class::{Class, SYNTHETIC};
use crate::name::{HostName, NameError};

/// Why something is not a rule. The caller adds the file and the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The name is no host name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The range is no range.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// `*` somewhere else than as the whole first label, or over a whole top-level domain.
    #[error(
        "wildcard `{0}` is not `*.` before a name of two labels or more, such as `*.example.com`"
    )]
    Wildcard(String),
    /// Not 1 to 65535.
    #[error("`{0}` is not a port: ports are 1 to 65535")]
    Port(String),
    /// A list without entries could be read as none or as all.
    #[error("the list of ports is empty: leave it out for the default, or name ports")]
    NoPorts,
    /// The word after the target means nothing.
    #[error("`{0}` after the target is not one of udp, http, tls, plain")]
    Word(String),
    /// Names are reached over TCP only.
    #[error("udp works with an address or range only, not with `{0}`")]
    UdpName(String),
    /// Http and tls compare a name, and a range has none.
    #[error("`{0}` is a range of addresses and cannot be http or tls: those compare a name")]
    KindOfRange(Cidr),
    /// So wide that the wall would be gone.
    #[error(
        "range `{0}` is too wide for a rule (at least /8, IPv6 /16): `--network open` removes the wall and says so"
    )]
    TooWide(Cidr),
    /// Inner networks are opened by port only.
    #[error("range `{range}` is {class}: name its ports")]
    Ports {
        /// The range.
        range: Cidr,
        /// What it is.
        class: Class,
    },
    /// The range means something else inside a sandbox.
    #[error("range `{0}` overlaps 198.18.0.0/15, which stands for names inside a sandbox")]
    Synthetic(Cidr),
    /// Only the user who starts the sandbox may hand a machine's own credentials into it.
    #[error(
        "`{0}` is a cloud metadata service: only a flag of the command that starts the sandbox opens it"
    )]
    Metadata(Cidr),
    /// The host has too many ports to open two by default.
    #[error("`{host}` is this machine: name the port of the service, as in `host.cofferdam.internal:8080`", host = HostName::HOST)]
    HostPorts,
    /// A program in a sandbox that asks for it gets the sandbox itself.
    #[error("`{name}` is the sandbox itself there: a service of this machine is `{meant}`")]
    Localhost {
        /// The name as it was given.
        name: String,
        /// The rule that was meant, as far as it can be told.
        meant: String,
    },
}

/// What a rule opens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// This one name.
    Name(HostName),
    /// `*.name`: every name with one or more labels below `name`, and not `name` itself.
    Below(HostName),
    /// These addresses, whoever uses them.
    Range(Cidr),
}

impl Target {
    /// Reads the `domain` of a rule: a name or `*.` and a name.
    pub fn domain(text: &str) -> Result<Self, RuleError> {
        let Some(apex) = text.strip_prefix("*.") else {
            if text == "*" {
                return Err(RuleError::Wildcard(text.to_owned()));
            }
            return Ok(Self::Name(text.parse()?));
        };
        let apex: HostName = apex.parse()?;
        if !apex.as_str().contains('.') {
            return Err(RuleError::Wildcard(format!("*.{apex}")));
        }
        Ok(Self::Below(apex))
    }
}

impl FromStr for Target {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | '/');
        let colons = text.split('/').next().is_some_and(|address| {
            address.contains(':')
                && address
                    .chars()
                    .all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
        });
        if colons || (text.contains(|c: char| c.is_ascii_digit()) && text.chars().all(numeric)) {
            Ok(Self::Range(text.parse()?))
        } else {
            Self::domain(text)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Below(apex) => write!(f, "*.{apex}"),
            Self::Range(range) => range.fmt(f),
        }
    }
}

/// The ports of a rule: sorted, each once; or all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ports(Option<Box<[u16]>>);

impl Ports {
    /// Checks a list of numbers as a config file gives them.
    pub fn list(numbers: impl IntoIterator<Item = i64>) -> Result<Self, RuleError> {
        let mut ports = Vec::new();
        for number in numbers {
            match u16::try_from(number) {
                Ok(port) if port != 0 => ports.push(port),
                _ => return Err(RuleError::Port(number.to_string())),
            }
        }
        if ports.is_empty() {
            return Err(RuleError::NoPorts);
        }
        ports.sort_unstable();
        ports.dedup();
        Ok(Self(Some(ports.into())))
    }

    /// The ports by number; none if it is all of them.
    pub fn listed(&self) -> Option<&[u16]> {
        self.0.as_deref()
    }
}

/// The transport of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Protocol {
    /// Streams.
    #[default]
    Tcp,
    /// Datagrams, to addresses only.
    Udp,
}

/// What the gateway looks at in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The Host of every request is the rule's name.
    Http,
    /// The outer SNI is the rule's name.
    Tls,
    /// Nothing: protocols in which the server speaks first would wait forever.
    Plain,
}

/// Who made a rule, for `net rules`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The default allowlist.
    Defaults,
    /// The user's own config.
    Global,
    /// The repository's config, approved.
    Repository,
    /// A flag of the command that started the sandbox.
    Flag,
    /// `cofferdam allow` while it ran.
    Live,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Defaults => "default list",
            Self::Global => "global config",
            Self::Repository => "repository config",
            Self::Flag => "command line",
            Self::Live => "allowed live",
        })
    }
}

/// One checked rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    target: Target,
    ports: Ports,
    protocol: Protocol,
    kind: Option<Kind>,
    origin: Origin,
}

impl Rule {
    /// The ports of a name whose rule lists none, as the requirements have them.
    const WEB: [u16; 2] = [80, 443];

    /// Checks that the parts make sense together. Without `ports` a name gets 80 and 443, a range all.
    pub fn new(
        target: Target,
        ports: Option<Ports>,
        protocol: Protocol,
        kind: Option<Kind>,
        origin: Origin,
    ) -> Result<Self, RuleError> {
        if let Target::Range(range) = target {
            if kind.is_some_and(|kind| kind != Kind::Plain) {
                return Err(RuleError::KindOfRange(range));
            }
            check_range(range, ports.is_some(), origin)?;
        } else if protocol == Protocol::Udp {
            return Err(RuleError::UdpName(target.to_string()));
        }
        match &target {
            Target::Name(name) if name.is_host() && ports.is_none() => {
                return Err(RuleError::HostPorts);
            }
            Target::Name(name) | Target::Below(name) if name.is_localhost() => {
                let ports = ports.as_ref().and_then(Ports::listed);
                return Err(RuleError::Localhost {
                    name: target.to_string(),
                    meant: on_this_machine(ports),
                });
            }
            _ => {}
        }
        let ports = ports.unwrap_or_else(|| match target {
            Target::Range(_) => Ports(None),
            Target::Name(_) | Target::Below(_) => Ports(Some(Self::WEB.into())),
        });
        Ok(Self {
            target,
            ports,
            protocol,
            kind,
            origin,
        })
    }

    /// Reads the text form.
    pub fn parse(text: &str, origin: Origin) -> Result<Self, RuleError> {
        let mut words = text.split_ascii_whitespace();
        let (target, ports) = split_ports(words.next().unwrap_or_default());
        let mut protocol = Protocol::Tcp;
        let mut kind = None;
        for word in words {
            let said_before = protocol == Protocol::Udp || kind.is_some();
            match word {
                "udp" if !said_before => protocol = Protocol::Udp,
                "http" if !said_before => kind = Some(Kind::Http),
                "tls" if !said_before => kind = Some(Kind::Tls),
                "plain" if !said_before => kind = Some(Kind::Plain),
                _ => return Err(RuleError::Word(word.escape_default().take(80).collect())),
            }
        }
        let target = target.parse()?;
        let ports = ports.map(parse_ports).transpose()?;
        Self::new(target, ports, protocol, kind, origin)
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The rule for this machine's services that someone most likely means who names a loopback address
    /// by itself; none for other rules. What listens there is in the sandbox, seen from a sandbox.
    pub fn meant_for_this_machine(&self) -> Option<String> {
        match self.target {
            Target::Range(range) if Class::of_range(&range) == Some(Class::Loopback) => {
                Some(on_this_machine(self.ports.listed()))
            }
            _ => None,
        }
    }

    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The kind that the rule states itself; it counts before one that follows from the port.
    pub(crate) fn stated_kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Whether it opens the same in the same way, whoever made it.
    pub fn is_same(&self, other: &Self) -> bool {
        let origin = other.origin;
        *other
            == Self {
                origin,
                ..self.clone()
            }
    }

    /// What to look at in a connection to `port`: 80 is http and 443 is tls for a name that says nothing else.
    pub fn kind_at(&self, port: u16) -> Kind {
        match (self.kind, &self.target, port) {
            (Some(kind), ..) => kind,
            (None, Target::Name(_) | Target::Below(_), 80) => Kind::Http,
            (None, Target::Name(_) | Target::Below(_), 443) => Kind::Tls,
            (None, ..) => Kind::Plain,
        }
    }
}

impl fmt::Display for Rule {
    /// The text form, which [`Rule::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = matches!(&self.target, Target::Range(range) if range.network().is_ipv6());
        match (&self.target, self.ports.listed()) {
            (target, Some(_)) if bracketed => write!(f, "[{target}]")?,
            (target, _) => target.fmt(f)?,
        }
        for (i, port) in self.ports.listed().unwrap_or_default().iter().enumerate() {
            write!(f, "{}{port}", if i == 0 { ':' } else { ',' })?;
        }
        if self.protocol == Protocol::Udp {
            f.write_str(" udp")?;
        }
        match self.kind {
            Some(Kind::Http) => f.write_str(" http"),
            Some(Kind::Tls) => f.write_str(" tls"),
            Some(Kind::Plain) if self.protocol == Protocol::Tcp => f.write_str(" plain"),
            Some(Kind::Plain) | None => Ok(()),
        }
    }
}

/// The text of a rule for services of this machine; `PORT` where it is not known.
fn on_this_machine(ports: Option<&[u16]>) -> String {
    let ports: Vec<String> = ports
        .unwrap_or_default()
        .iter()
        .map(u16::to_string)
        .collect();
    let ports = if ports.is_empty() {
        "PORT".to_owned()
    } else {
        ports.join(",")
    };
    format!("{}:{ports}", HostName::HOST)
}

fn check_range(range: Cidr, has_ports: bool, origin: Origin) -> Result<(), RuleError> {
    let least = if range.network().is_ipv4() { 8 } else { 16 };
    if range.length() < least {
        return Err(RuleError::TooWide(range));
    }
    if SYNTHETIC.covers(&range) || range.covers(&SYNTHETIC) {
        return Err(RuleError::Synthetic(range));
    }
    match Class::of_range(&range) {
        Some(Class::Metadata) if origin != Origin::Flag => Err(RuleError::Metadata(range)),
        Some(class) if class != Class::Public && !has_ports => {
            Err(RuleError::Ports { range, class })
        }
        _ => Ok(()),
    }
}

/// `TARGET:PORTS`, `[V6]:PORTS`, `V6` → target and ports.
fn split_ports(text: &str) -> (&str, Option<&str>) {
    if let Some((target, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // Brackets are for IPv6 only; around anything else the text stays whole and is refused as a name.
        let v6 = target
            .split('/')
            .next()
            .is_some_and(|a| matches!(a.parse(), Ok(IpAddr::V6(_))));
        match (v6, rest.strip_prefix(':')) {
            (true, Some(ports)) => return (target, Some(ports)),
            (true, None) if rest.is_empty() => return (target, None),
            _ => return (text, None),
        }
    }
    match text.split_once(':') {
        Some((target, ports)) if !ports.contains(':') && !ports.starts_with("//") => {
            (target, Some(ports))
        }
        _ => (text, None),
    }
}

fn parse_ports(text: &str) -> Result<Ports, RuleError> {
    let numbers = text
        .split(',')
        .map(|digits| match digits.parse() {
            Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
            _ => Err(RuleError::Port(digits.escape_default().take(80).collect())),
        })
        .collect::<Result<Vec<i64>, _>>()?;
    Ports::list(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(text, Origin::Global)
    }

    // covers: S1-24 S1-25 S1-27
    #[test]
    fn ports_are_80_and_443_for_a_name_and_all_for_a_range_unless_listed() {
        for (text, ports) in [
            ("example.com", Some(&[80, 443][..])),
            ("*.example.com", Some(&[80, 443])),
            ("example.com:8443,22,8443", Some(&[22, 8443])),
            ("203.0.113.0/24", None),
            ("203.0.113.0/24:5432", Some(&[5432])),
            ("2001:db8::/32", None),
            ("[2001:db8::/32]", None),
            ("[2001:db8::1]:443", Some(&[443])),
        ] {
            assert_eq!(rule(text).unwrap().ports().listed(), ports, "{text}");
        }
    }

    #[test]
    fn kinds_follow_from_the_port_of_a_name_unless_stated() {
        for (text, port, kind) in [
            ("example.com", 80, Kind::Http),
            ("example.com", 443, Kind::Tls),
            ("*.example.com:443", 443, Kind::Tls),
            ("example.com:22", 22, Kind::Plain),
            ("example.com:8443 tls", 8443, Kind::Tls),
            ("example.com:443 plain", 443, Kind::Plain),
            ("203.0.113.9:443", 443, Kind::Plain),
        ] {
            assert_eq!(rule(text).unwrap().kind_at(port), kind, "{text}");
        }
    }

    #[test]
    fn the_text_form_is_read_back() {
        for text in [
            "example.com:22",
            "*.example.com:80,443",
            "example.com:443 plain",
            "example.com:8080 http",
            "203.0.113.0/24",
            "10.0.0.5:53 udp",
            "2001:db8::/32",
            "[2001:db8::/32]:443",
            "[fd12::1]:5432",
        ] {
            assert_eq!(rule(text).unwrap().to_string(), text);
        }
        assert_eq!(
            rule("EXAMPLE.com.").unwrap().to_string(),
            "example.com:80,443"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (text, message) in [
            ("", "a host name is empty"),
            (
                "*",
                "wildcard `*` is not `*.` before a name of two labels or more, such as `*.example.com`",
            ),
            (
                "*.com",
                "wildcard `*.com` is not `*.` before a name of two labels or more, such as `*.example.com`",
            ),
            ("a.test:0", "`0` is not a port: ports are 1 to 65535"),
            (
                "a.test:70000",
                "`70000` is not a port: ports are 1 to 65535",
            ),
            ("a.test:+80", "`+80` is not a port: ports are 1 to 65535"),
            ("a.test:", "`` is not a port: ports are 1 to 65535"),
            ("a.test:80,,443", "`` is not a port: ports are 1 to 65535"),
            (
                "a.test quic",
                "`quic` after the target is not one of udp, http, tls, plain",
            ),
            (
                "a.test tls http",
                "`http` after the target is not one of udp, http, tls, plain",
            ),
            (
                "a.test:53 udp",
                "udp works with an address or range only, not with `a.test`",
            ),
            (
                "10.0.0.0/8:443 tls",
                "`10.0.0.0/8` is a range of addresses and cannot be http or tls: those compare a name",
            ),
            (
                "0.0.0.0/0",
                "range `0.0.0.0/0` is too wide for a rule (at least /8, IPv6 /16): `--network open` removes the wall and says so",
            ),
            (
                "128.0.0.0/1:443",
                "range `128.0.0.0/1` is too wide for a rule (at least /8, IPv6 /16): `--network open` removes the wall and says so",
            ),
            (
                "::/0",
                "range `::/0` is too wide for a rule (at least /8, IPv6 /16): `--network open` removes the wall and says so",
            ),
            (
                "10.0.0.0/8",
                "range `10.0.0.0/8` is a private address: name its ports",
            ),
            (
                "127.0.0.1",
                "range `127.0.0.1` is a loopback address: name its ports",
            ),
            (
                "198.18.0.5:80",
                "range `198.18.0.5` overlaps 198.18.0.0/15, which stands for names inside a sandbox",
            ),
            (
                "198.0.0.0/8",
                "range `198.0.0.0/8` overlaps 198.18.0.0/15, which stands for names inside a sandbox",
            ),
            (
                "169.254.169.254:80",
                "`169.254.169.254` is a cloud metadata service: only a flag of the command that starts the sandbox opens it",
            ),
            (
                "host.cofferdam.internal",
                "`host.cofferdam.internal` is this machine: name the port of the service, as in `host.cofferdam.internal:8080`",
            ),
            (
                "localhost:8080,9090",
                "`localhost` is the sandbox itself there: a service of this machine is `host.cofferdam.internal:8080,9090`",
            ),
            (
                "LOCALHOST.",
                "`localhost` is the sandbox itself there: a service of this machine is `host.cofferdam.internal:PORT`",
            ),
            (
                "*.dev.localhost:80",
                "`*.dev.localhost` is the sandbox itself there: a service of this machine is `host.cofferdam.internal:80`",
            ),
            (
                "10.0.0.1/8:80",
                "range `10.0.0.1/8` has bits set beyond its length: write `10.0.0.0/8`",
            ),
            (
                "10.0.0/8",
                "`10.0.0/8` is not an address or a range such as `10.1.0.0/16`",
            ),
            (
                "https://a.test/x",
                "host name `https://a.test/...` has the character `:`: write the bare name, without scheme, user, port or path",
            ),
        ] {
            assert_eq!(rule(text).unwrap_err().to_string(), message, "{text}");
        }
        for text in [
            "a.*.test",
            "*a.example.com",
            "**.example.com",
            "*.*.example.com",
            "[a.test]:443",
            "[10.0.0.1]:80",
            "[2001:db8::1]443",
            "[2001:db8::1",
            "a.test; touch x",
            "$(touch x)",
            "a\0.test",
            "\u{202e}a.test",
            "a..test",
        ] {
            assert!(rule(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(Ports::list([]), Err(RuleError::NoPorts));
        assert_eq!(Ports::list([-1]), Err(RuleError::Port("-1".to_owned())));
        assert!(rule(&"x".repeat(100_000)).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_loopback_range_may_mean_this_machine() {
        for (text, meant) in [
            ("127.0.0.1:8080", Some("host.cofferdam.internal:8080")),
            ("127.0.0.0/8:80,81", Some("host.cofferdam.internal:80,81")),
            ("[::1]:8080", Some("host.cofferdam.internal:8080")),
            ("10.0.0.1:8080", None),
            ("example.com", None),
            ("host.cofferdam.internal:8080", None),
            ("localhost.example.com", None),
            ("xlocalhost", None),
        ] {
            let found = rule(text).unwrap().meant_for_this_machine();
            assert_eq!(found.as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn only_a_flag_may_name_a_metadata_service() {
        for origin in [
            Origin::Defaults,
            Origin::Global,
            Origin::Repository,
            Origin::Live,
        ] {
            let refused = Rule::parse("169.254.169.254:80", origin);
            assert!(matches!(refused, Err(RuleError::Metadata(_))), "{origin}");
        }
        assert!(Rule::parse("169.254.169.254:80", Origin::Flag).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_back_as_itself(text in "\\PC{0,60}|[a-f0-9.:/*, \\[\\]udptls-]{0,60}") {
            if let Ok(one) = rule(&text) {
                prop_assert_eq!(rule(&one.to_string()), Ok(one));
            }
        }
    }
}
