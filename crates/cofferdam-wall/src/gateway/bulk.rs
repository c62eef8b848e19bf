//! Many bytes at once do not come into this process's memory: they go from one socket to the other through a pipe of
//! the worker thread (splice(2)).

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What a pipe is asked to hold, in bytes.
const ROOM: usize = 256 << 10;
const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

thread_local! {
    /// Empty whenever it is here: what one connection left in it would reach the next one.
    static PIPE: Cell<Option<Pipe>> = const { Cell::new(None) };
}

struct Pipe {
    read: File,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Where the user has too many already, it stays a small one.
        _ = fcntl_setpipe_size(&write, ROOM);
        Ok(Self {
            read: read.into(),
            write,
        })
    }
}

/// How far one step came.
pub(super) struct Moved {
    /// So many bytes arrived.
    pub(super) bytes: usize,
    /// Of these, what the reader has not taken.
    pub(super) rest: Vec<u8>,
}

/// Moves what has arrived at `from` and goes on to `to` without a wait. `None`: nothing came this way, because there is
/// no pipe to be had, or because nothing has arrived, or the end has, or an urgent byte is next, before which splice(2)
/// says the same: who reads knows which.
pub(super) fn step(from: &TcpStream, to: &TcpStream) -> io::Result<Option<Moved>> {
    let Some(mut pipe) = PIPE.take().or_else(|| Pipe::new().ok()) else {
        return Ok(None);
    };
    let arrived = from.try_io(Interest::READABLE, || {
        match splice(from, None, &pipe.write, None, ROOM, FLAGS) {
            // It must not look as if nothing were there to be read.
            Err(Errno::AGAIN) => Ok(0),
            arrived => Ok(arrived?),
        }
    });
    let bytes = match arrived {
        Ok(bytes @ 1..) => bytes,
        nothing => {
            // Nothing came into it.
            PIPE.set(Some(pipe));
            return match nothing {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(None),
            };
        }
    };
    let mut left = bytes;
    while left > 0 {
        let gone = to.try_io(Interest::WRITABLE, || {
            Ok(splice(&pipe.read, None, to, None, left, FLAGS)?)
        });
        match gone {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(gone) => left -= gone,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    // It waits in memory, where what waits is counted; nobody holds a pipe for a slow reader.
    let mut rest = vec![0; left];
    pipe.read.read_exact(&mut rest)?;
    // Only here: whoever failed above takes the pipe along, with what is in it.
    PIPE.set(Some(pipe));
    Ok(Some(Moved { bytes, rest }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::testing::connection;
    use super::*;

    /// As [`step`], once something has arrived; `None` at the end.
    async fn next(from: &TcpStream, to: &TcpStream) -> io::Result<Option<Moved>> {
        loop {
            from.readable().await.unwrap();
            if let Some(moved) = step(from, to)? {
                return Ok(Some(moved));
            }
            let mut byte = [0];
            match from.try_read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    let rest = byte.to_vec();
                    return Ok(Some(Moved { bytes: 1, rest }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    #[tokio::test]
    async fn everything_arrives_in_its_order_and_then_the_end() {
        let (mut sender, from) = connection().await;
        let (to, mut receiver) = connection().await;
        let sent: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            sender.write_all(&sent).await.unwrap();
        });
        let receiving = tokio::spawn(async move {
            // It reads late: not everything goes at once.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut got = Vec::new();
            receiver.read_to_end(&mut got).await.unwrap();
            got
        });
        let mut rests = 0;
        while let Some(moved) = next(&from, &to).await.unwrap() {
            let mut written = 0;
            rests += usize::from(!moved.rest.is_empty());
            while written < moved.rest.len() {
                to.writable().await.unwrap();
                written += to.try_write(&moved.rest[written..]).unwrap_or(0);
            }
        }
        drop(to);
        sending.await.unwrap();
        assert!(receiving.await.unwrap() == expected);
        assert!(rests > 0, "the reader was never slow");
    }

    #[tokio::test]
    async fn what_one_connection_could_not_pass_on_reaches_no_other() {
        let (mut sender, from) = connection().await;
        let (to, receiver) = connection().await;
        sender.write_all(&vec![b'1'; 50_000]).await.unwrap();
        // Its end is known here before anything is written to it.
        receiver.set_zero_linger().unwrap();
        drop(receiver);
        to.readable().await.unwrap();
        assert!(next(&from, &to).await.is_err());

        let (mut sender, from) = connection().await;
        let (to, mut receiver) = connection().await;
        sender.write_all(b"2").await.unwrap();
        let moved = next(&from, &to).await.unwrap().unwrap();
        assert_eq!((moved.bytes, moved.rest.len()), (1, 0));
        drop(to);
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), "2");
    }
}
