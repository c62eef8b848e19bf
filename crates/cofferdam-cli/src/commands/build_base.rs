//! `cofferdam build-base`.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use cofferdam::image::{self, Base, Variant, Versions, Web};

use super::images::{self, Builder};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Build the base image: shells, languages, agents and tools for sandboxes in containers
///
/// It is built from package registries, and oh-my-zsh from GitHub, on Debian 12, with its network behind the wall. A version is a number, or
/// `latest`, which is looked up first: what did not change is not built again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the image is called after `cofferdam-base:`; `latest`, or with `--small` `small`
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// Git, shells, Node.js and the agents alone
    #[arg(long)]
    small: bool,

    /// An image of Debian 12 to build on, where its own cannot be had
    #[arg(long, value_name = "IMAGE", value_parser = super::making::parse_image)]
    base_image: Option<String>,

    #[command(flatten)]
    builder: Builder,

    /// Of Claude Code
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    claude_code_version: Option<String>,

    /// Of Codex
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    codex_version: Option<String>,

    /// Of git-delta
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    git_delta_version: Option<String>,

    /// Of ast-grep
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    ast_grep_version: Option<String>,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    if arguments.small
        && (arguments.git_delta_version.is_some() || arguments.ast_grep_version.is_some())
    {
        return Err(CliError::Misused {
            message: "the small image has neither git-delta nor ast-grep".to_owned(),
            hint: "leave out `--small`, or their versions".to_owned(),
        });
    }
    let asked = arguments.builder.sandbox.map(Into::into);
    let (kind, engine) = images::engine(asked, environment).await?;
    let mut base = Base::default();
    base.variant = if arguments.small {
        Variant::Small
    } else {
        Variant::Full
    };
    base.tag = arguments.tag;
    base.from = arguments.base_image;
    base.versions = Versions {
        claude_code: arguments.claude_code_version,
        codex: arguments.codex_version,
        git_delta: arguments.git_delta_version,
        ast_grep: arguments.ast_grep_version,
    };
    base.web = Web {
        proxy: environment.proxy(),
    };
    let began = Instant::now();
    let built = image::build_base(
        &engine,
        &environment.home,
        &base,
        &interrupt.cancel,
        images::teller(environment),
    );
    let built = Box::pin(built).await?;
    images::say(&built, kind, began.elapsed(), environment)?;
    let versions = [
        ("CLAUDE_CODE_VERSION", "claude-code"),
        ("CODEX_VERSION", "codex"),
        ("GIT_DELTA_VERSION", "git-delta"),
        ("AST_GREP_VERSION", "ast-grep"),
    ];
    let shown = if arguments.small {
        &versions[..2]
    } else {
        &versions[..]
    };
    for (argument, tool) in shown {
        if let Some(version) = built.arguments.get(*argument) {
            output::data(&format!("  {tool} {version}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
