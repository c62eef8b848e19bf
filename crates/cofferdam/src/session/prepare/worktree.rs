//! The directory that an agent is to work in, and what is copied into it.

use std::path::Path;
use std::time::Instant;

use super::{Making, hidden_paths};
use crate::fsx;
use crate::git::progress::Progress;
use crate::git::trees::Stack;
use crate::git::worktree::{self, WorktreeError};
use crate::git::{copied, copies};
use crate::names::BranchName;
use crate::registry::{Mode, Owned, Strategy};
use crate::session::error::RunErrorKind;
use crate::session::event::{Event, Notice, millis};
use crate::session::holder::Holder;
use crate::session::layers;
use crate::session::options::Timeouts;
use crate::session::plan::PlanError;

/// Fewer are written before anybody can read how many.
const MANY_FILES: u64 = 1000;

impl Making<'_> {
    /// The files that a sandbox with layers stands on.
    pub(super) async fn make_worktree(
        &self,
        owned: &mut Owned,
    ) -> Result<Option<Stack>, RunErrorKind> {
        let cancel = &self.caller.cancel;
        let repo = &self.plan.repository;
        let mut stack = None;
        match owned.record.mode {
            Mode::Bind => {}
            Mode::Layer => {
                self.events.emit(&Event::Step { step: "tree" });
                let made = layers::make(
                    &self.caller.home,
                    owned.directory(),
                    repo,
                    &self.plan.record.base,
                    self.caller.events.clone(),
                    cancel,
                );
                stack = Some(made.await?);
            }
            Mode::Copy | Mode::Inside => {
                fsx::private_dir(&owned.record.workspace(&self.caller.home))?;
            }
        }
        if let (Some(branch), false) = (
            &owned.record.branch,
            owned.record.strategy == Strategy::Head,
        ) {
            self.events.emit(&Event::Step { step: "worktree" });
            if owned.record.mode == Mode::Bind {
                let path = worktree::directory(repo).join(worktree::directory_name(branch));
                // What is there already is not this sandbox's: it must not be in the record.
                if std::fs::symlink_metadata(&path).is_err() {
                    owned.record.worktree = Some(path);
                    owned.save()?;
                }
                let rules = self.rules();
                let base = (!self.plan.branch_exists).then_some(&self.plan.record.base);
                let branch = branch.clone();
                let sink = self.caller.events.clone();
                let began = Instant::now();
                let progress = Progress::new(move |done, of| {
                    let step = "worktree";
                    if of >= MANY_FILES {
                        sink.emit(&Event::Progress {
                            step,
                            done,
                            of,
                            millis: millis(began),
                        });
                    }
                });
                if let Err(error) =
                    worktree::add_watched(repo, &branch, base, rules, Some(&progress), cancel).await
                {
                    owned.record.worktree = None;
                    owned.save()?;
                    return Err(self.branch_held(branch, error)?);
                }
            } else {
                let full = branch.full();
                for listed in worktree::list(repo, cancel).await? {
                    if listed.branch.as_deref() == Some(full.as_bytes()) {
                        let (branch, at) = (branch.clone(), listed.path);
                        return Err(PlanError::CheckedOut { branch, at }.into());
                    }
                }
            }
        }
        self.copies(&owned.record.workspace(&self.caller.home))
            .await?;
        Ok(stack)
    }

    /// Two runs began at once on one branch: planning did not see the other's worktree yet.
    fn branch_held(
        &self,
        branch: BranchName,
        error: WorktreeError,
    ) -> Result<RunErrorKind, RunErrorKind> {
        let held = matches!(
            error,
            WorktreeError::Preserved { .. } | WorktreeError::CheckedOut { .. }
        );
        let holder = if held {
            Holder::of(&self.caller.home, &self.plan.repository.top, &branch)?
        } else {
            None
        };
        Ok(match holder {
            Some(holder) => PlanError::BranchHeld { branch, holder }.into(),
            None => error.into(),
        })
    }

    async fn copies(&self, workspace: &Path) -> Result<(), RunErrorKind> {
        if self.options.copy.is_empty() {
            return Ok(());
        }
        self.events.emit(&Event::Step { step: "copies" });
        let Timeouts { copy: limit, .. } = self.options.timeouts;
        let hidden = hidden_paths(&self.plan.record);
        let done = copies::copy_into(
            workspace,
            self.plan.repository.top.as_path(),
            &self.options.copy,
            &hidden,
            &self.caller.cancel,
        );
        let done =
            tokio::time::timeout(limit, done)
                .await
                .map_err(|_| RunErrorKind::StepTimedOut {
                    step: "copying into the worktree",
                    limit,
                })??;
        let state = self.caller.home.sandbox(self.plan.record.id);
        let top = self.plan.repository.top.as_path();
        copied::note(&state, workspace, top, &self.options.copy)?;
        for path in done.missing {
            self.events.notice(Notice::CopyMissing { path });
        }
        for path in done.skipped {
            let text = format!(
                "{} was not copied: it is no file, directory or link",
                path.display()
            );
            self.events.notice(Notice::Other { text });
        }
        Ok(())
    }
}
