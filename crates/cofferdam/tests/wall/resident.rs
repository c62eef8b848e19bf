//! A sandbox that outlives its maker keeps duplicates of the wall's sockets: for whoever is outside, and for nobody
//! inside.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    BindMountProvider, ExecRequest, Handle, Lifetime, Network, Sandbox, SandboxError, SandboxSpec,
};
use cofferdam::wall::Registration;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::support::{House, block_on};

/// Ended also where its test fails.
struct Ended(Handle);

impl Drop for Ended {
    fn drop(&mut self) {
        block_on(Native::default().remove(&self.0)).unwrap();
    }
}

/// What a program inside says.
async fn perl(sandbox: &dyn Sandbox, script: &str) -> String {
    let request = ExecRequest::new(["perl", "-e", script]);
    let mut run = sandbox.exec(request).await.unwrap();
    let mut said = String::new();
    let mut stdout = run.take_stdout().unwrap();
    stdout.read_to_string(&mut said).await.unwrap();
    run.wait().await.unwrap();
    said
}

/// The error number of a connection to the proxy that asks for a host which no rule names, or what is answered.
const ASKS: &str = "use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 3128) \
    or do { print $!+0; exit }; $s->print(\"CONNECT refused.invalid:443 HTTP/1.1\\r\\nHost: refused.invalid:443\\r\\n\\r\\n\"); \
    local $SIG{ALRM} = sub { print 'silence'; exit }; alarm 1; my $line = <$s>; print substr $line // 'closed', 0, 10";

// covers: S3-51
#[test]
fn its_place_behind_the_wall_is_kept_by_whoever_is_outside() {
    let house = House::new();
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let wall = house.spec(&[]);
    let handle = Handle {
        id: wall.sandbox,
        state: state.path().to_owned(),
    };
    let mut spec = SandboxSpec::new(wall.sandbox, wall.name.clone(), "cofferdam-test", "/");
    spec.network = Network::Wall(Box::new(wall.clone()));
    spec.lifetime = Lifetime::UntilRemoved {
        state: state.path().to_owned(),
    };
    let _ended = Ended(handle.clone());
    block_on(async {
        let native = Native::default();
        let made: Arc<dyn Sandbox> = native
            .create(&spec, &CancellationToken::new())
            .await
            .unwrap();
        made.stay().await.unwrap();
        assert_eq!(perl(&*made, ASKS).await, "HTTP/1.1 4", "the control");
        // Its maker goes, and with it what kept its place.
        drop(made);
        let sandbox = native.open(&handle).await.unwrap();
        assert!(sandbox.wall().is_none());
        assert_eq!(perl(&*sandbox, ASKS).await, "silence", "nothing is carried");
        let sockets = sandbox.sockets().await.unwrap();
        let kept = Registration::register(&wall, sockets).await.unwrap();
        kept.open().await.unwrap();
        assert_eq!(perl(&*sandbox, ASKS).await, "HTTP/1.1 4");
        // As often as it is needed.
        drop(kept);
        let kept = Registration::register(&wall, sandbox.sockets().await.unwrap())
            .await
            .unwrap();
        kept.open().await.unwrap();
        assert_eq!(perl(&*sandbox, ASKS).await, "HTTP/1.1 4");

        // Programs inside have init's uid. None of the ways to another process's descriptors leads there.
        for (way, script) in [
            (
                "its own",
                "opendir D, '/proc/self/fd'; print grep { readlink(\"/proc/self/fd/$_\") =~ /socket|netlink/ } readdir D",
            ),
            ("/proc/1/fd", "opendir(D, '/proc/1/fd') and print 'open'"),
            (
                "/proc/1/fdinfo",
                "opendir(D, '/proc/1/fdinfo') and print 'open'",
            ),
            (
                "/proc/1/root",
                "opendir(D, '/proc/1/root/') and print 'open'",
            ),
            (
                "pidfd_getfd",
                "my $p = syscall(434, 1, 0); print 'open' if $p < 0; \
                for my $fd (3 .. 40) { print 'open' if syscall(438, $p, $fd, 0) >= 0 }",
            ),
            (
                "ptrace",
                "print 'open' if syscall(101, 16, 1, 0, 0) >= 0; print 'open' if syscall(101, 0x4206, 1, 0, 0) >= 0",
            ),
            (
                "its memory",
                "open(F, '+<', '/proc/1/mem') and print 'open'",
            ),
        ] {
            assert_eq!(perl(&*sandbox, script).await, "", "{way}");
        }
        // The control: of a process like itself it reads them.
        let own = "my $p = fork // die; if (!$p) { sleep 100; exit } opendir(D, \"/proc/$p/fd\") and print 'open'; kill 9, $p";
        assert_eq!(perl(&*sandbox, own).await, "open");
        sandbox.close().await.unwrap();
        assert!(matches!(
            native.open(&handle).await,
            Err(SandboxError::NotRunning)
        ));
    });
}
