//! A holder that is there before anybody asks for one: used once, by whoever is first, and nobody's trouble.

use std::fs;
use std::path::PathBuf;

use cofferdam::sandbox::SandboxSpec;
use cofferdam::sandbox::engine::Kind;
use cofferdam_lab::skip;

use crate::world::{World, engine, is_there, ok, run_async, spec, try_engine};

/// The ids of containers that wait for a sandbox.
fn waiting(world: &World) -> Vec<String> {
    let home = world.home().canonicalize().unwrap();
    let home = format!("label=io.cofferdam.home={}", home.display());
    let words = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &home];
    let ready = ["--filter", "label=io.cofferdam.role=ready"];
    let said = engine(Kind::Docker, &[&words[..], &ready].concat());
    said.lines().map(str::to_owned).collect()
}

fn meetings(world: &World) -> Vec<PathBuf> {
    let all = fs::read_dir(world.home().join("meet")).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_dir()).collect()
}

fn walled(world: &World) -> SandboxSpec {
    let mut spec = spec();
    spec.network = world.wall(&spec, &[]);
    spec
}

fn with_docker(body: impl AsyncFnOnce(World)) {
    if !is_there(Kind::Docker) {
        return skip!("no Docker");
    }
    if engine(Kind::Docker, &["info", "--format", "{{.SecurityOptions}}"]).contains("rootless") {
        return skip!("a rootless Docker has none");
    }
    run_async(async { body(World::of(Kind::Docker)).await });
}

/// Which network the agent's container has joined; a holder made for it bears its id as well.
fn joined(spec: &SandboxSpec) -> String {
    let own = format!("label=io.cofferdam.id={}", spec.id);
    let ids = engine(Kind::Docker, &["ps", "--quiet", "--filter", &own]);
    let network = |id: &str| {
        let format = "{{.HostConfig.NetworkMode}}";
        // One that ended meanwhile is not the agent's.
        try_engine(Kind::Docker, &["inspect", "--format", format, id]).unwrap_or_default()
    };
    let networks: Vec<String> = ids.lines().map(network).collect();
    let joins = networks
        .iter()
        .find(|network| network.starts_with("container:"));
    joins
        .unwrap_or_else(|| panic!("{networks:?}"))
        .trim()
        .to_owned()
}

#[test]
fn one_waits_and_is_the_next_sandboxs() {
    with_docker(async |world| {
        world.engine().keep_ready().await.unwrap();
        let [holder] = &waiting(&world)[..] else {
            panic!("{:?}", waiting(&world));
        };
        // Again is once.
        world.engine().keep_ready().await.unwrap();
        assert_eq!(waiting(&world), std::slice::from_ref(holder));
        let spec = walled(&world);
        let sandbox = world.create(&spec).await.unwrap();
        assert_eq!(joined(&spec), format!("container:{holder}"));
        assert_eq!(ok(&*sandbox, "hostname").await, "cofferdam\n");
        world
            .eventually("the holder goes", || waiting(&world).is_empty())
            .await;
        // The wall lives on without it.
        let said = ok(
            &*sandbox,
            "cat /proc/net/dev; grep -c . /proc/net/route || true",
        )
        .await;
        assert!(!said.contains("eth0"), "{said}");
        sandbox.close().await.unwrap();
        assert_eq!(meetings(&world), Vec::<PathBuf>::new());
    });
}

#[test]
fn of_two_that_want_it_one_makes_its_own() {
    with_docker(async |world| {
        world.engine().keep_ready().await.unwrap();
        let holder = waiting(&world).pop().unwrap();
        let (one, other) = (walled(&world), walled(&world));
        let made = tokio::join!(world.create(&one), world.create(&other));
        let (first, second) = (made.0.unwrap(), made.1.unwrap());
        let used = [joined(&one), joined(&other)];
        let used = used.iter().filter(|network| network.contains(&holder));
        assert_eq!(used.count(), 1);
        first.close().await.unwrap();
        second.close().await.unwrap();
    });
}

#[test]
fn one_that_died_or_does_not_answer_is_replaced() {
    with_docker(async |world| {
        for end in [&["kill"][..], &["pause"]] {
            world.engine().keep_ready().await.unwrap();
            let holder = waiting(&world).pop().unwrap();
            engine(Kind::Docker, &[end, &[holder.as_str()]].concat());
            let spec = walled(&world);
            let sandbox = world.create(&spec).await.unwrap();
            assert!(!joined(&spec).contains(&holder), "{end:?}");
            sandbox.close().await.unwrap();
            world
                .eventually("it goes", || waiting(&world).is_empty())
                .await;
        }
        // What is left of one is cleared by the next.
        world.engine().keep_ready().await.unwrap();
        let holder = waiting(&world).pop().unwrap();
        engine(Kind::Docker, &["kill", &holder]);
        world.engine().keep_ready().await.unwrap();
        assert_eq!(meetings(&world).len(), 1);
        assert_ne!(waiting(&world), [holder]);
    });
}

/// A new version of Cofferdam has another guest.
#[test]
fn one_with_another_guest_is_not_used() {
    with_docker(async |world| {
        world.engine().keep_ready().await.unwrap();
        let holder = waiting(&world).pop().unwrap();
        let about = meetings(&world).pop().unwrap().join("about");
        let text = fs::read_to_string(&about).unwrap();
        fs::write(
            &about,
            text.replace("cofferdam-guest-", "cofferdam-guest-0"),
        )
        .unwrap();
        let spec = walled(&world);
        let sandbox = world.create(&spec).await.unwrap();
        assert!(!joined(&spec).contains(&holder));
        sandbox.close().await.unwrap();
        world
            .eventually("it goes", || waiting(&world).is_empty())
            .await;
    });
}

#[test]
fn it_goes_with_its_place() {
    with_docker(async |world| {
        world.engine().keep_ready().await.unwrap();
        fs::remove_dir_all(world.home()).unwrap();
        let all = ["ps", "--quiet", "--filter", "label=io.cofferdam.role=ready"];
        let place = format!("label=io.cofferdam.home={}", world.home().display());
        world
            .eventually("it goes", || {
                engine(Kind::Docker, &[&all[..], &["--filter", &place]].concat()).is_empty()
            })
            .await;
    });
}
