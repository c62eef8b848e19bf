//! What to do where there is no image.

use cofferdam::image::ImageError;

use crate::ui::shell::shell_word;

pub(super) fn hint(error: &ImageError) -> Option<String> {
    Some(match error {
        ImageError::Unusable { what: "the tag", .. } => {
            "give another, as in `cofferdam build-base --tag 2026-01-31`".to_owned()
        }
        ImageError::Unusable { .. } => {
            "give a number, as in `--codex-version 0.169.0`, or `latest`".to_owned()
        }
        ImageError::Unresolved { tool, .. } => {
            format!("name a version yourself, as in `cofferdam build-base --{tool}-version 1.2.3`")
        }
        ImageError::NoDockerfile(path) => format!(
            "write one that begins with these two lines: `ARG BASE_IMAGE_TAG=latest` and `FROM cofferdam-base:${{BASE_IMAGE_TAG}}`; \
             or use the base as it is, with `cofferdam build-base`. It goes to {}",
            shell_word(path)
        ),
        ImageError::Context { .. } => {
            "the build gets all of `.cofferdam` but variables, logs, worktrees and prompts: move it elsewhere".to_owned()
        }
        ImageError::LeadsOut { .. } => "change it, and build again with the same command".to_owned(),
        ImageError::NoBase { engine, base } => {
            let tag = base.split_once(':').map_or("latest", |(_, tag)| tag);
            let tag = match tag {
                "latest" => String::new(),
                _ => format!(" --tag {tag}"),
            };
            format!("build it with `cofferdam build-base --sandbox {}{tag}`", engine.name())
        }
        ImageError::OtherDigest { .. } => {
            "it was changed since you read it: the same command without `--trust` shows it as it is now".to_owned()
        }
        ImageError::Build { reason, base, refused } => {
            let opens = refused.iter().find_map(|one| one.opens.as_ref());
            match opens {
                Some(rule) => format!(
                    "the wall refused {} to the build; open it with `cofferdam allow {}` and build again",
                    refused.iter().map(|one| one.what.as_str()).take(5).collect::<Vec<_>>().join(", "),
                    shell_word(rule)
                ),
                None if is_about_its_base(reason) && !base => {
                    "where no registry of images can be reached, build on an image that the engine has: change `FROM` in the Dockerfile"
                        .to_owned()
                }
                None if is_about_its_base(reason) => {
                    "where no registry of images can be reached, name an image of Debian 12 that the engine has, with `--base-image`"
                        .to_owned()
                }
                None => "the lines above say which step failed; what did not fail is not built again".to_owned(),
            }
        }
        ImageError::File(_)
        | ImageError::Pack(_)
        | ImageError::Engine(_)
        // The command shows it, and says how it goes on.
        | ImageError::Untrusted(_)
        | ImageError::Cancelled => return None,
    })
}

/// An engine that cannot have the image of the first line.
fn is_about_its_base(reason: &str) -> bool {
    [
        "pull access denied",
        "registry",
        "dial tcp",
        "lookup",
        "pinging container",
        "no such image",
        "short-name",
    ]
    .iter()
    .any(|words| reason.to_lowercase().contains(words))
}
