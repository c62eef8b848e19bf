//! `cofferdam completions`.

use std::process::ExitCode;

use clap::{Args, ValueEnum, ValueHint};
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
pub(crate) fn run(arguments: &Arguments, root: clap::Command) -> Result<ExitCode, CliError> {
    let shell = match arguments.shell {
        Choice::Bash => Shell::Bash,
        Choice::Zsh => Shell::Zsh,
        Choice::Fish => Shell::Fish,
    };
    let mut root = marked(root);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut root, "cofferdam", &mut script);
    let script = String::from_utf8_lossy(&script);
    output::data(&with_names(&script, arguments.shell, &root))?;
    Ok(ExitCode::SUCCESS)
}

/// With a mark on what takes a sandbox's name: scripts have no place for it, but they have one for users' names, and no
/// argument of ours is one of those.
fn marked(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            if names_a_sandbox(&argument) {
                argument.value_hint(ValueHint::Username)
            } else {
                argument
            }
        })
        .mut_subcommands(marked)
}

/// The script, which also completes the names of sandboxes where a command or an option takes one.
fn with_names(script: &str, shell: Choice, root: &clap::Command) -> String {
    match shell {
        Choice::Bash => {
            let mut known = Known::default();
            known.add(root, "");
            let all = |patterns: Vec<String>| patterns.join("|");
            let own = BASH
                .replace("COMMANDS", &all(known.commands))
                .replace("TAKERS", &all(known.takers))
                .replace("OPTIONS", &all(known.options));
            format!("{script}\n{own}")
        }
        Choice::Fish => {
            // Of options it knows; of what stands alone it has no lines.
            let options = script.replace("(__fish_complete_users)", "(__fish_cofferdam_sandboxes)");
            let line = |condition: String| {
                format!(
                    "complete -c cofferdam -n \"__fish_cofferdam_using_subcommand {condition}\" -f -a \
                     \"(__fish_cofferdam_sandboxes)\"\n"
                )
            };
            let mut lines = String::new();
            for command in root.get_subcommands() {
                let name = command.get_name();
                if takes_a_sandbox(command) {
                    lines += &line(name.to_owned());
                }
                for below in command.get_subcommands().filter(|one| takes_a_sandbox(one)) {
                    let below = below.get_name();
                    lines += &line(format!("{name}; and __fish_seen_subcommand_from {below}"));
                }
            }
            format!("{options}{lines}{FISH}")
        }
        Choice::Zsh => {
            let names = script.replace(":_users'", ":_cofferdam_sandboxes'");
            // What may follow a name that may be left out is not offered in its place.
            let names: Vec<String> = names.lines().map(zsh_needed).collect();
            let names = names.join("\n") + "\n";
            let head = "_cofferdam() {\n";
            let text = names.replacen(head, &format!("{head}{ZSH_WORDS}"), 1);
            // Before the script calls what it defines.
            match text.rsplit_once("if [ \"$funcstack[1]\"") {
                Some((before, rest)) => format!("{before}{ZSH}\nif [ \"$funcstack[1]\"{rest}"),
                None => text,
            }
        }
    }
}

/// The line of a name that may be left out, as of one that may not.
fn zsh_needed(line: &str) -> String {
    match line.strip_prefix("'::") {
        Some(rest) if rest.ends_with(":_cofferdam_sandboxes' \\") => format!("':{rest}"),
        _ => line.to_owned(),
    }
}

/// Patterns of words in a command line, each word after a blank.
#[derive(Default)]
struct Known {
    commands: Vec<String>,
    /// Commands that take a sandbox's name.
    takers: Vec<String>,
    /// Commands with an option of theirs that does.
    options: Vec<String>,
}

impl Known {
    fn add(&mut self, command: &clap::Command, path: &str) {
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            let quoted = |path: &str| format!("\"{path}\"");
            self.commands.push(quoted(&path));
            if takes_a_sandbox(below) {
                self.takers.push(quoted(&path));
            }
            let options = below.get_arguments().filter(|one| names_a_sandbox(one));
            for long in options.filter_map(clap::Arg::get_long) {
                self.options.push(quoted(&format!("{path} --{long}")));
            }
            self.add(below, &path);
        }
    }
}

fn takes_a_sandbox(command: &clap::Command) -> bool {
    command.get_positionals().any(names_a_sandbox)
}

fn names_a_sandbox(argument: &clap::Arg) -> bool {
    let mut names = argument.get_value_names().unwrap_or_default().iter();
    names.any(|name| name == "SANDBOX" || name.starts_with("SANDBOX|"))
}

const BASH: &str = r#"_cofferdam_or_sandbox() {
    _cofferdam "$@"
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD - 1]}" at=() path="" i names program="$1"
    # `--option=value` is three words.
    if [[ $word == = ]]; then
        word=""
    elif [[ $before == = ]]; then
        before="${COMP_WORDS[COMP_CWORD - 2]}"
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            --) return 0 ;;
            -C|--directory)
                ((i++))
                [[ ${COMP_WORDS[i]} == = ]] && ((i++))
                at=(-C "${COMP_WORDS[i]/#"~/"/"$HOME/"}")
                ;;
            *)
                case "$path ${COMP_WORDS[i]}" in
                    COMMANDS) path+=" ${COMP_WORDS[i]}" ;;
                esac
                ;;
        esac
    done
    case "$path $before" in
        OPTIONS) ;;
        *)
            [[ $word == -* ]] && return 0
            case "$path" in
                TAKERS) ;;
                *) return 0 ;;
            esac
            ;;
    esac
    # As it was typed, which may be a path; an alias is none.
    [[ $program == "~/"* ]] && program="$HOME/${program#"~/"}"
    type -P -- "$program" >/dev/null || program=cofferdam
    names=$(compgen -W "$("$program" "${at[@]}" list --names 2>/dev/null)" -- "$word")
    [[ -z $names ]] || COMPREPLY=($names)
}

complete -F _cofferdam_or_sandbox -o bashdefault -o default cofferdam
"#;

const FISH: &str = r"
function __fish_cofferdam_sandboxes
    set -l at
    set -l words (commandline -opc)
    for i in (seq (count $words))
        switch $words[$i]
            case -C --directory
                set at -C (string replace -r '^~(?=/|$)' $HOME -- $words[(math $i + 1)])
            case '--directory=*'
                set at -C (string replace -r '^--directory=' '' -- $words[$i])
        end
    end
    cofferdam $at list --names 2>/dev/null
end
";

/// All that was typed, which the functions below it cut.
const ZSH_WORDS: &str = "    local -a cofferdam_words\n    cofferdam_words=(\"${words[@]}\")\n";

const ZSH: &str = r#"_cofferdam_sandboxes() {
    local -a names at
    local i directory
    for ((i = 2; i < $#cofferdam_words; i++)); do
        case "${cofferdam_words[i]}" in
            -C|--directory) directory="${(Q)cofferdam_words[i + 1]}" ;;
            --directory=*) directory="${(Q)cofferdam_words[i]#--directory=}" ;;
        esac
    done
    [[ -z $directory ]] || at=(-C "${directory/#\~\//$HOME/}")
    names=(${(f)"$(cofferdam $at list --names 2>/dev/null)"})
    compadd -a names
}
"#;
