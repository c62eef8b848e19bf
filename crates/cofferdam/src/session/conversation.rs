//! An agent's conversation, out of one sandbox and into another. What comes out is hostile: it is kept, bounded, and given to sandboxes
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::inside::{AGENT_HOME, Inside, InsideError, Output};
use crate::agent::{
    AgentError, AgentProvider, SessionCommands, SessionError, SessionFile, SessionFiles,
    SessionLayout, SessionTarget,
};
use crate::fsx::FileError;
use crate::runs::conversation::{File, LARGEST, MOST, OF_A_RUN};
use crate::sandbox::browse::{Content, Kind, Peek, Sight, browse};
use crate::sandbox::change::{FileChange, change};
use crate::sandbox::{Sandbox, SandboxError};

/// For taking one out, or putting one in.
const LIMIT: Duration = Duration::from_mins(1);
/// Levels below the directory of a program's records.
const DEEP: u32 = 8;
/// So many of the files that were written to last are asked of which conversation they are, and so many bytes are read for that.
const UNNAMED: usize = 32;
const BEGINS: u64 = 16 << 10;
/// Of a list of conversations, and of a file that says where they are: what is parsed takes many times its bytes.
const LIST: u64 = 1 << 20;
const INDEX: u64 = 1 << 20;
/// What a program of an agent prints or takes in, as one file.
const PRINTED: &str = "conversation";
/// Where that is inside while it is taken in.
const ON_ITS_WAY: &str = "/tmp/cofferdam-conversation";

/// Why a conversation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The agent cannot be asked for that.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent left none, or nobody could read it.
    #[error("nothing was kept of the conversation `{id}`")]
    NotKept {
        /// Printable.
        id: String,
    },
    /// Only the newest conversations are kept.
    #[error("the conversation was kept, and has made room for newer ones since")]
    MadeRoom,
    /// Nothing is known of how it keeps its conversations.
    #[error("{agent} cannot be given an earlier conversation")]
    NoFiles {
        /// The agent's name.
        agent: String,
    },
    /// The files are another agent's, or were changed.
    #[error("what was kept of the conversation is none of {agent}: {source}")]
    Foreign {
        /// The agent's name.
        agent: String,
        /// What is wrong with them.
        source: SessionError,
    },
    /// The kept files could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Why, as a sentence fragment.
    #[error("the conversation could not be put into the sandbox: {0}")]
    NotGiven(String),
    /// Why, as a sentence fragment.
    #[error("the conversation could not be taken out of the sandbox: {0}")]
    NotTaken(String),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// Where a conversation is or is to be.
#[derive(Clone, Copy)]
pub(super) struct Conversing<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub agent: &'a dyn AgentProvider,
    /// Of the agent's program.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Where that works.
    pub workdir: &'a Path,
    pub cancel: &'a CancellationToken,
}

impl Conversing<'_> {
    /// The files of the agent's conversation; none where its program keeps none.
    pub(super) async fn take(self, id: &str) -> Result<Vec<File>, ConversationError> {
        match self.agent.sessions() {
            None => Ok(Vec::new()),
            Some(SessionFiles::Layout(layout)) => {
                let taken = self.take_files(&layout, id);
                within(taken, self.cancel, ConversationError::NotTaken).await
            }
            Some(SessionFiles::Commands(commands)) => self.take_printed(&commands, id).await,
        }
    }

    /// Whether the sandbox has it. Of a program that keeps none nobody knows.
    pub(super) async fn has(self, id: &str) -> Result<bool, ConversationError> {
        match self.agent.sessions() {
            None => Ok(true),
            Some(SessionFiles::Layout(layout)) => {
                let root = layout.root(Path::new(AGENT_HOME), self.environment);
                let looked = async {
                    let paths = self.paths(&root, &layout, id).await;
                    let failed =
                        |error: SandboxError| ConversationError::NotGiven(error.to_string());
                    Ok(!paths.map_err(failed)?.is_empty())
                };
                within(looked, self.cancel, ConversationError::NotGiven).await
            }
            Some(SessionFiles::Commands(commands)) => {
                Ok(self.take_printed(&commands, id).await.is_ok())
            }
        }
    }

    /// Puts one in, unless the sandbox has it already: that one is at least as long.
    pub(super) async fn give(self, id: &str, files: Vec<File>) -> Result<(), ConversationError> {
        match self.agent.sessions() {
            None => Err(ConversationError::NoFiles {
                agent: self.agent.name().to_owned(),
            }),
            Some(SessionFiles::Layout(layout)) => {
                let given = self.give_files(&layout, id, files);
                within(given, self.cancel, ConversationError::NotGiven).await
            }
            Some(SessionFiles::Commands(commands)) => {
                if self.take_printed(&commands, id).await.is_ok() {
                    return Ok(());
                }
                self.give_printed(&commands, files).await
            }
        }
    }

    /// The conversation that was written to last, at this second or later; `None` where its program keeps none, or none that says which
    /// one it is.
    pub(super) async fn newest(self, since: i64) -> Result<Option<String>, ConversationError> {
        match self.agent.sessions() {
            None => Ok(None),
            Some(SessionFiles::Layout(layout)) => tokio::select! {
                found = self.newest_file(&layout, since) => Ok(found),
                () = self.cancel.cancelled() => Err(ConversationError::Cancelled),
            },
            Some(SessionFiles::Commands(commands)) => {
                let printed = self.run((commands.list)(), LIST).await;
                let printed = printed.map_err(|error| said(error, ConversationError::NotTaken))?;
                let newest = (commands.newest)(&printed);
                Ok(newest.and_then(|(id, written)| (written >= since).then_some(id)))
            }
        }
    }

    async fn newest_file(self, layout: &SessionLayout, since: i64) -> Option<String> {
        let root = layout.root(Path::new(AGENT_HOME), self.environment);
        let within = (layout.within)(&self.directory());
        let (mut newest, mut seen): (Option<(i64, String)>, _) = (None, 0);
        // Those whose path does not say of which conversation they are.
        let mut unnamed = BTreeSet::new();
        let at = root.join(&within);
        let place = Peek::at(&at).down(DEEP);
        let mut hear = |sight| {
            seen += 1;
            if let Sight::Thing(thing) = sight
                && thing.kind == Kind::File
                && thing.changed >= newest.as_ref().map_or(since, |(changed, _)| *changed)
                && let Ok(below) = std::str::from_utf8(&thing.path)
            {
                let path = format!("{within}/{below}");
                let id = ids(&path).find(|id| (layout.belongs)(&path, id));
                if let Some(id) = id {
                    newest = Some((thing.changed, id.to_owned()));
                } else if layout.identified.is_some() {
                    unnamed.insert((thing.changed, path));
                    if unnamed.len() > UNNAMED {
                        unnamed.pop_first();
                    }
                }
            }
            if seen > MOST * 10 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        // What came before it broke off counts.
        let _ = tokio::time::timeout(LIMIT, browse(self.sandbox, &place, &mut hear)).await;
        let named = newest.as_ref().map_or(since, |(changed, _)| *changed);
        let asked = async {
            for (_, path) in unnamed.iter().rev().filter(|(at, _)| *at >= named) {
                // It may have gone since.
                let Ok(begins) = self.content(&root.join(path), BEGINS).await else {
                    continue;
                };
                let id = layout.identified.and_then(|of| of(&begins));
                if let Some(id) = id.filter(|id| (layout.belongs)(path, id)) {
                    return Some(id);
                }
            }
            None
        };
        let asked = tokio::time::timeout(LIMIT, asked).await.ok().flatten();
        asked.or(newest.map(|(_, id)| id))
    }

    fn directory(&self) -> String {
        self.workdir.to_string_lossy().into_owned()
    }

    /// The paths of the conversation's files, below the root of its program's.
    async fn paths(
        self,
        root: &Path,
        layout: &SessionLayout,
        id: &str,
    ) -> Result<BTreeSet<String>, SandboxError> {
        let within = (layout.within)(&self.directory());
        let mut paths = BTreeSet::new();
        let at = root.join(&within);
        browse(self.sandbox, &Peek::at(&at).down(DEEP), &mut |sight| {
            if let Sight::Thing(thing) = sight
                && thing.kind == Kind::File
                && let Ok(below) = std::str::from_utf8(&thing.path)
            {
                let path = format!("{within}/{below}");
                if (layout.belongs)(&path, id) {
                    paths.insert(path);
                }
            }
            if paths.len() > MOST {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .await?;
        Ok(paths)
    }

    async fn take_files(
        self,
        layout: &SessionLayout,
        id: &str,
    ) -> Result<Vec<File>, ConversationError> {
        let failed = |error: SandboxError| ConversationError::NotTaken(error.to_string());
        let root = layout.root(Path::new(AGENT_HOME), self.environment);
        let paths = self.paths(&root, layout, id).await.map_err(failed)?;
        // A part of one is none: its program would not go on with it.
        let too_much = |what: String| Err(ConversationError::NotTaken(what));
        if paths.len() > MOST {
            return too_much(format!("it has more than {MOST} files"));
        }
        let (mut files, mut left) = (Vec::new(), OF_A_RUN);
        for path in paths {
            let most = left.min(LARGEST);
            let content = self.content(&root.join(&path), most + 1).await;
            let content = content.map_err(failed)?;
            if content.len() as u64 > most {
                return too_much(format!("it has more than {most} bytes"));
            }
            left -= content.len() as u64;
            files.push((path, content));
        }
        Ok(files)
    }

    /// What a file holds, `most` bytes of it.
    async fn content(self, path: &Path, most: u64) -> Result<Vec<u8>, SandboxError> {
        let content = Content {
            offset: 0,
            length: most,
            largest: u64::MAX,
        };
        let mut bytes = Vec::new();
        browse(
            self.sandbox,
            &Peek::at(path).unfollowed().with_content(content),
            &mut |sight| {
                if let Sight::Part(part) = sight {
                    bytes.extend(part);
                }
                ControlFlow::Continue(())
            },
        )
        .await?;
        Ok(bytes)
    }

    async fn give_files(
        self,
        layout: &SessionLayout,
        id: &str,
        files: Vec<File>,
    ) -> Result<(), ConversationError> {
        let failed = |error: SandboxError| ConversationError::NotGiven(error.to_string());
        let root = layout.root(Path::new(AGENT_HOME), self.environment);
        let there = self.paths(&root, layout, id).await.map_err(failed)?;
        if !there.is_empty() {
            return Ok(());
        }
        let index = match layout.index {
            Some(index) => Some(
                self.content(&root.join(index), INDEX)
                    .await
                    .map_err(failed)?,
            ),
            None => None,
        };
        let directory = self.directory();
        let target = SessionTarget {
            directory: &directory,
            index: index.as_deref().filter(|index| !index.is_empty()),
        };
        let files = files.into_iter();
        let files = files.map(|(path, bytes)| SessionFile { path, bytes });
        let moved = (layout.moved)(files.collect(), &target);
        let moved = moved.map_err(|source| ConversationError::Foreign {
            agent: self.agent.name().to_owned(),
            source,
        })?;
        let paths: Vec<PathBuf> = moved.iter().map(|file| root.join(&file.path)).collect();
        let changes: Vec<FileChange<'_>> = (moved.iter().zip(&paths))
            .map(|(file, path)| FileChange::Write {
                path,
                mode: 0o600,
                content: &file.bytes,
            })
            .collect();
        for done in change(self.sandbox, &changes).await.map_err(failed)? {
            done.map_err(|error| ConversationError::NotGiven(error.to_string()))?;
        }
        Ok(())
    }

    async fn take_printed(
        self,
        commands: &SessionCommands,
        id: &str,
    ) -> Result<Vec<File>, ConversationError> {
        let printed = self.run((commands.export)(id), LARGEST).await;
        let printed = printed.map_err(|error| said(error, ConversationError::NotTaken))?;
        Ok(vec![(PRINTED.to_owned(), printed)])
    }

    async fn give_printed(
        self,
        commands: &SessionCommands,
        files: Vec<File>,
    ) -> Result<(), ConversationError> {
        let place = Path::new(ON_ITS_WAY);
        for (_, content) in files {
            let write = FileChange::Write {
                path: place,
                mode: 0o600,
                content: &content,
            };
            let written = change(self.sandbox, &[write]).await;
            let written =
                written.map_err(|error| ConversationError::NotGiven(error.to_string()))?;
            for done in written {
                done.map_err(|error| ConversationError::NotGiven(error.to_string()))?;
            }
            let taken_in = self.run((commands.import)(place), LARGEST).await;
            // Whether it stays there makes no difference to anybody.
            let _ = change(self.sandbox, &[FileChange::Remove { path: place }]).await;
            taken_in.map_err(|error| said(error, ConversationError::NotGiven))?;
        }
        Ok(())
    }

    /// What it printed, at most so many bytes.
    async fn run(self, arguments: Vec<OsString>, most: u64) -> Result<Vec<u8>, InsideError> {
        let inside = Inside {
            sandbox: self.sandbox,
            arguments,
            directory: Some(self.workdir),
            environment: self.environment,
            limit: LIMIT,
            output: Output::Captured(usize::try_from(most).unwrap_or(usize::MAX)),
        };
        let done = inside.run(self.cancel).await?;
        if !done.exit.success() {
            let stderr = String::from_utf8_lossy(&done.stderr);
            let why = format!("{}: {}", done.exit, crate::text::printable(stderr.trim()));
            return Err(SandboxError::Files {
                action: "take a conversation through",
                reason: why,
            }
            .into());
        }
        Ok(done.stdout)
    }
}

fn said(error: InsideError, what: fn(String) -> ConversationError) -> ConversationError {
    match error {
        InsideError::Cancelled => ConversationError::Cancelled,
        error => what(error.to_string()),
    }
}

/// Programs inside can hold up whoever looks for their files.
async fn within<T>(
    step: impl Future<Output = Result<T, ConversationError>>,
    cancel: &CancellationToken,
    what: fn(String) -> ConversationError,
) -> Result<T, ConversationError> {
    tokio::select! {
        done = tokio::time::timeout(LIMIT, step) => {
            done.unwrap_or_else(|_| Err(what(format!("it took longer than {} s", LIMIT.as_secs()))))
        }
        () = cancel.cancelled() => Err(ConversationError::Cancelled),
    }
}

/// What in a path has the form of a UUID, by which programs call their conversations.
fn ids(path: &str) -> impl Iterator<Item = &str> {
    const LENGTH: usize = 36;
    let is_one = |text: &&str| {
        text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    (0..path.len().saturating_sub(LENGTH - 1))
        .filter_map(move |at| path.get(at..at + LENGTH))
        .filter(is_one)
}
