//! Files that a program's terminal interface wants of somebody who never used it, put into a sandbox.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::inside::AGENT_HOME;
use crate::agent::{HomeContent, HomeFile, merged};
use crate::sandbox::browse::{Content, Peek, Sight, browse};
use crate::sandbox::change::{FileChange, change};
use crate::sandbox::{Sandbox, SandboxError};

/// Bytes of a file that is there: programs keep much in them.
const LARGEST: u64 = 4 << 20;
const LIMIT: Duration = Duration::from_secs(10);

/// What is taken away again.
#[derive(Debug, Default)]
pub(super) struct Put(Vec<PathBuf>);

/// Where that cannot be, the program asks its user itself.
pub(super) async fn put(sandbox: &dyn Sandbox, files: &[HomeFile]) -> Put {
    let mut put = Put::default();
    for file in files {
        let path = Path::new(AGENT_HOME).join(file.path);
        let one = tokio::time::timeout(LIMIT, put_one(sandbox, &path, &file.content)).await;
        let is_secret = matches!(file.content, HomeContent::Secret(_));
        if is_secret && matches!(one, Ok(Ok(true))) {
            put.0.push(path);
        }
    }
    put
}

impl Put {
    /// Also where the program has ended in whatever way.
    pub(super) async fn take_away(self, sandbox: &dyn Sandbox) {
        let gone: Vec<_> = self
            .0
            .iter()
            .map(|path| FileChange::Remove { path })
            .collect();
        if !gone.is_empty() {
            // A sandbox that has ended has nothing any more.
            let _ = tokio::time::timeout(LIMIT, change(sandbox, &gone)).await;
        }
    }
}

/// Whether it was written.
async fn put_one(
    sandbox: &dyn Sandbox,
    path: &Path,
    content: &HomeContent,
) -> Result<bool, SandboxError> {
    let there = read(sandbox, path).await?;
    let content = match (content, &there) {
        (HomeContent::Secret(bytes), None) => Some(bytes.clone()),
        (HomeContent::Secret(_), Some(_)) => None,
        (HomeContent::Members(members), there) => merged(there.as_deref(), members),
    };
    let Some(content) = content else {
        return Ok(false);
    };
    let write = FileChange::Write {
        path,
        mode: 0o600,
        content: &content,
    };
    let done = change(sandbox, &[write]).await?;
    Ok(done.iter().all(Result::is_ok))
}

/// What is at a place inside; `None`: nothing.
async fn read(sandbox: &dyn Sandbox, path: &Path) -> Result<Option<Vec<u8>>, SandboxError> {
    let content = Content {
        offset: 0,
        length: LARGEST + 1,
        largest: u64::MAX,
    };
    let (mut bytes, mut is_there) = (Vec::new(), false);
    let peek = Peek::at(path).unfollowed().with_content(content);
    browse(sandbox, &peek, &mut |sight| {
        match sight {
            Sight::Part(part) => bytes.extend(part),
            Sight::Thing(_) => is_there = true,
            // What cannot be looked at is not replaced.
            Sight::Unread { error, .. } => is_there |= error != libc::ENOENT,
            Sight::Target(_) | Sight::At(_) => {}
        }
        ControlFlow::Continue(())
    })
    .await?;
    Ok(is_there.then_some(bytes))
}
