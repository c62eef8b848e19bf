//! `cofferdam stop`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cofferdam::session::SessionError;
use cofferdam::session::living::{self as lives, Condition};
use tokio::time::timeout;

use super::dev::{self, Build, Places};
use super::living;
use super::making::DevOptions;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Seconds that programs have to end by themselves once they are told to.
pub(super) const TIME: u64 = 10;

/// End every program in sandboxes; their files and the agent's home stay
///
/// Programs get SIGTERM first, shells on a terminal SIGHUP a second later. What still runs after `--time`, or at Ctrl-C, is
/// killed. In a sandbox that is paused nothing can hear a signal: it ends at once. Without a name it is the dev sandbox of the checkout
/// that you stand in.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    places: Places,

    /// How many seconds each sandbox's programs have to end by themselves
    #[arg(
        long,
        short,
        value_name = "SECONDS",
        default_value_t = TIME,
        value_parser = clap::value_parser!(u64).range(0..=3600)
    )]
    time: u64,
}

/// Who waits longer than this is told what for.
const SILENT: Duration = Duration::from_millis(1500);

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let places = &arguments.places;
    let meant = dev::meant(places, &Build::default(), &DevOptions::default(), "stop")?;
    let there = dev::there(meant.path(), environment)?;
    let environment = there.as_ref().unwrap_or(environment);
    let sandboxes = dev::sandboxes(places, (&meant, "stop"), environment, interrupt).await?;
    living::each(
        &sandboxes,
        environment,
        interrupt,
        async |caller, named| {
            let provider = named.provider(caller)?;
            let name = named.name().clone();
            // One that does not answer is stopped all the same.
            let before = lives::condition(caller, &named, &provider).await;
            if let Err(error @ SessionError::OtherProvider { .. }) = before {
                return Err(error.into());
            }
            dev::take_logins(caller, &named, &provider).await;
            let programs = lives::programs_running(caller, &named, &provider).await;
            // What one left that was killed is cleared away even so.
            let grace = Duration::from_secs(arguments.time);
            let stopped = lives::stop_within(caller, &named, &provider, grace);
            let mut stopped = std::pin::pin!(stopped);
            if let Ok(done) = timeout(SILENT, &mut stopped).await {
                done?;
            } else {
                    output::note(&format!(
                        "waiting for the programs in {name} to end, {} s at most; Ctrl-C ends them at once\n",
                        arguments.time
                    ));
                if let Ok(done) = timeout(grace + SILENT, &mut stopped).await {
                    done?;
                } else {
                    output::note(&format!(
                        "another command is at work on {name}: waiting for its end, 30 s at most\n"
                    ));
                    stopped.await?;
                }
            }
            output::note(&match before {
                Ok(Condition::Stopped) => format!("{name} is stopped already\n"),
                _ => format!("stopped {name}{}; it comes back with: cofferdam start {name}\n", living::with_programs(programs)),
            });
            Ok(())
        },
    )
    .await
}
