//! `docs/cli.md` is made from the tree of commands; with `COFFERDAM_UPDATE=1` this test rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

#[test]
fn committed_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let current = render(&cofferdam_cli::command());
    #[expect(clippy::disallowed_methods, reason = "a switch of this test")]
    let update = std::env::var_os("COFFERDAM_UPDATE").is_some();
    if update {
        cofferdam::fsx::write_with_mode(&path, current.as_bytes(), 0o644).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "docs/cli.md is not what the commands say: rewrite it with COFFERDAM_UPDATE=1"
    );
}

fn render(root: &Command) -> String {
    let mut root = root.clone();
    root.build();
    let mut out = String::from(
        "# Command reference\n\n\
         <!-- Made from the tree of commands by `COFFERDAM_UPDATE=1 cargo test -p cofferdam-cli \
         reference`. Do not edit. -->\n\n",
    );
    let _ = writeln!(out, "{}\n", root.get_about().unwrap());
    out.push_str("Exit codes: 0 done, 1 failed, 2 the command line is wrong, 75 a limit of the model's was reached, ");
    out.push_str("128 + the signal's number after a signal (130 after Ctrl-C).\n\n");
    out.push_str(
        "Environment: `COFFERDAM_HOME` (Cofferdam's own files, `~/.cofferdam` unless set), ",
    );
    out.push_str("`NO_COLOR`, `TMPDIR`.\n\nOptions of every command:\n\n");
    for argument in root
        .get_arguments()
        .filter(|argument| argument.is_global_set())
    {
        option(&mut out, argument);
    }
    for command in root
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        section(&mut out, command, "cofferdam");
    }
    out
}

fn section(out: &mut String, command: &Command, above: &str) {
    let mut command = command.clone();
    let name = format!("{above} {}", command.get_name());
    let _ = writeln!(out, "\n## {name}\n");
    let about = command
        .get_long_about()
        .or(command.get_about())
        .unwrap()
        .to_string();
    let _ = writeln!(out, "{about}\n");
    let usage = command.render_usage().to_string();
    let _ = writeln!(out, "```\n{}\n```", usage.trim_start_matches("Usage: "));
    let mut heading = None;
    let arguments = command.get_arguments().filter(|argument| {
        !argument.is_hide_set()
            && !argument.is_global_set()
            && !matches!(argument.get_id().as_str(), "help" | "version")
    });
    let mut arguments: Vec<&Arg> = arguments.collect();
    arguments.sort_by_key(|argument| !argument.is_positional());
    for (index, argument) in arguments.into_iter().enumerate() {
        let next = argument.get_help_heading();
        if index == 0 || next != heading {
            let title = next.map_or_else(String::new, |text| format!("\n### {text}\n"));
            let _ = writeln!(out, "{title}");
            heading = next;
        }
        option(out, argument);
    }
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            section(out, below, &name);
        }
    }
}

fn option(out: &mut String, argument: &Arg) {
    let mut names = Vec::new();
    if let Some(short) = argument.get_short() {
        names.push(format!("`-{short}`"));
    }
    let values: Vec<String> = argument
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| format!("<{name}>"))
        .collect();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let value = if takes_value {
        format!(" {}", values.join(" "))
    } else {
        String::new()
    };
    match argument.get_long() {
        Some(long) => names.push(format!("`--{long}{value}`")),
        None => names.push(format!("`{}`", value.trim())),
    }
    let help = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = write!(out, "- {}: {help}", names.join(", "));
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !possible.is_empty() {
        let _ = write!(out, " (one of {})", possible.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        let _ = write!(out, ", {} unless given", defaults.join(", "));
    }
    out.push('\n');
}
