//! The sandbox's init: process 1. It makes the sandbox, gives up every privilege, and then [`serve`]s.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use cofferdam_guest::protocol::{AGENT_ID, Network, Setup};

use crate::channel::Channel;
use crate::freezer::Freezer;
use crate::serve::{self, Own, Resident};
use crate::tree::{Prepared, Refusal};
use crate::{lacking, loopback, pools, sys, view, wall};

/// Sets the sandbox up and serves it until the end.
pub(crate) fn run(
    mut channel: Channel,
    setup: &Setup,
    prepared: Vec<Prepared>,
    go: &OwnedFd,
    resident: Option<Resident>,
    freezer: Option<Freezer>,
) -> ! {
    let code = match set_up(setup, prepared, go) {
        Ok(sockets) => {
            // With the rights that it keeps.
            let freezer = freezer.filter(Freezer::works);
            let socket = channel.into_socket();
            let own = Own {
                resident,
                freezer,
                ..Own::default()
            };
            serve::run(socket, setup, sockets, own).map_or(1, |()| 0)
        }
        Err(refusal) => {
            let _ = channel.send(&refusal.into());
            1
        }
    };
    sys::exit(code);
}

/// The sockets of the wall, where the set-up asks for one.
fn set_up(setup: &Setup, prepared: Vec<Prepared>, go: &OwnedFd) -> Result<Vec<OwnedFd>, Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    let mut byte = [0u8; 1];
    let file = go
        .try_clone()
        .map(fs::File::from)
        .map_err(step("wait for the launcher"))?;
    if io::Read::read(&mut &file, &mut byte).map_err(step("wait for the launcher"))? == 0 {
        return Err(Refusal::Broken("the launcher is gone".to_owned()));
    }
    sys::own_groups().map_err(step("hide the host's control groups"))?;
    // From here on nothing in the sandbox has the caller's uid 0, not even this process.
    sys::become_ids(AGENT_ID, AGENT_ID).map_err(step("take the agent's ids"))?;
    // After the ids: a change of ids clears it. The launcher may have died before it: look again.
    sys::process_option(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(step("follow the launcher"))?;
    if sys::poll(&[go.as_raw_fd()], Some(Duration::ZERO)).map_err(step("look at the launcher"))?[0]
    {
        return Err(Refusal::Broken("the launcher is gone".to_owned()));
    }
    sys::new_session().map_err(step("start a session"))?;
    sys::set_umask(0o022);
    if setup.network != Network::Open {
        sys::loopback_up().map_err(step("bring the loopback interface up"))?;
        loopback::count_as_configured()?;
        // The agent's own servers may use any port. Where the host's `/proc` is read-only they use high ones.
        let _ = fs::OpenOptions::new()
            .write(true)
            .open("/proc/sys/net/ipv4/ip_unprivileged_port_start")
            .and_then(|mut file| io::Write::write_all(&mut file, b"0"));
    }
    pools::bound_watches();
    view::enter(setup, prepared)?;
    sys::set_hostname(setup.hostname.as_bytes()).map_err(|error| lacking::hostname(&error))?;
    let sockets = match setup.network {
        Network::Wall => wall::raise()?.into(),
        Network::None | Network::Open => Vec::new(),
    };
    sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(step("refuse new privileges"))?;
    sys::drop_capabilities().map_err(step("drop capabilities"))?;
    if setup.network == Network::Open {
        // Abstract unix sockets belong to the network namespace: behind the host's are its desktop and its
        // services. Best effort: needs Linux 6.12 with Landlock.
        let _ = sys::scope_abstract_sockets();
    }
    // The agent has this process's uid: it must not be able to trace or read it.
    sys::process_option(libc::PR_SET_DUMPABLE, 0).map_err(step("refuse to be traced"))?;
    Ok(sockets)
}
