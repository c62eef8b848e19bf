//! The tree of commands. One file for each command holds its own options.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{
    allow, completions, delete, demo, diff, doctor, gc, list, log, man, merge, net, run,
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Arguments>),
    List(list::Arguments),
    Diff(diff::Arguments),
    Log(log::Arguments),
    Merge(merge::Arguments),
    Delete(delete::Arguments),
    Allow(allow::Arguments),
    Net(net::Arguments),
    Gc(gc::Arguments),
    Doctor(doctor::Arguments),
    Demo(demo::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}
