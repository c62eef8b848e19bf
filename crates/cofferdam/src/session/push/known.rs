//! What a sandbox's pushes go on from: commits of the host's that it has, each with its history in one directory of packs, for the gate.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::fsx::{self, Context, FileError};
use crate::git::private_clone::link_packs;
use crate::git::vault::{Vault, VaultError};
use crate::git::{Oid, Repository};
use crate::home::Home;

/// Commits whose histories are there, a line each.
const TIPS: &str = "tips";
const LIMIT: u64 = 1 << 20;
/// With more packs than these each look-up costs too much: then they are collected anew.
const MOST: usize = 64;

/// The directory, which has packs and nothing else of the sandbox's.
#[derive(Debug)]
pub(super) struct Known {
    directory: PathBuf,
    tips: Vec<Oid>,
}

impl Known {
    pub(super) fn at(directory: PathBuf) -> Result<Self, FileError> {
        fsx::private_dir(&directory)?;
        let text = match fsx::read_bounded(&directory.join(TIPS), LIMIT) {
            Err(error) if error.is_not_found() => Vec::new(),
            text => text?,
        };
        let text = String::from_utf8_lossy(&text);
        let tips = text.lines().filter_map(|line| line.parse().ok());
        let tips = tips.collect();
        Ok(Self { directory, tips })
    }

    /// As the gate wants it ([`crate::git::gate::Gate::alternate`]).
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Has the histories of these there too. Most are: then it costs no process.
    pub(super) async fn have(
        &mut self,
        home: &Home,
        repository: &Repository,
        wanted: &[Oid],
        cancel: &CancellationToken,
    ) -> Result<(), VaultError> {
        if packs(&self.directory)? > MOST {
            fsx::remove_tree(&self.directory)?;
            fsx::private_dir(&self.directory)?;
            self.tips.clear();
        }
        for commit in wanted {
            if self.tips.contains(commit) {
                continue;
            }
            let vault = Vault::open(home, repository)?;
            let exported = vault.export(repository, commit, cancel).await?;
            link_packs(&self.directory, &exported.packs)?;
            self.note(commit)?;
        }
        Ok(())
    }

    /// Commits that came through the gate with this pack, on top of what is there.
    pub(super) fn add(&mut self, tip: &Oid, pack: &Path) -> Result<(), FileError> {
        link_packs(&self.directory, &[pack.to_owned()])?;
        self.note(tip)
    }

    fn note(&mut self, tip: &Oid) -> Result<(), FileError> {
        if !self.tips.contains(tip) {
            self.tips.push(tip.clone());
        }
        let lines: String = self.tips.iter().map(|tip| format!("{tip}\n")).collect();
        fsx::write_private(&self.directory.join(TIPS), lines.as_bytes())
    }
}

fn packs(directory: &Path) -> Result<usize, FileError> {
    let place = directory.join("pack");
    match std::fs::read_dir(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        entries => {
            let entries = entries.context("list", &place)?.flatten();
            let packs = entries.filter(|one| one.path().extension().is_some_and(|e| e == "pack"));
            Ok(packs.count())
        }
    }
}
