//! Where each HTTP/1 request begins and ends, by the strict reading only: what a lenient parser would repair
//! is refused, because the next program may repair it differently.
//!
//! The HTTP library repairs quietly (it drops a Content-Length beside a Transfer-Encoding, takes a bare LF
//! for a line end) and then no check behind it can see that anything was wrong.

use crate::gateway::budget::Spent;

/// Why the bytes of a request are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dirty {
    #[error("a line of the request does not end with CR LF")]
    LineEnd,
    #[error("the head of the request is longer than {} bytes", Framing::MAX_HEAD)]
    TooLong,
    #[error("a header line of the request has no proper name")]
    HeaderName,
    #[error("the request continues a header on the next line")]
    Folded,
    #[error("the request has a control character in its head")]
    Control,
    #[error("the request says more than once, or in an odd way, how long it is")]
    Length,
    #[error("a chunk of the request is malformed")]
    Chunk,
    #[error(transparent)]
    Spent(#[from] Spent),
}

/// What the next bytes of the connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes of a body of known length that are still to come.
    Body(u64),
    ChunkSize,
    /// Bytes of a chunk that are still to come, the line end after it included.
    Chunk(u64),
    Trailers,
    /// After a CONNECT: no longer HTTP, as far as this goes.
    Raw,
}

/// Follows one client's bytes.
#[derive(Debug)]
pub(crate) struct Framing {
    state: State,
}

impl Framing {
    /// The longest head of a request, and the longest trailer section, in bytes.
    pub(crate) const MAX_HEAD: usize = 32 * 1024;
    /// The longest line with the size of a chunk.
    const MAX_SIZE_LINE: usize = 1024;

    pub(crate) fn new() -> Self {
        Self { state: State::Head }
    }

    /// Whether a request is being awaited rather than read.
    pub(crate) fn in_head(&self) -> bool {
        self.state == State::Head
    }

    /// How many bytes from the front are in order and may be passed on; zero if more are needed. A head is
    /// passed on whole.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Result<usize, Dirty> {
        let mut passed = 0;
        loop {
            let rest = &bytes[passed..];
            let step = self.step(rest)?;
            if step == 0 {
                return Ok(passed);
            }
            passed += step;
        }
    }

    fn step(&mut self, rest: &[u8]) -> Result<usize, Dirty> {
        let (step, next) = match self.state {
            State::Raw => return Ok(rest.len()),
            State::Body(left) => {
                let step = at_most(left, rest.len());
                let left = left - step as u64;
                (
                    step,
                    if left == 0 {
                        State::Head
                    } else {
                        State::Body(left)
                    },
                )
            }
            State::Chunk(left) => {
                // The last two bytes are the line end.
                let data = left.saturating_sub(2);
                if data > 0 {
                    let step = at_most(data, rest.len());
                    (step, State::Chunk(left - step as u64))
                } else {
                    match rest {
                        [b'\r', b'\n', ..] => (2, State::ChunkSize),
                        [] | [b'\r'] => (0, self.state),
                        _ => return Err(Dirty::Chunk),
                    }
                }
            }
            State::ChunkSize => match line(rest, Self::MAX_SIZE_LINE)? {
                None => (0, self.state),
                Some(text) => {
                    let next = match chunk_size(text)? {
                        0 => State::Trailers,
                        size => State::Chunk(size + 2),
                    };
                    (text.len() + 2, next)
                }
            },
            State::Trailers => match section(rest)? {
                None => (0, self.state),
                Some(lines) => {
                    for line in &lines {
                        header(line)?;
                    }
                    (length(&lines), State::Head)
                }
            },
            // RFC 9112, 2.2: an empty line before a request is nothing.
            State::Head if rest.starts_with(b"\r\n") => (2, State::Head),
            State::Head => match section(rest)? {
                None => (0, self.state),
                Some(lines) => (length(&lines), after_head(&lines)?),
            },
        };
        self.state = next;
        Ok(step)
    }
}

/// The lines up to the empty one.
fn section(bytes: &[u8]) -> Result<Option<Vec<&[u8]>>, Dirty> {
    let mut lines = Vec::new();
    let mut at = 0;
    loop {
        match line(&bytes[at..], Framing::MAX_HEAD - at)? {
            None => return Ok(None),
            Some([]) => return Ok(Some(lines)),
            Some(text) => {
                at += text.len() + 2;
                lines.push(text);
            }
        }
        if at >= Framing::MAX_HEAD {
            return Err(Dirty::TooLong);
        }
    }
}

/// How many bytes these lines and the empty one are.
fn length(lines: &[&[u8]]) -> usize {
    lines.iter().map(|line| line.len() + 2).sum::<usize>() + 2
}

/// The next line without its end.
fn line(bytes: &[u8], most: usize) -> Result<Option<&[u8]>, Dirty> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
        return if bytes.len() > most {
            Err(Dirty::TooLong)
        } else {
            Ok(None)
        };
    };
    let text = bytes[..end].strip_suffix(b"\r").ok_or(Dirty::LineEnd)?;
    if text.len() > most {
        return Err(Dirty::TooLong);
    }
    match text.iter().find(|b| b.is_ascii_control() && **b != b'\t') {
        Some(b'\r') => Err(Dirty::LineEnd),
        Some(_) => Err(Dirty::Control),
        None => Ok(Some(text)),
    }
}

/// What follows this head.
fn after_head(lines: &[&[u8]]) -> Result<State, Dirty> {
    let mut length = None;
    let mut chunked = false;
    for line in lines.iter().skip(1) {
        let (name, value) = header(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            if length.replace(digits(value)?).is_some() {
                return Err(Dirty::Length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Dirty::Length);
            }
            chunked = true;
        }
    }
    let connect = lines
        .first()
        .is_some_and(|line| line.starts_with(b"CONNECT "));
    match (length, chunked) {
        (Some(_), true) => Err(Dirty::Length),
        // RFC 9110, 9.3.6: a CONNECT has no content.
        (Some(1..), _) | (_, true) if connect => Err(Dirty::Length),
        _ if connect => Ok(State::Raw),
        (_, true) => Ok(State::ChunkSize),
        (Some(1..), _) => Ok(State::Body(length.unwrap_or_default())),
        (None | Some(0), _) => Ok(State::Head),
    }
}

/// A header line's name and value.
fn header(line: &[u8]) -> Result<(&[u8], &[u8]), Dirty> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err(Dirty::Folded);
    }
    let colon = line
        .iter()
        .position(|b| *b == b':')
        .ok_or(Dirty::HeaderName)?;
    let name = &line[..colon];
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty() || !name.iter().all(token) {
        return Err(Dirty::HeaderName);
    }
    Ok((name, line[colon + 1..].trim_ascii()))
}

fn digits(text: &[u8]) -> Result<u64, Dirty> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return Err(Dirty::Length);
    }
    Ok(text
        .iter()
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// `HEX[;EXTENSION]`.
fn chunk_size(line: &[u8]) -> Result<u64, Dirty> {
    let end = line.iter().position(|b| *b == b';').unwrap_or(line.len());
    let hex = std::str::from_utf8(&line[..end]).map_err(|_| Dirty::Chunk)?;
    if hex.is_empty() || hex.len() > 15 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Dirty::Chunk);
    }
    u64::from_str_radix(hex, 16).map_err(|_| Dirty::Chunk)
}

fn at_most(left: u64, have: usize) -> usize {
    usize::try_from(left).map_or(have, |left| left.min(have))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many bytes are in order.
    fn pass(bytes: &[u8]) -> Result<usize, Dirty> {
        Framing::new().pass(bytes)
    }

    #[test]
    fn requests_are_told_apart() {
        for whole in [
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\ncontent-length:\t0 \r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
        ] {
            let twice = [whole, whole].concat();
            assert_eq!(pass(twice.as_bytes()), Ok(twice.len()), "{whole:?}");
            // Half a head that follows waits.
            let begun = [whole, "GET / HTTP/1.1\r\nHo"].concat();
            assert_eq!(pass(begun.as_bytes()), Ok(whole.len()), "{whole:?}");
        }
        let connect = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01\0\n";
        assert_eq!(pass(connect), Ok(connect.len()));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let body = "5\r\nhello\r\n0\r\n\r\n";
        for (lines, why) in [
            (
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                Dirty::Length,
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                Dirty::Length,
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Dirty::Length,
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                Dirty::Length,
            ),
            ("Transfer-Encoding: xchunked\r\n", Dirty::Length),
            ("Transfer-Encoding: gzip, chunked\r\n", Dirty::Length),
            ("Transfer-Encoding: \x0bchunked\r\n", Dirty::Control),
            ("Transfer-Encoding : chunked\r\n", Dirty::HeaderName),
            ("Transfer-Encoding\r\n", Dirty::HeaderName),
            (": chunked\r\n", Dirty::HeaderName),
            ("X: y\r\n Transfer-Encoding: chunked\r\n", Dirty::Folded),
            ("X:\r\n\tchunked\r\n", Dirty::Folded),
            ("X: y\nTransfer-Encoding: chunked\r\n", Dirty::LineEnd),
            ("X: y\rTransfer-Encoding: chunked\r\n", Dirty::LineEnd),
            ("X: a\0b\r\n", Dirty::Control),
            ("Content-Length: 4\r\nContent-Length: 4\r\n", Dirty::Length),
            ("Content-Length: 4, 4\r\n", Dirty::Length),
            ("Content-Length: +4\r\n", Dirty::Length),
            ("Content-Length: 0x4\r\n", Dirty::Length),
            ("Content-Length: -1\r\n", Dirty::Length),
            ("Content-Length:\r\n", Dirty::Length),
            ("Content-Length: 99999999999999999999\r\n", Dirty::Length),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{body}");
            assert_eq!(pass(request.as_bytes()), Err(why), "{lines:?}");
        }
        for body in [
            "0x5\r\nhello\r\n0\r\n\r\n",
            " 5\r\nhello\r\n0\r\n\r\n",
            "5 \r\nhello\r\n0\r\n\r\n",
            "\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhelloX\r\n0\r\n\r\n",
            "ffffffffffffffff\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\n X: y\r\n\r\n",
            "0\r\n\n",
        ] {
            let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            assert!(pass(request.as_bytes()).is_err(), "{body:?}");
        }
        for connect in ["Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n"] {
            let request = format!("CONNECT a.test:443 HTTP/1.1\r\n{connect}\r\n");
            assert_eq!(pass(request.as_bytes()), Err(Dirty::Length), "{connect:?}");
        }
    }

    #[test]
    fn what_does_not_end_is_refused() {
        let long = "x".repeat(Framing::MAX_HEAD);
        assert_eq!(pass(format!("GET /{long}").as_bytes()), Err(Dirty::TooLong));
        let lines = "X: y\r\n".repeat(Framing::MAX_HEAD / 6 + 1);
        let head = format!("GET / HTTP/1.1\r\n{lines}");
        assert_eq!(pass(head.as_bytes()), Err(Dirty::TooLong));
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let size = format!("{chunks}{}", "0".repeat(2000));
        assert_eq!(pass(size.as_bytes()), Err(Dirty::TooLong));
        let trailers = format!("{chunks}0\r\n{lines}");
        assert_eq!(pass(trailers.as_bytes()), Err(Dirty::TooLong));
    }

    proptest! {
        #[test]
        fn pieces_are_read_as_the_whole_is(
            lines in prop::collection::vec("(Content-Length: [0-9]{1,2}|Transfer-Encoding: chunked|X: y|[A-Z: \r\n]{0,6})\r\n", 0..3),
            body in "([0-9a-f]{1,2}\r\n[a-z]{0,9}\r\n|[A-Z \r\n]{0,9}){0,3}",
            size in 1usize..20,
        ) {
            let bytes = format!("POST / HTTP/1.1\r\n{}\r\n{body}", lines.concat()).into_bytes();
            let whole = pass(&bytes);
            let mut framing = Framing::new();
            let mut begin = 0;
            let mut last = Ok(0);
            for end in (size..bytes.len()).step_by(size).chain([bytes.len()]) {
                last = framing.pass(&bytes[begin..end]);
                match last {
                    Ok(passed) => begin += passed,
                    Err(_) => break,
                }
            }
            prop_assert_eq!(whole, last.map(|_| begin));
        }
    }

    /// No more is passed on than is there, and a request that is in order stays so in pieces.
    #[test]
    fn fuzz_http_screen() {
        let seeds = [
            "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            "POST /x HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
            "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\nraw",
        ];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        cofferdam_lab::fuzz::mutate("http screen", &seeds, |said| {
            let whole = Framing::new().pass(said);
            let (mut framing, mut waiting, mut passed) = (Framing::new(), Vec::new(), 0);
            let mut dirty = false;
            for piece in said.chunks(9) {
                waiting.extend_from_slice(piece);
                let Ok(count) = framing.pass(&waiting) else {
                    dirty = true;
                    break;
                };
                assert!(count <= waiting.len());
                waiting.drain(..count);
                passed += count;
            }
            match whole {
                Ok(count) => assert!(!dirty && count == passed, "{count} {passed} {dirty}"),
                Err(_) => assert!(dirty),
            }
        });
    }
}
