//! Questions about what is in the repository's history. Only host-owned objects are read: those of the user, and
//! those that passed the gate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::binary::but_for;
use super::{CommitLine, GitError, Oid, Repository};
use crate::names::BranchName;
use crate::process::{Input, Sink};
use crate::text::{printable, printable_path};

/// How much of a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffStyle {
    /// All of it, as `git diff` shows it.
    Patch,
    /// Files and how many lines of each, as `git diff --stat`.
    Stat,
    /// Names and what became of each, as `git diff --name-status`.
    NameStatus,
}

/// What a tree has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InTree {
    /// Nothing is there.
    Missing,
    /// A file, or a symlink that stays in the tree.
    Blob(Oid),
    /// A directory, a symlink that leads out of the tree, or a path that git cannot be asked about.
    Other,
}

impl Repository {
    /// The commits that `tips` have and `base` does not, newest last. Of a long subject the first 400 characters, as the gate tells them.
    pub async fn commits_since(
        &self,
        base: &Oid,
        tips: &[Oid],
        cancel: &CancellationToken,
    ) -> Result<Vec<CommitLine>, GitError> {
        let done = self
            .command()
            .args([
                "log",
                "-z",
                "--reverse",
                "--no-mailmap",
                // A subject may have as many bytes as a commit.
                "--format=%H %<(400,trunc)%s",
                "--end-of-options",
            ])
            .args(tips.iter().map(Oid::as_str))
            .arg(format!("^{base}"))
            .run(cancel)
            .await?;
        let lines = done.stdout.split(|&b| b == 0).filter_map(|line| {
            let line = String::from_utf8_lossy(line);
            let (id, subject) = line.split_once(' ')?;
            Some(CommitLine {
                id: id.parse().ok()?,
                // Git fills up short ones.
                subject: subject.trim_end_matches(' ').to_owned(),
            })
        });
        Ok(lines.collect())
    }

    /// How many commits `tips` have that neither `base` nor HEAD has. `None`: one of them is not there.
    pub async fn count_ahead(
        &self,
        base: &Oid,
        tips: &[Oid],
        cancel: &CancellationToken,
    ) -> Result<Option<u64>, GitError> {
        let done = self
            .command()
            .args(["rev-list", "--count", "--end-of-options"])
            .args(tips.iter().map(Oid::as_str))
            .args([&format!("^{base}"), "^HEAD"])
            .answers(&[128])
            .run(cancel)
            .await?;
        Ok(String::from_utf8_lossy(&done.stdout).trim().parse().ok())
    }

    /// The bytes of a blob, as it is in the repository.
    pub async fn content(
        &self,
        blob: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, GitError> {
        let call = self.command().args(["cat-file", "blob", blob.as_str()]);
        Ok(call.run(cancel).await?.stdout)
    }

    /// How many commits `tips` have, and neither `base` nor a branch, tag or remote branch other than `but`.
    pub async fn count_only_there(
        &self,
        tips: &[Oid],
        base: &Oid,
        but: Option<&BranchName>,
        cancel: &CancellationToken,
    ) -> Result<u64, GitError> {
        if tips.is_empty() {
            return Ok(0);
        }
        let text = self
            .command()
            // The base may be gone from the repository.
            .args(["rev-list", "--count", "--ignore-missing"])
            .args(tips.iter().map(Oid::as_str))
            .arg(format!("^{base}"))
            .arg("--not")
            .args(but.map(|branch| format!("--exclude={branch}")))
            .args(["--branches", "--tags", "--remotes"])
            .line(cancel)
            .await?;
        text.parse().map_err(|_| GitError::Output {
            command: "rev-list".to_owned(),
            what: "it is no number".to_owned(),
        })
    }

    /// Whether `descendant` contains `ancestor`. A commit that is not there is contained in nothing.
    pub async fn is_ancestor(
        &self,
        ancestor: &Oid,
        descendant: &Oid,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        let done = self
            .command()
            .args([
                "merge-base",
                "--is-ancestor",
                ancestor.as_str(),
                descendant.as_str(),
            ])
            .answers(&[1, 128])
            .run(cancel)
            .await?;
        Ok(done.exit.success())
    }

    /// Those of `commits` that are in the history of none of the others.
    pub async fn independent(
        &self,
        commits: &[Oid],
        cancel: &CancellationToken,
    ) -> Result<Vec<Oid>, GitError> {
        let text = self
            .command()
            .args(["merge-base", "--independent"])
            .args(commits.iter().map(Oid::as_str))
            .line(cancel)
            .await?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Whether a branch, tag or remote branch other than `branch` contains the commit.
    pub async fn is_elsewhere(
        &self,
        tip: &Oid,
        branch: &BranchName,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        let text = self
            .command()
            .args([
                "for-each-ref",
                "--count=2",
                "--format=%(refname)",
                "--contains",
                tip.as_str(),
            ])
            .args(["refs/heads/", "refs/tags/", "refs/remotes/"])
            .line(cancel)
            .await?;
        let own = branch.full();
        Ok(text.lines().any(|reference| reference != own))
    }

    /// Whether HEAD, a branch, a tag or a remote branch contains the commit: what is on none of them was put away, or deleted.
    pub async fn is_in_sight(
        &self,
        commit: &Oid,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        let text = self
            .command()
            .args([
                "rev-list",
                "--max-count=1",
                commit.as_str(),
                "--not",
                "HEAD",
            ])
            .args(["--branches", "--tags", "--remotes"])
            .line(cancel)
            .await?;
        Ok(text.is_empty())
    }

    /// Whether HEAD or a reference other than `but` contains the commit.
    pub async fn is_at_home(
        &self,
        commit: &Oid,
        but: &str,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        let text = self
            .command()
            .args(["rev-list", "--max-count=1", commit.as_str(), "--not"])
            .arg(format!("--exclude={but}"))
            .args(["--all", "HEAD"])
            .line(cancel)
            .await?;
        Ok(text.is_empty())
    }

    /// Files that differ between two commits.
    pub async fn changed_files(
        &self,
        from: &Oid,
        to: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Vec<PathBuf>, GitError> {
        let done = self
            .command()
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
            .args([from.as_str(), to.as_str()])
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        let paths = done.stdout.split(|&byte| byte == 0);
        let paths = paths.filter(|path| !path.is_empty());
        Ok(paths
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect())
    }

    /// Whether the commit's tree has something at `path`.
    pub async fn is_tracked(
        &self,
        commit: &Oid,
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        let done = self
            .command()
            .args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"])
            .arg(path)
            .run(cancel)
            .await?;
        Ok(!done.stdout.is_empty())
    }

    /// What the commit's tree has at `path`, symlinks of the tree followed.
    pub async fn look_up(
        &self,
        commit: &Oid,
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<InTree, GitError> {
        let found = self.look_up_all(&[(commit, path)], cancel).await?;
        Ok(found.into_iter().next().unwrap_or(InTree::Other))
    }

    /// The same of each of these, in their order.
    pub async fn look_up_all(
        &self,
        places: &[(&Oid, &Path)],
        cancel: &CancellationToken,
    ) -> Result<Vec<InTree>, GitError> {
        let mut names = Vec::new();
        for (commit, path) in places {
            let path = path.as_os_str().as_bytes();
            // A name of more than one line cannot be asked for.
            if !path.contains(&b'\n') {
                names.extend_from_slice(format!("{commit}:").as_bytes());
                names.extend_from_slice(path);
                names.push(b'\n');
            }
        }
        let done = self
            .command()
            .args(["cat-file", "--batch-check", "--follow-symlinks"])
            .input(Input::Bytes(names))
            .run(cancel)
            .await?;
        let mut told = done.stdout.as_slice();
        let found = places.iter().map(|(_, path)| {
            if path.as_os_str().as_bytes().contains(&b'\n') {
                return InTree::Other;
            }
            next_told(&mut told)
        });
        Ok(found.collect())
    }

    /// The commit that is named at each of the gitlinks of `commit`'s tree.
    pub async fn gitlinks(
        &self,
        commit: &Oid,
        paths: &[PathBuf],
        cancel: &CancellationToken,
    ) -> Result<Vec<(PathBuf, Oid)>, GitError> {
        let done = self
            .command()
            .args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"])
            .args(paths)
            .run(cancel)
            .await?;
        let lines = done.stdout.split(|&b| b == 0).filter_map(|line| {
            let tab = line.iter().position(|&b| b == b'\t')?;
            let words = std::str::from_utf8(&line[..tab]).ok()?;
            let oid = words.strip_prefix("160000 commit ")?.parse().ok()?;
            Some((PathBuf::from(OsStr::from_bytes(&line[tab + 1..])), oid))
        });
        Ok(lines.collect())
    }

    /// What `git diff` says between two commits, control bytes escaped: they are a sandbox's.
    pub async fn diff(
        &self,
        base: &Oid,
        tip: &Oid,
        style: DiffStyle,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        self.diff_of(base, tip, &[], style, cancel).await
    }

    /// The same of these files alone, and of what is in these directories; of none named, of all.
    pub async fn diff_of(
        &self,
        base: &Oid,
        tip: &Oid,
        paths: &[PathBuf],
        style: DiffStyle,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        let binaries = match style {
            DiffStyle::Patch => self.binaries(base, tip, paths, cancel).await?,
            DiffStyle::Stat | DiffStyle::NameStatus => Vec::new(),
        };
        let flag = match style {
            DiffStyle::Patch => "--patch",
            DiffStyle::Stat => "--stat",
            DiffStyle::NameStatus => "--name-status",
        };
        let objects = self.objects();
        let done = self
            .command()
            // What is shown is a sandbox's, and so may be the `.gitattributes` that say what not to show. Git
            // looks for them in the work tree and in the index: here is no such file, and there is no such
            // index. A zero byte in a file hides as much as an attribute, so everything counts as text
            // but what is binary from its first bytes on.
            .work_tree(&objects)
            .env("GIT_INDEX_FILE", objects.join("no-index"))
            .args([
                "diff-tree",
                "-r",
                "--text",
                "--no-ext-diff",
                "--no-textconv",
                "--no-color",
                "-M",
                flag,
            ])
            .without_env("GIT_LITERAL_PATHSPECS")
            .args(["--end-of-options", base.as_str(), tip.as_str(), "--"])
            .args(but_for(paths, &binaries))
            .run(cancel)
            .await?;
        let mut text = printable(&String::from_utf8_lossy(&done.stdout));
        for path in &binaries {
            let path = printable_path(path);
            text.push_str(&format!(
                "diff --git a/{path} b/{path}\nBinary files a/{path} and b/{path} differ\n"
            ));
        }
        Ok(text)
    }
}

/// The next answer of `git cat-file --batch-check --follow-symlinks`.
fn next_told(told: &mut &[u8]) -> InTree {
    let end = told.iter().position(|&byte| byte == b'\n');
    let line = told.get(..end.unwrap_or(told.len())).unwrap_or_default();
    *told = end.and_then(|end| told.get(end + 1..)).unwrap_or_default();
    if line.ends_with(b" missing") {
        return InTree::Missing;
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some(id), Some("blob")) => id.parse().map_or(InTree::Other, InTree::Blob),
        // A link that leads nowhere in the tree: so many bytes say where, on a line of their own.
        (Some("symlink" | "dangling" | "loop" | "notdir"), Some(length)) => {
            let length = length.parse::<usize>().unwrap_or(usize::MAX);
            *told = told.get(length.saturating_add(1)..).unwrap_or_default();
            InTree::Other
        }
        _ => InTree::Other,
    }
}
