//! The tree of commands. One file for each command holds its own options.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{
    allow, apply, approve, build, build_base, checkout, claude, claude_logout, codex, codex_config,
    collect, completions, config, create, delete, demo, diff, doctor, engines, exec, forward, gc,
    init, kill, list, log, logs, man, mcp, merge, net, pause, ports, prompt, restart, resume,
    revoke, run, runs, shell, show_run, start, status, stop, sync, volume, worktree,
};

/// The version, with the commit where a release build knows it (see `build.rs`).
const VERSION: &str = env!("COFFERDAM_VERSION");

/// Sandboxes for coding agents: full speed inside, a host that stays yours, commits you can trust.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version = VERSION,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// Work as if started in this directory
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of a command are put together when it is the one that was meant: `exec` takes less time than the words of all others.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    Run(Box<run::Arguments>),
    Interactive(Box<run::interactive::Arguments>),
    Continue(Box<run::go_on::Arguments>),
    Prompt(prompt::Arguments),
    Create(Box<create::Arguments>),
    Exec(exec::Arguments),
    Forward(forward::Arguments),
    Ports(ports::Arguments),
    Shell(Box<shell::Arguments>),
    Claude(Box<claude::Arguments>),
    Codex(Box<codex::Arguments>),
    Runs(runs::Arguments),
    Logs(logs::Arguments),
    List(list::Arguments),
    Status(status::Arguments),
    Kill(kill::Arguments),
    Pause(pause::Arguments),
    Resume(resume::Arguments),
    Stop(stop::Arguments),
    Start(Box<start::Arguments>),
    Restart(restart::Arguments),
    Checkout(checkout::Arguments),
    ShowRun(Box<show_run::Arguments>),
    Collect(collect::Arguments),
    Diff(diff::Arguments),
    Log(log::Arguments),
    Mcp(mcp::Arguments),
    Merge(merge::Arguments),
    Apply(apply::Arguments),
    Worktree(worktree::Arguments),
    Delete(delete::Arguments),
    BuildBase(build_base::Arguments),
    Build(build::Arguments),
    /// The image of a repository, in Docker
    Docker(engines::Arguments),
    /// The image of a repository, in Podman
    Podman(engines::Arguments),
    Init(init::Arguments),
    Config(config::Arguments),
    Approve(approve::Arguments),
    Sync(sync::Arguments),
    Volume(volume::Arguments),
    ClaudeLogout(claude_logout::Arguments),
    CodexInitConfig(codex_config::Arguments),
    CodexLogout(codex_config::Logout),
    Allow(allow::Arguments),
    Revoke(revoke::Arguments),
    Net(net::Arguments),
    Gc(gc::Arguments),
    Doctor(doctor::Arguments),
    Demo(demo::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}
