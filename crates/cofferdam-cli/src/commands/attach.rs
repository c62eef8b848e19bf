//! A program in a sandbox whose streams, signals and end are those of the command.

mod paused;
mod signals;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam::network::NetworkKind;
use cofferdam::registry::{Reach, Record};
use cofferdam::sandbox::{
    BoxRead, BoxWrite, Execution, Exit, ProgramFault, SandboxError, Terminal, TerminalSize,
};
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::{Attendant, Caller, Notice, Session, SessionError, SessionExec};
use rustix::process::Signal as Number;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::paused::{ANSWER, CTRL_C, Presses, Watch};
use self::signals::{Signals, is_an_end};
use super::callback::Callback;
use super::making::ProviderName;
use super::{dev, living, stop, unstarted};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::streams::{self, Sink};
use crate::ui::tty::{self, Raw};
use crate::ui::{opening, output};

/// How long what a program left running may keep silent before its output counts as done.
const SILENCE: Duration = Duration::from_millis(100);
/// No pipe holds more of what a program wrote before its end.
const LAST: usize = 1 << 20;
/// So much may be typed ahead.
const AHEAD: usize = 1 << 20;
/// How long a program may go on that was told to end, where its terminal has nobody left.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long one that was told to end by SIGTERM may go on, as with `cofferdam stop`.
const STOP: Duration = Duration::from_secs(stop::TIME);
/// What [`says_number`] is about.
const NUMBER: Exit = Exit::Code(Number::HUP.as_raw());
/// Who typed something so short a time before leaves a shell by that.
const KEY: Duration = Duration::from_millis(300);
/// Between two looks at a sandbox that may be ending.
const SOON: Duration = Duration::from_millis(50);

/// What is to be run, and where.
#[derive(Debug)]
pub(super) struct Attached<'a> {
    pub(super) name: &'a str,
    pub(super) exec: SessionExec,
    /// What comes in from this machine meanwhile.
    pub(super) callback: Option<Callback>,
    pub(super) environment: &'a Environment,
}

/// Runs it to its end; the exit code is its own, and 128 and the number of the signal that ended it.
pub(super) async fn run(mut attached: Attached<'_>) -> Result<ExitCode, CliError> {
    let on_terminal = attached.exec.terminal.is_some();
    let mut signals = Signals::listen(on_terminal).map_err(CliError::Runtime)?;
    let caller = attached.environment.caller();
    let started = Box::pin(start(&mut attached, &caller));
    let (session, execution) = tokio::select! {
        started = started => started?,
        signal = signals.next_deadly() => return Err(interrupted(signal)),
    };
    let callback = attached.callback.take();
    let refused = session.refused_from_now_on();
    let ends = async {
        if on_terminal {
            let says_number = says_number(&attached.exec.arguments);
            on_a_terminal(Some(&session), execution, signals, says_number).await
        } else {
            on_streams(&session, execution, attached.exec.stdin, signals).await
        }
    };
    let carried = async {
        if let Some(callback) = callback {
            callback.carry(&session).await;
        }
        std::future::pending::<Infallible>().await
    };
    let ended = tokio::select! {
        ended = ends => ended,
        never = carried => match never {},
    };
    // Whoever reads what a program prints by a program of theirs has the network log.
    if std::io::stderr().is_terminal() {
        let text = opening::text(
            &refused.until_now(),
            Some(session.name()),
            "refused by the network:",
        );
        output::note(&text);
    }
    let killed = session.killed_for_memory();
    // Elsewhere what is told belongs to what the program says, unless it failed.
    if killed > 0 && (std::io::stderr().is_terminal() || !matches!(ended, Ok(Exit::Code(0)))) {
        let notice = Notice::KilledForMemory { processes: killed };
        output::note(&format!("note: {notice}\n"));
    }
    if session.record().dev.is_some() && !matches!(ended, Err(Ended::Sandbox(_))) {
        leave(&session, &caller, attached.environment).await;
    }
    match ended {
        Ok(exit) => Ok(ExitCode::from(code(exit))),
        Err(Ended::Left(code)) => Err(CliError::Interrupted { code }),
        Err(Ended::Terminal(error)) => Err(CliError::Failed {
            message: format!("the terminal on standard input cannot be used: {error}"),
            hint: "leave out `-t`".to_owned(),
        }),
        Err(Ended::Sandbox(error)) => Err(gone(&attached, &session, &caller, error).await),
    }
}

/// What is to be done when the program has ended is cut short by Ctrl-C.
async fn leave(session: &Session, caller: &Caller, environment: &Environment) {
    let Ok(interrupt) = Interrupt::quiet() else {
        return;
    };
    let mut left = std::pin::pin!(dev::left(session, environment));
    tokio::select! {
        () = &mut left => {}
        () = interrupt.cancel.cancelled() => {
            caller.cancel.cancel();
            // It takes back what it half did.
            let _ = tokio::time::timeout(FAREWELL, left).await;
        }
    }
}

/// The user, at an agent's own terminal interface.
#[derive(Debug)]
pub(super) struct Person {
    environment: BTreeMap<OsString, OsString>,
}

impl Person {
    pub(super) fn new(environment: &Environment) -> Self {
        Self {
            environment: terminal_variables(environment),
        }
    }
}

#[async_trait]
impl Attendant for Person {
    fn size(&self) -> TerminalSize {
        tty::size()
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.environment.clone()
    }

    async fn attend(&self, execution: Box<dyn Execution>) -> Result<Exit, SandboxError> {
        let lost = |error: io::Error| {
            SandboxError::Gone(format!(
                "the terminal on standard input cannot be used: {error}"
            ))
        };
        let signals = Signals::listen(true).map_err(lost)?;
        match on_a_terminal(None, execution, signals, false).await {
            Ok(exit) => Ok(exit),
            Err(Ended::Left(code)) => Ok(Exit::Code(i32::from(code))),
            Err(Ended::Terminal(error)) => Err(lost(error)),
            Err(Ended::Sandbox(error)) => Err(error),
        }
    }
}

/// What says to a program which terminal it has.
pub(super) fn terminal_variables(environment: &Environment) -> BTreeMap<OsString, OsString> {
    let usual = OsString::from("xterm");
    let term = environment
        .variable("TERM")
        .map_or(usual, ToOwned::to_owned);
    let mut variables = BTreeMap::from([("TERM".into(), term)]);
    if let Some(value) = environment.variable("COLORTERM") {
        variables.insert("COLORTERM".into(), value.to_owned());
    }
    variables
}

/// Opens the sandbox and starts the program.
pub(super) async fn start(
    attached: &mut Attached<'_>,
    caller: &Caller,
) -> Result<(Session, Box<dyn Execution>), CliError> {
    let session = living::open(attached.name, caller, attached.environment).await?;
    dev::follow(&session).await;
    let network = session.record().network.as_ref().map(Reach::kind);
    if network == Some(NetworkKind::Open) && attached.callback.take().is_some() {
        // Natively the program listens at this machine's own port.
        if session.record().provider != ProviderName::Native.name() {
            output::note(&format!(
                "note: no login by a browser comes back to {}, whose network is open; without one: `cofferdam codex -- login --device-auth`\n",
                session.name()
            ));
        }
    }
    let started = session.exec(attached.exec.clone()).await;
    let started =
        started.map_err(|error| not_started(error, session.record(), attached.environment))?;
    Ok((session, started))
}

/// As shells have it: 126 for what cannot be run, 127 for what is not there.
pub(super) fn not_started(
    error: SessionError,
    record: &Record,
    environment: &Environment,
) -> CliError {
    match &error {
        SessionError::Sandbox {
            source: SandboxError::Program { program, fault, .. },
            ..
        } => {
            let code = match fault {
                ProgramFault::Forbidden => 126,
                _ => 127,
            };
            let hint = unstarted::hint(program, *fault, record, environment);
            let error = Box::new(error);
            CliError::NotStarted { error, code, hint }
        }
        _ => error.into(),
    }
}

/// As a shell says how a program ended.
pub(super) fn code(exit: Exit) -> u8 {
    match exit {
        Exit::Code(code) => u8::try_from(code & 0xff).unwrap_or(1),
        Exit::Signal(signal) => u8::try_from(128 + signal).unwrap_or(255),
    }
}

fn interrupted(signal: i32) -> CliError {
    CliError::Interrupted {
        code: code(Exit::Signal(signal)),
    }
}

/// Why there is no exit of the program's own.
#[derive(Debug)]
enum Ended {
    /// The user left it, or their terminal did.
    Left(u8),
    Terminal(io::Error),
    Sandbox(SandboxError),
}

/// Contact was lost: most often because somebody stopped or deleted the sandbox.
async fn gone(
    attached: &Attached<'_>,
    session: &Session,
    caller: &Caller,
    error: SandboxError,
) -> CliError {
    let name = session.name().to_string();
    let mut stopped = false;
    // One that is deleted is a stopped one for a moment.
    let until = Instant::now() + ANSWER;
    while Instant::now() < until {
        let id = session.id().to_string();
        let named = match living::named(&id, caller, attached.environment).await {
            Ok(named) => named,
            Err(
                SessionError::Registry(_)
                | SessionError::OfARun { .. }
                | SessionError::Ended { .. },
            ) => {
                return CliError::Failed {
                    message: format!("sandbox `{name}` was deleted"),
                    hint: "see which there are with `cofferdam list`".to_owned(),
                };
            }
            Err(error) => return error.into(),
        };
        let provider = match named.provider(caller) {
            Ok(provider) => provider,
            Err(error) => return error.into(),
        };
        let condition = lives::condition(caller, &named, &provider).await;
        stopped = matches!(condition, Ok(Condition::Stopped));
        if !stopped {
            break;
        }
        sleep(SOON).await;
    }
    if stopped {
        return session.stopped().await.into();
    }
    let source = error;
    SessionError::Sandbox { name, source }.into()
}

/// With three streams.
async fn on_streams(
    session: &Session,
    mut execution: Box<dyn Execution>,
    input: bool,
    mut signals: Signals,
) -> Result<Exit, Ended> {
    let (end, ended) = watch::channel(false);
    let outputs = [
        (execution.take_stdout(), Sink::stdout as fn() -> Sink),
        (execution.take_stderr(), Sink::stderr),
    ];
    let count = Arc::new(AtomicU64::new(0));
    let pumps: Vec<JoinHandle<()>> = outputs
        .into_iter()
        .filter_map(|(from, to)| Some(tokio::spawn(pump(from?, to, ended.clone(), count.clone()))))
        .collect();
    if let Some(stdin) = execution.take_stdin().filter(|_| input) {
        tokio::spawn(feed(stdin));
    }
    let mut presses = Presses::default();
    let mut watch = Watch::new(
        Some(session),
        count,
        "Ctrl-C twice ends the program all the same",
    );
    let mut killed_at = None;
    let exit = loop {
        tokio::select! {
            exit = execution.wait() => break exit.map_err(Ended::Sandbox),
            signal = signals.next() => {
                if signal == Number::INT.as_raw() {
                    watch.hear(&[CTRL_C]);
                }
                pass_on(&mut *execution, signal, &mut presses).await?;
                if signal == Number::TERM.as_raw() {
                    killed_at.get_or_insert_with(|| Instant::now() + STOP);
                }
            }
            // It may not hear of it: by its own will, or because who traces it holds it in its end.
            () = until(killed_at) => {
                killed_at = None;
                let _ = execution.kill(Number::KILL.as_raw()).await;
            }
            // It hears nothing at all where the sandbox is paused. Who leaves it has done so by what is passed on.
            () = watch.due() => {
                let _ = watch.ask().await;
            }
        }
    };
    drained(end, pumps, &mut signals).await?;
    exit
}

/// For ever where there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep(time.saturating_duration_since(Instant::now())).await,
        None => std::future::pending().await,
    }
}

/// What comes on standard input, then its end.
async fn feed(mut stdin: BoxWrite) {
    let mut input = streams::input();
    while let Some(bytes) = input.recv().await {
        // The program may read no more of it.
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

/// The second Ctrl-C ends the program whatever it does, and the third ends the waiting for that.
async fn pass_on(
    execution: &mut dyn Execution,
    signal: i32,
    presses: &mut Presses,
) -> Result<(), Ended> {
    let presses = if signal == Number::INT.as_raw() {
        presses.press()
    } else {
        1
    };
    let signal = match presses {
        1 => signal,
        2 => Number::KILL.as_raw(),
        _ => return Err(Ended::Left(code(Exit::Signal(signal)))),
    };
    // It may have ended; then that is what is waited for.
    let _ = execution.kill(signal).await;
    Ok(())
}

/// Passes on what a program prints, until its end and what it wrote before.
async fn pump(
    mut from: BoxRead,
    to: fn() -> Sink,
    ended: watch::Receiver<bool>,
    count: Arc<AtomicU64>,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut sink = None;
    let mut last = LAST;
    loop {
        let mut over = ended.clone();
        let silent = async {
            let _ = over.wait_for(|ended| *ended).await;
            sleep(SILENCE).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read(&mut buffer) => read,
            // Something that the program left running has it open.
            () = silent => break,
        };
        let Ok(length @ 1..) = read else { break };
        count.fetch_add(1, Ordering::Relaxed);
        let sink = sink.get_or_insert_with(to);
        // Where nobody reads any more, the program is told in its own way: by a broken pipe.
        if !sink.send(buffer[..length].to_vec()).await {
            break;
        }
        if *ended.borrow() {
            last = last.saturating_sub(length);
            if last == 0 {
                break;
            }
        }
    }
    drop(from);
    if let Some(sink) = sink {
        sink.finish().await;
    }
}

/// Waits until everything is written that the program printed, or the user has enough of it.
async fn drained(
    end: watch::Sender<bool>,
    pumps: Vec<JoinHandle<()>>,
    signals: &mut Signals,
) -> Result<(), Ended> {
    let _ = end.send(true);
    for pump in pumps {
        tokio::select! {
            _ = pump => {}
            signal = signals.next_end() => return Err(Ended::Left(code(Exit::Signal(signal)))),
        }
    }
    Ok(())
}

/// With the user's terminal.
async fn on_a_terminal(
    session: Option<&Session>,
    mut execution: Box<dyn Execution>,
    mut signals: Signals,
    says_number: bool,
) -> Result<Exit, Ended> {
    let missing = || Ended::Sandbox(SandboxError::Gone("it gave no terminal".to_owned()));
    let Terminal {
        output,
        mut input,
        size,
    } = execution.take_terminal().ok_or_else(missing)?;
    let listen = |kind| signal(kind).map_err(Ended::Terminal);
    let mut resized = listen(SignalKind::window_change())?;
    let mut continued = listen(SignalKind::from_raw(Number::CONT.as_raw()))?;
    let raw = Raw::enter().map_err(Ended::Terminal)?;
    // It may have changed while the program was started.
    let _ = size.resize(tty::size());
    let (end, ended) = watch::channel(false);
    let answers = Arc::new(AtomicU64::new(0));
    let pumps = vec![tokio::spawn(pump(
        output,
        Sink::stdout,
        ended,
        answers.clone(),
    ))];
    let mut keys = streams::input();
    let mut ahead: VecDeque<u8> = VecDeque::new();
    let mut watch = Watch::new(session, answers, "Ctrl-C three times leaves it");
    let mut key = Instant::now();
    let exit = loop {
        tokio::select! {
            exit = execution.wait() => break match exit.map_err(Ended::Sandbox) {
                Ok(exit) if says_number && key.elapsed() > KEY && exit == NUMBER => {
                    with_its_sandbox(session, exit).await
                }
                Ok(exit @ Exit::Signal(_)) => with_its_sandbox(session, exit).await,
                Ok(exit) => Ok(exit),
                ended => ended,
            },
            typed = keys.recv(), if ahead.len() < AHEAD => match typed {
                Some(typed) => {
                    key = Instant::now();
                    watch.hear(&typed);
                    // What is typed after a change of size finds the new size, also where the signal is late.
                    let _ = size.resize(tty::size());
                    ahead.extend(typed);
                }
                // The terminal is gone: its programs are hung up with what is dropped here.
                None => break Err(Ended::Left(code(Exit::Signal(Number::HUP.as_raw())))),
            },
            written = input.write(ahead.as_slices().0), if !ahead.is_empty() => match written {
                Ok(written) => drop(ahead.drain(..written)),
                // Nobody inside has it open any more: the end follows.
                Err(_) => ahead.clear(),
            },
            _ = resized.recv() => {
                let _ = size.resize(tty::size());
            }
            _ = continued.recv() => {
                let _ = raw.again();
                let _ = size.resize(tty::size());
            }
            // Keys are no signals here: these are meant for the command, and then for its program.
            signal = signals.next() => {
                let _ = execution.kill(signal).await;
                if !is_an_end(signal) {
                    continue;
                }
                let last = tokio::time::timeout(FAREWELL, execution.wait()).await;
                break match last {
                    Ok(exit) => exit.map_err(Ended::Sandbox),
                    Err(_) => Err(Ended::Left(code(Exit::Signal(signal)))),
                };
            }
            () = watch.due() => if watch.ask().await {
                break Err(Ended::Left(code(Exit::Signal(Number::INT.as_raw()))));
            },
        }
    };
    let drained = drained(end, pumps, &mut signals).await;
    // However it ended: a program that was killed has put nothing back.
    tty::calm();
    drop(raw);
    drained?;
    exit
}

/// Whether it is a zsh: one that a hang-up ends says the signal's number as its exit code.
fn says_number(arguments: &[OsString]) -> bool {
    let program = arguments.first().map(Path::new);
    program.and_then(Path::file_name) == Some(OsStr::new("zsh"))
}

/// A shell that is told to end because its sandbox does: its user is told of that.
async fn with_its_sandbox(session: Option<&Session>, exit: Exit) -> Result<Exit, Ended> {
    let Some(session) = session else {
        return Ok(exit);
    };
    let told =
        [Number::HUP, Number::TERM, Number::KILL].map(|signal| Exit::Signal(signal.as_raw()));
    if !told.contains(&exit) && exit != NUMBER {
        return Ok(exit);
    }
    let until = Instant::now() + ANSWER;
    while Instant::now() < until {
        if let Err(SessionError::Sandbox { source, .. }) = session.condition().await {
            return Err(Ended::Sandbox(source));
        }
        sleep(SOON).await;
    }
    Ok(exit)
}
