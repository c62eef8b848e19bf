//! DNS over a stream: every message with its length in two bytes before it (RFC 1035, 4.2.2).

use super::query::MAX_QUERY;

/// The stream cannot be read any further: close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a query of {0} bytes is longer than {MAX_QUERY}")]
pub struct FrameError(usize);

/// Messages out of the pieces of a stream.
#[derive(Debug, Default)]
pub struct Frames {
    held: Vec<u8>,
}

impl Frames {
    /// Takes the next piece and returns the messages that it completes. Holds back less than one message.
    ///
    /// # Errors
    /// A length beyond [`MAX_QUERY`], as soon as it is seen.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
        self.held.extend_from_slice(piece);
        let mut messages = Vec::new();
        let mut rest = self.held.as_slice();
        while let [high, low, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length > MAX_QUERY {
                return Err(FrameError(length));
            }
            let Some((message, next)) = after.split_at_checked(length) else {
                break;
            };
            messages.push(message.to_vec());
            rest = next;
        }
        let used = self.held.len() - rest.len();
        self.held.drain(..used);
        Ok(messages)
    }
}

/// A message with its length before it; none if the length does not fit in two bytes.
pub fn frame(message: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(message.len()).ok()?;
    Some([&length.to_be_bytes(), message].concat())
}
