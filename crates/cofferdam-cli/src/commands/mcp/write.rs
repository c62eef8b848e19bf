//! `sandbox-write`.

use std::fmt;
use std::path::Path;

use cofferdam::git::InTree;
use cofferdam::sandbox::browse::Kind;
use cofferdam::sandbox::change::FileChange;
use cofferdam::session::Session;
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed::{self, Changed};
use super::failure::Failure;
use super::inside;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::commands::here;

/// Of a new file.
const MODE: u32 = 0o644;
const EXECUTABLE: u32 = 0o111;

/// Write a file
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// The sandbox's name
    sandbox: String,
    /// The file: absolute, or below the top of the repository. Missing directories are made.
    path: String,
    /// All that it is to hold
    content: String,
    /// Whether it is to be executable; as it is unless given
    executable: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Wrote {
    path: String,
    /// Whether it was not there before
    created: bool,
    bytes: usize,
    #[serde(flatten)]
    changed: Changed,
}

impl Call for Write {
    const NAME: &'static str = "sandbox-write";
    const TITLE: &'static str = "Write a file";
    const DESCRIPTION: &'static str = "Writes a whole file in a sandbox, in place of what is there. In the repository it becomes a commit, \
        unless it is new and an ignore file covers it. For a part of a file `sandbox-edit` is better.";
    const EFFECT: Effect = Effect::Changes;
    type Told = Wrote;

    async fn call(self, server: Server, asked: Asked) -> Result<Wrote, Failure> {
        let session = server.to_change(&self.sandbox, &asked).await?;
        if self.path.starts_with("~/") {
            return Err(Failure::new(
                format!(
                    "`{}` begins with `~`, which only a shell knows",
                    printable_line(&self.path)
                ),
                "A file of the repository is named from its top on, such as src/lib.rs; any other one by an absolute path: \
                 `echo ~` with `sandbox-exec` tells where the home is.",
            ));
        }
        let path = inside::absolute(&session, &self.path)?;
        inside::is_inside(&session, &path).await?;
        let alone = session.alone_with_files().await?;
        let (path, before) = match inside::find(&session, &path, 0).await? {
            Ok(there) if there.thing.kind == Kind::File => (there.path, Some(there.thing.mode)),
            Ok(there) => {
                return Err(inside::cannot(
                    &session,
                    "write",
                    &there.path,
                    "it is there, and no file",
                ));
            }
            Err(path) => (path, None),
        };
        let mode = match (before.unwrap_or(MODE), self.executable) {
            (mode, None) => mode,
            (mode, Some(true)) => mode | EXECUTABLE,
            (mode, Some(false)) => mode & !EXECUTABLE,
        };
        put(&session, &path, mode, self.content.as_bytes()).await?;
        drop(alone);
        let mut changed = changed::record(&session, Self::NAME).await;
        let created = before.is_none();
        let top = session.workdir()?;
        if let (true, Ok(below)) = (created && changed.is_nothing(), path.strip_prefix(&top)) {
            let note = if is_committed(&session, below, &server, &asked).await {
                "it is in a commit that another call made"
            } else {
                "an ignore file covers it, or it is in a submodule: it is in no commit"
            };
            changed.notes.push(note.to_owned());
        }
        Ok(Wrote {
            path: inside::shown(&session, &path),
            created,
            bytes: self.content.len(),
            changed,
        })
    }
}

/// Whether the sandbox's branch has it: calls that change files at once have one commit.
async fn is_committed(session: &Session, below: &Path, server: &Server, asked: &Asked) -> bool {
    let Ok(repository) = here::repository(server.environment(), server.interrupt()).await else {
        return false;
    };
    let branch = format!("refs/heads/{}", session.record().branch_text());
    let Ok(Some(tip)) = repository.resolve(&branch, &asked.cancel).await else {
        return false;
    };
    let found = repository.look_up(&tip, below, &asked.cancel).await;
    matches!(found, Ok(InTree::Blob(_)))
}

/// It takes its place whole.
pub(super) async fn put(
    session: &Session,
    path: &Path,
    mode: u32,
    content: &[u8],
) -> Result<(), Failure> {
    let change = FileChange::Write {
        path,
        mode,
        content,
    };
    let done = session.change_files(&[change]).await?;
    match done.into_iter().next() {
        Some(Err(error)) => {
            let mut failure = inside::cannot(session, "write", path, &error.to_string());
            if error.kind() == std::io::ErrorKind::NotADirectory || error.raw_os_error() == Some(40)
            {
                failure = failure.with_next(
                    "A directory on the way is a link or a file: name the place that it leads to.",
                );
            }
            Err(failure)
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Wrote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, .. } = self;
        let path = printable_line(path);
        let what = if self.created { "Made" } else { "Wrote" };
        writeln!(f, "{what} {path}, {bytes} bytes.")?;
        self.changed.fmt(f)
    }
}
