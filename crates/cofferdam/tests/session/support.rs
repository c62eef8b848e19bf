//! A sealed environment: an own repository, an own home, no git configuration from outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use cofferdam::agent::{self, AgentOptions, AgentProvider};
use cofferdam::git::{Git, Identity};
use cofferdam::home::Home;
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind, Surroundings};
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, Contained, CopyStrategy, PrivateCopy,
};
use cofferdam::session::manage::{DeleteOptions, Deleted, ManageError, delete};
use cofferdam::session::{Event, EventSink, NetworkOptions, RunLog};
use cofferdam::{RunError, RunOptions, RunReport};
use cofferdam_lab::way::{Mode, Strategy, Way};

pub(crate) struct Env {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) repo: PathBuf,
    pub(crate) home: Home,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

impl Env {
    /// A repository with one commit on `main`: `README.md` and `src/a.txt`.
    pub(crate) fn new() -> Self {
        Self::at("repo".as_ref(), &[])
    }

    /// The same in a directory of this name, made by `git init` with more options.
    pub(crate) fn at(name: &std::ffi::OsStr, init: &[&str]) -> Self {
        Self::below(&std::env::temp_dir(), name, init)
    }

    /// The same, with all that it has below this directory.
    pub(crate) fn below(place: &Path, name: &std::ffi::OsStr, init: &[&str]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cofferdam-test-")
            .tempdir_in(place)
            .unwrap();
        let repo = dir.path().join(name);
        std::fs::create_dir_all(repo.join("src")).unwrap();
        std::fs::create_dir(dir.path().join("user")).unwrap();
        let home = Home::new(dir.path().join("user/.cofferdam"));
        let env = Self {
            dir,
            repo,
            home,
            events: Arc::default(),
        };
        env.git(&[&["init", "-q", "-b", "main"], init].concat());
        env.git(&["config", "user.name", "User"]);
        env.git(&["config", "user.email", "user@example.com"]);
        env.write("README.md", "hello\n");
        env.write("src/a.txt", "one\ntwo\nthree\n");
        env.commit_all("first");
        env
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.repo.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.repo.join(path)).unwrap()
    }

    pub(crate) fn commit_all(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Plain git as the user runs it in their checkout; must succeed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let done = self.try_git(&self.repo, arguments);
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success(),
            "git {arguments:?}: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        text.trim_end().to_owned()
    }

    pub(crate) fn try_git(&self, directory: &Path, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path().join("user"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap()
    }

    pub(crate) fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    pub(crate) fn subjects(&self, revision: &str) -> Vec<String> {
        let text = self.git(&["log", "--reverse", "--format=%s", revision]);
        text.lines().map(str::to_owned).collect()
    }

    /// Nothing of the run is left but what it said, and the repository is sound.
    pub(crate) fn assert_sound(&self) {
        self.git(&["fsck", "--full", "--strict", "--no-dangling"]);
        let status = self.git(&["status", "--porcelain"]);
        assert!(!status.contains("UU"), "{status}");
        for name in ["MERGE_HEAD", "index.lock", "HEAD.lock"] {
            assert!(
                !self.repo.join(".git").join(name).exists(),
                "{name} was left"
            );
        }
        let objects = std::fs::read_dir(self.repo.join(".git/objects")).unwrap();
        for entry in objects.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with("incoming"), "{name} was left");
        }
    }

    pub(crate) fn assert_no_state(&self) {
        let left: Vec<_> = std::fs::read_dir(self.home.state())
            .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "state was left: {left:?}");
    }

    /// Options for a shell script as agent, in the mode of this pass.
    pub(crate) fn script(&self, strategy: BranchStrategy, script: &str) -> RunOptions {
        self.options(strategy, command(&["/bin/sh", "-c", script]))
    }

    /// In the mode of this pass; `head` has one mode.
    pub(crate) fn options(
        &self,
        strategy: BranchStrategy,
        agent: Arc<dyn AgentProvider>,
    ) -> RunOptions {
        self.with(in_this_mode(provider(), strategy), agent)
    }

    /// In a linked worktree, for what is about one.
    pub(crate) fn bind(&self, strategy: BranchStrategy, script: &str) -> RunOptions {
        let sandbox = BindMount::new(provider(), strategy);
        self.with(sandbox, command(&["/bin/sh", "-c", script]))
    }

    /// In the mode of this pass, or in a linked worktree where that has no directory on the host: for what the host is to
    /// find there.
    pub(crate) fn in_a_directory(&self, strategy: BranchStrategy, script: &str) -> RunOptions {
        match Mode::of_this_pass() {
            Mode::Layer | Mode::Bind => self.bind(strategy, script),
            Mode::Copy => self.script(strategy, script),
        }
    }

    /// In one way of the table.
    pub(crate) fn in_way(&self, way: Way, script: &str) -> RunOptions {
        let strategy = match way.strategy {
            Strategy::Head => BranchStrategy::Head,
            Strategy::MergeToHead => BranchStrategy::MergeToHead,
            Strategy::Branch => BranchStrategy::Branch {
                branch: Strategy::BRANCH.parse().unwrap(),
                base: None,
            },
        };
        let sandbox = in_mode(provider(), way.mode, strategy);
        self.with(sandbox, command(&["/bin/sh", "-c", script]))
    }

    pub(crate) fn copy(&self, strategy: CopyStrategy, script: &str) -> RunOptions {
        self.with(
            PrivateCopy::new(provider(), strategy),
            command(&["/bin/sh", "-c", script]),
        )
    }

    pub(crate) fn layered(&self, strategy: CopyStrategy, script: &str) -> RunOptions {
        self.with(
            PrivateCopy::layered(provider(), strategy),
            command(&["/bin/sh", "-c", script]),
        )
    }

    pub(crate) fn with(
        &self,
        sandbox: impl Into<Contained>,
        agent: Arc<dyn AgentProvider>,
    ) -> RunOptions {
        let mut options = RunOptions::new(self.home.clone(), &self.repo, agent, sandbox);
        options.caller.git = host_git();
        options.task.log = RunLog::None;
        // Where the network matters, a test asks for it.
        options.session.network = NetworkOptions::None;
        options.session.identity = Some(Identity {
            name: "User".into(),
            email: "user@example.com".into(),
        });
        options.caller.user_home = Some(self.dir.path().join("user"));
        options.caller.environment = BTreeMap::from([(
            OsString::from("PATH"),
            OsString::from("/usr/local/bin:/usr/bin:/bin"),
        )]);
        let events = self.events.clone();
        options.caller.events =
            EventSink::new(move |event| events.lock().unwrap().push(event.clone()));
        options
    }

    /// What the events said, one line of debug text each.
    pub(crate) fn said(&self) -> String {
        let events = self.events.lock().unwrap();
        events.iter().map(|event| format!("{event:?}\n")).collect()
    }
}

/// The git that the host side uses: another one where `COFFERDAM_TEST_GIT` names it.
pub(crate) fn host_git() -> Git {
    Git::new(std::env::var_os("COFFERDAM_TEST_GIT").unwrap_or_else(|| "git".into()))
}

/// The sandbox of this strategy in the mode of this pass; `head` has one mode, and asks for none.
pub(crate) fn in_this_mode(
    provider: impl BindMountProvider + 'static,
    strategy: BranchStrategy,
) -> Contained {
    let mode = match strategy {
        BranchStrategy::Head => Mode::Bind,
        _ => Mode::of_this_pass(),
    };
    in_mode(provider, mode, strategy)
}

/// The sandbox of this strategy in this mode; `head` has one mode.
pub(crate) fn in_mode(
    provider: impl BindMountProvider + 'static,
    mode: Mode,
    strategy: BranchStrategy,
) -> Contained {
    let own = match strategy.clone() {
        BranchStrategy::Head => return BindMount::new(provider, strategy).into(),
        BranchStrategy::MergeToHead => CopyStrategy::MergeToHead,
        BranchStrategy::Branch { branch, base } => CopyStrategy::Branch { branch, base },
    };
    match mode {
        Mode::Layer => PrivateCopy::layered(provider, own).into(),
        Mode::Bind => BindMount::new(provider, strategy).into(),
        Mode::Copy => PrivateCopy::new(provider, own).into(),
    }
}

/// Names the engine in whose containers the sandboxes of this pass are.
const SANDBOX: &str = "COFFERDAM_TEST_SANDBOX";
/// What those have of programs. `scripts/test --all` makes it.
const IMAGE: &str = "tools:latest";

/// Who makes the sandboxes of this pass: natively, where it names no engine.
pub(crate) fn provider() -> Arc<dyn BindMountProvider> {
    let set = |name: &str| std::env::var_os(name);
    let Some(name) = set(SANDBOX) else {
        return Arc::new(Native::default());
    };
    let around = Surroundings {
        docker_host: set("DOCKER_HOST"),
        container_host: set("CONTAINER_HOST"),
        ..Surroundings::default()
    };
    let mut options = EngineOptions::new(std::env::temp_dir().join("engines"), around);
    options.image = Some(IMAGE.to_owned());
    Arc::new(Engine::new(
        Kind::named(name.to_str().unwrap()).unwrap(),
        options,
    ))
}

/// Whether the sandboxes of this pass are in containers: there is no other answer to what those do otherwise.
pub(crate) fn in_containers() -> bool {
    std::env::var_os(SANDBOX).is_some()
}

pub(crate) fn command(arguments: &[&str]) -> Arc<dyn AgentProvider> {
    agent::by_name("command", AgentOptions::with_arguments(arguments)).unwrap()
}

pub(crate) fn iterations(options: &mut RunOptions, count: u32) {
    options.task.max_iterations = NonZeroU32::new(count).unwrap();
}

pub(crate) fn run(options: RunOptions) -> Result<RunReport, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(cofferdam::run(options))
}

/// Succeeds, or says everything.
pub(crate) fn run_ok(options: RunOptions) -> RunReport {
    run(options).unwrap_or_else(|error| panic!("{error}\n{:#?}", error.kept))
}

/// Processes whose command line contains `mark`.
pub(crate) fn processes_with(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) && entry.file_name() != std::process::id().to_string().as_str() {
            found.push(line);
        }
    }
    found
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build().unwrap().block_on(future)
}

/// `cofferdam gc` in the test's home.
pub(crate) fn gc(env: &Env) -> cofferdam::session::manage::GcReport {
    let cancel = tokio_util::sync::CancellationToken::new();
    let (home, git) = (env.dir.path().join("user"), host_git());
    let done = cofferdam::session::manage::gc(
        &env.home,
        &git,
        Some(&env.repo),
        Some(&home),
        cofferdam::session::manage::GcOptions::default(),
        &|_| (),
        &cancel,
    );
    block_on(done).unwrap()
}

/// A sandbox as a command names it.
pub(crate) struct Named(pub(crate) cofferdam::session::manage::SandboxRef);

pub(crate) fn target(env: &Env, name: &impl ToString) -> Named {
    Named(cofferdam::session::manage::SandboxRef {
        home: env.home.clone(),
        git: host_git(),
        repository: env.repo.clone(),
        caller_home: Some(env.dir.path().join("user")),
        name: name.to_string(),
        cancel: tokio_util::sync::CancellationToken::new(),
    })
}

impl Named {
    /// The user lets go of it, and what it kept goes with it.
    pub(crate) fn delete(&self) {
        self.try_delete(true).unwrap();
    }

    pub(crate) fn try_delete(&self, force: bool) -> Result<Deleted, ManageError> {
        let mut options = DeleteOptions::default();
        options.force = force;
        block_on(delete(&self.0, options))
    }
}
