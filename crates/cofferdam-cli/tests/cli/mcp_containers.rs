//! What the document accepts of pausing and deleting, with sandboxes that an agent made by tools: natively and in containers of each
//! engine.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::containers::{self, World};
use crate::environment::TestEnvironment;
use crate::mcp_client::Client;

/// What has not come by then does not come.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// So long nothing may be printed by what stands still; it prints every 20 ms.
const STILL: Duration = Duration::from_millis(500);

pub(crate) const NATIVE: &str = "native";

/// One for each provider that this machine has.
pub(crate) fn everywhere(check: impl Fn(&World)) {
    let native = World {
        environment: TestEnvironment::with_repository(),
        engine: NATIVE,
    };
    for world in std::iter::once(native).chain(containers::worlds()) {
        let provider = world.engine;
        let image = if provider == NATIVE {
            ""
        } else {
            "image: busybox:latest\n"
        };
        let config = format!("sandbox: {provider}\n{image}");
        world.environment.configure(&config);
        check(&world);
        expect_clean(&world);
    }
}

fn expect_clean(world: &World) {
    if world.engine == NATIVE {
        world.environment.expect_clean();
    } else {
        world.expect_clean();
    }
}

fn containers_of(world: &World) -> Vec<String> {
    if world.engine == NATIVE {
        return Vec::new();
    }
    world.containers()
}

/// Makes a sandbox in which a program counts, and says that program's id.
#[track_caller]
fn counting(client: &mut Client, world: &World, name: &str) -> String {
    let made = client.ask(
        "tools/call",
        &json!({"name": "sandbox-create", "arguments": {"name": name}}),
    );
    let made = &made["structuredContent"];
    assert_eq!(made["provider"], world.engine, "{made}");
    let count = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done";
    let exec = json!({"sandbox": name, "command": count, "background": true});
    let begun = client.ask(
        "tools/call",
        &json!({"name": "sandbox-exec", "arguments": exec}),
    );
    let id = begun["structuredContent"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    counts_on(client, name, &id);
    id
}

/// So many bytes it has printed.
#[track_caller]
fn printed(client: &mut Client, name: &str, id: &str) -> u64 {
    let output = json!({"sandbox": name, "id": id, "offset": 0});
    let told = client.ask(
        "tools/call",
        &json!({"name": "sandbox-output", "arguments": output}),
    );
    told["structuredContent"]["size"].as_u64().unwrap()
}

#[track_caller]
fn counts_on(client: &mut Client, name: &str, id: &str) {
    let before = printed(client, name, id);
    let until = Instant::now() + LIMIT;
    while printed(client, name, id) == before {
        assert!(Instant::now() < until, "{name} stands still");
    }
}

#[track_caller]
fn stands_still(client: &mut Client, name: &str, id: &str) {
    let before = printed(client, name, id);
    std::thread::sleep(STILL);
    assert_eq!(printed(client, name, id), before, "{name} goes on");
}

/// The state of a sandbox, as the tool and the command say it.
#[track_caller]
fn state(client: &mut Client, world: &World, name: &str) -> String {
    let told = client.ask(
        "tools/call",
        &json!({"name": "sandbox-list", "arguments": {}}),
    );
    let of = |listed: &Value| {
        let one = listed.as_array().unwrap().iter();
        let mut one = one.filter(|one| one["name"] == name);
        one.next()
            .map(|one| one["state"].as_str().unwrap().to_owned())
    };
    let told = of(&told["structuredContent"]["sandboxes"]);
    let listed = world.cofferdam(&["list", "--json"]).expect_code(0).stdout;
    let listed = of(&serde_json::from_str(&listed).unwrap());
    assert_eq!(told, listed);
    told.unwrap_or_else(|| "not there".to_owned())
}

// covers: S4-FR2.1, S4-FR2.4, S4-AC2.1, S4-AC2.4, S4-UJ4
#[test]
fn one_is_paused_and_goes_on_where_it_was() {
    everywhere(|world| {
        let mut client = Client::with(world.command(&["mcp"]));
        let id = counting(&mut client, world, "one");
        client.run("echo kept > /tmp/kept; echo changed > changed");
        world.cofferdam(&["pause", "one"]).expect_code(0);
        assert_eq!(state(&mut client, world, "one"), "paused");
        stands_still(&mut client, "one", &id);
        let exec = json!({"sandbox": "one", "command": "true"});
        let refused = client.error("sandbox-exec", &exec);
        assert!(refused.contains("`cofferdam resume one`"), "{refused}");
        let write = json!({"sandbox": "one", "path": "x", "content": "x"});
        let refused = client.error("sandbox-write", &write);
        assert!(refused.contains("`cofferdam resume one`"), "{refused}");
        world.cofferdam(&["resume", "one"]).expect_code(0);
        assert_eq!(state(&mut client, world, "one"), "active");
        counts_on(&mut client, "one", &id);
        // The same program: it counts on, and not from one again.
        let output = json!({"sandbox": "one", "id": id, "offset": 0});
        let told = client.tool("sandbox-output", &output);
        assert_eq!(told.lines().filter(|&line| line == "1").count(), 1);
        let kept = client.run("cat /tmp/kept changed; ls x 2>/dev/null; true");
        assert_eq!(kept, "kept\nchanged\n[exit code 0]\n", "{}", world.engine);
        drop(client);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    });
}

// covers: S4-FR2.2, S4-FR2.3, S4-AC2.2, S4-AC2.3, S4-UJ3
#[test]
fn all_of_a_repository_and_all_of_all_are_paused() {
    everywhere(|world| {
        let other = world.environment.temporary().join("other");
        let other = other.to_str().unwrap();
        world.environment.git(&["clone", "-q", ".", other]);
        let mut here = Client::with(world.command(&["mcp"]));
        let mut there = Client::with(world.command(&["-C", other, "mcp"]));
        let one = counting(&mut here, world, "one");
        let two = counting(&mut here, world, "two");
        let three = counting(&mut there, world, "three");
        let stranger = Stranger::beside(world);
        let states = |here: &mut Client, there: &mut Client| {
            let told = there.tool("sandbox-list", &json!({}));
            let third = told.split([':', ',']).nth(1).unwrap().trim().to_owned();
            [state(here, world, "one"), state(here, world, "two"), third]
        };
        world.cofferdam(&["pause", "--all-envs"]).expect_code(0);
        assert_eq!(
            states(&mut here, &mut there),
            ["paused", "paused", "active"]
        );
        stands_still(&mut here, "one", &one);
        stands_still(&mut here, "two", &two);
        counts_on(&mut there, "three", &three);
        world.cofferdam(&["resume", "one"]).expect_code(0);
        assert_eq!(
            states(&mut here, &mut there),
            ["active", "paused", "active"]
        );
        counts_on(&mut here, "one", &one);
        world.cofferdam(&["pause", "--all-repos"]).expect_code(0);
        assert_eq!(
            states(&mut here, &mut there),
            ["paused", "paused", "paused"]
        );
        stands_still(&mut here, "one", &one);
        stands_still(&mut there, "three", &three);
        stranger.runs();
        world.cofferdam(&["resume", "--all-repos"]).expect_code(0);
        assert_eq!(
            states(&mut here, &mut there),
            ["active", "active", "active"]
        );
        counts_on(&mut here, "one", &one);
        counts_on(&mut here, "two", &two);
        counts_on(&mut there, "three", &three);
        drop((here, there));
        world
            .cofferdam(&["delete", "--force", "one", "two"])
            .expect_code(0);
        world
            .cofferdam(&["-C", other, "delete", "--force", "three"])
            .expect_code(0);
        world.cofferdam(&["gc"]).expect_code(0);
        stranger.runs();
    });
}

/// A container that somebody else runs, called and labelled as those of this repository are.
struct Stranger<'w> {
    world: &'w World,
    name: String,
}

impl<'w> Stranger<'w> {
    fn beside(world: &'w World) -> Self {
        let place = world.environment.repository();
        let number = place.parent().unwrap().file_name().unwrap().to_str();
        let name = format!("cofferdam-repository-{}", number.unwrap());
        let label = format!("io.cofferdam.repository={}", place.display());
        let words = [
            "run",
            "--detach",
            "--name",
            &name,
            "--label",
            &label,
            "--network",
            "none",
            "busybox:latest",
            "sleep",
            "1000",
        ];
        if world.engine != NATIVE {
            containers::own(world.engine, &words).unwrap();
        }
        Self { world, name }
    }

    #[track_caller]
    fn runs(&self) {
        if self.world.engine != NATIVE {
            let asked = ["inspect", "--format", "{{.State.Status}}", &self.name];
            let told = containers::own(self.world.engine, &asked).unwrap();
            assert_eq!(told.trim(), "running", "{}", self.world.engine);
        }
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        if self.world.engine != NATIVE {
            let _ = containers::own(self.world.engine, &["rm", "--force", &self.name]);
        }
    }
}

/// On a machine that does much else at the same time, which is why it is the shortest of some that counts.
// covers: S4-NFR3
#[test]
fn making_one_takes_seconds_and_pausing_it_less_than_one() {
    everywhere(|world| {
        let mut client = Client::with(world.command(&["mcp"]));
        let limit = Duration::from_secs(10);
        for last in [false, false, true] {
            let began = Instant::now();
            client.tool("sandbox-create", &json!({"name": "one"}));
            let made = began.elapsed();
            if made < limit {
                break;
            }
            assert!(!last, "{}: {made:?}", world.engine);
            let delete = ["delete", "--purge", "one"];
            world.cofferdam(&delete).expect_code(0);
        }
        let mut shortest = [Duration::MAX; 2];
        for _ in 0..5 {
            for (command, shortest) in ["pause", "resume"].into_iter().zip(&mut shortest) {
                let began = Instant::now();
                world.cofferdam(&[command, "one"]).expect_code(0);
                *shortest = began.elapsed().min(*shortest);
            }
        }
        let second = Duration::from_secs(1);
        let [pause, resume] = shortest;
        assert!(
            pause < second && resume < second,
            "{}: {shortest:?}",
            world.engine
        );
        drop(client);
        world
            .cofferdam(&["delete", "--force", "one"])
            .expect_code(0);
    });
}

/// The errors of the document, wherever the sandbox is: with what its set-up printed, and with what to do.
// covers: S4-E5, S4-E8, S4-E11, S4-E14
#[test]
fn what_goes_wrong_is_told_wherever_it_is() {
    everywhere(|world| {
        let at = world.engine;
        let config = world.environment.home().join(".cofferdam/config.yaml");
        let usual = std::fs::read_to_string(config).unwrap();
        let broken = format!("{usual}setup: echo broken >&2; exit 7\n");
        world.environment.configure(&broken);
        let mut client = Client::with(world.command(&["mcp"]));
        let failed = client.error("sandbox-create", &json!({"name": "one"}));
        assert!(
            failed.starts_with("Error: Setup Command Failed: ") && failed.contains("broken"),
            "{at}: {failed}"
        );
        assert_eq!(state(&mut client, world, "one"), "failed-setup", "{at}");
        let status = world.cofferdam(&["status", "one"]).expect_code(0).stdout;
        assert!(status.contains("broken"), "{at}: {status}");
        world
            .cofferdam(&["delete", "--purge", "one"])
            .expect_code(0);
        world.environment.configure(&usual);
        client.tool("sandbox-create", &json!({"name": "one"}));
        for command in ["pause", "resume"] {
            world.cofferdam(&[command, "one"]).expect_code(0);
            let again = world.cofferdam(&[command, "one"]).expect_code(0);
            assert!(again.stderr.contains("already"), "{at}: {again}");
        }
        let waits = json!({"sandbox": "one", "command": "touch /tmp/up; sleep 1000"});
        client.begin("waits", "sandbox-exec", &waits);
        let until = Instant::now() + LIMIT;
        let up = ["exec", "one", "--", "test", "-e", "/tmp/up"];
        while world.cofferdam(&up).status.code() != Some(0) {
            assert!(Instant::now() < until, "{at}");
        }
        let refused = world.cofferdam(&["delete", "one"]).expect_code(1);
        assert!(refused.stderr.contains("--force"), "{at}: {refused}");
        drop(client);
        world
            .cofferdam(&["delete", "--force", "--purge", "one"])
            .expect_code(0);
    });
}

/// Also while a program of it runs in the background. What was on its branch can be brought back, and with `--purge` nothing is left.
// covers: S4-FR3.1, S4-FR3.2, S4-FR3.3, S4-AC3.1, S4-AC3.2, S4-AC3.3, S4-UJ5
#[test]
fn a_deleted_one_is_gone() {
    everywhere(|world| {
        let environment = &world.environment;
        let before = environment.references();
        let mut client = Client::with(world.command(&["mcp"]));
        for purge in [false, true] {
            let words: &[&str] = if purge { &["--force", "--purge"] } else { &[] };
            let id = counting(&mut client, world, "one");
            let write = json!({"sandbox": "one", "path": "made", "content": "made\n"});
            client.tool("sandbox-write", &write);
            let tip = environment.git(&["rev-parse", "cofferdam/one"]);
            assert_eq!(world.engine != NATIVE, !containers_of(world).is_empty());
            let delete = [&["delete", "one"], words].concat();
            world.cofferdam(&delete).expect_code(0);
            assert_eq!(state(&mut client, world, "one"), "not there");
            let branches = environment.git(&["branch", "--list", "--all", "cofferdam/*"]);
            assert_eq!(branches, "", "{}", world.engine);
            expect_clean(world);
            let output = json!({"sandbox": "one", "id": id});
            for (tool, arguments) in [
                ("sandbox-output", output),
                ("sandbox-exec", json!({"sandbox": "one", "command": "true"})),
            ] {
                let gone = client.error(tool, &arguments);
                assert!(
                    gone.starts_with("Error: Sandbox 'one' not found.\n"),
                    "{gone}"
                );
            }
            let trash =
                environment.git(&["for-each-ref", "--format=%(objectname)", "refs/cofferdam"]);
            if purge {
                assert_eq!(environment.references(), before, "{}", world.engine);
            } else {
                assert_eq!(trash, tip, "{}", world.engine);
                environment.git(&["update-ref", "-d", "refs/cofferdam/trash/one"]);
            }
        }
    });
}
