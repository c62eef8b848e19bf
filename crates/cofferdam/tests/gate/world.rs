//! A host repository, a sandbox with work in it, and a gate between them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam::git::discovery::{Start, Workspaces};
use cofferdam::git::gate::{Accepted, Gate, GateError, Limits, Refusal, Rules};
use cofferdam::git::land::{self, Merging};
use cofferdam::git::refs::Own;
use cofferdam::git::{Git, Head, Identity, Oid, Repository};
use cofferdam::names::SandboxId;
use cofferdam::process::Input;
use cofferdam::session::Landing;
use tokio_util::sync::CancellationToken;

/// Every git on this machine: the oldest that is supported should be among them.
pub(crate) fn gits() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in ["/usr/bin/git", "/usr/local/bin/git"] {
        if Path::new(path).exists() {
            found.push(path.into());
        }
    }
    assert!(!found.is_empty(), "these tests need git");
    found
}

pub(crate) struct Run {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// No agent works anywhere.
pub(crate) fn starting_at(path: &Path) -> Start {
    Start::find(path, &Workspaces::default()).unwrap()
}

pub(crate) fn try_git(git: &Path, dir: &Path, input: &[u8], args: &[&str]) -> (Run, Vec<u8>) {
    use std::io::Write;
    #[expect(
        clippy::disallowed_methods,
        reason = "the tests act as the user and as the sandbox"
    )]
    let mut child = std::process::Command::new(git)
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "U")
        .env("GIT_AUTHOR_EMAIL", "u@example.com")
        .env("GIT_COMMITTER_NAME", "U")
        .env("GIT_COMMITTER_EMAIL", "u@example.com")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let done = child.wait_with_output().unwrap();
    feed.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let run = Run {
        ok: done.status.success(),
        out: text(&done.stdout),
        err: text(&done.stderr),
    };
    (run, done.stdout)
}

pub(crate) struct World {
    pub(crate) git: PathBuf,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) repo: Repository,
    pub(crate) base: Oid,
    pub(crate) id: SandboxId,
    pub(crate) refs: String,
    pub(crate) cancel: CancellationToken,
}

impl World {
    pub(crate) async fn new(git: &Path) -> Self {
        Self::with(git, |_| {}).await
    }

    pub(crate) async fn with(git: &Path, prepare: impl FnOnce(&dyn Fn(&[&str]))) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        std::fs::create_dir(&host).unwrap();
        let run = |args: &[&str]| {
            let (done, _) = try_git(git, &host, b"", args);
            assert!(done.ok, "{args:?}: {}", done.err);
        };
        run(&["init", "-q", "-b", "main"]);
        put(&host, "a.txt", "one\ntwo\nthree\n");
        put(&host, "dir/b.txt", "b\n");
        put(&host, ".husky/pre-commit", "exit 0\n");
        run(&["add", "-A"]);
        run(&["commit", "-qm", "first"]);
        put(&host, "c.txt", "c\n");
        run(&["add", "-A"]);
        run(&["commit", "-qm", "second"]);
        prepare(&run);
        // A secret on another branch, a tag and a stash: none of the sandbox's business.
        run(&["checkout", "-qb", "secret"]);
        put(&host, "secret.txt", "the secret\n");
        run(&["add", "-A"]);
        run(&["commit", "-qm", "secret"]);
        run(&["tag", "v1"]);
        run(&["checkout", "-q", "main"]);
        let cancel = CancellationToken::new();
        let repo = Repository::discover(&Git::new(git), &starting_at(&host), None, &cancel)
            .await
            .unwrap();
        let base = repo.head.commit().clone();
        let id = SandboxId::random().unwrap();
        let mut world = Self {
            git: git.to_owned(),
            dir,
            repo,
            base,
            id,
            refs: String::new(),
            cancel,
        };
        let vault = world.state().join("vault/pack");
        std::fs::create_dir_all(&vault).unwrap();
        std::fs::set_permissions(world.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let name = vault.join("pack");
        let input = format!("{}\n", world.base);
        let (done, _) = try_git(
            git,
            &host,
            input.as_bytes(),
            &["pack-objects", "-q", "--revs", name.to_str().unwrap()],
        );
        assert!(done.ok, "{}", done.err);
        let url = format!("file://{}", host.display());
        let (done, _) = try_git(
            git,
            world.dir.path(),
            b"",
            &[
                "clone",
                "-q",
                "--single-branch",
                "-b",
                "main",
                "--no-tags",
                &url,
                "box",
            ],
        );
        assert!(done.ok, "{}", done.err);
        world.refs = world.all_refs();
        world
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.dir.path().join("host")
    }

    /// The sandbox's own repository.
    pub(crate) fn inside(&self) -> PathBuf {
        self.dir.path().join("box")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn user(&self, args: &[&str]) -> String {
        let (done, _) = try_git(&self.git, &self.host(), b"", args);
        assert!(done.ok, "{args:?}: {}", done.err);
        done.out
    }

    pub(crate) fn agent(&self, args: &[&str]) -> String {
        self.agent_with(b"", args)
    }

    pub(crate) fn agent_with(&self, input: &[u8], args: &[&str]) -> String {
        let (done, _) = try_git(&self.git, &self.inside(), input, args);
        assert!(done.ok, "{args:?}: {}", done.err);
        done.out
    }

    pub(crate) fn commit(&self, message: &str) -> Oid {
        self.agent(&["add", "-A"]);
        self.agent(&["commit", "-qm", message, "--no-verify", "--allow-empty"]);
        self.agent(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// A commit on the base whose tree is the base's plus the given raw entries.
    pub(crate) fn raw_commit(&self, entries: &[(&str, &[u8], &str)]) -> Oid {
        let listing = self.agent(&["ls-tree", self.base.as_str()]);
        let mut all: Vec<(String, Vec<u8>, String)> = listing
            .lines()
            .map(|line| {
                let (head, name) = line.split_once('\t').unwrap();
                let words: Vec<&str> = head.split(' ').collect();
                let mode = words[0].trim_start_matches('0').to_owned();
                (mode, name.as_bytes().to_vec(), words[2].to_owned())
            })
            .collect();
        for (mode, name, id) in entries {
            all.push(((*mode).to_owned(), name.to_vec(), (*id).to_owned()));
        }
        let tree = self.raw_tree(all);
        self.agent(&["commit-tree", &tree, "-p", self.base.as_str(), "-m", "raw"])
            .parse()
            .unwrap()
    }

    pub(crate) fn raw_tree(&self, mut entries: Vec<(String, Vec<u8>, String)>) -> String {
        let key = |(mode, name, _): &(String, Vec<u8>, String)| {
            let mut key = name.clone();
            if mode == "40000" {
                key.push(b'/');
            }
            key
        };
        entries.sort_by_key(key);
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&name);
            bytes.push(0);
            let hex = id.as_bytes();
            bytes.extend(
                hex.chunks(2).map(|pair| {
                    u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()
                }),
            );
        }
        self.agent_with(
            &bytes,
            &["hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        )
    }

    pub(crate) fn blob(&self, content: &[u8]) -> String {
        self.agent_with(content, &["hash-object", "-w", "--stdin"])
    }

    pub(crate) fn pack(&self, tip: &str) -> Vec<u8> {
        self.pack_of(&format!("{tip}\n^{}\n", self.base))
    }

    pub(crate) fn pack_of(&self, revisions: &str) -> Vec<u8> {
        let args = ["pack-objects", "-q", "--revs", "--stdout", "--thin"];
        let (done, bytes) = try_git(&self.git, &self.inside(), revisions.as_bytes(), &args);
        assert!(done.ok, "{}", done.err);
        bytes
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate {
            repo: self.repo.clone(),
            id: self.id,
            base: self.base.clone(),
            known: Vec::new(),
            alternate: self.state().join("vault"),
            state: self.state(),
            holder: Own::Tip,
            limits: Limits::default(),
            rules: Rules::default(),
        }
    }

    pub(crate) async fn receive(&self, pack: Vec<u8>, tip: &Oid) -> Result<Accepted, GateError> {
        self.gate()
            .receive(Input::Bytes(pack), tip, &self.cancel)
            .await
    }

    /// The gate accepts `tip`.
    pub(crate) async fn accept(&self, tip: &Oid) -> Accepted {
        let accepted = self.receive(self.pack(tip.as_str()), tip).await.unwrap();
        self.nothing_else_changed();
        assert_eq!(self.user(&["rev-parse", &accepted.tip_ref()]), tip.as_str());
        accepted
    }

    /// The gate refuses it, keeps the pack, and the repository is what it was.
    pub(crate) async fn refuse(&self, pack: Vec<u8>, tip: &Oid) -> Refusal {
        let before = objects(&self.host());
        let error = self
            .receive(pack.clone(), tip)
            .await
            .expect_err("must be refused");
        let GateError::Refused { why, pack: kept } = error else {
            panic!("{error}")
        };
        assert_eq!(std::fs::read(kept.unwrap()).unwrap(), pack);
        assert_eq!(objects(&self.host()), before);
        assert_eq!(self.all_refs(), self.refs);
        self.nothing_else_changed();
        let text = why.to_string();
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        why
    }

    pub(crate) async fn refuse_tree(&self, tip: &Oid, path: &str) {
        let why = self.refuse(self.pack(tip.as_str()), tip).await;
        let Refusal::Tree(violations) = &why else {
            panic!("{path}: {why}")
        };
        assert!(
            violations.iter().any(|one| one.path == Path::new(path)),
            "{path}: {why}"
        );
    }

    pub(crate) fn all_refs(&self) -> String {
        self.user(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    pub(crate) fn nothing_else_changed(&self) {
        let own = format!("refs/cofferdam/{}/", self.id);
        let others: Vec<String> = self
            .all_refs()
            .lines()
            .filter(|l| !l.starts_with(&own))
            .map(str::to_owned)
            .collect();
        assert_eq!(others.join("\n"), self.refs);
        self.sound();
    }

    pub(crate) fn sound(&self) {
        let (done, _) = try_git(
            &self.git,
            &self.host(),
            b"",
            &["fsck", "--full", "--strict", "--no-dangling"],
        );
        assert!(done.ok, "{}", done.err);
        for path in objects(&self.host()) {
            let name = path.to_string_lossy().into_owned();
            assert!(
                !name.contains("incoming") && !name.contains("tmp_") && !name.contains(".keep"),
                "{name}"
            );
        }
        assert!(!self.host().join(".git/index.lock").exists());
        assert!(!self.state().join("incoming.pack").exists());
        assert!(!self.state().join("landing.json").exists());
    }
}

pub(crate) fn put(top: &Path, path: &str, content: &str) {
    let path = top.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    #[expect(
        clippy::disallowed_methods,
        reason = "the tests act as the user and as the sandbox"
    )]
    std::fs::write(path, content).unwrap();
}

pub(crate) fn read(top: &Path, path: &str) -> String {
    std::fs::read_to_string(top.join(path)).unwrap()
}

/// Every file below `.git/objects`.
pub(crate) fn objects(host: &Path) -> BTreeSet<PathBuf> {
    pub(crate) fn below(dir: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                found.insert(entry.path());
                below(&entry.path(), found);
            } else {
                found.insert(entry.path());
            }
        }
    }
    let mut found = BTreeSet::new();
    below(&host.join(".git/objects"), &mut found);
    found
}

pub(crate) fn identity() -> Identity {
    Identity {
        name: "U".into(),
        email: "u@example.com".into(),
    }
}

impl World {
    pub(crate) fn head(&self) -> Head {
        self.repo.head.clone()
    }

    /// The agent writes `files` and commits; in `head` mode the same files are in the user's tree.
    pub(crate) async fn work(&self, files: &[(&str, &str)], also_in_host: bool) -> Accepted {
        for (path, content) in files {
            put(&self.inside(), path, content);
            if also_in_host {
                put(&self.host(), path, content);
            }
        }
        let tip = self.commit("work");
        self.receive(self.pack(tip.as_str()), &tip).await.unwrap()
    }

    pub(crate) async fn land_head(&self, accepted: &Accepted) -> land::Landed {
        land::head(
            &self.repo,
            &self.head(),
            accepted,
            &self.state(),
            &self.cancel,
        )
        .await
        .unwrap()
    }

    pub(crate) async fn merge(&self, accepted: &Accepted) -> land::Landed {
        let target = Merging {
            start: &self.head(),
            source: None,
            identity: &identity(),
            message: "Merge the sandbox's work\n",
            squash: false,
            has: None,
        };
        land::merge_to_head(
            &self.repo,
            &target,
            &accepted.into(),
            &self.state(),
            &|_| None,
            &self.cancel,
        )
        .await
        .unwrap()
    }

    pub(crate) fn status(&self) -> String {
        // Without the trimming of `user`, which would eat the first column.
        let (done, bytes) = try_git(&self.git, &self.host(), b"", &["status", "--porcelain"]);
        assert!(done.ok, "{}", done.err);
        String::from_utf8(bytes).unwrap()
    }
}

pub(crate) fn assert_landed(landed: &land::Landed, tip: &Oid) {
    match &landed.landing {
        Landing::Landed { tip: at, .. } => assert_eq!(at, tip),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn assert_kept(landed: &land::Landed, word: &str) {
    match &landed.landing {
        Landing::Kept { why, .. } => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    }
}
