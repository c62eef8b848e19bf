//! `cofferdam completions`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::error::CliError;
use crate::ui::output;

/// Print a completion script for a shell
///
/// For bash: `cofferdam completions bash > ~/.local/share/bash-completion/completions/cofferdam`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell to complete in
    #[arg(value_enum)]
    shell: Choice,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Choice {
    Bash,
    Zsh,
    Fish,
}

/// `root` is the whole tree of commands.
pub(crate) fn run(arguments: &Arguments, mut root: clap::Command) -> Result<ExitCode, CliError> {
    let shell = match arguments.shell {
        Choice::Bash => Shell::Bash,
        Choice::Zsh => Shell::Zsh,
        Choice::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut root, "cofferdam", &mut script);
    let script = String::from_utf8_lossy(&script);
    output::data(&with_names(&script, arguments.shell, &root))?;
    Ok(ExitCode::SUCCESS)
}

/// The script, which also completes the names of sandboxes where a command takes one.
fn with_names(script: &str, shell: Choice, root: &clap::Command) -> String {
    let commands: Vec<&str> = root
        .get_subcommands()
        .filter(|command| command.get_positionals().any(names_a_sandbox))
        .map(clap::Command::get_name)
        .collect();
    match shell {
        Choice::Bash => format!(
            "{script}\n{}",
            BASH.replace("COMMANDS", &commands.join("|"))
        ),
        Choice::Fish => {
            let line = |command: &&str| {
                format!(
                    "complete -c cofferdam -n \"__fish_cofferdam_using_subcommand {command}\" -f -a \
                     \"(cofferdam list --names 2>/dev/null)\"\n"
                )
            };
            let lines: String = commands.iter().map(line).collect();
            format!("{script}{lines}")
        }
        Choice::Zsh => {
            let names = |line: &str| {
                let positional = line.starts_with("':") || line.starts_with("'*::");
                if positional && line.contains("as `cofferdam list` names ") {
                    line.replacen(":_default'", ":_cofferdam_sandboxes'", 1)
                } else {
                    line.to_owned()
                }
            };
            let lines: Vec<String> = script.lines().map(names).collect();
            let text = lines.join("\n") + "\n";
            // Before the script calls what it defines.
            match text.rsplit_once("if [ \"$funcstack[1]\"") {
                Some((before, rest)) => format!("{before}{ZSH}\nif [ \"$funcstack[1]\"{rest}"),
                None => text,
            }
        }
    }
}

fn names_a_sandbox(argument: &clap::Arg) -> bool {
    let mut names = argument.get_value_names().unwrap_or_default().iter();
    names.any(|name| name == "SANDBOX")
}

const BASH: &str = r#"_cofferdam_or_sandbox() {
    _cofferdam "$@"
    local word="${COMP_WORDS[COMP_CWORD]}" at=() takes="" i names program="$1"
    [[ $word == -* ]] && return 0
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            --) return 0 ;;
            -C|--directory) at=(-C "${COMP_WORDS[i + 1]}") ;;
            COMMANDS) takes=yes ;;
        esac
    done
    [[ -n $takes ]] || return 0
    # As it was typed, which may be a path; an alias is none.
    [[ $program == "~/"* ]] && program="$HOME/${program#"~/"}"
    type -P -- "$program" >/dev/null || program=cofferdam
    names=$(compgen -W "$("$program" "${at[@]}" list --names 2>/dev/null)" -- "$word")
    [[ -z $names ]] || COMPREPLY=($names)
}

complete -F _cofferdam_or_sandbox -o bashdefault -o default cofferdam
"#;

const ZSH: &str = r#"_cofferdam_sandboxes() {
    local -a names
    names=(${(f)"$(cofferdam list --names 2>/dev/null)"})
    compadd -a names
}
"#;
