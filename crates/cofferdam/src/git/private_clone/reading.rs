//! A git directory for reading alone: HEAD is detached at one commit, whose history an alternate
//! shows. It has no branch, no remote, no hook and no setting of the user's but how files compare.

use std::path::{Path, PathBuf};

use super::{PrivateClone, config_value, exclude, lines, link_packs, make_dir, put};
use crate::fsx::{self, FileError};
use crate::git::ObjectFormat;
use crate::git::vault::Export;

/// What it is made of.
#[derive(Debug)]
pub struct Reading<'a> {
    /// `git/`, `vault/` and `pointer` are made in it.
    pub directory: &'a Path,
    /// Where `directory` is mounted.
    pub inside: &'a Path,
    /// The hash that the objects are named by.
    pub format: ObjectFormat,
    /// HEAD is its tip.
    pub export: &'a Export,
    /// Settings under `core.` that decide how a file compares to its blob.
    pub comparing: &'a [(String, String)],
    /// The content of the index file.
    pub index: &'a [u8],
    /// Paths relative to its top that show nothing: git leaves them alone.
    pub hidden: &'a [PathBuf],
}

/// Makes it.
pub fn create(spec: &Reading<'_>) -> Result<(), FileError> {
    let Reading {
        directory, inside, ..
    } = spec;
    let clone = PrivateClone::at(directory);
    let git = &clone.git_dir;
    for part in ["info", "objects/info", "objects/pack", "refs/heads"] {
        make_dir(&git.join(part))?;
    }
    link_packs(&clone.vault, &spec.export.packs)?;
    let shown = |name: &str| inside.join(name).display().to_string();
    let alternate = format!("{}\n", shown("vault"));
    put(&git.join("objects/info/alternates"), alternate.as_bytes())?;
    put(&git.join("config"), configuration(spec).as_bytes())?;
    if !spec.export.shallow.is_empty() {
        put(&git.join("shallow"), lines(&spec.export.shallow).as_bytes())?;
    }
    put(&git.join("index"), spec.index)?;
    exclude(git, spec.hidden)?;
    let pointer = format!("gitdir: {}\n", shown("git"));
    fsx::write_with_mode(&clone.pointer, pointer.as_bytes(), 0o444)?;
    put(
        &git.join("HEAD"),
        format!("{}\n", spec.export.tip).as_bytes(),
    )
}

fn configuration(spec: &Reading<'_>) -> String {
    let sha256 = spec.format == ObjectFormat::Sha256;
    let mut text = format!(
        "[core]\n\trepositoryformatversion = {}\n\tbare = false\n\tcheckStat = minimal\n",
        u8::from(sha256)
    );
    for (key, value) in spec.comparing {
        text.extend(["\t", key, " = ", &config_value(value), "\n"]);
    }
    if sha256 {
        text.push_str("[extensions]\n\tobjectFormat = sha256\n");
    }
    text
}
