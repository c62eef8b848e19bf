//! `cofferdam restart`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cofferdam::session::Caller;
use cofferdam::session::living::{self as lives, Condition};

use super::dev::{self, Build, Places, Up};
use super::making::DevOptions;
use super::{images, keep_ready, living, stop, unpublished};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// End every program in sandboxes and start them again from their files
///
/// As `cofferdam stop` and `cofferdam start`. One that is stopped is started. With `--build` the dev sandbox of a checkout is made anew
/// from its image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    places: Places,

    #[command(flatten)]
    build: Build,

    /// How many seconds each sandbox's programs have to end by themselves
    #[arg(
        long,
        short,
        value_name = "SECONDS",
        default_value_t = stop::TIME,
        value_parser = clap::value_parser!(u64).range(0..=3600)
    )]
    time: u64,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let Arguments {
        places,
        build,
        time,
    } = arguments;
    let options = DevOptions::default();
    let meant = dev::meant(places, build, &options, "restart")?;
    let there = dev::there(meant.path(), environment)?;
    let environment = there.as_ref().unwrap_or(environment);
    if build.build {
        let up = Up {
            which: &places.which,
            build,
            options: &options,
            environment,
        };
        let (session, _) = Box::pin(dev::up(up, interrupt)).await?;
        let name = session.name();
        output::note(&format!(
            "made {name} anew; use it with: cofferdam shell {name}\n"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let meant = (&meant, "restart");
    let sandboxes = dev::sandboxes(places, meant, environment, interrupt).await?;
    let grace = Duration::from_secs(*time);
    let each = living::each(
        &sandboxes,
        environment,
        interrupt,
        async |caller, mut named| {
            let provider = named.provider(caller)?;
            let name = named.name().clone();
            // What cannot be read stops nothing.
            lives::can_start(caller, &named)?;
            let ports = match named.record().dev {
                Some(_) => Some(dev::Ports::of(named.record(), None, environment)?),
                None => None,
            };
            let before = lives::condition(caller, &named, &provider).await;
            if !matches!(before, Ok(Condition::Stopped)) {
                dev::take_logins(caller, &named, &provider).await;
                lives::stop_within(caller, &named, &provider, grace).await?;
            }
            if let Some(ports) = ports {
                ports.give(caller, &mut named).await?;
            }
            let start = async |caller: &Caller| lives::start(caller, named, &provider).await;
            let session = living::shown(caller, environment, start).await??;
            output::note(&format!(
                "restarted {name}; use it with: cofferdam shell {name}\n"
            ));
            keep_ready::after_living(session.record());
            unpublished::tell(&session, environment)?;
            if session.record().dev.is_some() {
                images::tell_changed(session.record(), environment).await;
            }
            Ok(())
        },
    );
    Box::pin(each).await
}
