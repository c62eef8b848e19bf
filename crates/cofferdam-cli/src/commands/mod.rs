//! One file for each command: its options, and what it does with the library.

mod agent_program;
pub(crate) mod allow;
pub(crate) mod apply;
pub(crate) mod approve;
mod attach;
pub(crate) mod build;
pub(crate) mod build_base;
mod built_in;
mod callback;
mod called;
pub(crate) mod checkout;
pub(crate) mod claude;
pub(crate) mod claude_logout;
pub(crate) mod codex;
pub(crate) mod codex_config;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod create;
mod defaults;
pub(crate) mod delete;
pub(crate) mod demo;
mod dev;
mod dev_sandboxes;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod engines;
pub(crate) mod exec;
pub(crate) mod forward;
pub(crate) mod gc;
mod here;
mod images;
pub(crate) mod init;
pub(crate) mod keep_ready;
pub(crate) mod kill;
pub(crate) mod list;
mod living;
pub(crate) mod log;
pub(crate) mod logs;
mod making;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod merge;
pub(crate) mod net;
mod of_a_run;
pub(crate) mod pause;
pub(crate) mod ports;
pub(crate) mod prompt;
pub(crate) mod restart;
pub(crate) mod resume;
pub(crate) mod revoke;
pub(crate) mod run;
pub(crate) mod runs;
mod several;
pub(crate) mod shell;
pub(crate) mod show_run;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod sync;
mod unpublished;
mod unstarted;
pub(crate) mod volume;
pub(crate) mod watch;
pub(crate) mod worktree;

use std::process::ExitCode;

use cofferdam::sandbox::engine::Kind;

use crate::arguments::Command;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Runs one command.
pub(crate) async fn dispatch(
    command: Command,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(arguments) => run::run(*arguments, environment).await,
        Command::Interactive(arguments) => {
            Box::pin(run::interactive::run(*arguments, environment)).await
        }
        Command::Continue(arguments) => Box::pin(run::go_on::run(*arguments, environment)).await,
        Command::Demo(arguments) => demo::run(&arguments, environment).await,
        // The user's signals are the program's.
        Command::Exec(arguments) => Box::pin(exec::run(arguments, environment)).await,
        Command::Claude(arguments) => Box::pin(claude::run(*arguments, environment)).await,
        Command::Codex(arguments) => Box::pin(codex::run(*arguments, environment)).await,
        Command::Shell(arguments) => Box::pin(shell::run(*arguments, environment)).await,
        Command::Completions(arguments) => completions::run(&arguments, crate::command()),
        Command::Man(arguments) => man::run(&arguments, crate::command(), environment),
        command => {
            let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
            let moves_sandboxes = moves_sandboxes(&command);
            let done = match command {
                Command::Create(arguments) => {
                    create::run(*arguments, environment, &interrupt).await
                }
                Command::Runs(arguments) => runs::run(&arguments, environment, &interrupt).await,
                Command::Logs(arguments) => logs::run(&arguments, environment, &interrupt).await,
                Command::Status(arguments) => {
                    status::run(&arguments, environment, &interrupt).await
                }
                Command::Kill(arguments) => kill::run(&arguments, environment, &interrupt).await,
                Command::Pause(arguments) => pause::run(&arguments, environment, &interrupt).await,
                Command::Resume(arguments) => {
                    resume::run(&arguments, environment, &interrupt).await
                }
                Command::Prompt(arguments) => {
                    Box::pin(prompt::run(arguments, environment, &interrupt)).await
                }
                Command::Ports(arguments) => ports::run(&arguments, environment, &interrupt).await,
                Command::Forward(arguments) => {
                    forward::run(arguments, environment, &interrupt).await
                }
                Command::Restart(arguments) => {
                    Box::pin(restart::run(&arguments, environment, &interrupt)).await
                }
                Command::ShowRun(arguments) => {
                    Box::pin(show_run::run(*arguments, environment, &interrupt)).await
                }
                Command::Checkout(arguments) => {
                    checkout::run(&arguments, environment, &interrupt).await
                }
                Command::Stop(arguments) => stop::run(&arguments, environment, &interrupt).await,
                Command::Start(arguments) => {
                    Box::pin(start::run(*arguments, environment, &interrupt)).await
                }
                Command::Collect(arguments) => {
                    collect::run(&arguments, environment, &interrupt).await
                }
                Command::List(arguments) => list::run(&arguments, environment, &interrupt).await,
                Command::Diff(arguments) => diff::run(arguments, environment, &interrupt).await,
                Command::Log(arguments) => log::run(arguments, environment, &interrupt).await,
                Command::Mcp(arguments) => {
                    Box::pin(mcp::run(&arguments, environment, &interrupt)).await
                }
                Command::Merge(arguments) => {
                    Box::pin(merge::run(arguments, environment, &interrupt)).await
                }
                Command::Apply(arguments) => apply::run(arguments, environment, &interrupt).await,
                Command::Worktree(arguments) => {
                    worktree::run(arguments, environment, &interrupt).await
                }
                Command::Delete(arguments) => delete::run(arguments, environment, &interrupt).await,
                Command::Allow(arguments) => allow::run(&arguments, environment, &interrupt).await,
                Command::Revoke(arguments) => {
                    revoke::run(&arguments, environment, &interrupt).await
                }
                Command::BuildBase(arguments) => {
                    build_base::run(arguments, environment, &interrupt).await
                }
                Command::Build(arguments) => build::run(&arguments, environment, &interrupt).await,
                Command::Docker(arguments) => {
                    engines::run(Kind::Docker, &arguments, environment, &interrupt).await
                }
                Command::Podman(arguments) => {
                    engines::run(Kind::Podman, &arguments, environment, &interrupt).await
                }
                Command::Net(arguments) => net::run(arguments, environment, &interrupt).await,
                Command::Sync(arguments) => sync::run(arguments, environment, &interrupt).await,
                Command::Volume(arguments) => {
                    volume::run(&arguments, environment, &interrupt).await
                }
                Command::Config(arguments) => {
                    config::run(&arguments, environment, &interrupt).await
                }
                Command::Approve(arguments) => {
                    approve::run(&arguments, environment, &interrupt).await
                }
                Command::Init(arguments) => {
                    Box::pin(init::run(arguments, environment, &interrupt)).await
                }
                Command::CodexInitConfig(arguments) => codex_config::run(&arguments, environment),
                Command::ClaudeLogout(_) => claude_logout::run(environment),
                Command::CodexLogout(_) => codex_config::logout(environment),
                Command::Gc(arguments) => gc::run(&arguments, environment, &interrupt).await,
                Command::Doctor(arguments) => {
                    doctor::run(&arguments, environment, &interrupt).await
                }
                Command::Run(_)
                | Command::Interactive(_)
                | Command::Continue(_)
                | Command::Demo(_)
                | Command::Exec(_)
                | Command::Claude(_)
                | Command::Codex(_)
                | Command::Shell(_)
                | Command::Completions(_)
                | Command::Man(_) => {
                    return Ok(ExitCode::SUCCESS);
                }
            };
            match (interrupt.code(), done) {
                (Some(code), Err(_)) => {
                    if moves_sandboxes {
                        output::note("interrupted: `cofferdam list` shows how it is now\n");
                    }
                    Err(CliError::Interrupted { code })
                }
                (_, done) => done,
            }
        }
    }
}

/// Whether a sandbox may be in another state than before where the command was cut short.
fn moves_sandboxes(command: &Command) -> bool {
    matches!(
        command,
        Command::Create(_)
            | Command::Start(_)
            | Command::Stop(_)
            | Command::Restart(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Collect(_)
            | Command::Merge(_)
            | Command::Delete(_)
    )
}
