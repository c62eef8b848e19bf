//! `cofferdam shell`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::Args;
use cofferdam::session::SessionExec;

use super::attach::{self, Attached};
use super::exec::give_terminal;
use super::living;
use crate::environment::Environment;
use crate::error::CliError;

/// One question and its answer in one start: the first shell that is inside. Zsh would ask a person without a
/// configuration whether they want one. The prompt, in each shell's own language, names the sandbox and the directory;
/// whatever the sandbox's own files set comes after it.
const SHELL: &str = r#"SHELL=$(command -v zsh || command -v bash || command -v sh); export SHELL
name=${COFFERDAM_SHELL:-sandbox}; unset COFFERDAM_SHELL
case $SHELL in
*zsh) PS1="$name:%~%# "; [ -e "$HOME/.zshrc" ] || : > "$HOME/.zshrc";;
*bash) PS1="$name:\\w\\\$ ";;
*) PS1="$name:\$PWD\$ ";;
esac
export PS1
exec "$SHELL" -i"#;
/// By which the script is told the sandbox's name.
const NAME: &str = "COFFERDAM_SHELL";

/// Whether a program of a sandbox is one that `shell` started, as far as the sandbox remembers it.
pub(super) fn is_one(arguments: &[OsString]) -> bool {
    let [sh, c, script, ..] = arguments else {
        return false;
    };
    let begins = SHELL.as_bytes().starts_with(script.as_bytes());
    sh == "sh" && c == "-c" && begins && script.len() > 100
}

/// Open a shell in a sandbox that stays: zsh, bash or sh, whichever is inside
///
/// As often as wanted, several at once. Leaving it leaves the sandbox as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it
    #[arg(value_name = "SANDBOX")]
    name: String,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut exec = SessionExec::new(["sh", "-c", SHELL]);
    give_terminal(&mut exec, environment).map_err(|_| CliError::Misused {
        message: "a shell needs a terminal, and standard input is none".to_owned(),
        hint: format!(
            "run a script with `cofferdam exec -i {} -- sh`",
            crate::ui::shell::shell_word(&arguments.name)
        ),
    })?;
    // It may be named by what becomes its name, or by its id.
    let caller = environment.caller();
    let named = living::named(&arguments.name, &caller, environment).await?;
    let name = OsString::from(named.name().as_str());
    exec.environment.insert(NAME.into(), name);
    attach::run(Attached {
        name: &arguments.name,
        exec,
        environment,
    })
    .await
}
