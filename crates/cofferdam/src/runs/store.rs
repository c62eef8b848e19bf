//! The directories of runs: beginning one, finding it again, taking it away.

use std::fs;
use std::path::{Path, PathBuf};

use super::conversation::{self, conversations};
use super::error::RunsError;
use super::record::{Ended, RunIteration, RunRecord};
use crate::fsx::lock::{self, Held, Lock};
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::names::SandboxId;
use crate::registry::belongs::SameRepository;
use crate::run_id::RunId;
use crate::text::printable_line;

const RECORD: &str = "run.json";
const LOCK: &str = "lock";
/// Bytes of a record.
const LIMIT: u64 = 4 << 20;
/// So many runs are known; of those that ended the oldest are forgotten.
const MOST: usize = 1000;

/// Bytes of the conversations of all runs.
pub(crate) const OF_ALL: u64 = 4 << 30;

/// A run and how it is.
#[derive(Debug, Clone, PartialEq, Eq, Copy)]
#[non_exhaustive]
pub enum Status {
    /// Somebody runs it now.
    AtWork,
    /// Whoever ran it died.
    Interrupted,
    /// It is over, well or not.
    Ended,
}

/// Writes one run down as it goes on.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    record: RunRecord,
    _lock: Held,
}

impl Recorder {
    /// `record`: of a run with this id.
    pub(crate) fn begin(
        home: &Home,
        record: impl FnOnce(RunId) -> RunRecord,
    ) -> Result<Self, RunsError> {
        let runs = home.runs();
        fsx::private_dir(&runs)?;
        forget_oldest(home);
        make_room(home, OF_ALL, false);
        let (id, directory) = loop {
            let id = RunId::now().context("make an id for", &runs)?;
            let directory = runs.join(id.to_string());
            match fs::create_dir(&directory) {
                Ok(()) => break (id, directory),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FileError::new("make", directory, error).into()),
            }
        };
        let begun = Self::begin_in(directory.clone(), record(id));
        if begun.is_err() {
            // What has no record is no run, and would stay until it is the oldest.
            let _ = fsx::remove_tree(&directory);
        }
        begun
    }

    fn begin_in(directory: PathBuf, record: RunRecord) -> Result<Self, RunsError> {
        fsx::private_dir(&directory)?;
        let path = directory.join(LOCK);
        let file = lock::open(&path)?;
        lock::try_hold(&file, Lock::Exclusive, &path)?;
        let this = Self {
            directory,
            record,
            _lock: Held::new(file),
        };
        this.save()?;
        Ok(this)
    }

    /// As it was last written.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Where the conversation of an iteration is kept.
    fn conversation(&self, iteration: u32) -> PathBuf {
        conversations(&self.directory).join(iteration.to_string())
    }

    /// One start of the agent has ended.
    pub(crate) fn iteration(&mut self, iteration: RunIteration) -> Result<(), RunsError> {
        self.record.iterations.push(iteration);
        self.save()
    }

    pub(crate) fn end(mut self, home: &Home, ended: Ended) -> Result<(), RunsError> {
        self.record.ended = Some(ended);
        self.save()?;
        // Its own is the newest, and goes last.
        make_room(home, OF_ALL, false);
        Ok(())
    }

    /// Keeps the conversation of an iteration; those of earlier ones make room for it. Returns its bytes.
    pub(crate) fn keep(
        &self,
        iteration: u32,
        files: &[conversation::File],
    ) -> Result<u64, FileError> {
        let bytes: u64 = files.iter().map(|(_, content)| content.len() as u64).sum();
        self.make_room_for(bytes, conversation::OF_A_RUN)?;
        conversation::keep(&self.conversation(iteration), files)
    }

    fn make_room_for(&self, bytes: u64, most: u64) -> Result<(), FileError> {
        let mut earlier = Vec::new();
        for one in &self.record.iterations {
            let at = self.conversation(one.number);
            earlier.push((conversation::weigh(&at)?, at));
        }
        let mut all = bytes + earlier.iter().map(|(bytes, _)| bytes).sum::<u64>();
        for (bytes, at) in earlier {
            if all <= most {
                break;
            }
            fsx::remove_tree(&at)?;
            all -= bytes;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), RunsError> {
        let path = self.directory.join(RECORD);
        let text = serde_json::to_vec(&self.record).map_err(|error| RunsError::Unreadable {
            path: path.clone(),
            why: error.to_string(),
        })?;
        Ok(fsx::write_private(&path, &text)?)
    }
}

/// The runs of a repository, whichever of its checkouts they were started for, or all: newest first. Records that cannot be read are left
/// out: nothing hangs on them.
pub fn list(home: &Home, repository: Option<&Path>) -> Result<Vec<(RunRecord, Status)>, RunsError> {
    let is_of = repository.map(SameRepository::new);
    let mut found = Vec::new();
    for id in ids(home)?.into_iter().rev() {
        let directory = home.run(id);
        let Ok(record) = read(&directory) else {
            continue;
        };
        if is_of
            .as_ref()
            .is_none_or(|same| same.is_at(&record.repository))
        {
            let status = status(&directory, &record);
            found.push((record, status));
        }
    }
    // Of one second the ids do not know.
    found.sort_by_key(|(record, _)| std::cmp::Reverse(record.began));
    Ok(found)
}

/// The run of that id, or the newest of a sandbox of that name, in a repository.
pub fn find(home: &Home, repository: &Path, name: &str) -> Result<(RunRecord, Status), RunsError> {
    let is_meant = |record: &RunRecord| match name.parse::<RunId>() {
        Ok(id) => record.id == id,
        Err(_) => record.name.as_str() == name,
    };
    let mut all = list(home, Some(repository))?.into_iter();
    all.find(|(record, _)| is_meant(record))
        .ok_or_else(|| RunsError::Unknown {
            name: printable_line(name),
            repository: repository.to_owned(),
        })
}

impl RunRecord {
    /// The directory with what was kept of the conversation of an iteration; nothing where nothing was.
    pub fn conversation_at(&self, home: &Home, iteration: u32) -> Option<PathBuf> {
        let at = conversations(&home.run(self.id)).join(iteration.to_string());
        at.is_dir().then_some(at)
    }

    /// Whether its last conversation was kept, and has made room for newer ones since.
    pub fn made_room(&self, home: &Home) -> bool {
        self.conversation().is_some_and(|(_, one)| {
            one.kept > 0 && self.conversation_at(home, one.number).is_none()
        })
    }
}

/// Forgets one that has ended, with its conversations.
pub fn remove(home: &Home, id: RunId) -> Result<(), RunsError> {
    let directory = home.run(id);
    if is_at_work(&directory) {
        return Err(RunsError::AtWork(id));
    }
    Ok(fsx::remove_tree(&directory)?)
}

/// Forgets all runs of a sandbox that are over, with their conversations.
pub(crate) fn forget_of(home: &Home, sandbox: SandboxId) -> Result<(), FileError> {
    let all = match list(home, None) {
        Ok(all) => all,
        Err(RunsError::File(error)) => return Err(error),
        Err(_) => return Ok(()),
    };
    let of_it = all.into_iter().filter(|(run, _)| run.sandbox == sandbox);
    for (run, _) in of_it {
        if let Err(RunsError::File(error)) = remove(home, run.id) {
            return Err(error);
        }
    }
    Ok(())
}

/// What cannot be removed now can be removed when the next one begins.
fn forget_oldest(home: &Home) {
    let all = ids(home).unwrap_or_default();
    let more = (all.len() + 1).saturating_sub(MOST);
    for id in all.into_iter().take(more) {
        let _ = remove(home, id);
    }
}

/// Whether conversations take more room than they may, all together: those of the oldest runs go, but for runs that go on. Returns
/// whose went, or with `dry_run` would. What cannot be removed now is tried again.
pub(crate) fn make_room(home: &Home, most: u64, dry_run: bool) -> Vec<RunId> {
    let ids = ids(home).unwrap_or_default().into_iter();
    let weighed = ids.map(|id| {
        let directory = home.run(id);
        let bytes = conversation::weigh(&conversations(&directory)).unwrap_or(0);
        (id, directory, bytes)
    });
    let weighed: Vec<_> = weighed.filter(|(.., bytes)| *bytes > 0).collect();
    let mut all: u64 = weighed.iter().map(|(.., bytes)| bytes).sum();
    let mut gone = Vec::new();
    for (id, directory, bytes) in weighed {
        if all <= most {
            break;
        }
        if is_at_work(&directory) {
            continue;
        }
        if dry_run || fsx::remove_tree(&conversations(&directory)).is_ok() {
            all -= bytes;
            gone.push(id);
        }
    }
    gone
}

/// Oldest first.
fn ids(home: &Home) -> Result<Vec<RunId>, RunsError> {
    let runs = home.runs();
    let entries = match fs::read_dir(&runs) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("read", &runs)?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.context("read", &runs)?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse::<RunId>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

fn read(directory: &Path) -> Result<RunRecord, RunsError> {
    let path = directory.join(RECORD);
    let bytes = fsx::read_bounded(&path, LIMIT)?;
    let unreadable = |why: String| RunsError::Unreadable {
        path: path.clone(),
        why,
    };
    let record: RunRecord =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if record.is_readable() {
        Ok(record)
    } else {
        Err(unreadable("it was written by a newer version".to_owned()))
    }
}

fn status(directory: &Path, record: &RunRecord) -> Status {
    if record.ended.is_some() {
        Status::Ended
    } else if is_at_work(directory) {
        Status::AtWork
    } else {
        Status::Interrupted
    }
}

fn is_at_work(directory: &Path) -> bool {
    lock::is_held(&directory.join(LOCK))
}

#[cfg(test)]
mod tests {
    use crate::names::Slug;
    use crate::registry::{Mode, Strategy};
    use crate::runs::{VERSION, first_line};

    use super::*;

    fn record(id: RunId, name: &str, repository: &Path) -> RunRecord {
        RunRecord {
            version: VERSION,
            id,
            repository: repository.to_owned(),
            sandbox: SandboxId::random().unwrap(),
            name: Slug::from_text(name).unwrap(),
            provider: "native".to_owned(),
            image: None,
            mode: Mode::Layer,
            strategy: Strategy::Branch,
            branch: "work".to_owned(),
            target: "main".to_owned(),
            workdir: "/workspace/r".into(),
            agent: "command".to_owned(),
            model: None,
            effort: None,
            arguments: Vec::new(),
            task: first_line("\n  do it\nwell"),
            continues: None,
            fork: false,
            cost_before_micro_usd: 0,
            began: jiff::Timestamp::now(),
            log: None,
            iterations: Vec::new(),
            ended: None,
        }
    }

    #[test]
    fn a_run_is_known_from_its_beginning_to_its_end_and_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let (here, there) = (
            directory.path().join("here"),
            directory.path().join("there"),
        );
        assert!(list(&home, None).unwrap().is_empty());
        let mut recorder = Recorder::begin(&home, |id| record(id, "one", &here)).unwrap();
        let id = recorder.record().id;
        let (found, status) = find(&home, &here, "one").unwrap();
        assert_eq!((found.task.as_str(), status), ("do it", Status::AtWork));
        assert!(matches!(remove(&home, id), Err(RunsError::AtWork(_))));
        assert!(find(&home, &there, "one").is_err());
        let iteration = RunIteration::new(1, None, Some("session".to_owned()), None);
        recorder.iteration(iteration).unwrap();
        drop(recorder);
        let (found, status) = find(&home, &here, &id.to_string()).unwrap();
        assert_eq!(status, Status::Interrupted);
        assert_eq!(found.conversation().unwrap().0, "session");
        let other = Recorder::begin(&home, |id| record(id, "two", &there)).unwrap();
        other.end(&home, Ended::now()).unwrap();
        assert_eq!(find(&home, &there, "two").unwrap().1, Status::Ended);
        let names = |repository| {
            let all = list(&home, repository).unwrap();
            all.into_iter()
                .map(|(record, _)| record.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Some(here.as_path())), ["one"]);
        let mut all = names(None);
        all.sort();
        assert_eq!(all, ["one", "two"]);
        remove(&home, id).unwrap();
        assert_eq!(names(None), ["two"]);
    }

    /// The ids of those that begin in one second are in no order.
    fn begun(home: &Home, name: &str, at: usize) -> Recorder {
        let id: RunId = format!("{at:012x}").parse().unwrap();
        let directory = home.run(id);
        fsx::private_dir(&directory).unwrap();
        let path = directory.join(LOCK);
        let file = lock::open(&path).unwrap();
        lock::try_hold(&file, Lock::Exclusive, &path).unwrap();
        let recorder = Recorder {
            record: record(id, name, home.path()),
            directory,
            _lock: Held::new(file),
        };
        recorder.save().unwrap();
        recorder
    }

    /// As the agent of this run left it.
    fn keep(recorder: &mut Recorder, number: u32, bytes: usize) {
        let file = ("a".to_owned(), vec![b'x'; bytes]);
        let mut known = RunIteration::new(number, None, Some("session".to_owned()), None);
        known.kept_bytes = recorder.keep(number, &[file]).unwrap();
        known.kept = 1;
        recorder.iteration(known).unwrap();
    }

    #[test]
    fn the_oldest_conversations_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let mut all = Vec::new();
        for name in ["one", "two", "three", "four"] {
            let mut recorder = begun(&home, name, all.len());
            keep(&mut recorder, 1, 100_000);
            all.push(recorder);
        }
        let ids: Vec<RunId> = all.iter().map(|one| one.record().id).collect();
        let at_work = all.remove(1);
        for ended in all {
            ended.end(&home, Ended::now()).unwrap();
        }
        assert!(make_room(&home, 1 << 20, false).is_empty());
        assert_eq!(make_room(&home, 250_000, true), [ids[0], ids[2]]);
        assert_eq!(make_room(&home, 250_000, false), [ids[0], ids[2]]);
        let made_room = |id: RunId| read(&home.run(id)).unwrap().made_room(&home);
        assert_eq!(
            ids.iter().map(|&id| made_room(id)).collect::<Vec<_>>(),
            [true, false, true, false]
        );
        drop(at_work);
        assert_eq!(make_room(&home, 0, false), [ids[1], ids[3]]);
    }

    #[test]
    fn earlier_iterations_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let recorder = Recorder::begin(&home, |id| record(id, "one", directory.path()));
        let mut recorder = recorder.unwrap();
        for number in 1..=3 {
            keep(&mut recorder, number, 100_000);
        }
        recorder.make_room_for(100_000, 350_000).unwrap();
        let there = |number: u32| recorder.conversation(number).is_dir();
        assert_eq!([1, 2, 3].map(there), [false, true, true]);
        assert!(!recorder.record().made_room(&home));
    }
}
