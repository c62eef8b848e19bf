//! A repository's own image: its `.cofferdam/Dockerfile`, and what lies beside it.
//!
//! The commands of a Dockerfile run, so somebody has to have read them: what is built is named by a digest of all that the build
//! gets. All is read once; what is shown, what is digested and what is built are the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::archive::Archive;
use super::base::Built;
use super::build::{Of, Progress, build};
use super::dockerfile::{self, BASE_TAG};
use super::{ImageError, agreed, check_tag};
use crate::home::Home;
use crate::names::{BASE_IMAGE, RepoPath};
use crate::sandbox::engine::{Engine, Image, Recipe};
use crate::text::hex;

/// The directory of a repository that has its Dockerfile.
const DIRECTORY: &str = ".cofferdam";
const DOCKERFILE: &str = "Dockerfile";
/// The Dockerfile that `cofferdam init` writes: the base, and nothing else yet.
pub const STARTER: &str = include_str!("starter.Dockerfile");
/// What lies there for other ends, and what is nobody's business.
const OTHERS: [&str; 4] = ["worktrees", "logs", "prompts", ".gitignore"];
/// The label with the digest of what an image was built from.
const BUILT_FROM: &str = "io.cofferdam.digest";
/// What a build may get, in files and in bytes.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: u64 = 64 << 20;
/// How deep directories may lie in one another.
const DEEPEST: usize = 32;

/// What a repository's image would be built from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The repository's top.
    pub repository: RepoPath,
    /// The Dockerfile's text.
    pub dockerfile: String,
    /// What else the build gets: paths below `.cofferdam`, with their size in bytes; sorted.
    pub files: Vec<(PathBuf, u64)>,
    /// SHA-256 of all of it, 64 hexadecimal digits.
    pub digest: String,
    archive: Vec<u8>,
}

impl Source {
    /// Reads it in a checkout, of whose repository the main one is `repository`. Bounded: 2,000 files, 64 MiB. Variables (`.env`), logs, worktrees and prompts are never read.
    pub fn read(checkout: &Path, repository: &RepoPath) -> Result<Self, ImageError> {
        let top = checkout.join(DIRECTORY);
        let mut found = Found::default();
        let opened = rustix::fs::open(&top, DIRECTORIES, Mode::empty());
        let opened = match opened {
            Err(rustix::io::Errno::NOENT) => {
                return Err(ImageError::NoDockerfile(top.join(DOCKERFILE)));
            }
            other => other.map_err(|errno| unread(&top, &errno.into()))?,
        };
        found.walk(&opened, &top, Path::new(""), 0)?;
        let Some(Entry::File { bytes, .. }) = found.entries.get(Path::new(DOCKERFILE)) else {
            return Err(ImageError::NoDockerfile(top.join(DOCKERFILE)));
        };
        let dockerfile = String::from_utf8(bytes.clone()).map_err(|_| ImageError::Context {
            path: top.join(DOCKERFILE),
            reason: "is not UTF-8".to_owned(),
        })?;
        if let Some((instruction, reason)) = dockerfile::leads_out(&dockerfile) {
            return Err(ImageError::LeadsOut {
                path: top.join(DOCKERFILE),
                instruction,
                reason,
            });
        }
        let files = found
            .entries
            .iter()
            .filter(|(path, _)| *path != Path::new(DOCKERFILE))
            .map(|(path, entry)| (path.clone(), entry.size()))
            .collect();
        let digest = found.digest();
        let archive = found.pack().map_err(ImageError::Pack)?;
        Ok(Self {
            repository: repository.clone(),
            dockerfile,
            files,
            digest,
            archive,
        })
    }

    /// The image's name: `NAME:TAG`.
    pub fn name(&self) -> String {
        self.repository.image()
    }

    /// Whether that image was built from something else. One that nobody built by [`build_repository`] says nothing of it.
    pub fn has_changed_since(&self, image: &Image) -> bool {
        let from = image.labels.get(BUILT_FROM);
        from.is_some_and(|digest| *digest != self.digest)
    }

    /// What in the Dockerfile no sandbox takes over, or would better come from the base; one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if dockerfile::bases(&self.dockerfile, "x").is_empty() {
            remarks.push(format!(
                "it is not built on {BASE_IMAGE}: what agents need has to come from elsewhere"
            ));
        }
        for word in ["ENTRYPOINT", "HEALTHCHECK"] {
            if dockerfile::has(&self.dockerfile, word) {
                remarks.push(format!("its {word} is not used: a sandbox has its own"));
            }
        }
        remarks
    }
}

/// Whether a checkout says what its image is.
pub fn has_dockerfile(checkout: &Path) -> bool {
    checkout.join(DIRECTORY).join(DOCKERFILE).is_file()
}

/// Builds the image of a repository on the base of this tag. `trusted`: the digest that somebody has agreed to, which counts from then on.
pub async fn build_repository(
    engine: &Engine,
    home: &Home,
    source: Source,
    base_tag: &str,
    trusted: Option<&str>,
    cancel: &CancellationToken,
    mut said: impl FnMut(Progress<'_>) + Send,
) -> Result<Built, ImageError> {
    check_tag(base_tag)?;
    match trusted.map(|digest| digest.trim().to_ascii_lowercase()) {
        None if agreed::has(home, &source.digest) => {}
        None => return Err(ImageError::Untrusted(Box::new(source))),
        Some(digest) if digest != source.digest => {
            return Err(ImageError::OtherDigest {
                given: digest.chars().take(64).collect(),
                source_is: Box::new(source),
            });
        }
        Some(_) => agreed::add(home, &source.digest)?,
    }
    for base in dockerfile::bases(&source.dockerfile, base_tag) {
        // An engine would look for it at a registry, where anybody may have taken the name.
        if engine.image(&base).await?.is_none() {
            let engine = engine.kind();
            return Err(ImageError::NoBase { engine, base });
        }
    }
    let name = source.name();
    let arguments = BTreeMap::from([(BASE_TAG.to_owned(), base_tag.to_owned())]);
    let labels = BTreeMap::from([
        (
            "io.cofferdam.repository".to_owned(),
            source.repository.as_path().to_string_lossy().into_owned(),
        ),
        (BUILT_FROM.to_owned(), source.digest.clone()),
    ]);
    let recipe = Recipe {
        context: source.archive,
        name: name.clone(),
        target: None,
        arguments: arguments.clone(),
        labels,
        anew: false,
    };
    let of = Of::Repository(&source.repository);
    let image = build(engine, home, of, recipe, cancel, &mut said).await?;
    Ok(Built {
        name,
        image,
        arguments,
    })
}

const DIRECTORIES: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FILES: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
enum Entry {
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

impl Entry {
    fn size(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => bytes.len() as u64,
            Self::Link(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    entries: BTreeMap<PathBuf, Entry>,
    bytes: u64,
}

impl Found {
    fn walk(
        &mut self,
        directory: &impl std::os::fd::AsFd,
        at: &Path,
        below: &Path,
        depth: usize,
    ) -> Result<(), ImageError> {
        let broken = |path: &Path, errno: rustix::io::Errno| unread(path, &errno.into());
        let entries = Dir::read_from(directory).map_err(|errno| broken(at, errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| broken(at, errno))?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || (depth == 0 && is_other(name.as_bytes())) {
                continue;
            }
            let (path, inside) = (at.join(name), below.join(name));
            let refused = |reason: &str| ImageError::Context {
                path: path.clone(),
                reason: reason.to_owned(),
            };
            if self.entries.len() >= MOST_FILES || depth > DEEPEST {
                return Err(refused(
                    "is one too many: a build gets 2,000 files at most, 32 directories deep",
                ));
            }
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| broken(&path, errno))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let next = rustix::fs::openat(directory, name, DIRECTORIES, Mode::empty())
                        .map_err(|errno| broken(&path, errno))?;
                    self.walk(&next, &path, &inside, depth + 1)?;
                }
                FileType::RegularFile => {
                    let file = rustix::fs::openat(directory, name, FILES, Mode::empty())
                        .map_err(|errno| broken(&path, errno))?;
                    let mut bytes = Vec::new();
                    let room = MOST_BYTES - self.bytes;
                    File::from(file)
                        .take(room + 1)
                        .read_to_end(&mut bytes)
                        .map_err(|error| unread(&path, &error))?;
                    if bytes.len() as u64 > room {
                        return Err(refused("is too much: a build gets 64 MiB at most"));
                    }
                    self.bytes += bytes.len() as u64;
                    let executable = stat.st_mode & 0o100 != 0;
                    self.entries
                        .insert(inside, Entry::File { bytes, executable });
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(directory, name, Vec::new())
                        .map_err(|errno| broken(&path, errno))?;
                    let target = std::ffi::OsStr::from_bytes(target.to_bytes());
                    self.entries.insert(inside, Entry::Link(target.into()));
                }
                _ => return Err(refused("is no file, no directory and no symlink")),
            }
        }
        Ok(())
    }

    fn digest(&self) -> String {
        let mut all = Sha256::new();
        for (path, entry) in &self.entries {
            let (kind, content) = match entry {
                Entry::File {
                    bytes,
                    executable: false,
                } => (b'f', &bytes[..]),
                Entry::File { bytes, .. } => (b'x', &bytes[..]),
                Entry::Link(target) => (b'l', target.as_os_str().as_bytes()),
            };
            let path = path.as_os_str().as_bytes();
            all.update([kind]);
            all.update((path.len() as u64).to_be_bytes());
            all.update(path);
            all.update(Sha256::digest(content));
        }
        hex(&all.finalize())
    }

    fn pack(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = Archive::new();
        for (path, entry) in &self.entries {
            match entry {
                Entry::File { bytes, executable } => archive.file(path, bytes, *executable)?,
                Entry::Link(target) => archive.link(path, target)?,
            }
        }
        archive.finish()
    }
}

fn unread(path: &Path, error: &std::io::Error) -> ImageError {
    ImageError::Context {
        path: path.to_owned(),
        reason: format!("cannot be read: {error}"),
    }
}

fn is_other(name: &[u8]) -> bool {
    name.starts_with(b".env") || OTHERS.iter().any(|other| other.as_bytes() == name)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, RepoPath) {
        let top = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = top.path().join(DIRECTORY).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let path = RepoPath::resolve(top.path()).unwrap();
        (top, path)
    }

    fn source(path: &RepoPath) -> Result<Source, ImageError> {
        Source::read(path.as_path(), path)
    }

    const ON_BASE: &str = "ARG BASE_IMAGE_TAG=latest\nFROM cofferdam-base:${BASE_IMAGE_TAG}\n";

    #[test]
    fn the_digest_is_of_all_that_a_build_gets_and_of_nothing_else() {
        let (top, path) = repository(&[("Dockerfile", ON_BASE), ("setup/run", "true\n")]);
        let digest = || source(&path).unwrap().digest;
        let inside = top.path().join(DIRECTORY);
        let first = digest();
        assert_eq!(first.len(), 64);
        for (name, text) in [
            (".env", "A=1"),
            (".env.local", "B=2"),
            (".gitignore", "logs"),
        ] {
            std::fs::write(inside.join(name), text).unwrap();
        }
        std::fs::create_dir(inside.join("logs")).unwrap();
        std::fs::write(inside.join("logs/one.log"), "x").unwrap();
        let source = source(&path).unwrap();
        assert_eq!(source.digest, first);
        assert_eq!(source.files, [(PathBuf::from("setup/run"), 5)]);
        let mut seen = vec![first];
        let mut differs = |what: &str| {
            let now = digest();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        std::fs::set_permissions(
            inside.join("setup/run"),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        differs("it may be executed");
        std::fs::write(inside.join("setup/run"), "false\n").unwrap();
        differs("other content");
        std::fs::write(inside.join("setup/more"), "").unwrap();
        differs("one more file");
        std::fs::remove_file(inside.join("setup/more")).unwrap();
        symlink("run", inside.join("setup/more")).unwrap();
        differs("a symlink");
        std::fs::write(inside.join("Dockerfile"), format!("{ON_BASE}RUN true\n")).unwrap();
        differs("another step");
    }

    #[test]
    fn an_image_says_what_it_was_built_from() {
        let (top, path) = repository(&[("Dockerfile", ON_BASE)]);
        let mut image = Image::default();
        assert!(!source(&path).unwrap().has_changed_since(&image));
        let digest = source(&path).unwrap().digest;
        image.labels.insert(BUILT_FROM.to_owned(), digest);
        assert!(!source(&path).unwrap().has_changed_since(&image));
        std::fs::write(top.path().join(DIRECTORY).join("more"), "").unwrap();
        assert!(source(&path).unwrap().has_changed_since(&image));
    }

    #[test]
    fn what_no_build_gets_is_refused_by_its_name() {
        let (_top, path) = repository(&[]);
        let error = source(&path).unwrap_err().to_string();
        assert!(error.contains(".cofferdam/Dockerfile"), "{error}");
        let (top, path) = repository(&[("Dockerfile", ON_BASE)]);
        let pipe = top.path().join(".cofferdam/pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let error = source(&path).unwrap_err().to_string();
        assert!(error.contains("/pipe is no file"), "{error}");
        std::fs::remove_file(&pipe).unwrap();
        let big = File::create(top.path().join(".cofferdam/big")).unwrap();
        big.set_len(MOST_BYTES + 1).unwrap();
        let error = source(&path).unwrap_err().to_string();
        assert!(error.contains("/big is too much"), "{error}");
        // Elsewhere, by a symlink in the place of the directory.
        let (top, path) = repository(&[]);
        symlink("/etc", top.path().join(".cofferdam")).unwrap();
        source(&path).unwrap_err();
    }

    // covers: S3-20
    #[test]
    fn what_no_sandbox_takes_over_is_said() {
        let read = |text: &str| {
            let (_top, path) = repository(&[("Dockerfile", text)]);
            source(&path).unwrap().remarks()
        };
        assert_eq!(
            read("FROM alpine:3\nENTRYPOINT [\"x\"]\nUSER root\n").len(),
            2
        );
        assert!(read(ON_BASE).is_empty());
    }

    #[test]
    fn what_leads_out_is_refused_before_anybody_is_asked_to_trust_it() {
        let (_top, path) = repository(&[(
            "Dockerfile",
            "FROM a\nRUN --mount=type=bind,src=l,dst=/x ls\n",
        )]);
        let error = source(&path).unwrap_err().to_string();
        assert!(error.contains("RUN --mount"), "{error}");
    }
}
