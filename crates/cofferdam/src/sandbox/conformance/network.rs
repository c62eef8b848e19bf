//! What a sandbox reaches.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::trial::{Trial, ok, refused};
use super::{Failure, Outcome, ensure};
use crate::home::Home;
use crate::sandbox::{Network, NetworkKind, Sandbox, SandboxSpec};
use crate::wall::WallSpec;
use crate::wall::rules::Sources;

/// Calls a server of the host's by whatever is inside; `$1`: host, `$2`: port. Fails where it is not reached.
const CALL: &str = "call() { \
     if command -v bash >/dev/null; then timeout 3 bash -c 'exec 3<>/dev/tcp/$0/$1; cat <&3' $1 $2; \
     else timeout 3 nc -w 2 $1 $2 </dev/null; fi | grep HELLO; }; ";

const HELLO: &[u8] = b"HELLO\n";

/// A server on the host's loopback that counts who comes.
fn server() -> Result<(u16, Arc<AtomicUsize>), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for caller in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            // Whoever hangs up before hears nothing.
            let _ = (&caller).write_all(HELLO);
        }
    });
    // That it answers at all.
    let mut heard = Vec::new();
    std::net::TcpStream::connect(("127.0.0.1", port))?.read_to_end(&mut heard)?;
    ensure!(heard == HELLO, "the host's own server does not answer");
    Ok((port, count))
}

/// Behind a wall without a rule.
pub(super) fn walled(trial: &Trial<'_>, spec: &SandboxSpec) -> Result<Network, Failure> {
    let home = Home::new(trial.directory("home")?);
    Ok(Network::Wall(Box::new(WallSpec {
        home: home.clone(),
        sandbox: spec.id,
        name: spec.slug.clone(),
        sources: Sources {
            home,
            repository: None,
            sandbox: Some(spec.id),
            flags: Vec::new(),
        },
    })))
}

async fn is_alone(sandbox: &dyn Sandbox) -> Result<(), Failure> {
    let names = ok(
        sandbox,
        "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
    )
    .await?;
    ensure!(names == "lo\n", "it has the interfaces {names:?}");
    let (port, count) = server()?;
    let before = count.load(Ordering::Relaxed);
    for host in [
        "127.0.0.1",
        "localhost",
        "192.0.2.1",
        "198.51.100.7",
        "host.docker.internal",
    ] {
        refused(sandbox, &[&format!("{CALL} call {host} {port}")]).await?;
    }
    let came = count.load(Ordering::Relaxed) - before;
    ensure!(came == 0, "a server of the host's was reached {came} times");
    let scripts = [
        "ip link add dummy0 type dummy",
        "ip addr add 192.0.2.9/32 dev lo",
        "ip route add default dev lo",
        "ping -c 1 -W 1 192.0.2.1",
    ];
    refused(sandbox, &scripts).await
}

pub(super) async fn without_one_there_is_only_its_own_loopback(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let provider = &trial.subject.provider;
    if !provider.abilities().networks.contains(&NetworkKind::None) {
        let name = provider.name();
        return Ok(Outcome::NotTried(format!(
            "{name} gives no sandbox without a network"
        )));
    }
    is_alone(&*trial.any().await?).await?;
    Ok(Outcome::Passed)
}

pub(super) async fn behind_the_wall_nothing_is_reached_that_no_rule_names(
    trial: &Trial<'_>,
) -> Result<Outcome, Failure> {
    let provider = &trial.subject.provider;
    if !provider
        .abilities()
        .networks
        .contains(&NetworkKind::Allowlist)
    {
        return Ok(Outcome::NotTried(format!(
            "{} has no wall",
            provider.name()
        )));
    }
    let mut spec = trial.spec()?;
    spec.network = walled(trial, &spec)?;
    let sandbox = trial.create(&spec).await?;
    ensure!(sandbox.wall().is_some(), "nobody keeps it behind a wall");
    is_alone(&*sandbox).await?;
    Ok(Outcome::Passed)
}
