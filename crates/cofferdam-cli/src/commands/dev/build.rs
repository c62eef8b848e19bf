//! The image that a dev sandbox is made anew from.

use cofferdam::names::BranchName;
use cofferdam::registry::Record;

use super::Build;
use crate::commands::images::{self, EngineName, For, OfRepository};
use crate::commands::making::DevOptions;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::{branch_option, shell_word};

/// An image that is wanted for a sandbox.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) build: &'a Build,
    pub(super) there: Option<&'a Record>,
    /// Where it is made, where it is not there.
    pub(super) place: &'static str,
    pub(super) branch: Option<&'a BranchName>,
    pub(super) options: &'a DevOptions,
}

impl Asked<'_> {
    /// The command that asks for it once more, where that can be printed.
    fn again(&self) -> Option<String> {
        let options = self.options.words()?;
        let command = match self.there {
            Some(_) if options.is_empty() => "restart",
            _ => "start",
        };
        let tag = self.build.base_tag.as_ref();
        let tag = tag.map_or_else(String::new, |tag| {
            format!(" --base-tag {}", shell_word(tag))
        });
        let branch = branch_option(self.branch);
        Some(format!("cofferdam {command} --build{tag}{options}{branch}"))
    }

    /// Nothing is built for what is in no container.
    fn native(&self) -> CliError {
        let branch = branch_option(self.branch);
        let start = format!("cofferdam start --build --sandbox docker{branch}");
        let start = match self.there {
            Some(record) => format!("cofferdam delete {} && {start}", record.name),
            None => start,
        };
        CliError::Misused {
            message: "`--build` builds the image of a container, and this sandbox is native"
                .to_owned(),
            hint: format!("leave out `--build`; or have one in a container: `{start}`"),
        }
    }
}

/// Builds the image of the repository in the engine where the sandbox is; its name.
pub(super) async fn built(
    asked: &Asked<'_>,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<String, CliError> {
    let place = match asked.there {
        Some(record) => record.provider.as_str(),
        None => asked.place,
    };
    let engine = match place {
        "docker" => EngineName::Docker,
        "podman" => EngineName::Podman,
        _ => return Err(asked.native()),
    };
    let tag = asked.build.base_tag.clone();
    let of = OfRepository {
        path: None,
        base_tag: tag.unwrap_or_else(|| "latest".to_owned()),
        trust: None,
    };
    let again = asked.again();
    let wanted = For::This(again.as_deref());
    images::build_repository(&of, Some(engine.into()), wanted, environment, interrupt).await
}
