//! The environment of programs in a container.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::profile::AGENT_HOME;
use crate::authorities;
use crate::sandbox::SandboxSpec;
use crate::sandbox::spec::search_first;

/// What an image without a `PATH` gets.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What programs look at to know whom to believe: OpenSSL's, Node.js's, curl's, Git's, Python's, Cargo's. An image that sets one
/// knows better.
const BELIEVE: [&str; 7] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
];

/// By these an image would tell a runtime's hooks which devices of this machine its containers get, and what the hooks load.
const NO_WORD: [&str; 2] = ["NVIDIA_VISIBLE_DEVICES=void", "LD_PRELOAD="];

/// What of it programs get that somebody starts by the engine, where a person lives: the way to our `git`, and whom to believe.
pub(super) fn of_the_container(spec: &SandboxSpec, image: &[String], bundle: &str) -> Vec<String> {
    let mut all = NO_WORD.map(str::to_owned).to_vec();
    if spec.search_first.is_none() {
        return all;
    }
    let whole = environment(spec, image, bundle);
    let names = std::iter::once("PATH").chain(BELIEVE);
    let set = names.filter_map(|name| {
        let value = whole.get(std::ffi::OsStr::new(name))?.to_str()?;
        Some(format!("{name}={value}"))
    });
    all.extend(set);
    all
}

/// The image's own, then what is the same in every sandbox, then what the caller gives. `image`: `NAME=value` each.
/// `bundle`: where whom this machine believes is, if it believes anybody.
pub(super) fn environment(
    spec: &SandboxSpec,
    image: &[String],
    bundle: &str,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("PATH".into(), PATH.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("SHELL".into(), "/bin/sh".into()),
        ("TERM".into(), "xterm-256color".into()),
    ]);
    if authorities::bundle().is_some() {
        environment.extend(BELIEVE.map(|name| (name.into(), bundle.into())));
    }
    environment.extend(image.iter().filter_map(|entry| {
        let (name, value) = entry.split_once('=')?;
        Some((name.into(), value.into()))
    }));
    for (name, value) in [
        ("HOME", AGENT_HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
    ] {
        environment.insert(name.into(), value.into());
    }
    environment.extend(spec.environment.clone());
    search_first(spec, &mut environment);
    environment
}
