//! The base: one image with all tools, and a small one with the agents alone.

use std::collections::BTreeMap;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::archive::Archive;
use super::build::{Of, Progress, build};
use super::newest::{Registry, Web, check_version, newest};
use super::{ImageError, check_tag};
use crate::authorities;
use crate::fsx;
use crate::home::Home;
use crate::names::BASE_IMAGE;
use crate::sandbox::engine::{Engine, Image, Recipe};

const DOCKERFILE: &str = include_str!("base/Dockerfile");
/// What lies beside it.
const FILES: [(&str, &str); 5] = [
    ("shell/aliases", include_str!("base/shell/aliases")),
    ("shell/bashrc", include_str!("base/shell/bashrc")),
    (
        "shell/stand-in.zsh",
        include_str!("base/shell/stand-in.zsh"),
    ),
    ("shell/zshrc", include_str!("base/shell/zshrc")),
    ("packages.mjs", include_str!("base/packages.mjs")),
];
/// What a file of certificates may have, in bytes.
const LONGEST: u64 = 16 << 20;

/// How much is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Variant {
    /// Languages, a browser, editors, tools: what people and agents want to find.
    #[default]
    Full,
    /// Git, shells, Node.js and the agents.
    Small,
}

impl Variant {
    /// The stage of the Dockerfile.
    fn target(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Small => "small",
        }
    }
}

/// Versions of what is in it: a number, or `latest`. Without one it is the Dockerfile's own.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    /// Of Claude Code.
    pub claude_code: Option<String>,
    /// Of Codex.
    pub codex: Option<String>,
    /// Of git-delta.
    pub git_delta: Option<String>,
    /// Of ast-grep.
    pub ast_grep: Option<String>,
}

/// A base image that is to be built.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Base {
    /// How much is in it.
    pub variant: Variant,
    /// Without one: `latest`, or `small` for the small one.
    pub tag: Option<String>,
    /// An image of Debian 12 to build on; without one the Dockerfile's own, of a day.
    pub from: Option<String>,
    /// What is not to be the Dockerfile's own.
    pub versions: Versions,
    /// How newest versions are asked for.
    pub web: Web,
}

/// An image that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Built {
    /// `NAME:TAG`.
    pub name: String,
    /// The image, as the engine has it.
    pub image: Image,
    /// What was in the build, by the names of `ARG`s.
    pub arguments: BTreeMap<String, String>,
}

/// Builds it with `engine`. What it was before keeps no name, and its steps are used again where they are the same.
pub async fn build_base(
    engine: &Engine,
    home: &Home,
    base: &Base,
    cancel: &CancellationToken,
    mut said: impl FnMut(Progress<'_>) + Send,
) -> Result<Built, ImageError> {
    let tag = base.tag.as_deref().unwrap_or(match base.variant {
        Variant::Full => "latest",
        Variant::Small => "small",
    });
    check_tag(tag)?;
    let name = format!("{BASE_IMAGE}:{tag}");
    let mut arguments = versions(base, &mut said).await?;
    if let Some(from) = &base.from {
        arguments.insert("BASE_IMAGE".to_owned(), from.clone());
    }
    let recipe = Recipe {
        context: context()?,
        name: name.clone(),
        target: Some(base.variant.target().to_owned()),
        arguments: arguments.clone(),
        labels: BTreeMap::new(),
        anew: false,
    };
    let image = build(engine, home, Of::Base, recipe, cancel, &mut said).await?;
    Ok(Built {
        name,
        image,
        arguments: pinned(arguments),
    })
}

/// Whether the base has this package of npm's, of whichever version.
pub fn base_has(package: &str) -> bool {
    DOCKERFILE.contains(&format!("\"{package}@$"))
}

async fn versions(
    base: &Base,
    said: &mut (impl FnMut(Progress<'_>) + Send),
) -> Result<BTreeMap<String, String>, ImageError> {
    let asked = &base.versions;
    let tools = [
        (
            "CLAUDE_CODE_VERSION",
            "claude-code",
            Registry::Npm("@anthropic-ai/claude-code"),
            &asked.claude_code,
        ),
        (
            "CODEX_VERSION",
            "codex",
            Registry::Npm("@openai/codex"),
            &asked.codex,
        ),
        (
            "GIT_DELTA_VERSION",
            "git-delta",
            Registry::Crates("git-delta"),
            &asked.git_delta,
        ),
        (
            "AST_GREP_VERSION",
            "ast-grep",
            Registry::Npm("@ast-grep/cli"),
            &asked.ast_grep,
        ),
    ];
    let mut arguments = BTreeMap::new();
    for (argument, tool, registry, version) in tools {
        let version = match version.as_deref() {
            None => continue,
            Some("latest") => {
                let version = newest(tool, registry, &base.web).await?;
                said(Progress::Latest {
                    tool,
                    version: &version,
                });
                version
            }
            Some(version) => {
                check_version(tool, version)?;
                version.to_owned()
            }
        };
        arguments.insert(argument.to_owned(), version);
    }
    Ok(arguments)
}

/// With what the Dockerfile says where nobody said otherwise.
fn pinned(mut arguments: BTreeMap<String, String>) -> BTreeMap<String, String> {
    for line in DOCKERFILE.lines() {
        if let Some((name, value)) = line
            .strip_prefix("ARG ")
            .and_then(|arg| arg.split_once('='))
        {
            arguments
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
    }
    arguments
}

fn context() -> Result<Vec<u8>, ImageError> {
    let known = match authorities::bundle() {
        Some(path) => fsx::read_bounded(&path, LONGEST)?,
        None => Vec::new(),
    };
    let mut archive = Archive::new();
    let dockerfile = ("Dockerfile", DOCKERFILE);
    for (path, text) in [dockerfile].into_iter().chain(FILES) {
        let packed = archive.file(Path::new(path), text.as_bytes(), false);
        packed.map_err(ImageError::Pack)?;
    }
    archive
        .file(Path::new("ca.pem"), &known, false)
        .map_err(ImageError::Pack)?;
    archive.finish().map_err(ImageError::Pack)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::text::hex;

    #[test]
    fn every_file_of_the_dockerfile_is_in_the_archive() {
        let archive = context().unwrap();
        let mut archive = tar::Archive::new(&archive[..]);
        let mut names = Vec::new();
        for one in archive.entries().unwrap() {
            let mut one = one.unwrap();
            let name = one.path().unwrap().to_string_lossy().into_owned();
            if name == "ca.pem" {
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut one, &mut bytes).unwrap();
                let known = authorities::bundle().map(|path| std::fs::read(path).unwrap());
                assert!(
                    bytes == known.unwrap_or_default(),
                    "not this machine's authorities"
                );
            }
            names.push(name);
        }
        for line in DOCKERFILE.lines().filter(|line| line.starts_with("COPY ")) {
            let source = line.split_whitespace().nth(1).unwrap();
            assert!(
                names.iter().any(|name| name.starts_with(source)),
                "{source} of {names:?}"
            );
        }
    }

    /// `scripts/test --images` builds it and starts each of them; what it printed last stands in docs/images.md.
    // covers: S1-129 S1-130 S1-131 S1-132 S1-133 S1-134 S1-135 S1-140
    // covers: S3-1 S3-3 S3-4 S3-5 S3-6 S3-7 S3-8 S3-9 S3-10 S3-75 S3-13 S3-15 S3-16
    #[test]
    fn it_has_what_the_documents_ask_for() {
        let page = include_str!("../../../../docs/images.md");
        for tool in [
            "aggregate",
            "ast-grep",
            "bash",
            "cargo",
            "chromium",
            "claude",
            "codex",
            "corepack",
            "curl",
            "delta",
            "fzf",
            "gh",
            "git",
            "go",
            "gpg",
            "ip",
            "jq",
            "less",
            "man",
            "nano",
            "node",
            "pip",
            "ps",
            "python3",
            "rg",
            "ruby",
            "rustc",
            "tmux",
            "unzip",
            "vim",
            "yarn",
            "zsh",
        ] {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{tool}` | ")));
            let row = row.unwrap_or_else(|| panic!("{tool} was not started"));
            assert!(row.len() > "| `` |  |".len() + tool.len(), "{row}");
        }
        // What the table does not know of: a package that was taken out since.
        let words: Vec<&str> = DOCKERFILE.split([' ', '\n', ';', '"', '\\']).collect();
        for package in [
            "aggregate",
            "bash",
            "build-essential",
            "ca-certificates",
            "cargo-web",
            "chromium",
            "curl",
            "dnsutils",
            "fzf",
            "gh",
            "git",
            "gnupg2",
            "ipset",
            "iproute2",
            "iptables",
            "jq",
            "less",
            "man-db",
            "nano",
            "procps",
            "python3",
            "python3-pip",
            "python3-venv",
            "ripgrep",
            "ruby-full",
            "rustc-web",
            "rustfmt-web",
            "tmux",
            "unzip",
            "vim",
            "zip",
            "zsh",
            "corepack@${COREPACK_VERSION}",
            "git-delta",
        ] {
            assert!(words.contains(&package), "{package}");
        }
        for line in [
            "ENV CHROME_BIN=/usr/bin/chromium \\\n    CHROMIUM_BIN=/usr/bin/chromium",
            "useradd --uid 1000 --create-home --home-dir /home/agent --shell /bin/zsh agent",
            "ARG BASE_IMAGE=debian:bookworm-",
            "corepack enable",
            "io.cofferdam.sbom=/usr/local/share/cofferdam/packages.spdx.json",
            "zshrc' >>/etc/zsh/zshrc",
            "bashrc' >>/etc/bash.bashrc",
        ] {
            assert!(DOCKERFILE.contains(line), "{line}");
        }
        let installs = DOCKERFILE.matches("apt-get install ").count();
        let small = DOCKERFILE
            .matches("apt-get install -y --no-install-recommends")
            .count();
        assert_eq!(installs, small);
        assert_eq!(
            DOCKERFILE.matches("rm -rf /var/lib/apt/lists/*").count(),
            installs
        );
        let mut users = DOCKERFILE.lines().filter(|line| line.starts_with("USER "));
        assert_eq!(users.next_back(), Some("USER agent"));
        for absent in ["sudo", "xserver", "xorg", "ENTRYPOINT", "init-firewall"] {
            assert!(!DOCKERFILE.contains(absent), "{absent}");
        }
    }

    /// As `scripts/test --images` has it: of a line of sha256sum's for each file.
    fn digest() -> String {
        let mut files: Vec<_> = [("Dockerfile", DOCKERFILE)]
            .into_iter()
            .chain(FILES)
            .collect();
        files.sort_unstable();
        let lines = files.into_iter().map(|(path, text)| {
            let digest = hex(&Sha256::digest(text.as_bytes()));
            format!("{digest}  {path}\n")
        });
        let lines: String = lines.collect();
        hex(&Sha256::digest(lines.as_bytes()))
    }

    #[test]
    fn the_table_of_its_tools_is_of_these_files() {
        let page = include_str!("../../../../docs/images.md");
        let digest = digest();
        assert!(
            page.contains(&format!("SHA-256 `{digest}`")),
            "docs/images.md has the tools of another base than {digest}: run `scripts/test --images`, and put what it prints there"
        );
    }

    // covers: S3-14 S3-25 S3-27
    #[test]
    fn versions_are_numbers_until_somebody_says_otherwise() {
        let pinned = pinned(BTreeMap::from([(
            "CODEX_VERSION".to_owned(),
            "9.9.9".to_owned(),
        )]));
        assert_eq!(pinned["CODEX_VERSION"], "9.9.9");
        let versions = pinned.iter().filter(|(name, _)| name.ends_with("_VERSION"));
        let mut count = 0;
        for (name, version) in versions {
            check_version("a tool", version).unwrap_or_else(|error| panic!("{name}: {error}"));
            count += 1;
        }
        assert!(count >= 8, "{pinned:?}");
        assert!(!DOCKERFILE.contains("--no-cache "));
        assert!(!pinned["BASE_IMAGE"].ends_with(":latest"));
    }

    #[tokio::test]
    async fn each_version_is_of_the_tool_that_was_meant() {
        let base = Base {
            versions: Versions {
                claude_code: Some("1.1.1".to_owned()),
                codex: Some("2.2.2".to_owned()),
                git_delta: Some("3.3.3".to_owned()),
                ast_grep: Some("4.4.4".to_owned()),
            },
            ..Base::default()
        };
        let arguments = versions(&base, &mut |_| {}).await.unwrap();
        let wanted = [
            (
                "AST_GREP_VERSION",
                "4.4.4",
                "\"@ast-grep/cli@${AST_GREP_VERSION}\"",
            ),
            (
                "CLAUDE_CODE_VERSION",
                "1.1.1",
                "\"@anthropic-ai/claude-code@${CLAUDE_CODE_VERSION}\"",
            ),
            (
                "CODEX_VERSION",
                "2.2.2",
                "\"@openai/codex@${CODEX_VERSION}\"",
            ),
            (
                "GIT_DELTA_VERSION",
                "3.3.3",
                "--version \"${GIT_DELTA_VERSION}\" git-delta",
            ),
        ];
        assert_eq!(arguments.len(), wanted.len());
        for (argument, version, used) in wanted {
            assert_eq!(arguments[argument], version);
            assert!(DOCKERFILE.contains(used), "{used}");
        }
    }

    #[test]
    fn tags() {
        for good in ["latest", "2024-08-12", "v1.2_x", "_a"] {
            check_tag(good).unwrap();
        }
        for bad in ["", ".x", "-x", "a b", "a/b", "a:b", &"x".repeat(129)] {
            check_tag(bad).unwrap_err();
        }
    }
}
