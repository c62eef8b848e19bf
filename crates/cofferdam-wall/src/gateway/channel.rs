//! One connection of the library: frames with the descriptors that come with them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::client::frames;
use crate::control::{self, Answer, Ask, DESCRIPTORS, FrameError, HEAD};

/// Until the rest of a frame is there, and until an answer is taken.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much is read at once. The memory of a frame grows with what has really come.
const PIECE: usize = 64 << 10;

/// The connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("more descriptors than a question can have")]
    Descriptors,
    #[error("the rest of a frame did not come in time")]
    Late,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A question with its descriptors.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) ask: Ask,
    pub(super) descriptors: Vec<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// The next question; none at the end. Waits for its first byte as long as it takes.
    pub(super) async fn next(&self) -> Result<Option<Question>, ChannelError> {
        let mut descriptors = Vec::new();
        let mut head = [0u8; HEAD];
        let got = self.receive(&mut head, &mut descriptors).await?;
        if got == 0 {
            return Ok(None);
        }
        timeout(PATIENCE, self.rest(head, got, descriptors))
            .await
            .map_err(|_| ChannelError::Late)?
            .map(Some)
    }

    async fn rest(
        &self,
        mut head: [u8; HEAD],
        got: usize,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Question, ChannelError> {
        self.fill(&mut head[got..], &mut descriptors).await?;
        let length = control::body_length(head)?;
        let mut body = Vec::new();
        while body.len() < length {
            let start = body.len();
            body.resize(length.min(start + PIECE), 0);
            self.fill(&mut body[start..], &mut descriptors).await?;
        }
        Ok(Question {
            ask: control::decode(&body)?,
            descriptors,
        })
    }

    async fn fill(
        &self,
        mut space: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<(), ChannelError> {
        while !space.is_empty() {
            let got = self.receive(space, descriptors).await?;
            if got == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            space = &mut space[got..];
        }
        Ok(())
    }

    async fn receive(
        &self,
        space: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<usize, ChannelError> {
        let got = self
            .stream
            .async_io(Interest::READABLE, || {
                frames::receive(&self.stream, space, descriptors)
            })
            .await?;
        if descriptors.len() > DESCRIPTORS {
            return Err(ChannelError::Descriptors);
        }
        Ok(got)
    }

    pub(super) async fn answer(&mut self, answer: &Answer) -> Result<(), ChannelError> {
        let frame = control::encode(answer)?;
        timeout(PATIENCE, self.stream.write_all(&frame))
            .await
            .map_err(|_| ChannelError::Late)??;
        Ok(())
    }
}
