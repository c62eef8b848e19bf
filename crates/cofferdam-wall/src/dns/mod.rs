//! Name lookups of a sandbox, answered from the policy alone: nothing is ever forwarded.
//!
//! An allowed name has one synthetic IPv4 address and no other records; every other name does not exist.
//! So a lookup carries nothing out, and no record (HTTPS, SVCB) can steer a client around the wall.

mod frame;
mod query;

use std::net::Ipv4Addr;

pub use frame::{FrameError, Frames, frame};
pub use query::MAX_QUERY;
use query::{Query, Wrong};

use crate::name::HostName;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::synthetic::{Synthetic, TableFull};

/// The longest answer: header, question of one name, one address. Fits plain UDP (RFC 1035: 512).
pub const MAX_ANSWER: usize = 12 + 255 + 4 + 16;

/// How long an address may be remembered, in seconds. Refusals carry no time: they are not remembered,
/// because a rule may open the name in the next moment.
const TTL: u32 = 60;

const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;

/// What came of a query, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The name is allowed: its synthetic address.
    Address(HostName, Ipv4Addr),
    /// The name is allowed, and has no record of this type.
    NoRecord(HostName, u16),
    /// The name does not exist for this sandbox.
    Refused(Refusal),
    /// What was asked for is no host name (the root, an address, bytes that no name has): it does not exist.
    NotAHostName,
    /// Not a question of class IN.
    Unsupported,
    /// Not readable as a query.
    Malformed,
    /// The name is allowed, and it is one of too many: see [`answer_if`].
    TooMany(HostName),
    /// No address is left for the name.
    Full(HostName, TableFull),
}

/// The answer to one query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The message to send back, at most [`MAX_ANSWER`] bytes; none where answering would be wrong (an
    /// answer, or too short to have an id).
    pub message: Option<Vec<u8>>,
    /// What came of it.
    pub outcome: Resolution,
}

/// Response codes (RFC 1035, 4.1.1).
#[derive(Debug, Clone, Copy)]
enum Code {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    Refused = 5,
}

/// Answers one query from the policy and gives an allowed name its address.
pub fn answer(message: &[u8], policy: &Policy, table: &mut Synthetic) -> Answer {
    answer_if(message, policy, table, |_, _| true)
}

/// The answer to a query that comes too soon after many others: try later.
pub fn busy(message: &[u8]) -> Option<Vec<u8>> {
    let query = Query::parse(message).ok()?;
    query
        .reply(Code::ServFail, None, Resolution::Malformed)
        .message
}

/// As [`answer`], if `admit` takes the name that this rule allows.
pub fn answer_if(
    message: &[u8],
    policy: &Policy,
    table: &mut Synthetic,
    admit: impl FnOnce(&HostName, &Rule) -> bool,
) -> Answer {
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(Wrong::Unanswerable) => {
            return Answer {
                message: None,
                outcome: Resolution::Malformed,
            };
        }
        Err(Wrong::Form) => return without_question(message, Code::FormErr, Resolution::Malformed),
        Err(Wrong::Opcode) => {
            return without_question(message, Code::Refused, Resolution::Unsupported);
        }
    };
    if query.class != CLASS_IN {
        return query.reply(Code::Refused, None, Resolution::Unsupported);
    }
    let Some(name) = query.name() else {
        return query.reply(Code::NxDomain, None, Resolution::NotAHostName);
    };
    let rule = match policy.decide_lookup(&name) {
        Ok(rule) => Some(rule),
        // Every sandbox knows the name. What it asks of it is decided with the port, and the refusal of
        // that names the rule to make, which a lookup without a port cannot.
        Err(_) if name.is_host() => None,
        Err(refusal) => return query.reply(Code::NxDomain, None, Resolution::Refused(refusal)),
    };
    if query.kind != TYPE_A {
        let outcome = Resolution::NoRecord(name, query.kind);
        return query.reply(Code::NoError, None, outcome);
    }
    if !rule.is_none_or(|rule| admit(&name, rule)) {
        return query.reply(Code::ServFail, None, Resolution::TooMany(name));
    }
    match table.address_of(&name) {
        Ok(address) => query.reply(
            Code::NoError,
            Some(address),
            Resolution::Address(name, address),
        ),
        Err(full) => query.reply(Code::ServFail, None, Resolution::Full(name, full)),
    }
}

impl Query<'_> {
    /// Repeats the question byte for byte: clients that vary the case of letters compare it.
    fn reply(&self, code: Code, address: Option<Ipv4Addr>, outcome: Resolution) -> Answer {
        let mut message = header(self.id, self.flags, code, 1, u16::from(address.is_some()));
        message.extend_from_slice(self.question);
        if let Some(address) = address {
            message.extend_from_slice(&[0xc0, 12]); // the name of the question
            message.extend_from_slice(&TYPE_A.to_be_bytes());
            message.extend_from_slice(&CLASS_IN.to_be_bytes());
            message.extend_from_slice(&TTL.to_be_bytes());
            message.extend_from_slice(&4_u16.to_be_bytes());
            message.extend_from_slice(&address.octets());
        }
        Answer {
            message: Some(message),
            outcome,
        }
    }
}

fn without_question(message: &[u8], code: Code, outcome: Resolution) -> Answer {
    let [id_high, id_low, flags_high, flags_low, ..] = *message else {
        return Answer {
            message: None,
            outcome,
        };
    };
    let id = u16::from_be_bytes([id_high, id_low]);
    let flags = u16::from_be_bytes([flags_high, flags_low]);
    Answer {
        message: Some(header(id, flags, code, 0, 0)),
        outcome,
    }
}

fn header(id: u16, flags: u16, code: Code, questions: u16, answers: u16) -> Vec<u8> {
    const RESPONSE: u16 = 0x8000;
    const OPCODE_AND_RECURSION_DESIRED: u16 = 0x7900;
    const RECURSION_AVAILABLE: u16 = 0x0080;
    let flags =
        RESPONSE | (flags & OPCODE_AND_RECURSION_DESIRED) | RECURSION_AVAILABLE | code as u16;
    let mut message = Vec::with_capacity(MAX_ANSWER);
    for field in [id, flags, questions, answers, 0, 0] {
        message.extend_from_slice(&field.to_be_bytes());
    }
    message
}

#[cfg(test)]
mod tests;
