//! Names on their way in and out are types, not strings: what has one of these types was checked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::text::hex;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing usable is left of the text.
    #[error("`{0}` has no letter or digit to make a name of")]
    EmptySlug(String),
    /// Not a name for a sandbox: word for word as the requirements have it (S4-E2).
    #[error(
        "Invalid sandbox name. Slugified names must be 1-63 characters and contain only [a-z0-9-]."
    )]
    Sandbox {
        /// Its slug, of which only the length is wrong; empty where nothing usable is left.
        slug: String,
    },
    /// Not a branch name by git's rules (git-check-ref-format(1)).
    #[error("`{name}` is not a valid branch name: {reason}")]
    Branch {
        /// What was given, control bytes escaped.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// Not the name of a volume, control bytes escaped.
    #[error("`{0}` is not the name of a volume: those begin with `cofferdam-`")]
    Volume(String),
    /// Not a sandbox id.
    #[error("`{0}` is not a sandbox id (32 hexadecimal digits)")]
    Id(String),
}

/// The short name of a sandbox: `[a-z0-9][a-z0-9-]*`, at most 63 bytes, no `-` at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

impl Slug {
    /// The longest slug: one DNS label, because a slug becomes a host name.
    pub const MAX: usize = 63;

    /// Lower-cases `text` and turns every run of other characters into one `-`; what is too long is
    /// cut.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        let slug = slugify(text, Self::MAX);
        if slug.is_empty() {
            return Err(NameError::EmptySlug(text.escape_debug().to_string()));
        }
        Ok(Self(slug))
    }

    /// A name that the user chose: as [`Self::from_text`], but nothing is cut, or two long names would be
    /// one sandbox.
    pub fn sandbox_name(text: &str) -> Result<Self, NameError> {
        let slug = slugify(text, usize::MAX);
        if slug.is_empty() || slug.len() > Self::MAX {
            return Err(NameError::Sandbox { slug });
        }
        Ok(Self(slug))
    }

    /// The slug as text: lower case letters, digits and `-`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn slugify(text: &str, longest: usize) -> String {
    let mut slug = String::with_capacity(text.len().min(longest));
    for c in text.chars() {
        if slug.len() == longest {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    while slug.ends_with('-') {
        slug.pop();
    }
    slug
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Slug {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        let slug = Self::from_text(&text)?;
        if slug.0 == text {
            Ok(slug)
        } else {
            Err(NameError::EmptySlug(text))
        }
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

/// A branch name without `refs/heads/`, valid by git-check-ref-format(1) and safe as an argument.
///
/// Only UTF-8 names: a branch in another encoding is refused with an error that says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchName(String);

impl BranchName {
    /// Its short name, without `refs/heads/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `refs/heads/<name>`.
    pub fn full(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl FromStr for BranchName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let refuse = |reason| {
            Err(NameError::Branch {
                name: name.escape_debug().to_string(),
                reason,
            })
        };
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > 200 {
            return refuse("it is longer than 200 bytes");
        }
        if name.starts_with('-') {
            return refuse("it starts with `-`");
        }
        if name == "HEAD" || name == "@" {
            return refuse("git reserves it");
        }
        if name.starts_with("refs/") {
            return refuse("give the name without `refs/heads/`");
        }
        if name.ends_with('.') || name.contains("..") || name.contains("@{") {
            return refuse("it contains `..`, `@{` or ends with `.`");
        }
        if name
            .chars()
            .any(|c| c.is_control() || " ~^:?*[\\".contains(c))
        {
            return refuse("it contains a space, a control character or one of ~ ^ : ? * [ \\");
        }
        for component in name.split('/') {
            if component.is_empty() {
                return refuse("it has an empty component");
            }
            if component.starts_with('.') || component.to_ascii_lowercase().ends_with(".lock") {
                return refuse("a component starts with `.` or ends with `.lock`");
            }
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for BranchName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl From<BranchName> for String {
    fn from(branch: BranchName) -> Self {
        branch.0
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of one sandbox: 128 random bits, written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(u128);

impl SandboxId {
    /// A fresh id from the kernel's random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0u8; 16];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if got != bytes.len() {
            return Err(std::io::Error::other(
                "the kernel gave too few random bytes",
            ));
        }
        Ok(Self(u128::from_le_bytes(bytes)))
    }

    /// The first six hexadecimal digits, for generated names.
    pub fn short(&self) -> String {
        self.to_string()[..6].to_owned()
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for SandboxId {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let refused = || NameError::Id(text.escape_debug().to_string());
        if text.len() != 32
            || text
                .bytes()
                .any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(refused());
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| refused())
    }
}

impl TryFrom<String> for SandboxId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.to_string()
    }
}

/// The images that `cofferdam build-base` makes, without a tag.
pub const BASE_IMAGE: &str = "cofferdam-base";

/// The real path of a repository's top directory: absolute, no symlink, existing when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoPath(PathBuf);

impl RepoPath {
    /// Resolves `path`; the caller has found that a repository is there.
    pub fn resolve(path: &Path) -> std::io::Result<Self> {
        path.canonicalize().map(Self)
    }

    /// Absolute, and without symlinks.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// First 8 hexadecimal digits of SHA-256 of the path's bytes: names per-repository state.
    pub fn hash8(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let digest = Sha256::digest(self.0.as_os_str().as_bytes());
        hex(&digest[..4])
    }

    /// The image of its own `.cofferdam/Dockerfile`, where this is its main checkout.
    pub fn image(&self) -> String {
        format!("cofferdam-{}-{}:latest", self.slug(), self.hash8())
    }

    /// The directory's own name as a slug; `repo` where nothing of it is usable.
    pub fn slug(&self) -> Slug {
        let name = self
            .0
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        Slug::from_text(&name).unwrap_or_else(|_| Slug("repo".to_owned()))
    }
}

/// The name of a volume: `[a-z0-9-]`, begins with `cofferdam-`, at most 100 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeName(String);

impl VolumeName {
    const MAX: usize = 100;

    /// One that this crate makes.
    pub(crate) fn known(name: &str) -> Self {
        debug_assert!(name.parse::<Self>().is_ok(), "{name}");
        Self(name.to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for VolumeName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let is_usable = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let rest = name.strip_prefix("cofferdam-").unwrap_or_default();
        if rest.is_empty() || name.len() > Self::MAX || !name.bytes().all(is_usable) {
            return Err(NameError::Volume(name.escape_debug().to_string()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for VolumeName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<VolumeName> for String {
    fn from(name: VolumeName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_slug(text: &str, want: Option<&str>) {
        let got = Slug::from_text(text).ok();
        assert_eq!(got.as_ref().map(Slug::as_str), want, "{text:?}");
    }

    // covers: S4-FR1.9 S4-FR1.10 S4-AC1.6
    #[test]
    fn slugs() {
        check_slug("My App!", Some("my-app"));
        check_slug("--x--y--", Some("x-y"));
        check_slug("a/b", Some("a-b"));
        check_slug("ümlaut", Some("mlaut"));
        check_slug("", None);
        check_slug("../..", None);
        check_slug(&"a".repeat(100), Some(&"a".repeat(63)));
        // What a user chose is not cut.
        let name = |text: &str| Slug::sandbox_name(text).ok().map(|slug| slug.0);
        assert_eq!(
            name("My Feature Name!@#").as_deref(),
            Some("my-feature-name")
        );
        assert_eq!(name(&"a".repeat(63)), Some("a".repeat(63)));
        assert_eq!(name(&"a".repeat(64)), None);
        assert_eq!(name("!!!"), None);
    }

    fn check_branch(name: &str, valid: bool) {
        assert_eq!(name.parse::<BranchName>().is_ok(), valid, "{name:?}");
    }

    #[test]
    fn branches() {
        check_branch("feature/a-b_c", true);
        check_branch("größe", true);
        for bad in [
            "",
            "-x",
            "HEAD",
            "@",
            "a..b",
            "a b",
            "a\nb",
            "a\0b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a/b.LOCK/c",
            "a@{b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a.",
            "refs/heads/x",
            "\u{7f}",
        ] {
            check_branch(bad, false);
        }
        check_branch(&"a".repeat(201), false);
    }

    #[test]
    fn ids_survive_text() {
        let id = SandboxId::random().unwrap();
        assert_eq!(id.to_string().parse::<SandboxId>().unwrap(), id);
        assert_ne!(SandboxId::random().unwrap(), id);
        for bad in ["", "0", &"g".repeat(32), &"A".repeat(32), &"+".repeat(32)] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
    }
}
