//! The commit gate and the landings, with real git: what passes, what is refused, and that nothing
//! else of the repository changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam::git::gate::{Accepted, Gate, GateError, Limits, Refusal, Rules};
use cofferdam::git::land::{self, Target};
use cofferdam::git::refs;
use cofferdam::git::{Git, Head, Identity, Oid, Repository, nested};
use cofferdam::names::{BranchName, SandboxId, Slug};
use cofferdam::process::Input;
use cofferdam::session::Landing;
use tokio_util::sync::CancellationToken;

/// Every git on this machine: the oldest that is supported should be among them.
fn gits() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in ["/usr/bin/git", "/usr/local/bin/git"] {
        if Path::new(path).exists() {
            found.push(path.into());
        }
    }
    assert!(!found.is_empty(), "these tests need git");
    found
}

struct Run {
    ok: bool,
    out: String,
    err: String,
}

fn try_git(git: &Path, dir: &Path, input: &[u8], args: &[&str]) -> (Run, Vec<u8>) {
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

struct World {
    git: PathBuf,
    dir: tempfile::TempDir,
    repo: Repository,
    base: Oid,
    id: SandboxId,
    refs: String,
    cancel: CancellationToken,
}

impl World {
    async fn new(git: &Path) -> Self {
        Self::with(git, |_| {}).await
    }

    async fn with(git: &Path, prepare: impl FnOnce(&dyn Fn(&[&str]))) -> Self {
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
        let repo = Repository::discover(&Git::new(git), &host, None, &cancel)
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

    fn host(&self) -> PathBuf {
        self.dir.path().join("host")
    }

    /// The sandbox's own repository.
    fn inside(&self) -> PathBuf {
        self.dir.path().join("box")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn user(&self, args: &[&str]) -> String {
        let (done, _) = try_git(&self.git, &self.host(), b"", args);
        assert!(done.ok, "{args:?}: {}", done.err);
        done.out
    }

    fn agent(&self, args: &[&str]) -> String {
        self.agent_with(b"", args)
    }

    fn agent_with(&self, input: &[u8], args: &[&str]) -> String {
        let (done, _) = try_git(&self.git, &self.inside(), input, args);
        assert!(done.ok, "{args:?}: {}", done.err);
        done.out
    }

    fn commit(&self, message: &str) -> Oid {
        self.agent(&["add", "-A"]);
        self.agent(&["commit", "-qm", message, "--no-verify", "--allow-empty"]);
        self.agent(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// A commit on the base whose tree is the base's plus the given raw entries.
    fn raw_commit(&self, entries: &[(&str, &[u8], &str)]) -> Oid {
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

    fn raw_tree(&self, mut entries: Vec<(String, Vec<u8>, String)>) -> String {
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

    fn blob(&self, content: &[u8]) -> String {
        self.agent_with(content, &["hash-object", "-w", "--stdin"])
    }

    fn pack(&self, tip: &str) -> Vec<u8> {
        self.pack_of(&format!("{tip}\n^{}\n", self.base))
    }

    fn pack_of(&self, revisions: &str) -> Vec<u8> {
        let args = ["pack-objects", "-q", "--revs", "--stdout", "--thin"];
        let (done, bytes) = try_git(&self.git, &self.inside(), revisions.as_bytes(), &args);
        assert!(done.ok, "{}", done.err);
        bytes
    }

    fn gate(&self) -> Gate {
        Gate {
            repo: self.repo.clone(),
            id: self.id,
            base: self.base.clone(),
            alternate: self.state().join("vault"),
            state: self.state(),
            limits: Limits::default(),
            rules: Rules::default(),
        }
    }

    async fn receive(&self, pack: Vec<u8>, tip: &Oid) -> Result<Accepted, GateError> {
        self.gate()
            .receive(Input::Bytes(pack), tip, &self.cancel)
            .await
    }

    /// The gate accepts `tip`.
    async fn accept(&self, tip: &Oid) -> Accepted {
        let accepted = self.receive(self.pack(tip.as_str()), tip).await.unwrap();
        self.nothing_else_changed();
        assert_eq!(self.user(&["rev-parse", &accepted.tip_ref()]), tip.as_str());
        accepted
    }

    /// The gate refuses it, keeps the pack, and the repository is what it was.
    async fn refuse(&self, pack: Vec<u8>, tip: &Oid) -> Refusal {
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

    async fn refuse_tree(&self, tip: &Oid, path: &str) {
        let why = self.refuse(self.pack(tip.as_str()), tip).await;
        let Refusal::Tree(violations) = &why else {
            panic!("{path}: {why}")
        };
        assert!(
            violations.iter().any(|one| one.path == path),
            "{path}: {why}"
        );
    }

    fn all_refs(&self) -> String {
        self.user(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    fn nothing_else_changed(&self) {
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

    fn sound(&self) {
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

fn put(top: &Path, path: &str, content: &str) {
    let path = top.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    #[expect(
        clippy::disallowed_methods,
        reason = "the tests act as the user and as the sandbox"
    )]
    std::fs::write(path, content).unwrap();
}

fn read(top: &Path, path: &str) -> String {
    std::fs::read_to_string(top.join(path)).unwrap()
}

/// Every file below `.git/objects`.
fn objects(host: &Path) -> BTreeSet<PathBuf> {
    fn below(dir: &Path, found: &mut BTreeSet<PathBuf>) {
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

#[tokio::test]
async fn plain_work_comes_home() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "new/file.rs", "fn main() {}\n");
        put(&w.inside(), "Makefile", "all:\n");
        w.commit("a\tsubject \u{1b}[2J");
        std::fs::remove_file(w.inside().join("c.txt")).unwrap();
        symlink("../a.txt", w.inside().join("dir/link")).unwrap();
        let tip = w.commit("second");
        let accepted = w.accept(&tip).await;
        let subjects: Vec<&str> = accepted
            .commits()
            .iter()
            .map(|c| c.subject.as_str())
            .collect();
        assert_eq!(subjects, ["a\tsubject \u{1b}[2J", "second"]);
        assert_eq!(accepted.executes(), ["Makefile"]);
        let changed: Vec<_> = accepted
            .changed()
            .iter()
            .map(|p| p.to_str().unwrap())
            .collect();
        assert_eq!(changed, ["Makefile", "c.txt", "dir/link", "new/file.rs"]);
        // The same again is no error.
        w.accept(&tip).await;
        // More on top of it.
        put(&w.inside(), "more", "x");
        let tip = w.commit("third");
        assert_eq!(w.accept(&tip).await.commits().len(), 3);
    }
}

#[tokio::test]
async fn merges_and_old_parents_pass() {
    for git in gits() {
        let w = World::new(&git).await;
        w.agent(&["checkout", "-qb", "side", "HEAD~1"]);
        put(&w.inside(), "side.txt", "s");
        w.commit("side");
        w.agent(&["checkout", "-q", "main"]);
        put(&w.inside(), "main.txt", "m");
        w.commit("main");
        w.agent(&["merge", "-q", "--no-edit", "side"]);
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        assert_eq!(w.accept(&tip).await.commits().len(), 3);
    }
}

#[tokio::test]
async fn hostile_refs_and_replacements_stay_inside() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "x", "x");
        let tip = w.commit("x");
        for name in [
            "refs/heads/evil",
            "refs/tags/v1",
            "refs/stash",
            "refs/heads/secret",
            "refs/remotes/origin/y",
        ] {
            w.agent(&["update-ref", name, tip.as_str()]);
        }
        w.agent(&["replace", "HEAD~1", "HEAD"]);
        let pack = {
            let (done, bytes) = try_git(
                &git,
                &w.inside(),
                format!("{tip}\n^{}\n", w.base).as_bytes(),
                &[
                    "--no-replace-objects",
                    "pack-objects",
                    "-q",
                    "--revs",
                    "--stdout",
                    "--thin",
                ],
            );
            assert!(done.ok);
            bytes
        };
        w.receive(pack, &tip).await.unwrap();
        w.nothing_else_changed();
    }
}

#[tokio::test]
async fn broken_packs() {
    for git in gits() {
        let w = World::new(&git).await;
        let long = (0..2000)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        put(&w.inside(), "a.txt", &long);
        w.commit("one");
        put(&w.inside(), "a.txt", &format!("{long}\nmore\n"));
        let tip = w.commit("two");
        let good = w.pack(tip.as_str());
        let mut flipped = good.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x55;
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("empty", Vec::new()),
            ("no pack", b"this is not a pack, whatever it says".to_vec()),
            ("half", good[..good.len() / 2].to_vec()),
            ("without its end", good[..good.len() - 1].to_vec()),
            ("header only", good[..12].to_vec()),
            ("flipped", flipped),
        ];
        for (name, pack) in cases {
            let why = w.refuse(pack, &tip).await;
            assert!(matches!(why, Refusal::Pack { .. }), "{name}: {why}");
        }
        // Positive control. What follows a whole pack is ignored.
        w.receive([good.clone(), good].concat(), &tip)
            .await
            .unwrap();
        w.accept(&tip).await;
    }
}

#[tokio::test]
async fn packs_with_holes() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "x", "x");
        let one = w.commit("one");
        put(&w.inside(), "y", "y");
        let two = w.commit("two");
        // The commit between is missing.
        let pack = w.pack_of(&format!("{two}\n^{one}\n"));
        let why = w.refuse(pack, &two).await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
        // The claimed tip is not in the pack; nor is it a commit.
        let why = w.refuse(w.pack(one.as_str()), &two).await;
        assert!(matches!(why, Refusal::TipMissing { .. }), "{why}");
        let blob: Oid = w.agent(&["rev-parse", "HEAD:y"]).parse().unwrap();
        let why = w.refuse(w.pack(two.as_str()), &blob).await;
        assert!(matches!(why, Refusal::TipMissing { .. }), "{why}");
        // A thin pack against a base that the host has, but that was never exported.
        let secret = w.user(&["rev-parse", "secret"]);
        let url = format!("file://{}", w.host().display());
        w.agent(&["fetch", "-q", &url, "secret"]);
        w.agent(&["checkout", "-q", &secret]);
        put(&w.inside(), "secret.txt", "the secret\nand more\n");
        let tip = w.commit("on the secret");
        let why = w
            .refuse(w.pack_of(&format!("{tip}\n^{secret}\n")), &tip)
            .await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
        w.accept(&two).await;
    }
}

#[tokio::test]
async fn objects_that_were_never_exported_cannot_be_named() {
    for git in gits() {
        let w = World::new(&git).await;
        let secret = w.user(&["rev-parse", "secret:secret.txt"]);
        let commit = w.raw_commit(&[("100644", b"stolen", &secret)]);
        let tree = w.agent(&["rev-parse", &format!("{commit}^{{tree}}")]);
        // A liar's pack: commit and tree without the blob.
        let (done, pack) = try_git(
            &git,
            &w.inside(),
            format!("{commit}\n{tree}\n").as_bytes(),
            &["pack-objects", "-q", "--stdout"],
        );
        assert!(done.ok, "{}", done.err);
        let why = w.refuse(pack, &commit).await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
    }
}

#[tokio::test]
async fn rewritten_history() {
    for git in gits() {
        let w = World::new(&git).await;
        w.agent(&["commit", "-q", "--amend", "-m", "other"]);
        let amended: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let tree = w.agent(&["rev-parse", "HEAD^{tree}"]);
        let orphan: Oid = w
            .agent(&["commit-tree", &tree, "-m", "orphan"])
            .parse()
            .unwrap();
        for tip in [&amended, &orphan] {
            let why = w.refuse(w.pack(tip.as_str()), tip).await;
            assert!(matches!(why, Refusal::NotDescendant { .. }), "{why}");
        }
        // Below the base: nothing new, but not a descendant either.
        let below: Oid = w.user(&["rev-parse", "main~1"]).parse().unwrap();
        let why = w.refuse(w.pack(below.as_str()), &below).await;
        assert!(matches!(why, Refusal::NotDescendant { .. }), "{why}");
        // A merge of unrelated history descends; that is the sandbox's own affair.
        let merge: Oid = w
            .agent(&[
                "commit-tree",
                &tree,
                "-p",
                w.base.as_str(),
                "-p",
                orphan.as_str(),
                "-m",
                "m",
            ])
            .parse()
            .unwrap();
        assert_eq!(w.accept(&merge).await.commits().len(), 2);
    }
}

#[tokio::test]
async fn hostile_names() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let names: &[&[u8]] = &[
            b".git",
            b".GIT",
            b".Git",
            b"git~1",
            b"GIT~1",
            ".g\u{200c}it".as_bytes(),
            b".git.",
            b".git ",
            b".git::$INDEX_ALLOCATION",
            b"..",
            b".",
            b"a\\b",
            b"..\\..\\x",
            "\u{ff0e}git".as_bytes(),
            b"with/slash",
            &[b'x'; 300],
        ];
        for name in names {
            let tip = w.raw_commit(&[("100644", name, &blob)]);
            let why = w.refuse(w.pack(tip.as_str()), &tip).await;
            assert!(
                matches!(why, Refusal::Pack { .. } | Refusal::Tree(_)),
                "{name:?}: {why}"
            );
            let shown = String::from_utf8_lossy(name).into_owned();
            if matches!(&*shown, "a\\b" | ".git." | "..\\..\\x") {
                assert!(
                    why.to_string().contains(&shown) || matches!(why, Refusal::Pack { .. }),
                    "{why}"
                );
            }
        }
        // As a directory, and deep.
        let inner = w.raw_tree(vec![("100644".into(), b"config".to_vec(), blob.clone())]);
        for name in [&b".git"[..], b".gIt", b".."] {
            let tip = w.raw_commit(&[("40000", name, &inner)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
            let outer = w.raw_tree(vec![("40000".into(), name.to_vec(), inner.clone())]);
            let tip = w.raw_commit(&[("40000", b"deep", &outer)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
        }
        // Twice, as file and file, and as file and directory.
        let tip = w.raw_commit(&[("100644", b"twice", &blob), ("100644", b"twice", &blob)]);
        w.refuse(w.pack(tip.as_str()), &tip).await;
        let tip = w.raw_commit(&[("100644", b"twice", &blob), ("40000", b"twice", &inner)]);
        w.refuse(w.pack(tip.as_str()), &tip).await;
        // Modes git does not know.
        for mode in ["100666", "0100644", "100664", "60000"] {
            let tip = w.raw_commit(&[(mode, b"mode", &blob)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
        }
        // Positive control: odd but harmless names; misleading ones are noted.
        let tip = w.raw_commit(&[
            ("100644", b"-rf", &blob),
            ("100755", b"a b", &blob),
            ("100644", b"\xff\xfe", &blob),
            ("100644", b"esc\x1b[2J\nx", &blob),
            ("100644", b"A.txt", &blob),
            ("100644", "größe".as_bytes(), &blob),
        ]);
        let accepted = w.accept(&tip).await;
        assert!(
            accepted
                .notes()
                .iter()
                .any(|note| note.contains("esc\\u{1b}[2J\\nx")),
            "{:?}",
            accepted.notes()
        );
        assert!(
            accepted
                .notes()
                .iter()
                .any(|note| note.contains("A.txt") && note.contains("a.txt")),
            "{:?}",
            accepted.notes()
        );
        assert!(
            accepted
                .notes()
                .iter()
                .all(|note| !note.contains(|c: char| c.is_control()))
        );
    }
}

#[tokio::test]
async fn a_bad_name_in_between_is_found() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let first = w.raw_commit(&[("100644", b"a\\b", &blob)]);
        let tree = w.agent(&["rev-parse", &format!("{}^{{tree}}", w.base)]);
        let tip: Oid = w
            .agent(&["commit-tree", &tree, "-p", first.as_str(), "-m", "gone"])
            .parse()
            .unwrap();
        w.refuse_tree(&tip, "a\\b").await;
    }
}

#[tokio::test]
async fn symlinks() {
    for git in gits() {
        let w = World::new(&git).await;
        for target in [
            "/etc/passwd",
            "../outside",
            "..",
            "dir/../../x",
            ".git/hooks",
            "dir/../a.txt",
            ".GIT",
        ] {
            let blob = w.blob(target.as_bytes());
            let tip = w.raw_commit(&[("120000", b"link", &blob)]);
            w.refuse_tree(&tip, "link").await;
        }
        let long = w.blob(&[b'x'; 5000]);
        let tip = w.raw_commit(&[("120000", b"link", &long)]);
        w.refuse_tree(&tip, "link").await;
        let empty = w.blob(b"");
        let tip = w.raw_commit(&[("120000", b"link", &empty)]);
        w.refuse_tree(&tip, "link").await;
        // A link first, a path below it later.
        let blob = w.blob(b"/tmp");
        let first = w.raw_commit(&[("120000", b"l", &blob)]);
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        put(&w.inside(), "l/x", "x");
        w.agent(&["add", "-A"]);
        let tree = w.agent(&["write-tree"]);
        let tip: Oid = w
            .agent(&["commit-tree", &tree, "-p", first.as_str(), "-m", "x"])
            .parse()
            .unwrap();
        w.refuse_tree(&tip, "l").await;
        let blob = w.blob(b"a.txt");
        let tip = w.raw_commit(&[("120000", b"link", &blob)]);
        w.accept(&tip).await;
    }
}

#[tokio::test]
async fn submodules_and_protected_paths() {
    for git in gits() {
        let w = World::new(&git).await;
        let tip = w.raw_commit(&[("160000", b"sub", w.base.as_str())]);
        w.refuse_tree(&tip, "sub").await;
        for content in [
            "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x\n",
            "nothing",
        ] {
            let blob = w.blob(content.as_bytes());
            for name in [".gitmodules", ".GitModules"] {
                let tip = w.raw_commit(&[("100644", name.as_bytes(), &blob)]);
                w.refuse_tree(&tip, name).await;
            }
        }
        let bad = w.blob(b"[submodule \"../../hooks\"]\n\tpath = x\n\turl = ext::sh -c touch\n");
        let tip = w.raw_commit(&[("100644", b".gitmodules", &bad)]);
        assert!(matches!(
            w.refuse(w.pack(tip.as_str()), &tip).await,
            Refusal::Pack { .. }
        ));

        for path in [
            ".husky/pre-commit",
            ".husky/new",
            ".cofferdam/config.yaml",
            ".Husky/x",
            ".HUSKY./x",
            ".husky /y",
        ] {
            w.agent(&["checkout", "-qf", w.base.as_str()]);
            put(&w.inside(), path, "evil");
            let tip = w.commit("protected");
            w.refuse_tree(&tip, path).await;
        }
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        w.agent(&["rm", "-qr", ".husky"]);
        let tip = w.commit("deleted");
        w.refuse_tree(&tip, ".husky/pre-commit").await;
        // Changed and changed back: seen, because each commit counts.
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        put(&w.inside(), ".husky/pre-commit", "evil");
        w.commit("there");
        put(&w.inside(), ".husky/pre-commit", "exit 0\n");
        let tip = w.commit("and back");
        w.refuse_tree(&tip, ".husky/pre-commit").await;
        // Replaced by a symlink.
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        w.agent(&["rm", "-qr", ".husky"]);
        symlink("dir", w.inside().join(".husky")).unwrap();
        let tip = w.commit("link");
        w.refuse_tree(&tip, ".husky").await;
    }
}

#[tokio::test]
async fn what_the_base_has_is_the_users_own() {
    for git in gits() {
        let w = World::with(&git, |run| {
            let id = "1234567890123456789012345678901234567890";
            run(&[
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("160000,{id},module"),
            ]);
            run(&["commit", "-qm", "a submodule"]);
        })
        .await;
        // A diff of a merge against an old parent lists what the base has itself.
        w.agent(&["checkout", "-qb", "side", "HEAD~1"]);
        put(&w.inside(), "side", "s");
        w.commit("side");
        w.agent(&["checkout", "-q", "main"]);
        w.agent(&["merge", "-q", "--no-edit", "side"]);
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        w.accept(&tip).await;
        // But another state of it is refused.
        w.agent(&[
            "update-index",
            "--cacheinfo",
            &format!("160000,{},module", w.base),
        ]);
        w.agent(&["commit", "-qm", "moved"]);
        let moved: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let error = w.receive(w.pack(moved.as_str()), &moved).await.unwrap_err();
        assert!(
            matches!(
                error,
                GateError::Refused {
                    why: Refusal::Tree(_),
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn limits() {
    for git in gits() {
        let w = World::new(&git).await;
        for n in 0..12 {
            put(&w.inside(), &format!("f{n}"), &"y".repeat(1000));
            w.commit("n");
        }
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let pack = w.pack(tip.as_str());
        let cases = [
            Limits {
                commits: 11,
                ..Limits::default()
            },
            Limits {
                paths: 11,
                ..Limits::default()
            },
            Limits {
                changes: 11,
                ..Limits::default()
            },
            Limits {
                blob_bytes: 999,
                ..Limits::default()
            },
            Limits {
                pack_bytes: pack.len() as u64 - 1,
                ..Limits::default()
            },
        ];
        for limits in cases {
            let gate = Gate {
                limits: limits.clone(),
                ..w.gate()
            };
            let error = gate
                .receive(Input::Bytes(pack.clone()), &tip, &w.cancel)
                .await
                .unwrap_err();
            assert!(
                matches!(error, GateError::Refused { .. }),
                "{limits:?}: {error}"
            );
            w.nothing_else_changed();
            assert_eq!(w.all_refs(), w.refs);
        }
        let limits = Limits {
            commits: 12,
            paths: 12,
            changes: 12,
            blob_bytes: 1000,
            pack_bytes: pack.len() as u64,
            ..Limits::default()
        };
        let gate = Gate { limits, ..w.gate() };
        gate.receive(Input::Bytes(pack), &tip, &w.cancel)
            .await
            .unwrap();
        w.nothing_else_changed();
    }
}

#[tokio::test]
async fn a_bomb_is_bounded_and_a_silent_sender_too() {
    for git in gits() {
        let w = World::new(&git).await;
        // 300 MB of zeros in a few hundred KB.
        put(&w.inside(), "bomb", "");
        std::fs::File::options()
            .write(true)
            .open(w.inside().join("bomb"))
            .unwrap()
            .set_len(300 << 20)
            .unwrap();
        let tip = w.commit("bomb");
        let pack = w.pack(tip.as_str());
        let gate = Gate {
            limits: Limits {
                memory: 100 << 20,
                blob_bytes: 1 << 20,
                ..Limits::default()
            },
            ..w.gate()
        };
        let error = gate
            .receive(Input::Bytes(pack), &tip, &w.cancel)
            .await
            .unwrap_err();
        assert!(
            matches!(error, GateError::Refused { .. } | GateError::Git(_)),
            "{error}"
        );
        w.nothing_else_changed();

        let (read_end, write_end) = std::io::pipe().unwrap();
        let gate = Gate {
            limits: Limits {
                time: Duration::from_millis(300),
                ..Limits::default()
            },
            ..w.gate()
        };
        let error = gate
            .receive(Input::Fd(read_end.into()), &tip, &w.cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, GateError::TimedOut(_)), "{error}");
        drop(write_end);
        let (read_end, write_end) = std::io::pipe().unwrap();
        let cancel = CancellationToken::new();
        let soon = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            soon.cancel();
        });
        let error = w
            .gate()
            .receive(Input::Fd(read_end.into()), &tip, &cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, GateError::Cancelled), "{error}");
        drop(write_end);
        w.nothing_else_changed();
    }
}

#[tokio::test]
async fn ten_thousand_commits() {
    let git = gits().pop().unwrap();
    let w = World::new(&git).await;
    let mut stream = String::new();
    for n in 0..10_000 {
        use std::fmt::Write;
        let from = if n == 0 {
            format!("from {}\n", w.base)
        } else {
            String::new()
        };
        writeln!(stream, "commit refs/heads/many\ncommitter A <a@b> {} +0000\ndata 1\nx\n{from}M 100644 inline f{}\ndata <<E\n{n}\nE\n", 1_700_000_000 + n, n % 100).unwrap();
    }
    w.agent_with(stream.as_bytes(), &["fast-import", "--quiet"]);
    let tip: Oid = w.agent(&["rev-parse", "many"]).parse().unwrap();
    assert_eq!(w.accept(&tip).await.commits().len(), 10_000);
}

fn identity() -> Identity {
    Identity {
        name: "U".into(),
        email: "u@example.com".into(),
    }
}

impl World {
    fn head(&self) -> Head {
        self.repo.head.clone()
    }

    /// The agent writes `files` and commits; in `head` mode the same files are in the user's tree.
    async fn work(&self, files: &[(&str, &str)], also_in_host: bool) -> Accepted {
        for (path, content) in files {
            put(&self.inside(), path, content);
            if also_in_host {
                put(&self.host(), path, content);
            }
        }
        let tip = self.commit("work");
        self.receive(self.pack(tip.as_str()), &tip).await.unwrap()
    }

    async fn land_head(&self, accepted: &Accepted) -> land::Landed {
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

    async fn merge(&self, accepted: &Accepted) -> land::Landed {
        let target = Target {
            start: &self.head(),
            source: None,
            identity: &identity(),
            message: "Merge the sandbox's work\n",
        };
        land::merge_to_head(
            &self.repo,
            &target,
            &accepted.into(),
            &self.state(),
            &self.cancel,
        )
        .await
        .unwrap()
    }

    fn status(&self) -> String {
        // Without the trimming of `user`, which would eat the first column.
        let (done, bytes) = try_git(&self.git, &self.host(), b"", &["status", "--porcelain"]);
        assert!(done.ok, "{}", done.err);
        String::from_utf8(bytes).unwrap()
    }
}

fn assert_landed(landed: &land::Landed, tip: &Oid) {
    match &landed.landing {
        Landing::Landed { tip: at, .. } => assert_eq!(at, tip),
        other => panic!("{other:?}"),
    }
}

fn assert_kept(landed: &land::Landed, word: &str) {
    match &landed.landing {
        Landing::Kept { why, .. } => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn branch_lands_by_compare_and_swap() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x")], false).await;
        let name: BranchName = "feature/a".parse().unwrap();
        let land = async |expected: Option<&Oid>| {
            land::branch(&w.repo, &name, expected, None, &accepted, &w.cancel)
                .await
                .unwrap()
        };
        let secret: Oid = w.user(&["rev-parse", "secret"]).parse().unwrap();
        // A branch that exists although none was expected.
        w.user(&["branch", "feature/a", "secret"]);
        assert!(matches!(land(None).await, Landing::Kept { .. }));
        // One that the commits do not contain, and one that is not where it was said to be.
        assert!(matches!(land(Some(&secret)).await, Landing::Kept { .. }));
        assert!(matches!(land(Some(&w.base)).await, Landing::Kept { .. }));
        assert_eq!(w.user(&["rev-parse", "feature/a"]), secret.as_str());
        // Checked out elsewhere.
        w.user(&["branch", "-f", "feature/a", "main"]);
        let tree = w.dir.path().join("tree");
        w.user(&["worktree", "add", "-q", tree.to_str().unwrap(), "feature/a"]);
        assert!(matches!(land(Some(&w.base)).await, Landing::Kept { .. }));
        // In the sandbox's own worktree it may be.
        let landing = land::branch(
            &w.repo,
            &name,
            Some(&w.base),
            Some(&tree),
            &accepted,
            &w.cancel,
        )
        .await
        .unwrap();
        assert!(matches!(landing, Landing::Landed { .. }), "{landing:?}");
        assert_eq!(w.user(&["rev-parse", "feature/a"]), accepted.tip().as_str());
        w.user(&["worktree", "remove", "--force", tree.to_str().unwrap()]);
        w.user(&["branch", "-D", "feature/a"]);
        assert!(matches!(land(None).await, Landing::Landed { .. }));
        let log = w.user(&["reflog", "feature/a"]);
        assert!(log.contains(&format!("cofferdam {}", w.id)), "{log}");
        // A branch that is a symbolic ref to main does not write through.
        w.user(&["symbolic-ref", "refs/heads/sym", "refs/heads/main"]);
        let sym: BranchName = "sym".parse().unwrap();
        land::branch(&w.repo, &sym, Some(&w.base), None, &accepted, &w.cancel)
            .await
            .unwrap();
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        w.sound();
    }
}

#[tokio::test]
async fn head_brings_branch_and_index_and_keeps_what_is_staged() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.host(), "staged.txt", "mine\n");
        put(&w.host(), "dir/b.txt", "staged by the user\n");
        w.user(&["add", "staged.txt", "dir/b.txt"]);
        w.user(&["rm", "-q", "--cached", "c.txt"]);
        put(&w.host(), "dir/b.txt", "and edited after\n");
        let accepted = w
            .work(
                &[
                    ("a.txt", "agent\n"),
                    ("new/n.txt", "n\n"),
                    ("dir/b.txt", "agent too\n"),
                    ("gone.txt", "g\n"),
                ],
                false,
            )
            .await;
        for path in ["a.txt", "new/n.txt"] {
            put(&w.host(), path, &read(&w.inside(), path));
        }
        put(&w.host(), "gone.txt", "the user wrote something else\n");
        let landed = w.land_head(&accepted).await;
        assert_landed(&landed, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "main"]), accepted.tip().as_str());
        assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/main");
        // `c.txt` staged as deleted is untracked on disk; `dir/b.txt` staged, edited again.
        assert_eq!(
            w.status(),
            "D  c.txt\nMM dir/b.txt\n M gone.txt\nA  staged.txt\n?? c.txt\n"
        );
        assert_eq!(w.user(&["show", ":dir/b.txt"]), "staged by the user");
        assert_eq!(read(&w.host(), "dir/b.txt"), "and edited after\n");
        assert_eq!(landed.changed_outside, ["dir/b.txt", "gone.txt"]);
        // The trap: a later `commit -a` must not revert anything of the agent's.
        w.user(&["commit", "-qam", "the user's"]);
        assert_eq!(w.user(&["show", "HEAD:a.txt"]), "agent");
        assert_eq!(w.user(&["show", "HEAD:new/n.txt"]), "n");
        w.sound();
    }
}

#[tokio::test]
async fn head_with_files_that_become_directories() {
    for git in gits() {
        let w = World::new(&git).await;
        // The agent turns a file into a directory; the user has that file staged.
        put(&w.host(), "a.txt", "staged\n");
        w.user(&["add", "a.txt"]);
        std::fs::remove_file(w.inside().join("a.txt")).unwrap();
        std::fs::remove_file(w.inside().join("c.txt")).unwrap();
        let accepted = w
            .work(&[("a.txt/inner", "i\n"), ("c.txt/inner", "i\n")], false)
            .await;
        std::fs::remove_file(w.host().join("c.txt")).unwrap();
        put(&w.host(), "c.txt/inner", "i\n");
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["show", ":a.txt"]), "staged");
        assert_eq!(w.user(&["ls-files", "c.txt"]), "c.txt/inner");
        w.sound();
    }
}

#[tokio::test]
async fn head_gives_way_to_the_user() {
    for git in gits() {
        // He committed.
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        put(&w.host(), "u", "u\n");
        w.user(&["add", "u"]);
        w.user(&["commit", "-qm", "mine"]);
        let mine = w.user(&["rev-parse", "main"]);
        let landed = w.land_head(&accepted).await;
        assert_kept(&landed, "new commits");
        assert_eq!(w.user(&["rev-parse", "main"]), mine);
        assert_eq!(w.status(), "?? x\n");
        w.sound();
        // He switched.
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        w.user(&["checkout", "-qb", "other"]);
        assert_kept(&w.land_head(&accepted).await, "another branch");
        assert_eq!(
            w.user(&["rev-parse", "other", "main"]),
            format!("{0}\n{0}", w.base)
        );
        w.sound();
        // He holds the index lock (an editor is open in `commit -a`).
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x\n")], true).await;
        put(&w.host(), ".git/index.lock", "");
        assert_kept(&w.land_head(&accepted).await, "index.lock");
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        std::fs::remove_file(w.host().join(".git/index.lock")).unwrap();
        w.sound();
    }
}

#[tokio::test]
async fn head_detached_and_in_a_linked_worktree() {
    for git in gits() {
        let mut w = World::new(&git).await;
        w.user(&["checkout", "-q", "--detach"]);
        w.repo = Repository::discover(&Git::new(&git), &w.host(), None, &w.cancel)
            .await
            .unwrap();
        let accepted = w.work(&[("x", "x\n")], true).await;
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "HEAD"]), accepted.tip().as_str());
        assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str());
        assert_eq!(w.status(), "");

        let tree = w.dir.path().join("a tree");
        w.user(&[
            "worktree",
            "add",
            "-q",
            "-b",
            "linked",
            tree.to_str().unwrap(),
            w.base.as_str(),
        ]);
        w.repo = Repository::discover(&Git::new(&git), &tree, None, &w.cancel)
            .await
            .unwrap();
        put(&tree, "x", "x\n");
        assert_landed(&w.land_head(&accepted).await, accepted.tip());
        let (done, _) = try_git(&git, &tree, b"", &["status", "--porcelain", "--branch"]);
        assert_eq!(done.out, "## linked");
        w.sound();
    }
}

#[tokio::test]
async fn merge_fast_forwards_and_updates_the_checkout() {
    for git in gits() {
        let w = World::new(&git).await;
        // Unrelated local work stays.
        put(&w.host(), "c.txt", "edited\n");
        put(&w.host(), "staged", "s\n");
        w.user(&["add", "staged"]);
        put(&w.host(), "untracked", "u\n");
        std::fs::remove_file(w.inside().join("dir/b.txt")).unwrap();
        let accepted = w
            .work(&[("a.txt", "agent\n"), ("deep/er/new", "n\n")], false)
            .await;
        let landed = w.merge(&accepted).await;
        assert_landed(&landed, accepted.tip());
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        assert_eq!(read(&w.host(), "deep/er/new"), "n\n");
        assert!(!w.host().join("dir").exists());
        assert_eq!(w.status(), " M c.txt\nA  staged\n?? untracked\n");
        w.sound();
    }
}

#[tokio::test]
async fn merge_makes_a_commit_or_says_what_conflicts() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.host(), "mine", "m\n");
        w.user(&["add", "mine"]);
        w.user(&["commit", "-qm", "mine"]);
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        let landed = w.merge(&accepted).await;
        let Landing::Landed { branch, tip } = &landed.landing else {
            panic!("{landed:?}")
        };
        assert_eq!(branch, "main");
        assert_eq!(w.user(&["rev-parse", "main^2"]), accepted.tip().as_str());
        assert_eq!(
            w.user(&["log", "-1", "--format=%an %ce %s", tip.as_str()]),
            "U u@example.com Merge the sandbox's work"
        );
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "agent\n");
        // Again: it is there already.
        assert_landed(&w.merge(&accepted).await, tip);

        let w = World::new(&git).await;
        put(&w.host(), "a.txt", "the user's line\n");
        w.user(&["commit", "-qam", "mine"]);
        let before = w.all_refs();
        let accepted = w.work(&[("a.txt", "the agent's line\n")], false).await;
        assert_kept(&w.merge(&accepted).await, "a.txt");
        assert_eq!(w.status(), "");
        assert_eq!(read(&w.host(), "a.txt"), "the user's line\n");
        let own = format!("\nrefs/cofferdam/{}/tip {}", w.id, accepted.tip());
        assert_eq!(
            format!("\n{}", w.all_refs()).replace(&own, ""),
            format!("\n{before}")
        );
        assert!(!w.host().join(".git/MERGE_HEAD").exists());
        w.sound();
    }
}

#[tokio::test]
async fn merge_never_overwrites_local_work() {
    for git in gits() {
        for case in ["edited", "staged", "untracked", "ignored", "directory"] {
            let w = World::new(&git).await;
            let file = match case {
                "edited" => {
                    put(&w.host(), "a.txt", "local\n");
                    "a.txt"
                }
                "staged" => {
                    put(&w.host(), "a.txt", "local\n");
                    w.user(&["add", "a.txt"]);
                    "a.txt"
                }
                "untracked" => {
                    put(&w.host(), "new", "local\n");
                    "new"
                }
                "ignored" => {
                    put(&w.host(), ".git/info/exclude", "new\n");
                    put(&w.host(), "new", "local\n");
                    "new"
                }
                _ => {
                    put(&w.host(), ".git/info/exclude", "new\n");
                    put(&w.host(), "new/inner", "local\n");
                    "new/inner"
                }
            };
            let before = w.status();
            let accepted = w
                .work(&[("a.txt", "agent\n"), ("new", "agent\n")], false)
                .await;
            let landed = w.merge(&accepted).await;
            assert_kept(&landed, file.split('/').next().unwrap());
            assert_eq!(w.user(&["rev-parse", "main"]), w.base.as_str(), "{case}");
            assert_eq!(read(&w.host(), file), "local\n", "{case}");
            assert_eq!(w.status(), before, "{case}");
            w.sound();
        }
    }
}

#[tokio::test]
async fn merge_follows_the_recorded_branch() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        assert_eq!(w.user(&["rev-parse", "main"]), accepted.tip().as_str());
        assert_eq!(w.user(&["symbolic-ref", "HEAD"]), "refs/heads/secret");
        assert_eq!(w.status(), "");
        w.sound();
        // Checked out in another working tree by now.
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        let tree = w.dir.path().join("tree");
        w.user(&["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
        assert_landed(&w.merge(&accepted).await, accepted.tip());
        assert_eq!(read(&tree, "a.txt"), "agent\n");
        assert_eq!(w.status(), "");
        w.sound();
        // Gone.
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n")], false).await;
        w.user(&["checkout", "-q", "secret"]);
        w.user(&["branch", "-qD", "main"]);
        assert_kept(&w.merge(&accepted).await, "gone");
        w.sound();
    }
}

#[tokio::test]
async fn a_landing_that_was_killed_is_finished() {
    for git in gits() {
        for files in ["are_there", "update"] {
            for point in 0..4 {
                let w = World::new(&git).await;
                put(&w.host(), "staged", "s\n");
                w.user(&["add", "staged"]);
                let in_host = files == "are_there";
                let accepted = w
                    .work(
                        &[("a.txt", "agent\n"), ("n/new", "n\n"), ("c.txt", "C\n")],
                        in_host,
                    )
                    .await;
                let bytes = |path: &Path| {
                    let text = path.to_string_lossy();
                    format!("{:?}", text.as_bytes())
                };
                let git_dir = w.host().join(".git");
                let journal = format!(
                    r#"{{"version":1,"id":"{}","files":"{files}","reference":"refs/heads/main","old":"{}","new":"{}","git_dir":{},"top":{}}}"#,
                    w.id,
                    w.base,
                    accepted.tip(),
                    bytes(&git_dir),
                    bytes(&w.host()),
                );
                put(&w.state(), "landing.json", &journal);
                // A process that is dead: ours with another start time.
                put(
                    &git_dir,
                    "index.lock",
                    &format!("cofferdam {} {} 1\n", w.id, std::process::id()),
                );
                if point >= 1 {
                    w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
                }
                if point >= 2 {
                    // A temporary index with its lock, and files half updated.
                    put(&git_dir, &format!("cofferdam-{}.index", w.id), "torn");
                    put(&git_dir, &format!("cofferdam-{}.index.lock", w.id), "torn");
                    put(&w.host(), "a.txt", "agent\n");
                }
                if point >= 3 && files == "update" {
                    put(&w.host(), "n/new", "n\n");
                    std::fs::remove_file(w.host().join("c.txt")).unwrap();
                }
                let landed = land::finish(&w.repo, &w.state(), &w.cancel)
                    .await
                    .unwrap()
                    .unwrap();
                assert_landed(&landed, accepted.tip());
                assert_eq!(w.status(), "A  staged\n", "{files} {point}");
                assert_eq!(read(&w.host(), "c.txt"), "C\n", "{files} {point}");
                assert_eq!(read(&w.host(), "n/new"), "n\n");
                w.sound();
                assert!(
                    land::finish(&w.repo, &w.state(), &w.cancel)
                        .await
                        .unwrap()
                        .is_none()
                );
            }
        }
    }
}

#[tokio::test]
async fn what_the_user_wrote_after_a_crash_stays() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("a.txt", "agent\n"), ("new", "n\n")], false).await;
        let bytes = |path: &Path| format!("{:?}", path.to_string_lossy().as_bytes());
        let journal = format!(
            r#"{{"version":1,"id":"{}","files":"update","reference":"refs/heads/main","old":"{}","new":"{}","git_dir":{},"top":{}}}"#,
            w.id,
            w.base,
            accepted.tip(),
            bytes(&w.host().join(".git")),
            bytes(&w.host()),
        );
        put(&w.state(), "landing.json", &journal);
        w.user(&["update-ref", "refs/heads/main", accepted.tip().as_str()]);
        put(&w.host(), "a.txt", "the user's\n");
        put(&w.host(), "new", "the user's as well\n");
        let landed = land::finish(&w.repo, &w.state(), &w.cancel)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(landed.changed_outside, ["a.txt", "new"]);
        assert_eq!(read(&w.host(), "a.txt"), "the user's\n");
        assert_eq!(read(&w.host(), "new"), "the user's as well\n");
        assert_eq!(w.status(), " M a.txt\n M new\n");
        w.sound();
    }
}

#[tokio::test]
async fn trash_keeps_and_expires() {
    for git in gits() {
        let w = World::new(&git).await;
        let accepted = w.work(&[("x", "x")], false).await;
        let slug = Slug::from_text("my box").unwrap();
        let name: BranchName = "cofferdam/my-box".parse().unwrap();
        land::branch(&w.repo, &name, None, None, &accepted, &w.cancel)
            .await
            .unwrap();
        let main: BranchName = "main".parse().unwrap();
        let error = refs::delete_branch_to_trash(&w.repo, &main, &w.base, &slug, &w.cancel)
            .await
            .unwrap_err();
        assert!(
            matches!(error, refs::RefError::CheckedOut { .. }),
            "{error}"
        );
        let error = refs::delete_branch_to_trash(&w.repo, &name, &w.base, &slug, &w.cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, refs::RefError::Moved { .. }), "{error}");
        let first = refs::delete_branch_to_trash(&w.repo, &name, accepted.tip(), &slug, &w.cancel)
            .await
            .unwrap();
        assert_eq!(first, "refs/cofferdam/trash/my-box");
        let second = refs::to_trash(&w.repo, &slug, &w.base, &[], &w.cancel)
            .await
            .unwrap();
        assert_eq!(second, "refs/cofferdam/trash/my-box-2");
        // The sandbox's own refs: the tip is in the trash already.
        assert!(
            refs::delete_own(&w.repo, w.id, &slug, &w.cancel)
                .await
                .unwrap()
                .is_empty()
        );
        let now = jiff::Timestamp::now();
        let days = |n: i64| now + jiff::SignedDuration::from_hours(24 * n);
        assert!(
            refs::expire(
                &w.repo,
                &std::collections::BTreeSet::new(),
                days(29),
                &w.cancel
            )
            .await
            .unwrap()
            .is_empty()
        );
        assert_eq!(refs::trash(&w.repo, &w.cancel).await.unwrap().len(), 2);
        assert_eq!(
            refs::expire(
                &w.repo,
                &std::collections::BTreeSet::new(),
                days(31),
                &w.cancel
            )
            .await
            .unwrap()
            .len(),
            2
        );
        w.nothing_else_changed();
        // Without any other holder the tip goes to the trash.
        let accepted = w.work(&[("y", "y")], false).await;
        assert_eq!(
            refs::delete_own(&w.repo, w.id, &slug, &w.cancel)
                .await
                .unwrap(),
            std::slice::from_ref(&first)
        );
        assert_eq!(w.user(&["rev-parse", &first]), accepted.tip().as_str());
    }
}

#[tokio::test]
async fn leftovers_of_the_dead_go_and_of_the_living_stay() {
    let git = gits().remove(0);
    let w = World::new(&git).await;
    let objects_dir = w.host().join(".git/objects");
    let dead = format!("incoming-cofferdam-{}-dead", w.id);
    put(&objects_dir, &format!("{dead}/pack/tmp_pack_x"), "x");
    put(&objects_dir, "incoming-abc/pack/tmp_pack_x", "git's own");
    let me = std::process::id();
    let start = cofferdam::process::start_time_of(me).unwrap();
    put(
        &objects_dir,
        "pack/pack-1.keep",
        &format!("cofferdam {} {me} 1", w.id),
    );
    put(&objects_dir, "pack/pack-1.pack", "no index");
    put(
        &objects_dir,
        "pack/pack-2.keep",
        &format!("cofferdam {} {me} {start}", w.id),
    );
    put(&objects_dir, "pack/pack-3.keep", "the user's");
    let alive = objects_dir.join(format!("incoming-cofferdam-{}-alive", w.id));
    std::fs::create_dir(&alive).unwrap();
    let lock = std::fs::File::open(&alive).unwrap();
    lock.lock().unwrap();
    let gone = cofferdam::git::gate::remove_stale(&w.repo).unwrap();
    assert_eq!(gone.len(), 2, "{gone:?}");
    for (path, there) in [
        (dead.as_str(), false),
        ("incoming-abc", true),
        ("pack/pack-1.keep", false),
        ("pack/pack-1.pack", false),
        ("pack/pack-2.keep", true),
        ("pack/pack-3.keep", true),
    ] {
        assert_eq!(objects_dir.join(path).exists(), there, "{path}");
    }
    assert!(alive.exists());
}

#[test]
fn nested_git_entries_move_out() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    let outside = dir.path().join("outside");
    put(&top, "sub/.git/config", "[core]\n\tfsmonitor = evil\n");
    put(&top, "old/.git/config", "the user's");
    put(&top, "file/.git", "gitdir: ../../evil");
    put(&outside, ".git/config", "must stay");
    symlink(&outside, top.join("link")).unwrap();
    let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
    let before = set(&["old/.git"]);
    let now = set(&[
        "old/.git",
        "sub/.git",
        "file/.git",
        "link/.git",
        "../outside/.git",
        "missing/.git",
    ]);
    let to = dir.path().join("state/nested");
    let result = land::move_out(&top, &before, &now, &to).unwrap();
    let moved: Vec<_> = result
        .moved
        .iter()
        .map(|(from, _)| from.to_str().unwrap())
        .collect();
    assert_eq!(moved, ["file/.git", "sub/.git"]);
    assert_eq!(result.failed.len(), 2, "{:?}", result.failed);
    assert!(!top.join("sub/.git").exists() && !top.join("file/.git").exists());
    assert!(top.join("old/.git/config").exists());
    assert_eq!(read(&outside, ".git/config"), "must stay");
    let kept = &result.moved[1].1;
    assert!(read(kept, "config").contains("fsmonitor"));
}

/// Root is never kept out, so this is for an ordinary user.
#[test]
fn nested_git_entries_in_closed_directories_move_out() {
    if rustix::process::geteuid().is_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copy = dir.path().join("gate");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the tests act as the user and as the sandbox"
        )]
        let done = std::process::Command::new("setpriv")
            .args(["--reuid", "1234", "--regid", "1234", "--clear-groups"])
            .arg(copy)
            .args([
                "--exact",
                "nested_git_entries_in_closed_directories_move_out",
            ])
            .current_dir("/")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    for place in ["itself", "above", "unlisted", "deep/unlisted", "."] {
        put(&top.join(place), ".git/config", "evil");
    }
    for (place, mode) in [
        ("itself/.git", 0o555),
        ("above", 0o555),
        ("unlisted", 0o111),
        ("deep/unlisted", 0o000),
        ("deep", 0o111),
        (".", 0o111),
    ] {
        std::fs::set_permissions(top.join(place), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let now = nested::scan(&top, nested::Closed::Open).unwrap();
    let to = dir.path().join("state/nested");
    let result = land::move_out(&top, &BTreeSet::new(), &now, &to).unwrap();
    assert!(result.failed.is_empty(), "{:?}", result.failed);
    assert_eq!(result.moved.len(), 4, "{:?}", result.moved);
    assert_eq!(
        nested::scan(&top, nested::Closed::Skip).unwrap(),
        BTreeSet::new()
    );
}

/// A small reproducible source of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What the user did, as he saw it succeed.
#[derive(Default)]
struct Deeds {
    disk: std::collections::BTreeMap<String, String>,
    staged: std::collections::BTreeMap<String, String>,
    commits: Vec<String>,
}

/// Edits, stages and commits until told to stop.
fn busy_user(
    git: &Path,
    host: &Path,
    seed: u64,
    stop: &std::sync::atomic::AtomicBool,
    deeds: &mut Deeds,
) {
    let mut choices = Choices(seed * 7919 + 1);
    let mut number = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let file = format!("mine{}", choices.below(4));
        match choices.below(8) {
            0..3 => {
                number += 1;
                let content = format!("{seed} {number}\n");
                put(host, &file, &content);
                deeds.disk.insert(file, content);
            }
            3..6 => {
                let Some(content) = deeds.disk.get(&file).cloned() else {
                    continue;
                };
                let added = try_git(git, host, b"", &["add", &file]).0.ok;
                if added {
                    deeds.staged.insert(file, content);
                }
            }
            6 => {
                try_git(git, host, b"", &["status"]);
            }
            _ if choices.below(4) == 0
                && try_git(git, host, b"", &["commit", "-qm", "mine"]).0.ok =>
            {
                deeds
                    .commits
                    .push(try_git(git, host, b"", &["rev-parse", "HEAD"]).0.out);
            }
            _ => {}
        }
    }
}

async fn land_beside_a_busy_user(git: &Path, seed: u64) -> bool {
    let w = World::new(git).await;
    let accepted = w
        .work(
            &[("a.txt", "agent\n"), ("agent/new", "n\n"), ("c.txt", "C\n")],
            true,
        )
        .await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (git, host, stopped) = (git.to_owned(), w.host(), stop.clone());
    let user = std::thread::spawn(move || {
        let mut deeds = Deeds::default();
        busy_user(&git, &host, seed, &stopped, &mut deeds);
        deeds
    });
    tokio::time::sleep(Duration::from_millis(Choices(seed + 99).below(60))).await;
    let landed = w.land_head(&accepted).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let deeds = user.join().unwrap();
    for (file, content) in &deeds.disk {
        assert_eq!(
            &read(&w.host(), file),
            content,
            "seed {seed}: disk of {file}"
        );
    }
    for (file, content) in &deeds.staged {
        assert_eq!(
            w.user(&["show", &format!(":{file}")]),
            content.trim_end(),
            "seed {seed}: index of {file}"
        );
    }
    let listed: BTreeSet<String> = w
        .user(&["ls-files", "mine*"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        listed,
        deeds.staged.keys().cloned().collect(),
        "seed {seed}"
    );
    for commit in &deeds.commits {
        w.user(&["merge-base", "--is-ancestor", commit, "main"]);
    }
    assert_eq!(
        w.user(&["rev-parse", &accepted.tip_ref()]),
        accepted.tip().as_str()
    );
    let staged = w.user(&["diff", "--cached", "--name-only"]);
    assert!(
        staged.lines().all(|path| path.starts_with("mine")),
        "seed {seed}: staged {staged}"
    );
    for (path, content) in [("a.txt", "agent\n"), ("agent/new", "n\n"), ("c.txt", "C\n")] {
        assert_eq!(read(&w.host(), path), content, "seed {seed}");
    }
    let is_landed = matches!(landed.landing, Landing::Landed { .. });
    if is_landed {
        w.user(&[
            "merge-base",
            "--is-ancestor",
            accepted.tip().as_str(),
            "main",
        ]);
        for path in ["a.txt", "agent/new", "c.txt"] {
            let at = |at: &str| w.user(&["rev-parse", &format!("{at}:{path}")]);
            assert_eq!(
                at("main"),
                at(accepted.tip().as_str()),
                "seed {seed}: {path}"
            );
        }
    } else {
        let (done, _) = try_git(
            &w.git,
            &w.host(),
            b"",
            &[
                "merge-base",
                "--is-ancestor",
                accepted.tip().as_str(),
                "main",
            ],
        );
        assert!(!done.ok, "seed {seed}: said to be kept, but it landed");
    }
    w.sound();
    is_landed
}

#[tokio::test]
async fn head_beside_a_user_who_edits_stages_and_commits() {
    let gits = gits();
    let mut landed = 0;
    for seed in 0..24 {
        let git = &gits[usize::try_from(seed).unwrap() % gits.len()];
        landed += u32::from(land_beside_a_busy_user(git, seed).await);
    }
    assert!(landed > 0, "never landed: the test shows nothing");
}
