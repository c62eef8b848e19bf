//! The outer server name of a TLS connection, read from the client's first message before anything is dialled.
//!
//! Strict on purpose: whatever another TLS program could read differently is refused. Encrypted Client
//! Hello is not refused, because browsers send a dummy of it; the outer name is what is compared.

use crate::name::{HostName, NameError};

/// Why no name was read: close the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SniError {
    /// The bytes are another protocol.
    #[error("the connection does not begin with a TLS client hello")]
    NotTls,
    /// Fields that contradict each other.
    #[error("the TLS client hello is malformed")]
    Malformed,
    /// More than [`ClientHello::MAX`].
    #[error("the TLS client hello is longer than {} bytes", ClientHello::MAX)]
    TooLong,
    /// No name, so nothing to compare.
    #[error("the TLS client hello has no server name")]
    Missing,
    /// Two names could be read by two programs as either.
    #[error("the TLS client hello has more than one server name")]
    Several,
    /// The name is not a host name.
    #[error("server name of the TLS client hello: {0}")]
    Name(#[from] NameError),
}

/// A client hello that arrives in pieces.
#[derive(Debug, Default)]
pub struct ClientHello {
    raw: Vec<u8>,
    /// Where in `raw` the next record begins.
    next: usize,
    /// The payload of the records so far.
    message: Vec<u8>,
}

impl ClientHello {
    /// The most bytes that are read in search of the name.
    pub const MAX: usize = 64 * 1024;

    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    const LONGEST_RECORD: usize = 1 << 14;

    /// Takes the next piece; none as long as the hello is not complete. Bound the time outside.
    ///
    /// # Errors
    /// Anything but one well-formed hello with one name, as soon as it is seen.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<HostName>, SniError> {
        self.raw.extend_from_slice(piece);
        loop {
            if let Some(name) = self.complete()? {
                return Ok(Some(name));
            }
            let rest = self.raw.get(self.next..).unwrap_or_default();
            if rest.first().is_some_and(|kind| *kind != Self::HANDSHAKE)
                || rest.get(1).is_some_and(|major| *major != 3)
            {
                return Err(SniError::NotTls);
            }
            let [_, _, _, high, low, after @ ..] = rest else {
                break;
            };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length == 0 || length > Self::LONGEST_RECORD {
                return Err(SniError::Malformed);
            }
            let Some(payload) = after.get(..length) else {
                break;
            };
            self.message.extend_from_slice(payload);
            self.next += 5 + length;
            if self.next > Self::MAX {
                return Err(SniError::TooLong);
            }
        }
        if self.raw.len() > Self::MAX {
            Err(SniError::TooLong)
        } else {
            Ok(None)
        }
    }

    /// How many bytes this keeps.
    pub fn held(&self) -> usize {
        self.raw.len() + self.message.len()
    }

    /// The bytes of a complete hello, to be sent on to the server that was dialled, and those that came after it.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u8>) {
        let after = self.raw.split_off(self.next.min(self.raw.len()));
        (self.raw, after)
    }

    fn complete(&self) -> Result<Option<HostName>, SniError> {
        if self
            .message
            .first()
            .is_some_and(|kind| *kind != Self::CLIENT_HELLO)
        {
            return Err(SniError::NotTls);
        }
        let [_, high, middle, low, body @ ..] = self.message.as_slice() else {
            return Ok(None);
        };
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        if length > Self::MAX {
            return Err(SniError::TooLong);
        }
        if body.len() < length {
            return Ok(None);
        }
        // Nothing may follow the hello in its own records.
        if body.len() > length {
            return Err(SniError::Malformed);
        }
        server_name(&mut Reader(&body[..length])).map(Some)
    }
}

/// RFC 8446, 4.1.2 and RFC 6066, 3.
fn server_name(hello: &mut Reader<'_>) -> Result<HostName, SniError> {
    hello.take(2 + 32)?; // version, random
    let session = hello.short_list()?;
    let suites = hello.list()?;
    let compressions = hello.short_list()?;
    if session.0.len() > 32
        || suites.0.is_empty()
        || suites.0.len() % 2 != 0
        || compressions.0.is_empty()
    {
        return Err(SniError::Malformed);
    }
    if hello.0.is_empty() {
        return Err(SniError::Missing);
    }
    let mut extensions = hello.list()?;
    hello.end()?;
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.list()?;
        if kind == 0 && found.replace(content).is_some() {
            return Err(SniError::Several);
        }
    }
    let mut content = found.ok_or(SniError::Missing)?;
    let mut names = content.list()?;
    content.end()?;
    if names.take(1)? != [0] {
        return Err(SniError::Malformed);
    }
    let name = names.list()?.0;
    if !names.0.is_empty() {
        return Err(SniError::Several);
    }
    let text = std::str::from_utf8(name).map_err(|_| SniError::Malformed)?;
    // RFC 6066: without the dot at its end. Servers differ in what they make of it.
    if text.ends_with('.') {
        return Err(SniError::Malformed);
    }
    Ok(text.parse()?)
}

/// What is left to read.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SniError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SniError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, SniError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// What has its length in two bytes before it.
    fn list(&mut self) -> Result<Self, SniError> {
        let length = self.number()?;
        self.take(usize::from(length)).map(Reader)
    }

    /// What has its length in one byte before it.
    fn short_list(&mut self) -> Result<Self, SniError> {
        let length = self.take(1)?[0];
        self.take(usize::from(length)).map(Reader)
    }

    fn end(&self) -> Result<(), SniError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(SniError::Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What OpenSSL 3.0 sends to `allowed.test`, offering h2.
    const OPENSSL: &str = "1603010200010001fc0303ffb61987fdf898b3e8069da9f303e0538fabded89f1d6e2e31c35e8a09\
        ba0dbf203b4a5fcba622cba29bdc628a6480ab831a0737fe7dbfb15def1e17bd48ce555200241302\
        13031301c02cc030c02bc02fcca9cca8c024c028c023c027009f009e006b006700ff0100018f0000\
        0011000f00000c616c6c6f7765642e74657374000b000403000102000a00160014001d0017001e00\
        19001801000101010201030104002300000010000e000c02683208687474702f312e310016000000\
        170000000d002a0028040305030603080708080809080a080b080408050806040105010601030303\
        010302040205020602002b00050403040303002d00020101003300260024001d002011af93dca068\
        4122a1c59b16c900a9e6356371b84e9d3c25472dc564d1a1f62d001500cf00000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000";

    fn openssl() -> Vec<u8> {
        (0..OPENSSL.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&OPENSSL[at..at + 2], 16).unwrap())
            .collect()
    }

    fn sized(content: &[u8]) -> Vec<u8> {
        [
            &u16::try_from(content.len()).unwrap().to_be_bytes(),
            content,
        ]
        .concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &sized(content)].concat()
    }

    fn sni(names: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| [&[0][..], &sized(name)].concat())
            .collect();
        extension(0, &sized(&list))
    }

    /// The handshake message with these extensions.
    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend_from_slice(&sized(extensions));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1, length[1], length[2], length[3]], &body[..]].concat()
    }

    /// In records of at most `size` bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|part| [&[22, 3, 1][..], &sized(part)].concat())
            .collect()
    }

    fn read(bytes: &[u8]) -> Result<Option<String>, SniError> {
        Ok(ClientHello::default()
            .push(bytes)?
            .map(|name| name.to_string()))
    }

    fn named(name: &[u8]) -> Result<Option<String>, SniError> {
        read(&records(&message(&sni(&[name])), 16384))
    }

    #[test]
    fn the_name_is_found_however_the_bytes_arrive() {
        let big = message(&[extension(51, &vec![9; 20_000]), sni(&[b"allowed.test"])].concat());
        for bytes in [
            openssl(),
            records(&message(&sni(&[b"ALLOWED.test"])), 1),
            records(&big, 16384),
            records(&big, 700),
        ] {
            for size in [1, 5, 1000, bytes.len()] {
                let mut hello = ClientHello::default();
                let mut answers = bytes.chunks(size).map(|piece| hello.push(piece).unwrap());
                let name = answers.find_map(|name| name).unwrap();
                assert_eq!(name.as_str(), "allowed.test", "pieces of {size}");
                assert_eq!(answers.len(), 0, "found before the end");
                assert_eq!(hello.into_parts(), (bytes.clone(), Vec::new()));
            }
        }
    }

    #[test]
    fn early_data_after_the_hello_is_kept_and_a_dummy_of_ech_is_fine() {
        let hello = message(&[extension(0xfe0d, &[1; 200]), sni(&[b"allowed.test"])].concat());
        let (bytes, early) = (records(&hello, 16384), vec![23, 3, 3, 0, 1, 9]);
        let mut hello = ClientHello::default();
        let all = [&bytes[..], &early].concat();
        assert!(hello.push(&all).unwrap().is_some());
        assert_eq!(hello.into_parts(), (bytes, early));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let twice = [sni(&[b"allowed.test"]), sni(&[b"denied.test"])].concat();
        let hello = |extensions: &[u8]| read(&records(&message(extensions), 16384));
        assert_eq!(hello(&twice), Err(SniError::Several));
        assert_eq!(
            hello(&sni(&[b"allowed.test", b"denied.test"])),
            Err(SniError::Several)
        );
        assert_eq!(
            hello(&extension(10, &[0, 2, 0, 29])),
            Err(SniError::Missing)
        );
        assert_eq!(hello(&[]), Err(SniError::Missing));
        assert_eq!(hello(&extension(0, &[])), Err(SniError::Malformed));
        assert_eq!(hello(&extension(0, &[0, 9, 0])), Err(SniError::Malformed));
        assert_eq!(
            hello(&extension(0, &[0, 4, 1, 0, 1, b'a'])),
            Err(SniError::Malformed)
        );
        assert_eq!(named(b"allowed.test."), Err(SniError::Malformed));
        assert_eq!(named(b"\xff.test"), Err(SniError::Malformed));
        for name in [
            &b"127.0.0.1"[..],
            b"::1",
            b"",
            b"denied.test\0allowed.test",
            b"a..test",
        ] {
            assert!(matches!(named(name), Err(SniError::Name(_))), "{name:?}");
        }
        let mut trailing = message(&sni(&[b"allowed.test"]));
        trailing.push(0);
        assert_eq!(read(&records(&trailing, 16384)), Err(SniError::Malformed));
    }

    #[test]
    fn other_protocols_and_endless_ones_end_soon() {
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(SniError::NotTls));
        assert_eq!(read(b"SSH-2.0-x"), Err(SniError::NotTls));
        assert_eq!(read(&[0x80, 0x2e, 1, 3, 1]), Err(SniError::NotTls)); // SSL 2
        assert_eq!(read(&[22, 3, 1, 0, 1, 2]), Err(SniError::NotTls)); // a server hello
        assert_eq!(read(&[22, 3, 1, 0, 0]), Err(SniError::Malformed));
        assert_eq!(read(&[22, 3, 1, 0x40, 1]), Err(SniError::Malformed));
        assert_eq!(read(&[22, 3, 1, 0, 4, 1, 1, 0, 1]), Err(SniError::TooLong));
        let endless = records(&[&[1, 0, 0xff, 0xff][..], &vec![0; 65535]].concat(), 1);
        assert_eq!(read(&endless), Err(SniError::TooLong));
        assert_eq!(read(&[22, 3]), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_give_the_same_answer_whole_or_in_pieces(at in 0usize..300, byte: u8, cut in 0usize..300, size in 1usize..50) {
            let mut bytes = openssl();
            if let Some(changed) = bytes.get_mut(at) {
                *changed = byte;
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let mut hello = ClientHello::default();
            let mut last = Ok(None);
            for piece in bytes.chunks(size) {
                last = hello.push(piece);
                if last != Ok(None) {
                    break;
                }
            }
            let whole = ClientHello::default().push(&bytes);
            prop_assert_eq!(whole.is_ok(), last.is_ok());
            prop_assert_eq!(whole.ok(), last.ok());
        }
    }
}
