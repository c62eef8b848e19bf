//! Annotations of an image. Podman before 4.5.1 gives those of an image's manifest to its containers as if its user had named them, and
//! they are orders there: crun leaves out the filter of system calls for one (`run.oci.seccomp_bpf_data`), systemd takes properties of a
//! unit, and programs of the machine's that hooks name are started for others.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::version::release;
use crate::sandbox::SandboxError;

/// What Podman has in each container by itself, or builders write into images to say what they are.
const TELL: [&str; 5] = [
    "com.docker.official-images.",
    "io.buildah.",
    "io.podman.annotations.",
    "org.opencontainers.image.",
    "vnd.docker.reference.",
];
/// Podman's own word for a container without a terminal.
const OF_PODMAN: &str = "io.kubernetes.cri-o.TTY";
/// From here on they stay with the image.
const STAY: [u64; 3] = [4, 5, 1];

/// Of what Podman says of a container.
#[derive(Debug, Deserialize)]
pub(super) struct Annotated {
    #[serde(rename = "Config")]
    config: Config,
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(rename = "Annotations", default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Whether a Podman of this version does that. One that does not say which it is may.
pub(super) fn are_given_on(version: Option<&str>) -> bool {
    version.and_then(release).is_none_or(|found| found < STAY)
}

/// Refuses what is none of Podman's, and does not only tell.
pub(super) fn check(container: Option<Annotated>) -> Result<(), SandboxError> {
    let found = container.and_then(|one| one.config.annotations);
    let mut names = found.iter().flat_map(BTreeMap::keys);
    let is_order =
        |name: &&String| *name != OF_PODMAN && !TELL.iter().any(|begin| name.starts_with(begin));
    match names.find(is_order) {
        None => Ok(()),
        Some(name) => Err(SandboxError::Unsupported {
            what: format!(
                "the image has the annotation `{}`, which this version of Podman takes for an order of yours",
                crate::text::printable_line(name)
            ),
            hint: "install Podman 4.5.1 or newer, or use an image without it".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_give_them_on() {
        for (version, expected) in [
            (None, true),
            (Some("4.3.1"), true),
            (Some("4.5.0"), true),
            (Some("4.5.1"), false),
            (Some("4.5.1-rhel"), false),
            (Some("4.10"), false),
            (Some("5.0.0-dev"), false),
            (Some("unknown"), true),
        ] {
            assert_eq!(are_given_on(version), expected, "{version:?}");
        }
    }

    #[test]
    fn what_only_tells_is_no_order() {
        let check = |name: &str| {
            let text = format!(
                "{{\"Config\": {{\"Annotations\": {{\"io.podman.annotations.init\": \"FALSE\", \"{name}\": \"x\"}}}}}}"
            );
            check(Some(serde_json::from_str(&text).unwrap())).is_ok()
        };
        for tells in [
            "io.kubernetes.cri-o.TTY",
            "org.opencontainers.image.base.name",
        ] {
            assert!(check(tells), "{tells}");
        }
        for order in [
            "run.oci.seccomp_bpf_data",
            "run.oci.keep_original_groups",
            "org.systemd.property.Wants",
            "io.kubernetes.cri-o.Devices",
            "io.containers.trace-syscall",
            "module.wasm.image/variant",
        ] {
            assert!(!check(order), "{order}");
        }
        let none = serde_json::from_str("{\"Config\": {\"Annotations\": null}}").unwrap();
        assert!(super::check(Some(none)).is_ok() && super::check(None).is_ok());
    }
}
