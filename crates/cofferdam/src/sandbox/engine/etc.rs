//! The files of `/etc` that say who one is and where names are looked up: ours, whatever the image has.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam_guest::protocol::NAMESERVER;

use super::mounts::Bind;
use super::profile::AGENT_HOME;
use super::rendezvous::Rendezvous;
use crate::fsx;
use crate::sandbox::guest::start_error;
use crate::sandbox::{Access, Network, SandboxError};

/// Written beside the meeting's socket, and mounted from there: their names go with it, and they stay as long as the container.
pub(super) fn write(
    rendezvous: &Rendezvous,
    hostname: &str,
    network: &Network,
    (uid, gid): (u32, u32),
) -> Result<Vec<Bind>, SandboxError> {
    let mut files = vec![
        (
            "passwd",
            format!(
                "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
                 agent:x:{uid}:{gid}:agent:{AGENT_HOME}:/bin/sh\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        (
            "group",
            format!("root:x:0:\nagent:x:{gid}:\nnogroup:x:65534:\n"),
        ),
    ];
    let resolv = match network {
        Network::None => Some(String::new()),
        Network::Wall(_) => {
            let server = Ipv4Addr::from(NAMESERVER);
            Some(format!(
                "nameserver {server}\noptions timeout:2 attempts:2\n"
            ))
        }
        // The engine's.
        Network::Open => None,
    };
    if let Some(resolv) = resolv {
        files.push(("resolv.conf", resolv));
        // Who joins this one's network, as each step of a build does, gets the file that an engine has of it, by its path. Of this
        // one, which has joined its holder, that would be the holder's, which goes at some moment.
        files.push(("hostname", format!("{hostname}\n")));
        files.push((
            "hosts",
            format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 {hostname}\n"),
        ));
    }
    let bind = |(name, content): (&str, String)| {
        let path = rendezvous.directory().join(name);
        fsx::write_private(&path, content.as_bytes())
            .map_err(|error| SandboxError::Start(error.to_string()))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).map_err(start_error)?;
        Bind::of(&path, &Path::new("/etc").join(name), Access::ReadOnly)
    };
    files.into_iter().map(bind).collect()
}
