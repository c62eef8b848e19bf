//! Whether an image leads an engine's mounts astray. An engine follows the links of an image where it mounts, and makes what is missing
//! there, as root: by a link, or a volume inside of a mount, in the user's files. The guest would see it, but only when it was done. So
//! it is looked at before, in a container that is never started and has nothing of anybody's; once for each image, whose content has its
//! id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use cofferdam_guest::protocol::Expected;
use futures_util::future::try_join_all;
use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use super::ask::Way;
use super::client::Client;
use super::filter;
use super::image::Chosen;
use super::inside::Inside;
use super::mounts::Bind;
use super::newborn::{Newborn, short};
use super::places;
use super::profile::{self, Body};
use super::whose::Whose;
use super::{EngineOptions, Kind};
use crate::fsx;
use crate::names::SandboxId;
use crate::sandbox::{Access, SandboxError};

/// What engines and their runtimes mount and make by themselves.
const THEIRS: [&str; 6] = [
    "/dev",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/.containerenv",
    "/run/secrets",
];
/// Where the kernel's own files are: a link there leads out of the image.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// What a container has one of its own of, and the host too.
const OWN: [&str; 4] = ["/dev", "/dev/mqueue", "/dev/pts", "/dev/shm"];
/// Of so many images is remembered how their ways are.
const MOST: usize = 64;
const LIMIT: u64 = 1 << 20;

/// Where a link may lead on from after all is mounted, and led elsewhere before: what a runtime makes, and what the kernel has.
const MADE_LATER: [&str; 7] = [
    "/dev/fd",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/proc/1",
    "/proc/self",
    "/proc/thread-self",
];

/// What is known of an image's paths.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known(BTreeMap<String, Way>);

/// Refuses an image by the name of what leads astray. `body`: what the engine is to be asked for; `inside`: what of it no image can know,
/// and need not be looked at.
pub(super) async fn check(
    client: &Client,
    options: &EngineOptions,
    (id, whose): (SandboxId, &Whose),
    image: &Chosen,
    (body, inside): (&Body, &Inside),
) -> Result<(), SandboxError> {
    let Some(image_id) = &image.id else {
        return Ok(());
    };
    let mounted = targets(body);
    // One engine takes it for a pattern.
    let is_pattern = |volume: &&String| volume.contains(['*', '?', '[', '\\']);
    if let Some(one) = image.volumes.iter().find(is_pattern) {
        return Err(refused(
            image,
            &format!("has a volume at {}", shown(Path::new(one))),
            "name that VOLUME without any of * ? [ \\ in its Dockerfile",
        ));
    }
    let volumes: Vec<PathBuf> = image.volumes.iter().map(plain).collect();
    for volume in &volumes {
        let over = |one: &&PathBuf| volume.starts_with(one) && volume != *one;
        if let Some(one) = mounted.binds.iter().find(over) {
            return Err(refused(
                image,
                &format!(
                    "has a volume at {}, inside of what is mounted at {}",
                    shown(volume),
                    shown(one)
                ),
                "take that VOLUME out of its Dockerfile",
            ));
        }
    }
    let ways = ways(&mounted, &volumes, inside);
    let place = places::image(options, client.kind(), image_id);
    let mut known = recall(&place);
    let learn = async |paths: &BTreeSet<String>, known: &mut Known| {
        let unknown = paths.iter().filter(|way| !known.0.contains_key(*way));
        let unknown: Vec<String> = unknown.cloned().collect();
        if !unknown.is_empty() {
            let found = look(client, options, (id, whose), image_id, &unknown).await?;
            known.0.extend(unknown.into_iter().zip(found));
            remember(&place, known)?;
        }
        Ok::<(), SandboxError>(())
    };
    learn(&ways, &mut known).await?;
    let mut links = None;
    for way in &ways {
        let Some(Way::Leads(leads)) = known.0.get(way) else {
            continue;
        };
        if !is_harmless(Path::new(way), Path::new(leads), &mounted) {
            return Err(refused(
                image,
                &format!(
                    "has a link at {}, which leads to {leads}",
                    shown(Path::new(way))
                ),
                "have a directory in its place",
            ));
        }
        links = Some(way);
    }
    let Some(link) = links else { return Ok(()) };
    // An engine says where a link leads at last. What lies on its way there may be something else when all is mounted.
    let covered = covered(&mounted, inside);
    learn(&covered, &mut known).await?;
    let leads_on = |path: &&String| !matches!(known.0.get(*path), Some(Way::Absent | Way::End));
    match covered.iter().find(leads_on) {
        None => Ok(()),
        Some(path) => Err(refused(
            image,
            &format!(
                "has a link at {}, and files at {}, by which it may lead",
                shown(Path::new(link)),
                shown(Path::new(path))
            ),
            "have a directory in place of the link, or nothing at the other one",
        )),
    }
}

/// What is something else in a container that runs: where the host's files are, and what a runtime makes.
fn covered(mounted: &Targets, inside: &Inside) -> BTreeSet<String> {
    let binds = mounted.binds.iter().filter(|one| !inside.has(one));
    let binds = binds.map(|one| one.to_string_lossy().into_owned());
    binds.chain(MADE_LATER.map(str::to_owned)).collect()
}

/// Links are usual (`/var/run`), and what is in memory or a volume's is where they lead. By none does anything of ours or the user's
/// come to its place, which the guest would refuse too, and none leads there or to files of the kernel's.
fn is_harmless(way: &Path, leads: &Path, mounted: &Targets) -> bool {
    let leads_to = |one: &PathBuf| leads.starts_with(one) || one.starts_with(leads);
    leads.is_absolute()
        && !leads.components().any(|one| one == Component::ParentDir)
        && !KERNELS.iter().any(|one| leads.starts_with(one))
        && !(mounted.binds.iter()).any(|one| one.starts_with(way) || leads_to(one))
}

/// Where something is mounted, by what it is.
#[derive(Debug, Default)]
struct Targets {
    /// The host's, or ours.
    binds: BTreeSet<PathBuf>,
    /// In memory.
    own: BTreeSet<PathBuf>,
}

impl Targets {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.binds.iter().chain(&self.own)
    }
}

fn targets(body: &Body) -> Targets {
    let host = body.host_config.as_ref();
    let mounts = host.and_then(|host| host.mounts.as_ref());
    let tmpfs = host.and_then(|host| host.tmpfs.as_ref());
    let binds = mounts.into_iter().flatten();
    Targets {
        binds: binds
            .filter_map(|one| one.target.as_ref())
            .map(plain)
            .collect(),
        own: tmpfs
            .into_iter()
            .flat_map(|all| all.keys())
            .map(plain)
            .collect(),
    }
}

/// Where something is mounted that is none of the host's files; the guest finds whatever is more.
pub(super) fn expected(body: &Body, image: &Chosen) -> Expected {
    let bytes = |path: PathBuf| path.into_os_string().into_vec();
    let hosts = OWN.map(|path| std::fs::metadata(path).ok());
    let numbers = |found: Metadata| {
        let device = found.dev();
        (major(device), minor(device))
    };
    Expected {
        in_memory: targets(body).own.into_iter().map(bytes).collect(),
        volumes: image.volumes.iter().map(plain).map(bytes).collect(),
        hosts: hosts.into_iter().flatten().map(numbers).collect(),
    }
}

/// All paths of the image by which an engine comes to where it mounts. What lies in another mount is not the image's; what lies in a
/// volume is.
fn ways(mounted: &Targets, volumes: &[PathBuf], inside: &Inside) -> BTreeSet<String> {
    let theirs = THEIRS.map(PathBuf::from);
    let mut ways = BTreeSet::new();
    for target in mounted.all().chain(volumes).chain(&theirs) {
        let is_in_another = (mounted.all()).any(|one| target.starts_with(one) && target != one);
        if is_in_another || inside.has(target) {
            continue;
        }
        let steps = target.ancestors().filter(|step| step.parent().is_some());
        ways.extend(steps.map(|step| step.to_string_lossy().into_owned()));
    }
    ways
}

/// As an engine takes a path that somebody wrote.
pub(super) fn plain(path: &String) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for one in Path::new(path).components() {
        match one {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// What each of these paths is, in a container that is removed again. Docker fills an image's volumes when it makes a container, and looks
/// into them; Podman does so when it starts one, and would look into empty ones.
async fn look(
    client: &Client,
    options: &EngineOptions,
    (id, whose): (SandboxId, &Whose),
    image: &str,
    paths: &[String],
) -> Result<Vec<Way>, SandboxError> {
    let name = format!("cofferdam-look-{}", short(&id.to_string()));
    let other = format!("cofferdam-look-{id}");
    // At a name that the image does not know.
    let (meeting, inside) = (places::meeting(options, &id), Inside::random()?.meeting());
    let meeting = Bind::of(&meeting, Path::new(&inside), Access::ReadOnly)?;
    let container = match client.kind() {
        Kind::Docker => {
            let filter = filter::option(client.kind(), client.users()?, options)?;
            let body = profile::looked_at(image, whose.labels(), filter, &meeting);
            Newborn::create(client, vec![name, other], body).await?
        }
        Kind::Podman => {
            let body = profile::looked_at_without_volumes(&other, image, &whose.labels(), &meeting);
            Newborn::create_without_volumes(client, body).await?
        }
    };
    let ask = async |path: &String| client.way(container.id(), path).await;
    let found = try_join_all(paths.iter().map(ask)).await?;
    client.remove(container.id()).await?;
    container.keep();
    Ok(found)
}

/// What is not remembered is looked at again.
fn recall(place: &Path) -> Known {
    let read = fsx::read_bounded(place, LIMIT).ok();
    let known = read.and_then(|text| serde_json::from_slice(&text).ok());
    known.unwrap_or_default()
}

fn remember(place: &Path, known: &Known) -> Result<(), SandboxError> {
    let failed = |error: String| SandboxError::Start(error);
    if let Some(parent) = place.parent() {
        fsx::private_dir(parent).map_err(|error| failed(error.to_string()))?;
        let entries = std::fs::read_dir(parent).map_err(|error| failed(error.to_string()))?;
        let others: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        if others.len() >= MOST {
            for one in others {
                fsx::remove_file_if_exists(&one).map_err(|error| failed(error.to_string()))?;
            }
        }
    }
    let text = serde_json::to_vec(known).map_err(|error| failed(error.to_string()))?;
    fsx::write_private(place, &text).map_err(|error| failed(error.to_string()))
}

fn refused(image: &Chosen, what: &str, hint: &str) -> SandboxError {
    let name = crate::text::printable_line(&image.name);
    SandboxError::Unsupported {
        what: format!("the image `{name}` {what}: an engine would mount there what is yours"),
        hint: format!("{hint}, or use another image"),
    }
}

fn shown(path: &Path) -> String {
    crate::text::printable_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(binds: &[&str], own: &[&str]) -> Targets {
        let all = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Targets {
            binds: all(binds),
            own: all(own),
        }
    }

    #[test]
    fn what_lies_in_a_mount_is_not_the_images() {
        let mounted = mounted(
            &["/workspace/a", "/workspace/a/.git", "/home/agent/.claude"],
            &["/home/agent"],
        );
        let inside = Inside::random().unwrap();
        let ways = ways(&mounted, &[PathBuf::from("/workspace")], &inside);
        let ours = ways
            .iter()
            .filter(|way| way.starts_with("/workspace") || way.starts_with("/home"));
        let expected = ["/home", "/home/agent", "/workspace", "/workspace/a"];
        assert_eq!(ours.collect::<Vec<_>>(), expected);
    }

    /// Each container has other names there: what was known of an image would never be all.
    #[test]
    fn what_no_image_can_know_is_not_looked_at() {
        let (inside, other) = (Inside::random().unwrap(), Inside::random().unwrap());
        let (guest, others) = (inside.guest(), other.guest());
        let mounted = mounted(&["/workspace", &guest, &others], &[]);
        let looked_at = ways(&mounted, &[], &inside);
        assert!(looked_at.contains("/workspace"));
        assert!(looked_at.contains(&others));
        for all in [looked_at, covered(&mounted, &inside)] {
            assert!(!all.iter().any(|way| inside.has(Path::new(way))), "{all:?}");
        }
    }

    #[test]
    fn usual_links_are_harmless() {
        let binds = ["/workspace/a", "/etc/passwd", "/home/agent/.claude"];
        let mounted = mounted(&binds, &["/home/agent", "/tmp", "/var/tmp"]);
        let is = |way: &str, leads: &str| is_harmless(Path::new(way), Path::new(leads), &mounted);
        assert!(is("/var/run", "/run"));
        assert!(is("/var/tmp", "/tmp"));
        assert!(is("/etc/hosts", "/nix/store/x/etc/hosts"));
        for (way, leads) in [
            ("/workspace", "/srv"),
            ("/workspace/a", "/workspace/b"),
            ("/home", "/var/home"),
            ("/etc/passwd", "/nix/store/x/etc/passwd"),
            ("/etc/hosts", "/workspace/a/hosts"),
            ("/etc/hosts", "/workspace"),
            ("/etc/hosts", "/proc/1/cwd"),
            ("/var/run", "/sys/x"),
            ("/var/run", "/"),
            ("/var/run", "../x"),
            ("/var/run", "/a/../workspace/a"),
            ("/dev", "/workspace/a"),
        ] {
            assert!(!is(way, leads), "{way} {leads}");
        }
    }

    #[test]
    fn paths_of_volumes_are_read_as_an_engine_reads_them() {
        let plain = |path: &str| plain(&path.to_owned()).display().to_string();
        assert_eq!(plain("a/b/"), "/a/b");
        assert_eq!(plain("/a/../../w/./x"), "/w/x");
    }
}
