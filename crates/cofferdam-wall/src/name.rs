//! The one strict host name: what has this type was checked once and is never parsed again.
//!
//! Matchers that compare text with `ends_with` and resolvers that stop at a NUL disagree about
//! `evil\0.ok`; numbers in odd bases reach addresses through the resolver (`0x7f.1`). So a name is
//! accepted in one canonical form only, and that same value is matched, resolved and dialled.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// Why a text is not a host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given, or only a dot.
    #[error("a host name is empty")]
    Empty,
    /// More than 253 bytes.
    #[error("a host name of {0} bytes is too long: at most {max} are allowed", max = HostName::MAX)]
    TooLong(usize),
    /// Two dots in a row, or one at the start.
    #[error("host name `{0}` has an empty label: write one dot between labels")]
    EmptyLabel(String),
    /// A label of more than 63 bytes.
    #[error("host name `{0}` has a label of more than 63 bytes")]
    LongLabel(String),
    /// A label begins or ends with `-`.
    #[error("host name `{0}` has a label that begins or ends with `-`")]
    Hyphen(String),
    /// A URL, a port, a user, a `%` escape, a control byte, …
    #[error(
        "host name `{name}` has the character `{found}`: write the bare name, without scheme, user, port or path"
    )]
    Character {
        /// What was given, control bytes escaped, without what may be a key in an address of a page.
        name: String,
        /// The first character that cannot stand in a name, escaped.
        found: String,
    },
    /// A letter beyond ASCII. Look-alikes are decided by whoever writes the rule, not by us.
    #[error("host name `{0}` is not ASCII: write its `xn--` form")]
    NotAscii(String),
    /// The last label is a number in some base, so a resolver may read the name as an address.
    #[error(
        "`{0}` reads as an address, not as a host name: write an address as four decimal numbers, or as a `cidr` rule"
    )]
    Numeric(String),
}

/// A host name: lower-case ASCII (international names as `xn--` labels), no dot at its end.
///
/// Labels are 1 to 63 of `a`–`z`, `0`–`9`, `-` (not first or last) and `_`; 253 bytes in all (RFC 1123,
/// plus the underscore that service names use); the last one does not look like a number (WHATWG URL,
/// "ends in a number").
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Box<str>);

impl HostName {
    /// The longest name, in bytes (RFC 1035: 255 on the wire).
    pub const MAX: usize = 253;

    /// The machine that Cofferdam runs on, as a sandbox names it. Off unless a rule has exactly this name.
    pub const HOST: &str = "host.cofferdam.internal";

    /// Whether this is [`HostName::HOST`].
    pub fn is_host(&self) -> bool {
        self.as_str() == Self::HOST
    }

    /// Whether it is reserved for the loopback of whoever asks (RFC 6761, 6.3).
    pub fn is_localhost(&self) -> bool {
        self.and_above().last() == Some("localhost")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name and then each name above it: `a.b.c`, `b.c`, `c`.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |name| {
            name.split_once('.').map(|(_, above)| above)
        })
    }

    /// Whether this name has one or more labels below `apex`; the apex itself has not.
    pub fn is_below(&self, apex: &Self) -> bool {
        self.and_above().skip(1).any(|above| above == apex.as_str())
    }
}

impl FromStr for HostName {
    type Err = NameError;

    /// Lower-cases ASCII and drops one dot at the end; everything else must be canonical already.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        // The length comes first: what the other errors repeat is then short.
        if name.len() > Self::MAX {
            return Err(NameError::TooLong(name.len()));
        }
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let shown = || name.escape_default().to_string();
        for c in name.chars() {
            if !c.is_ascii() {
                return Err(NameError::NotAscii(shown()));
            }
            if !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
                return Err(NameError::Character {
                    name: without_keys(&shown()),
                    found: c.escape_default().to_string(),
                });
            }
        }
        for label in name.split('.') {
            if label.is_empty() {
                return Err(NameError::EmptyLabel(shown()));
            }
            if label.len() > 63 {
                return Err(NameError::LongLabel(shown()));
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err(NameError::Hyphen(shown()));
            }
        }
        let lower = name.to_ascii_lowercase();
        if lower.rsplit('.').next().is_some_and(is_number) {
            return Err(NameError::Numeric(shown()));
        }
        Ok(Self(lower.into_boxed_str()))
    }
}

/// Decimal, octal or hexadecimal, as `inet_aton(3)` reads it (`0x` alone counts as zero).
fn is_number(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit())
        || label
            .strip_prefix("0x")
            .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sound because `Eq` and `Hash` of a [`HostName`] are those of its text.
impl Borrow<str> for HostName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// An address of a page without its user, password, path and query: people paste those in, keys and all, and what is
/// refused is shown and logged.
fn without_keys(text: &str) -> String {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let scheme = &text[..text.len() - rest.len()];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, more) = rest.split_at(end);
    let place = match authority.rsplit_once('@') {
        Some((_, place)) => format!("...@{place}"),
        None => authority.to_owned(),
    };
    let more = if more.len() > 1 { "/..." } else { more };
    format!("{scheme}{place}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<String, NameError> {
        text.parse::<HostName>().map(|name| name.to_string())
    }

    #[test]
    fn good_names_come_out_canonical() {
        let long = format!("{}.{}", "a".repeat(63), "b".repeat(63));
        for (text, canonical) in [
            ("example.com", "example.com"),
            ("ALLOWED.Test", "allowed.test"),
            ("allowed.test.", "allowed.test"),
            ("localhost", "localhost"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("_acme-challenge.example.com", "_acme-challenge.example.com"),
            ("1password.com", "1password.com"),
            ("1.2.3.4.example", "1.2.3.4.example"),
            ("a.0x7g", "a.0x7g"),
            (long.as_str(), long.as_str()),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn what_another_program_could_read_differently_is_refused() {
        let label = "a".repeat(64);
        let name = [
            "a".repeat(63),
            "b".repeat(63),
            "c".repeat(63),
            "d".repeat(62),
        ]
        .join(".");
        assert_eq!(name.len(), 254);
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.b..",
            "evil.test\0.allowed.test",
            "allowed.test\r\nHost: denied.test",
            "allowed.test\n",
            "allowed.test@denied.test",
            "allowed.test:443",
            "allowed.test:443@denied.test",
            "https://allowed.test/",
            "allowed.test/path",
            "a%2e.test",
            "fe80::1%eth0",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "::1",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7F.0.0.0X1",
            "017700000001",
            "a.0x",
            "1.2.3.4.",
            "*.allowed.test",
            "a b",
            "allowed.test; touch x",
            "$(touch x).test",
            "-a.test",
            "a-.test",
            "b\u{fc}cher.example",
            "allowed\u{202e}.test",
            "allowed\u{3002}test",
            label.as_str(),
            name.as_str(),
        ] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_refusal_says_what_to_write_and_repeats_no_control_bytes() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("https://a.test/"),
            "host name `https://a.test/` has the character `:`: write the bare name, without scheme, user, port or path"
        );
        assert_eq!(
            message("b\u{202e}.test"),
            "host name `b\\u{202e}.test` is not ASCII: write its `xn--` form"
        );
        assert!(!message("a\u{1b}[2J").contains('\u{1b}'));
        assert_eq!(
            message(&"x".repeat(100_000)),
            "a host name of 100000 bytes is too long: at most 253 are allowed"
        );
    }

    #[test]
    fn below_is_decided_by_labels_and_excludes_the_apex() {
        let name = |text: &str| text.parse::<HostName>().unwrap();
        let apex = name("allowed.test");
        assert!(name("a.allowed.test").is_below(&apex));
        assert!(name("a.b.Allowed.Test.").is_below(&apex));
        for other in [
            "allowed.test",
            "xallowed.test",
            "allowed.test.evil.test",
            "test",
        ] {
            assert!(!name(other).is_below(&apex), "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_canonical(text in "\\PC{0,80}|[a-zA-Z0-9._%:@*\\[\\]\0-]{0,300}") {
            if let Ok(name) = text.parse::<HostName>() {
                prop_assert!(name.as_str().len() <= HostName::MAX);
                let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
                prop_assert!(name.as_str().bytes().all(fine));
                prop_assert!(!name.as_str().ends_with('.'));
                prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
                prop_assert_eq!(name.as_str().parse::<HostName>().unwrap(), name);
            }
        }

        #[test]
        fn good_labels_are_accepted(labels in prop::collection::vec("[a-z0-9_]([a-z0-9_-]{0,20}[a-z0-9_])?", 0..5)) {
            let text = labels.iter().map(|l| format!("{l}.")).collect::<String>() + "test";
            prop_assert_eq!(parse(&text), Ok(text));
        }
    }
}
