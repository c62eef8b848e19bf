//! What a container is created with, as data. docs/decisions/0013-engines.md says why each is here.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
    RestartPolicy, RestartPolicyNameEnum,
};

use super::Kind;
use super::mounts::Bind;
use crate::sandbox::Limits;

/// Where the guest is, and how it comes to its maker.
pub(super) const GUEST: &str = "/.cofferdam/guest";
pub(super) const MEETING: &str = "/.cofferdam/meet";
/// The home of whoever works inside.
pub(super) const AGENT_HOME: &str = "/home/agent";
/// A billionth of a CPU is an engine's unit.
const BILLION: f64 = 1e9;

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
    /// The path of the guest's first argument: where it meets its maker.
    pub(super) socket: String,
}

impl Profile<'_> {
    pub(super) fn body(self) -> ContainerCreateBody {
        let (uid, gid) = self.ids;
        ContainerCreateBody {
            image: Some(self.image.to_owned()),
            hostname: Some(self.hostname.to_owned()).filter(|name| !name.is_empty()),
            user: Some(format!("{uid}:{gid}")),
            // Nothing that an image names is started: neither its entry point nor its health check.
            entrypoint: Some(vec![
                GUEST.to_owned(),
                "init".to_owned(),
                self.socket.clone(),
            ]),
            cmd: Some(Vec::new()),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            working_dir: Some("/".to_owned()),
            // Process 1 is not asked: what is to be kept is on disk by then.
            stop_signal: Some("SIGKILL".to_owned()),
            stop_timeout: Some(1),
            labels: Some(self.labels.clone()),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
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
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
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
            pids_limit: limits.processes.map(integer),
            memory,
            memory_swap: memory,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "thousands of CPUs are far below the largest number"
            )]
            nano_cpus: limits.cpus.map(|cpus| (cpus * BILLION) as i64),
            ulimits: limits.open_files.map(|most| {
                vec![ResourcesUlimits {
                    name: Some("nofile".to_owned()),
                    soft: Some(integer(most)),
                    hard: Some(integer(most)),
                }]
            }),
            ..HostConfig::default()
        }
    }

    /// File systems in memory that are the sandbox's alone, where nothing of the host's is mounted.
    fn own_files(&self) -> HashMap<String, String> {
        let (uid, gid) = self.ids;
        let home = if self.kind.owns_tmpfs() {
            format!("rw,exec,nosuid,nodev,mode=0700,uid={uid},gid={gid}")
        } else {
            "rw,exec,nosuid,nodev,mode=1777".to_owned()
        };
        let all = "rw,exec,nosuid,nodev,mode=1777".to_owned();
        [(AGENT_HOME, home), ("/tmp", all.clone()), ("/var/tmp", all)]
            .into_iter()
            .filter(|(place, _)| {
                self.binds
                    .iter()
                    .all(|bind| bind.target.as_os_str() != *place)
            })
            .map(|(place, options)| (place.to_owned(), options))
            .collect()
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
