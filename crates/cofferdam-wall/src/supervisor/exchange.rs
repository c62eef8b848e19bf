//! One question to the gateway and its answer, on a socket that does not block.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::PollFlags;

use crate::client::ANSWER_LIMIT;
use crate::client::frames::{Incoming, Outgoing};
use crate::control::{self, Answer, FrameError, MAX_FRAME};

/// One question to the gateway and its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    question: Option<Outgoing>,
    answer: Incoming,
    pub(super) deadline: Instant,
}

impl Exchange {
    pub(super) fn new(frame: Vec<u8>) -> Self {
        Self {
            question: Some(Outgoing::new(frame)),
            answer: Incoming::new(MAX_FRAME),
            deadline: Instant::now() + ANSWER_LIMIT,
        }
    }

    /// An error says that this connection is of no more use.
    pub(super) fn advance(
        &mut self,
        stream: &UnixStream,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Option<Answer>> {
        if let Some(question) = &mut self.question
            && question.advance(stream, fds)?
        {
            self.question = None;
        }
        let answer = if self.question.is_none() {
            self.answer.advance(stream)?
        } else {
            None
        };
        match answer {
            Some((body, _)) => {
                let answer: Result<Answer, FrameError> = control::decode(&body);
                answer.map(Some).map_err(io::Error::other)
            }
            None if Instant::now() >= self.deadline => Err(io::ErrorKind::TimedOut.into()),
            None => Ok(None),
        }
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.question.is_some() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }
}
