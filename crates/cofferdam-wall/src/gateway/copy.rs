//! Bytes between a sandbox and the world, both ways at once, over one buffer of the worker thread: a silent
//! connection holds no memory for its bytes. While many come at once they do not pass through it: see [`bulk`].

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use crate::gateway::bulk;
use crate::gateway::flows::Flow;
use crate::gateway::hello_error::HelloError;
use crate::gateway::retry::{Reply, Retry};

/// The worker's buffer.
const PIECE: usize = 256 << 10;
/// Bytes moved before other connections get their turn.
const TURN: usize = 4 * PIECE;
/// What may wait in memory for slow readers, in the whole process, before connections get smaller pieces.
const HELD: usize = 64 << 20;
const SMALL_PIECE: usize = 4 << 10;
/// What arrives at once of a bulk transfer, at least.
const MANY: usize = 64 << 10;
/// How long a connection may be silent, and one of which one direction has ended.
const SILENCE: Duration = Duration::from_secs(2 * 60 * 60);
const HALF_SILENCE: Duration = Duration::from_secs(10 * 60);

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

static HOLDING: AtomicUsize = AtomicUsize::new(0);

/// Moves bytes until both directions have ended, one broke, the flow was cancelled, or nothing moved for
/// too long. Whatever is not a proper end reaches both sides as a reset.
pub(super) async fn both_ways(inside: TcpStream, outside: TcpStream, flow: &Flow) {
    let activity = Activity::new();
    let moved = async {
        tokio::try_join!(
            one_way(&inside, &outside, &flow.sent, &activity),
            one_way(&outside, &inside, &flow.received, &activity),
        )
    };
    // What broke has been told by its reset.
    _ = carry(&inside, &outside, flow, &activity, moved).await;
}

/// The same for a TLS connection that has sent its first hello, with an eye on a second one.
pub(super) async fn both_ways_compared(
    inside: TcpStream,
    outside: TcpStream,
    flow: &Flow,
    retry: Retry,
) -> Result<(), HelloError> {
    let activity = Activity::new();
    let answered = AtomicBool::new(false);
    let out = async {
        // Boxed: of what is only needed at the beginning nothing stays.
        let compared = compared(&inside, &outside, flow, &activity, &answered, retry);
        if Box::pin(compared).await? {
            one_way(&inside, &outside, &flow.sent, &activity).await?;
        }
        Ok::<_, HelloError>(())
    };
    let back = async {
        let answer = answer(&inside, &outside, flow, &activity, &answered);
        if Box::pin(answer).await? {
            one_way(&outside, &inside, &flow.received, &activity).await?;
        }
        Ok(())
    };
    let moved = async { tokio::try_join!(out, back) };
    carry(&inside, &outside, flow, &activity, moved).await
}

async fn carry<T, E>(
    inside: &TcpStream,
    outside: &TcpStream,
    flow: &Flow,
    activity: &Activity,
    moved: impl Future<Output = Result<T, E>>,
) -> Result<(), E> {
    prepare(inside);
    prepare(outside);
    let ended = tokio::select! {
        // Nothing moves any more once its rule has gone.
        biased;
        () = flow.end.cancelled() => None,
        moved = moved => Some(moved),
        () = activity.silence() => None,
    };
    if !matches!(ended, Some(Ok(_))) {
        reset_on_close(inside);
        reset_on_close(outside);
    }
    ended.map_or(Ok(()), |ended| ended.map(|_| ()))
}

/// The client's direction until the server has answered; false if it ended.
async fn compared(
    inside: &TcpStream,
    outside: &TcpStream,
    flow: &Flow,
    activity: &Activity,
    answered: &AtomicBool,
    mut retry: Retry,
) -> Result<bool, HelloError> {
    let mut piece = Vec::new();
    loop {
        // The server's hello was seen before it was passed on, so this is what a client says after it.
        let over = answered.load(Ordering::Relaxed);
        let passed = if over {
            [retry.rest(), piece].concat()
        } else {
            retry.client(&piece)?
        };
        if !passed.is_empty() {
            activity.note();
            flow.sent.fetch_add(passed.len() as u64, Ordering::Relaxed);
            deliver(outside, passed, activity).await?;
        }
        if over {
            return Ok(true);
        }
        let next = match retry.due() {
            Some(due) => tokio::time::timeout_at(due.into(), next(inside))
                .await
                .map_err(|_| HelloError::Late)?,
            None => next(inside).await,
        };
        piece = next?;
        if piece.is_empty() {
            activity.ended(outside)?;
            return Ok(false);
        }
    }
}

/// The server's direction until it has answered; false if it ended.
async fn answer(
    inside: &TcpStream,
    outside: &TcpStream,
    flow: &Flow,
    activity: &Activity,
    answered: &AtomicBool,
) -> io::Result<bool> {
    let mut reply = Reply::default();
    loop {
        let piece = next(outside).await?;
        if piece.is_empty() {
            activity.ended(inside)?;
            return Ok(false);
        }
        let over = reply.is_answered_with(&piece);
        answered.store(over, Ordering::Relaxed);
        activity.note();
        let received = piece.len() as u64;
        flow.received.fetch_add(received, Ordering::Relaxed);
        deliver(inside, piece, activity).await?;
        if over {
            return Ok(true);
        }
    }
}

/// What arrives next, in its own memory; nothing at the end.
async fn next(from: &TcpStream) -> io::Result<Vec<u8>> {
    loop {
        from.readable().await?;
        let read = BUFFER.with_borrow_mut(|buffer| {
            let got = from.try_read(&mut buffer[..SMALL_PIECE])?;
            Ok(buffer[..got].to_vec())
        });
        match read {
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Makes the close of a connection a reset, which reaches a program as an error.
pub(super) fn reset_on_close(stream: &TcpStream) {
    // Fails if the connection is gone already.
    _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(120))
        .with_interval(Duration::from_secs(30))
        .with_retries(4);
    _ = stream.set_nodelay(true);
    _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// When something moved last, in milliseconds since the beginning.
#[derive(Debug)]
struct Activity {
    start: Instant,
    last: AtomicU64,
    ended: AtomicUsize,
}

impl Activity {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
            ended: AtomicUsize::new(0),
        }
    }

    fn note(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// One direction has ended: `to` is told.
    fn ended(&self, to: &TcpStream) -> io::Result<()> {
        self.note();
        self.ended.fetch_add(1, Ordering::Relaxed);
        shut(to)
    }

    /// Returns when nothing has moved for too long.
    async fn silence(&self) {
        loop {
            let bound = if self.ended.load(Ordering::Relaxed) == 0 {
                SILENCE
            } else {
                HALF_SILENCE
            };
            let last = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if Instant::now() >= last + bound {
                return;
            }
            // Looked at this often at least, because the bound may have become the shorter one.
            sleep_until((last + bound).min(Instant::now() + HALF_SILENCE)).await;
        }
    }
}

enum Step {
    /// Nothing to read now.
    Wait,
    End,
    /// So many bytes arrived; of these, what the reader has not taken.
    Moved(usize, Vec<u8>),
}

async fn one_way(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    activity: &Activity,
) -> io::Result<()> {
    let mut turn = 0;
    let mut piece = PIECE;
    let mut many = false;
    loop {
        let step = if many && HOLDING.load(Ordering::Relaxed) <= HELD {
            step_in_bulk(from, to)
        } else {
            step(from, to, piece)
        };
        match step? {
            Step::Wait => {
                turn = 0;
                from.readable().await?;
            }
            Step::End => return activity.ended(to),
            Step::Moved(bytes, rest) => {
                activity.note();
                count.fetch_add(bytes as u64, Ordering::Relaxed);
                many = rest.is_empty() && bytes >= MANY;
                if !rest.is_empty() {
                    let written = bytes - rest.len();
                    deliver(to, rest, activity).await?;
                    // About what the reader takes at once.
                    piece = written.clamp(SMALL_PIECE, PIECE);
                } else if bytes == piece {
                    piece = (piece * 2).min(PIECE);
                }
                turn += bytes;
                if turn >= TURN {
                    turn = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// One read and the writes of what it brought, without a wait.
fn step(from: &TcpStream, to: &TcpStream, piece: usize) -> io::Result<Step> {
    let piece = if HOLDING.load(Ordering::Relaxed) > HELD {
        SMALL_PIECE
    } else {
        piece
    };
    BUFFER.with_borrow_mut(|buffer| {
        let got = match from.try_read(&mut buffer[..piece]) {
            Ok(0) => return Ok(Step::End),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Wait),
            Err(error) => return Err(error),
        };
        let written = write(to, &buffer[..got])?;
        Ok(Step::Moved(got, buffer[written..got].to_vec()))
    })
}

/// The same past this process's memory.
fn step_in_bulk(from: &TcpStream, to: &TcpStream) -> io::Result<Step> {
    match bulk::step(from, to)? {
        None => step(from, to, PIECE),
        Some(bulk::Moved { bytes, rest }) => Ok(Step::Moved(bytes, rest)),
    }
}

/// Writes what goes without a wait.
fn write(to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.try_write(&bytes[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

async fn deliver(to: &TcpStream, rest: Vec<u8>, activity: &Activity) -> io::Result<()> {
    let _held = Held::new(rest.len());
    let mut written = 0;
    while written < rest.len() {
        to.writable().await?;
        let more = write(to, &rest[written..])?;
        if more > 0 {
            activity.note();
        }
        written += more;
    }
    Ok(())
}

/// Bytes that wait in memory.
struct Held(usize);

impl Held {
    fn new(bytes: usize) -> Self {
        HOLDING.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HOLDING.fetch_sub(self.0, Ordering::Relaxed);
    }
}

fn shut(to: &TcpStream) -> io::Result<()> {
    match SockRef::from(to).shutdown(std::net::Shutdown::Write) {
        // The other side is gone already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, send};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::testing::connection;
    use super::*;

    /// splice(2) says at an urgent byte what it says at the end, or where nothing is.
    #[tokio::test]
    async fn an_urgent_byte_is_not_the_end() {
        const BEFORE: usize = 8 << 20;
        const AFTER: usize = 3 << 20;
        for _ in 0..4 {
            let (mut sender, from) = connection().await;
            let (to, mut receiver) = connection().await;
            let sending = tokio::spawn(async move {
                sender.write_all(&vec![b'a'; BEFORE]).await.unwrap();
                sender.writable().await.unwrap();
                while send(&sender, b"!", SendFlags::OOB).is_err() {
                    sender.writable().await.unwrap();
                    tokio::task::yield_now().await;
                }
                sender.write_all(&vec![b'b'; AFTER]).await.unwrap();
            });
            let receiving = tokio::spawn(async move {
                let mut got = Vec::new();
                receiver.read_to_end(&mut got).await.unwrap();
                got
            });
            let (count, activity) = (AtomicU64::new(0), Activity::new());
            one_way(&from, &to, &count, &activity).await.unwrap();
            drop(to);
            sending.await.unwrap();
            let got = receiving.await.unwrap();
            let got: Vec<u8> = got.into_iter().filter(|&byte| byte != b'!').collect();
            assert!(got[..BEFORE].iter().all(|&byte| byte == b'a'));
            assert!(got[BEFORE..] == vec![b'b'; AFTER]);
        }
    }
}
