//! Who joins the network of a container that is behind the wall: each step of a build does.

use std::path::Path;

use cofferdam::sandbox::Network;
use cofferdam::sandbox::engine::Kind;
use cofferdam_lab::skip;
use tokio_util::sync::CancellationToken;

use crate::world::{World, engine, is_there, run_async, spec};

/// Docker gives whoever joins the files that it has of that container, by their paths; looks whether they are there; and fails
/// where one has gone before it is mounted.
#[test]
fn who_joins_finds_no_file_that_goes_with_the_holder() {
    if !is_there(Kind::Docker) {
        return skip!("no Docker");
    }
    run_async(async {
        let world = World::of(Kind::Docker);
        let spec = spec();
        let Network::Wall(wall) = world.wall(&spec, &[]) else {
            unreachable!()
        };
        let cancel = CancellationToken::new();
        let network = world.engine().build_network(*wall, &cancel).await.unwrap();
        world
            .eventually("the holder goes", || world.containers(&spec) == 1)
            .await;
        let own = format!("label=io.cofferdam.id={}", spec.id);
        let id = engine(Kind::Docker, &["ps", "--quiet", "--filter", &own]);
        let id = id.trim();
        for file in ["HostnamePath", "HostsPath", "ResolvConfPath"] {
            let format = format!("{{{{.{file}}}}}");
            let path = engine(Kind::Docker, &["inspect", "--format", &format, id]);
            assert!(Path::new(path.trim()).is_file(), "{file}: {path}");
        }
        let joins = format!("--network=container:{id}");
        let words = ["run", "--rm", &joins, world.image(), "cat", "/etc/hostname"];
        assert_eq!(engine(Kind::Docker, &words), "cofferdam\n");
        network.close().await.unwrap();
    });
}
