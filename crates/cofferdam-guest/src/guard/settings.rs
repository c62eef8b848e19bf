//! Configuration that a command is given by its options or its environment, for this one call.

use super::Word;
use super::environment::Environment;
use super::split::split;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    key: Word,
    /// `None`: only named, which is true.
    value: Option<Word>,
    /// The option or variable that gives it.
    pub(super) given: &'static str,
}

impl Setting {
    /// As after `-c`: the key ends at the first equals sign.
    pub(super) fn option(text: &[u8]) -> Self {
        Self::new(text, "-c")
    }

    /// As after `--config-env`: the last equals sign, then the name of a variable.
    pub(super) fn variable(text: &[u8], environment: &Environment) -> Self {
        let at = text.iter().rposition(|&byte| byte == b'=');
        let (key, name) = text.split_at(at.unwrap_or(text.len()));
        let name = str::from_utf8(name.get(1..).unwrap_or_default());
        let value = name.ok().and_then(|name| environment.get(name));
        Self {
            key: key.to_vec(),
            value: Some(value.unwrap_or_default().to_vec()),
            given: "--config-env",
        }
    }

    fn new(text: &[u8], given: &'static str) -> Self {
        let at = text.iter().position(|&byte| byte == b'=');
        let (key, value) = text.split_at(at.unwrap_or(text.len()));
        Self {
            key: key.to_vec(),
            value: value.get(1..).map(<[u8]>::to_vec),
            given,
        }
    }

    /// Whatever the value: no program that means well moves the hooks for one call.
    pub(super) fn moves_hooks(&self) -> bool {
        is_hooks_path(&self.key)
    }

    /// Whether pushing then overwrites what is there: a refspec with a plus sign, or a mirror.
    pub(super) fn forces(&self) -> bool {
        let key = self.key.trim_ascii().to_ascii_lowercase();
        let Some(name) = key.strip_prefix(b"remote.") else {
            return false;
        };
        let value = self.value.as_deref();
        if name.ends_with(b".push") {
            return value.is_some_and(|value| value.trim_ascii_start().starts_with(b"+"));
        }
        name.ends_with(b".mirror") && value.is_none_or(is_true)
    }
}

/// Section and name of a key without a subsection are the same in any case.
pub(super) fn is_hooks_path(key: &[u8]) -> bool {
    key.trim_ascii().eq_ignore_ascii_case(b"core.hooksPath")
}

fn is_true(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let no: [&[u8]; 4] = [b"false", b"no", b"off", b"0"];
    !value.is_empty() && !no.iter().any(|no| no.eq_ignore_ascii_case(value))
}

/// `GIT_CONFIG_COUNT` with its keys and values, and what git gives on to what it starts.
pub(super) fn from_environment(environment: &Environment) -> Vec<Setting> {
    let count = environment.get("GIT_CONFIG_COUNT").and_then(number);
    let counted = environment.iter().filter_map(|(name, key)| {
        let index = number(name.strip_prefix(b"GIT_CONFIG_KEY_")?)?;
        let value = environment.get(&format!("GIT_CONFIG_VALUE_{index}"));
        (index < count?).then(|| Setting {
            key: key.to_vec(),
            value: Some(value.unwrap_or_default().to_vec()),
            given: "GIT_CONFIG_COUNT",
        })
    });
    let mut all: Vec<_> = counted.collect();
    // `'key'='value'`, from git before 2.31 `'key=value'`: the same once the quotes are gone.
    let handed_on = environment.get("GIT_CONFIG_PARAMETERS").and_then(split);
    let given = "GIT_CONFIG_PARAMETERS";
    let handed_on = handed_on.into_iter().flatten();
    all.extend(handed_on.map(|text| Setting::new(&text, given)));
    all
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_as_git_does() {
        for key in [
            "core.hooksPath",
            "CORE.HOOKSPATH",
            "Core.HooksPath",
            " core.hookspath ",
        ] {
            assert!(is_hooks_path(key.as_bytes()), "{key}");
        }
        for key in [
            "core.hooks",
            "core..hooksPath",
            "core.x.hooksPath",
            "ycore.hooksPath",
            "",
        ] {
            assert!(!is_hooks_path(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn a_refspec_and_a_mirror_force() {
        let check = |text: &str, expected: bool| {
            assert_eq!(
                Setting::option(text.as_bytes()).forces(),
                expected,
                "{text}"
            );
        };
        check("remote.origin.push=+refs/heads/a", true);
        check("REMOTE.a.b.PUSH=+a", true);
        check("remote.origin.push=refs/heads/a:+b", false);
        check("remote.origin.push", false);
        check("remote.origin.mirror=true", true);
        check("remote.origin.mirror", true);
        check("remote.origin.mirror=no", false);
        check("remote.origin.url=+x", false);
        check("push.default=+x", false);
    }

    #[test]
    fn the_environment_is_read_as_git_does() {
        let moved = |variables: &[(&str, &str)]| {
            let mut environment = Environment::default();
            for (name, value) in variables {
                environment.set(name.as_bytes(), value.as_bytes());
            }
            let all = from_environment(&environment);
            all.iter().filter(|setting| setting.moves_hooks()).count()
        };
        let key = ("GIT_CONFIG_KEY_1", "core.hookspath");
        let value = ("GIT_CONFIG_VALUE_1", "/dev/null");
        assert_eq!(moved(&[("GIT_CONFIG_COUNT", "2"), key, value]), 1);
        // Git does not read past the count, and fails where it is none.
        assert_eq!(moved(&[("GIT_CONFIG_COUNT", "1"), key, value]), 0);
        assert_eq!(moved(&[("GIT_CONFIG_COUNT", "x"), key, value]), 0);
        assert_eq!(moved(&[key, value]), 0);
        for (text, expected) in [
            ("'core.hookspath'='/dev/null'", 1),
            ("'a.b'='it'\\''s' 'core.hooksPath=/dev/null'", 1),
            ("'a.b'='core.hooksPath=x'", 0),
            ("'core.hooksPath", 0),
        ] {
            assert_eq!(
                moved(&[("GIT_CONFIG_PARAMETERS", text)]),
                expected,
                "{text}"
            );
        }
    }
}
