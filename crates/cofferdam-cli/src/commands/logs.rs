//! `cofferdam logs`.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use cofferdam::fsx::{Context, FileError};
use cofferdam::registry::{self, PathText};
use cofferdam::run_id::RunId;
use cofferdam::runs::Status;
use cofferdam::sandbox::{Exit, Listed};
use cofferdam::session::living::{self as lives, Named, Program, ProgramId};
use cofferdam::session::manage::ManageError;
use cofferdam::session::{Caller, Session, SessionError, run_log};
use cofferdam::text::printable_line;
use tokio::time::sleep;

use super::here::repository;
use super::of_a_run::or_its_run;
use super::{living, runs};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{human, output, table};

/// Between two looks at a file that grows.
const LOOK: Duration = Duration::from_millis(100);
/// So many looks are between two questions whether the program still runs.
const QUESTION: u32 = 10;
/// A longer line is shown in pieces.
const LINE: usize = 64 << 10;

/// Show what was printed by programs that were left running, or by agents
///
/// The newest one's output unless an id is given. Agents have one log in each sandbox, its id is `run`. On a terminal
/// nothing in it is obeyed; else it comes as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, the path of a checkout for its dev sandbox, such as `.`, or the id of a run
    #[arg(value_name = "SANDBOX|PATH|RUN")]
    name: String,

    /// Which program, as `cofferdam exec --detach` named it, or `run`
    #[arg(value_name = "ID", conflicts_with = "list")]
    id: Option<String>,

    /// Go on until the program ends
    #[arg(long, short, conflicts_with = "list")]
    follow: bool,

    /// Which programs there are, with how they ended
    #[arg(long)]
    list: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    if arguments.name.parse::<RunId>().is_ok() {
        return of_one_run(arguments, environment, interrupt).await;
    }
    let caller = living::caller(environment, interrupt);
    let named = match living::named(&arguments.name, &caller, environment).await {
        Ok(named) => named,
        Err(SessionError::OfARun { .. } | SessionError::Ended { .. }) => {
            return of_a_run(arguments, environment, interrupt).await;
        }
        Err(error) => {
            return Err(or_its_run(&arguments.name, error, environment, interrupt).await);
        }
    };
    // One whose starter was killed has no name before the sandbox is asked; one that is stopped cannot be.
    let provider = named.provider(&caller)?;
    if let Ok(session) = Session::open(&caller, named.clone(), &provider).await {
        let _ = session.programs().await;
    }
    let programs = lives::left_running(&caller, &named)?;
    let agents = run_log(named.record());
    if arguments.list {
        return list(&programs, agents.as_deref(), named, &caller).await;
    }
    let name = named.name().to_string();
    let found = match arguments.id.as_deref() {
        None => match (programs.last(), agents) {
            (Some(program), Some(log)) if changed(&log) > changed(&program.output) => {
                Some(Either::Agents(log))
            }
            (Some(program), _) => Some(Either::Program(program)),
            (None, log) => log.map(Either::Agents),
        },
        Some(RUN) => agents.map(Either::Agents),
        Some(text) => {
            let id: ProgramId = text.parse().map_err(|()| unknown(&name, text))?;
            let program = programs.iter().find(|program| program.id == id);
            program.map(Either::Program)
        }
    };
    let program = match found {
        Some(Either::Program(program)) => program,
        Some(Either::Agents(log)) => {
            let mut shown = Shown::open(&log)?;
            if arguments.follow {
                let over = async |look| {
                    Ok(look % QUESTION == 0 && !somebody_works(&named, &caller).await?)
                };
                follow(&mut shown, interrupt, over).await?;
            }
            return shown.end();
        }
        None => {
            return Err(match arguments.id.as_deref() {
                Some(RUN) => CliError::Failed {
                    message: format!("there is no log of an agent in sandbox `{name}`"),
                    hint: format!(
                        "let one work there with `cofferdam run --in {name} --agent claude-code --prompt '…'`"
                    ),
                },
                Some(text) => unknown(&name, text),
                None => CliError::Failed {
                    message: format!(
                        "no program was left running in sandbox `{name}`, and no agent worked there"
                    ),
                    hint: format!(
                        "leave one running with `cofferdam exec --detach {name} -- PROGRAM`"
                    ),
                },
            });
        }
    };
    let mut shown = Shown::open(&program.output)?;
    if arguments.follow {
        // Its end is told, or the sandbox ended first.
        let over = async |look| {
            Ok(program.exit()?.is_some()
                || look % QUESTION == 0 && !runs(program, &named, &caller).await?)
        };
        follow(&mut shown, interrupt, over).await?;
    }
    // Once something is lost nothing more is written, until it stands there: what is shown from now on ends there.
    let lost = lost(program, &named, &caller).await?;
    let code = shown.end()?;
    if lost > 0 {
        output::note(&format!(
            "note: the next {lost} bytes are missing: they could not be written, as on a full disk\n"
        ));
    }
    Ok(code)
}

/// How many bytes are missing where the log ends. What is missing before that is told in it.
async fn lost(program: &Program, named: &Named, caller: &Caller) -> Result<u64, CliError> {
    Ok(match listed(program, named, caller).await {
        Ok(Some(listed)) => listed.lost,
        // Its end says so too.
        Ok(None) | Err(_) => program.lost()?,
    })
}

/// The id of what agents printed.
const RUN: &str = "run";

enum Either<'a> {
    Program(&'a Program),
    Agents(PathBuf),
}

/// When something was written to it last.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}

async fn somebody_works(named: &Named, caller: &Caller) -> Result<bool, CliError> {
    let again = Named::find(caller, &named.record().repository, &named.id().to_string()).await?;
    let provider = again.provider(caller)?;
    let programs = match Session::open(caller, again, &provider).await {
        Ok(session) => session.programs().await?,
        Err(SessionError::Stopped { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let mut awaited = programs.iter().filter(|one| one.awaited);
    Ok(awaited.any(|one| one.exit.is_none()))
}

pub(super) fn unknown(name: &str, id: &str) -> CliError {
    CliError::Failed {
        message: format!(
            "sandbox `{name}` knows no program `{}` that was left running",
            printable_line(id)
        ),
        hint: format!("see which there are with `cofferdam logs {name} --list`"),
    }
}

/// Shows what comes until nothing more does, which is asked with the number of looks so far.
async fn follow(
    shown: &mut Shown,
    interrupt: &Interrupt,
    mut over: impl AsyncFnMut(u32) -> Result<bool, CliError>,
) -> Result<(), CliError> {
    for look in 0.. {
        // What was printed last was there before the end was.
        let over = over(look).await?;
        shown.show()?;
        if over {
            break;
        }
        let looked = interrupt.cancel.run_until_cancelled(sleep(LOOK)).await;
        if looked.is_none() {
            let code = interrupt.code().unwrap_or(130);
            return Err(CliError::Interrupted { code });
        }
    }
    Ok(())
}

/// Whether the sandbox still knows it as one that runs.
async fn runs(program: &Program, named: &Named, caller: &Caller) -> Result<bool, CliError> {
    let listed = listed(program, named, caller).await?;
    Ok(listed.is_some_and(|one| one.exit.is_none()))
}

/// As the sandbox knows it. `None`: it is of an earlier start, or is forgotten.
async fn listed(
    program: &Program,
    named: &Named,
    caller: &Caller,
) -> Result<Option<Listed>, CliError> {
    let again = Named::find(caller, &named.record().repository, &named.id().to_string()).await?;
    let provider = again.provider(caller)?;
    let session = match Session::open(caller, again, &provider).await {
        Ok(session) => session,
        Err(SessionError::Stopped { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if session.starts()? != program.id.start {
        return Ok(None);
    }
    let programs = session.programs().await?;
    let mut same = programs.into_iter();
    Ok(same.find(|one| one.number == program.id.number))
}

async fn list(
    programs: &[Program],
    agents: Option<&Path>,
    named: Named,
    caller: &Caller,
) -> Result<ExitCode, CliError> {
    let provider = named.provider(caller)?;
    let (now, known) = match Session::open(caller, named, &provider).await {
        Ok(session) => (Some(session.starts()?), session.programs().await?),
        Err(SessionError::Stopped { .. }) => (None, Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if programs.is_empty() && agents.is_none() {
        output::note("no program was left running, and no agent worked there\n");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    if let Some(log) = agents {
        rows.push(row_of_agents(log)?);
    }
    for program in programs {
        let of_now = Some(program.id.start) == now;
        let listed = known
            .iter()
            .find(|one| of_now && one.number == program.id.number);
        let state = match (program.exit()?, listed) {
            (Some(exit), _) => ended(exit),
            (None, Some(Listed { exit: None, .. })) => "running".to_owned(),
            (None, _) => "ended with the sandbox".to_owned(),
        };
        let size = program
            .output
            .metadata()
            .context("look at", &program.output)?
            .len();
        rows.push(vec![
            program.id.to_string(),
            state,
            human::count(size),
            listed.map_or_else(|| "-".to_owned(), command),
        ]);
    }
    output::data(&table::render(&HEAD, &rows))?;
    Ok(ExitCode::SUCCESS)
}

const HEAD: [&str; 4] = ["ID", "STATE", "BYTES", "PROGRAM"];

fn row_of_agents(log: &Path) -> Result<Vec<String>, FileError> {
    let size = log.metadata().context("look at", log)?.len();
    Ok(vec![
        RUN.to_owned(),
        "-".to_owned(),
        human::count(size),
        "agents".to_owned(),
    ])
}

/// How a program ended, in words.
pub(super) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// A program as far as the sandbox remembers it.
pub(super) fn command(one: &Listed) -> String {
    let words = one.arguments.iter().map(crate::ui::shell::shell_word);
    let words: Vec<String> = words.collect();
    table::fit(&words.join(" "), 60)
}

/// By the id of a run, wherever it was.
async fn of_one_run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let find = async || runs::find(&arguments.name, environment, interrupt).await;
    let (record, _) = find().await?;
    if arguments.list || arguments.id.is_some() {
        return Err(CliError::Misused {
            message: format!("run {} has one log", record.id),
            hint: format!("show it with `cofferdam logs {}`", record.id),
        });
    }
    let Some(PathText(path)) = &record.log else {
        return Err(CliError::Failed {
            message: format!("run {} was started without a log", record.id),
            hint: format!("what is known of it: `cofferdam runs show {}`", record.id),
        });
    };
    let mut shown = Shown::open(path)?;
    if arguments.follow {
        let over = async |_| Ok(find().await?.1 != Status::AtWork);
        follow(&mut shown, interrupt, over).await?;
    }
    shown.end()
}

/// Of one that lived as long as its run, or has ended: nothing was left running in it but what its agents printed.
async fn of_a_run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let repository = repository(environment, interrupt).await?;
    let find = || {
        registry::find(&environment.home, &repository.top, &arguments.name)
            .map_err(ManageError::from)
    };
    let entry = find()?;
    let name = entry.record.name.to_string();
    if let Some(id) = arguments.id.as_deref().filter(|id| *id != RUN) {
        return Err(unknown(&name, id));
    }
    let Some(path) = run_log(&entry.record) else {
        return Err(CliError::Failed {
            message: format!("there is no log of the run of sandbox `{name}`"),
            hint: "it was started with `--no-log` or `--log FILE`, or the log was removed; they are in \
                   `.cofferdam/logs/` of the repository"
                .to_owned(),
        });
    };
    if arguments.list {
        output::data(&table::render(&HEAD, &[row_of_agents(&path)?]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = Shown::open(&path)?;
    if arguments.follow {
        let over = async |_| Ok(!find().is_ok_and(|entry| entry.in_use));
        follow(&mut shown, interrupt, over).await?;
    }
    shown.end()
}

/// A file of which more and more is shown.
struct Shown {
    file: File,
    path: PathBuf,
    /// On a terminal: a line that has no end yet.
    line: Vec<u8>,
    terminal: bool,
}

impl Shown {
    fn open(path: &Path) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default())
            .open(path)
            .context("open", path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            line: Vec::new(),
            terminal: std::io::stdout().is_terminal(),
        })
    }

    /// What is new.
    fn show(&mut self) -> Result<(), CliError> {
        let mut chunk = vec![0; LINE];
        loop {
            let read = self.file.read(&mut chunk).context("read", &self.path)?;
            if read == 0 {
                return Ok(());
            }
            if !self.terminal {
                output::bytes(&chunk[..read])?;
                continue;
            }
            self.line.extend_from_slice(&chunk[..read]);
            while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let rest = self.line.split_off(end + 1);
                self.flush()?;
                self.line = rest;
            }
            if self.line.len() > LINE {
                self.flush()?;
            }
        }
    }

    fn flush(&mut self) -> Result<(), CliError> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        Ok(output::data(&format!("{}\n", printable_line(text)))?)
    }

    /// All that is there, with a last line that has no end.
    fn end(&mut self) -> Result<ExitCode, CliError> {
        self.show()?;
        if !self.line.is_empty() {
            self.flush()?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
