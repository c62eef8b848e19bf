//! The guest as process 1 of a container that has a network namespace for another one to join, and nothing else. It makes the wall
//! there, hands its sockets out, gives everything up, and stays until whoever asked has what it needs. No program of an agent's
//! ever runs here.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{self, Agent, Network, Reply, Setup};

use crate::given;
use crate::tree::Refusal;
use crate::{loopback, sys, wall};

/// How long one waits that nobody needs.
const IDLE: Duration = Duration::from_mins(15);
/// Of a removed directory nobody is told.
const LOOK: Duration = Duration::from_secs(5);

/// As [`given::run`].
pub(crate) fn run(socket: Option<&Path>) -> i32 {
    let Ok(mut channel) = given::connect(socket) else {
        return 2;
    };
    let Ok((setup, _)) = channel.read_setup() else {
        return 2;
    };
    let sockets = match set_up(&setup) {
        Ok(sockets) => sockets,
        Err(refusal) => {
            let _ = channel.send(&refusal.into());
            return 1;
        }
    };
    let Ok(frame) = protocol::encode(&Reply::Ready) else {
        return 1;
    };
    let socket = channel.into_socket();
    // The frame is short: it goes at once, with what belongs to it.
    match sys::send_with(socket.as_fd(), &frame, &sockets) {
        Ok(sent) if sent == frame.len() => {}
        _ => return 1,
    }
    // Whoever has them serves them; here they would only keep them open.
    drop(sockets);
    // Until the other side closes, or says anything at all.
    let _ = sys::poll(&[socket.as_raw_fd()], None);
    0
}

/// The same as soon as somebody is there: whoever has it wait is gone by then. It ends when nobody comes, and when the place to meet
/// is removed.
pub(crate) fn run_when_asked(socket: Option<&Path>) -> i32 {
    let Some(socket) = socket else { return 2 };
    match wait(socket) {
        Ok(true) => run(Some(socket)),
        Ok(false) => 0,
        Err(_) => 2,
    }
}

/// Whether the socket is there.
fn wait(socket: &Path) -> io::Result<bool> {
    let place = socket.parent().unwrap_or(socket);
    let watch = sys::watch_names(place)?;
    let until = Instant::now() + IDLE;
    loop {
        if socket.symlink_metadata().is_ok() {
            return Ok(true);
        }
        if place.metadata()?.nlink() == 0 || Instant::now() >= until {
            return Ok(false);
        }
        sys::poll(&[watch.as_raw_fd()], Some(LOOK))?;
        // What it says is seen by looking.
        sys::drain(watch.as_fd());
    }
}

fn set_up(setup: &Setup) -> Result<[std::os::fd::OwnedFd; 4], Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    let (Agent::Separate { uid, gid }, Network::Wall) = (setup.agent, setup.network) else {
        let what = "it is to hold a wall, and to become somebody";
        return Err(Refusal::Broken(what.to_owned()));
    };
    sys::loopback_up().map_err(step("bring the loopback interface up"))?;
    loopback::count_as_configured()?;
    let sockets = wall::raise()?;
    sys::drop_groups().map_err(step("drop groups"))?;
    sys::become_ids(uid, gid).map_err(step("take other ids"))?;
    sys::process_option(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(step("refuse new privileges"))?;
    sys::clear_capabilities().map_err(step("drop capabilities"))?;
    sys::process_option(libc::PR_SET_DUMPABLE, 0).map_err(step("refuse to be traced"))?;
    Ok(sockets)
}
