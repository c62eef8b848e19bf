//! Images that are made to do harm: by links, volumes and labels of their own, and by what an engine starts in a container of theirs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::{Access, BindMountProvider, Examined, Held, SandboxError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::attacks::{engine_at, guest_file};
use crate::between::Between;
use crate::world::{IMAGE, World, each, engine, is_there, mount, ok, run_async, spec};

/// An image with the files of [`IMAGE`] after `script`, which runs in their directory, and with settings of its own.
pub(crate) fn image(world: &World, name: &str, script: &str, changes: &[&str]) -> String {
    let name = format!("localhost/cofferdam-test-{name}-{}:1", std::process::id());
    let root = world.directory("image");
    let archive = root.with_extension("tar");
    let made = engine(world.kind, &["create", IMAGE, "true"]);
    let words = ["export", "-o", archive.to_str().unwrap(), made.trim()];
    engine(world.kind, &words);
    engine(world.kind, &["rm", made.trim()]);
    let script = format!(
        "set -e; cd \"$1\"; tar -xf \"$2\" --exclude 'dev/*'; {script}\ntar --owner=0 --group=0 -cf \"$2\" ."
    );
    let paths = [&root, &archive];
    let done = Command::new("sh")
        .args(["-c", &script, "sh"])
        .args(paths)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let mut words = vec!["import"];
    for change in changes {
        words.extend(["--change", change]);
    }
    words.extend([archive.to_str().unwrap(), name.as_str()]);
    engine(world.kind, &words);
    fs::remove_dir_all(&root).unwrap();
    name
}

/// Leaves a mark in the directory that it is given to write in, and a program of root's where it may.
const EVIL: &str = "printf '#!/bin/sh\\ntouch /shared/ran\\ncp /bin/busybox /shared/rt\\nchmod 6755 /shared/rt\\n' > evil; chmod 755 evil";

/// What is in a directory that a container was given.
fn left_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

each! {
    /// An engine follows the links of an image where it mounts, and starts what it finds then. So what it starts lies at a name that no
    /// image can have: one that leads every name of ours that is known elsewhere changes nothing.
    async fn a_program_of_an_image_is_never_process_1(world: World) {
        let shared = world.directory("shared");
        for (at, links) in [
            ("volume", ""),
            ("guest", "mkdir .cofferdam; ln -s /proc/self/cwd/evil .cofferdam/guest"),
            ("directory", "ln -s /shared .cofferdam"),
            ("itself", "mkdir elsewhere; cp evil elsewhere/guest; ln -s /elsewhere .cofferdam"),
        ] {
            let volume: &[&str] = if links.is_empty() { &["VOLUME /.cofferdam/guest"] } else { &[] };
            let name = image(&world, at, &format!("{EVIL}; {links}"), volume);
            let mut spec = spec();
            spec.mounts.push(mount(&shared, "/shared", Access::ReadWrite));
            let made = world.with_image(&name).create(&spec, &CancellationToken::new()).await;
            // Refused or not, nothing of the image's ran, and nothing was made in what is the user's.
            assert_eq!(left_in(&shared), [""; 0], "{at}");
            if let Ok(sandbox) = made {
                ok(&*sandbox, "echo here > /shared/control").await;
                sandbox.close().await.unwrap();
                fs::remove_file(shared.join("control")).unwrap();
            } else {
                panic!("{at}: {made:?}");
            }
            engine(world.kind, &["rmi", "--force", &name]);
        }
    }
}

/// Who comes to the meeting as a container's process 1 has to run our guest's own file: here the engine was told to start a copy of
/// it that an image has.
#[test]
fn a_copy_of_our_guest_is_not_our_guest() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        run_async(async {
            // The control, which makes the guest's file.
            world.create(&spec()).await.unwrap().close().await.unwrap();
            let guest = guest_file(&world.home());
            let copy = format!("cp '{}' copy; chmod 755 copy", guest.display());
            let name = image(&world, "copy", &copy, &[]);
            let starts_the_copy = |body: String| match serde_json::from_str::<Value>(&body) {
                Ok(mut asked) if asked["Entrypoint"].is_array() => {
                    asked["Entrypoint"][0] = Value::from("/copy");
                    asked.to_string()
                }
                _ => body,
            };
            let between = Between::to(kind, None, starts_the_copy);
            let engine_between = engine_at(kind, &world.home(), &between, &name);
            let spec = spec();
            match engine_between
                .create(&spec, &CancellationToken::new())
                .await
            {
                Err(SandboxError::Start(what)) => {
                    assert!(what.contains("somebody else came"), "{what}");
                }
                other => panic!("{other:?}"),
            }
            world
                .eventually("its container goes", || world.containers(&spec) == 0)
                .await;
            engine(kind, &["rmi", "--force", &name]);
        });
    }
}

/// What keeps an image from being used, in the words of the error.
async fn refused(world: &World, name: &str, spec: &cofferdam::sandbox::SandboxSpec) -> String {
    let cancel = CancellationToken::new();
    let said = match world.with_image(name).create(spec, &cancel).await {
        Err(SandboxError::Unsupported { what, hint }) => format!("{what}; {hint}"),
        other => panic!("{name}: {other:?}"),
    };
    assert!(said.contains(name), "{said}");
    assert_eq!(world.containers(spec), 0, "{said}");
    said
}

each! {
    /// An engine makes what is missing where it mounts, as root, and follows the links of an image on its way: so an image with a
    /// volume inside of a mount, or a link on the way to one, is refused before the engine has anything of the user's.
    async fn what_leads_a_mount_astray_is_refused_by_name(world: World) {
        let shared = world.directory("shared");
        let mut spec = spec();
        spec.mounts.push(mount(&shared, "/work/shared", Access::ReadWrite));
        for (at, script, change, said) in [
            ("volume", "", "VOLUME /work/shared/made", "a volume at /work/shared/made"),
            ("indirect", "ln -s /work x", "VOLUME /x/shared/made", "a link at /x, which leads to /work"),
            ("chain", "ln -s /y x; ln -s /work/shared y", "VOLUME /x/made", "a link at /x, which leads to /work/shared"),
            ("kernel", "ln -s /proc/1/cwd work", "LABEL x=y", "a link at /work, which leads to /proc/1/cwd"),
            ("elsewhere", "mkdir -p work other; ln -s /other work/shared", "LABEL x=y", "a link at /work/shared, which leads to /other"),
            ("into", "rm -rf var; ln -s /work/shared var", "LABEL x=y", "a link at /var, which leads to /work/shared"),
            ("home", "mkdir -p home; ln -s /work/shared home/agent", "LABEL x=y", "a link at /home/agent"),
            ("itself", "mkdir -p v/a; ln -s /work/shared/p/q v/a/b", "VOLUME /v/a/b", "a link at /v/a/b, which leads to /work/shared/p/q"),
            ("within", "mkdir v; ln -s /work/shared v/l", r#"VOLUME ["/v", "/v/l/made"]"#, "a link at /v/l, which leads to /work/shared"),
            ("pattern", "ln -s /work/shared 'x*'", "VOLUME /x*/made/d", "a volume at /x*/made/d"),
            // What an engine says of it leads elsewhere as long as nothing is mounted.
            ("through", "mkdir -p work/shared other; ln -s /other work/shared/x; ln -s /work/shared/x v", "VOLUME /v/a/b", "a link at /v, and files at /work/shared"),
            ("process", "mkdir -p proc/1 other; ln -s /other proc/1/cwd; ln -s /proc/1/cwd v", "VOLUME /v/a/b", "a link at /v, and files at /proc/1"),
        ] {
            let name = image(&world, at, script, &[change]);
            let why = refused(&world, &name, &spec).await;
            assert!(why.contains(said), "{at}: {why}");
            // The same when it is known already.
            assert_eq!(refused(&world, &name, &spec).await, why);
            assert_eq!(left_in(&shared), [""; 0], "{at}");
            engine(world.kind, &["rmi", "--force", &name]);
        }
        // The control: usual links and volumes.
        let name = image(&world, "usual", "mkdir -p var run; ln -s /run var/run", &["VOLUME /work", "VOLUME /var/run/x"]);
        let sandbox = world.with_image(&name).create(&spec, &CancellationToken::new()).await.unwrap();
        ok(&*sandbox, "echo here > /work/shared/control").await;
        sandbox.close().await.unwrap();
        assert_eq!(left_in(&shared), ["control"]);
        engine(world.kind, &["rmi", "--force", &name]);
    }
}

/// What stands in an image's manifest decides nothing of this machine: not which filter a runtime leaves out, and not whose groups a
/// program keeps. Older versions of Podman give it to their runtime; Docker gives none on, and its builder (20.10) writes none.
#[test]
fn annotations_of_an_image_give_no_orders() {
    const ORDER: &str = "run.oci.keep_original_groups";
    if !is_there(Kind::Podman) {
        return;
    }
    let world = World::of(Kind::Podman);
    let place = world.directory("annotated");
    fs::write(place.join("Dockerfile"), format!("FROM {IMAGE}\n")).unwrap();
    let name = format!(
        "localhost/cofferdam-test-annotated-{}:1",
        std::process::id()
    );
    run_async(async {
        for (annotation, is_order) in [("org.opencontainers.image.title", false), (ORDER, true)] {
            let said = format!("{annotation}=1");
            let place = place.to_str().unwrap();
            let words = [
                "build",
                "--quiet",
                "--annotation",
                &said,
                "-t",
                &name,
                place,
            ];
            engine(world.kind, &words);
            let spec = spec();
            let cancel = CancellationToken::new();
            match world.with_image(&name).create(&spec, &cancel).await {
                Ok(sandbox) => {
                    let label = format!("label=io.cofferdam.id={}", spec.id);
                    let id = engine(world.kind, &["ps", "-q", "--filter", &label]);
                    let format = "{{json .Config.Annotations}}";
                    let has = engine(world.kind, &["inspect", "--format", format, id.trim()]);
                    assert!(!is_order || !has.contains(ORDER), "{has}");
                    sandbox.close().await.unwrap();
                }
                Err(SandboxError::Unsupported { what, .. }) => {
                    let named = what.contains(&format!("the annotation `{ORDER}`"));
                    assert!(is_order && named, "{what}");
                }
                other => panic!("{annotation}: {other:?}"),
            }
            assert_eq!(world.containers(&spec), 0);
            engine(world.kind, &["rmi", "--force", &name]);
        }
    });
}

/// Every way to a file with special bits that does not need a right. Each makes a file of its own, without the bits where it is told 0.
const SPECIAL: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
struct how { unsigned long long flags, mode, resolve; };
static void make(const char *name) { close(open(name, O_WRONLY | O_CREAT, 0755)); }
int main(int count, char **arguments) {
    unsigned bits = strtoul(arguments[1], 0, 8), mode = 0755 | bits;
    struct how how = { O_WRONLY | O_CREAT, mode, 0 };
    char path[64];
    int file;
    umask(0);
    close(open("open", O_WRONLY | O_CREAT, mode));
    close(openat(AT_FDCWD, "openat", O_WRONLY | O_CREAT, mode));
    close(syscall(SYS_creat, "creat", mode));
    mknod("mknod", S_IFREG | mode, 0);
    mknodat(AT_FDCWD, "mknodat", S_IFREG | mode, 0);
    close(syscall(437, AT_FDCWD, "openat2", &how, sizeof how));
    make("chmod"), chmod("chmod", mode);
    make("fchmodat"), syscall(SYS_fchmodat, AT_FDCWD, "fchmodat", mode);
    make("fchmodat2"), syscall(452, AT_FDCWD, "fchmodat2", mode, 0);
    make("fchmod"), file = open("fchmod", O_RDONLY), fchmod(file, mode);
    file = open(".", O_WRONLY | O_TMPFILE, mode);
    sprintf(path, "/proc/self/fd/%d", file);
    linkat(AT_FDCWD, path, AT_FDCWD, "tmpfile", AT_SYMLINK_FOLLOW);
    mkdir("directory", 0755), chmod("directory", mode);
    return 0;
}
"#;

each! {
    /// What somebody starts by the engine in a container of ours has the container's filter alone. In files of the host a set-user-id bit
    /// would give their owner's rights to everybody, root's even.
    async fn what_an_engine_starts_leaves_no_file_that_gives_rights(world: World) {
        let place = world.directory("built");
        let (source, program) = (place.join("special.c"), place.join("special"));
        fs::write(&source, SPECIAL).unwrap();
        let mut command = Command::new("cc");
        command.args(["-static", "-O1", "-Wall", "-o"]).arg(&program).arg(&source);
        assert!(command.status().unwrap().success());
        let shared = world.directory("shared");
        let mut spec = spec();
        spec.mounts.push(mount(&shared, "/shared", Access::ReadWrite));
        spec.mounts.push(mount(&place, "/built", Access::ReadOnly));
        let sandbox = world.create(&spec).await.unwrap();
        let label = format!("label=io.cofferdam.id={}", spec.id);
        let id = engine(world.kind, &["ps", "-q", "--filter", &label]);
        let modes = |name: &str, bits: &str| {
            let script = format!("mkdir /shared/{name} && cd /shared/{name} && /built/special {bits}");
            engine(world.kind, &["exec", id.trim(), "sh", "-c", &script]);
            let all = fs::read_dir(shared.join(name)).unwrap().map(Result::unwrap);
            let mut all: Vec<(String, u32)> = all
                .map(|one| (one.file_name().into_string().unwrap(), one.metadata().unwrap().mode() & 0o7777))
                .collect();
            all.sort();
            all
        };
        // The control: all but one of the ways are there.
        let control = modes("control", "0");
        assert!(control.iter().all(|(_, mode)| *mode == 0o755), "{control:?}");
        assert!(control.len() >= 11, "{control:?}");
        for (name, bits) in [("user", "4000"), ("group", "2000"), ("both", "6000")] {
            let made = modes(name, bits);
            assert!(made.iter().all(|(_, mode)| mode & 0o6000 == 0), "{name}: {made:?}");
        }
        sandbox.close().await.unwrap();
    }
}

each! {
    /// Anybody can write our labels into an image, and an engine gives them to its containers.
    async fn labels_of_an_image_make_no_container_ours(world: World) {
        let home = world.home();
        fs::create_dir_all(&home).unwrap();
        let home = home.canonicalize().unwrap();
        let (spec, handle) = world.living();
        let labels = [
            format!("LABEL io.cofferdam.id={}", spec.id),
            format!("LABEL io.cofferdam.home={}", home.display()),
            "LABEL io.cofferdam.role=holder".to_owned(),
        ];
        let name = image(&world, "labels", "", &labels.each_ref().map(String::as_str));
        // Somebody's own, of a sandbox that is not known to have any.
        let foreign = engine(world.kind, &["create", "--network", "none", &name, "true"]);
        let there = || engine(world.kind, &["inspect", "--format", "{{.Id}}", foreign.trim()]);
        world.engine().remove(&handle).await.unwrap();
        there();
        // The agent's is the agent's, whatever its image says.
        let mut spec = spec;
        spec.place = Some(handle.state.clone());
        let engine_of = world.with_image(&name);
        let sandbox = engine_of.create(&spec, &CancellationToken::new()).await.unwrap();
        sandbox.stay().await.unwrap();
        let found = engine_of.examine(&handle).await.unwrap();
        // Who is not root sees no files of another user's process.
        let is_unseen = |one: &&Examined| one.what == "its /proc" && matches!(one.found, Held::Unknown(_));
        let broken: Vec<_> = (found.iter()).filter(|one| !matches!(one.found, Held::Holds(_)) && !is_unseen(one)).collect();
        assert!(broken.is_empty(), "{broken:?}");
        assert!(found.iter().any(|one| one.what == "its filter"), "{found:?}");
        engine_of.remove(&handle).await.unwrap();
        there();
        engine(world.kind, &["rm", foreign.trim()]);
        engine(world.kind, &["rmi", "--force", &name]);
    }
}

each! {
    /// What has the name of our holder's image is one only without files and settings.
    async fn what_is_called_as_our_image_is_not_taken_for_it(world: World) {
        let called = match world.kind {
            Kind::Docker => "cofferdam-holder:1",
            Kind::Podman => "docker.io/library/cofferdam-holder:1",
        };
        let name = image(&world, "holder", "", &["ENV LD_PRELOAD=/evil", "VOLUME /dev", "LABEL of=somebody"]);
        engine(world.kind, &["tag", &name, called]);
        let mut spec = spec();
        spec.network = world.wall(&spec, &[]);
        spec.named = true;
        let sandbox = world.create(&spec).await.unwrap();
        sandbox.close().await.unwrap();
        let config = engine(world.kind, &["image", "inspect", "--format", "{{json .Config}}", called]);
        assert!(!config.contains("evil") && !config.contains("somebody"), "{config}");
        engine(world.kind, &["rmi", "--force", &name]);
    }
}
