//! The threads that carry connections, each with a runtime of its own: a connection stays on one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;

const MOST: usize = 8;

/// The running worker threads.
#[derive(Debug)]
pub(super) struct Workers {
    handles: Vec<Handle>,
    next: AtomicUsize,
    /// Closed as soon as one of the threads is gone.
    alive: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Workers {
    /// The worker whose turn it is.
    pub(super) fn next(&self) -> &Handle {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.handles[turn % self.handles.len()]
    }

    /// Returns when a thread is gone: its connections hang, so the process must end.
    pub(super) async fn broken(&self) {
        _ = self.alive.lock().await.recv().await;
    }
}

/// Says that its thread ended, however it did.
struct Alive(mpsc::Sender<()>);

impl Drop for Alive {
    fn drop(&mut self) {
        // Full: another thread has said so.
        _ = self.0.try_send(());
    }
}

/// How many this machine has room for. To be asked while the files that say so may be read.
pub(super) fn count() -> usize {
    thread::available_parallelism().map_or(1, |count| count.get().min(MOST))
}

pub(super) fn start(count: usize) -> io::Result<Workers> {
    let (alive, ended) = mpsc::channel(1);
    let mut handles = Vec::new();
    for number in 0..count {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        handles.push(runtime.handle().clone());
        let alive = Alive(alive.clone());
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let _alive = alive;
                runtime.block_on(std::future::pending::<()>());
            })?;
    }
    Ok(Workers {
        handles,
        next: AtomicUsize::new(0),
        alive: tokio::sync::Mutex::new(ended),
    })
}

/// A descriptor whose readiness the worker that runs this waits for.
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for descriptors that can be closed elsewhere; this one is owned"
    )]
    AsyncFd::new(descriptor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_goes_wrong_in_one_connection_ends_that_one_only() {
        let workers = start(1).unwrap();
        let worker = workers.next();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let broken = worker.spawn(async { panic!("of a parser") }).await;
            assert!(broken.unwrap_err().is_panic());
            assert_eq!(worker.spawn(async { 7 }).await.unwrap(), 7);
            // The one that says that a whole thread is gone has nothing to say.
            let gone = tokio::time::timeout(Duration::ZERO, workers.broken());
            assert!(gone.await.is_err());
        });
    }
}
