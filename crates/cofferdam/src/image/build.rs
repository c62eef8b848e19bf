//! One build: its network behind the wall, its steps, and what the wall refused where it failed.

use tokio_util::sync::CancellationToken;

use super::ImageError;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId, Slug};
use crate::sandbox::SandboxError;
use crate::sandbox::engine::{Engine, Image, Recipe};
use crate::wall::rules::Sources;
use crate::wall::{self, Origin, Rule, WallSpec};

/// What a build says while it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    /// What `latest` is.
    Latest {
        /// The tool's name.
        tool: &'static str,
        /// Its version.
        version: &'a str,
    },
    /// One line of the engine's and of the build's programs, printable.
    Line(&'a str),
}

/// Where packages come from. The user's own list may name none of them, and it is about agents.
const REGISTRIES: [&str; 9] = [
    "deb.debian.org",
    "security.debian.org",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
];

/// Of the base's own: oh-my-zsh.
const OF_BASE: [&str; 1] = ["github.com"];

/// Whose image is built: that says what is open to it beside the registries and the user's own rules.
pub(super) enum Of<'a> {
    Base,
    /// With the rules that this repository has.
    Repository(&'a RepoPath),
}

pub(super) async fn build(
    engine: &Engine,
    home: &Home,
    of: Of<'_>,
    recipe: Recipe,
    cancel: &CancellationToken,
    said: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Image, ImageError> {
    let (names, repository) = match of {
        Of::Base => (&OF_BASE[..], None),
        Of::Repository(repository) => (&[][..], Some(repository)),
    };
    let registries = (REGISTRIES.iter().chain(names)).map(|name| Rule::parse(name, Origin::Flag));
    let start = |error: &dyn std::fmt::Display| SandboxError::Start(error.to_string());
    let sandbox = SandboxId::random().map_err(|error| start(&error))?;
    let wall = WallSpec {
        home: home.clone(),
        sandbox,
        name: Slug::from_text("build").map_err(|error| start(&error))?,
        sources: Sources {
            home: home.clone(),
            repository: repository.cloned(),
            sandbox: None,
            flags: registries.filter_map(Result::ok).collect(),
        },
    };
    let network = engine.build_network(wall, cancel).await?;
    let lines = |line: &str| said(Progress::Line(line));
    let built = engine.build(recipe, &network, cancel, lines).await;
    let built = match built.map_err(ImageError::from) {
        Err(ImageError::Build { reason, .. }) => Err(ImageError::Build {
            reason,
            base: repository.is_none(),
            refused: wall::refused(home, sandbox).await.unwrap_or_default(),
        }),
        other => other,
    };
    // What an engine does not take away of it now, the next build does: how the build went does not change with that.
    let _ = network.close().await;
    built
}
