//! Variables that decide where an agent's secret goes, or whose it is: endpoints, proxies, trusted
//! certificates, keys. Only the user sets them: a repository that could would get the user's key sent
//! to a host of its choice, or the user's code to an account of its choice.

/// Everything that begins so, names of models apart. New versions of the programs bring new names.
const FAMILIES: [&str; 7] = [
    "ANTHROPIC_",
    "CLAUDE_",
    "CODEX_",
    "OPENAI_",
    "OPENROUTER_",
    "OTEL_",
    // The same models at other providers.
    "AWS_ENDPOINT_URL",
];

/// In either case of letters.
const NAMES: [&str; 14] = [
    "ALL_PROXY",
    "CLAUDECODE",
    "CURL_CA_BUNDLE",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SSLKEYLOGFILE",
];

/// Whether a variable of that name is one of them, for whichever agent.
pub(crate) fn steers(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let family = FAMILIES.iter().any(|family| name.starts_with(family));
    (family && !name.ends_with("_MODEL")) || NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_proxies_and_keys_steer_and_models_do_not() {
        for name in [
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_BEDROCK_BASE_URL",
            "ANTHROPIC_CUSTOM_HEADERS",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "HTTPS_PROXY",
            "NODE_EXTRA_CA_CERTS",
            "OPENAI_API_KEY",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "https_proxy",
        ] {
            assert!(steers(name), "{name}");
        }
        for name in [
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "CODEX",
            "DATABASE_URL",
            "MY_PROXY",
            "RUST_LOG",
        ] {
            assert!(!steers(name), "{name}");
        }
    }

    /// An agent's own variables are the user's to give, models apart.
    #[test]
    fn what_agents_take_from_the_caller_steers() {
        for kind in crate::agent::AGENTS {
            let options = crate::agent::AgentOptions {
                arguments: vec!["x".into()],
                ..Default::default()
            };
            for name in (kind.build)(options).unwrap().environment() {
                assert!(steers(name) || name.ends_with("_MODEL"), "{name}");
            }
        }
    }
}
