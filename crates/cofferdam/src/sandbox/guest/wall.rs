//! Puts a sandbox behind the wall, and starts nothing in it before the wall was tried from inside.
//!
//! [`judge`] is pure: what the attempts found, and what arrived at the gateway meanwhile. There are two positive
//! controls: an attempt that was refused by accident never arrives at the gateway, and one attempt must pass and
//! bring back what only the gateway knew.

use std::os::fd::OwnedFd;
use std::time::Duration;

use cofferdam_guest::protocol::{
    self, Attempt, Findings, Observed, Passage, Reply, Request, WALL_SOCKETS,
};
use cofferdam_wall::HostName;
use tokio::net::UnixStream;

use super::stream::{self, Received};
use crate::sandbox::{Network, SandboxError};
use crate::wall::{Registration, Seen, Sockets, WallError};

/// How long trying the wall may take; about a millisecond where it stands.
const LIMIT: Duration = Duration::from_secs(10);

/// Registers a sandbox that has a wall, tries the wall, and puts the policy in force. One without hands nothing over.
pub(in crate::sandbox) async fn raise(
    stream: &UnixStream,
    sockets: Vec<OwnedFd>,
    network: &Network,
) -> Result<Option<Registration>, SandboxError> {
    let Network::Wall(spec) = network else {
        if sockets.is_empty() {
            return Ok(None);
        }
        let what = "its init handed over what nobody asked for";
        return Err(SandboxError::Start(what.to_owned()));
    };
    let Ok::<[OwnedFd; WALL_SOCKETS], _>([connections, proxy, lookups, packets]) =
        sockets.try_into()
    else {
        let what = "its init did not hand over the wall's sockets";
        return Err(SandboxError::Start(what.to_owned()));
    };
    let sockets = Sockets {
        connections,
        proxy,
        lookups,
        packets,
    };
    let registration = Registration::register(spec, sockets).await?;
    let proof = registration.proof();
    let findings = tokio::time::timeout(LIMIT, prove(stream, proof.port))
        .await
        .unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))?;
    let seen = registration.open().await?;
    match judge(&findings, &seen, &proof.answer) {
        failed if failed.is_empty() => Ok(Some(registration)),
        failed => Err(WallError::Breached(failed.join("; ")).into()),
    }
}

async fn prove(stream: &UnixStream, port: u16) -> Result<Findings, SandboxError> {
    let broken = |what: String| SandboxError::Start(format!("its wall was not tried: {what}"));
    let passes = Passage {
        name: HostName::HOST.to_owned(),
        port,
    };
    let request = Request::Prove { request: 0, passes };
    let frame = protocol::encode(&request).map_err(|error| broken(error.to_string()))?;
    stream::send(stream, &frame, &[])
        .await
        .map_err(|error| broken(error.to_string()))?;
    let received = stream::receive(stream).await;
    match received.map(|received| received.map(|Received { reply, .. }| reply)) {
        Ok(Some(Reply::Proved { findings, .. })) => Ok(findings),
        Ok(Some(Reply::Failed { errno, .. })) => {
            Err(broken(std::io::Error::from_raw_os_error(errno).to_string()))
        }
        Ok(_) => Err(broken("its init said something else".to_owned())),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// Every check that failed, in words; none where the wall stands and carries. `answer` is what must come back.
fn judge(findings: &Findings, seen: &Seen, answer: &[u8]) -> Vec<String> {
    let mut failed = Vec::new();
    if findings.interfaces != ["lo"] {
        let found: Vec<String> = findings
            .interfaces
            .iter()
            .map(|name| crate::text::printable(name))
            .collect();
        failed.push(format!(
            "there are network interfaces besides `lo`: {}",
            found.join(", ")
        ));
    }
    for attempt in Attempt::ALL {
        let mut outcomes = findings
            .attempts
            .iter()
            .filter(|finding| finding.attempt == attempt)
            .map(|finding| &finding.outcome);
        let what = name(attempt);
        match (outcomes.next(), outcomes.next()) {
            (Some(Observed::Answered(got)), None)
                if attempt == Attempt::Passage && got == answer => {}
            (Some(_), None) if attempt == Attempt::Passage => {
                failed.push(format!("{what} was not carried"));
            }
            (Some(outcome), None) if is_refused(attempt, outcome) => {}
            (Some(Observed::Silence), None) => failed.push(format!("{what} got no answer")),
            (Some(_), None) => failed.push(format!("{what} was not refused")),
            _ => failed.push(format!("{what} was not tried")),
        }
    }
    let arrived = [
        (seen.lookups, LOOKUPS, "lookups"),
        (seen.connections, CONNECTIONS, "connections"),
        (seen.proxied, PROXIED, "connections to the proxy"),
        (seen.packets, PACKETS, "refused packets"),
    ];
    for (count, tried, what) in arrived {
        if count < tried {
            failed.push(format!("of {tried} {what}, {count} arrived at the gateway"));
        }
    }
    failed
}

/// What must arrive at the gateway: lookups over UDP and TCP and the one of what passes, one address and two metadata
/// services and what passes, the kernel's report of the datagram.
const LOOKUPS: u32 = 3;
const CONNECTIONS: u32 = 4;
const PROXIED: u32 = 1;
const PACKETS: u32 = 1;

fn name(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::LookupUdp => "a lookup of a name that no rule names",
        Attempt::LookupTcp => "the same lookup over TCP",
        Attempt::Address => "a connection to an address that no rule names",
        Attempt::Metadata | Attempt::OtherMetadata => "a connection to a cloud metadata service",
        Attempt::Datagram => "a UDP datagram",
        Attempt::Ping => "a ping socket",
        Attempt::Raw => "a raw socket",
        Attempt::Packet => "a packet socket",
        Attempt::ConnectV6 => "a connection over IPv6",
        Attempt::DatagramV6 => "a datagram over IPv6",
        Attempt::Proxy => "a refused name by way of the proxy",
        Attempt::Passage => "a connection that must pass",
    }
}

fn is_refused(attempt: Attempt, outcome: &Observed) -> bool {
    match (attempt, outcome) {
        (Attempt::LookupUdp | Attempt::LookupTcp, Observed::Answered(answer)) => {
            does_not_exist(answer)
        }
        // A lookup that could not be made proves nothing.
        (Attempt::LookupUdp | Attempt::LookupTcp, _) => false,
        (Attempt::Proxy, Observed::Answered(answer)) => answer.starts_with(b"HTTP/1.1 4"),
        (attempt, Observed::Refused(errno)) => {
            refusals(attempt).is_none_or(|expected| expected.contains(errno))
        }
        (_, Observed::Answered(_) | Observed::Silence) => false,
    }
}

/// The error numbers by which a wall refuses. Another one says that the attempt failed for a reason of its
/// own, which proves nothing. None: any, as for connections, which are counted where they arrive.
fn refusals(attempt: Attempt) -> Option<&'static [i32]> {
    match attempt {
        Attempt::Datagram => Some(&[libc::EPERM, libc::EACCES, libc::EHOSTUNREACH]),
        Attempt::Ping | Attempt::Raw | Attempt::Packet => Some(&[
            libc::EPERM,
            libc::EACCES,
            libc::EAFNOSUPPORT,
            libc::EPROTONOSUPPORT,
        ]),
        Attempt::ConnectV6 | Attempt::DatagramV6 => Some(&[
            libc::ENETUNREACH,
            libc::EADDRNOTAVAIL,
            libc::EPERM,
            libc::EAFNOSUPPORT,
        ]),
        Attempt::LookupUdp
        | Attempt::LookupTcp
        | Attempt::Address
        | Attempt::Metadata
        | Attempt::OtherMetadata
        | Attempt::Proxy
        | Attempt::Passage => None,
    }
}

/// An answer (QR) with the code NXDOMAIN and no record (RFC 1035, 4.1.1).
fn does_not_exist(answer: &[u8]) -> bool {
    matches!(answer, [_, _, flags, code, _, _, 0, 0, ..] if flags & 0x80 != 0 && code & 0x0f == 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_guest::protocol::{Finding, REFUSED_ADDRESS};

    const NXDOMAIN: [u8; 12] = [0x43, 0x64, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0];

    const ANSWER: [u8; 4] = *b"said";

    fn standing() -> (Findings, Seen) {
        let outcome = |attempt| match attempt {
            Attempt::LookupUdp | Attempt::LookupTcp => Observed::Answered(NXDOMAIN.into()),
            Attempt::Proxy => Observed::Answered(b"HTTP/1.1 403 Forbidden\r\n".into()),
            Attempt::Passage => Observed::Answered(ANSWER.into()),
            Attempt::ConnectV6 | Attempt::DatagramV6 => Observed::Refused(libc::ENETUNREACH),
            Attempt::Datagram | Attempt::Ping | Attempt::Raw | Attempt::Packet => {
                Observed::Refused(libc::EPERM)
            }
            _ => Observed::Refused(libc::ECONNRESET),
        };
        let findings = Findings {
            interfaces: vec!["lo".to_owned()],
            attempts: Attempt::ALL
                .map(|attempt| Finding {
                    attempt,
                    outcome: outcome(attempt),
                })
                .into(),
        };
        let seen = Seen {
            lookups: LOOKUPS,
            connections: CONNECTIONS,
            proxied: PROXIED,
            packets: 1,
        };
        (findings, seen)
    }

    #[test]
    fn a_wall_that_stands_passes() {
        let (findings, seen) = standing();
        assert_eq!(judge(&findings, &seen, &ANSWER), Vec::<String>::new());
    }

    #[test]
    fn each_attempt_that_gets_through_fails() {
        for attempt in Attempt::ALL {
            let through = [
                Observed::Answered(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
                Observed::Answered(Vec::new()),
                Observed::Silence,
            ];
            for outcome in through {
                let (mut findings, seen) = standing();
                for finding in &mut findings.attempts {
                    if finding.attempt == attempt {
                        finding.outcome = outcome.clone();
                    }
                }
                assert_eq!(
                    judge(&findings, &seen, &ANSWER).len(),
                    1,
                    "{attempt:?} {outcome:?}"
                );
            }
            let (mut findings, seen) = standing();
            findings
                .attempts
                .retain(|finding| finding.attempt != attempt);
            assert_eq!(
                judge(&findings, &seen, &ANSWER).len(),
                1,
                "{attempt:?} left out"
            );
        }
    }

    /// A wall that refuses everything is none: nothing says that what it refuses would have worked.
    // covers: S3-51
    #[test]
    fn what_must_pass_and_does_not_fails() {
        for outcome in [
            Observed::Refused(libc::ECONNRESET),
            Observed::Refused(0),
            Observed::Silence,
            Observed::Answered(Vec::new()),
            Observed::Answered(b"sai".to_vec()),
            Observed::Answered(b"said more".to_vec()),
        ] {
            let (mut findings, seen) = standing();
            for finding in &mut findings.attempts {
                if finding.attempt == Attempt::Passage {
                    finding.outcome = outcome.clone();
                }
            }
            assert_eq!(
                judge(&findings, &seen, &ANSWER),
                ["a connection that must pass was not carried"],
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn what_did_not_arrive_at_the_gateway_was_refused_by_accident() {
        for number in 0..4 {
            let (findings, mut seen) = standing();
            match number {
                0 => seen.lookups = 2,
                1 => seen.connections = 3,
                2 => seen.proxied = 0,
                _ => seen.packets = 0,
            }
            assert_eq!(judge(&findings, &seen, &ANSWER).len(), 1, "{seen:?}");
        }
    }

    #[test]
    fn an_attempt_that_failed_for_a_reason_of_its_own_proves_nothing() {
        let by_itself = [
            (Attempt::Datagram, libc::EINVAL),
            (Attempt::Ping, libc::EMFILE),
            (Attempt::Raw, libc::ENOMEM),
            (Attempt::Packet, libc::EINVAL),
            (Attempt::ConnectV6, libc::ECONNREFUSED),
            (Attempt::DatagramV6, libc::EMFILE),
            (Attempt::LookupUdp, libc::ECONNREFUSED),
        ];
        for (attempt, errno) in by_itself {
            let (mut findings, seen) = standing();
            for finding in &mut findings.attempts {
                if finding.attempt == attempt {
                    finding.outcome = Observed::Refused(errno);
                }
            }
            assert_eq!(
                judge(&findings, &seen, &ANSWER).len(),
                1,
                "{attempt:?} {errno}"
            );
        }
    }

    #[test]
    fn the_address_that_is_tried_never_stands_for_a_name() {
        assert_eq!(
            std::net::Ipv4Addr::from(REFUSED_ADDRESS),
            cofferdam_wall::Synthetic::NEVER
        );
    }

    #[test]
    fn another_interface_fails() {
        let (mut findings, seen) = standing();
        findings.interfaces.push("eth0".to_owned());
        assert_eq!(
            judge(&findings, &seen, &ANSWER),
            ["there are network interfaces besides `lo`: lo, eth0"]
        );
    }
}
