//! What `latest` is today. An engine's cache of steps would take the word for the same thing for ever.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use super::ImageError;
use crate::authorities;

/// For one answer, whatever happens.
const LIMIT: Duration = Duration::from_secs(30);
/// What an answer may have, in bytes.
const LONGEST: u64 = 16 << 20;

/// How registries of packages are reached.
#[derive(Debug, Clone, Default)]
pub struct Web {
    /// As in `HTTPS_PROXY`; without it they are asked straight.
    pub proxy: Option<String>,
}

/// Who publishes a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    Npm(&'static str),
    Crates(&'static str),
}

#[derive(Debug, Deserialize)]
struct OfNpm {
    version: String,
}

#[derive(Debug, Deserialize)]
struct OfCrates {
    vers: String,
    #[serde(default)]
    yanked: bool,
}

/// `tool`: as users name it.
pub(super) async fn newest(
    tool: &'static str,
    registry: Registry,
    web: &Web,
) -> Result<String, ImageError> {
    let web = web.clone();
    let asked = tokio::task::spawn_blocking(move || ask(registry, &web));
    let asked = asked.await.unwrap_or_else(|error| Err(error.to_string()));
    let version = asked.map_err(|reason| ImageError::Unresolved { tool, reason })?;
    check_version(tool, &version)?;
    Ok(version)
}

/// What stands in a file that is not ours.
pub(super) fn check_version(tool: &'static str, version: &str) -> Result<(), ImageError> {
    let usable = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    if version.len() <= 64
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(usable)
    {
        return Ok(());
    }
    Err(ImageError::Unusable {
        what: tool,
        given: version.chars().take(80).collect(),
        reason: "a version is like 1.2.3, or `latest`",
    })
}

fn ask(registry: Registry, web: &Web) -> Result<String, String> {
    let url = match registry {
        Registry::Npm(package) => format!(
            "https://registry.npmjs.org/{}/latest",
            package.replace('/', "%2f")
        ),
        Registry::Crates(name) => format!("https://index.crates.io/{}", place(name)),
    };
    let text = get(&url, web)?;
    let said = |error: serde_json::Error| format!("{url} says what is no version: {error}");
    match registry {
        Registry::Npm(_) => {
            let found: OfNpm = serde_json::from_str(&text).map_err(said)?;
            Ok(found.version)
        }
        Registry::Crates(_) => newest_line(&text)
            .map_err(said)?
            .ok_or_else(|| format!("{url} has no version of it")),
    }
}

/// The last one that is no trial and was not taken back: the index has them in the order in which they came.
fn newest_line(text: &str) -> Result<Option<String>, serde_json::Error> {
    let mut newest: Option<(Vec<u64>, String)> = None;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let one: OfCrates = serde_json::from_str(line)?;
        let release = one.vers.split('+').next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = release.split('.').map(str::parse).collect();
        if let (Ok(numbers), false) = (numbers, one.yanked)
            && newest.as_ref().is_none_or(|(most, _)| numbers > *most)
        {
            newest = Some((numbers, one.vers));
        }
    }
    Ok(newest.map(|(_, version)| version))
}

/// Where the index has a crate: by its first letters.
fn place(name: &str) -> String {
    match name.len() {
        0 | 1 => format!("1/{name}"),
        2 => format!("2/{name}"),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    }
}

fn get(url: &str, web: &Web) -> Result<String, String> {
    let said = |error: ureq::Error| error.to_string();
    let proxy = match web.proxy.as_deref().filter(|proxy| !proxy.is_empty()) {
        Some(proxy) => Some(Proxy::new(proxy).map_err(said)?),
        None => None,
    };
    let mut tls = TlsConfig::builder();
    if let Some(known) = known() {
        tls = tls.root_certs(RootCerts::Specific(Arc::new(known)));
    }
    let config = Agent::config_builder()
        .proxy(proxy)
        .tls_config(tls.build())
        .timeout_global(Some(LIMIT))
        .user_agent(concat!("cofferdam/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent: Agent = config.into();
    let mut answer = agent.get(url).call().map_err(said)?;
    let body = answer.body_mut().with_config().limit(LONGEST);
    body.read_to_string().map_err(said)
}

/// Whom this machine believes; none where it does not say.
fn known() -> Option<Vec<Certificate<'static>>> {
    let text = crate::fsx::read_bounded(&authorities::bundle()?, LONGEST).ok()?;
    let known: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(one)) => Some(one),
            _ => None,
        })
        .collect();
    (!known.is_empty()).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_no_trial_and_was_not_taken_back() {
        let line = |version: &str, yanked: bool| {
            format!("{{\"name\":\"x\",\"vers\":\"{version}\",\"yanked\":{yanked},\"deps\":[]}}\n")
        };
        let text = [
            line("0.9.0", false),
            line("0.18.2", false),
            line("0.20.0-rc.1", false),
            line("0.19.0", true),
            // An older branch that was mended later.
            line("0.17.1", false),
        ]
        .concat();
        assert_eq!(newest_line(&text).unwrap().as_deref(), Some("0.18.2"));
        assert_eq!(newest_line("").unwrap(), None);
        assert!(newest_line("<html>").is_err());
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for good in ["1.2.3", "0.20.1", "2.0.0-beta.1", "1.0.0+x.1"] {
            check_version("codex", good).unwrap();
        }
        for bad in ["", "v1.2", "1.0; rm -rf /", "1.0 2", "../1", "1\n"] {
            check_version("codex", bad).unwrap_err();
        }
    }

    #[test]
    fn where_the_index_has_a_crate() {
        let places = ["a", "ab", "abc", "git-delta"].map(place);
        assert_eq!(places, ["1/a", "2/ab", "3/a/abc", "gi/t-/git-delta"]);
    }
}
