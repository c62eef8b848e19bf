//! The frames of this protocol, none longer than [`MAX_FRAME`].

use serde::Serialize;

pub use cofferdam_frame::{FrameError, HEAD, decode};

/// The longest body of a frame in bytes.
pub const MAX_FRAME: usize = 1 << 20;

/// A whole frame, head included.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    cofferdam_frame::encode::<MAX_FRAME>(value)
}

/// The length of the body that follows this head.
pub fn body_length(head: [u8; HEAD]) -> Result<usize, FrameError> {
    cofferdam_frame::body_length::<MAX_FRAME>(head)
}
