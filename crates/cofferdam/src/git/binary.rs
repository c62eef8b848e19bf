//! Which changed files no reader makes sense of. That a file holds a zero byte says nothing: a shell runs what is around it, and a
//! sandbox would hide its work by one. Most of what a binary file begins with is no text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::pipe::PipeFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::{GitError, Oid, Repository};
use crate::process::Sink;

/// So many bytes of a file are looked at, as git does.
const LOOKED_AT: u64 = 8000;
/// So many files are looked at, and as many are left out of a difference. Of the others git's word counts, which is said of each.
const MOST: usize = 200;

impl Repository {
    /// Those that differ between two commits.
    pub(super) async fn binaries(
        &self,
        base: &Oid,
        tip: &Oid,
        paths: &[PathBuf],
        cancel: &CancellationToken,
    ) -> Result<Vec<PathBuf>, GitError> {
        let objects = self.objects();
        let done = self
            .command()
            // As where they are shown: no attributes of a sandbox's count.
            .work_tree(&objects)
            .env("GIT_INDEX_FILE", objects.join("no-index"))
            .args(["diff-tree", "-r", "-z", "--numstat", "--no-renames"])
            .args(["--no-ext-diff", "--no-textconv", "--end-of-options"])
            .args([base.as_str(), tip.as_str(), "--"])
            .args(paths)
            .run(cancel)
            .await?;
        let lines = done.stdout.split(|&byte| byte == 0);
        let found = lines.filter_map(|line| line.strip_prefix(b"-\t-\t"));
        let found = found.map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
        let mut binaries = Vec::new();
        for path in found {
            if binaries.len() >= MOST || self.is_binary_in(&[base, tip], &path, cancel).await? {
                binaries.push(path);
            }
        }
        Ok(binaries)
    }

    async fn is_binary_in(
        &self,
        commits: &[&Oid],
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<bool, GitError> {
        for commit in commits {
            let mut name = OsString::from(format!("{commit}:"));
            name.push(path);
            if looks_binary(&self.beginning(&name, cancel).await?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing where there is no such file.
    async fn beginning(
        &self,
        name: &OsStr,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, GitError> {
        let failed = |error: std::io::Error| GitError::Output {
            command: "cat-file".to_owned(),
            what: error.to_string(),
        };
        let piped = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (from, to) = piped.map_err(|errno| failed(errno.into()))?;
        let running = self
            .command()
            .args(["cat-file", "blob"])
            .arg(name)
            .output(Sink::Fd(to))
            .answers(&[128])
            .start()?;
        let read = async {
            let mut bytes = Vec::new();
            let from = pipe::Receiver::from_owned_fd(from)?;
            from.take(LOOKED_AT).read_to_end(&mut bytes).await?;
            std::io::Result::Ok(bytes)
        };
        // Git ends by a signal where there is more than is read.
        let (bytes, _) = tokio::join!(read, running.finish(cancel));
        bytes.map_err(failed)
    }
}

/// More than a tenth of it is no text.
fn looks_binary(bytes: &[u8]) -> bool {
    let is_text = |c: char| !c.is_control() || ['\t', '\n', '\r', '\u{c}', '\u{1b}'].contains(&c);
    let mut odd = 0;
    for chunk in bytes.utf8_chunks() {
        odd += chunk.valid().chars().filter(|&c| !is_text(c)).count();
        odd += chunk.invalid().len();
    }
    odd * 10 > bytes.len()
}

/// As git takes them: these paths, but for those.
pub(super) fn but_for(paths: &[PathBuf], without: &[PathBuf]) -> Vec<OsString> {
    let with = |magic: &str, path: &Path| {
        let mut spec = OsString::from(magic);
        spec.push(OsStr::from_bytes(path.as_os_str().as_bytes()));
        spec
    };
    let these = paths.iter().map(|path| with(":(literal)", path));
    let those = without.iter().map(|path| with(":(exclude,literal)", path));
    these.chain(those).collect()
}

#[cfg(test)]
mod tests {
    use super::looks_binary;

    #[test]
    fn a_zero_byte_makes_no_text_binary() {
        for text in [
            &b""[..],
            b"#!/bin/sh\n\0touch /tmp/x\n",
            b"caf\xe9 is Latin 1, and is read all the same\n",
            b"\x1b[31mred\x1b[0m\n",
        ] {
            assert!(!looks_binary(text), "{text:?}");
        }
        let utf16: Vec<u8> = "text".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
        for binary in [&utf16[..], png, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"] {
            assert!(looks_binary(binary), "{binary:?}");
        }
    }
}
