//! Engines that do other than they were asked: what comes of it is seen before any program runs.

use cofferdam::sandbox::docker::Docker;
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind};
use cofferdam::sandbox::podman::Podman;
use cofferdam::sandbox::{BindMountProvider, Limits, SandboxError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::attacks::{engine_at, made_through};
use crate::between::Between;
use crate::images::image;
use crate::world::{IMAGE, World, around, engine, is_there, ok, run_async, spec};

/// Whether an engine is asked for an agent's container, and for what.
fn asked(body: &str) -> Option<Value> {
    let asked: Value = serde_json::from_str(body).ok()?;
    let mounts = asked["HostConfig"]["Mounts"].as_array()?;
    (!mounts.is_empty() && asked["Entrypoint"].is_array()).then_some(asked)
}

/// Directories of the host's that an administrator gives to all containers are for none of an agent's.
#[test]
fn a_mount_that_nobody_asked_for_is_refused_by_name() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        let given = world.directory("given");
        let make = async |target: &'static str| {
            let given = given.display().to_string();
            let between = Between::to(kind, None, move |body| match asked(&body) {
                Some(mut asked) if !target.is_empty() => {
                    if target == "/dev/more" {
                        let device = serde_json::json!({
                            "PathOnHost": "/dev/null", "PathInContainer": target, "CgroupPermissions": "r",
                        });
                        asked["HostConfig"]["Devices"] = Value::from(vec![device]);
                        return asked.to_string();
                    }
                    let from = if target.starts_with("/dev") {
                        target
                    } else {
                        &*given
                    };
                    let binds = vec![format!("{from}:{target}:ro")];
                    asked["HostConfig"]["Binds"] = Value::from(binds);
                    asked.to_string()
                }
                _ => body,
            });
            made_through(&world, &between).await
        };
        run_async(async {
            make("").await.unwrap();
            for target in [
                "/given",
                "/tmp/a b",
                "/etc/hosts.d",
                "/run/more",
                "/dev/shm",
                "/dev/more",
            ] {
                match make(target).await.unwrap_err() {
                    SandboxError::Unsupported { what, hint } => {
                        let said = what.contains("nobody asked it to");
                        assert!(said && what.contains(&format!("`{target}`")), "{what}");
                        assert!(hint.contains("engine's configuration"), "{hint}");
                    }
                    other => panic!("{target}: {other:?}"),
                }
            }
        });
    }
}

/// An image's name is somebody else's a moment later: what was looked at is what runs.
#[test]
fn a_container_is_of_the_image_that_was_looked_at() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        let meant = image(&world, "meant", "echo meant > which", &[]);
        let other = image(&world, "other", "echo other > which", &[]);
        let (name, new) = (meant.clone(), other.clone());
        let between = Between::to(kind, None, move |body| {
            if asked(&body).is_some() {
                engine(kind, &["tag", &new, &name]);
            }
            body
        });
        run_async(async {
            let engine = engine_at(kind, &world.home(), &between, &meant);
            let cancel = CancellationToken::new();
            for which in ["meant", "other"] {
                let sandbox = engine.create(&spec(), &cancel).await.unwrap();
                assert_eq!(ok(&*sandbox, "cat /which").await.trim(), which);
                sandbox.close().await.unwrap();
            }
        });
        engine(kind, &["rmi", "--force", &meant, &other]);
    }
}

/// Where memory is short the kernel takes an agent's programs first. Whoever starts the engine may have said so of all already.
#[test]
fn an_agents_programs_go_first_where_memory_is_short() {
    for kind in [Kind::Docker, Kind::Podman] {
        if !is_there(kind) {
            continue;
        }
        let world = World::of(kind);
        run_async(async {
            let sandbox = world.create(&spec()).await.unwrap();
            let score = ok(&*sandbox, "cat /proc/self/oom_score_adj").await;
            assert!(score.trim().parse::<u32>().unwrap() >= 500, "{score}");
            sandbox.close().await.unwrap();
        });
    }
}

/// The types by an engine's name do what [`Engine`] does.
#[test]
fn one_by_its_own_name_is_the_same() {
    let place = tempfile::tempdir().unwrap();
    let mut nothing = Limits::default();
    nothing.memory = Some(0);
    let refused = |provider: &dyn BindMountProvider| {
        let limits = provider.check_limits(&nothing);
        limits.unwrap_err().to_string()
    };
    for kind in [Kind::Docker, Kind::Podman] {
        let options = EngineOptions::new(place.path().join("engine"), around());
        let named: Box<dyn BindMountProvider> = match kind {
            Kind::Docker => Box::new(Docker::new(options.clone())),
            Kind::Podman => Box::new(Podman::new(options.clone())),
        };
        let engine = Engine::new(kind, options);
        assert_eq!(refused(&*named), refused(&engine));
        if is_there(kind) {
            run_async(async {
                let pinned = named.pinned(IMAGE).await.unwrap();
                assert!(pinned.is_some());
                assert_eq!(pinned, engine.pinned(IMAGE).await.unwrap());
            });
        }
    }
}
