//! What an engine says of a container that runs, against what one of ours is.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::EngineOptions;
use super::client::Client;
use super::filter;
use super::labels::{HOLDER, ROLE};
use super::profile::{MAPS_ROOT, OF_ROOT};
use super::reach::Reach;
use super::record::{self, Made, Mounted};
use super::users::Users;
use crate::path_json::PathText;
use crate::sandbox::examined::{self, Examined, Held};
use crate::sandbox::{Handle, SandboxError};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Container {
    config: Config,
    host_config: Host,
    network_settings: Settings,
    mounts: Option<Vec<Place>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    user: String,
    labels: Option<BTreeMap<String, String>>,
    healthcheck: Option<Health>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Health {
    test: Option<Vec<String>>,
}

/// What is mounted in it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Place {
    #[serde(rename = "Type")]
    kind: String,
    /// Of a volume.
    name: String,
    source: String,
    destination: String,
    #[serde(rename = "RW")]
    writable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Host {
    privileged: bool,
    cap_add: Option<Vec<String>>,
    cap_drop: Option<Vec<String>>,
    readonly_rootfs: bool,
    security_opt: Option<Vec<String>>,
    network_mode: String,
    pid_mode: String,
    ipc_mode: String,
    #[serde(rename = "UTSMode")]
    uts_mode: String,
    /// What was asked for: with control groups of version 1 Podman shares them all the same.
    #[serde(rename = "CgroupnsMode")]
    cgroupns_mode: String,
    userns_mode: String,
    devices: Option<Vec<serde_json::Value>>,
    pids_limit: Option<i64>,
    memory: i64,
    nano_cpus: i64,
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

/// How many mounts are named that are not as they were.
const SHOWN: usize = 3;
/// Rights that both engines give where nobody takes them away.
const USUAL: [&str; 11] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The agent's container of this sandbox.
pub(super) async fn examine(reach: &Reach, handle: &Handle) -> Result<Vec<Examined>, SandboxError> {
    let client: &Client = reach.client().await?;
    let (mut found, mut process) = (Vec::new(), None);
    let made = record::whose(reach.place(handle))?.made;
    for container in reach.whose(handle)?.found(client).await? {
        if let Some(one) = client.inspect::<Container>(&container).await? {
            let labels = one.config.labels.as_ref();
            let role = labels.and_then(|labels| labels.get(ROLE));
            // An image can have our labels. One that an earlier version made has nothing else that tells.
            let agents = made.as_ref().and_then(|made| made.containers.first());
            let is_agents = match agents {
                Some(agents) => container == *agents,
                None => role.is_none_or(|role| role != HOLDER),
            };
            if is_agents {
                process = client.look(&container).await?.and_then(|one| one.process);
                found.push(one);
            }
        }
    }
    match &found[..] {
        [one] => {
            let mut all = one.weaker(client.users()?, made.as_ref(), &reach.options);
            let process = process.and_then(|pid| i32::try_from(pid).ok());
            all.extend(examined::of_a_container(process));
            Ok(all)
        }
        [] => {
            let what = format!("{} has none that was made for it", client.kind());
            Ok(vec![Examined::new("container", Held::Broken(what))])
        }
        more => {
            let what = format!("it has {} containers", more.len());
            Ok(vec![Examined::new("container", Held::Broken(what))])
        }
    }
}

impl Container {
    fn weaker(&self, users: Users, made: Option<&Made>, engine: &EngineOptions) -> Vec<Examined> {
        let host = &self.host_config;
        let is = |wrong: bool, said: &str| wrong.then(|| said.to_owned());
        // Who is root of their engine starts as that, and is somebody else before anything runs.
        let added: Vec<String> = host.cap_add.iter().flatten().cloned().collect();
        let mapped = users == Users::Mapped;
        let has_root = made.is_some_and(|made| made.root);
        let given: &[&str] = match (mapped, has_root) {
            (true, _) => &[MAPS_ROOT],
            (_, true) => &OF_ROOT,
            _ => &[],
        };
        let usual = added
            .iter()
            .all(|one| given.contains(&one.trim_start_matches("CAP_")));
        let rights = is(host.privileged, "it is privileged")
            .or_else(|| is(!self.drops_all(given), "it keeps some of an engine's own"))
            .or_else(|| some("added", Some(&added).filter(|_| !usual).map(Vec::as_slice)))
            .or_else(|| {
                let root = matches!(
                    self.config.user.split(':').next(),
                    None | Some("" | "0" | "root")
                );
                is(root && !mapped && !has_root, "it starts as root")
            });
        let options = host.security_opt.as_deref().unwrap_or_default();
        let unconfined = options.iter().any(|option| option.contains("unconfined"));
        let refuses = (options.iter()).any(|option| option.starts_with("no-new-privileges"));
        let filter = is(unconfined, &options.join(", "))
            .or_else(|| is(!refuses, "`no-new-privileges` is missing"))
            .or_else(|| {
                let ours = filter::is_in_force(options, users, engine);
                is(
                    !ours,
                    "it is another one than Cofferdam gives now: stop it and start it",
                )
            });
        let modes = [
            ("pid", &host.pid_mode),
            ("ipc", &host.ipc_mode),
            ("uts", &host.uts_mode),
            ("cgroup", &host.cgroupns_mode),
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
            Examined::of(
                "its rights",
                rights,
                if has_root {
                    "none added but those of your commands as root"
                } else {
                    "none added"
                },
            ),
            Examined::of("its filter", filter, "ours, and no new privileges"),
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
            Examined::of("its mounts", self.mounts(made), "those it was given"),
            Examined::of(
                "its image",
                is(
                    mapped && !host.readonly_rootfs,
                    "its files can be written, and they are yours",
                )
                .or_else(|| is(self.is_probed(), "its health check is run")),
                "nothing of it is run by the engine",
            ),
            Examined::of("its limits", self.loosened(made), self.limits()),
        ]
    }

    /// One engine says so, the other one names what it would have had, but for what it is `given`.
    fn drops_all(&self, given: &[&str]) -> bool {
        let dropped = self.host_config.cap_drop.iter().flatten();
        let dropped: Vec<&str> = dropped.map(|one| one.trim_start_matches("CAP_")).collect();
        let mut others = USUAL.iter().filter(|one| !given.contains(one));
        dropped.contains(&"ALL") || others.all(|one| dropped.contains(one))
    }

    fn is_probed(&self) -> bool {
        let check = self.config.healthcheck.as_ref();
        let test = check.and_then(|check| check.test.as_deref());
        test.is_some_and(|test| !test.is_empty() && test != ["NONE"])
    }

    /// What it sees of the host, against what it was given. Nothing is compared with of one that an earlier version made.
    fn mounts(&self, made: Option<&Made>) -> Option<String> {
        let given = &made?.mounts;
        let there = self.mounts.iter().flatten();
        let there: Vec<Mounted> = (there.filter(|one| one.kind == "bind"))
            .map(|one| Mounted {
                source: one.source.clone(),
                target: one.destination.clone(),
                writable: one.writable,
            })
            .collect();
        let told = |what: &str, one: &Mounted| {
            let how = if one.writable { ", to be written" } else { "" };
            let told = format!("{what} {} at {}{how}", one.source, one.target);
            crate::text::printable_line(&told)
        };
        let of_image = |place: &Place| {
            let volumes = made?.volumes.as_ref()?;
            let is_there = |one: &PathText| one.0.as_os_str() == place.destination.as_str();
            // An image's has no name of anybody's.
            let is_id =
                place.name.len() == 64 && place.name.bytes().all(|one| one.is_ascii_hexdigit());
            Some(is_id && volumes.iter().any(is_there))
        };
        let foreign = (self.mounts.iter().flatten())
            .filter(|place| place.kind == "volume" && of_image(place) == Some(false))
            .map(|place| {
                let told = format!("it sees the volume {} at {}", place.name, place.destination);
                crate::text::printable_line(&told)
            });
        let more = there.iter().filter(|one| !given.contains(one));
        let less = given.iter().filter(|one| !there.contains(one));
        let wrong: Vec<String> = more
            .map(|one| told("it sees", one))
            .chain(foreign)
            .chain(less.map(|one| told("it does not see", one)))
            .collect();
        let shown = wrong.iter().take(SHOWN).cloned().collect::<Vec<_>>();
        let more = match wrong.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        (!wrong.is_empty()).then(|| format!("{}{more}", shown.join("; ")))
    }

    /// Which of its limits are looser than they were made, or gone.
    fn loosened(&self, made: Option<&Made>) -> Option<String> {
        let (made, host) = (made?, &self.host_config);
        let all = [
            ("processes", made.processes, host.pids_limit.unwrap_or(0)),
            ("bytes of memory", made.memory, host.memory),
            ("billionths of a CPU", made.cpus, host.nano_cpus),
        ];
        let wrong: Vec<String> = (all.into_iter())
            .filter_map(|(what, limit, now)| {
                let limit = limit.filter(|&limit| limit > 0)?;
                (now <= 0 || now > limit).then(|| match now {
                    ..=0 => format!("no limit of {what}, where {limit} were meant"),
                    _ => format!("{now} {what}, where {limit} were meant"),
                })
            })
            .collect();
        (!wrong.is_empty()).then(|| wrong.join(", "))
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
    use super::super::{Kind, Surroundings};
    use super::*;

    fn made() -> Made {
        Made {
            containers: vec!["x".to_owned()],
            mounts: vec![Mounted {
                source: "/a".to_owned(),
                target: "/b".to_owned(),
                writable: false,
            }],
            volumes: Some(vec![PathText("/data".into())]),
            processes: Some(10),
            memory: Some(1000),
            cpus: None,
            command: Vec::new(),
            root: false,
        }
    }

    fn broken(text: &str) -> Vec<&'static str> {
        broken_of(text, Users::Machine)
    }

    fn broken_of(text: &str, users: Users) -> Vec<&'static str> {
        let place = tempfile::tempdir().unwrap();
        let options = EngineOptions::new(place.path(), Surroundings::default());
        let ours = filter::option(Kind::Podman, users, &options).unwrap();
        let text = text.replace("seccomp=ours", &ours);
        let container: Container = serde_json::from_str(&text).unwrap();
        (container.weaker(users, Some(&made()), &options).into_iter())
            .filter(|one| matches!(one.found, Held::Broken(_)))
            .map(|one| one.what)
            .collect()
    }

    #[test]
    fn what_is_weaker_is_named() {
        let good = r#"{"Config":{"User":"1:1"},"HostConfig":{"SecurityOpt":["no-new-privileges","seccomp=ours"],"NetworkMode":"none",
            "CapDrop":["ALL"],"Memory":1000,"PidsLimit":10},"Mounts":[{"Type":"bind","Source":"/a","Destination":"/b","RW":false},
            {"Type":"volume","Name":"0123456789012345678901234567890123456789012345678901234567890abc","Source":"/var/lib/x","Destination":"/data","RW":true}]}"#;
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
            "its mounts",
            "its limits",
        ];
        assert_eq!(broken(bad), all);
        let privileged = good.replace("\"NetworkMode\"", "\"Privileged\":true,\"NetworkMode\"");
        assert_eq!(broken(&privileged), ["its rights"]);
        // As the other engine says it.
        let named = format!("\"{}\"", USUAL.join("\",\"CAP_"));
        assert_eq!(broken(&good.replace("\"ALL\"", &named)), [""; 0]);
        for (right, wrong, what) in [
            ("\"ALL\"", "\"NET_RAW\"", "its rights"),
            (",\"seccomp=ours\"", "", "its filter"),
            ("seccomp=ours", "seccomp=/other.json", "its filter"),
            ("no-new-privileges", "x", "its filter"),
            (
                "\"CapDrop\"",
                "\"CgroupnsMode\":\"host\",\"CapDrop\"",
                "its namespaces",
            ),
            ("\"Memory\":1000", "\"Memory\":1001", "its limits"),
            ("\"PidsLimit\":10", "\"PidsLimit\":-1", "its limits"),
            ("\"RW\":false", "\"RW\":true", "its mounts"),
            ("\"/b\"", "\"/c\"", "its mounts"),
            // A volume that its image has not.
            ("\"/data\"", "\"/etc\"", "its mounts"),
            ("890abc\"", "890abx\"", "its mounts"),
            // One more than it was given.
            ("\"Type\":\"volume\"", "\"Type\":\"bind\"", "its mounts"),
            (
                "\"User\":\"1:1\"",
                "\"User\":\"1:1\",\"Healthcheck\":{\"Test\":[\"CMD\",\"x\"]}",
                "its image",
            ),
        ] {
            assert_eq!(broken(&good.replace(right, wrong)), [what], "{wrong}");
        }
        // Whoever's the engine is has the image's files too.
        assert_eq!(broken_of(good, Users::Mapped), ["its image"]);
        let read_only = good.replace("\"CapDrop\"", "\"ReadonlyRootfs\":true,\"CapDrop\"");
        assert_eq!(broken_of(&read_only, Users::Mapped), [""; 0]);
    }
}
