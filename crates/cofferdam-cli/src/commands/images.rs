//! What commands that make images have in common: the engine that makes them, and what is said meanwhile.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use cofferdam::git::{Repository, discovery};
use cofferdam::image::{self, Built, ImageError, Progress, Source};
use cofferdam::names::{BASE_IMAGE, RepoPath};
use cofferdam::registry::Record;
use cofferdam::sandbox::engine::{self, Engine, EngineOptions, Kind};
use cofferdam::text::printable;

use super::{dev_sandboxes, here};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};
use crate::ui::{human, output};

/// How long an engine may take to say what an image was built from.
const ASKED: Duration = Duration::from_secs(10);

/// Who keeps the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    /// Docker
    Docker,
    /// Podman
    Podman,
}

impl From<EngineName> for Kind {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Docker => Self::Docker,
            EngineName::Podman => Self::Podman,
        }
    }
}

/// Which engine builds.
#[derive(Debug, Args)]
pub(super) struct Builder {
    /// The engine that builds the image and keeps it; without it Docker, or Podman where there is no Docker
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(super) sandbox: Option<EngineName>,
}

/// What a repository's image is built from, and on.
#[derive(Debug, Args)]
pub(super) struct OfRepository {
    /// The repository; without it the one that you stand in
    #[arg(value_name = "PATH")]
    pub(super) path: Option<PathBuf>,

    /// The tag of the base that it is built on
    #[arg(long, value_name = "TAG", default_value = "latest")]
    pub(super) base_tag: String,

    /// The digest of what you have read: the command says it where it is missing
    #[arg(long, value_name = "SHA256")]
    pub(super) trust: Option<String>,
}

/// The engine that was asked for, or the first that answers.
pub(super) async fn engine(
    asked: Option<Kind>,
    environment: &Environment,
) -> Result<(Kind, Engine), CliError> {
    let kind = match asked {
        Some(kind) => kind,
        None => first(environment).await?,
    };
    let options = EngineOptions::new(environment.home.engines(), environment.engines());
    Ok((kind, Engine::new(kind, options)))
}

async fn first(environment: &Environment) -> Result<Kind, CliError> {
    let mut problems = Vec::new();
    for kind in Kind::ALL {
        match engine::probe(kind, &environment.engines()).await {
            Ok(_) => return Ok(kind),
            Err(error) => problems.push(error.to_string()),
        }
    }
    Err(CliError::Failed {
        message: format!(
            "there is no engine that could build an image: {}",
            problems.join("; ")
        ),
        hint: "`cofferdam doctor` says what each needs; sandboxes without an image need no engine"
            .to_owned(),
    })
}

/// Whether an engine has what the images of repositories are built on. One that does not answer is taken for a new one.
pub(super) async fn has_base(kind: Kind, environment: &Environment) -> bool {
    let Ok((_, engine)) = engine(Some(kind), environment).await else {
        return false;
    };
    let base = format!("{BASE_IMAGE}:latest");
    let asked = tokio::time::timeout(ASKED, Box::pin(engine.image(&base))).await;
    matches!(asked, Ok(Ok(Some(_))))
}

/// The repository at a path, or where the command was started.
pub(super) async fn repository(
    path: Option<&Path>,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Repository, CliError> {
    let Some(path) = path else {
        return Ok(here::repository(environment, interrupt).await?);
    };
    let there = environment.directory.join(path);
    let there = there.canonicalize().map_err(|error| CliError::Failed {
        message: format!("cannot look at {}: {error}", shell_word(&there)),
        hint: "name the directory of a repository, or leave the path out".to_owned(),
    })?;
    Ok(here::repository_at(&there, environment, interrupt).await?)
}

/// Says so where a repository has a Dockerfile of its own, and a new sandbox has another image because nobody has built it, or one of
/// what was there before.
pub(super) async fn tell_unbuilt(record: &Record, environment: &Environment) {
    let (Some(image), Ok(top)) = (&record.image, RepoPath::resolve(&record.repository)) else {
        return;
    };
    let base = format!("{BASE_IMAGE}:latest");
    let own = discovery::main(&top).image();
    if (*image == base || image == engine::IMAGE) && image::has_dockerfile(top.as_path()) {
        output::note(&format!(
            "note: .cofferdam/Dockerfile is not built, so it has {image} and not {own}: cofferdam build --sandbox {}\n",
            record.provider
        ));
    }
    tell_changed(record, environment).await;
}

/// Says so where a sandbox has the image of the repository's Dockerfile, and that was built from something else than lies there now. Asks
/// its engine once.
pub(super) async fn tell_changed(record: &Record, environment: &Environment) {
    let kind = Kind::named(&record.provider);
    let top = RepoPath::resolve(&record.repository).ok();
    let (Some(image), Some(kind), Some(top)) = (&record.image, kind, top) else {
        return;
    };
    let main = discovery::main(&top);
    if *image != main.image() {
        return;
    }
    // What cannot be read, or does not answer, says nothing of it here: who builds is told.
    let Ok(source) = Source::read(top.as_path(), &main) else {
        return;
    };
    let Ok(engine) = Engine::recorded(kind, &environment.home.sandbox(record.id)) else {
        return;
    };
    let asked = tokio::time::timeout(ASKED, Box::pin(engine.image(image))).await;
    if let Ok(Ok(Some(built))) = asked
        && source.has_changed_since(&built)
    {
        let build = match &record.dev {
            Some(_) => dev_sandboxes::command("restart --build", record, environment),
            None => format!("cofferdam build --sandbox {}", kind.name()),
        };
        output::note(&format!(
            "note: .cofferdam/Dockerfile, or what lies beside it, has changed since {image} was built: {build}\n"
        ));
    }
}

/// Who wants an image.
#[derive(Debug, Clone, Copy)]
pub(super) enum For<'a> {
    /// Whoever makes a sandbox next.
    Anybody,
    /// The command itself, which goes on with it; as it is given again, where that can be printed.
    This(Option<&'a str>),
}

/// Builds a repository's image, and says what becomes of it.
pub(super) async fn build_repository(
    of: &OfRepository,
    asked: Option<Kind>,
    wanted: For<'_>,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<String, CliError> {
    let repository = repository(of.path.as_deref(), environment, interrupt).await?;
    let main = discovery::main(&repository.top);
    let source = Source::read(repository.top.as_path(), &main)?;
    for remark in source.remarks() {
        output::note(&format!("note: {remark}\n"));
    }
    let (kind, engine) = engine(asked, environment).await?;
    let began = Instant::now();
    let built = image::build_repository(
        &engine,
        &environment.home,
        source,
        &of.base_tag,
        of.trust.as_deref(),
        &interrupt.cancel,
        teller(environment),
    );
    let built = match Box::pin(built).await {
        Err(ImageError::Untrusted(source)) => {
            output::note(&shown(&source, environment.colour.on_stderr()));
            let goes_on = match wanted {
                For::Anybody => String::new(),
                For::This(Some(again)) => format!(" && {again}"),
                For::This(None) => "; then this command again".to_owned(),
            };
            return Err(CliError::Failed {
                message: format!("{} is not built before you have read it", source.name()),
                hint: format!(
                    "read what stands above; then: {}{goes_on}",
                    again(of, kind, &source.digest)
                ),
            });
        }
        built => built?,
    };
    say(&built, kind, began.elapsed(), environment)?;
    if matches!(wanted, For::Anybody) {
        output::note(&next(&repository, kind, environment)?);
    }
    Ok(built.name)
}

/// What takes the image that was built.
fn next(
    repository: &Repository,
    kind: Kind,
    environment: &Environment,
) -> Result<String, CliError> {
    let mut all = dev_sandboxes::of_checkout(&environment.home, &repository.top)?;
    all.retain(|one| one.provider == kind.name());
    // That of what is checked out before those of branches.
    let first = all.iter().min_by_key(|one| one.shelf_branch().is_some());
    Ok(match first {
        Some(one) => format!(
            "next: {} (makes {} anew from it; this repository's new sandboxes take it by themselves)\n",
            dev_sandboxes::command("restart --build", one, environment),
            one.name
        ),
        None => format!(
            "next: cofferdam create NAME --sandbox {} (this repository's sandboxes take it by themselves)\n",
            kind.name()
        ),
    })
}

/// The command that builds what was shown.
fn again(of: &OfRepository, kind: Kind, digest: &str) -> String {
    let mut words = format!("cofferdam {} build-image", kind.name());
    if let Some(path) = &of.path {
        let _ = write!(words, " {}", shell_word(path));
    }
    if of.base_tag != "latest" {
        let _ = write!(words, " --base-tag {}", of.base_tag);
    }
    format!("{words} --trust {digest}")
}

/// Removes a repository's image.
pub(super) async fn remove_repository(
    path: Option<&Path>,
    kind: Kind,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let repository = repository(path, environment, interrupt).await?;
    let name = discovery::main(&repository.top).image();
    let (kind, engine) = engine(Some(kind), environment).await?;
    if engine.remove_image(&name).await.map_err(ImageError::from)? {
        output::note(&format!("removed {name} from {kind}\n"));
    } else {
        output::note(&format!("{kind} has no image {name}: nothing to remove\n"));
    }
    Ok(())
}

/// Prints a build's lines on standard error as they come.
pub(super) fn teller(environment: &Environment) -> impl FnMut(Progress<'_>) + Send {
    let colour = environment.colour.on_stderr();
    move |progress| match progress {
        Progress::Latest { tool, version } => output::note(&format!("latest {tool}: {version}\n")),
        Progress::Line(line) if line.starts_with("Step ") || line.starts_with("STEP ") => {
            output::note(&format!("{}\n", paint(line, style::STRONG, colour)));
        }
        // Ids of what is between two steps.
        Progress::Line(line)
            if line.starts_with(" ---> ") || line.starts_with("Removing inter") => {}
        Progress::Line(line) => output::note(&format!("  | {line}\n")),
    }
}

/// The result, on standard output: the name alone is there for scripts as its first word.
pub(super) fn say(
    built: &Built,
    kind: Kind,
    took: Duration,
    environment: &Environment,
) -> Result<(), CliError> {
    let colour = environment.colour.on_stdout();
    output::data(&format!(
        "{} {} on {kind}, {}, in {}\n",
        paint("built:", style::GOOD, colour),
        built.name,
        human::size(built.image.size),
        human::duration(took)
    ))?;
    Ok(())
}

/// What somebody has to have read before it runs.
fn shown(source: &Source, colour: bool) -> String {
    let mut text = format!("{}\n", paint("Dockerfile:", style::STRONG, colour));
    for line in source.dockerfile.lines() {
        let _ = writeln!(text, "  | {}", printable(line));
    }
    if source.files.is_empty() {
        text.push_str("beside it the build gets no file\n");
    } else {
        text.push_str("beside it the build gets, from .cofferdam:\n");
        for (path, bytes) in &source.files {
            text.push_str(&format!(
                "  {} ({})\n",
                shell_word(path),
                human::size(*bytes)
            ));
        }
    }
    text
}
