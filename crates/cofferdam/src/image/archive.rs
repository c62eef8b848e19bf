//! The archive that a build gets. The same files give the same bytes: an engine's cache of steps goes by them.

use std::io;
use std::path::Path;

use tar::{Builder, EntryType, Header};

pub(super) struct Archive(Builder<Vec<u8>>);

impl Archive {
    pub(super) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    pub(super) fn file(&mut self, path: &Path, bytes: &[u8], executable: bool) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_size(bytes.len() as u64);
        header.set_mtime(0);
        self.0.append_data(&mut header, path, bytes)
    }

    pub(super) fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        header.set_mtime(0);
        self.0.append_link(&mut header, path, target)
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.0.into_inner()
    }
}
