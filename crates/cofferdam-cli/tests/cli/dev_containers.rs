//! Dev sandboxes in containers: what comes in to one, and what is made twice at once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;

use cofferdam_lab::skip;
use cofferdam_lab::turn::Turn;

use crate::containers::{self, World, making};
use crate::environment::{Done, finish};
use crate::images::dockerfile;
use crate::lives::OnTerminal;

const PORT: u16 = 1455;
/// A login by a browser with what a shell has: two requests are answered, then the login is there.
const CODEX: &str = r"#!/bin/sh
nc -ll -p 1455 -e /bin/answers &
server=$!
until grep -q ':05AF 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
echo waiting
until test -e /tmp/over; do sleep 0.1; done
kill $server
cat /tmp/asked
mkdir -p ~/.codex
printf '{\042OPENAI_API_KEY\042:\042of-the-browser\042}' > ~/.codex/auth.json
";
const ANSWERS: &str = r"#!/bin/sh
read -r method path rest
echo got $method $path >> /tmp/asked
case $path in
/auth/callback*) printf 'HTTP/1.1 302 Found\r\nLocation: http://localhost:1455/success\r\nContent-Length: 0\r\n\r\n' ;;
*) printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'; touch /tmp/over ;;
esac
";

fn get(path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{PORT}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What the browser brings crosses into a container as it does natively, once and alone, and the login is kept for all.
// covers: S3-76
#[test]
fn a_login_comes_back_into_a_container() {
    let _turn = Turn::at(PORT).unwrap();
    if TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).is_err() {
        skip!("port {PORT} of this machine is taken");
        return;
    }
    for world in containers::worlds() {
        world.environment.write(".cofferdam/codex", CODEX);
        world.environment.write(".cofferdam/answers", ANSWERS);
        let text = format!(
            "FROM {}\nCOPY codex answers /bin/\nRUN chmod 755 /bin/codex /bin/answers\n",
            containers::IMAGE
        );
        dockerfile(&world.environment, &text);
        world.build_trusted().expect_code(0);
        world
            .cofferdam(&["start", "--sandbox", world.engine])
            .expect_code(0);
        let command = world.command(&["codex", "--", "login"]);
        let mut login = OnTerminal::start(&command, (40, 100));
        login.expect("waiting");
        let refused = get("/");
        assert!(
            refused.starts_with("HTTP/1.1 404 "),
            "{}: {refused}",
            world.engine
        );
        let answer = get("/auth/callback?code=one&state=two");
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "{}: {answer}",
            world.engine
        );
        // Once is once.
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err());
        login.expect("got GET /auth/callback?code=one&state=two");
        login.expect("got GET /success");
        login.expect("the login of codex that was made in dev is kept");
        login.ends_with(0);
        assert!(!login.text().contains("got GET / "), "{}", login.text());
        let other = ["start", "--branch", "two", "--sandbox", world.engine];
        world.cofferdam(&other).expect_code(0);
        let given = world.exec_in("dev-two", "cat ~/.codex/auth.json");
        assert!(given.stdout.contains("of-the-browser"), "{given}");
        world
            .cofferdam(&["delete", "--force", "dev", "dev-two"])
            .expect_code(0);
        world
            .cofferdam(&[world.engine, "remove-image"])
            .expect_code(0);
    }
}

/// Both are begun before one of them is waited for.
fn both(world: &World, commands: [&[&str]; 2]) -> [Done; 2] {
    let started = commands.map(|words| {
        let mut command = world.command(&making("start", world.engine, words));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    started.map(|one| finish(one).expect_code(0))
}

// covers: S3-131
#[test]
fn two_first_starts_at_once_succeed_in_containers() {
    for world in containers::worlds() {
        let said = both(&world, [&[], &[]]).map(|done| done.stderr);
        for text in ["made and started dev ", "dev is running already"] {
            let count = said.iter().filter(|said| said.contains(text)).count();
            assert_eq!(count, 1, "{}: {text}: {said:?}", world.engine);
        }
        let listed = world.cofferdam(&["list", "--names"]).expect_code(0);
        assert_eq!(listed.stdout, "dev\n", "{}", world.engine);
        // Two branches come to a shelf that nobody has made yet.
        both(&world, [&["--branch", "one"], &["--branch", "new"]]);
        let shelf = "ls /repo-shelf/worktrees; git -C /repo-shelf/repo fsck --no-dangling && git status --short";
        for name in ["dev-one", "dev-new"] {
            let seen = world.exec_in(name, shelf).expect_code(0);
            assert_eq!(seen.stdout, "new\none\n", "{}: {seen}", world.engine);
        }
        world
            .cofferdam(&["delete", "--force", "dev", "dev-one", "dev-new"])
            .expect_code(0);
        world.expect_clean();
    }
}
