//! A sealed test environment: own HOME, cleared environment, real repositories.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam::git::discovery::{Start, Workspaces};
use cofferdam::git::identity::UserConfig;
use cofferdam::git::private_clone::{IndexFile, PrivateClone, PrivateCloneSpec};
use cofferdam::git::vault::{Export, Vault};
use cofferdam::git::{Git, Identity, Oid, Repository};
use cofferdam::home::Home;
use tokio_util::sync::CancellationToken;

/// Every git of this machine, as absolute paths.
pub(crate) fn gits() -> Vec<PathBuf> {
    let mut found = Vec::<PathBuf>::new();
    for path in ["/usr/local/bin/git", "/usr/bin/git"] {
        let Ok(real) = Path::new(path).canonicalize() else {
            continue;
        };
        if !found
            .iter()
            .any(|known| known.canonicalize().unwrap() == real)
        {
            found.push(path.into());
        }
    }
    assert!(!found.is_empty(), "no git");
    found
}

pub(crate) fn never() -> CancellationToken {
    CancellationToken::new()
}

/// A temporary directory with a repository at `repo`, a HOME and a Cofferdam home.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) git: PathBuf,
    pub(crate) top: PathBuf,
}

impl World {
    pub(crate) fn new(git: &Path) -> Self {
        Self::at(git, OsStr::new("repo"), &[])
    }

    pub(crate) fn at(git: &Path, name: &OsStr, init: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let top = real.join(name);
        std::fs::create_dir_all(&top).unwrap();
        std::fs::create_dir_all(real.join("home")).unwrap();
        let world = Self {
            dir,
            git: git.to_owned(),
            top,
        };
        world.run(
            &["init", "-q", "-b", "main"]
                .iter()
                .chain(init)
                .copied()
                .collect::<Vec<_>>(),
        );
        world.run(&["config", "user.name", "Ä \"User\""]);
        world.run(&["config", "user.email", "user@example.org"]);
        world
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> Home {
        Home::new(self.path().join("cofferdam"))
    }

    pub(crate) fn user_home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(crate) fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.git);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.user_home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .current_dir(directory);
        command
    }

    /// Runs git as the user would, in `directory`.
    pub(crate) fn run_in(&self, directory: &Path, arguments: &[&str]) -> String {
        let done = self.command(directory).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_in(&self.top, arguments)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.top.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a file and commits everything.
    pub(crate) fn commit(&self, name: &str, text: &str) -> Oid {
        self.write(name, text);
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "-m", name]);
        self.oid("HEAD")
    }

    pub(crate) fn oid(&self, revision: &str) -> Oid {
        self.run(&["rev-parse", revision]).parse().unwrap()
    }

    pub(crate) async fn repo(&self) -> Repository {
        let start = Start::find(&self.top, &Workspaces::default()).unwrap();
        Repository::discover(&Git::new(&self.git), &start, None, &never())
            .await
            .unwrap()
    }

    pub(crate) async fn export(&self, tip: &Oid) -> Export {
        let repo = self.repo().await;
        let vault = Vault::open(&self.home(), &repo).unwrap();
        vault.export(&repo, tip, &never()).await.unwrap()
    }

    /// A private clone of `tip` whose alternate is reachable on the host too, so that plain git can
    /// look at it.
    pub(crate) async fn clone_of(&self, tip: &Oid, index: Option<&[u8]>) -> PrivateClone {
        let export = self.export(tip).await;
        self.clone_from(&export, index, &UserConfig::default())
            .await
    }

    pub(crate) async fn clone_from(
        &self,
        export: &Export,
        index: Option<&[u8]>,
        config: &UserConfig,
    ) -> PrivateClone {
        let directory = tempfile::Builder::new()
            .tempdir_in(self.path())
            .unwrap()
            .keep();
        let identity = Identity {
            name: "A \"b\" \\c".into(),
            email: "a@b".into(),
        };
        let clone = PrivateClone::create(&PrivateCloneSpec {
            directory: &directory,
            repo: &self.repo().await,
            export,
            branch: Some(&"work/x".parse().unwrap()),
            identity: Some(&identity),
            config,
            pushes: false,
            index: index.map(IndexFile::Bytes),
        })
        .unwrap();
        let alternate = format!("{}\n", clone.vault.display());
        std::fs::write(clone.git_dir.join("objects/info/alternates"), alternate).unwrap();
        clone
    }

    /// Every ref of the repository with its value.
    pub(crate) fn refs(&self) -> String {
        self.run(&["for-each-ref"])
    }
}

pub(crate) fn has(world: &World, clone: &PrivateClone, oid: &str) -> bool {
    let done = world
        .command(&clone.git_dir)
        .args(["cat-file", "-e", oid])
        .output()
        .unwrap();
    done.status.success()
}
