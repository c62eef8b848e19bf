//! One attack's run: what must work, what must fire without the wall, what must be refused behind it.

use std::fmt::Debug;

use cofferdam_lab::lab::control::Mark;
use cofferdam_lab::lab::{Packet, Transport, Visit, place};
use cofferdam_lab::probe::{Outcome, Step, Task};

use crate::bench::{ALLOWED, Bench};
use crate::place::Place;

pub(crate) struct Trial<'a> {
    pub(crate) bench: &'a Bench,
    number: u8,
    nonces: u32,
    pub(crate) works: bool,
    pub(crate) fired: bool,
    pub(crate) refused: bool,
    pub(crate) problems: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(bench: &'a Bench, number: u8) -> Self {
        Self {
            bench,
            number,
            nonces: 0,
            works: false,
            fired: false,
            refused: false,
            problems: Vec::new(),
        }
    }

    /// A word that nothing else in this lab says. It is a label of a name, and valid in any protocol.
    pub(crate) fn nonce(&mut self) -> String {
        self.nonces += 1;
        format!("nonce{:02}x{:03}q", self.number, self.nonces)
    }

    /// What must work behind the wall does.
    pub(crate) fn works(&mut self, what: &str, yes: bool, detail: &impl Debug) {
        self.works |= yes;
        self.check("does not work behind the wall", what, yes, detail);
    }

    /// The attack does its harm where there is no wall.
    pub(crate) fn fires(&mut self, what: &str, yes: bool, detail: &impl Debug) {
        self.fired |= yes;
        self.check("does not fire without the wall", what, yes, detail);
    }

    /// It does none behind the wall.
    pub(crate) fn refuses(&mut self, what: &str, yes: bool, detail: &impl Debug) {
        self.refused |= yes;
        self.check("is not refused", what, yes, detail);
    }

    fn check(&mut self, problem: &str, what: &str, yes: bool, detail: &impl Debug) {
        if !yes {
            let mut detail = format!("{detail:?}");
            detail.truncate(detail.floor_char_boundary(1200));
            self.problems.push(format!("{what} {problem}: {detail}"));
        }
    }

    /// A deed with a nonce: it gets out of the open sandbox, and nothing gets out behind the wall.
    pub(crate) fn exfil(&mut self, what: &str, deed: impl Fn(&Place, &str) -> Outcome) {
        self.exfil_against(&self.bench.open, what, deed);
    }

    /// As [`Self::exfil`], from another sandbox behind a wall.
    pub(crate) fn exfil_from(
        &mut self,
        wall: &Place,
        what: &str,
        deed: impl Fn(&Place, &str) -> Outcome,
    ) {
        let nonce = self.nonce();
        let outcome = deed(&self.bench.open, &nonce);
        self.fires(what, !self.found(&nonce).is_empty(), &outcome);
        self.stays_in(what, wall, deed);
    }

    /// As [`Self::exfil`], with another control: some attacks not even the open sandbox lets happen.
    pub(crate) fn exfil_against(
        &mut self,
        control: &Place,
        what: &str,
        deed: impl Fn(&Place, &str) -> Outcome,
    ) {
        let nonce = self.nonce();
        let outcome = deed(control, &nonce);
        self.fires(what, !self.found(&nonce).is_empty(), &outcome);
        self.stays_in(what, &self.bench.wall, deed);
    }

    /// The deed gets nothing out behind the wall: no nonce, no new connection, no datagram.
    pub(crate) fn stays_in(
        &mut self,
        what: &str,
        wall: &Place,
        deed: impl Fn(&Place, &str) -> Outcome,
    ) {
        let nonce = self.nonce();
        let mark = self.bench.control.mark().unwrap();
        let outcome = deed(wall, &nonce);
        let found = self.found(&nonce);
        self.refuses(what, found.is_empty(), &(&found, &outcome));
        let left = self.left_since(mark);
        self.refuses(what, left.is_empty(), &(&left, &outcome));
        // Refused means at once: an agent must not hang. Who waits in vain gives up later, the resolver after 5 s.
        self.refuses(what, outcome.millis < 4900, &outcome);
    }

    /// What went out anew, whoever sent it.
    pub(crate) fn left_since(&self, mark: Mark) -> Vec<Packet> {
        let packets = self.bench.control.since(mark).unwrap().packets;
        packets.into_iter().filter(leaves).collect()
    }

    /// Where the lab or a service of the house saw it.
    pub(crate) fn found(&self, nonce: &str) -> Vec<String> {
        let seen = self.bench.control.search(nonce).unwrap();
        let packets = seen.packets.iter().map(|found| format!("{found:?}"));
        let queries = seen.queries.iter().map(|found| format!("{found:?}"));
        let visits = seen.visits.iter().map(|found| format!("{found:?}"));
        let house = self.bench.house_services.heard(nonce).into_iter();
        packets
            .chain(queries)
            .chain(visits)
            .chain(house)
            .take(20)
            .collect()
    }

    /// The origins that saw it.
    pub(crate) fn visits(&self, nonce: &str) -> Vec<Visit> {
        self.bench.control.search(nonce).unwrap().visits
    }

    /// The wall lets through what the rules allow, still.
    pub(crate) fn allowed_works(&mut self) {
        let wall = &self.bench.wall;
        let outcome = wall.ask(&http("allowed.test:80", "allowed.test", "/"));
        let there = outcome.heard.contains(&format!("\"at\":\"{ALLOWED}:80\""));
        self.works("http to allowed.test", there, &outcome);
    }
}

/// Something new that goes out of the house. What ends old connections is not, nor is finding neighbours
/// or the gateway's own lookups, whose names the nonce covers.
fn leaves(packet: &Packet) -> bool {
    let to_us = packet.to.to_string() == place::HOUSE || packet.to.to_string() == place::HOUSE_6;
    // The kernel's own word to its neighbours on the wire (MLD, router solicitation).
    let to_neighbours = packet.to.is_multicast() && packet.to.is_ipv6();
    match packet.transport {
        _ if to_us || to_neighbours => false,
        Transport::Syn | Transport::Other(_) => true,
        Transport::Udp => packet.to_port != 53 || packet.to.to_string() != place::DNS,
        Transport::Icmp => packet.from.is_ipv4(),
        Transport::Tcp | Transport::Link(_) => false,
    }
}

/// Connects, says it, and takes what comes.
pub(crate) fn tcp(to: &str, say: impl Into<Vec<u8>>) -> Task {
    Task::Tcp {
        to: to.to_owned(),
        steps: vec![Step::say(say), Step::HearAll],
    }
}

/// A nonce as something that servers of lines answer at once.
pub(crate) fn line(nonce: &str) -> String {
    format!("{nonce}\r\n\r\n")
}

/// Connects and says the nonce.
pub(crate) fn word(to: &str, nonce: &str) -> Task {
    tcp(to, line(nonce))
}

/// One request.
pub(crate) fn request(host: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

pub(crate) fn http(to: &str, host: &str, target: &str) -> Task {
    tcp(to, request(host, target))
}
