//! Which files are opened, by the kernel's own count (inotify(7)).

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify;

/// Directories that are watched, each for the files in it.
#[derive(Debug)]
pub struct Opens(OwnedFd);

impl Opens {
    pub fn of(directories: impl IntoIterator<Item = impl AsRef<Path>>) -> io::Result<Self> {
        let opens = Self(inotify::init(inotify::CreateFlags::NONBLOCK)?);
        for directory in directories {
            opens.add(directory.as_ref())?;
        }
        Ok(opens)
    }

    /// The directory, and all below it.
    pub fn below(directory: &Path) -> io::Result<Self> {
        let opens = Self::of([directory])?;
        opens.add_below(directory)?;
        Ok(opens)
    }

    fn add(&self, directory: &Path) -> io::Result<()> {
        inotify::add_watch(&self.0, directory, inotify::WatchFlags::OPEN)?;
        Ok(())
    }

    fn add_below(&self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.add(&entry.path())?;
                self.add_below(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The names of the files that were opened since one looked last, each as often as it was.
    pub fn names(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 1 << 12];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            if !event.events().contains(inotify::ReadFlags::ISDIR) {
                let name = event.file_name().map(|name| name.to_string_lossy());
                names.push(name.unwrap_or_default().into_owned());
            }
        }
        names
    }
}
