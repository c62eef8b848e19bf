//! `cofferdam shell`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cofferdam::registry::RegistryError;
use cofferdam::sandbox::SandboxError;
use cofferdam::session::living::start;
use cofferdam::session::{Caller, Session, SessionError, SessionExec};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::attach::{self, Attached};
use super::dev::{self, Build, Meant, Places, Unsaid, Up, Which};
use super::exec::give_terminal;
use super::here::is_path;
use super::making::DevOptions;
use super::{called, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::{branch_option, shell_word};

/// Says which is the first shell that is inside. It is a program of its own, so that whoever asks later what runs there is
/// told of the shell, and not of this.
const FIND: &str = "command -v zsh || command -v bash || command -v sh";
/// A path is not longer.
const PATH_MAX: u64 = 4096;
/// How long the sandbox has for the answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Open a shell in a sandbox that stays: zsh, bash or sh, whichever is inside
///
/// As often as wanted, several at once. Leaving it leaves the sandbox as it is. Without a name it is that of the dev sandbox of the
/// checkout that you stand in, which is made, or started, where it does not run; what is committed there comes home when you leave.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout, such as ./there
    #[arg(value_name = "SANDBOX|PATH")]
    name: Option<String>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    build: Build,

    #[command(flatten)]
    options: DevOptions,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut exec = SessionExec::default();
    give_terminal(&mut exec, environment).map_err(|_| CliError::Misused {
        message: "a shell needs a terminal, and standard input is none".to_owned(),
        hint: without_a_terminal(&arguments),
    })?;
    let caller = environment.caller();
    let Arguments {
        name,
        which,
        build,
        options,
    } = &arguments;
    let places = Places {
        names: name.iter().cloned().collect(),
        which: which.clone(),
    };
    let meant = dev::meant(&places, build, options, "shell")?;
    let there = dev::there(meant.path(), environment)?;
    let environment = there.as_ref().unwrap_or(environment);
    let session = if let (Meant::Named, Some(name)) = (&meant, name) {
        Box::pin(open(name, &caller, environment)).await?
    } else {
        let up = Up {
            which,
            build,
            options,
            environment,
        };
        come_up(up).await?
    };
    let name = session.id().to_string();
    let shell = find(&session, environment).await?;
    // It may have been named by what becomes its name, or by its id.
    let colour = environment.colour.on_stdout();
    let prompt = prompt(&shell, session.name().as_str(), colour);
    drop(session);
    exec.environment.insert("PS1".into(), prompt.into());
    exec.environment.insert("SHELL".into(), shell.clone());
    exec.arguments = vec![shell, "-i".into()];
    attach::run(Attached {
        name: &name,
        exec,
        callback: None,
        environment,
    })
    .await
}

/// The shell of the dev sandbox of the checkout that somebody stands in; `None` where it has none, or several, which are named.
pub(crate) async fn of_a_dev_sandbox(
    environment: &Environment,
) -> Option<Result<ExitCode, CliError>> {
    let interrupt = Interrupt::quiet().ok()?;
    let caller = super::living::caller(environment, &interrupt);
    let which = match dev::unsaid(&caller, environment, &interrupt).await.ok()? {
        Unsaid::One(which) => which,
        Unsaid::Any(names) => {
            if let Some(line) = dev::are_here(&names, "shell") {
                output::note(&format!("{line}\n"));
            }
            return None;
        }
    };
    drop(interrupt);
    let arguments = Arguments {
        which,
        ..Arguments::default()
    };
    Some(Box::pin(run(arguments, environment)).await)
}

/// Until it is up, the user's signals are for that.
async fn come_up(up: Up<'_>) -> Result<Session, CliError> {
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let done = Box::pin(dev::up(up, &interrupt)).await;
    match interrupt.code() {
        Some(code) => Err(CliError::Interrupted { code }),
        None => Ok(done?.0),
    }
}

/// One that ended and left uncommitted work is started for its user to look around in it.
async fn open(name: &str, caller: &Caller, environment: &Environment) -> Result<Session, CliError> {
    match living::open(name, caller, environment).await {
        Err(SessionError::Ended { .. }) => {
            let named = living::revived(name, caller, environment).await?;
            let provider = named.provider(caller)?;
            let start = async |caller: &Caller| start(caller, named, &provider).await;
            Ok(living::shown(caller, environment, start).await??)
        }
        Err(error @ SessionError::Registry(RegistryError::Unknown { .. })) => {
            let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
            Err(called::unknown("shell", name, error, environment, &interrupt).await)
        }
        opened => Ok(opened?),
    }
}

/// The path of the shell; `sh` where the sandbox says nothing.
async fn find(session: &Session, environment: &Environment) -> Result<OsString, CliError> {
    let name = || session.name().to_string();
    let failed = |source| SessionError::Sandbox {
        name: name(),
        source,
    };
    let asked = async {
        let started = session.exec(SessionExec::new(["sh", "-c", FIND])).await;
        let mut asking =
            started.map_err(|error| attach::not_started(error, session.record(), environment))?;
        let mut said = Vec::new();
        if let Some(stdout) = asking.take_stdout() {
            // Whatever cannot be read is no path either.
            let _ = stdout.take(PATH_MAX).read_to_end(&mut said).await;
        }
        asking.wait().await.map_err(failed)?;
        Ok(said)
    };
    let Ok(said) = timeout(ANSWER, asked).await else {
        return Err(failed(SandboxError::TimedOut(ANSWER.as_secs())).into());
    };
    let said: Result<_, CliError> = said;
    let said = said?;
    let line = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(if line.is_empty() {
        "sh".into()
    } else {
        OsStr::from_bytes(line).to_owned()
    })
}

/// Names the sandbox and the directory, in each shell's own language. Whatever the sandbox's own files set comes after it.
fn prompt(shell: &OsStr, name: &str, colour: bool) -> String {
    let shell = Path::new(shell).file_name().and_then(OsStr::to_str);
    match (shell, colour) {
        (Some("zsh"), true) => format!("%B%F{{green}}{name}:%F{{blue}}%~%f%b%# "),
        (Some("zsh"), false) => format!("{name}:%~%# "),
        // The branch is what our own start file knows; another one of the user's may have taken its place.
        (Some("bash"), true) => format!(
            r"\[\e[1;32m\]{name}:\[\e[1;34m\]\w\[\e[0;33m\]$(__cofferdam_branch 2>/dev/null)\[\e[0m\]\$ "
        ),
        (Some("bash"), false) => format!(r"{name}:\w$(__cofferdam_branch 2>/dev/null)\$ "),
        _ => format!("{name}:$PWD$ "),
    }
}

fn without_a_terminal(arguments: &Arguments) -> String {
    let name = arguments.name.as_deref();
    let place = name.map_or_else(String::new, |name| format!(" {}", shell_word(name)));
    if name.is_some_and(|name| !is_path(OsStr::new(name))) {
        return format!("run a script with `cofferdam exec -i{place} -- sh`");
    }
    // One that may not be there yet.
    let branch = branch_option(arguments.which.branch.as_ref());
    let made = arguments.options.where_words();
    format!(
        "run a script with `cofferdam start{made}{branch}{place}`, then `cofferdam exec -i{branch}{place} -- sh`"
    )
}
