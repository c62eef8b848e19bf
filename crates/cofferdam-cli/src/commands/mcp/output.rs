//! `sandbox-output`: what a program printed that runs in the background, or printed much.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use cofferdam::sandbox::Exit;
use cofferdam::session::Caller;
use cofferdam::session::living::{Named, Program, ProgramId, left_running, refused_during};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::{AGAIN, Failure};
use super::refused;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

/// Bytes of one answer.
const MOST: u64 = 30_000;

/// What a program printed
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    /// The sandbox's name
    sandbox: String,
    /// The program, as `sandbox-exec` named it
    id: String,
    /// From which byte on; the last 30,000 bytes unless given
    offset: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Told {
    /// Whether it still runs
    running: bool,
    exit_code: Option<i32>,
    /// The number of the signal that ended it
    signal: Option<i32>,
    /// So many bytes it has printed
    size: u64,
    /// Where `output` begins among them
    offset: u64,
    /// From where on to ask for what follows
    next: u64,
    output: String,
    /// What is to be known beside it, such as what the network refused while it ran
    notes: Vec<String>,
}

impl Call for Output {
    const NAME: &'static str = "sandbox-output";
    const TITLE: &'static str = "Read what a program printed";
    const DESCRIPTION: &'static str =
        "Tells what a program of `sandbox-exec` printed, and whether it still runs.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Told;

    async fn call(self, server: Server, asked: Asked) -> Result<Told, Failure> {
        let (caller, named) = server.own(&self.sandbox, &asked).await?;
        let program = one_of(&caller, &named, &self.sandbox, &self.id)?;
        let exit = exit(&program)?;
        let mut file = open(&program.output)?;
        let size = size(&file)?;
        let offset = self.offset.unwrap_or(size.saturating_sub(MOST)).min(size);
        let mut bytes = read_at(&mut file, offset, MOST)?;
        if offset + (bytes.len() as u64) < size {
            // A character that is not whole begins the next part.
            let end = whole(&bytes);
            bytes.truncate(end);
        }
        let (exit_code, signal) = in_numbers(exit);
        Ok(Told {
            running: exit.is_none(),
            exit_code,
            signal,
            size,
            offset,
            next: offset + bytes.len() as u64,
            output: String::from_utf8_lossy(&bytes).into_owned(),
            notes: refused_during(&caller, &named, &program)
                .iter()
                .map(refused::note)
                .collect(),
        })
    }
}

/// The program that a tool named.
pub(super) async fn find(
    server: &Server,
    sandbox: &str,
    id: &str,
    asked: &Asked,
) -> Result<Program, Failure> {
    let (caller, named) = server.own(sandbox, asked).await?;
    one_of(&caller, &named, sandbox, id)
}

fn one_of(caller: &Caller, named: &Named, sandbox: &str, id: &str) -> Result<Program, Failure> {
    let unknown = || {
        Failure::new(
            format!("the sandbox '{sandbox}' knows no program {id}"),
            "`sandbox-exec` says the id of one that it leaves running, such as 1.7.",
        )
    };
    let wanted: ProgramId = id.parse().map_err(|()| unknown())?;
    let all = left_running(caller, named)?;
    all.into_iter()
        .find(|program| program.id == wanted)
        .ok_or_else(unknown)
}

/// How it ended; `None`: it runs.
pub(super) fn exit(program: &Program) -> Result<Option<Exit>, Failure> {
    let exit = program.exit();
    exit.map_err(|error| Failure::new(error.to_string(), AGAIN))
}

/// An end as its exit code, or as the number of the signal.
pub(super) fn in_numbers(exit: Option<Exit>) -> (Option<i32>, Option<i32>) {
    match exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    }
}

/// Of what a program printed.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) left_out: u64,
}

/// The beginning and the end of a file.
pub(super) fn both_ends(path: &Path, first: u64, last: u64) -> Result<Part, Failure> {
    let mut file = open(path)?;
    let size = size(&file)?;
    if size <= first + last {
        let bytes = read_at(&mut file, 0, first + last)?;
        return Ok(Part {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            left_out: 0,
        });
    }
    let left_out = size - first - last;
    let begin = read_at(&mut file, 0, first)?;
    let end = read_at(&mut file, size - last, last)?;
    let text = format!(
        "{}\n[… {left_out} bytes are left out here …]\n{}",
        String::from_utf8_lossy(&begin),
        String::from_utf8_lossy(&end)
    );
    Ok(Part { text, left_out })
}

/// So many bytes end where a character does, unless none of it is text.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| unreadable(path, &error))
}

fn size(file: &File) -> Result<u64, Failure> {
    let found = file.metadata();
    let found = found.map_err(|error| Failure::new(error.to_string(), AGAIN))?;
    Ok(found.len())
}

fn read_at(file: &mut File, offset: u64, most: u64) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::new(error.to_string(), AGAIN);
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()), AGAIN)
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.output)?;
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            writeln!(f)?;
        }
        let (offset, next, size) = (self.offset, self.next, self.size);
        writeln!(f, "[bytes {offset} to {next} of {size}]")?;
        for note in &self.notes {
            writeln!(f, "[note: {note}]")?;
        }
        match (self.running, self.exit_code, self.signal) {
            (true, ..) => writeln!(f, "[it still runs]"),
            (_, Some(code), _) => writeln!(f, "[exit code {code}]"),
            (_, _, Some(signal)) => writeln!(f, "[ended by signal {signal}]"),
            _ => Ok(()),
        }
    }
}
