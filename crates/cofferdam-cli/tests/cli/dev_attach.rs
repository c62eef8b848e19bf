//! What editors do that attach to a container: they start programs of their own by the engine, a server and a terminal among them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::containers::{self, World, own};
use crate::environment::finish;
use crate::lives::OnTerminal;

/// `ENGINE exec`, as whoever its container is for, in the checkout.
fn attached(world: &World, options: &[&str], container: &str, script: &str) -> Vec<String> {
    let words = ["exec", "--workdir", "/workspace/repository"];
    let words = [&words[..], options, &[container, "sh", "-c", script]].concat();
    assert!(["docker", "podman"].contains(&world.engine));
    words.into_iter().map(str::to_owned).collect()
}

fn run(world: &World, options: &[&str], container: &str, script: &str) -> String {
    let words = attached(world, options, container, script);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    own(world.engine, &words).unwrap()
}

/// On a busy machine an engine loses what a program prints that ends at once.
fn lines(world: &World, container: &str, file: &str) -> usize {
    let said = || run(world, &[], container, &format!("wc -l < {file}"));
    let said = (0..10).map(|_| said()).find(|said| !said.is_empty());
    said.unwrap().trim().parse().unwrap()
}

#[test]
fn an_editor_works_in_a_container() {
    for world in containers::worlds() {
        let start = containers::making("start", world.engine, &[]);
        world.cofferdam(&start).expect_code(0);
        let container = world.agents();

        // Its programs have no more rights than others inside.
        let told = run(
            &world,
            &[],
            &container,
            "id -un; pwd; grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d ' \\t'",
        );
        let told: Vec<&str> = told.lines().collect();
        assert_eq!(told[..2], ["agent", "/workspace/repository"], "{told:?}");
        for wanted in [
            "CapPrm:0000000000000000",
            "CapEff:0000000000000000",
            "CapAmb:0000000000000000",
            "NoNewPrivs:1",
            "Seccomp:2",
        ] {
            assert!(told.contains(&wanted), "{}: {told:?}", world.engine);
        }

        // Their `git` is the one that explains, and whom they believe is said.
        let git = "git commit -q --no-verify --allow-empty -m x 2>&1; git config user.name >/dev/null && echo known";
        let git = run(&world, &[], &container, git);
        assert!(git.contains("--no-verify"), "{}: {git}", world.engine);
        assert!(git.ends_with("known\n"), "{}: {git}", world.engine);

        // They stand still with everything else.
        let count = "until test -e ~/over; do echo x >> ~/count; sleep 0.01; done";
        run(&world, &["--detach"], &container, count);
        let until = Instant::now() + Duration::from_secs(20);
        while lines(&world, &container, "/home/agent/count") == 0 {
            assert!(Instant::now() < until);
        }
        world.cofferdam(&["pause", "dev"]).expect_code(0);
        let count = world.environment.home().join(".cofferdam/state");
        let id = world.status("dev", "id");
        let count = count.join(id).join("home/count");
        let read = || std::fs::read(&count).unwrap().len();
        let before = read();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(read(), before, "{}", world.engine);
        world.cofferdam(&["resume", "dev"]).expect_code(0);
        let until = Instant::now() + Duration::from_secs(20);
        while read() == before {
            assert!(Instant::now() < until);
        }

        // What they commit comes home.
        let commit = "echo edited > README.md; git commit -qam edited";
        run(&world, &[], &container, commit);
        world.cofferdam(&["collect", "dev"]).expect_code(0);
        let subject = world.environment.git(&["log", "-1", "--format=%s"]);
        assert_eq!(subject.trim(), "edited");
        assert!(lines(&world, &container, "/home/agent/count") > 0);

        // A server of theirs, as that of an editor's window: its port is brought out.
        let serve = "mkdir -p ~/w && echo served > ~/w/index.html && exec httpd -f -p 127.0.0.1:8000 -h ~/w";
        run(&world, &["--detach"], &container, serve);
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut forward = world.command(&["forward", "dev", &format!("{port}:8000")]);
        let mut forward = forward.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(forward.stderr.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let mut answer = String::new();
            let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
                stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                stream.read_to_string(&mut answer)
            });
            if asked.is_ok() && answer.ends_with("served\n") {
                break;
            }
            assert!(
                Instant::now() < until,
                "{}: {asked:?} {answer}",
                world.engine
            );
            std::thread::sleep(Duration::from_millis(50));
        }

        // A terminal.
        let words = attached(
            &world,
            &["-it"],
            &container,
            "test -t 0 && test -t 1 && echo a-termi''nal && exec sh",
        );
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = engines(&world);
        let mut terminal = OnTerminal::start(command.args(words), (33, 90));
        terminal.expect("a-terminal");
        terminal.press("echo $((40+2))\r");
        terminal.expect("42");
        terminal.press("exit\r");
        terminal.ends();

        run(&world, &[], &container, "touch ~/over");
        world.cofferdam(&["stop", "dev"]).expect_code(0);
        said.read_to_string(&mut String::new()).unwrap();
        assert_eq!(finish(forward).status.code(), Some(1));
        world.cofferdam(&["delete", "dev"]).expect_code(0);
        world.expect_clean();
    }
}

/// The engine's own command, where its user works.
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the command as a shell does"
)]
fn engines(world: &World) -> Command {
    let mut command = Command::new(world.engine);
    if world.engine == "podman" {
        command.arg("--remote");
    }
    command.current_dir(world.environment.repository());
    for name in containers::SURROUNDINGS.iter().chain(&["PATH", "HOME"]) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("XDG_RUNTIME_DIR", world.environment.home());
    command.env("TERM", "xterm");
    command
}
