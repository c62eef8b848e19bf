//! Connections of the host's to servers in a sandbox behind a wall: past the wall, and never into it.

use std::fs;
use std::time::Duration;

use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    BindMountProvider, ExecRequest, Network, Sandbox, SandboxError, SandboxSpec,
};
use cofferdam_guest::protocol::{PROXY_PORT, REDIRECT_PORT};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::port;
use crate::support::{House, block_on};

/// Tells each of its clients, at their end, what they said.
const SERVER: &str = "use IO::Socket::INET; $| = 1; my @s = map { IO::Socket::INET->new(LocalAddr => '127.0.0.1', \
    LocalPort => $_, Listen => 9, ReuseAddr => 1) or die $@ } 443, 8001; print \"up\\n\"; \
    my $s = $s[fork ? 0 : 1]; while (my $c = $s->accept) { local $/; my $all = <$c>; print $c \"got $all\"; close $c }";

async fn answered(sandbox: &dyn Sandbox, number: u16) -> Result<String, SandboxError> {
    Ok(port::answered(sandbox.connect(number).await?).await)
}

#[test]
fn a_server_behind_the_wall_is_reached_and_the_wall_itself_is_not() {
    let house = House::new();
    let wall = house.spec(&["allowed.invalid:443"]);
    let mut spec = SandboxSpec::new(wall.sandbox, wall.name.clone(), "cofferdam-test", "/");
    spec.network = Network::Wall(Box::new(wall.clone()));
    let log = || fs::read_to_string(house.home.network_log(wall.sandbox)).unwrap();
    block_on(async {
        let native = Native::default();
        let made = native.create(&spec, &CancellationToken::new()).await;
        let sandbox = made.unwrap();
        let server = ExecRequest::new(["perl", "-e", SERVER]);
        let mut server = sandbox.exec(server).await.unwrap();
        let mut up = [0; 3];
        let mut stdout = server.take_stdout().unwrap();
        stdout.read_exact(&mut up).await.unwrap();
        let before = log();

        // Also at a port that is redirected elsewhere.
        assert_eq!(answered(&*sandbox, 8001).await.unwrap(), "got this");
        assert_eq!(answered(&*sandbox, 443).await.unwrap(), "got this");
        // Where nobody listens the gateway does not either.
        for port in [80, 8002] {
            let nobody = answered(&*sandbox, port).await.unwrap_err();
            assert!(
                matches!(nobody, SandboxError::NotListening(at) if at == port),
                "{nobody}"
            );
        }
        for port in [REDIRECT_PORT, PROXY_PORT] {
            let refused = answered(&*sandbox, port)
                .await
                .map_err(|why| why.to_string());
            let expected =
                format!("cannot connect to port {port} of the sandbox: it is the network wall's");
            assert_eq!(refused, Err(expected));
        }
        assert_eq!(log(), before, "the gateway heard nothing");
        // The control: what a program inside asks of it is heard.
        let asks = "use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 3128); \
            $s->print(\"CONNECT refused.invalid:443 HTTP/1.1\\r\\nHost: refused.invalid:443\\r\\n\\r\\n\"); <$s>";
        let program = sandbox.exec(ExecRequest::new(["perl", "-e", asks])).await;
        program.unwrap().wait().await.unwrap();
        // Who is answered is not told when it stands in the log.
        let heard = async {
            while log() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, heard)
            .await
            .expect("it is heard");
        sandbox.close().await.unwrap();
    });
}
