//! One container: what is in it, what it may do, and how it ends.

use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::{Access, BindMountProvider};
use cofferdam_lab::skip;

use crate::world::{World, has, mount, ok, run_async, spec};

#[test]
fn a_program_runs_as_nobody_special_and_sees_what_it_was_given() {
    run_async(async {
        if let Err(why) = has(Kind::Docker).await {
            skip!("{why}");
        }
        let world = World::of(Kind::Docker);
        let tree = world.directory("tree");
        std::fs::write(tree.join("file"), "from the host\n").unwrap();
        let mut spec = spec();
        spec.mounts = vec![mount(&tree, "/workspace/tree", Access::ReadWrite)];
        spec.workdir = "/workspace/tree".into();
        let sandbox = world.create(&spec).await.unwrap();
        assert_eq!(
            ok(&*sandbox, "cat file; pwd").await,
            "from the host\n/workspace/tree\n"
        );
        let status = ok(&*sandbox, "cat /proc/self/status").await;
        for line in [
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "{line}: {status}");
        }
        assert_ne!(ok(&*sandbox, "id -u").await.trim(), "0");
        println!(
            "{}",
            ok(
                &*sandbox,
                "id; env; ls -lan / /workspace/tree; mount; ls /sys/class/net"
            )
            .await
        );
        ok(&*sandbox, "echo from inside >new").await;
        let new = tree.join("new");
        assert_eq!(std::fs::read_to_string(&new).unwrap(), "from inside\n");
        let owner = std::os::unix::fs::MetadataExt::uid(&new.metadata().unwrap());
        assert_eq!(owner, rustix::process::geteuid().as_raw());
        sandbox.close().await.unwrap();
        assert_eq!(world.left(), <[String; 0]>::default());
        drop(sandbox);
        let _ = world.engine.name();
    });
}

#[test]
fn behind_the_wall_there_is_nothing_else() {
    run_async(async {
        if let Err(why) = has(Kind::Docker).await {
            skip!("{why}");
        }
        let world = World::of(Kind::Docker);
        let (mut spec, _) = world.living();
        spec.network = world.wall(&spec, &[]);
        let sandbox = world.create(&spec).await.unwrap();
        println!("{}", ok(&*sandbox, "ip a; cat /etc/resolv.conf /etc/hosts; hostname; wget -O - http://example.invalid 2>&1 || true").await);
        sandbox.close().await.unwrap();
        assert_eq!(world.left(), <[String; 0]>::default());
    });
}
