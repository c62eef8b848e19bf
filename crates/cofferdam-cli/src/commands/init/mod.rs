//! `cofferdam init`.

mod choices;
mod kinds;
mod next;
mod templates;
mod write;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cofferdam::git::discovery;
use cofferdam::git::own_files::DIRECTORY;
use cofferdam::image::Source;
use cofferdam::{config, fsx};

use self::choices::Chosen;
use self::write::{Texts, is_text};
use super::dev::directory;
use super::here;
use super::images::{self, For, OfRepository};
use super::making::ProviderName;
use crate::environment::Environment;
use crate::error::CliError;
use crate::input;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Write a configuration of your own; with a path also a repository's, and the recipe of its image
///
/// Your own is the built-in list of destinations, and a directory for your files. A repository's is `.cofferdam/config.yaml` and
/// `.cofferdam/Dockerfile`, with nothing in force yet; with `--template` also prompts and a plan in `.cofferdam/prompts/`. What
/// is there already is left as it is. On a terminal it asks for what no option says.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The repository, such as `.` for the one that you stand in
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Write a repository's files anew; what they were stays beside them
    #[arg(long, requires = "path")]
    force: bool,

    /// Build the repository's image too
    #[arg(long, requires = "path")]
    build: bool,

    #[command(flatten)]
    chosen: Chosen,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    // A path that is none is said before anything is written, and so is what nobody can be asked for.
    let path = match &arguments.path {
        Some(path) => Some(directory(path.as_os_str(), environment)?),
        None => None,
    };
    let there = path.clone().map(|path| environment.at(path));
    if let Some(there) = &there {
        here::repository(there, interrupt).await?;
    }
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asks {
        arguments.chosen.clone().choices(false)?;
    }
    of_user(environment)?;
    let there = match there {
        Some(there) => there,
        // Nobody else is asked, and nothing appears in a repository unasked.
        None if !asks || here::repository(environment, interrupt).await.is_err() => {
            return Ok(ExitCode::SUCCESS);
        }
        None => {
            let top = shell_word(environment.top());
            output::note(&format!(
                "write {DIRECTORY}/config.yaml and {DIRECTORY}/Dockerfile in {top} too? [y/N] "
            ));
            if !input::is_yes() {
                return Ok(ExitCode::SUCCESS);
            }
            environment.clone()
        }
    };
    let repository = here::repository(&there, interrupt).await?;
    let engine = arguments.chosen.sandbox().and_then(ProviderName::engine);
    let choices = arguments.chosen.choices(asks)?;
    let texts = match &choices {
        Some(choices) => {
            // What cannot be read is the user's to fill in.
            let origin = repository.origin(&interrupt.cancel).await;
            Texts::of(choices, origin.ok().flatten().as_deref())
        }
        None => Texts::default(),
    };
    let top = repository.top;
    let force = arguments.force;
    let mut wrote = write::of_repository(top.as_path(), force, &texts, environment)?;
    if let Some(choices) = &choices {
        wrote |= write::of_template(top.as_path(), force, choices)?;
    }
    let one = shell_word(arguments.path.as_deref().unwrap_or(Path::new(".")));
    let builds = arguments.build
        || asks && {
            output::note("build the image now? [y/N] ");
            input::is_yes()
        };
    match &choices {
        Some(choices) => {
            let state = next::State {
                changed: wrote,
                has_base: match choices.sandbox.engine() {
                    Some(kind) => images::has_base(kind, environment).await,
                    None => true,
                },
                builds,
                elsewhere: Some(top.as_path()).filter(|top| *top != environment.directory),
            };
            output::note("next:\n");
            for line in next::commands(choices, state) {
                output::note(&format!("  {line}\n"));
            }
        }
        None if !builds && !asks => output::note(&format!(
            "next: cofferdam build {one}, or cofferdam start {one} without an image\n"
        )),
        None => {}
    }
    if !builds {
        return Ok(ExitCode::SUCCESS);
    }
    let main = discovery::main(&top);
    let source = Source::read(top.as_path(), &main)?;
    let mut others = source.files.iter().map(|(path, _)| path);
    // Nobody has to read what stands in every first one. All else may have come with the repository.
    let is_ours = source.dockerfile == texts.recipe
        && others.all(|path| path == Path::new("config.yaml"))
        && is_text(
            &top.as_path().join(DIRECTORY).join("config.yaml"),
            &texts.config,
        );
    let of = OfRepository {
        path: path.or_else(|| Some(top.as_path().to_owned())),
        base_tag: "latest".to_owned(),
        trust: is_ours.then_some(source.digest),
    };
    images::build_repository(&of, engine, For::Anybody, environment, interrupt).await?;
    Ok(ExitCode::SUCCESS)
}

fn of_user(environment: &Environment) -> Result<(), CliError> {
    let home = &environment.home;
    let failed = |error: fsx::FileError| CliError::Failed {
        message: error.to_string(),
        hint: "COFFERDAM_HOME names another directory for it".to_owned(),
    };
    fsx::private_dir(home.path()).map_err(failed)?;
    fsx::private_dir(&home.files()).map_err(failed)?;
    let (file, files) = (shell_word(home.config()), shell_word(home.files()));
    let text = config::initial().map_err(|error| CliError::Failed {
        message: error.to_string(),
        hint: "this is a mistake of cofferdam itself".to_owned(),
    })?;
    if fsx::write_new(&home.config(), text.as_bytes()).map_err(failed)? {
        output::note(&format!(
            "wrote {file}: what sandboxes may reach, and how to say more\n"
        ));
    } else {
        output::note(&format!("{file} is there already, and stays as it is\n"));
    }
    output::note(&format!(
        "files in {files} go to the agent's home in every sandbox\n"
    ));
    Ok(())
}
