//! The command `cofferdam` as a library, so that its tests and the generated reference see the same
//! tree of commands. Nothing here is a stable interface: programs use the crate `cofferdam`.

mod arguments;
mod commands;
mod environment;
mod error;
mod input;
mod interrupt;
mod ui;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use tokio::runtime::Runtime;

use arguments::Arguments;
use environment::Environment;

/// The whole tree of commands and options.
pub fn command() -> clap::Command {
    let mut root = Arguments::command();
    root.build();
    // Its own copy of the tree was made before there were words.
    let whole = root.clone();
    root.mut_subcommand("help", |help| {
        help.mut_subcommands(|child| match whole.find_subcommand(child.get_name()) {
            Some(one) => with_words(child, one),
            None => child,
        })
    })
}

/// What the commands are called.
fn names() -> Vec<String> {
    let root = Arguments::command();
    let names = root.get_subcommands().map(|one| one.get_name().to_owned());
    names.collect()
}

/// What `help` says of a command, and of those that it has of its own.
fn with_words(mut help: clap::Command, of: &clap::Command) -> clap::Command {
    if let Some(about) = of.get_about() {
        help = help.about(about.clone());
    }
    let above = help.get_bin_name().unwrap_or_default().to_owned();
    let own = of.get_subcommands().filter(|one| one.get_name() != "help");
    let own = own.map(|one| {
        let name = one.get_name().to_owned();
        // Nobody gives it one any more where the tree is built.
        let whole = format!("{above} {name}");
        let one_of_help = clap::Command::new(name)
            .bin_name(whole)
            .hide(one.is_hide_set())
            .disable_help_flag(true)
            .disable_version_flag(true);
        with_words(one_of_help, one)
    });
    help.subcommands(own.collect::<Vec<_>>())
}

/// Parses the command line, runs the command and reports its error.
pub fn main() -> ExitCode {
    if commands::keep_ready::is_meant() {
        return commands::keep_ready::run();
    }
    if let Some(sandbox) = commands::watch::meant() {
        return commands::watch::run(sandbox);
    }
    // Answers `--help`, `--version` and usage errors itself, before anything else is looked at.
    let (arguments, command) = match parse() {
        Ok(parsed) => parsed,
        // Who asks for nothing is told what there is.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            if let Some(code) = dev_shell() {
                return code;
            }
            let help = error.render();
            let help = if std::io::stdout().is_terminal() {
                help.ansi().to_string()
            } else {
                help.to_string()
            };
            return match ui::output::data(&help) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => error::report(&error.into(), false),
            };
        }
        Err(mut error) => {
            suggest(&mut error);
            narrow(&mut error);
            error.exit()
        }
    };
    let environment = match Environment::read(arguments.directory.as_deref()) {
        Ok(environment) => environment,
        Err(error) => return error::report(&error.into(), false),
    };
    if let Some(directory) = &arguments.directory {
        ui::from_here::work_in(directory);
    }
    let colour = environment.colour.on_stderr();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(source) => return error::report(&error::CliError::Runtime(source), colour),
    };
    let done = runtime.block_on(commands::dispatch(arguments.command, &environment));
    // Threads that still block on a slow terminal must not keep the process.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(error) => error::report(&error.of(&command), colour),
    }
}

/// The command line, and the name of its command, such as `prompt check`.
fn parse() -> Result<(Arguments, String), clap::Error> {
    let mut root = Arguments::command();
    let mut matches = match root.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        Err(version) if version.kind() == ErrorKind::DisplayVersion => return Err(version),
        // Help and errors speak of other commands too, which have no words yet.
        Err(_) => command().try_get_matches_from_mut(std::env::args_os())?,
    };
    let (mut names, mut at) = (Vec::new(), &matches);
    while let Some((name, below)) = at.subcommand() {
        names.push(name.to_owned());
        at = below;
    }
    let arguments = Arguments::from_arg_matches_mut(&mut matches);
    let arguments = arguments.map_err(|error| error.format(&mut root))?;
    Ok((arguments, names.join(" ")))
}

/// Who asks for nothing, at a terminal in a checkout that has a dev sandbox, wants its shell. `None`: there is none.
fn dev_shell() -> Option<ExitCode> {
    if std::env::args_os().len() != 1 || !std::io::stdin().is_terminal() {
        return None;
    }
    let environment = Environment::read(None).ok()?;
    let colour = environment.colour.on_stderr();
    let runtime = runtime().ok()?;
    let done = runtime.block_on(commands::shell::of_a_dev_sandbox(&environment))?;
    runtime.shutdown_background();
    Some(done.unwrap_or_else(|error| error::report(&error.of("shell"), colour)))
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Of options that do not go with another one, those that were given, not all that could have been.
fn narrow(error: &mut clap::Error) {
    let Some(ContextValue::Strings(all)) = error.get(ContextKind::PriorArg) else {
        return;
    };
    let given: Vec<String> = std::env::args_os()
        .take_while(|word| word != "--")
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_given = |option: &&String| {
        let name = option.split([' ', '=']).next().unwrap_or_default();
        let with_value = format!("{name}=");
        let mut given = given.iter();
        given.any(|word| word == name || word.starts_with(&with_value))
    };
    let mut meant: Vec<String> = all.iter().filter(is_given).cloned().collect();
    let value = match meant.len() {
        0 => return,
        1 => ContextValue::String(meant.remove(0)),
        _ => ContextValue::Strings(meant),
    };
    error.insert(ContextKind::PriorArg, value);
}

/// Words that other tools have for commands of ours.
const ELSEWHERE: [(&str, &str); 18] = [
    ("attach", "shell"),
    ("clean", "gc"),
    ("destroy", "delete"),
    ("down", "stop"),
    ("enter", "shell"),
    ("fetch", "collect"),
    ("inspect", "status"),
    ("ls", "list"),
    ("new", "create"),
    ("prune", "gc"),
    ("ps", "list"),
    ("pull", "collect"),
    ("remove", "delete"),
    ("rm", "delete"),
    ("show", "status"),
    ("ssh", "shell"),
    ("unpause", "resume"),
    ("up", "start"),
];

/// The first word after the options that all commands have.
fn first_word() -> Option<OsString> {
    let mut words = std::env::args_os().skip(1);
    loop {
        let word = words.next()?;
        match word.to_str() {
            Some("-C" | "--directory") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            _ => return Some(word),
        }
    }
}

/// The tip for a command that is called otherwise here.
fn called_otherwise(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // Of a command's own commands it is not.
    if first_word()?.to_str() != Some(word) {
        return None;
    }
    let (_, command) = ELSEWHERE.iter().find(|(other, _)| other == word)?;
    Some(format!("here that is `cofferdam {command}`"))
}

/// `cofferdam run ./my-agent.sh` lacks only the `--` before the program, as `cofferdam exec NAME ls` does; `cofferdam shell NAME -- ls`
/// is another command.
fn suggest(error: &mut clap::Error) {
    if let Some(tip) = called_otherwise(error) {
        // What looks like it is something else.
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = vec![tip.into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        return;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    if error.kind() == ErrorKind::InvalidValue && argument == "<CLIENT>" {
        let tip = "any other client is to start the command `cofferdam` with the argument `mcp`";
        let tips = vec![tip.into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        return;
    }
    if error.kind() != ErrorKind::UnknownArgument || argument.starts_with('-') {
        return;
    }
    let command = first_word();
    let tip = match command.as_ref().and_then(|word| word.to_str()) {
        Some("run") => "the agent's program goes after `--`, at the end",
        Some("exec") => "the program goes after `--`, at the end",
        Some("shell") => "`cofferdam exec` runs one program: `cofferdam exec NAME -- PROGRAM`",
        _ => return,
    };
    let tips = vec![tip.into()];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}
