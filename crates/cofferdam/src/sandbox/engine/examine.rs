//! What an engine says of a container that runs, against what one of ours is.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::client::Client;
use super::labels::{HOLDER, ROLE, written};
use super::profile::MAPS_ROOT;
use super::reach::Reach;
use super::users::Users;
use crate::names::SandboxId;
use crate::sandbox::SandboxError;
use crate::sandbox::examined::{Examined, Held};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Container {
    config: Config,
    host_config: Host,
    network_settings: Settings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    user: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Host {
    privileged: bool,
    cap_add: Option<Vec<String>>,
    security_opt: Option<Vec<String>>,
    network_mode: String,
    pid_mode: String,
    ipc_mode: String,
    #[serde(rename = "UTSMode")]
    uts_mode: String,
    userns_mode: String,
    devices: Option<Vec<serde_json::Value>>,
    pids_limit: Option<i64>,
    memory: i64,
    restart_policy: Restart,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Restart {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    networks: Option<BTreeMap<String, serde_json::Value>>,
}

/// The agent's container of this sandbox.
pub(super) async fn examine(reach: &Reach, id: SandboxId) -> Result<Vec<Examined>, SandboxError> {
    let client: &Client = reach.client().await?;
    let mut found = Vec::new();
    for container in client.labelled(&written(&reach.options, id)).await? {
        if let Some(one) = client.inspect::<Container>(&container).await? {
            let role = one
                .config
                .labels
                .as_ref()
                .and_then(|labels| labels.get(ROLE));
            if role.is_none_or(|role| role != HOLDER) {
                found.push(one);
            }
        }
    }
    match &found[..] {
        [one] => Ok(one.weaker(client.users()?)),
        [] => Err(SandboxError::NotRunning),
        more => {
            let what = format!("it has {} containers", more.len());
            Ok(vec![Examined::new("container", Held::Broken(what))])
        }
    }
}

impl Container {
    fn weaker(&self, users: Users) -> Vec<Examined> {
        let host = &self.host_config;
        let is = |wrong: bool, said: &str| wrong.then(|| said.to_owned());
        // Who is root of their engine starts as that, and is somebody else before anything runs.
        let added: Vec<String> = host.cap_add.iter().flatten().cloned().collect();
        let mapped = users == Users::Mapped;
        let usual = mapped
            && added
                .iter()
                .all(|one| one.trim_start_matches("CAP_") == MAPS_ROOT);
        let rights = is(host.privileged, "it is privileged")
            .or_else(|| some("added", Some(&added).filter(|_| !usual).map(Vec::as_slice)))
            .or_else(|| {
                let root = matches!(
                    self.config.user.split(':').next(),
                    None | Some("" | "0" | "root")
                );
                is(root && !mapped, "it starts as root")
            });
        let options = host.security_opt.as_deref().unwrap_or_default();
        let unconfined = options.iter().any(|option| option.contains("unconfined"));
        let refuses = (options.iter()).any(|option| option.starts_with("no-new-privileges"));
        let filter = is(unconfined, &options.join(", "))
            .or_else(|| is(!refuses, "`no-new-privileges` is missing"));
        let modes = [
            ("pid", &host.pid_mode),
            ("ipc", &host.ipc_mode),
            ("uts", &host.uts_mode),
            ("user", &host.userns_mode),
        ];
        let shared: Vec<String> = (modes.iter())
            .filter(|(name, mode)| {
                // An ordinary user's is the one that its network was made in.
                let made = *name == "user" && **mode == host.network_mode;
                **mode == "host" || mode.starts_with("container:") && !made
            })
            .map(|(name, mode)| format!("{name} {mode}"))
            .collect();
        let networks = self.network_settings.networks.iter().flatten();
        let networks: Vec<String> = networks
            .map(|(name, _)| name.clone())
            .filter(|name| name != "none" && *name != host.network_mode)
            .collect();
        // One of the host's own is an open network, which somebody asked for.
        let network =
            (!networks.is_empty()).then(|| format!("joined by hand: {}", networks.join(", ")));
        let restart = &host.restart_policy.name;
        vec![
            Examined::of("its rights", rights, "none added"),
            Examined::of(
                "its filter",
                filter,
                if mapped {
                    "ours, and no new privileges"
                } else {
                    "the engine's, and no new privileges"
                },
            ),
            Examined::of(
                "its namespaces",
                (!shared.is_empty()).then(|| shared.join(", ")),
                "its own",
            ),
            Examined::of("its network", network, host.network_mode.clone()),
            Examined::of(
                "its devices",
                is(
                    host.devices.iter().flatten().count() > 0,
                    "some of the host's",
                ),
                "the usual ones",
            ),
            Examined::of(
                "its restart",
                is(!matches!(restart.as_str(), "" | "no"), restart),
                "never",
            ),
            Examined::of("its limits", None, self.limits()),
        ]
    }

    fn limits(&self) -> String {
        let host = &self.host_config;
        let processes = host.pids_limit.filter(|&limit| limit > 0);
        let processes =
            processes.map_or_else(|| "no limit of".to_owned(), |limit| limit.to_string());
        let memory = match host.memory {
            0 => "no limit of memory".to_owned(),
            bytes => format!("{bytes} bytes of memory"),
        };
        format!("by the engine: {processes} processes, {memory}")
    }
}

fn some(what: &str, list: Option<&[String]>) -> Option<String> {
    let list = list.unwrap_or_default();
    (!list.is_empty()).then(|| format!("{what}: {}", list.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<&'static str> {
        let container: Container = serde_json::from_str(text).unwrap();
        (container.weaker(Users::Machine).into_iter())
            .filter(|one| matches!(one.found, Held::Broken(_)))
            .map(|one| one.what)
            .collect()
    }

    #[test]
    fn what_is_weaker_is_named() {
        let good = r#"{"Config":{"User":"1:1"},"HostConfig":{"SecurityOpt":["no-new-privileges"],"NetworkMode":"none"}}"#;
        assert_eq!(broken(good), [""; 0]);
        let bad = r#"{"Config":{"User":""},"HostConfig":{"PidMode":"host","NetworkMode":"none","Devices":[{}],
            "SecurityOpt":["seccomp=unconfined"],"RestartPolicy":{"Name":"always"}},"NetworkSettings":{"Networks":{"none":{},"bridge":{}}}}"#;
        let all = [
            "its rights",
            "its filter",
            "its namespaces",
            "its network",
            "its devices",
            "its restart",
        ];
        assert_eq!(broken(bad), all);
        let privileged = good.replace("\"NetworkMode\"", "\"Privileged\":true,\"NetworkMode\"");
        assert_eq!(broken(&privileged), ["its rights"]);
    }
}
