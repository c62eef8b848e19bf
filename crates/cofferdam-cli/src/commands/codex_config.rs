//! `cofferdam codex-init-config` and `cofferdam codex-logout`.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::fsx;
use cofferdam::session::{RULES, forget_login, keep_login};
use cofferdam::volumes::{self, Purpose};

use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;
use crate::ui::shell::shell_word;

const AGENT: &str = "codex";
/// What the volume has beside the login.
const FILES: [&str; 3] = ["config.toml", "AGENTS.md", "profile.json"];
/// The largest file of the user's that is taken over.
const MOST: u64 = 64 << 10;
/// As the documents have it (S3-85), and once more under the name that Codex reads.
const CONFIG: &str = "\
[profiles.high]
model = \"gpt-5\"
# Constrains reasoning effort for reasoning-capable models
reasoning_effort = \"high\"
# As Codex reads it
model_reasoning_effort = \"high\"
";
/// What Codex reads of where it is (S3-86).
const NOTE: &str = "\
# Where you are

- Purpose: you are running inside a sandbox of Cofferdam, which is there so that coding is safe and can be looked at afterwards: its
  network, its files and its commits have guard-rails. What they refuse says why.
- Persistence: your login and this file come from a volume (`cofferdam-codex-config`) that the sandboxes of all repositories share.
  What else is in `~/.codex` belongs to this sandbox.
- Installed tools: ast-grep (`ast-grep` or `sg`) for structural search and rewrites, where the sandbox is made from Cofferdam's base
  image. Others may be there too.
";

/// Set up what Codex finds in every dev sandbox: its settings, a note on where it is, and with `--auth` your login
///
/// What is there already stays, unless `--force` says otherwise; the login is replaced whenever `--auth` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Take over your own login from ~/.codex/auth.json, and profile.json where it is there
    #[arg(long)]
    auth: bool,

    /// Replace what is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode, CliError> {
    let home = &environment.home;
    // Known before anything is written.
    let own = if arguments.auth {
        Some(login(environment)?)
    } else {
        None
    };
    let volume = volumes::open(home, Purpose::Codex, Path::new("/"))?;
    let [config, note, profile] = FILES;
    let mut wanted = vec![
        (config, CONFIG.as_bytes().to_vec()),
        (note, format!("{NOTE}\n{RULES}").into_bytes()),
    ];
    if let Some(Own {
        profile: Some(text),
        ..
    }) = &own
    {
        wanted.push((profile, text.clone()));
    }
    for (name, text) in wanted {
        let path = volume.files().join(name);
        if path.exists() && !arguments.force {
            output::note(&format!(
                "{name} is there already, and stays as it is: `--force` replaces it\n"
            ));
            continue;
        }
        fsx::write_private(&path, &text)?;
        output::note(&format!("wrote {name}\n"));
    }
    if let Some(own) = own {
        // One that an earlier version kept would be the one that counts.
        fsx::remove_file_if_exists(&home.login(AGENT))?;
        let codex = agent::by_name(AGENT, AgentOptions::default())?;
        keep_login(home, codex.as_ref(), &own.login)?;
        output::note("took over your login of Codex\n");
    }
    output::data(&format!("{}\n", volume.name))?;
    Ok(ExitCode::SUCCESS)
}

/// What the user has of their own.
struct Own {
    login: Vec<u8>,
    profile: Option<Vec<u8>>,
}

fn login(environment: &Environment) -> Result<Own, CliError> {
    let directory = environment
        .user_home
        .as_ref()
        .map(|home| home.join(".codex"));
    let Some(directory) = directory else {
        return Err(CliError::Failed {
            message: "your own login of Codex is not to be found: HOME is not set".to_owned(),
            hint: "set HOME, or leave out `--auth`".to_owned(),
        });
    };
    let path = directory.join("auth.json");
    let refused = |why: String| CliError::Failed {
        message: format!("{} cannot be taken over: {why}", shell_word(&path)),
        hint: "log in with `codex login` first, then give the command again".to_owned(),
    };
    let login = match fsx::read_bounded(&path, MOST) {
        Err(error) if error.is_not_found() => {
            return Err(refused("there is no such file".to_owned()));
        }
        login => login?,
    };
    let codex = agent::by_name(AGENT, AgentOptions::default())?;
    let value = serde_json::from_slice(&login);
    let is_one = value.is_ok_and(|value| codex.login().is_some_and(|format| format.is_of(&value)));
    if !is_one {
        return Err(refused("it is no login of Codex".to_owned()));
    }
    let profile = match fsx::read_bounded(&directory.join("profile.json"), MOST) {
        Err(error) if error.is_not_found() => None,
        profile => Some(profile?),
    };
    Ok(Own { login, profile })
}

/// Forget the login of Codex that sandboxes get, and its profile
///
/// Copies in sandboxes that are there go too, and one that is made inside is not kept until you give one again. The tokens stay good at
/// their server, which is not asked: revoke them there.
#[derive(Debug, Args)]
pub(crate) struct Logout {}

pub(crate) fn logout(environment: &Environment) -> Result<ExitCode, CliError> {
    let home = &environment.home;
    let codex = agent::by_name(AGENT, AgentOptions::default())?;
    let (was_kept, copies) = forget_login(home, codex.as_ref())?;
    let [.., profile] = FILES;
    let profile = volumes::place_of_all(home, Purpose::Codex).join(profile);
    fsx::remove_file_if_exists(&profile)?;
    output::note(&match (was_kept, copies) {
        (false, 0) => "there is no login of Codex\n".to_owned(),
        (_, 0) => {
            "forgot the login of Codex; its tokens stay good until they are revoked at OpenAI\n"
                .to_owned()
        }
        (_, copies) => format!(
            "forgot the login of Codex, and {copies} of it in sandboxes; its tokens stay good until they are revoked at OpenAI\n"
        ),
    });
    output::note(&format!(
        "one that is made in a sandbox is not kept until you give one with {}\n",
        gives_again(AGENT)
    ));
    Ok(ExitCode::SUCCESS)
}

/// The commands that give a login of an agent, of which one was forgotten.
pub(super) fn gives_again(agent: &str) -> String {
    let run = format!("`cofferdam run --agent {agent} --login FILE …`");
    if agent == AGENT {
        format!("`cofferdam codex-init-config --auth`, or {run}")
    } else {
        run
    }
}
