//! A holder that is there before anybody asks for one. It waits at a meeting where nobody is yet, and has no wall: whoever takes it
//! has the wall made then, as of a new one. It goes by itself when nobody came. Docker's alone: Podman keeps a holder's container as
//! long as who joined it, and would not find this one with its sandbox.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::guest_file::GuestFile;
use super::holding::{GENERIC, Holding, container};
use super::labels::{READY, of_home};
use super::newborn::{Newborn, short};
use super::places::{self, meetings};
use super::reach::Reach;
use super::rendezvous::Rendezvous;
use super::{EngineOptions, Kind};
use crate::fsx::{self, lock};
use crate::names::SandboxId;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::start_error;

/// Begins the name of a meeting at which one waits: who renames the directory has it.
const WAITS: &str = "ready-";
/// Until it runs.
const BEGINS: &str = "begins-";
/// What is known of it, in that directory.
const ABOUT: &str = "about";
const LIMIT: u64 = 1 << 16;

/// Which container waits there, and of which engine and guest.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    container: String,
    engine: PathBuf,
    guest: PathBuf,
}

/// A container that waits, and where.
pub(super) struct Claimed<'a> {
    pub(super) container: Newborn<'a>,
    pub(super) rendezvous: Rendezvous,
}

/// The one that waits, for whoever is first. None where there is none, or none that would do.
pub(super) async fn claim<'a>(of: &Holding<'a>) -> Option<Claimed<'a>> {
    let meetings = of.meeting.parent()?;
    for entry in std::fs::read_dir(meetings).ok()?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(WAITS) {
            continue;
        }
        fsx::remove_tree_or_file(of.meeting).ok()?;
        // Another one may have been faster.
        if std::fs::rename(entry.path(), of.meeting).is_err() {
            continue;
        }
        let about = read(of.meeting);
        let here = &of.client.endpoint.socket;
        let Some(about) = about.filter(|about| about.engine == *here) else {
            let _ = fsx::remove_tree_or_file(of.meeting);
            continue;
        };
        // From here on it goes with what is done here.
        let container = Newborn::existing(of.client, about.container);
        let runs = async || {
            let found = of.client.look(container.id()).await.ok()??;
            found.process
        };
        let usable = runs().await.is_some_and(is_alone);
        if about.guest != of.guest.path() || !usable {
            let _ = fsx::remove_tree_or_file(of.meeting);
            continue;
        }
        let rendezvous = Rendezvous::in_place(of.meeting).ok()?;
        return Some(Claimed {
            container,
            rendezvous,
        });
    }
    None
}

/// Whether nobody has connected it to a network by hand: its wall would fail its proof, and the sandbox with it. What cannot be
/// seen from here is left to that proof.
fn is_alone(process: i64) -> bool {
    let interfaces = std::fs::read_to_string(format!("/proc/{process}/net/dev"));
    interfaces.map_or(true, |text| {
        let mut names = text.lines().filter_map(|line| line.split_once(':'));
        names.all(|(name, _)| name.trim() == "lo")
    })
}

/// Has one wait, if none does. Bounded by the engine's answers.
pub(super) async fn keep(reach: &Reach) -> Result<(), SandboxError> {
    let (client, options) = (reach.client().await?, &reach.options);
    if client.kind() != Kind::Docker || client.users()?.rootless() {
        return Ok(());
    }
    let failed = |error: fsx::FileError| SandboxError::Start(error.to_string());
    let meetings = meetings(options);
    fsx::private_dir(&options.home).map_err(failed)?;
    fsx::private_dir(&meetings).map_err(failed)?;
    let path = meetings.join("lock");
    let lock = lock::open(&path).map_err(failed)?;
    if !lock::try_hold(&lock, lock::Lock::Exclusive, &path).map_err(failed)? {
        return Ok(());
    }
    let guest = GuestFile::find(&options.home)?;
    if sweep(client, options, guest.path()).await? {
        return Ok(());
    }
    let id = SandboxId::random().map_err(start_error)?;
    let begins = meetings.join(format!("{BEGINS}{id}"));
    fsx::private_dir(&begins).map_err(failed)?;
    // As every meeting: nobody else comes as far as here.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&begins, open).map_err(start_error)?;
    let labels = HashMap::from([of_home(options), READY.map(str::to_owned).into()]);
    let cancel = CancellationToken::new();
    let of = Holding {
        client,
        options,
        id,
        hostname: GENERIC,
        labels,
        guest: &guest,
        meeting: &begins,
        limit: options.ready_limit,
        cancel: &cancel,
    };
    let made = container(&of, &begins, true).await?;
    client.start(made.id()).await?;
    let about = About {
        container: made.id().to_owned(),
        engine: client.endpoint.socket.clone(),
        guest: guest.path().to_owned(),
    };
    let about = serde_json::to_vec(&about).map_err(|error| start_error(error.into()))?;
    fsx::write_private(&begins.join(ABOUT), &about).map_err(failed)?;
    let waits = meetings.join(format!("{WAITS}{}", short(&id.to_string())));
    std::fs::rename(&begins, waits).map_err(start_error)?;
    made.keep();
    Ok(())
}

/// Whether one waits already. What is left of others is removed.
async fn sweep(
    client: &Client,
    options: &EngineOptions,
    guest: &Path,
) -> Result<bool, SandboxError> {
    let mut waiting = Vec::new();
    for entry in std::fs::read_dir(meetings(options)).map_err(start_error)? {
        let path = entry.map_err(start_error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(WAITS) {
            waiting.push((read(&path), path.clone()));
        } else if name.starts_with(BEGINS) {
            // Nobody else makes one now: whoever began that is dead.
            fsx::remove_tree_or_file(&path)
                .map_err(|error| SandboxError::Start(error.to_string()))?;
        }
    }
    let [home, ready] = [of_home(options), READY.map(str::to_owned).into()];
    let labels = [home, ready].map(|(name, value)| format!("{name}={value}"));
    let mut found = false;
    let places = places::real(options, [meetings(options)]);
    for container in client.labelled(&labels).await? {
        // Somebody else's, of an image that has our labels.
        if !client.meets_below(&container, &places).await? {
            continue;
        }
        let runs = client
            .look(&container)
            .await?
            .is_some_and(|one| one.process.is_some());
        if !runs {
            client.remove(&container).await?;
            continue;
        }
        found |= waiting.iter().any(|(about, _)| {
            let about = about.as_ref();
            about.is_some_and(|about| about.container == container && about.guest == guest)
        });
    }
    if !found {
        // Its container is gone, or of another version and goes with its meeting.
        for (_, path) in waiting {
            fsx::remove_tree_or_file(&path)
                .map_err(|error| SandboxError::Start(error.to_string()))?;
        }
    }
    Ok(found)
}

fn read(meeting: &Path) -> Option<About> {
    let text = fsx::read_bounded(&meeting.join(ABOUT), LIMIT).ok()?;
    serde_json::from_slice(&text).ok()
}
