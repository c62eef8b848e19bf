//! What shells inside read when they start, in every image that has them: variables and theme of the configuration. Without any file
//! zsh begins with questions in place of a prompt.

use std::path::Path;

use crate::fsx::{self, FileError};
use crate::home::agent_home_in;
use crate::sandbox::{Sandbox, SandboxError};
use crate::sync::Wanted;
use crate::sync::deliver::{self, Delivered};
use crate::sync::manifest::{self, Manifest};

const SHELLS: [(&str, &str); 2] = [
    (
        ".zshrc",
        concat!(
            include_str!("shells/zshrc"),
            include_str!("../image/base/shell/stand-in.zsh")
        ),
    ),
    (".bashrc", include_str!("shells/bashrc")),
];

/// What the programs of agents read of the place where they work, by where each looks for it.
pub const RULES: &str = include_str!("shells/rules.md");
const RULES_OF: [&str; 2] = [".claude/CLAUDE.md", ".codex/AGENTS.md"];

/// The agent's home of a sandbox that lives on. What an agent makes of these files stays.
pub(super) fn agent_home(state: &Path) -> Result<(), FileError> {
    let home = agent_home_in(state);
    fsx::private_dir(&home)?;
    for (name, text) in SHELLS {
        fsx::write_private(&home.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// The rules of a sandbox in which a person lives, in that home: a file of the user's own, which a sync or a volume brings, takes its place.
pub(super) fn give_rules(state: &Path) -> Result<(), FileError> {
    let home = agent_home_in(state);
    for name in RULES_OF {
        let path = home.join(name);
        if let Some(directory) = path.parent() {
            fsx::private_dir(directory)?;
        }
        fsx::write_private(&path, RULES.as_bytes())?;
    }
    Ok(())
}

/// The same where the agent's home goes with the sandbox, and is nowhere on this machine. A sandbox that takes no files has none.
pub(super) async fn give(sandbox: &dyn Sandbox) -> Result<Delivered, SandboxError> {
    let mut wanted = Wanted::texts(&SHELLS);
    let nothing = Manifest::default();
    let mut is = manifest::of(&mut wanted, &nothing);
    match deliver::deliver(sandbox, &wanted, &mut is, &nothing, true, &|_, _| ()).await {
        Err(SandboxError::Unable { .. }) => Ok(Delivered::default()),
        given => given,
    }
}
