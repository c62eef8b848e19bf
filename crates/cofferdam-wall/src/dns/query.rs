//! One query as bytes: bounded, and without following a single pointer.

use crate::name::HostName;

/// The longest query that is read, in bytes. One name needs 271; the rest is room for EDNS options.
pub const MAX_QUERY: usize = 1232;

/// Why a message is not a query that can be decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Too short to answer, or itself an answer: answering those makes loops.
    Unanswerable,
    /// Not by the format.
    Form,
    /// Something else than a standard query.
    Opcode,
}

/// A standard query with its one question.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) id: u16,
    pub(super) flags: u16,
    /// The type that is asked for.
    pub(super) kind: u16,
    pub(super) class: u16,
    /// The whole question as it came: name, type, class.
    pub(super) question: &'a [u8],
}

impl<'a> Query<'a> {
    const HEADER: usize = 12;

    /// Reads header and question. What follows (EDNS) is not looked at: nothing in it changes an answer.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Wrong> {
        let field = |index: usize| {
            let bytes = message.get(2 * index..2 * index + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let (
            Some(id),
            Some(flags),
            Some(questions),
            Some(answers),
            Some(authorities),
            Some(additional),
        ) = (field(0), field(1), field(2), field(3), field(4), field(5))
        else {
            return Err(Wrong::Unanswerable);
        };
        if flags & 0x8000 != 0 {
            return Err(Wrong::Unanswerable);
        }
        if flags & 0x7800 != 0 {
            return Err(Wrong::Opcode);
        }
        if message.len() > MAX_QUERY || (questions, answers, authorities) != (1, 0, 0) {
            return Err(Wrong::Form);
        }
        let rest = &message[Self::HEADER..];
        let name = name_length(rest).ok_or(Wrong::Form)?;
        let question = rest.get(..name + 4).ok_or(Wrong::Form)?;
        if additional == 0 && rest.len() != question.len() {
            return Err(Wrong::Form);
        }
        let last = |at: usize| u16::from_be_bytes([question[name + at], question[name + at + 1]]);
        Ok(Self {
            id,
            flags,
            kind: last(0),
            class: last(2),
            question,
        })
    }

    /// The name that is asked for, if it is a host name.
    pub(super) fn name(&self) -> Option<HostName> {
        let mut text = String::with_capacity(HostName::MAX);
        let mut rest = self.question;
        while let Some((&length, after)) = rest.split_first()
            && length != 0
        {
            let (label, next) = after.split_at_checked(usize::from(length))?;
            // A dot inside a label is not the dot between labels.
            if label.contains(&b'.') {
                return None;
            }
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(std::str::from_utf8(label).ok()?);
            rest = next;
        }
        text.parse().ok()
    }
}

/// The bytes of the name at the start of `bytes`: at most 255, plain labels only. A pointer in the first
/// name of a message can only point at something that is not a name.
fn name_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length > 63 {
            return None;
        }
        at += 1 + length;
        if at > 255 {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}
