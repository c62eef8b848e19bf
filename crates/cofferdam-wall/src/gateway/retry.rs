//! The TLS rule after the first client hello: a server may ask for a second one, whose name is the one that
//! counts for many servers, so it is compared like the first.
//!
//! The watching ends with the server's own hello, and with nothing that a client says: servers skip records
//! of a client between its two hellos (RFC 8446, 4.2.10 and 5; alerts in practice).

use std::time::Instant;

use crate::gateway::budget::Share;
use crate::gateway::hello_error::{HelloError, TIME};
use crate::{ClientHello, HostName, SniError};

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION: u8 = 23;
/// The head of a record: kind, version, length.
const HEAD: usize = 5;
/// With what encryption adds.
const LONGEST: usize = (1 << 14) + 256;

/// What a client says until the server has answered with its hello.
#[derive(Debug)]
pub(crate) struct Retry {
    name: HostName,
    /// Read and not judged.
    waiting: Vec<u8>,
    /// Bytes of a record that is passed on as it comes.
    passing: usize,
    /// A hello that is not complete, and since when.
    hello: Option<(ClientHello, Instant)>,
    /// For what is kept.
    share: Share,
}

impl Retry {
    /// `waiting` came after the first hello.
    pub(crate) fn new(name: HostName, waiting: Vec<u8>, share: Share) -> Self {
        Self {
            name,
            waiting,
            passing: 0,
            hello: None,
            share,
        }
    }

    /// When the hello that is being read must be complete.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.hello.as_ref().map(|(_, since)| *since + TIME)
    }

    /// Takes what the client said; gives what may go to the server.
    ///
    /// # Errors
    /// A hello that does not name the name, and whatever has no place between two hellos.
    pub(crate) fn client(&mut self, piece: &[u8]) -> Result<Vec<u8>, HelloError> {
        let passed = self.judge(piece)?;
        let hello = self.hello.as_ref().map_or(0, |(hello, _)| hello.held());
        self.share.set(hello + self.waiting.len())?;
        Ok(passed)
    }

    fn judge(&mut self, piece: &[u8]) -> Result<Vec<u8>, HelloError> {
        self.waiting.extend_from_slice(piece);
        let mut passed = Vec::new();
        loop {
            let count = self.passing.min(self.waiting.len());
            passed.extend(self.waiting.drain(..count));
            self.passing -= count;
            if self.waiting.is_empty() {
                return Ok(passed);
            }
            if self.hello.is_none() {
                match self.waiting[0] {
                    CHANGE_CIPHER_SPEC | ALERT | APPLICATION => {
                        let Some(head) = self.waiting.first_chunk::<HEAD>() else {
                            return Ok(passed);
                        };
                        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
                        if head[1] != 3 || length > LONGEST {
                            return Err(HelloError::After);
                        }
                        self.passing = HEAD + length;
                        continue;
                    }
                    HANDSHAKE => self.hello = Some((ClientHello::default(), Instant::now())),
                    _ => return Err(HelloError::After),
                }
            }
            let Some((mut hello, since)) = self.hello.take() else {
                continue;
            };
            match hello.push(&std::mem::take(&mut self.waiting)) {
                Ok(None) => {
                    self.hello = Some((hello, since));
                    return Ok(passed);
                }
                Ok(Some(found)) if found == self.name => {
                    let (hello, after) = hello.into_parts();
                    passed.extend(hello);
                    self.waiting = after;
                }
                Ok(Some(found)) => return Err(HelloError::Other(found)),
                Err(SniError::NotTls) => return Err(HelloError::After),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is still kept when the server has answered: nothing of it is a hello for that server any more.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let waiting = std::mem::take(&mut self.waiting);
        match self.hello.take() {
            Some((hello, _)) => {
                let (hello, after) = hello.into_parts();
                [hello, after, waiting].concat()
            }
            None => waiting,
        }
    }
}

/// What a server says until its hello.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// The head of a record, or less.
    head: Vec<u8>,
    /// Of the record that is being read.
    left: usize,
    /// The beginning of the handshake message.
    message: Vec<u8>,
    /// Of the handshake message that is skipped.
    skip: usize,
}

impl Reply {
    const SERVER_HELLO: u8 = 2;
    /// Kind, length, version, random.
    const NEEDED: usize = 4 + 2 + 32;
    /// The random of a server hello that asks for another client hello (RFC 8446, 4.1.3).
    const RETRY: [u8; 32] = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8,
        0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8,
        0x33, 0x9c,
    ];

    /// Whether the server has answered: with its hello, or with what is no TLS.
    pub(crate) fn is_answered_with(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            if self.left == 0 {
                self.head.push(*byte);
                let Some(head) = self.head.first_chunk::<HEAD>() else {
                    continue;
                };
                if !matches!(head[0], CHANGE_CIPHER_SPEC | ALERT | HANDSHAKE) || head[1] != 3 {
                    return true;
                }
                self.left = usize::from(u16::from_be_bytes([head[3], head[4]]));
            } else {
                self.left -= 1;
                if self.head[0] == HANDSHAKE && self.is_hello_with(*byte) {
                    return true;
                }
            }
            if self.left == 0 {
                self.head.clear();
            }
        }
        false
    }

    fn is_hello_with(&mut self, byte: u8) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.message.push(byte);
        if self.message[0] != Self::SERVER_HELLO {
            return true;
        }
        if self.message.len() < Self::NEEDED {
            return false;
        }
        if self.message[6..] != Self::RETRY {
            return true;
        }
        let length = u32::from_be_bytes([0, self.message[1], self.message[2], self.message[3]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.skip = length.saturating_sub(Self::NEEDED - 4);
        self.message.clear();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::budget::Budget;
    use crate::gateway::testing::{client_hello, server_hello};

    fn retry() -> Retry {
        let share = Budget::default().share();
        Retry::new("allowed.test".parse().unwrap(), Vec::new(), share)
    }

    #[test]
    fn however_the_bytes_arrive_they_all_pass_in_order_or_nothing_of_a_wrong_hello() {
        let hello = client_hello(Some(b"allowed.test"));
        let before = [&[20, 3, 3, 0, 1, 1][..], &[23, 3, 3, 0, 0], &hello].concat();
        let other = client_hello(Some(b"denied.test"));
        for size in [1, 4, 5, 7, 1000] {
            let mut retry = retry();
            let pieces = before.chunks(size);
            let passed: Vec<_> = pieces.map(|piece| retry.client(piece).unwrap()).collect();
            assert_eq!(passed.concat(), before, "{size}");
            assert!(retry.due().is_none());
            let outcome: Vec<_> = other.chunks(size).map(|one| retry.client(one)).collect();
            let (last, first) = outcome.split_last().unwrap();
            assert!(matches!(last, Err(HelloError::Other(_))));
            assert!(first.iter().all(|one| one.as_ref().unwrap().is_empty()));
        }
        let mut retry = retry();
        assert!(retry.client(&hello[..40]).unwrap().is_empty());
        assert!(retry.due().is_some());
        assert_eq!(retry.rest(), hello[..40]);
    }

    #[test]
    fn a_server_has_answered_with_its_hello_and_not_by_asking_for_another() {
        let (asks, answers) = (server_hello(true), server_hello(false));
        let before = [&[21, 3, 3, 0, 2, 1, 112][..], &asks, &[20, 3, 3, 0, 1, 1]].concat();
        // A message may be in many records.
        let mut split = before.clone();
        split.extend(answers[5..].iter().flat_map(|one| [22, 3, 3, 0, 1, *one]));
        for all in [[&before[..], &answers].concat(), split] {
            for size in [1, 6, 1000] {
                let mut reply = Reply::default();
                let found = all.chunks(size).position(|one| reply.is_answered_with(one));
                assert!(found.unwrap() >= before.len() / size, "{size}");
                let mut reply = Reply::default();
                assert!(!before.chunks(size).any(|one| reply.is_answered_with(one)));
            }
        }
        assert!(Reply::default().is_answered_with(b"220 hello\r\n"));
    }

    /// In one piece or in many: what passes is the same, and nothing is added, lost or put in another order.
    #[test]
    fn fuzz_second_server_name() {
        let (hello, other) = (
            client_hello(Some(b"allowed.test")),
            client_hello(Some(b"denied.test")),
        );
        let before = [20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 9, 9];
        let seeds = [
            [&before[..], &hello, &before].concat(),
            [&hello[..], &other].concat(),
            [
                &[21, 3, 3, 0, 2, 1, 112][..],
                &server_hello(true),
                &server_hello(false),
            ]
            .concat(),
        ];
        let pass = |said: &[u8], most: usize| {
            let (mut retry, mut passed) = (retry(), Vec::new());
            for piece in said.chunks(most) {
                passed.extend(retry.client(piece)?);
            }
            Ok::<_, HelloError>((passed, retry.rest()))
        };
        assert_eq!(pass(&seeds[0], 9).unwrap(), (seeds[0].clone(), Vec::new()));
        assert!(matches!(pass(&seeds[1], 9), Err(HelloError::Other(_))));
        cofferdam_lab::fuzz::mutate("second server name", &seeds, |said| {
            let (whole, pieces) = (pass(said, usize::MAX), pass(said, 5));
            assert_eq!(whole.is_ok(), pieces.is_ok(), "{whole:?} {pieces:?}");
            if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
                assert_eq!([&whole.0[..], &whole.1].concat(), said);
                assert_eq!(whole, pieces);
            }
            let answered = |most| {
                let mut reply = Reply::default();
                said.chunks(most).any(|piece| reply.is_answered_with(piece))
            };
            assert_eq!(answered(usize::MAX), answered(3));
        });
    }
}
