//! Programs in a living sandbox that go on without whoever started them, and what they leave in the state directory.
//!
//! A program's files are named by its number, which only its start tells. Until then they have a name that one program
//! at a time can have: whoever starts one holds a lock for that moment. So where a starter is killed, what it left is the
//! one program without files of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exec::{ProgramId, SessionExec};
use super::{Named, Session, SessionError};
use crate::fsx::lock::{self, Held, Lock};
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::names::SandboxId;
use crate::sandbox::{Detached, Exit};
use crate::session::form::Form;
use crate::session::options::Caller;
use crate::session::starting::start as begin;

/// Where they are, in the state directory.
const PROGRAMS: &str = "programs";
/// Held while one is started.
const LOCK: &str = "lock";
/// What a program's output is called before it has a number, and behind it the sandbox's start.
const NAMELESS: &str = "new-";
/// How long others may take to start theirs.
const OTHERS: Duration = Duration::from_secs(20);
/// How often the sandbox is asked for a program that it may not know yet, and between two times.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// More than a sandbox remembers of its programs.
const REMEMBERED: u64 = 2048;
/// Of the file that tells a program's end.
const END_LIMIT: u64 = 4096;
/// So many outputs of programs that ended are kept, and so many bytes of them: the newest.
const MOST_KEPT: usize = 100;
const MOST_BYTES: u64 = 1 << 30;

/// A program that goes on without whoever started it, and its files in the state directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Program {
    /// By which it is named from now on: which start of the sandbox, and which of its programs.
    pub id: ProgramId,
    /// What it prints, standard output and standard error.
    pub output: PathBuf,
    /// How it ended, as soon as it has.
    pub end: PathBuf,
}

impl Program {
    fn of(programs: &Path, id: ProgramId) -> Self {
        Self {
            id,
            output: programs.join(format!("{id}.log")),
            end: programs.join(format!("{id}.end")),
        }
    }

    /// How it ended. `None`: it runs, or the sandbox ended first.
    pub fn exit(&self) -> Result<Option<Exit>, FileError> {
        Ok(Detached::read_end(&self.end()?))
    }

    /// How many bytes are missing at the end of its output, where it has ended: they could not be written. Of one that
    /// runs [`Session::programs`] tells.
    pub fn lost(&self) -> Result<u64, FileError> {
        Ok(Detached::read_lost(&self.end()?))
    }

    /// Somebody waits for its end as long as this is held: [`super::end_if_safe`] does not end it meanwhile. Nothing where somebody
    /// does already.
    pub fn waited_for(&self) -> Result<Option<Held>, FileError> {
        let lock = lock::open_existing(&self.output)?;
        let is_ours = lock::try_hold(&lock, Lock::Exclusive, &self.output)?;
        Ok(is_ours.then(|| Held::new(lock)))
    }

    /// Whether it runs, and somebody has it so.
    pub(super) fn is_waited_for(&self) -> bool {
        lock::is_held(&self.output) && matches!(self.exit(), Ok(None))
    }

    /// Nobody reads its output any more. Of one that has ended.
    /// That it had a name stays known as long as the sandbox itself may remember it.
    pub fn forget(self) -> Result<(), FileError> {
        fsx::write_private(&self.forgotten(), b"")?;
        fsx::remove_file_if_exists(&self.output)?;
        fsx::remove_file_if_exists(&self.end)?;
        if let (Some(number), Some(programs)) =
            (self.id.number.checked_sub(REMEMBERED), self.end.parent())
        {
            let ProgramId { start, .. } = self.id;
            let old = Self::of(programs, ProgramId { start, number });
            fsx::remove_file_if_exists(&old.forgotten())?;
        }
        Ok(())
    }

    /// A file by which one is known that had a name, and has no files any more.
    fn forgotten(&self) -> PathBuf {
        self.end.with_extension("forgotten")
    }

    fn end(&self) -> Result<Vec<u8>, FileError> {
        match fsx::read_bounded(&self.end, END_LIMIT) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            said => said,
        }
    }
}

/// The files of one that has no number yet.
fn nameless(programs: &Path, start: u32) -> Detached {
    Detached {
        output: programs.join(format!("{NAMELESS}{start}.log")),
        end: programs.join(format!("{NAMELESS}{start}.end")),
    }
}

/// The programs that were left running in this start of the sandbox and in earlier ones, oldest first; also where it is
/// stopped.
pub fn left_running(caller: &Caller, named: &Named) -> Result<Vec<Program>, SessionError> {
    let programs = caller.home.sandbox(named.id()).join(PROGRAMS);
    Ok(found(&programs)?)
}

/// Those of its present start that have not ended. Of a sandbox that runs.
pub fn running(home: &Home, id: SandboxId) -> Result<Vec<ProgramId>, SessionError> {
    let directory = home.sandbox(id);
    let start = Form::read(&directory)?.starts();
    let all = found(&directory.join(PROGRAMS))?.into_iter();
    let of_now = all.filter(|program| program.id.start == start);
    Ok(of_now
        .filter(|program| matches!(program.exit(), Ok(None)))
        .map(|program| program.id)
        .collect())
}

fn found(programs: &Path) -> Result<Vec<Program>, FileError> {
    let mut found: Vec<Program> = outputs(programs)?
        .iter()
        .filter_map(|name| Some(Program::of(programs, name.parse().ok()?)))
        .collect();
    found.sort_by_key(|program| program.id);
    Ok(found)
}

/// Takes away what the oldest ones printed of those that ended. `all`: oldest first.
fn forget_oldest(all: Vec<Program>, (most, most_bytes): (usize, u64)) -> Result<(), FileError> {
    let (mut kept, mut bytes) = (0, 0);
    for program in all.into_iter().rev() {
        let size = fs::metadata(&program.output).map_or(0, |found| found.len());
        (kept, bytes) = (kept + 1, bytes + size);
        if (kept > most || bytes > most_bytes) && program.exit()?.is_some() {
            program.forget()?;
        }
    }
    Ok(())
}

/// The names of all outputs, without their endings.
fn outputs(programs: &Path) -> Result<Vec<String>, FileError> {
    let entries = match fs::read_dir(programs).context("read", programs) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.context("read", programs)?.file_name();
        found.extend(
            name.to_str()
                .and_then(|name| name.strip_suffix(".log"))
                .map(str::to_owned),
        );
    }
    Ok(found)
}

impl Session {
    /// Starts a program that goes on until it ends or the sandbox does. What it prints is kept, 64 MiB at most; of those that ended
    /// so is that of the newest 100, 1 GiB at most.
    /// Bounded: 20 s where others start some too.
    pub async fn exec_detached(&self, exec: SessionExec) -> Result<Program, SessionError> {
        let programs = self.directory().join(PROGRAMS);
        fsx::private_dir(&programs)?;
        let _alone = self.alone(&programs).await?;
        let start = self.starts()?;
        self.name_it(&programs, start).await?;
        forget_oldest(found(&programs)?, (MOST_KEPT, MOST_BYTES))?;
        let mut request = self.request(exec).await?;
        (request.stdin, request.terminal) = (false, None);
        let files = nameless(&programs, start);
        request.detached = Some(files.clone());
        let started = begin(self.sandbox(), request).await;
        let started = started.map_err(|source| self.failed(source))?;
        let number = started.number().unwrap_or_default();
        let program = Program::of(&programs, ProgramId { start, number });
        rename(&files, &program)?;
        Ok(program)
    }

    /// Names what a starter left that was killed in the middle.
    pub(super) async fn find_nameless(&self) -> Result<(), SessionError> {
        let programs = self.directory().join(PROGRAMS);
        let start = self.starts()?;
        if !is_there(&nameless(&programs, start).output) {
            return Ok(());
        }
        let _alone = self.alone(&programs).await?;
        self.name_it(&programs, start).await
    }

    /// The lock is held: whoever made those files is dead.
    async fn name_it(&self, programs: &Path, start: u32) -> Result<(), SessionError> {
        let files = nameless(programs, start);
        if !is_there(&files.output) {
            return Ok(());
        }
        // Just now it may have been asked for, and not be executed yet.
        for _ in 0..LOOKS {
            let listed = self.sandbox.programs().await;
            let listed = listed.map_err(|source| self.failed(source))?;
            let mut detached = listed.iter().filter(|one| one.detached).map(|one| {
                let number = one.number;
                Program::of(programs, ProgramId { start, number })
            });
            let known =
                |program: &Program| is_there(&program.output) || is_there(&program.forgotten());
            if let Some(program) = detached.find(|program| !known(program)) {
                return Ok(rename(&files, &program)?);
            }
            tokio::time::sleep(PAUSE).await;
        }
        // It was never started.
        fsx::remove_file_if_exists(&files.end)?;
        Ok(fsx::remove_file_if_exists(&files.output)?)
    }

    async fn alone(&self, programs: &Path) -> Result<File, SessionError> {
        let taken = lock::take_within(&programs.join(LOCK), OTHERS).await?;
        let name = || self.named.record.name.to_string();
        taken.ok_or_else(|| SessionError::Busy { name: name() })
    }
}

/// Before a sandbox starts again: what a killed starter left of an earlier start gets a number that no program of it had.
/// Nothing runs there any more that could be asked.
pub(super) fn name_earlier(directory: &Path) -> Result<(), FileError> {
    let programs = directory.join(PROGRAMS);
    let outputs = outputs(&programs)?;
    let ids: Vec<ProgramId> = outputs
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let starts = outputs
        .iter()
        .filter_map(|name| name.strip_prefix(NAMELESS)?.parse().ok());
    for start in starts {
        let of_it = ids.iter().filter(|id| id.start == start);
        let number = of_it
            .map(|id| id.number.saturating_add(1))
            .max()
            .unwrap_or(1);
        let program = Program::of(&programs, ProgramId { start, number });
        rename(&nameless(&programs, start), &program)?;
    }
    Ok(())
}

/// The output last: as long as it has no name, this is not over.
fn rename(files: &Detached, program: &Program) -> Result<(), FileError> {
    match fs::rename(&files.end, &program.end).context("rename", &files.end) {
        // That far somebody came before.
        Err(error) if error.is_not_found() => {}
        done => done?,
    }
    fs::rename(&files.output, &program.output).context("rename", &files.output)
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_ended_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let program = |number| Program::of(place.path(), ProgramId { start: 1, number });
        let left = || {
            let all = found(place.path()).unwrap();
            all.iter().map(|one| one.id.number).collect::<Vec<_>>()
        };
        for number in 1..=6 {
            let one = program(number);
            fsx::write_private(&one.output, b"0123456789").unwrap();
            // The second one runs.
            if number != 2 {
                fsx::write_private(&one.end, b"code 0\n").unwrap();
            }
        }
        assert!(program(1).exit().unwrap().is_some() && program(2).exit().unwrap().is_none());
        forget_oldest(found(place.path()).unwrap(), (4, 1000)).unwrap();
        assert_eq!(left(), [2, 3, 4, 5, 6]);
        forget_oldest(found(place.path()).unwrap(), (100, 30)).unwrap();
        assert_eq!(left(), [2, 4, 5, 6]);
    }
}
