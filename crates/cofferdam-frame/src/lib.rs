//! Frames: a little-endian `u32` length of at most `MOST` bytes, then one postcard value. Each protocol has a longest
//! frame of its own; whoever reads one takes the other side for hostile.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The length of a frame's head in bytes.
pub const HEAD: usize = 4;

/// The frame does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// So many bytes are more than the protocol allows.
    TooLong(usize),
    /// Not a value of the expected type.
    Malformed,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(length) => write!(f, "a frame of {length} bytes is too long"),
            Self::Malformed => f.write_str("a malformed frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A whole frame, head included. `MOST`: the longest body in bytes.
pub fn encode<const MOST: usize>(value: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame =
        postcard::to_extend(value, vec![0u8; HEAD]).map_err(|_| FrameError::Malformed)?;
    let length = frame.len() - HEAD;
    let head = u32::try_from(length).map_err(|_| FrameError::TooLong(length))?;
    if length > MOST {
        return Err(FrameError::TooLong(length));
    }
    frame[..HEAD].copy_from_slice(&head.to_le_bytes());
    Ok(frame)
}

/// The length of the body that follows this head. `MOST`: the longest one in bytes.
pub fn body_length<const MOST: usize>(head: [u8; HEAD]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MOST {
        return Err(FrameError::TooLong(length));
    }
    Ok(length)
}

/// The value of a frame's body; bytes left over are an error.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(FrameError::Malformed),
    }
}

/// The value that a frame's body begins with, whatever follows.
pub fn decode_front<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    postcard::take_from_bytes(body)
        .map(|(value, _)| value)
        .map_err(|_| FrameError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let frame = encode::<64>(&(7u32, "text")).unwrap();
        let (head, body) = frame.split_first_chunk::<HEAD>().unwrap();
        assert_eq!(body_length::<64>(*head), Ok(body.len()));
        assert_eq!(decode(body), Ok((7u32, "text".to_owned())));
        assert_eq!(decode_front(body), Ok(7u32));
        assert_eq!(decode::<u32>(body), Err(FrameError::Malformed));
        assert_eq!(
            decode::<(u32, String)>(&body[1..]),
            Err(FrameError::Malformed)
        );
    }

    #[test]
    fn nothing_longer_than_allowed_is_written_or_waited_for() {
        assert!(encode::<8>(&[1u8; 8]).is_ok());
        assert_eq!(encode::<7>(&[1u8; 8]), Err(FrameError::TooLong(8)));
        assert_eq!(
            body_length::<7>(8u32.to_le_bytes()),
            Err(FrameError::TooLong(8))
        );
        assert_eq!(
            body_length::<7>(u32::MAX.to_le_bytes()),
            Err(FrameError::TooLong(u32::MAX as usize))
        );
    }
}
