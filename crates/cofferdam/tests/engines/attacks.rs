//! Attacks on what an engine is asked and told, and on what lies between it and us. Numbers are those of docs/attacks.md.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cofferdam::authorities;
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::{Access, BindMountProvider, ExecRequest, SandboxError};
use cofferdam_lab::skip;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::between::Between;
use crate::conforms::attempts;
use crate::world::{IMAGE, World, each, engine, finish, is_there, mount, ok, run_async, spec};

/// What the engine says of each container of this sandbox.
fn inspected(world: &World, id: &str) -> Vec<Value> {
    let label = format!("label=io.cofferdam.id={id}");
    let ids = engine(world.kind, &["ps", "--all", "--quiet", "--filter", &label]);
    let said = ids.lines().map(|id| {
        let text = engine(world.kind, &["inspect", id]);
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        all.into_iter().next().unwrap()
    });
    said.collect()
}

each! {
    /// Attack 82: words that are options, formats or lists elsewhere are names here, and the container has what was meant.
    async fn a_container_has_what_was_meant_whatever_things_are_called(world: World) {
        // Podman reads lists where Docker reads names: those it refuses.
        let odd: &[&str] = match world.kind {
            Kind::Docker => &["--privileged", "a:b:ro", "a,readonly=false,b", "$(id)", "a;id", "a\"b", "a\nb", "-v"],
            Kind::Podman => &["--privileged", "a:b:ro", "$(id)", "a;id", "-v"],
        };
        let mut spec = spec();
        "--net=host".clone_into(&mut spec.hostname);
        let tree = world.directory("tree");
        let mut meant = BTreeSet::new();
        for name in odd {
            let one = tree.join(name);
            fs::create_dir(&one).unwrap();
            fs::write(one.join("file"), name).unwrap();
            let target = format!("/workspace/{name}");
            spec.mounts.push(mount(one, &target, Access::ReadWrite));
            meant.insert(target);
        }
        let sandbox = world.create(&spec).await.unwrap();
        for name in odd {
            // Each is where it was meant to be, and no other.
            let text = format!("cat '/workspace/{name}/file'");
            assert_eq!(ok(&*sandbox, &text).await, *name);
        }
        let all = inspected(&world, &spec.id.to_string());
        let [container] = &all[..] else { panic!("{all:?}") };
        let (host, config) = (&container["HostConfig"], &container["Config"]);
        let mounted = container["Mounts"].as_array().unwrap().iter();
        let targets: BTreeSet<String> = mounted.map(|one| one["Destination"].as_str().unwrap().to_owned()).collect();
        let ours = |target: &String| ["/.cofferdam-", "/etc/", "/sys"].iter().any(|own| target.starts_with(own));
        // In memory, as an engine may list it.
        let own = ["/home/agent", "/tmp", "/var/tmp"];
        let others = targets.difference(&meant).filter(|target| !ours(target) && !own.contains(&target.as_str()));
        assert_eq!(others.count(), 0, "{targets:?}");
        assert!(meant.is_subset(&targets), "{targets:?}");
        assert_eq!(host["NetworkMode"], "none");
        assert_eq!(host["Privileged"], false);
        assert_eq!(host["AutoRemove"], true);
        let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        for part in ["Devices", "VolumesFrom", "GroupAdd", "Links"] {
            assert!(is_empty(&host[part]), "{part}: {}", host[part]);
        }
        for part in ["PidMode", "IpcMode", "UTSMode"] {
            let mode = host[part].as_str().unwrap_or_default();
            // Podman's word for one of its own that another container could be told to join.
            assert!(["", "private", "shareable"].contains(&mode), "{part}: {mode}");
        }
        let published = host["PortBindings"].as_object();
        assert!(published.is_none_or(serde_json::Map::is_empty), "{published:?}");
        let entry = config["Entrypoint"].to_string();
        assert!(entry.contains("/.cofferdam-") && entry.contains("/guest"), "{entry}");
        sandbox.close().await.unwrap();
        // What no engine can have as an image is none of its options.
        for image in ["--net=host", "-v/:/h", "$(id)"] {
            let spec = crate::world::spec();
            let made = world.with_image(image).create(&spec, &CancellationToken::new()).await;
            assert!(made.is_err(), "{image}");
            assert_eq!(world.containers(&spec), 0, "{image}");
        }
    }
}

each! {
    /// Attack 69: an image with programs that are root's and give that on, by a bit and by a capability. The control is the
    /// engine's own container of it, in which somebody else becomes root by them.
    async fn no_file_of_an_image_gives_rights(world: World) {
        let place = world.directory("built");
        let program = attempts(&place);
        let root = world.directory("root");
        for name in ["bit", "capable", "plain"] {
            fs::copy(&program, root.join(name)).unwrap();
        }
        let (archive, mut change) = (place.join("image.tar"), "chmod 6755 bit".to_owned());
        if rustix::process::geteuid().is_root() {
            change.push_str("; ./plain capability capable");
        }
        let pack = format!(
            "set -e; cd '{}'; {change}; tar --xattrs --xattrs-include='security.*' --owner=0 --group=0 -cf '{}' bit capable plain",
            root.display(),
            archive.display()
        );
        let done = Command::new("sh").args(["-c", &pack]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let image = format!("localhost/cofferdam-test-rights-{}:1", std::process::id());
        engine(world.kind, &["import", archive.to_str().unwrap(), &image]);
        let rights = ["run", "--rm", "--network", "none", "--user", "4321:4321", &image, "/bit", "rights"];
        let control = engine(world.kind, &rights);
        let sandbox = world.with_image(&image).create(&spec(), &CancellationToken::new()).await.unwrap();
        // It may be refused outright.
        let rights = async |name: &str| match sandbox.exec(ExecRequest::new([name, "rights"])).await {
            Ok(run) => finish(run).await.1,
            Err(_) => String::new(),
        };
        let own = rights("/plain").await;
        assert!(own.contains("CapEff:\t0000000000000000"), "{own}");
        for name in ["/bit", "/capable"] {
            let said = rights(name).await;
            assert!(said.is_empty() || said == own, "{name}: {said}");
        }
        sandbox.close().await.unwrap();
        engine(world.kind, &["rmi", "--force", &image]);
        if !control.contains("Uid:\t4321\t0\t0\t0") {
            skip!("a control: {:?}'s own container gives no rights by such a file either: {control}", world.kind);
        }
    }
}

each! {
    /// Whom the machine believes an agent believes too; an image that says whom knows better.
    async fn the_machines_certificates_are_those_of_its_containers(world: World) {
        const NAMES: [&str; 7] = [
            "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT",
            "CARGO_HTTP_CAINFO",
        ];
        let Some(bundle) = authorities::bundle() else {
            return skip!("this machine believes nobody: it has no file of certificates");
        };
        let sandbox = world.create(&spec()).await.unwrap();
        for name in NAMES {
            let place = ok(&*sandbox, &format!("printf %s \"${name}\"")).await;
            assert!(place.starts_with("/.cofferdam-") && place.ends_with("/ca.pem"), "{name}: {place}");
        }
        let inside = ok(&*sandbox, "cat \"$SSL_CERT_FILE\"").await;
        assert!(inside == fs::read_to_string(bundle).unwrap(), "{} bytes", inside.len());
        ok(&*sandbox, "test ! -w \"$SSL_CERT_FILE\"").await;
        sandbox.close().await.unwrap();
        let image = world.image_with(&["ENV SSL_CERT_FILE=/of/the/image"], "certificates");
        let sandbox = world.with_image(&image).create(&spec(), &CancellationToken::new()).await.unwrap();
        assert_eq!(ok(&*sandbox, "echo $SSL_CERT_FILE; test -s $CURL_CA_BUNDLE").await, "/of/the/image\n");
        sandbox.close().await.unwrap();
        engine(world.kind, &["rmi", "-f", &image]);
    }
}

each! {
    /// Attack 129: of what the kernel counts for the caller a program has a part, as natively. Watches on files are no part of
    /// it: the threat model says so.
    async fn pools_of_the_machine_stay_the_hosts(world: World) {
        let most = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let number = line.unwrap_or_else(|| panic!("{name}: {text}")).split_whitespace().nth(1);
            number.unwrap().parse().unwrap_or(u64::MAX)
        };
        let sandbox = world.create(&spec()).await.unwrap();
        let inside = ok(&*sandbox, "cat /proc/self/limits").await;
        sandbox.close().await.unwrap();
        let outside = fs::read_to_string("/proc/self/limits").unwrap();
        for (name, largest) in [("Max pending signals", 16_384), ("Max msgqueue size", 256 << 10)] {
            let (part, all) = (most(&inside, name), most(&outside, name));
            assert!(part > 0 && part <= (all / 4).min(largest), "{name}: {part} of {all}");
        }
        let locked = most(&inside, "Max locked memory");
        assert!(locked <= 8 << 20, "{locked}");
    }
}

each! {
    /// The engine's filter and ours are both in force: the kernel counts them, and of those that each refuses alone neither goes.
    async fn both_filters_are_in_force(world: World) {
        let sandbox = world.create(&spec()).await.unwrap();
        let status = ok(&*sandbox, "cat /proc/self/status").await;
        let count = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        // Since Linux 5.9.
        let Some(count) = count else {
            return skip!("this kernel does not say how many filters a process has");
        };
        let count: u32 = count.trim().parse().unwrap();
        assert!(count >= 2, "filters: {count}");
        sandbox.close().await.unwrap();
    }
}

/// What an engine of root's makes of an agent is another user's say where the engine is another user's.
#[test]
fn an_engine_of_somebody_else_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can be somebody else");
    }
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let make = async |owner| {
            let between = Between::to(kind, owner, |body| body);
            let engine = engine_at(kind, place.path(), &between, IMAGE);
            (
                engine.create(&spec(), &CancellationToken::new()).await,
                between,
            )
        };
        run_async(async {
            // The control: the same way, with root at its end.
            let (made, _way) = make(None).await;
            made.unwrap().close().await.unwrap();
            match make(Some(4321)).await.0 {
                Err(SandboxError::Unsupported { what, hint }) => {
                    assert!(what.contains("is user 4321's, and not yours"), "{what}");
                    assert!(hint.contains("be user 4321"), "{hint}");
                }
                other => panic!("{other:?}"),
            }
        });
    }
}

/// How it goes to make a sandbox by this way, and that none is left.
pub(crate) async fn made_through(world: &World, between: &Between) -> Result<(), SandboxError> {
    let engine = engine_at(world.kind, &world.home(), between, IMAGE);
    let (spec, handle) = world.living();
    let made = engine.create(&spec, &CancellationToken::new()).await;
    engine.remove(&handle).await.unwrap();
    assert_eq!(world.containers(&spec), 0);
    made.map(drop)
}

pub(crate) fn engine_at(kind: Kind, place: &Path, between: &Between, image: &str) -> Engine {
    let mut options = EngineOptions::new(place.join("engine"), Surroundings::default());
    options.image = Some(image.to_owned());
    match kind {
        Kind::Docker => options.around.docker_host = Some(between.host().into()),
        Kind::Podman => options.around.container_host = Some(between.host().into()),
    }
    Engine::new(kind, options)
}

/// Whoever is quicker at the meeting than a container's first process is not its guest, even where they are the first process of a
/// container of their own, and where they run what our guest is.
#[test]
fn somebody_else_at_the_meeting_is_refused() {
    const COMES: &str = "import os, socket, sys, time\nprint('ready', flush=True)\nfor _ in range(30000):\n    try:\n        \
                         s = socket.socket(socket.AF_UNIX)\n        s.connect(sys.argv[1])\n        \
                         time.sleep(20)\n        break\n    except OSError: time.sleep(0.001)";
    const GUEST: &str = "import os, sys, time\nprint('ready', flush=True)\nfor _ in range(30000):\n    \
                         if os.path.exists(sys.argv[1]): os.execv(sys.argv[2], ['guest', 'init', sys.argv[1]])\n    \
                         time.sleep(0.001)";
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        // The control, which makes the guest's file.
        run_async(async {
            let sandbox = world.create(&spec()).await.unwrap();
            sandbox.close().await.unwrap();
        });
        let guest = guest_file(&world.home());
        for comes in [COMES, GUEST] {
            let spec = spec();
            let meetings = world.home().join("meet");
            let socket = meetings.join(spec.id.to_string()).join("s");
            let own = [
                "--user",
                "--map-root-user",
                "--pid",
                "--fork",
                "--kill-child",
            ];
            let mut command = Command::new("unshare");
            command.args(own).args(["python3", "-c", comes]);
            command.args([&socket, &guest]);
            let mut other = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut said = String::new();
            BufReader::new(other.stdout.as_mut().unwrap())
                .read_line(&mut said)
                .unwrap();
            run_async(async {
                let error = world.create(&spec).await.unwrap_err().to_string();
                assert!(
                    error.contains("somebody else came in its container's place"),
                    "{error}"
                );
                world
                    .eventually("its container goes", || world.containers(&spec) == 0)
                    .await;
                assert_eq!(world.left(), <[String; 0]>::default());
            });
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}

/// What containers run as process 1, as a file of the host's.
pub(crate) fn guest_file(home: &Path) -> PathBuf {
    let files = fs::read_dir(home).unwrap().map(|file| file.unwrap().path());
    let mut guests = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("cofferdam-guest-")
    });
    guests.next().unwrap()
}

/// The wall is tried from inside the agent's own container: one whose holder the engine made otherwise is found out. Here everybody
/// may ping, which is Docker's own way.
#[test]
fn a_wall_that_an_engine_made_otherwise_is_found_out() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        let make = async |change: fn(String) -> String| {
            let between = Between::to(kind, None, change);
            let engine = engine_at(kind, &world.home(), &between, IMAGE);
            let (mut spec, handle) = world.living();
            spec.network = world.wall(&spec, &[]);
            let made = engine.create(&spec, &CancellationToken::new()).await;
            engine.remove(&handle).await.unwrap();
            assert_eq!(world.containers(&spec), 0);
            drop(between);
            made.map(drop)
        };
        run_async(async {
            make(|body| body).await.unwrap();
            let pings = |body: String| {
                let never = "\"net.ipv4.ping_group_range\":\"1 0\"";
                // An ordinary user's has no more groups.
                let everybody = if rustix::process::geteuid().is_root() {
                    "0 2147483647"
                } else {
                    "0 65535"
                };
                body.replace(
                    never,
                    &format!("\"net.ipv4.ping_group_range\":\"{everybody}\""),
                )
            };
            let error = make(pings).await.unwrap_err().to_string();
            assert!(error.contains("wall"), "{error}");
        });
    }
}

/// Attack 68: the engine's filter is seen in the container itself, whatever the engine was told and says. Here it is told to have none.
#[test]
fn an_engine_that_filters_nothing_is_refused() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        let make = async |change: fn(String) -> String| {
            made_through(&world, &Between::to(kind, None, change)).await
        };
        run_async(async {
            make(|body| body).await.unwrap();
            let unconfined = |body: String| match serde_json::from_str::<Value>(&body) {
                Ok(mut asked) if asked["HostConfig"].is_object() => {
                    let options = ["no-new-privileges", "seccomp=unconfined"];
                    asked["HostConfig"]["SecurityOpt"] = Value::from(options.to_vec());
                    asked.to_string()
                }
                _ => body,
            };
            match make(unconfined).await.unwrap_err() {
                SandboxError::Unsupported { what, hint } => {
                    assert!(
                        what.contains("filter of system calls is turned off"),
                        "{what}"
                    );
                    assert!(hint.contains("seccomp"), "{hint}");
                }
                other => panic!("{other:?}"),
            }
        });
    }
}
