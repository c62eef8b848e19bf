//! A git directory without refs and settings, for a git that is told where its objects are.

use std::fs;
use std::path::Path;

use super::{ObjectFormat, Repository};
use crate::fsx::{self, Context, FileError};

/// Makes it at `directory`, in place of whatever is there, for objects of `repo`. Other users may read it, where what is
/// above lets them: the git of a jail may have another one's id.
pub fn make(repo: &Repository, directory: &Path) -> Result<(), FileError> {
    fsx::remove_tree_or_file(directory)?;
    for part in ["objects", "refs"] {
        fs::create_dir_all(directory.join(part)).context("create", directory)?;
    }
    let put = |name: &str, bytes: &[u8]| fsx::write_with_mode(&directory.join(name), bytes, 0o644);
    let config = match repo.format {
        ObjectFormat::Sha1 => "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
        ObjectFormat::Sha256 => {
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
        }
    };
    put("config", config.as_bytes())?;
    if let Ok(bytes) = fs::read(repo.common_dir.join("shallow")) {
        put("shallow", &bytes)?;
    }
    put("HEAD", b"ref: refs/heads/none\n")
}
