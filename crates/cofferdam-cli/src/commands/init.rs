//! `cofferdam init`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cofferdam::git::discovery;
use cofferdam::image::{STARTER, Source};
use cofferdam::volumes::{self, Purpose};
use cofferdam::{config, fsx};

use super::dev::directory;
use super::here;
use super::images::{self, Builder, OfRepository};
use crate::environment::Environment;
use crate::error::CliError;
use crate::input;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Below a repository's top.
const DIRECTORY: &str = ".cofferdam";
/// What the name of a file ends with that another one took the place of.
const BEFORE: &str = ".before";

/// Write a configuration of your own; with a path also a repository's, and the recipe of its image
///
/// Your own is the built-in list of destinations, and a directory for your files. A repository's is `.cofferdam/config.yaml` and
/// `.cofferdam/Dockerfile`, with nothing in force yet. What is there already is left as it is. On a terminal it asks for what no
/// option says.
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
    builder: Builder,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    // A path that is none is said before anything is written.
    let path = match &arguments.path {
        Some(path) => Some(directory(path.as_os_str(), environment)?),
        None => None,
    };
    let there = path.clone().map(|path| environment.at(path));
    if let Some(there) = &there {
        here::repository(there, interrupt).await?;
    }
    of_user(environment)?;
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
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
    let top = here::repository(&there, interrupt).await?.top;
    of_repository(top.as_path(), arguments.force, environment)?;
    let wanted = arguments.build || {
        let one = shell_word(arguments.path.as_deref().unwrap_or(Path::new(".")));
        if asks {
            output::note("build the image now? [y/N] ");
        } else {
            output::note(&format!(
                "next: cofferdam build {one}, or cofferdam start {one} without an image\n"
            ));
        }
        asks && input::is_yes()
    };
    if !wanted {
        return Ok(ExitCode::SUCCESS);
    }
    let main = discovery::main(&top);
    let source = Source::read(top.as_path(), &main)?;
    let mut others = source.files.iter().map(|(path, _)| path);
    // Nobody has to read what stands in every first one. All else may have come with the repository.
    let is_ours = source.dockerfile == STARTER
        && others.all(|path| path == Path::new("config.yaml"))
        && is_text(
            &top.as_path().join(DIRECTORY).join("config.yaml"),
            config::INITIAL_OF_REPOSITORY,
        );
    let of = OfRepository {
        path: path.or_else(|| Some(top.as_path().to_owned())),
        base_tag: "latest".to_owned(),
        trust: is_ours.then_some(source.digest),
    };
    let engine = arguments.builder.sandbox.map(Into::into);
    images::build_repository(&of, engine, environment, interrupt).await?;
    Ok(ExitCode::SUCCESS)
}

/// Whether that is all that the file has. It may be anything's link.
fn is_text(path: &Path, text: &str) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let most = text.len() as u64 + 1;
    is_file && fsx::read_bounded(path, most).is_ok_and(|found| found == text.as_bytes())
}

/// The first name for what was there that nothing has.
fn free(place: &Path, name: &str) -> PathBuf {
    let mut before = place.join(format!("{name}{BEFORE}"));
    let mut number = 2;
    while before.symlink_metadata().is_ok() {
        before = place.join(format!("{name}{BEFORE}-{number}"));
        number += 1;
    }
    before
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

fn of_repository(top: &Path, force: bool, environment: &Environment) -> Result<(), CliError> {
    let place = top.join(DIRECTORY);
    let failed = |error: fsx::FileError| CliError::Failed {
        message: error.to_string(),
        hint: "nothing of it counts before it is written: try again then".to_owned(),
    };
    match place.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(CliError::Failed {
                message: format!("{} is no directory", shell_word(&place)),
                hint: "move it away: a repository's settings are in a directory of that name"
                    .to_owned(),
            });
        }
        Err(_) => std::fs::create_dir(&place)
            .map_err(|error| failed(fsx::FileError::new("make", &place, error)))?,
    }
    for (name, text, what) in [
        (
            "config.yaml",
            config::INITIAL_OF_REPOSITORY,
            "what sandboxes of this repository have, as examples",
        ),
        (
            "Dockerfile",
            STARTER,
            "what their image has beside the base",
        ),
    ] {
        let path = place.join(name);
        let shown = shell_word(&path);
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !force {
            output::note(&format!("{shown} is there already, and stays as it is\n"));
            continue;
        }
        let is_same = is_text(&path, text);
        if is_there && !is_same {
            let before = free(&place, name);
            std::fs::rename(&path, &before)
                .map_err(|error| failed(fsx::FileError::new("move", &path, error)))?;
            output::note(&format!("what was there is {} now\n", shell_word(&before)));
        }
        fsx::write_with_mode(&path, text.as_bytes(), 0o644).map_err(failed)?;
        output::note(&format!("wrote {shown}: {what}\n"));
    }
    // What outlives its sandboxes.
    for purpose in Purpose::ALL {
        let opened = volumes::open(&environment.home, purpose, top);
        opened.map_err(|error| CliError::Failed {
            message: error.to_string(),
            hint: "see `cofferdam volume list`".to_owned(),
        })?;
    }
    Ok(())
}
