//! What became of a change: commits on the sandbox's branch.

use std::fmt;

use cofferdam::session::living::Collection;
use cofferdam::session::{Landing, Recorded, Session};
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::Serialize;

/// Where the changes are now.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Changed {
    /// New commits on the sandbox's branch, oldest first
    pub(super) commits: Vec<Commit>,
    /// What is to be known of them, such as why they did not come out of the sandbox
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Commit {
    id: String,
    subject: String,
}

/// So many of the newest commits, and of the notes, are told.
const TOLD: usize = 20;

/// Commits whatever is uncommitted, and brings the branch home. The change itself has been made: what goes wrong here is a note.
pub(super) async fn record(session: &Session, tool: &str) -> Changed {
    let mut notes = Vec::new();
    let mut commits = Vec::new();
    match Box::pin(session.record_changes(tool)).await {
        Ok((recorded, collection)) => {
            match recorded {
                Recorded::Nothing => {}
                Recorded::Commit { unread, left_out } => {
                    if unread > 0 {
                        notes.push(format!(
                            "{unread} changed paths could not be read, and are in no commit"
                        ));
                    }
                    if let Some(why) = left_out {
                        notes.push(format!(
                            "what the commit gate refuses is in no commit, and stays as it is in the sandbox: {}",
                            printable_line(&why)
                        ));
                    }
                }
                Recorded::Refused { why } => notes.push(format!(
                    "the changes are in no commit yet; change what is in the way, and the next call commits them: {}",
                    printable_line(&why)
                )),
            }
            if let Some(collection) = collection {
                tell(&collection, &mut notes);
                let before = collection.commits.len().saturating_sub(TOLD);
                if before > 0 {
                    notes.push(format!("{before} commits more came before these"));
                }
                commits.extend(collection.commits.iter().skip(before).map(|commit| Commit {
                    id: commit.id.short().to_owned(),
                    subject: printable_line(&commit.subject),
                }));
            }
        }
        Err(error) => notes.push(format!(
            "the changes are in no commit yet, and the next call tries again: {}",
            printable_line(&error.to_string())
        )),
    }
    notes.truncate(TOLD);
    Changed { commits, notes }
}

fn tell(collection: &Collection, notes: &mut Vec<String>) {
    match &collection.landing {
        Landing::Refused { why, .. } => notes.push(format!(
            "the commits stay inside, because the commit gate refuses them: {}; take the commit back that has it (`git reset --soft` to the one \
             before it, with `sandbox-exec`) and change that: the next call commits the rest",
            printable_line(why)
        )),
        Landing::Kept { why, .. } => {
            notes.push(format!("the branch did not move: {}", printable_line(why)));
        }
        _ => {}
    }
    if collection.ended {
        let ended = "its programs could not be stopped for a moment, so the sandbox was stopped";
        notes.push(ended.to_owned());
    }
    notes.extend(collection.notes.iter().map(|note| printable_line(note)));
}

impl Changed {
    /// There is no new commit, and nothing to say of that.
    pub(super) fn is_nothing(&self) -> bool {
        self.commits.is_empty() && self.notes.is_empty()
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for commit in &self.commits {
            writeln!(f, "[commit {} {}]", commit.id, commit.subject)?;
        }
        for note in &self.notes {
            writeln!(f, "[note: {note}]")?;
        }
        Ok(())
    }
}
