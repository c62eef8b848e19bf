//! Frames: a little-endian `u32` length, at most [`MAX_FRAME`], then one postcard value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest body of a frame in bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// The length of a frame's head in bytes.
pub const HEAD: usize = 4;

/// The frame does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    TooLong(usize),
    /// Not a value of the expected type.
    Malformed,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong(length) => write!(f, "a frame of {length} bytes is too long"),
            Self::Malformed => f.write_str("a malformed frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A whole frame, head included.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    let frame = postcard::to_extend(value, vec![0u8; HEAD]).map_err(|_| FrameError::Malformed)?;
    finish(frame)
}

fn finish(mut frame: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    let length = frame.len() - HEAD;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let head = u32::try_from(length).map_err(|_| FrameError::TooLong(length))?;
    frame[..HEAD].copy_from_slice(&head.to_le_bytes());
    Ok(frame)
}

/// The length of the body that follows this head.
pub fn body_length(head: [u8; HEAD]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_FRAME {
        Err(FrameError::TooLong(length))
    } else {
        Ok(length)
    }
}

/// The value of a frame's body; bytes left over are an error.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(FrameError::Malformed),
    }
}
