//! A second provider written outside of the library: its sandboxes have files of their own and no git, so what their
//! agents change comes home as files.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam::sandbox::{
    Abilities, Ability, Access, BindMountProvider, CopyStrategy, ExecRequest, Execution, Isolated,
    IsolatedProvider, IsolatedSandbox, Mount, MountSource, NetworkKind, Sandbox, SandboxError,
    SandboxSpec,
};
use cofferdam::session::{Landing, RunErrorKind};
use cofferdam_guest::protocol::files::{self, Entry};
use tokio_util::sync::CancellationToken;

use crate::bad_input::{whole, whole_ok};
use crate::support::{Env, command, provider};

/// What it says when it is asked what changed.
#[derive(Debug, Clone)]
enum Answer {
    Honest,
    /// This, and that it is done.
    Lie(Vec<u8>),
    /// So many bytes of one file.
    Flood(u64),
    Hang,
    Fail,
}

#[derive(Debug)]
struct Plain {
    native: Arc<dyn BindMountProvider>,
    abilities: &'static [Ability],
    answer: Answer,
    /// What lies over every git that the host shows.
    nothing: tempfile::NamedTempFile,
}

impl Plain {
    fn new(answer: Answer) -> Self {
        let nothing = tempfile::NamedTempFile::new().unwrap();
        let readable = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(nothing.path(), readable).unwrap();
        Self {
            native: provider(),
            abilities: &[Ability::Files, Ability::Pause],
            answer,
            nothing,
        }
    }
}

#[async_trait]
impl IsolatedProvider for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None],
            others: self.abilities,
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        assert!(spec.mounts.is_empty());
        let mut own = spec.clone();
        let files = tempfile::tempdir().unwrap();
        own.mounts.push(Mount {
            source: MountSource::Path(files.path().to_owned()),
            target: spec.workdir.clone(),
            access: Access::ReadWrite,
        });
        for git in ["/usr/local/bin/git", "/usr/bin/git"] {
            if Path::new(git).exists() {
                own.mounts.push(Mount {
                    source: MountSource::Path(self.nothing.path().to_owned()),
                    target: git.into(),
                    access: Access::ReadOnly,
                });
            }
        }
        Ok(Arc::new(Island {
            inner: self.native.create(&own, cancel).await?,
            answer: self.answer.clone(),
            _files: files,
        }))
    }
}

#[derive(Debug)]
struct Island {
    inner: Arc<dyn Sandbox>,
    answer: Answer,
    _files: tempfile::TempDir,
}

#[async_trait]
impl Sandbox for Island {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        self.inner.exec(request).await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.inner.close().await
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        self.inner.stay().await
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.inner.freeze().await
    }

    async fn thaw(&self) -> Result<(), SandboxError> {
        self.inner.thaw().await
    }

    async fn unpack(
        &self,
        directory: &Path,
        tracked: bool,
        entries: OwnedFd,
        known: OwnedFd,
    ) -> Result<(), SandboxError> {
        self.inner.unpack(directory, tracked, entries, known).await
    }

    async fn snapshot(
        &self,
        directory: &Path,
        largest: u64,
        known: OwnedFd,
        changes: OwnedFd,
    ) -> Result<(), SandboxError> {
        let mut to = std::fs::File::from(changes.try_clone().unwrap());
        let write = move |bytes: Vec<u8>, times: u64| {
            tokio::task::spawn_blocking(move || {
                // The host may let go at any time.
                _ = (0..times).try_for_each(|_| to.write_all(&bytes));
            })
        };
        match &self.answer {
            Answer::Honest => {
                drop(write);
                // Nobody changes the tree while it is looked at.
                assert!(self.inner.status().await.unwrap().frozen);
                return self
                    .inner
                    .snapshot(directory, largest, known, changes)
                    .await;
            }
            Answer::Lie(bytes) => write(bytes.clone(), 1).await.unwrap(),
            Answer::Flood(size) => {
                let entry = Entry::File {
                    path: b"flood".to_vec(),
                    mode: 0o644,
                    size: *size,
                };
                drop(changes);
                let mut bytes = Vec::new();
                files::write(&mut bytes, &entry).unwrap();
                bytes.resize(1 << 20, b'x');
                write(bytes, size >> 20).await.unwrap();
            }
            Answer::Hang => std::future::pending().await,
            Answer::Fail => {
                return Err(SandboxError::Files {
                    action: "read what changed in",
                    reason: "the wire was cut".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl IsolatedSandbox for Island {}

fn agent(script: &str) -> Arc<dyn cofferdam::agent::AgentProvider> {
    command(&["/bin/sh", "-ec", script])
}

fn topic() -> CopyStrategy {
    CopyStrategy::Branch {
        branch: "topic".parse().unwrap(),
        base: None,
    }
}

/// A repository with what a tree can have.
fn env() -> Env {
    let env = Env::new();
    env.write("run.sh", "#!/bin/sh\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(env.repo.join("run.sh"), executable).unwrap();
    std::os::unix::fs::symlink("README.md", env.repo.join("link")).unwrap();
    env.write(".gitignore", "*.o\n/built/\n!kept.o\n");
    env.write("deep/er/.gitignore", "local\n");
    env.write("deep/er/file", "deep\n");
    env.write("built/tracked", "tracked although ignored\n");
    env.write("windows.txt", "one\r\ntwo\r\n");
    env.write("name with \"quotes\" and\ttab", "odd\n");
    env.git(&["add", "-f", "built/tracked"]);
    env.commit_all("more");
    env
}

// covers: S2-1 S2-7 S2-8
#[test]
fn what_changed_comes_home_as_one_commit() {
    for (strategy, moves) in [(CopyStrategy::MergeToHead, "main"), (topic(), "topic")] {
        let env = env();
        env.write("copied", "asked for\n");
        let script = "
            ! command -v git
            test -x run.sh; test -L link; test ! -e .git
            test \"$(cat copied)\" = 'asked for'
            test \"$(stat -c %u run.sh)\" = \"$(id -u)\"
            printf 'one\\r\\ntwo\\r\\n' | cmp - windows.txt
            echo more >> README.md
            echo new > 'new file'; chmod +x 'new file'
            mkdir -p other/place; mv src/a.txt other/place/; ln -s place other/also
            chmod -x run.sh
            touch x.o kept.o deep/er/local local; mkdir -p built; echo big > built/new; echo changed > built/tracked
            rm link; mkdir link; echo in > link/README
            mkfifo pipe
            mkdir -p nested/.git; echo x > nested/.git/config; echo y > nested/y
            echo '<promise>COMPLETE</promise>'";
        let mut options = env.with(
            Isolated::new(Plain::new(Answer::Honest), strategy),
            agent(script),
        );
        options.session.copy = vec!["copied".into()];
        let report = whole_ok(&env, options, &[&format!("refs/heads/{moves}")]);
        assert!(report.completion.is_some());
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
        assert_eq!(report.commits.len(), 1);
        let subject = format!("Work of the sandbox {}", report.name);
        assert_eq!(env.subjects(moves), ["first", "more", &subject]);
        let who = env.git(&["log", "-1", "--format=%an %ae %cn", moves]);
        assert_eq!(who, "User user@example.com User");
        let changed = env.git(&[
            "-c",
            "core.quotePath=off",
            "diff",
            "--raw",
            "--no-renames",
            "--abbrev=4",
            &format!("{moves}^"),
            moves,
        ]);
        let changed: Vec<String> = changed
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.splitn(5, ' ').collect();
                let (kind, path) = words[4].split_once('\t').unwrap();
                format!("{kind} {} {path}", words[1])
            })
            .collect();
        assert_eq!(
            changed,
            [
                "M 100644 README.md",
                "M 100644 built/tracked",
                "A 100644 kept.o",
                "D 000000 link",
                "A 100644 link/README",
                "A 100644 local",
                "A 100644 nested/y",
                "A 100755 new file",
                "A 120000 other/also",
                "A 100644 other/place/a.txt",
                "M 100644 run.sh",
                "D 000000 src/a.txt",
            ]
        );
        assert_eq!(
            env.git(&["show", &format!("{moves}:README.md")]),
            "hello\nmore"
        );
        assert!(
            env.said()
                .contains("`pipe` stays in the sandbox: it is no file"),
            "{}",
            env.said()
        );
        // Of a branch that was made for it the record stays, and nothing else.
        let left = std::fs::read_dir(env.home.sandbox(report.id))
            .into_iter()
            .flatten();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        let expected: &[&str] = if moves == "main" {
            &[]
        } else {
            &["lock", "record.json"]
        };
        let others = left
            .iter()
            .filter(|name| !expected.iter().any(|one| name == one));
        assert_eq!(others.count(), 0, "{left:?}");
    }
}

/// Each iteration finds what the one before left, and all of it comes home, in one commit.
#[test]
fn what_several_iterations_changed_comes_home() {
    let env = env();
    let script = "
        echo again >> README.md; count=$(wc -l < README.md); echo x > new.$count
        case $count in 2) rm src/a.txt;; 3) test ! -e src/a.txt; test -e new.2; rm new.2;; esac";
    let isolated = Isolated::new(Plain::new(Answer::Honest), topic());
    let mut options = env.with(isolated, agent(script));
    crate::support::iterations(&mut options, 3);
    let report = whole_ok(&env, options, &["refs/heads/topic"]);
    assert_eq!(report.iterations.len(), 3);
    assert_eq!(report.commits.len(), 1);
    let changed = env.git(&["diff", "--name-status", "topic^", "topic"]);
    assert_eq!(changed, "M\tREADME.md\nA\tnew.3\nA\tnew.4\nD\tsrc/a.txt");
    let readme = env.git(&["show", "topic:README.md"]);
    assert_eq!(readme, "hello\nagain\nagain\nagain");
}

#[test]
fn nothing_changed_is_no_commit() {
    let env = env();
    let script = "cat README.md; touch x.o; cp -a README.md a; mv a README.md";
    let isolated = Isolated::new(Plain::new(Answer::Honest), topic());
    let report = whole_ok(
        &env,
        env.with(isolated, agent(script)),
        &["refs/heads/topic"],
    );
    assert!(
        matches!(report.landing, Landing::Nothing),
        "{}",
        report.landing
    );
    env.assert_no_state();
}

/// Whatever the repository is like, and with paths that nobody inside may see.
#[test]
fn another_kind_of_repository_and_hidden_paths() {
    let env = Env::at("repo".as_ref(), &["--object-format=sha256"]);
    env.write("secret/key", "key\n");
    env.write("plain", "plain\n");
    env.commit_all("more");
    let script = "test ! -e secret; mkdir secret; echo mine > secret/key; echo more >> plain";
    let isolated = Isolated::new(Plain::new(Answer::Honest), topic());
    let mut options = env.with(isolated, agent(script));
    options.session.hide = vec!["secret".into()];
    let report = whole_ok(&env, options, &["refs/heads/topic"]);
    assert!(
        matches!(report.landing, Landing::Landed { .. }),
        "{}",
        report.landing
    );
    assert_eq!(env.git(&["show", "topic:plain"]), "plain\nmore");
    assert_eq!(env.git(&["show", "topic:secret/key"]), "key");
}

/// What was changed back to look as it was is seen all the same.
#[test]
fn a_change_that_hides_is_seen() {
    let env = env();
    let script = "
        cp -p README.md stamp; printf 'hallo\\n' > README.md; touch -r stamp README.md; rm stamp
        mv deep/er/file x; mv windows.txt deep/er/file; mv x windows.txt";
    let isolated = Isolated::new(Plain::new(Answer::Honest), topic());
    whole_ok(
        &env,
        env.with(isolated, agent(script)),
        &["refs/heads/topic"],
    );
    assert_eq!(env.git(&["show", "topic:README.md"]), "hallo");
    assert_eq!(env.git(&["show", "topic:windows.txt"]), "deep");
}

/// The gate is the same one: a link out of the tree and a protected path are refused, and what it was is kept.
#[test]
fn what_the_gate_refuses_is_kept() {
    for script in [
        "ln -s ../../etc/passwd out",
        "mkdir .husky; echo x > .husky/pre-commit",
    ] {
        let env = env();
        let isolated = Isolated::new(Plain::new(Answer::Honest), topic());
        let report = whole_ok(
            &env,
            env.with(isolated, agent(script)),
            &["refs/heads/topic"],
        );
        let Landing::Refused {
            pack: Some(pack), ..
        } = &report.landing
        else {
            panic!("{}", report.landing);
        };
        assert!(pack.metadata().unwrap().len() > 0);
        crate::support::target(&env, &report.name).delete();
    }
}

#[test]
fn who_can_neither_pack_nor_tell_is_refused_before_anything_is_made() {
    let env = env();
    let mut plain = Plain::new(Answer::Honest);
    plain.abilities = &[Ability::Outlive];
    let error = whole(
        &env,
        env.with(Isolated::new(plain, topic()), agent("true")),
        &[],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the provider `plain` cannot take files in and tell which of them changed"
    );
    env.assert_no_state();
}

fn stream(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        files::write(&mut bytes, entry).unwrap();
        if let Entry::File { size, .. } = entry {
            bytes.resize(bytes.len() + usize::try_from(*size).unwrap(), b'x');
        }
    }
    bytes
}

fn file(path: &str) -> Entry {
    Entry::File {
        path: path.into(),
        mode: 0o4755,
        size: 3,
    }
}

/// Runs with a sandbox that answers so, within a bound.
fn answered(env: &Env, answer: Answer) -> Result<Landing, RunErrorKind> {
    let isolated = Isolated::new(Plain::new(answer), topic());
    let mut options = env.with(isolated, agent("echo work > work"));
    options.session.timeouts.collect = Duration::from_secs(6);
    let began = Instant::now();
    let done = whole(env, options, &[]);
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    done.map(|report| report.landing)
        .map_err(|error| error.kind)
}

/// Whatever a sandbox says has changed: no file of the host's changes by it, no reference moves, and it is kept.
#[test]
fn lies_about_what_changed_are_refused_and_kept() {
    let end = Entry::End { left: 0 };
    let outside = tempfile::NamedTempFile::new().unwrap();
    let absolute = outside.path().to_str().unwrap();
    let mut lies = Vec::new();
    for path in [
        "../out",
        absolute,
        "a/../../out",
        ".git/hooks/pre-commit",
        "sub/.GIT/config",
        "git~1",
        "a\\b",
        "a//b",
        "",
    ] {
        lies.push((stream(&[file(path), end.clone()]), "the path"));
    }
    lies.push((stream(&[file("cut")]), "cut off"));
    lies.push((vec![0xff; 4000], "protocol"));
    lies.push((Vec::new(), "cut off"));
    lies.push((stream(&[end.clone(), file("behind")]), "follows its end"));
    let target = absolute.into();
    let link = Entry::Link {
        path: "l".into(),
        target,
    };
    lies.push((stream(&[link, end]), "its target is absolute"));
    for (bytes, words) in lies {
        let env = env();
        let landing = answered(&env, Answer::Lie(bytes.clone())).unwrap();
        let Landing::Refused { pack, why } = &landing else {
            panic!("{words}: {landing}");
        };
        assert!(why.contains(words), "{words}: {why}");
        assert!(pack.as_ref().is_some_and(|pack| pack.exists()), "{landing}");
        assert_eq!(outside.path().metadata().unwrap().len(), 0);
    }
}

/// A link first and a file behind it, as archives are made that are written through: no file of the host's is, and what lands is
/// what stands there last.
#[test]
fn no_file_is_written_through_a_link_that_came_before_it() {
    for target in ["src", "../outside"] {
        let env = env();
        let outside = env.dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let link = Entry::Link {
            path: "l".into(),
            target: target.into(),
        };
        let entries = [link, file("l/a.txt"), Entry::End { left: 0 }];
        let isolated = Isolated::new(Plain::new(Answer::Lie(stream(&entries))), topic());
        let options = env.with(isolated, agent("echo work > work"));
        let report = whole_ok(&env, options, &["refs/heads/topic"]);
        match &report.landing {
            Landing::Landed { .. } => {
                let tree = env.git(&["ls-tree", "-r", "topic", "l"]);
                assert!(
                    tree.ends_with("\tl/a.txt") && tree.lines().count() == 1,
                    "{tree}"
                );
                let as_it_was = env.git(&["show", "topic:src/a.txt"]);
                assert_eq!(as_it_was, "one\ntwo\nthree");
            }
            Landing::Refused { pack, .. } => assert!(pack.is_some()),
            other => panic!("{other}"),
        }
        assert_eq!(env.read("src/a.txt"), "one\ntwo\nthree\n");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}

#[test]
fn a_sandbox_that_does_not_say_what_changed_is_given_up() {
    let env = env();
    let error = answered(&env, Answer::Hang).unwrap_err();
    assert!(
        error.to_string().contains("did not finish within"),
        "{error}"
    );
    let error = answered(&env, Answer::Fail).unwrap_err();
    assert!(error.to_string().contains("the wire was cut"), "{error}");
}

/// It costs what has come so far, and ends.
#[test]
fn a_flood_ends_at_its_bound() {
    let env = env();
    let landing = answered(&env, Answer::Flood(2 << 30)).map_err(|error| error.to_string());
    match landing {
        Ok(Landing::Refused { why, .. }) => assert!(why.contains("bytes"), "{why}"),
        Err(error) => assert!(error.contains("did not finish within"), "{error}"),
        other => panic!("{other:?}"),
    }
}
