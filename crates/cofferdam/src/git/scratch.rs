//! A throw-away git directory of ours, for looking at a working tree that somebody else may have
//! written: no filter driver, hook or monitor of any configuration exists in it, so nothing that
//! the tree names can be executed. Objects are the repository's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::command::{GitCommand, GitError};
use super::identity::UserConfig;
use super::progress::Progress;
use super::{ObjectFormat, Oid, Repository};
use crate::fsx::{self, Context, FileError};

/// Checking out a large tree takes its time.
const CHECKOUT_LIMIT: Duration = Duration::from_mins(30);

/// A tree could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CheckOutError {
    /// Its place could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git could not say what is in it.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What of the tree the user wants to see.
#[derive(Debug)]
pub(super) struct Sparse {
    pub(super) patterns: Vec<u8>,
    pub(super) cone: bool,
}

#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    git: super::Git,
    objects: PathBuf,
    work_tree: PathBuf,
    excludes_file: Option<PathBuf>,
    caller_home: Option<PathBuf>,
}

/// Whose rules of ignoring and comparing hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserRules<'a> {
    /// The user's settings; nothing where none of them hold.
    pub config: Option<&'a UserConfig>,
    /// For `~/.config/git/ignore`.
    pub caller_home: Option<&'a Path>,
}

impl Scratch {
    /// Writes the tree of `tip` into the empty working tree `work_tree`, by no driver of any
    /// configuration: what the tree names as a filter may be a script that an agent wrote. The new
    /// index is written to `index`. `sparse`: the user's patterns.
    pub(super) async fn check_out(
        mut self,
        tip: &Oid,
        work_tree: &Path,
        index: &Path,
        sparse: Option<&Sparse>,
        progress: Option<&Progress>,
        cancel: &CancellationToken,
    ) -> Result<(), CheckOutError> {
        work_tree.clone_into(&mut self.work_tree);
        let mut call = self
            .command()
            .env("GIT_INDEX_FILE", index)
            .limit(CHECKOUT_LIMIT);
        if let Some(sparse) = sparse {
            fsx::write_private(
                &self.directory.join("info/sparse-checkout"),
                &sparse.patterns,
            )?;
            call = call
                .config("core.sparseCheckout=true")
                .config(format!("core.sparseCheckoutCone={}", sparse.cone));
        }
        let mut verbose = None;
        if let Some(progress) = progress {
            call = call.env("GIT_PROGRESS_DELAY", "0").watch(progress.watch());
            verbose = Some("-v");
        }
        call.args(["read-tree", "-m", "-u"])
            .args(verbose)
            .arg(tip.as_str())
            .run(cancel)
            .await?;
        Ok(())
    }

    /// Makes `directory` with HEAD detached at `tip`. What a dead command left there goes first. It goes with the value.
    pub(super) fn create(
        directory: PathBuf,
        repo: &Repository,
        tip: &Oid,
        rules: UserRules<'_>,
    ) -> Result<Self, FileError> {
        fsx::remove_tree_or_file(&directory)?;
        fsx::private_dir(&directory)?;
        let scratch = Self {
            git: repo.git.clone(),
            objects: repo.objects(),
            work_tree: repo.top.as_path().to_owned(),
            excludes_file: rules.config.and_then(|config| config.excludes_file.clone()),
            caller_home: rules.caller_home.map(Path::to_owned),
            directory,
        };
        scratch.fill(repo, tip, rules)?;
        Ok(scratch)
    }

    fn fill(&self, repo: &Repository, tip: &Oid, rules: UserRules<'_>) -> Result<(), FileError> {
        let dir = &self.directory;
        for part in ["refs", "info"] {
            fsx::private_dir(&dir.join(part))?;
        }
        let sha256 = repo.format == ObjectFormat::Sha256;
        let mut config = format!("[core]\n\trepositoryformatversion = {}\n", u8::from(sha256));
        config.push_str("\tbare = false\n");
        for (key, value) in rules.config.iter().flat_map(|config| &config.comparing) {
            // All of them are single words; anything else is no value git would take.
            if value.bytes().all(|b| b.is_ascii_alphanumeric()) {
                config.extend(["\t", key, " = ", value, "\n"]);
            }
        }
        if sha256 {
            config.push_str("[extensions]\n\tobjectFormat = sha256\n");
        }
        fsx::write_private(&dir.join("config"), config.as_bytes())?;
        let exclude = repo.common_dir.join("info/exclude");
        if let Ok(bytes) = fs::read(&exclude) {
            fsx::write_private(&dir.join("info/exclude"), &bytes)?;
        }
        // A split index names its other half, which is looked up in the git directory.
        let entries = fs::read_dir(&repo.git_dir).context("list", &repo.git_dir)?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b"sharedindex.") {
                let to = dir.join(&name);
                std::os::unix::fs::symlink(entry.path(), &to).context("link", &to)?;
            }
        }
        fsx::write_private(&dir.join("HEAD"), format!("{tip}\n").as_bytes())
    }

    /// A call in the scratch directory with the repository's objects and working tree, and the
    /// index at [`Self::index`].
    pub(super) fn command(&self) -> GitCommand {
        let mut call = self
            .git
            .at(&self.directory, &self.directory)
            .work_tree(&self.work_tree)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .env("GIT_INDEX_FILE", self.index());
        if let Some(home) = &self.caller_home {
            // The configuration stays closed; only `~/.config/git/ignore` is found through it.
            call = call.env("HOME", home);
        }
        if let Some(path) = &self.excludes_file {
            let mut setting = std::ffi::OsString::from("core.excludesFile=");
            setting.push(path);
            call = call.config(setting);
        }
        call
    }

    pub(super) fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    /// Takes over an index: a link to the same file where that can be, because git never writes an
    /// index in place. When the file was last written belongs to what it says.
    pub(super) fn copy_index(&self, from: &Path) -> Result<(), FileError> {
        let failed = |error| FileError::new("copy", from, error);
        let found = match fs::symlink_metadata(from) {
            Ok(found) => found,
            // No index: everything is deleted, as git sees it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        // It may be a link to the very file that is to be copied, and a copy would begin by cutting that short.
        fsx::remove_file_if_exists(&self.index())?;
        if found.is_file() && fs::hard_link(from, self.index()).is_ok() {
            return Ok(());
        }
        let written = fs::metadata(from)
            .and_then(|found| found.modified())
            .map_err(failed)?;
        fs::copy(from, self.index()).map_err(failed)?;
        let copy = fs::File::options()
            .write(true)
            .open(self.index())
            .map_err(failed)?;
        copy.set_modified(written).map_err(failed)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fsx::remove_tree(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_a_dead_command_linked_is_not_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let users = dir.path().join("index");
        fsx::write_private(&users, b"the user's index").unwrap();
        let scratch = Scratch {
            directory: dir.path().join("scratch"),
            git: super::super::Git::new("git"),
            objects: PathBuf::new(),
            work_tree: PathBuf::new(),
            excludes_file: None,
            caller_home: None,
        };
        fsx::private_dir(&scratch.directory).unwrap();
        for _ in 0..2 {
            scratch.copy_index(&users).unwrap();
            assert_eq!(fs::read(&users).unwrap(), b"the user's index");
            assert_eq!(fs::read(scratch.index()).unwrap(), b"the user's index");
        }
    }
}
