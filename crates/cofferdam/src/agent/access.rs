//! Whether an agent will be let in where its model is, as far as that can be told before it starts: an agent
//! that is not tries again for minutes before it says so.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: whether it needs a key is its own affair.
    Unknown,
    /// It has a login.
    Login,
    /// This variable is a key, or chooses a provider with keys of its own.
    Variable(&'static str),
    /// It has none of these variables, and may need none.
    Perhaps {
        /// Names of environment variables.
        keys: &'static [&'static str],
        /// Why, as a fragment.
        why: &'static str,
    },
    /// It has none of these variables, and cannot work without.
    Missing {
        /// Names of environment variables, of which one would do.
        keys: &'static [&'static str],
    },
}

/// The ways in that one agent knows.
#[derive(Debug)]
pub(super) struct Ways {
    /// Each alone is enough.
    pub(super) keys: &'static [&'static str],
    /// Each alone chooses another provider of its models.
    pub(super) providers: &'static [&'static str],
    /// Names another server than [`Self::host`], which wants a key.
    pub(super) address: &'static str,
    pub(super) host: &'static str,
}

impl Ways {
    /// `arguments`: whether the user gave the program arguments of their own.
    pub(super) fn access(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        logged_in: bool,
        arguments: bool,
    ) -> Access {
        let value = |name: &str| {
            let value = environment.get(OsStr::new(name));
            value.filter(|value| !value.is_empty())
        };
        let mut enough = self.keys.iter().chain(self.providers);
        if logged_in {
            return Access::Login;
        }
        if let Some(name) = enough.find(|name| value(name).is_some()) {
            return Access::Variable(name);
        }
        let keys = self.keys;
        // Servers of models on one's own machine seldom ask for a key.
        if value(self.address).is_some_and(|address| host(address) != self.host) {
            let why = "its model's server is one of your own, which may want none";
            return Access::Perhaps { keys, why };
        }
        if arguments {
            let why = "the arguments after `--` may say how it gets in";
            return Access::Perhaps { keys, why };
        }
        Access::Missing { keys }
    }
}

/// The keys of the provider that a model's name begins with; `None` where it names none that is known.
pub(super) fn keys_of(
    model: Option<&str>,
    known: &[(&str, &'static [&'static str])],
) -> Option<&'static [&'static str]> {
    let (provider, _) = model?.split_once('/')?;
    let known = known.iter().find(|(name, _)| *name == provider);
    known.map(|(_, keys)| *keys)
}

/// For programs that keep more ways in of their own than are known here: a key is enough, and none may be as well.
pub(super) fn any_of(
    keys: &'static [&'static str],
    environment: &BTreeMap<OsString, OsString>,
) -> Access {
    let said = |key: &&&str| {
        let value = environment.get(OsStr::new(key));
        value.is_some_and(|value| !value.is_empty())
    };
    match keys.iter().find(said) {
        Some(key) => Access::Variable(key),
        None => Access::Perhaps {
            keys,
            why: "its own settings, in files that your configuration brings in, may say how it gets in",
        },
    }
}

/// The host in an address: `https://user@name:port/path`.
fn host(address: &OsStr) -> String {
    let address = address.to_string_lossy();
    let rest = address
        .split_once("://")
        .map_or(&*address, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let rest = &rest[..end];
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = rest.split(':').next().unwrap_or(rest);
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: Ways = Ways {
        keys: &["OWN_KEY", "OWN_TOKEN"],
        providers: &["OWN_USE_OTHER"],
        address: "OWN_URL",
        host: "api.own.example",
    };

    fn access(pairs: &[(&str, &str)], logged_in: bool, arguments: bool) -> Access {
        let environment = pairs.iter().map(|&(k, v)| (k.into(), v.into())).collect();
        WAYS.access(&environment, logged_in, arguments)
    }

    #[test]
    fn one_of_the_ways_is_enough() {
        let missing = Access::Missing { keys: WAYS.keys };
        assert_eq!(access(&[], false, false), missing);
        assert_eq!(
            access(&[("OWN_KEY", ""), ("OTHER", "x")], false, false),
            missing
        );
        assert_eq!(
            access(&[("OWN_TOKEN", "x")], false, false),
            Access::Variable("OWN_TOKEN")
        );
        let other = access(&[("OWN_USE_OTHER", "1")], false, false);
        assert_eq!(other, Access::Variable("OWN_USE_OTHER"));
        assert_eq!(access(&[], true, false), Access::Login);
    }

    #[test]
    fn a_model_names_the_keys_that_are_needed() {
        const KNOWN: &[(&str, &[&str])] = &[("own", &["OWN_KEY"]), ("more", &["MORE_KEY"])];
        let keys = |model| keys_of(model, KNOWN);
        assert_eq!(keys(Some("own/m-1")), Some(&["OWN_KEY"][..]));
        for model in [None, Some("own"), Some("other/own/m")] {
            assert_eq!(keys(model), None, "{model:?}");
        }
        let environment = [("OWN_KEY".into(), "x".into())].into();
        assert_eq!(
            any_of(&["OWN_KEY"], &environment),
            Access::Variable("OWN_KEY")
        );
        let none = any_of(&["MORE_KEY"], &environment);
        assert!(matches!(none, Access::Perhaps { .. }));
    }

    #[test]
    fn a_server_or_arguments_of_the_users_own_may_do_without() {
        let perhaps = |access| matches!(access, Access::Perhaps { .. });
        for url in [
            "http://host.cofferdam.internal:1/v1",
            "http://[::1]:1",
            "own.example",
        ] {
            assert!(perhaps(access(&[("OWN_URL", url)], false, false)), "{url}");
        }
        for url in [
            "https://api.own.example",
            "https://k@API.own.example.:443/v1?x#y",
            "",
        ] {
            assert!(!perhaps(access(&[("OWN_URL", url)], false, false)), "{url}");
        }
        assert!(perhaps(access(&[], false, true)));
    }
}
