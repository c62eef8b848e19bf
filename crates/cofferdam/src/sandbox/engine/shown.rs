//! What an engine is asked for, as a command line of its own that asks for the same.

use super::Kind;
use super::filter;
use super::profile::{Body, HostConfig, Mount};
use super::version::Version;

/// In the place of the name that a holder does not have yet.
pub(super) const HOLDER: &str = "container:HOLDER";
/// Since then Docker's own command has another word for it, and later ones do not know the old one.
const SAYS_HOW_DEEP: Version = (1, 44);
/// A billionth of a CPU is an engine's unit.
const BILLION: f64 = 1e9;

/// Word by word. What the body leaves open is left out.
pub(super) fn command((kind, version): (Kind, Version), name: &str, body: &Body) -> Vec<String> {
    let mut words = vec![kind.name().to_owned(), "run".to_owned()];
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(format!("--{name}={value}"));
        }
    };
    option("name", Some(name.to_owned()));
    option("hostname", body.hostname.clone());
    option("user", body.user.clone());
    option("workdir", body.working_dir.clone());
    for one in body.env.iter().flatten() {
        option("env", Some(one.clone()));
    }
    let labels = body.labels.iter().flatten();
    let mut labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort();
    for label in labels {
        option("label", Some(label));
    }
    if let Some(host) = &body.host_config {
        let alone = match kind {
            Kind::Docker if version >= SAYS_HOW_DEEP => "bind-recursive=disabled",
            _ => "bind-nonrecursive=true",
        };
        of_host(host, alone, &mut option);
    }
    option("stop-signal", body.stop_signal.clone());
    option(
        "stop-timeout",
        body.stop_timeout.map(|seconds| seconds.to_string()),
    );
    let mut guest = body.entrypoint.iter().flatten();
    option("entrypoint", guest.next().cloned());
    // Neither its own nor the image's.
    words.push("--no-healthcheck".to_owned());
    words.extend(body.image.clone());
    words.extend(guest.cloned());
    words
}

fn of_host(host: &HostConfig, alone: &str, option: &mut impl FnMut(&str, Option<String>)) {
    let text = |number: Option<i64>| number.map(|number| number.to_string());
    option("network", host.network_mode.clone());
    option(
        "userns",
        host.userns_mode.clone().filter(|mode| !mode.is_empty()),
    );
    for one in host.cap_drop.iter().flatten() {
        option("cap-drop", Some(one.clone()));
    }
    for one in host.cap_add.iter().flatten() {
        option("cap-add", Some(one.clone()));
    }
    for one in host.security_opt.iter().flatten() {
        option("security-opt", Some(filter::shown(one).to_owned()));
    }
    option("read-only", yes(host.readonly_rootfs));
    option("rm", yes(host.auto_remove));
    option("runtime", host.runtime.clone());
    option("pids-limit", text(host.pids_limit));
    option("memory", text(host.memory));
    option("memory-swap", text(host.memory_swap));
    #[expect(
        clippy::cast_precision_loss,
        reason = "thousands of CPUs are far below what is exact"
    )]
    let cpus = host.nano_cpus.map(|cpus| cpus as f64 / BILLION);
    option("cpus", cpus.map(|cpus| cpus.to_string()));
    option("ipc", host.ipc_mode.clone());
    option("cgroupns", host.cgroupns_mode.map(|mode| mode.to_string()));
    let restart = host.restart_policy.as_ref().and_then(|policy| policy.name);
    option("oom-score-adj", text(host.oom_score_adj));
    option("restart", restart.map(|name| name.to_string()));
    let log = host.log_config.as_ref().and_then(|log| log.typ.clone());
    option("log-driver", log);
    for one in host.mounts.iter().flatten() {
        option("mount", Some(mount(one, alone)));
    }
    let tmpfs = host.tmpfs.iter().flatten();
    let mut tmpfs: Vec<String> = tmpfs.map(|(place, how)| format!("{place}:{how}")).collect();
    tmpfs.sort();
    for one in tmpfs {
        option("tmpfs", Some(one));
    }
}

fn yes(switch: Option<bool>) -> Option<String> {
    switch.filter(|on| *on).map(|on| on.to_string())
}

/// As `--mount` reads it: a line of comma-separated values. `alone`: how it is said that nothing comes with it that is mounted below.
fn mount(mount: &Mount, alone: &str) -> String {
    let field = |key: &str, value: &Option<String>| {
        let text = format!("{key}={}", value.as_deref().unwrap_or_default());
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    let mut fields = vec![
        "type=bind".to_owned(),
        field("source", &mount.source),
        field("target", &mount.target),
    ];
    if mount.read_only == Some(true) {
        fields.push("readonly".to_owned());
    }
    fields.push("bind-propagation=rprivate".to_owned());
    let options = mount.bind_options.as_ref();
    if options.and_then(|options| options.non_recursive) == Some(true) {
        fields.push(alone.to_owned());
    }
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::profile::{MountBindOptions, MountType};
    use super::*;

    #[test]
    fn places_with_commas_stay_one_word() {
        let of = |kind, version, source: &str, read_only| {
            let one = Mount {
                typ: Some(MountType::BIND),
                source: Some(source.to_owned()),
                target: Some("/b".to_owned()),
                read_only: Some(read_only),
                bind_options: Some(MountBindOptions {
                    non_recursive: Some(true),
                    ..MountBindOptions::default()
                }),
                ..Mount::default()
            };
            let host = HostConfig {
                mounts: Some(vec![one]),
                ..HostConfig::default()
            };
            let body = Body {
                host_config: Some(host),
                ..Body::default()
            };
            let all = command((kind, version), "x", &body);
            let named = all.iter().find_map(|word| word.strip_prefix("--mount="));
            named.unwrap().to_owned()
        };
        let mounted = |source: &str, read_only| of(Kind::Podman, (1, 41), source, read_only);
        let newer = of(Kind::Docker, SAYS_HOW_DEEP, "/a", false);
        assert!(newer.ends_with(",bind-recursive=disabled"), "{newer}");
        let older = of(Kind::Docker, (1, 41), "/a", false);
        assert!(older.ends_with(",bind-nonrecursive=true"), "{older}");
        assert_eq!(
            mounted("/a", false),
            "type=bind,source=/a,target=/b,bind-propagation=rprivate,bind-nonrecursive=true"
        );
        assert_eq!(
            mounted("/a,\"b", true),
            "type=bind,\"source=/a,\"\"b\",target=/b,readonly,bind-propagation=rprivate,bind-nonrecursive=true"
        );
    }
}
