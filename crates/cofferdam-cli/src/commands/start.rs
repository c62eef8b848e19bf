//! `cofferdam start`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::RegistryError;
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::{Caller, Session, SessionError};

use super::dev::{self, Build, Came, Meant, Places, Up};
use super::living::{self, Sandboxes};
use super::making::DevOptions;
use super::{called, images, keep_ready, status, unpublished};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Start stopped sandboxes again from their files; or the dev sandbox of a checkout, which is made where there is none
///
/// Also after the machine was restarted. No program that ran before comes back. A dev sandbox works in the checkout itself, or with
/// `--branch` on a working tree of that branch beside it; it has a shelf and a shells' history that outlive it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) places: Places,

    #[command(flatten)]
    pub(super) build: Build,

    #[command(flatten)]
    pub(super) options: DevOptions,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let Arguments {
        places,
        build,
        options,
    } = arguments;
    let meant = dev::meant(&places, &build, &options, "start")?;
    if meant == Meant::Named {
        return Box::pin(named(
            &Sandboxes {
                names: places.names,
            },
            environment,
            interrupt,
        ))
        .await;
    }
    let there = dev::there(meant.path(), environment)?;
    let environment = there.as_ref().unwrap_or(environment);
    let up = Up {
        which: &places.which,
        build: &build,
        options: &options,
        environment,
    };
    let (session, came) = Box::pin(dev::up(up, interrupt)).await?;
    let record = session.record();
    let (name, place) = (&record.name, dev::place(record));
    output::note(&match came {
        Came::Made => {
            format!("made and started {name} for {place}; use it with: cofferdam shell {name}\n")
        }
        Came::Started => {
            format!("started {name} for {place}; use it with: cofferdam shell {name}\n")
        }
        Came::Before => format!("{name} is running already\n"),
    });
    tell_joined(&session);
    Ok(ExitCode::SUCCESS)
}

async fn named(
    sandboxes: &Sandboxes,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let caller = living::caller(environment, interrupt);
    for name in &sandboxes.names {
        match living::named(name, &caller, environment).await {
            Err(SessionError::Ended { .. }) => {
                living::revived(name, &caller, environment).await?;
            }
            // Of several each is told by itself.
            Err(error @ SessionError::Registry(RegistryError::Unknown { .. }))
                if sandboxes.names.len() == 1 =>
            {
                return Err(called::unknown("start", name, error, environment, interrupt).await);
            }
            // Whatever else is wrong is said by who starts it.
            _ => {}
        }
    }
    let each = living::each(
        sandboxes,
        environment,
        interrupt,
        async |caller, mut named| {
            let provider = named.provider(caller)?;
            let name = named.name().clone();
            match lives::condition(caller, &named, &provider).await? {
                Condition::Paused => {
                    let name = name.to_string();
                    return Err(SessionError::Paused { name }.into());
                }
                Condition::Stopped => {
                    if named.record().dev.is_some() {
                        let ports = dev::Ports::of(named.record(), None, environment)?;
                        ports.give(caller, &mut named).await?;
                    }
                    let start =
                        async |caller: &Caller| lives::start(caller, named, &provider).await;
                    let session = living::shown(caller, environment, start).await??;
                    output::note(&format!(
                        "started {name}; use it with: cofferdam shell {name}\n"
                    ));
                    keep_ready::after_living(session.record());
                    unpublished::tell(&session, environment)?;
                    if session.record().dev.is_some() {
                        images::tell_changed(session.record(), environment).await;
                    }
                    set_up_again(session, caller, environment).await?;
                }
                _ => {
                    // Its place is kept again where nobody did.
                    let session = Session::open(caller, named, &provider).await?;
                    tell_joined(&session);
                    if !set_up_again(session, caller, environment).await? {
                        output::note(&format!("{name} is running already\n"));
                    }
                }
            }
            Ok(())
        },
    );
    Box::pin(each).await
}

/// What runs already may have been opened since.
fn tell_joined(session: &Session) {
    let interfaces = session.joined();
    if !interfaces.is_empty() {
        let name = session.name();
        let told = status::joined(name, &interfaces);
        output::note(&format!("warning: {name} is {told}\n"));
    }
}

/// Where its set-up failed. Whether it is set up now and was not before.
async fn set_up_again(
    session: Session,
    caller: &Caller,
    environment: &Environment,
) -> Result<bool, CliError> {
    if !lives::can_be_set_up_again(&environment.home, session.record()) {
        return Ok(false);
    }
    let name = session.name().clone();
    let named = session.named().clone();
    let provider = named.provider(caller)?;
    let again = async |caller: &Caller| {
        let mut session = Session::open(caller, named, &provider).await?;
        session.set_up_again().await
    };
    let done = living::shown(caller, environment, again).await??;
    if done {
        output::note(&format!(
            "set up {name}; use it with: cofferdam shell {name}\n"
        ));
    }
    Ok(done)
}
