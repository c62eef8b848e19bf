//! Waiting for the end of a sandbox that somebody else may end.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sandbox::Sandbox;

/// The end of a sandbox's first process.
#[derive(Debug)]
pub(super) struct End(AsyncFd<OwnedFd>);

impl End {
    #[expect(
        deprecated,
        reason = "an OwnedFd stays what it is; the successor is an unsafe function"
    )]
    pub(super) fn of(sandbox: &dyn Sandbox) -> Option<Self> {
        let process = sandbox.process()?.try_clone_to_owned().ok()?;
        AsyncFd::with_interest(process, Interest::READABLE)
            .ok()
            .map(Self)
    }

    pub(super) async fn comes(&self) {
        // A descriptor that cannot be asked is as one that has ended.
        let _ = self.0.readable().await;
    }
}
