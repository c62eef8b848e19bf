//! The names that a repository's own `.cofferdam/.env` may set: an allow list.
//!
//! A variable can decide what runs (`PATH`, `LD_PRELOAD`, `NODE_OPTIONS`, `GIT_SSH_COMMAND` …), whose settings
//! count (`HOME`, `XDG_CONFIG_HOME` …) or where a key goes (endpoints, proxies, certificates). Nobody knows all
//! of them: every program and every new version of one brings more. So what is not known to be harmless is the
//! user's to give (docs/decisions/0010-variables-of-a-repository.md).

/// Names that only a project's own code reads, or that switch nothing but words and colours.
const NAMES: [&str; 14] = [
    "CI",
    "DATABASE_URL",
    "ENVIRONMENT",
    "FORCE_COLOR",
    "LOG_LEVEL",
    "MIX_ENV",
    "NODE_ENV",
    "NO_COLOR",
    "PORT",
    "RACK_ENV",
    "RAILS_ENV",
    "REDIS_URL",
    "RUST_BACKTRACE",
    "TEST_DATABASE_URL",
];

/// Families that belong to the project by their makers' own rules, and `APP_` for everything else that a
/// project wants to call its own.
const FAMILIES: [&str; 7] = [
    "APP_",
    "EXPO_PUBLIC_",
    "NEXT_PUBLIC_",
    "NUXT_PUBLIC_",
    "POSTGRES_",
    "REACT_APP_",
    "VITE_",
];

/// Whether a file that came with a repository may set a variable of that name. Exactly as written: programs
/// take `https_proxy` for `HTTPS_PROXY`.
pub(crate) fn may_be_the_repositorys(name: &str) -> bool {
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_projects_call_their_own_and_nothing_that_programs_read() {
        for name in ["APP_NAME", "CI", "DATABASE_URL", "NODE_ENV", "VITE_TITLE"] {
            assert!(may_be_the_repositorys(name), "{name}");
        }
        for name in [
            "APP",
            "BASH_ENV",
            "ENV",
            "GCONV_PATH",
            "GIT_SSH_COMMAND",
            "HOME",
            "HTTPS_PROXY",
            "LD_PRELOAD",
            "MY_OWN",
            "NODE_OPTIONS",
            "PATH",
            "PYTHONSTARTUP",
            "app_name",
            "https_proxy",
        ] {
            assert!(!may_be_the_repositorys(name), "{name}");
        }
    }
}
