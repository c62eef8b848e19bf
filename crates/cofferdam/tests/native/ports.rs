//! Connections to servers inside: real ones, and those that take nothing, say too much or hang up.

use std::time::{Duration, Instant};

use cofferdam::sandbox::{Execution, Network, PortStream, Sandbox, SandboxError};
use cofferdam_lab::skip;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::living::Living;
use crate::world::{both, create, ok, spec, start};

/// A server inside, and what holds it there.
async fn serve(sandbox: &dyn Sandbox, script: &str) -> Box<dyn Execution> {
    let script = script.replace('\n', " ");
    let mut run = start(
        sandbox,
        &format!("exec perl -MIO::Socket::IP -MSocket -e '{script}'"),
    )
    .await;
    let mut stdout = BufReader::new(run.take_stdout().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    if line != "up\n" {
        let mut said = String::new();
        let mut stderr = run.take_stderr().unwrap();
        stderr.read_to_string(&mut said).await.unwrap();
        panic!("no server: {line}{said}");
    }
    run
}

/// It listens at `address`, and does `what` with each connection `$c`, one after the other.
fn each(address: &str, port: u16, what: &str) -> String {
    format!(
        "my $s = IO::Socket::IP->new(LocalHost => \"{address}\", LocalPort => {port}, Listen => 50) or die $@; \
         $| = 1; print \"up\\n\"; while (my $c = $s->accept) {{ {what} }}"
    )
}

/// Says who it is, and at its client's end how much it was told.
fn counts(name: &str) -> String {
    format!(
        "$c->autoflush(1); print $c \"{name}\\n\"; my $all = 0; \
         while (sysread $c, my $part, 65536) {{ $all += length $part }} print $c \"$all\\n\"; close $c"
    )
}

/// What a server of [`counts`] is called, if it was told `bytes` bytes.
async fn told(stream: PortStream, bytes: usize) -> String {
    let PortStream { output, mut input } = stream;
    let mut output = BufReader::new(output);
    let mut name = String::new();
    output.read_line(&mut name).await.unwrap();
    input.write_all(&vec![b'x'; bytes]).await.unwrap();
    // The half of it: the other one goes on.
    input.shutdown().await.unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, format!("{bytes}\n"));
    name.trim_end().to_owned()
}

both! {
    async fn a_server_inside_is_reached() {
        let sandbox = create(&spec()).await.unwrap();
        let nobody = sandbox.connect(8001).await.unwrap_err();
        assert!(matches!(nobody, SandboxError::NotListening(8001)), "{nobody}");
        let nobody = sandbox.connect(0).await.unwrap_err();
        assert!(matches!(nobody, SandboxError::NotListening(0)), "{nobody}");

        let _four = serve(&*sandbox, &each("127.0.0.1", 8001, &counts("four"))).await;
        let stream = sandbox.connect(8001).await.unwrap();
        assert_eq!(told(stream, 3_000_000).await, "four");
        // To drop what is written to is its end too.
        let PortStream { mut output, input } = sandbox.connect(8001).await.unwrap();
        drop(input);
        let mut said = String::new();
        output.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "four\n0\n");

        if ok(&*sandbox, "cat /proc/net/if_inet6").await.is_empty() {
            skip!("there is no IPv6 here");
            return;
        }
        let _six = serve(&*sandbox, &each("::1", 8002, &counts("six"))).await;
        assert_eq!(told(sandbox.connect(8002).await.unwrap(), 1).await, "six");
        let _both = serve(&*sandbox, &each("::1", 8001, &counts("six"))).await;
        assert_eq!(told(sandbox.connect(8001).await.unwrap(), 1).await, "four");
        // Not what listens elsewhere than on the loopback.
        let _else = serve(&*sandbox, &each("127.0.0.2", 8003, &counts("two"))).await;
        let nobody = sandbox.connect(8003).await.unwrap_err();
        assert!(matches!(nobody, SandboxError::NotListening(8003)), "{nobody}");
    }
}

both! {
    /// It is its caller's alone, by whichever way they came to the sandbox, and ends with the sandbox.
    async fn a_connection_outlives_the_way_it_was_made() {
        let living = Living::new();
        let made = living.create().await;
        let server = serve(&*made, &each("127.0.0.1", 8001, &counts("it"))).await;
        let opened = living.open().await;
        let stream = opened.connect(8001).await.unwrap();
        drop(opened);
        assert_eq!(told(stream, 5).await, "it");
        let PortStream { output, input } = living.open().await.connect(8001).await.unwrap();
        let mut output = BufReader::new(output);
        output.read_line(&mut String::new()).await.unwrap();
        made.close().await.unwrap();
        // An end, or a reset: the server was killed in the middle.
        let _ = output.read_to_end(&mut Vec::new()).await;
        drop((input, server));
    }
}

both! {
    async fn one_that_stands_still_is_not_connected_to() {
        let living = Living::new();
        let sandbox = living.create().await;
        let _server = serve(&*sandbox, &each("127.0.0.1", 8001, &counts("it"))).await;
        sandbox.pause().await.unwrap();
        let refused = sandbox.connect(8001).await.unwrap_err();
        assert!(matches!(refused, SandboxError::Paused), "{refused}");
        sandbox.resume().await.unwrap();
        let other = living.open().await;
        other.freeze().await.unwrap();
        let refused = sandbox.connect(8001).await.unwrap_err();
        assert!(matches!(refused, SandboxError::Frozen), "{refused}");
        other.thaw().await.unwrap();
        // One that is there stays, and waits.
        let stream = sandbox.connect(8001).await.unwrap();
        sandbox.pause().await.unwrap();
        sandbox.resume().await.unwrap();
        assert_eq!(told(stream, 5).await, "it");
    }
}

both! {
    /// With the machine's own network it would be the machine's servers.
    async fn the_machines_own_loopback_is_nobodys() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut spec = spec();
        spec.network = Network::Open;
        let sandbox = create(&spec).await.unwrap();
        let refused = sandbox.connect(port).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("cannot connect to port {port} of the sandbox: its network is this machine's")
        );
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
        spec.network = Network::None;
        let sandbox = create(&spec).await.unwrap();
        let refused = sandbox.connect(port).await.unwrap_err();
        assert!(matches!(refused, SandboxError::NotListening(_)), "{refused}");
        assert!(listener.accept().is_err());
    }
}

both! {
    /// A server that takes nothing makes its own clients wait, so many and so long, and nobody else.
    async fn a_server_that_takes_nothing_costs_nobody_else_anything() {
        let living = Living::new();
        let sandbox = living.create().await;
        let _deaf = serve(
            &*sandbox,
            "my $s = IO::Socket::IP->new(LocalHost => \"127.0.0.1\", LocalPort => 8001, Listen => 1) or die $@; \
             listen $s, 0; $| = 1; print \"up\\n\"; sleep 600",
        )
        .await;
        let _server = serve(&*sandbox, &each("127.0.0.1", 8002, &counts("it"))).await;
        // The kernel takes one for it.
        let _first = sandbox.connect(8001).await.unwrap();
        let began = Instant::now();
        let waiting: Vec<_> = (0..17)
            .map(|_| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move {
                    let refused = sandbox.connect(8001).await.unwrap_err();
                    (refused.to_string(), began.elapsed())
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(ok(&*sandbox, "echo fine").await, "fine\n");
        // Another of its users has a number of their own.
        let other = living.open().await;
        let stream = other.connect(8002).await.unwrap();
        assert_eq!(told(stream, 5).await, "it");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        let (mut too_many, mut not_taken) = (0, 0);
        for waits in waiting {
            let (refused, after) = waits.await.unwrap();
            if refused.ends_with("too many connections are waiting to be taken") {
                too_many += 1;
                assert!(after < Duration::from_secs(4), "{after:?}");
            } else if refused.ends_with("its server does not take the connection") {
                not_taken += 1;
                let expected = Duration::from_secs(5)..Duration::from_secs(9);
                assert!(expected.contains(&after), "{after:?}");
            } else {
                panic!("{refused}");
            }
        }
        assert_eq!((too_many, not_taken), (1, 16));
        // And then there is room again.
        assert_eq!(told(sandbox.connect(8002).await.unwrap(), 5).await, "it");
    }
}

both! {
    async fn floods_and_resets_are_their_connections_own() {
        let sandbox = create(&spec()).await.unwrap();
        let flood = "fork and next; my $part = chr(120) x 65536; 1 while syswrite $c, $part; exit";
        let _flood = serve(&*sandbox, &each("127.0.0.1", 8001, flood)).await;
        let reset = "setsockopt $c, SOL_SOCKET, SO_LINGER, pack(q(ii), 1, 0); sysread $c, my $b, 1; close $c";
        let _reset = serve(&*sandbox, &each("127.0.0.1", 8002, reset)).await;
        let _server = serve(&*sandbox, &each("127.0.0.1", 8003, &counts("it"))).await;
        let mut floods = Vec::new();
        for _ in 0..8 {
            floods.push(sandbox.connect(8001).await.unwrap());
        }
        let PortStream { mut output, mut input } = sandbox.connect(8002).await.unwrap();
        input.write_all(b"go").await.unwrap();
        let error = output.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(told(sandbox.connect(8003).await.unwrap(), 5).await, "it");
        assert_eq!(ok(&*sandbox, "echo fine").await, "fine\n");
        // It waits as well as it floods, and its end is the server's.
        for mut stream in floods {
            let mut bytes = vec![0; 1 << 20];
            stream.output.read_exact(&mut bytes).await.unwrap();
            assert!(bytes.iter().all(|byte| *byte == b'x'));
        }
        assert_eq!(told(sandbox.connect(8003).await.unwrap(), 5).await, "it");
    }
}
