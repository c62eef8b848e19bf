//! What a container is created with, as data. docs/decisions/0013-engines.md says why each is here.

use std::collections::HashMap;

use bollard::models::{
    HealthConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, MountBindOptionsPropagationEnum,
    RestartPolicy, RestartPolicyNameEnum,
};

use super::Kind;
use super::mounts::Bind;
use super::record::{Made, Mounted};
use super::users::Users;
use crate::sandbox::Limits;

/// What an engine is asked for.
pub(super) use bollard::models::{
    ContainerCreateBody as Body, HostConfig, Mount, MountBindOptions, MountType,
};

/// The home of whoever works inside.
pub(super) const AGENT_HOME: &str = "/home/agent";
/// What they may take of this machine's memory, in hundredths, as natively: the kernel gives each the half.
const HOME_SHARE: u64 = 20;
const TMP_SHARE: u64 = 20;
const VAR_TMP_SHARE: u64 = 5;
/// A billionth of a CPU is an engine's unit.
const BILLION: f64 = 1e9;
/// Of 1000 that there are (proc_pid_oom_score_adj(5)).
const GOES_FIRST: i64 = 500;
/// A file system in which there is nothing, and nothing comes.
const NOTHING: &str = "ro,noexec,nosuid,nodev,size=4k,mode=0555";
/// Where Podman shows secrets of the machine's.
const SECRETS: &str = "/run/secrets";

/// One agent's container.
#[derive(Debug)]
pub(super) struct Profile<'a> {
    pub(super) kind: Kind,
    pub(super) image: &'a str,
    pub(super) hostname: &'a str,
    /// Never 0.
    pub(super) ids: (u32, u32),
    pub(super) labels: HashMap<String, String>,
    pub(super) binds: &'a [Bind],
    pub(super) limits: &'a Limits,
    pub(super) network: &'a str,
    /// Whose the engine is, and where it is the caller's own and keeps their ids, what user namespace it has.
    pub(super) users: Users,
    pub(super) namespace: Option<String>,
    /// In bytes.
    pub(super) memory_of_machine: u64,
    /// The engine's option.
    pub(super) filter: String,
    /// Another one than the engine's own.
    pub(super) runtime: Option<String>,
    /// The host may start programs as root in it.
    pub(super) root: bool,
    /// The guest, and its first argument: where it meets its maker.
    pub(super) guest: String,
    pub(super) socket: String,
    /// `NAME=value`, for programs that somebody starts by the engine: nothing that is a secret.
    pub(super) environment: Vec<String>,
}

impl Profile<'_> {
    pub(super) fn body(self) -> Body {
        let (uid, gid) = self.ids;
        let mut guest = vec![self.guest.clone()];
        let user = if self.root {
            // The guest becomes the agent, and leaves a child behind that stays root.
            guest.extend(["init".to_owned(), self.socket.clone()]);
            "0:0".to_owned()
        } else if self.users == Users::Mapped {
            // Its files are the caller's by being root's, until the guest maps them.
            let ids = [uid.to_string(), gid.to_string()];
            guest.extend(["init-as".to_owned(), self.socket.clone()]);
            guest.extend(ids);
            "0:0".to_owned()
        } else {
            guest.extend(["init".to_owned(), self.socket.clone()]);
            format!("{uid}:{gid}")
        };
        Body {
            image: Some(self.image.to_owned()),
            hostname: Some(self.hostname.to_owned()).filter(|name| {
                let joins = self.network.starts_with("container:");
                !(name.is_empty() || joins && self.kind.shares_hostname())
            }),
            user: Some(user),
            // Nothing that an image names is started: neither its entry point nor its health check.
            entrypoint: Some(guest),
            cmd: Some(Vec::new()),
            healthcheck: Some(none()),
            working_dir: Some("/".to_owned()),
            env: Some(self.environment.clone()),
            // Process 1 is not asked: what is to be kept is on disk by then.
            stop_signal: Some("SIGKILL".to_owned()),
            stop_timeout: Some(1),
            labels: Some(self.labels.clone()),
            host_config: Some(self.host()),
            ..Body::default()
        }
    }

    fn host(&self) -> HostConfig {
        let limits = self.limits;
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let memory = limits.memory.map(integer);
        HostConfig {
            mounts: Some(self.binds.iter().map(mount).collect()),
            tmpfs: Some(self.own_files()),
            network_mode: Some(self.network.to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            // Without it the kernel maps no root (Linux 5.12). The guest has it alone, and drops it.
            cap_add: match (self.users, self.root) {
                (Users::Mapped, _) => Some(vec![MAPS_ROOT.to_owned()]),
                // The agent's process gives them up, and no new privileges come with any program.
                (_, true) => Some(OF_ROOT.map(str::to_owned).to_vec()),
                (_, false) => None,
            },
            // Whose engine it is has the image's files too.
            readonly_rootfs: Some(self.users == Users::Mapped),
            userns_mode: self.namespace.clone(),
            // Where the machine's memory is short an agent's programs go first.
            oom_score_adj: Some(GOES_FIRST),
            runtime: self.runtime.clone(),
            // Open files are each program's own: the guest sees to that, and in a user namespace of its own to processes too.
            pids_limit: limits
                .processes
                .filter(|_| !self.users.rootless())
                .map(integer),
            memory,
            memory_swap: memory,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "thousands of CPUs are far below the largest number"
            )]
            nano_cpus: limits.cpus.map(|cpus| (cpus * BILLION) as i64),
            ..common(self.filter.clone())
        }
    }

    /// File systems in memory that are the sandbox's alone, where nothing of the host's is mounted.
    fn own_files(&self) -> HashMap<String, String> {
        let (uid, gid) = if self.users == Users::Mapped {
            (0, 0)
        } else {
            self.ids
        };
        let options = |mode: &str, share: u64| {
            let size = self.memory_of_machine / 100 * share;
            let all = format!("rw,exec,nosuid,nodev,size={size}");
            if self.kind.owns_tmpfs() {
                // Where an image has the directory with other rights, they win, whatever is said here; not over the owner.
                format!("{all},mode={mode},uid={uid},gid={gid}")
            } else {
                // Podman would bring along what an image has there, its owner and rights too.
                format!("{all},mode=1777,notmpcopyup")
            }
        };
        let mut own = vec![
            (AGENT_HOME, options("0700", HOME_SHARE)),
            ("/tmp", options("1777", TMP_SHARE)),
            ("/var/tmp", options("1777", VAR_TMP_SHARE)),
        ];
        if self.users == Users::Kept {
            // In a user namespace an engine shows the host's, with the names of its devices.
            own.push(("/sys", NOTHING.to_owned()));
        }
        if self.kind.gives_secrets() {
            // Where they would be, and what is asked for is there instead.
            own.push((SECRETS, format!("{NOTHING},notmpcopyup")));
        }
        own.into_iter()
            .filter(|(place, _)| {
                self.binds
                    .iter()
                    .all(|bind| bind.target.as_os_str() != *place)
            })
            .map(|(place, options)| (place.to_owned(), options))
            .collect()
    }
}

/// A user namespace of an ordinary user's container: their files are theirs inside, and they are not root there.
pub(super) const OF_CALLER: &str = "keep-id";

/// The container that makes a wall. It has the right to, until it has handed the sockets over. `users`: whose the engine
/// is. `command`: the guest, what it is, and where it meets its maker.
pub(super) fn holder(
    (users, filter): (Users, String),
    image: &str,
    hostname: &str,
    labels: HashMap<String, String>,
    binds: &[Bind],
    command: [String; 3],
) -> Body {
    let mut capabilities = vec!["NET_ADMIN", "SETUID", "SETGID"];
    if users.rootless() {
        // Root of its namespace is not whose files it is given.
        capabilities.push("DAC_OVERRIDE");
    }
    let capabilities = capabilities.into_iter().map(str::to_owned).collect();
    Body {
        image: Some(image.to_owned()),
        hostname: Some(hostname.to_owned()).filter(|name| !name.is_empty()),
        user: Some("0:0".to_owned()),
        entrypoint: Some(Vec::from(command)),
        cmd: Some(Vec::new()),
        healthcheck: Some(none()),
        stop_signal: Some("SIGKILL".to_owned()),
        stop_timeout: Some(1),
        labels: Some(labels),
        host_config: Some(HostConfig {
            mounts: Some(binds.iter().map(mount).collect()),
            network_mode: Some("none".to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(capabilities),
            userns_mode: (users == Users::Kept).then(|| OF_CALLER.to_owned()),
            readonly_rootfs: Some(true),
            pids_limit: Some(16),
            memory: Some(64 << 20),
            // Programs listen where they like, and `::1` is there where the kernel has it.
            sysctls: Some(HashMap::from([
                (
                    "net.ipv4.ip_unprivileged_port_start".to_owned(),
                    "0".to_owned(),
                ),
                // Nobody: Docker's own is everybody.
                ("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned()),
                ("net.ipv6.conf.all.disable_ipv6".to_owned(), "0".to_owned()),
                ("net.ipv6.conf.lo.disable_ipv6".to_owned(), "0".to_owned()),
            ])),
            ..common(filter)
        }),
        ..Body::default()
    }
}

/// A container of an image of anybody's, which is never started: it is there to be looked at.
/// `meeting`: by which it is known whose it is.
pub(super) fn looked_at(
    image: &str,
    labels: HashMap<String, String>,
    filter: String,
    meeting: &Bind,
) -> Body {
    Body {
        image: Some(image.to_owned()),
        user: Some("65534:65534".to_owned()),
        entrypoint: Some(vec!["/never".to_owned()]),
        cmd: Some(Vec::new()),
        healthcheck: Some(none()),
        working_dir: Some("/".to_owned()),
        labels: Some(labels),
        host_config: Some(HostConfig {
            mounts: Some(vec![mount(meeting)]),
            network_mode: Some("none".to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            ..common(filter)
        }),
        ..Body::default()
    }
}

/// The same as Podman's own API has it, and without the image's volumes.
pub(super) fn looked_at_without_volumes(
    name: &str,
    image: &str,
    labels: &HashMap<String, String>,
    meeting: &Bind,
) -> serde_json::Value {
    serde_json::json!({
        "name": name,
        "image": image,
        "image_volume_mode": "ignore",
        "labels": labels,
        "entrypoint": ["/never"],
        "command": [],
        "user": "65534:65534",
        "work_dir": "/",
        "netns": {"nsmode": "none"},
        "cap_drop": ["ALL"],
        "no_new_privileges": true,
        // Nothing stays of one whose command was killed.
        "remove": true,
        "mounts": [{
            "type": "bind",
            "source": meeting.source.to_string_lossy(),
            "destination": meeting.target.to_string_lossy(),
            "options": ["bind", "ro", "rprivate"],
        }],
    })
}

/// What a container that was asked for so is known again by; it has no id yet.
pub(super) fn planned(body: &Body) -> Made {
    let host = body.host_config.as_ref();
    let mounts = host.and_then(|host| host.mounts.as_deref());
    let mounted = |mount: &Mount| Mounted {
        source: mount.source.clone().unwrap_or_default(),
        target: mount.target.clone().unwrap_or_default(),
        writable: mount.read_only != Some(true),
    };
    Made {
        containers: Vec::new(),
        mounts: mounts.unwrap_or_default().iter().map(mounted).collect(),
        volumes: None,
        processes: host.and_then(|host| host.pids_limit),
        memory: host.and_then(|host| host.memory),
        cpus: host.and_then(|host| host.nano_cpus),
        command: Vec::new(),
        root: false,
    }
}

/// No health check, whatever the image says.
fn none() -> HealthConfig {
    HealthConfig {
        test: Some(vec!["NONE".to_owned()]),
        ..HealthConfig::default()
    }
}

/// The right to give the root of a user namespace to another one.
pub(super) const MAPS_ROOT: &str = "SETFCAP";

/// What the root of a dev sandbox may, where the configuration has commands for it; and the last, by which the guest drops what the
/// agent is not to have.
pub(super) const OF_ROOT: [&str; 7] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "SETGID",
    "SETUID",
    "SETPCAP",
];

/// What every container of ours has. `filter`: of system calls, as the engine takes it.
fn common(filter: String) -> HostConfig {
    HostConfig {
        security_opt: Some(vec!["no-new-privileges".to_owned(), filter]),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // Nothing stays of one whose command was killed.
        auto_remove: Some(true),
        init: Some(false),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    }
}

fn mount(bind: &Bind) -> Mount {
    let text = |path: &std::path::Path| Some(path.to_string_lossy().into_owned());
    Mount {
        typ: Some(MountType::BIND),
        source: text(&bind.source),
        target: text(&bind.target),
        read_only: Some(!bind.writable),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            // Without what is mounted below it on the host.
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(kind: Kind, users: Users, limits: &Limits) -> Profile<'_> {
        Profile {
            kind,
            image: "x",
            hostname: "x",
            ids: (1, 1),
            labels: HashMap::new(),
            binds: &[],
            limits,
            network: "none",
            users,
            namespace: None,
            memory_of_machine: 1_000_000,
            filter: String::new(),
            runtime: None,
            root: false,
            guest: String::new(),
            socket: String::new(),
            environment: Vec::new(),
        }
    }

    #[test]
    fn each_limit_is_the_engines() {
        let limits = Limits {
            cpus: Some(1.5),
            memory: Some(1 << 30),
            processes: Some(77),
            ..Limits::default()
        };
        for kind in Kind::ALL {
            let host = profile(kind, Users::Machine, &limits).host();
            assert_eq!(host.nano_cpus, Some(1_500_000_000));
            assert_eq!(
                (host.memory, host.memory_swap),
                (Some(1 << 30), Some(1 << 30))
            );
            assert!(
                host.pids_limit
                    .is_some_and(|most| (77..100).contains(&most)),
                "{host:?}"
            );
        }
    }

    /// As natively: a fifth, a fifth and a twentieth of the machine's memory, and never what the kernel would give.
    #[test]
    fn files_in_memory_have_a_share_each() {
        for kind in Kind::ALL {
            for users in [Users::Machine, Users::Kept, Users::Mapped] {
                let limits = Limits::default();
                let profile = profile(kind, users, &limits);
                let own = profile.own_files();
                let has = |place: &str, size: u64| {
                    let options = own[place]
                        .split(',')
                        .any(|one| one == format!("size={size}"));
                    assert!(options, "{place} of {kind}: {}", own[place]);
                };
                has(AGENT_HOME, 200_000);
                has("/tmp", 200_000);
                has("/var/tmp", 50_000);
            }
        }
    }
}
