//! Paths that a caller names below a repository's top, made plain.

use std::path::{Component, Path, PathBuf};

use super::own_files;

/// `path` relative to `top`, without `.` in it. It is relative already, or absolute and below `top`.
/// The error says why it names nothing that could travel or be hidden.
pub fn plain(top: &Path, path: &Path) -> Result<PathBuf, &'static str> {
    let relative = match path.strip_prefix(top) {
        Ok(relative) => relative,
        Err(_) if path.is_absolute() => return Err("it is not in the repository"),
        Err(_) => path,
    };
    let mut out = PathBuf::new();
    for component in relative.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if name.eq_ignore_ascii_case(".git") => {
                return Err("git's own files do not travel");
            }
            Component::Normal(name) => out.push(name),
            _ => return Err("it leads out of the repository"),
        }
    }
    if out.as_os_str().is_empty() {
        return Err("it is the whole repository");
    }
    if out.starts_with(own_files::DIRECTORY) {
        return Err("it is Cofferdam's own directory, which no sandbox sees");
    }
    Ok(out)
}
