//! How far git is with writing files, from what it tells on standard error.

use std::sync::{Arc, Mutex, PoisonError};

use crate::process::Watch;

/// So long a piece is looked for a count; git's own are far shorter.
const LONGEST: usize = 200;

/// Where counts go: files written, files in all. Called a hundred times at most, and once a second.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(u64, u64) + Send + Sync>);

impl Progress {
    /// `tell` gets how many there are done, and of how many.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Finds the counts in git's standard error.
    pub(super) fn watch(&self) -> Watch {
        let tell = Arc::clone(&self.0);
        let piece = Mutex::new(Vec::new());
        Watch(Arc::new(move |bytes| {
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            for &byte in bytes {
                if byte != b'\r' && byte != b'\n' {
                    if piece.len() < LONGEST {
                        piece.push(byte);
                    }
                    continue;
                }
                if let Some((done, all)) = counts(&piece) {
                    tell(done, all);
                }
                piece.clear();
            }
        }))
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

/// `Updating files:  12% (120/1000)`.
fn counts(piece: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(piece).ok()?;
    let (_, rest) = text.split_once("% (")?;
    let (counts, _) = rest.split_once(')')?;
    let (done, all) = counts.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_pieces() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let progress = Progress::new(move |done, all| told.lock().unwrap().push((done, all)));
        let Watch(watch) = progress.watch();
        watch(b"warning: 9% (of something\nUpdating files:  12% (120/1");
        watch(b"000)\rUpdating files: 100% (1000/1000), done.\n");
        assert_eq!(*seen.lock().unwrap(), [(120, 1000), (1000, 1000)]);
    }
}
