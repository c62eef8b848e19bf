//! Getting a pack out of a sandbox's repository: in a throw-away jail over its dead files, or from a
//! running isolated sandbox. Host git never opens that repository.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::left::PLACE;
use super::{CollectError, Collector, Source};
use crate::fsx::{self, FileError};
use crate::git::gate::{self, Accepted, Gate, GateError, Refusal};
use crate::git::private_clone::{self, PrivateClone};
use crate::git::refs::Own;
use crate::git::{Oid, bare};
use crate::process::{Exit, Input};
use crate::registry::{Owned, PathText, Record};
use crate::sandbox::SandboxError;
use crate::sandbox::native::jail::{self, JailOutcome, JailOutput};
use crate::session::jailed::Objects;
use crate::session::pipes::{pipe_ends, spool};
use crate::session::transfer;

/// What the gate said to one tip.
#[derive(Debug)]
pub(super) enum Received {
    Accepted(Accepted),
    /// The sandbox's doing: it is never tried again.
    Refused {
        why: String,
        /// `None`: no pack of it could be made or kept.
        pack: Option<PathBuf>,
        /// It does not descend from where the sandbox started.
        elsewhere: bool,
        /// What of its trees may not come home. As it is: sanitise before showing.
        paths: Vec<PathBuf>,
    },
}

/// What became of commits that were to be set aside.
#[derive(Debug)]
pub(super) enum Aside {
    Pack,
    /// No pack could be made or kept.
    Failed(String),
}

impl Collector<'_> {
    /// How long one look at the sandbox's objects may take, so that one slow tip does not keep the
    /// others from coming home.
    fn step(&self) -> Duration {
        self.limit / 4
    }

    /// As [`Self::receive`], of a branch on which nobody is: it may have begun at any commit of the base's history.
    pub(super) async fn receive_beside(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tip: &Oid,
    ) -> Result<Received, CollectError> {
        let received = self.receive(owned, source, tip, Own::Tip).await?;
        let Received::Refused {
            pack,
            elsewhere: true,
            ..
        } = &received
        else {
            return Ok(received);
        };
        let Some(fork) = self.fork(owned, tip).await? else {
            return Ok(received);
        };
        if let Some(pack) = pack {
            fsx::remove_file_if_exists(pack)?;
        }
        self.receive_from(owned, source, tip, Own::Tip, (&fork, &fork))
            .await
    }

    /// Where a branch left the history of the base, which the sandbox says; it is in that history.
    async fn fork(&self, owned: &Owned, tip: &Oid) -> Result<Option<Oid>, CollectError> {
        let base = &owned.record.base;
        let arguments = ["merge-base", tip.as_str(), base.as_str()];
        let done = self
            .read(owned, &arguments, Vec::new(), JailOutput::Capture(200))
            .await?;
        let text = String::from_utf8_lossy(&done.stdout);
        let Ok(fork) = text.trim_end().parse::<Oid>() else {
            return Ok(None);
        };
        let is_behind = self.repo.is_ancestor(&fork, base, self.cancel).await?;
        Ok(is_behind.then_some(fork))
    }

    /// A pack of `tip` without the base's history, through the gate, to be held by one of the sandbox's refs.
    pub(super) async fn receive(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tip: &Oid,
        holder: Own,
    ) -> Result<Received, CollectError> {
        let base = &owned.record.base;
        let since = match &owned.record.landed {
            Some(landed) if was_given_back(owned.directory(), landed) => landed,
            _ => base,
        };
        self.receive_from(owned, source, tip, holder, (base, since))
            .await
    }

    /// What is new since `since`, judged as what was made from `base`.
    async fn receive_from(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tip: &Oid,
        holder: Own,
        (base, since): (&Oid, &Oid),
    ) -> Result<Received, CollectError> {
        let gate = Gate {
            repo: self.repo.clone(),
            id: owned.record.id,
            base: base.clone(),
            known: Vec::new(),
            alternate: PrivateClone::at(owned.directory()).vault,
            state: owned.directory().to_owned(),
            holder,
            limits: gate::Limits {
                time: self.step(),
                ..gate::Limits::default()
            },
            rules: rules(&owned.record),
        };
        // The gate looks at them over the vault's history, which has it for ever.
        if self
            .repo
            .resolve(since.as_str(), self.cancel)
            .await?
            .is_none()
        {
            return Err(CollectError::NoBase {
                base: since.clone(),
                history: gate.alternate.join("pack"),
            });
        }
        let revisions = format!("{tip}\n^{since}\n");
        let (reader, writer) = pipe_ends()?;
        let pack = self.pack(owned, source, revisions, writer);
        let (packed, received) =
            tokio::join!(pack, gate.receive(Input::Fd(reader), tip, self.cancel));
        match (packed, received) {
            (_, Ok(accepted)) => {
                if self.lives() {
                    give_back(owned.directory(), &accepted)?;
                }
                Ok(Received::Accepted(accepted))
            }
            // A pack that could not be made explains a refusal better than its remains do; one
            // that its reader let go of says nothing, and the reader knows why.
            (Err(error), Err(refused)) if !cut_off(&error) => {
                let why = theirs(&error).ok_or(error)?;
                if let GateError::Refused {
                    pack: Some(remains),
                    ..
                } = refused
                {
                    fsx::remove_file_if_exists(&remains)?;
                }
                Ok(Received::Refused {
                    why,
                    pack: None,
                    elsewhere: false,
                    paths: Vec::new(),
                })
            }
            (_, Err(GateError::Refused { why, pack })) => Ok(Received::Refused {
                elsewhere: matches!(why, Refusal::NotDescendant { .. }),
                paths: why.paths().map(Path::to_owned).collect(),
                why: why.to_string(),
                pack,
            }),
            (_, Err(error @ GateError::TimedOut(_))) => Ok(Received::Refused {
                why: error.to_string(),
                pack: None,
                elsewhere: false,
                paths: Vec::new(),
            }),
            (_, Err(error)) => Err(error.into()),
        }
    }

    /// Writes a pack of everything that `revisions` names to a new file, past no gate: it lies in the
    /// state directory until its user looks at it.
    pub(super) async fn set_aside(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        revisions: String,
        to: &Path,
    ) -> Result<Aside, CollectError> {
        fsx::remove_file_if_exists(to)?;
        let (reader, writer) = pipe_ends()?;
        let pack = self.pack(owned, source, revisions, writer);
        let limit = gate::Limits::default().pack_bytes;
        let (packed, kept) = tokio::join!(pack, spool(reader, to, limit));
        let failed = match (packed, kept?) {
            (Ok(()), true) => return Ok(Aside::Pack),
            (_, false) => format!("a pack of them has more than {limit} bytes"),
            (Err(error), true) => theirs(&error).ok_or(error)?,
        };
        fsx::remove_file_if_exists(to)?;
        Ok(Aside::Failed(failed))
    }

    async fn pack(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        revisions: String,
        to: OwnedFd,
    ) -> Result<(), CollectError> {
        match source {
            Source::Sandbox { sandbox, workdir } => {
                return transfer::pack(*sandbox, workdir, revisions, to, self.cancel).await;
            }
            Source::Made { workshop, .. } => {
                return Ok(workshop.pack(revisions, to, self.cancel).await?);
            }
            Source::State | Source::Files { .. } => {}
        }
        let arguments = [
            "pack-objects",
            "--revs",
            "--thin",
            "--stdout",
            "--delta-base-offset",
            "-q",
        ];
        let done = self
            .read(
                owned,
                &arguments,
                revisions.into_bytes(),
                JailOutput::Fd(to),
            )
            .await?;
        if done.exit.success() {
            return Ok(());
        }
        let stderr =
            crate::text::printable_line(String::from_utf8_lossy(&done.stderr_tail).trim_end());
        Err(CollectError::Pack {
            exit: done.exit,
            stderr,
        })
    }

    /// For each id what it is, or what it is a tag of: id and kind.
    pub(super) async fn kinds(
        &self,
        owned: &Owned,
        ids: &[Oid],
    ) -> Result<Vec<Option<(Oid, String)>>, CollectError> {
        let stdin: String = ids.iter().map(|id| format!("{id}^{{}}\n")).collect();
        let arguments = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let room = ids.len() * 200 + 1;
        let output = JailOutput::Capture(room);
        let done = match self
            .read(owned, &arguments, stdin.into_bytes(), output)
            .await
        {
            Ok(done) => done,
            // Then none of them is a commit that could come home.
            Err(CollectError::Jail(SandboxError::TimedOut(_) | SandboxError::Gone(_))) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&done.stdout);
        let kinds = text.lines().map(|line| {
            let (id, kind) = line.split_once(' ')?;
            Some((id.parse().ok()?, kind.to_owned()))
        });
        Ok(kinds.collect())
    }

    /// Runs git over the sandbox's objects in a jail.
    async fn read(
        &self,
        owned: &Owned,
        arguments: &[&str],
        stdin: Vec<u8>,
        stdout: JailOutput,
    ) -> Result<JailOutcome, CollectError> {
        let reader = owned.directory().join(PLACE);
        bare::make(self.repo, &reader)?;
        let git = OsString::from("git");
        let words = std::iter::once(git).chain(arguments.iter().map(OsString::from));
        let request = Objects::of(owned.directory()).request(
            reader,
            r#"exec "$@""#,
            words.collect(),
            stdin,
            stdout,
            self.step(),
        );
        Ok(jail::run(request, self.cancel).await?)
    }

    /// Whether a private copy holds uncommitted work, asked of its own git in a jail. A copy that
    /// cannot be asked counts as dirty.
    pub(in crate::session) async fn copy_is_dirty(&self, owned: &Owned) -> bool {
        let left = self.left(owned).await;
        left.is_none_or(|left| !left.is_nothing())
    }
}

/// One line for each tip whose commits the sandbox has from us again.
const GIVEN_BACK: &str = "given-back";

/// Later packs need not hold again what came home, and may refer to it.
fn give_back(directory: &Path, accepted: &gate::Accepted) -> Result<(), FileError> {
    private_clone::give_back(directory, accepted.pack())?;
    let path = directory.join(GIVEN_BACK);
    let mut list = given_back(&path)?;
    list.extend_from_slice(format!("{}\n", accepted.tip()).as_bytes());
    fsx::write_private(&path, &list)
}

fn given_back(path: &Path) -> Result<Vec<u8>, FileError> {
    match fsx::read_bounded(path, 16 << 20) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        read => read,
    }
}

fn was_given_back(directory: &Path, tip: &Oid) -> bool {
    let list = given_back(&directory.join(GIVEN_BACK)).unwrap_or_default();
    let mut lines = list.split(|&byte| byte == b'\n');
    lines.any(|line| line == tip.as_str().as_bytes())
}

fn cut_off(error: &CollectError) -> bool {
    let pipe = Exit::Signal(libc::SIGPIPE);
    matches!(error, CollectError::Pack { exit, .. } if *exit == pipe)
}

/// What the sandbox did to make packing fail; `None` where this machine is the cause.
fn theirs(error: &CollectError) -> Option<String> {
    match error {
        CollectError::Pack { exit, stderr } if gate::broke(*exit, stderr) => {
            Some(format!("git cannot pack them, {exit}: {stderr}"))
        }
        CollectError::Jail(SandboxError::TimedOut(seconds)) => {
            Some(format!("packing them takes longer than {seconds} s"))
        }
        _ => None,
    }
}

/// What its commits may not change.
pub(in crate::session) fn rules(record: &Record) -> gate::Rules {
    let texts = |paths: &[PathText]| {
        let texts = paths
            .iter()
            .map(|path| path.0.to_string_lossy().into_owned());
        texts.collect::<Vec<_>>()
    };
    let mut rules = gate::Rules {
        hidden: texts(&record.hidden),
        ..gate::Rules::default()
    };
    rules.protected.extend(texts(&record.protected));
    rules
}
