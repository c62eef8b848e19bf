//! `--network open` in a container is the engine's own network, as it gives it to whoever asks for nothing else.

use cofferdam_lab::skip;

use crate::containers::{IMAGE, World, making, worlds};
use crate::daemon::Daemon;
use crate::fake_engine::with_engine;

/// A server in another container is reached. The control: without a network the same is not.
#[test]
fn one_with_an_open_network_has_the_engines_own() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start an engine of their own");
    }
    for world in worlds() {
        let engine = world.engine;
        let daemon = Daemon::with_a_network(engine);
        if engine == "docker" {
            daemon.get(IMAGE);
        }
        let serve = "while :; do echo reached | nc -l -p 80; done";
        let words = ["run", "--detach", "--network", "bridge", IMAGE];
        let server = daemon.ask(&[&words[..], &["sh", "-c", serve]].concat());
        let server = match &server {
            Ok(server) => server.trim(),
            Err(why) => {
                skip!("{engine} has no network here: {why}");
                continue;
            }
        };
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let address = daemon.ask(&["inspect", "--format", format, server]);
        let address = address.unwrap();
        let run = |words: &[&str]| {
            let done = with_engine(&world.environment, engine, &daemon.socket(), words);
            done.expect_code(0)
        };
        for (network, tries, seen) in [
            ("open", "1 2 3 4 5 6 7 8 9 10", "lo\neth0\nreached\n"),
            ("none", "1", "lo\n"),
        ] {
            run(&making("create", engine, &["one", "--network", network]));
            let look = format!(
                "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '
                for _ in {tries}; do nc -w 5 {} 80 </dev/null && break; sleep 1; done 2>/dev/null",
                address.trim()
            );
            let done = run(&["exec", "one", "--", "sh", "-c", &look]);
            assert_eq!(done.stdout, seen, "{engine}, {network}: {done}");
            run(&["delete", "one"]);
        }
        daemon.ask(&["rm", "--force", server]).unwrap();
        world.expect_clean();
    }
}

/// Podman's of an ordinary user makes one by a program and a device, which it may not have.
#[test]
fn where_an_ordinary_users_engine_has_no_network_what_is_missing_is_told() {
    let rootless = |world: &World| world.engine == "podman" && world.is_rootless();
    for world in worlds().into_iter().filter(rootless) {
        let made = world.make("create", &["one", "--network", "open"]);
        if made.status.success() {
            let names = world.exec("tail -n +3 /proc/net/dev").stdout;
            assert!(names.lines().count() > 1, "{names}");
            world.cofferdam(&["delete", "one"]).expect_code(0);
        } else {
            let error = "error: Container Provisioning Failed: Podman cannot give the sandbox a network of its own: ";
            let told = made.stderr.lines().find(|line| line.starts_with(error));
            let told = told.unwrap_or_else(|| panic!("{made}"));
            let missing = ["/dev/net/tun", "is not installed"];
            assert!(missing.iter().any(|one| told.ends_with(one)), "{made}");
            assert!(
                made.stderr.contains("hint: leave out `--network open`"),
                "{made}"
            );
        }
        world.expect_clean();
    }
}
