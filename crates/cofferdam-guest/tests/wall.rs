//! The inside of the wall, with this program as the gateway: it holds the four sockets and sees what arrives.
//! Every test runs as the caller, and where that is root once more as the ordinary user 1234, in a copy of
//! this program that setpriv(1) starts.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start programs, write files, and stop at the first surprise"
)]

use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{
    self, Agent, Attempt, Findings, GuestExit, HEAD, Lifetime, Network, Observed, Passage,
    ProcessLimits, Reply, Request, Setup, Streams,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

const ORDINARY: u32 = 1234;
/// Names the guest's executable in the run as [`ORDINARY`].
const GUEST: &str = "COFFERDAM_TEST_GUEST";
/// Nothing here takes long: what does is broken.
const LIMIT: Duration = Duration::from_secs(10);

/// One guest with its wall.
struct Inside {
    stream: UnixStream,
    child: Child,
    next: u64,
}

struct Gateway {
    connections: TcpListener,
    proxy: TcpListener,
    lookups: UdpSocket,
    packets: File,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn guest() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_cofferdam-guest"));
    std::env::var_os(GUEST).map_or_else(built, PathBuf::from)
}

/// The connection that comes to the gateway next. Without what sends it there, none would: the test says so,
/// and does not wait for ever.
fn arrived(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && began.elapsed() < LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("no connection came to the gateway: {error}"),
        }
    }
}

/// The run as an ordinary user, of copies that they can execute.
fn repeat_as_ordinary_user(test: &str) {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let program = copy(&std::env::current_exe().unwrap(), "wall");
    let guest = copy(&guest(), "guest");
    let id = ORDINARY.to_string();
    let done = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .current_dir("/")
        .env(GUEST, guest)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "as uid {ORDINARY}: {text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

macro_rules! both {
    ($(#[$meta:meta])* fn $name:ident() $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            $body
            repeat_as_ordinary_user(stringify!($name));
        }
    };
}

impl Inside {
    fn start(network: Network) -> (Self, Vec<OwnedFd>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(LIMIT)).unwrap();
        let child = Command::new(guest())
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let agent = if is_root() {
            let (uid, gid) = (ORDINARY + 1, ORDINARY + 1);
            Agent::Separate { uid, gid }
        } else {
            Agent::Caller
        };
        let mut inside = Self {
            stream: ours,
            child,
            next: 0,
        };
        inside.send(
            &protocol::encode(&Setup {
                hostname: "inside".to_owned(),
                agent,
                mounts: Vec::new(),
                limits: ProcessLimits::default(),
                workdir: b"/".to_vec(),
                environment: Vec::new(),
                network,
                lifetime: Lifetime::WithConnection,
                group: None,
                seen: Vec::new(),
                expected: None,
                root: false,
            })
            .unwrap(),
            &[],
        );
        let (reply, sockets) = inside.receive();
        assert_eq!(reply, Reply::Ready);
        (inside, sockets)
    }

    fn walled() -> (Self, Gateway) {
        let (inside, sockets) = Self::start(Network::Wall);
        let [connections, proxy, lookups, packets] = sockets.try_into().unwrap();
        let gateway = Gateway {
            connections: TcpListener::from(connections),
            proxy: TcpListener::from(proxy),
            lookups: UdpSocket::from(lookups),
            packets: File::from(packets),
        };
        gateway.lookups.set_read_timeout(Some(LIMIT)).unwrap();
        // Also bounds accept(2): what does not arrive fails the test instead of stopping it.
        for listener in [&gateway.connections, &gateway.proxy] {
            let kind = rustix::net::sockopt::Timeout::Recv;
            rustix::net::sockopt::set_socket_timeout(listener, kind, Some(LIMIT)).unwrap();
        }
        (inside, gateway)
    }

    fn send(&self, frame: &[u8], fds: &[OwnedFd]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if !borrowed.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let parts = [IoSlice::new(frame)];
        let sent =
            rustix::net::sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, frame.len());
    }

    fn receive(&mut self) -> (Reply, Vec<OwnedFd>) {
        let mut fds = Vec::new();
        let mut head = [0u8; HEAD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut head)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = rustix::net::recvmsg(&self.stream, &mut parts, &mut control, flags).unwrap();
        assert_eq!(got.bytes, HEAD);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        let mut body = vec![0; protocol::body_length(head).unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        (protocol::decode(&body).unwrap(), fds)
    }

    /// Starts `perl -e SCRIPT`: what it prints, errors included, can be read here.
    fn begin(&mut self, script: &str) -> File {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let input = OwnedFd::from(File::open("/dev/null").unwrap());
        let fds = [input, write.try_clone().unwrap(), write];
        let request = Request::Exec {
            exec: self.next,
            arguments: [&b"perl"[..], b"-e", script.as_bytes()]
                .map(Vec::from)
                .into(),
            environment: Vec::new(),
            directory: None,
            streams: Streams::Given,
        };
        self.next += 1;
        self.send(&protocol::encode(&request).unwrap(), &fds);
        File::from(read)
    }

    fn end(&mut self, mut output: File) -> String {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        loop {
            match self.receive() {
                (Reply::Started { .. }, fds) if fds.is_empty() => {}
                (Reply::Exited { exit, .. }, fds) if fds.is_empty() => {
                    assert_eq!(exit, GuestExit::Code(0), "{text}");
                    return text;
                }
                other => panic!("{other:?}: {text}"),
            }
        }
    }

    fn perl(&mut self, script: &str) -> String {
        let output = self.begin(script);
        self.end(output)
    }

    fn prove(&mut self) -> Findings {
        self.send(
            &protocol::encode(&Request::Prove {
                request: 0,
                passes: Passage {
                    name: "passes.test".to_owned(),
                    port: 4000,
                },
            })
            .unwrap(),
            &[],
        );
        match self.receive() {
            (Reply::Proved { findings, .. }, fds) if fds.is_empty() => findings,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The end of the stream ends the guest.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// Connects, and prints the error number or what the other side says.
fn connect(to: &str, port: u16) -> String {
    format!(
        "use IO::Socket::IP; my $s = IO::Socket::IP->new(PeerHost => '{to}', PeerPort => {port}, \
         Type => SOCK_STREAM); if ($s) {{ my $l = <$s>; print $l // 'nothing' }} else {{ print $!+0 }}"
    )
}

/// Sends a datagram, and prints the error number or the answer.
fn datagram(to: &str, port: u16) -> String {
    format!(
        "use IO::Socket::IP; my $s = IO::Socket::IP->new(PeerHost => '{to}', PeerPort => {port}, \
         Type => SOCK_DGRAM, Proto => 'udp') or do {{ print $!+0; exit }}; \
         if (defined $s->send('hello')) {{ if (defined $s->recv(my $m, 99)) {{ print $m }} else {{ print $!+0 }} }} else {{ print $!+0 }}"
    )
}

both! {
    fn a_connection_arrives_with_its_true_destination() {
        let (mut inside, gateway) = Inside::walled();
        let output = inside.begin(&connect("203.0.113.7", 8443));
        let mut stream = arrived(&gateway.connections);
        let wanted = rustix::net::sockopt::ip_original_dst(&stream).unwrap();
        assert_eq!(wanted, SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 7), 8443));
        stream.write_all(b"from the gateway\n").unwrap();
        drop(stream);
        assert_eq!(inside.end(output), "from the gateway\n");
    }
}

both! {
    fn a_lookup_arrives_wherever_it_was_sent() {
        let (mut inside, gateway) = Inside::walled();
        gateway.lookups.set_nonblocking(false).unwrap();
        gateway.lookups.set_read_timeout(Some(LIMIT)).unwrap();
        for server in ["192.0.2.53", "8.8.8.8", "255.255.255.254"] {
            let output = inside.begin(&datagram(server, 53));
            let mut question = [0; 99];
            let arrived = gateway.lookups.recv_from(&mut question);
            let (got, from) = arrived.unwrap_or_else(|_| panic!("no lookup came to the gateway: {server}"));
            assert_eq!(&question[..got], b"hello");
            gateway.lookups.send_to(b"answer", from).unwrap();
            assert_eq!(inside.end(output), "answer", "{server}");
        }
        let resolv = inside.perl("open F, '/etc/resolv.conf'; print <F>");
        assert_eq!(resolv, "nameserver 192.0.2.53\noptions timeout:2 attempts:2\n");
    }
}

both! {
    fn the_agents_own_servers_are_its_own() {
        let (mut inside, gateway) = Inside::walled();
        gateway.connections.set_nonblocking(true).unwrap();
        for (listen, dial) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.9"), ("127.0.0.2", "127.0.0.2"), ("::1", "::1"), ("::", "fd43:6f66:6665::1")] {
            let both_ends = format!(
                "use IO::Socket::IP; my $l = IO::Socket::IP->new(LocalHost => '{listen}', LocalPort => 0, \
                 Listen => 1) or die $!; my $c = IO::Socket::IP->new(PeerHost => '{dial}', \
                 PeerPort => $l->sockport) or die $!; my $s = $l->accept; print $s 'own'; close $s; print <$c>"
            );
            assert_eq!(inside.perl(&both_ends), "own", "{listen}");
        }
        let error = gateway.connections.accept().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "the gateway heard of it");
    }
}

both! {
    /// What AI_ADDRCONFIG asks: whether an address is configured, 127.0.0.1 and `::1` not counted. `curl -4` and
    /// `getent ahostsv4` ask so.
    fn lookups_for_the_configured_families_find_both() {
        for network in [Network::Wall, Network::None] {
            let (mut inside, _sockets) = Inside::start(network);
            for (host, family, expected) in [
                ("localhost", "AF_INET", "127.0.0.1"),
                ("localhost", "AF_INET6", "::1"),
                ("localhost", "AF_UNSPEC", "127.0.0.1 ::1"),
                ("127.0.0.1", "AF_UNSPEC", "127.0.0.1"),
                ("::1", "AF_UNSPEC", "::1"),
            ] {
                let found = inside.perl(&format!(
                    "use Socket qw(:all); my ($e, @all) = getaddrinfo('{host}', 80, {{ family => {family}, \
                     socktype => SOCK_STREAM, flags => AI_ADDRCONFIG }}); \
                     my %found = map {{ (getnameinfo($_->{{addr}}, NI_NUMERICHOST))[1] => 1 }} @all; \
                     print join ' ', $e || (), sort keys %found"
                ));
                assert_eq!(found, expected, "{host} {family} {network:?}");
            }
            let listed = inside.perl("print `getent ahostsv4 localhost`");
            assert!(listed.starts_with("127.0.0.1"), "{listed}");
            // The address of IPv6 leads to itself and nowhere else: no route but of the loopback interface, no default
            // route but the one that refuses (flag 0x200).
            let routes = inside.perl(
                "open F, '/proc/net/ipv6_route'; while (<F>) { my @f = split; print \"@f[0,1,9] \" if !(hex($f[8]) & 0x200) }",
            );
            let mut own: Vec<_> = routes.split_whitespace().collect::<Vec<_>>().chunks(3).map(<[_]>::to_vec).collect();
            own.sort();
            own.dedup();
            let one = "00000000000000000000000000000001";
            assert_eq!(own, [vec![one, "80", "lo"], vec!["fd436f66666500000000000000000001", "80", "lo"]]);
            for to in ["2001:db8::1", "fd43:6f66:6665::2", "64:ff9b::808:808", "ff02::1", "fe80::1"] {
                let got = inside.perl(&connect(to, 443));
                assert!(got == "101" || got == "22", "{to}: {got}");
                let got = inside.perl(&datagram(to, 53));
                assert!(got == "101" || got == "22", "{to}: {got}");
            }
        }
    }
}

both! {
    fn what_is_no_lookup_is_refused_at_once_and_reported() {
        let (mut inside, mut gateway) = Inside::walled();
        assert_eq!(inside.perl(&datagram("192.0.2.1", 443)), "1", "EPERM");
        // Whole before sendto(2) returned: nothing to wait for.
        let mut report = [0; 4096];
        let got = gateway.packets.read(&mut report).unwrap();
        let to = [192, 0, 2, 1];
        let port = 443u16.to_be_bytes();
        // An IPv4 header ends with the destination; the ports follow.
        let found = report[..got].windows(8).any(|w| w[..4] == to && w[6..] == port);
        assert!(found, "{:?}", &report[..got]);
        for (to, port) in [("2001:db8::1", 443), ("2001:db8::1", 53)] {
            assert_eq!(inside.perl(&datagram(to, port)), "101", "ENETUNREACH");
        }
        assert_eq!(inside.perl(&connect("2001:db8::1", 443)), "101", "ENETUNREACH");
    }
}

both! {
    fn an_agent_cannot_change_the_wall() {
        let (mut inside, _gateway) = Inside::walled();
        let netfilter = inside.perl("socket(S, 16, 3, 12) and print 'open'; print $!+0");
        assert_eq!(netfilter, "1", "EPERM");
        // The route of everything to loopback, taken away: RTM_DELROUTE, answered by an NLMSG_ERROR.
        let route = "socket(S, 16, 3, 0) or die $!; \
                     my $b = pack('C12', 2,0,0,0, 255,3,254,2, 0,0,0,0); \
                     send(S, pack('LSSLL', 28, 25, 5, 1, 0) . $b, 0) or die $!; \
                     recv(S, my $m, 999, 0); print -unpack('x16 l', $m)";
        assert_eq!(inside.perl(route), "1", "EPERM");
        let bind = |port: u16| {
            format!(
                "use IO::Socket::IP; IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => {port}, \
                 Listen => 1) and print 'bound'; print $!+0"
            )
        };
        assert_eq!(inside.perl(&bind(15001)), "98", "EADDRINUSE");
        assert_eq!(inside.perl(&bind(3128)), "98", "EADDRINUSE");
        let init = inside.perl("opendir(D, '/proc/1/fd') and print 'open'; print $!+0");
        assert_eq!(init, "13", "EACCES");
        let sockets = inside.perl(
            "opendir D, '/proc/self/fd'; print join ' ', grep { readlink(\"/proc/self/fd/$_\") =~ /socket|netlink/ } readdir D",
        );
        assert_eq!(sockets, "", "an agent inherited a socket");
        let effective = inside.perl("open F, '/proc/self/status'; /^Cap(Eff|Prm|Bnd|Amb|Inh):\\s+(\\w+)/ and print \"$2 \" while <F>");
        assert_eq!(effective, "0000000000000000 ".repeat(5));
    }
}

both! {
    /// Nothing but the gateway held the sockets: with it everything ends, instead of waiting for ever.
    fn without_a_gateway_everything_is_refused() {
        let (mut inside, gateway) = Inside::walled();
        drop(gateway);
        assert_eq!(inside.perl(&connect("203.0.113.7", 8443)), "111", "ECONNREFUSED");
        assert_eq!(inside.perl(&connect("127.0.0.1", 3128)), "111", "ECONNREFUSED");
        assert_eq!(inside.perl(&datagram("192.0.2.53", 53)), "111", "ECONNREFUSED");
        assert_eq!(inside.perl(&datagram("192.0.2.1", 443)), "1", "EPERM");
    }
}

/// Takes every rule out of a sandbox's namespace, from outside.
fn flush(inside: &Inside) -> std::process::Output {
    let launcher = inside.child.id();
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let init = fs::read_to_string(children).unwrap();
    let mut command = Command::new("nsenter");
    command.args(["--target", init.trim(), "--net"]);
    if !is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    // NFT_MSG_DELTABLE of every table, in a batch; the answer is an NLMSG_ERROR with 0.
    let script = "socket(S, 16, 3, 12) or die $!; my $b = pack('CCn', 0, 0, 10); \
                  my $m = sub { my ($k, $f, $b) = @_; pack('LSSLL', 16 + length $b, $k, $f, 0, 0) . $b }; \
                  send(S, $m->(16, 1, $b) . $m->(2562, 5, pack('L', 0)) . $m->(17, 1, $b), 0) or die $!; \
                  recv(S, my $a, 999, 0); exit -unpack('x16 l', $a)";
    command.args(["perl", "-e", script]).output().unwrap()
}

both! {
    /// Attack 10, with the rules really gone: the network is lost, and what nothing allows stays out of reach. An ordinary
    /// owner does not get so far: the init is not to be traced, and so its namespaces are not to be entered.
    fn without_its_rules_everything_ends_inside() {
        let (mut inside, gateway) = Inside::walled();
        // The control: with them a connection and a lookup arrive.
        let output = inside.begin(&connect("203.0.113.7", 8443));
        drop(gateway.connections.accept().unwrap());
        inside.end(output);
        let output = inside.begin(&datagram("192.0.2.53", 53));
        let (_, from) = gateway.lookups.recv_from(&mut [0; 99]).unwrap();
        gateway.lookups.send_to(b"answer", from).unwrap();
        assert_eq!(inside.end(output), "answer");
        assert_eq!(inside.perl(&datagram("192.0.2.1", 443)), "1", "EPERM");
        let done = flush(&inside);
        if !is_root() {
            assert!(String::from_utf8_lossy(&done.stderr).contains("Permission denied"), "{done:?}");
            assert_eq!(inside.perl(&datagram("192.0.2.1", 443)), "1", "the rules are there");
            return;
        }
        assert!(done.status.success(), "{done:?}");
        for listener in [&gateway.connections, &gateway.proxy] {
            listener.set_nonblocking(true).unwrap();
        }
        gateway.lookups.set_nonblocking(true).unwrap();
        for (to, port) in [("203.0.113.7", 8443), ("203.0.113.7", 443), ("169.254.169.254", 80), ("192.0.2.53", 53)] {
            assert_eq!(inside.perl(&connect(to, port)), "111", "ECONNREFUSED: {to}:{port}");
            assert_eq!(inside.perl(&datagram(to, port)), "111", "ECONNREFUSED: {to}:{port}");
        }
        // No address leads out: each is the sandbox's own, and the ports of the wall listen on its loopback alone.
        assert_eq!(inside.perl(&connect("203.0.113.7", protocol::REDIRECT_PORT)), "111");
        assert_eq!(inside.perl(&connect("203.0.113.7", protocol::PROXY_PORT)), "111");
        assert_eq!(inside.perl(&connect("2001:db8::1", 443)), "101", "ENETUNREACH");
        for listener in [&gateway.connections, &gateway.proxy] {
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        assert_eq!(gateway.lookups.recv_from(&mut [0; 99]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

both! {
    fn trying_the_wall_finds_what_is_there() {
        let (mut inside, gateway) = Inside::walled();
        let Gateway { connections, proxy, lookups, packets: _packets } = gateway;
        lookups.set_nonblocking(false).unwrap();
        lookups.set_read_timeout(Some(LIMIT)).unwrap();
        let found = std::thread::scope(|scope| {
            // A lookup over TCP, an address, two metadata services, and what passes.
            let connected = scope.spawn(|| {
                let mut wanted = Vec::new();
                for _ in 0..5 {
                    let mut stream = arrived(&connections);
                    let to = rustix::net::sockopt::ip_original_dst(&stream).unwrap().to_string();
                    if to == "198.18.0.7:4000" {
                        stream.write_all(b"passed").unwrap();
                    }
                    wanted.push(to);
                }
                wanted.sort();
                wanted
            });
            scope.spawn(|| {
                let mut stream = arrived(&proxy);
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
            });
            scope.spawn(|| {
                let (_, from) = lookups.recv_from(&mut [0; 512]).unwrap();
                lookups.send_to(b"no such name", from).unwrap();
                let mut question = [0; 512];
                let (got, from) = lookups.recv_from(&mut question).unwrap();
                assert!(question[..got].windows(6).any(|word| word == b"passes"));
                lookups.send_to(&[0, 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, 198, 18, 0, 7], from).unwrap();
            });
            let found = inside.prove();
            assert_eq!(
                connected.join().unwrap(),
                ["100.100.100.200:80", "169.254.169.254:80", "192.0.2.1:53", "198.18.0.7:4000", "198.19.255.254:443"]
            );
            found
        });
        assert_eq!(found.interfaces, ["lo"]);
        let of = |attempt| {
            let mut all = found.attempts.iter().filter(|finding| finding.attempt == attempt);
            let first = all.next().unwrap().outcome.clone();
            assert_eq!(all.next(), None);
            first
        };
        assert_eq!(of(Attempt::LookupUdp), Observed::Answered(b"no such name".to_vec()));
        assert_eq!(of(Attempt::Passage), Observed::Answered(b"passed".to_vec()));
        assert!(matches!(of(Attempt::Proxy), Observed::Answered(said) if said.starts_with(b"HTTP/1.1 403")));
        for (attempt, errno) in [
            (Attempt::Datagram, 1),
            (Attempt::Ping, 13),
            (Attempt::Raw, 1),
            (Attempt::Packet, 97),
            (Attempt::ConnectV6, 101),
            (Attempt::DatagramV6, 101),
        ] {
            assert_eq!(of(attempt), Observed::Refused(errno), "{attempt:?}");
        }
        for attempt in [Attempt::LookupTcp, Attempt::Address, Attempt::Metadata, Attempt::OtherMetadata] {
            assert!(matches!(of(attempt), Observed::Refused(_)), "{attempt:?}");
        }
    }
}

both! {
    fn without_a_network_there_is_nothing_to_hand_over() {
        let (mut inside, sockets) = Inside::start(Network::None);
        assert!(sockets.is_empty());
        assert_eq!(inside.perl(&connect("203.0.113.7", 8443)), "101", "ENETUNREACH");
        assert_eq!(inside.perl("print -s '/etc/resolv.conf'"), "0");
    }
}

both! {
    fn the_open_network_is_the_hosts_with_its_names() {
        let (mut inside, sockets) = Inside::start(Network::Open);
        assert!(sockets.is_empty());
        let host = fs::read_link("/proc/self/ns/net").unwrap();
        assert_eq!(inside.perl("print readlink '/proc/self/ns/net'"), host.to_str().unwrap());
        let resolv = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        assert_eq!(inside.perl("open F, '/etc/resolv.conf'; print <F>"), resolv);
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
        assert!(inside.perl("open F, '/etc/hosts'; print <F>").ends_with(&hosts));
    }
}

both! {
    /// Where the kernel can scope abstract sockets. Where it cannot, a program reaches it: the test says so.
    fn on_the_open_network_the_hosts_abstract_sockets_are_out_of_reach() {
        let name = format!("cofferdam-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let dial = format!(
            "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); \
             connect(S, pack_sockaddr_un(\"\\0{name}\")) and print 'connected'; print $!+0"
        );
        let (mut inside, _) = Inside::start(Network::Open);
        // landlock_create_ruleset(2) tells its version; from 6 on there are scopes.
        let version = inside.perl("my $v = syscall(444, 0, 0, 1); print $v");
        let scopes = version.parse::<i32>().unwrap() >= 6;
        let expected = if scopes { "1" } else { "connected0" };
        assert_eq!(inside.perl(&dial), expected, "version {version}");
        drop(listener);
    }
}
