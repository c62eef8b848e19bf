//! What a sandbox is made of: the options that `run` and `create` share, and what the library is given for them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};
use cofferdam::config::{Cpus, ProviderKind, Strategy as Choice, is_image_name};
use cofferdam::names::{BASE_IMAGE, BranchName, RepoPath};
use cofferdam::network::NetworkKind;
use cofferdam::published::{self, PublishedPort};
use cofferdam::registry::{ExtraMount, Reach, Record};
use cofferdam::runs::RunRecord;
use cofferdam::sandbox::engine::{Engine, EngineOptions, Kind};
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, Contained, CopyStrategy, Limits, PrivateCopy,
};
use cofferdam::session::{Hook, Hooks, NetworkOptions, SessionOptions, parse_mount};
use cofferdam::wall::rules::{CheckError, Loaded};
use cofferdam::wall::{self, Origin, Rule, RuleError};

use super::defaults::Defaults;
use crate::environment::Environment;
use crate::error::{CliError, mount_hint};
use crate::ui::human::parse_memory;
use crate::ui::shell::shell_word;

/// Where commits go.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("strategy").args(["head", "merge_to_head", "branch"]))]
pub(super) struct Strategy {
    /// Work in this checkout itself; commits land on its branch
    #[arg(long, help_heading = "Branch strategy")]
    pub(super) head: bool,

    /// Work on a temporary branch and merge it into the checked-out branch when the run succeeds
    #[arg(long, help_heading = "Branch strategy")]
    pub(super) merge_to_head: bool,

    /// Work on this branch, which is made if it does not exist
    #[arg(long, value_name = "NAME", help_heading = "Branch strategy")]
    pub(super) branch: Option<BranchName>,

    /// Where a new branch starts; HEAD unless given
    #[arg(
        long,
        value_name = "REVISION",
        conflicts_with_all = ["head", "merge_to_head"],
        help_heading = "Branch strategy"
    )]
    pub(super) base: Option<String>,
}

impl Strategy {
    pub(super) fn is_named(&self) -> bool {
        self.head || self.merge_to_head || self.branch.is_some()
    }

    /// Puts the configuration's choice where the command line makes none. `can_share`: nothing else there is against it.
    pub(super) fn or(mut self, defaults: &Defaults, can_share: bool) -> Self {
        if !self.is_named() && self.base.is_none() {
            match defaults.strategy {
                Some(Choice::Head) => self.head = can_share,
                Some(Choice::MergeToHead) => self.merge_to_head = true,
                None => {}
            }
        }
        self
    }
}

/// What the sandbox sees and may use.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Sandbox {
    /// How the sandbox sees the files; `layer` where that is possible, else `bind`
    #[arg(long, value_enum, help_heading = "Sandbox")]
    pub(super) mode: Option<FileMode>,

    /// Where the sandbox is; `native` unless the configuration says otherwise
    #[arg(long = "sandbox", value_enum, help_heading = "Sandbox")]
    place: Option<ProviderName>,

    /// The image of a container; anything that the engine has
    #[arg(long, value_name = "IMAGE", value_parser = parse_image, help_heading = "Sandbox")]
    pub(super) image: Option<String>,

    /// Another runtime for a container than the engine's own, such as crun; one that the engine has
    #[arg(long, value_name = "NAME", help_heading = "Sandbox")]
    pub(super) runtime: Option<String>,

    /// A file or directory below the repository's top to copy in as it is, committed or not
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "head", help_heading = "Sandbox")]
    pub(super) copy: Vec<PathBuf>,

    /// A file or directory below the repository's top that the sandbox must not see; may be given more than once
    #[arg(long, value_name = "PATH", help_heading = "Sandbox")]
    hide: Vec<PathBuf>,

    /// A directory or file of this machine to show as well, at DST (`/mnt/NAME` unless given), read-only unless `:rw` follows; may
    /// be given more than once. Where a path has a colon: src=SRC,dst=DST,rw
    #[arg(
        long = "mount",
        value_name = "SRC[:DST][:rw]",
        help_heading = "Sandbox"
    )]
    mounts: Vec<OsString>,

    /// A variable for the programs inside; without a value it is taken from your environment
    #[arg(long = "env", value_name = "KEY[=VALUE]", help_heading = "Sandbox")]
    variables: Vec<OsString>,

    /// The most memory, swap included: 512m, 2g; 4m at least
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, help_heading = "Sandbox")]
    memory: Option<u64>,

    /// The most CPU time, in CPUs: 1.5
    #[arg(long, value_name = "NUMBER", value_parser = parse_cpus, help_heading = "Sandbox")]
    cpus: Option<f64>,

    /// The most processes
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Sandbox"
    )]
    pids: Option<u64>,

    /// What the sandbox may reach; `allowlist` unless given, or for `run` what the configuration says
    #[arg(long, value_parser = networks(), help_heading = "Network")]
    network: Option<NetworkKind>,

    /// Open this too, for this sandbox: example.com, db.example.com:5432, "db.example.com:8443 tls"
    #[arg(long, value_name = "RULE", help_heading = "Network")]
    allow: Vec<String>,

    /// Run on this machine, in the worktree, before the sandbox exists
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    on_worktree_ready: Vec<String>,

    /// Run on this machine when the sandbox is up
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    on_host_ready: Vec<String>,

    /// Run in the sandbox when it is up
    #[arg(long, value_name = "COMMAND", help_heading = "Hooks")]
    on_sandbox_ready: Vec<String>,
}

/// What of [`Sandbox`] is for a command line that makes a dev sandbox. The rest is the configuration's, where it stays.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct DevOptions {
    /// Where it is made; `native` unless the configuration says otherwise
    #[arg(long = "sandbox", value_enum, help_heading = "Dev sandbox")]
    place: Option<ProviderName>,

    /// The image of its container; the repository's own where there is one
    #[arg(long, value_name = "IMAGE", value_parser = parse_image, help_heading = "Dev sandbox")]
    image: Option<String>,

    /// A directory or file of this machine to show as well, as `cofferdam create --mount` takes it
    #[arg(
        long = "mount",
        value_name = "SRC[:DST][:rw]",
        help_heading = "Dev sandbox"
    )]
    mounts: Vec<OsString>,

    /// A variable for the programs inside; without a value it is taken from your environment
    #[arg(long = "env", value_name = "KEY[=VALUE]", help_heading = "Dev sandbox")]
    variables: Vec<OsString>,

    /// What it may reach; `allowlist` unless given
    #[arg(long, value_parser = networks(), help_heading = "Dev sandbox")]
    network: Option<NetworkKind>,

    /// A port of this machine's loopback that leads into it while it runs: 3000, or 8080:80 for port 80 inside; may be given more than
    /// once, also when a stopped one is started
    #[arg(
        long = "publish",
        short = 'p',
        value_name = "[PORT:]PORT",
        help_heading = "Dev sandbox"
    )]
    ports: Vec<PublishedPort>,
}

impl DevOptions {
    pub(super) fn made_in(given: MadeIn) -> Self {
        Self {
            place: given.place,
            image: given.image,
            ..Self::default()
        }
    }

    /// Where it is made, as it was given, to be typed again.
    pub(super) fn where_words(&self) -> String {
        let (place, image) = (self.place, self.image.clone());
        MadeIn { place, image }.words()
    }

    /// All of them, as they were given, to be typed again. `None`: what a variable has is printed nowhere.
    pub(super) fn words(&self) -> Option<String> {
        if !self.variables.is_empty() {
            return None;
        }
        let mut words = self.where_words();
        for mount in &self.mounts {
            words.push_str(&format!(" --mount {}", shell_word(mount)));
        }
        if let Some(network) = self.network {
            words.push_str(&format!(" --network {}", network.as_str()));
        }
        for port in &self.ports {
            words.push_str(&format!(" -p {port}"));
        }
        Some(words)
    }

    pub(super) fn are_given(&self) -> bool {
        !self.ports.is_empty() || self.are_for_its_making()
    }

    /// Whether one is given that counts when it is made, and not later.
    fn are_for_its_making(&self) -> bool {
        self.place.is_some()
            || self.image.is_some()
            || self.network.is_some()
            || !self.mounts.is_empty()
            || !self.variables.is_empty()
    }

    /// The flags of those that count when it is made, and that this one was not made with. Variables are nobody's to compare.
    pub(super) fn not_of(
        &self,
        record: &Record,
        environment: &Environment,
    ) -> Result<Vec<&'static str>, CliError> {
        let place = self.place.map(ProviderName::name);
        let network = record.network.as_ref().map(Reach::kind);
        let mut mounts = mounts(&self.mounts, environment)?;
        for mount in &mut mounts {
            // As the record has it.
            if let Ok(source) = mount.source.canonicalize() {
                mount.source = source;
            }
        }
        let others = [
            (
                "--sandbox",
                place.is_some_and(|place| place != record.provider),
            ),
            (
                "--image",
                self.image.is_some() && self.image != record.image,
            ),
            (
                "--network",
                self.network.is_some() && self.network != network,
            ),
            (
                "--mount",
                mounts.iter().any(|mount| !record.mounts.contains(mount)),
            ),
            ("--env", !self.variables.is_empty()),
        ];
        let others = others.into_iter().filter(|(_, differs)| *differs);
        Ok(others.map(|(flag, _)| flag).collect())
    }
}

impl DevOptions {
    /// The ports that are given here, if any.
    pub(super) fn ports(&self) -> Result<Option<Vec<PublishedPort>>, CliError> {
        if self.ports.is_empty() {
            return Ok(None);
        }
        let ports = published::together(self.ports.clone());
        ports.map(Some).map_err(|error| CliError::Misused {
            message: format!("`--publish`: {error}"),
            hint: "give each port of this machine one place: `--publish 8080:80`".to_owned(),
        })
    }
}

impl From<DevOptions> for Sandbox {
    fn from(given: DevOptions) -> Self {
        Self {
            place: given.place,
            image: given.image,
            mounts: given.mounts,
            variables: given.variables,
            network: given.network,
            ..Self::default()
        }
    }
}

/// What of [`Sandbox`] is for a command line that makes one only where there is none. The rest is the configuration's.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct MadeIn {
    /// Where the sandbox is made, where there is none; `native` unless the configuration says otherwise
    #[arg(long = "sandbox", value_enum, help_heading = "Sandbox")]
    place: Option<ProviderName>,

    /// The image of its container; anything that the engine has
    #[arg(long, value_name = "IMAGE", value_parser = parse_image, help_heading = "Sandbox")]
    image: Option<String>,
}

impl MadeIn {
    pub(super) fn is_given(&self) -> bool {
        self.place.is_some() || self.image.is_some()
    }

    /// As it was given, to be typed again.
    pub(super) fn words(&self) -> String {
        let place = self
            .place
            .map(|place| format!(" --sandbox {}", place.name()));
        let image = self.image.as_ref();
        let image = image.map(|image| format!(" --image {}", shell_word(image)));
        [place, image].into_iter().flatten().collect()
    }
}

impl From<MadeIn> for Sandbox {
    fn from(given: MadeIn) -> Self {
        Self {
            place: given.place,
            image: given.image,
            ..Self::default()
        }
    }
}

/// How the sandbox sees the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FileMode {
    /// A directory of this machine: a worktree, or with `--head` this checkout
    Bind,
    /// Its own changes over a tree that all sandboxes of the repository share
    Layer,
    /// All files written out for it alone
    Copy,
    /// As a layer where that is possible, else as a copy
    #[value(skip)]
    Own,
}

/// How long an engine may take to say whether it has an image.
const ASKED: Duration = Duration::from_secs(10);

/// The first engine that has an image of this repository's own, or the base.
async fn with_an_image(environment: &Environment) -> Option<ProviderName> {
    let own = RepoPath::resolve(environment.top()).ok();
    let images: Vec<String> = own
        .iter()
        .map(RepoPath::image)
        .chain([format!("{BASE_IMAGE}:latest")])
        .collect();
    for (kind, name) in [
        (Kind::Docker, ProviderName::Docker),
        (Kind::Podman, ProviderName::Podman),
    ] {
        let options = EngineOptions::new(environment.home.engines(), environment.engines());
        let engine = Engine::new(kind, options);
        for image in &images {
            // One that is not there, or does not answer, has none.
            let asked = tokio::time::timeout(ASKED, engine.pinned(image)).await;
            match asked {
                Ok(Ok(Some(_))) => return Some(name),
                Ok(Ok(None)) => {}
                _ => break,
            }
        }
    }
    None
}

impl Sandbox {
    /// Of which nothing is a directory of this machine's: where the configuration says, else where there is an image of the
    /// repository's or ours, else native.
    pub(super) async fn with_own_files(defaults: &Defaults, environment: &Environment) -> Self {
        let place = match defaults.place {
            Some(_) => None,
            None => with_an_image(environment).await,
        };
        Self {
            mode: Some(FileMode::Own),
            place,
            ..Self::default()
        }
    }

    /// Whether another sandbox than one that is there is meant.
    pub(super) fn is_chosen(&self) -> bool {
        self.mode.is_some() || self.place.is_some() || self.image.is_some()
    }

    /// A flag that was given; what is there already was made without it.
    pub(super) fn given(&self) -> Option<&'static str> {
        let Self {
            mode,
            place,
            image,
            runtime,
            copy,
            hide,
            mounts,
            variables,
            memory,
            cpus,
            pids,
            network,
            allow,
            on_worktree_ready,
            on_host_ready,
            on_sandbox_ready,
        } = self;
        let flags = [
            ("--mode", mode.is_some()),
            ("--sandbox", place.is_some()),
            ("--image", image.is_some()),
            ("--runtime", runtime.is_some()),
            ("--copy", !copy.is_empty()),
            ("--hide", !hide.is_empty()),
            ("--mount", !mounts.is_empty()),
            ("--env", !variables.is_empty()),
            ("--memory", memory.is_some()),
            ("--cpus", cpus.is_some()),
            ("--pids", pids.is_some()),
            ("--network", network.is_some()),
            ("--allow", !allow.is_empty()),
            ("--on-worktree-ready", !on_worktree_ready.is_empty()),
            ("--on-host-ready", !on_host_ready.is_empty()),
            ("--on-sandbox-ready", !on_sandbox_ready.is_empty()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }

    /// Where that run's was, unless something is chosen.
    pub(super) fn put_where(&mut self, run: &RunRecord) {
        if !self.is_chosen() {
            self.place = ProviderName::from_str(&run.provider, false).ok();
            self.image = run.image.clone().filter(|_| self.place.is_some());
        }
    }

    /// Puts the configuration's choices where the command line makes none.
    pub(super) fn or(mut self, defaults: &Defaults) -> Self {
        self.place = self.place.or(defaults.place.map(Into::into));
        if self.place() != ProviderName::Native && self.image.is_none() {
            self.image.clone_from(&defaults.image);
        }
        self.memory = self.memory.or(defaults.memory);
        self.cpus = self.cpus.or(defaults.cpus);
        self.pids = self.pids.or(defaults.pids);
        self
    }

    /// The same for the network, of runs.
    pub(super) fn or_network(mut self, defaults: &Defaults) -> Self {
        // Who opens one destination wants the wall.
        if self.allow.is_empty() || defaults.network != Some(NetworkKind::Open) {
            self.network = self.network.or(defaults.network);
        }
        self
    }

    /// Whether nothing here keeps it from working in the checkout itself.
    pub(super) fn can_share(&self) -> bool {
        // What is meant for a worktree does not run in the checkout.
        self.copy.is_empty()
            && self.on_worktree_ready.is_empty()
            && !matches!(self.mode, Some(FileMode::Layer | FileMode::Copy))
    }

    fn place(&self) -> ProviderName {
        self.place.unwrap_or(ProviderName::Native)
    }

    fn network(&self) -> NetworkKind {
        self.network.unwrap_or(NetworkKind::Allowlist)
    }

    /// The name of the engine, and the image that a container is made from, in words; none where it is in no container.
    pub(super) fn container_image(&self) -> Option<(&'static str, String)> {
        let named = self.image.as_deref().map(shell_word);
        let named = named.map_or_else(
            || "its image".to_owned(),
            |named| format!("the image {named}"),
        );
        let engine = self.place().engine()?;
        Some((engine.name(), named))
    }

    /// The name of its provider, and whether it has a wall.
    pub(super) fn kind(&self) -> (&'static str, bool) {
        (
            self.place().name(),
            self.network() == NetworkKind::Allowlist,
        )
    }
}

/// Where a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProviderName {
    /// On this machine itself, with its programs: no engine, no image
    Native,
    /// In a container of Docker's
    Docker,
    /// In a container of Podman's
    Podman,
}

impl ProviderName {
    pub(super) fn engine(self) -> Option<Kind> {
        match self {
            Self::Native => None,
            Self::Docker => Some(Kind::Docker),
            Self::Podman => Some(Kind::Podman),
        }
    }

    /// As records have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => Kind::Docker.name(),
            Self::Podman => Kind::Podman.name(),
        }
    }
}

impl From<ProviderKind> for ProviderName {
    fn from(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Native => Self::Native,
            ProviderKind::Docker => Self::Docker,
            ProviderKind::Podman => Self::Podman,
        }
    }
}

/// What may stand in the name of an image: a registry, a path, a tag, a digest.
pub(super) fn parse_image(text: &str) -> Result<String, String> {
    if is_image_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is no name of an image such as debian:bookworm-slim",
        text.escape_debug()
    ))
}

fn networks() -> impl TypedValueParser<Value = NetworkKind> {
    let values = NetworkKind::ALL.map(|kind| {
        PossibleValue::new(kind.as_str()).help(match kind {
            NetworkKind::None => "Nothing but its own loopback",
            NetworkKind::Allowlist => "What `cofferdam net rules` lists",
            NetworkKind::Open => "Everything that this machine reaches: no wall",
        })
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse())
}

fn parse_cpus(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .and_then(|number| Some(Cpus::new(number)?.get()))
        .ok_or_else(|| {
            format!(
                "`{}` is not a number of CPUs such as 2 or 1.5",
                text.escape_debug()
            )
        })
}

/// The sandbox with its strategy; `unnamed` is meant where the command line names none.
pub(super) fn contained(
    given: &Strategy,
    sandbox: &Sandbox,
    environment: &Environment,
    unnamed: BranchStrategy,
) -> Result<Contained, CliError> {
    if given.base.is_some()
        && given.branch.is_none()
        && !matches!(unnamed, BranchStrategy::Branch { .. })
    {
        return usage("`--base` says where a new branch starts: add `--branch <NAME>`");
    }
    let strategy = match (&given.branch, given.merge_to_head, given.head) {
        (Some(branch), _, _) => BranchStrategy::Branch {
            branch: branch.clone(),
            base: given.base.clone(),
        },
        (None, true, _) => BranchStrategy::MergeToHead,
        (None, false, true) => BranchStrategy::Head,
        (None, false, false) => unnamed,
    };
    let provider = provider(sandbox, environment)?;
    let make: fn(Arc<dyn BindMountProvider>, CopyStrategy) -> PrivateCopy = match sandbox.mode {
        None => return Ok(BindMount::or_layers(provider, strategy).into()),
        Some(FileMode::Bind) => return Ok(BindMount::new(provider, strategy).into()),
        Some(FileMode::Layer) => PrivateCopy::layered,
        Some(FileMode::Copy) => PrivateCopy::new,
        Some(FileMode::Own) => PrivateCopy::or_layers,
    };
    let strategy = match strategy {
        BranchStrategy::Head => {
            return usage(format!(
                "`--mode {}` cannot work in this checkout itself: leave out `--head`",
                if sandbox.mode == Some(FileMode::Layer) {
                    "layer"
                } else {
                    "copy"
                }
            ));
        }
        BranchStrategy::MergeToHead => CopyStrategy::MergeToHead,
        BranchStrategy::Branch { branch, base } => CopyStrategy::Branch { branch, base },
    };
    Ok(make(provider, strategy).into())
}

/// Who makes it.
fn provider(
    given: &Sandbox,
    environment: &Environment,
) -> Result<Arc<dyn BindMountProvider>, CliError> {
    Ok(match engine(given, environment)? {
        Some(engine) => Arc::new(engine),
        None => Arc::new(Native::default()),
    })
}

/// The engine whose container it is to be; `None`: it is native.
pub(super) fn engine(
    given: &Sandbox,
    environment: &Environment,
) -> Result<Option<Engine>, CliError> {
    let kind = match given.place() {
        ProviderName::Native if given.image.is_some() => {
            return usage(
                "`--image` is for containers: add `--sandbox docker` or `--sandbox podman`",
            );
        }
        ProviderName::Native if given.runtime.is_some() => {
            return usage("`--runtime` is for containers: add `--sandbox docker`");
        }
        place => place.engine(),
    };
    let Some(kind) = kind else {
        return Ok(None);
    };
    let mut options = EngineOptions::new(environment.home.engines(), environment.engines());
    options.image.clone_from(&given.image);
    options.runtime.clone_from(&given.runtime);
    Ok(Some(Engine::new(kind, options)))
}

/// What [`Sandbox`] says, checked.
#[derive(Debug)]
pub(super) struct Making {
    variables: BTreeMap<OsString, OsString>,
    network: NetworkOptions,
    mounts: Vec<ExtraMount>,
    given: Sandbox,
}

/// Known before anything is made.
pub(super) fn session(given: Sandbox, environment: &Environment) -> Result<Making, CliError> {
    Ok(Making {
        network: network(given.network(), &given.allow)?,
        variables: variables(&given.variables, environment)?,
        mounts: mounts(&given.mounts, environment)?,
        given,
    })
}

impl Making {
    pub(super) fn put_into(self, options: &mut SessionOptions) {
        let hooks = |lines: Vec<String>| lines.into_iter().map(Hook::new).collect();
        let given = self.given;
        options.environment = self.variables;
        options.network = self.network;
        let mut at = Hooks::default();
        at.host_worktree_ready = hooks(given.on_worktree_ready);
        at.host_sandbox_ready = hooks(given.on_host_ready);
        at.sandbox_ready = hooks(given.on_sandbox_ready);
        options.hooks = at;
        options.copy = given.copy;
        options.hide = given.hide;
        options.mounts = self.mounts;
        let mut limits = Limits::default();
        limits.processes = given.pids.or(limits.processes);
        limits.memory = given.memory.or(limits.memory);
        limits.cpus = given.cpus.or(limits.cpus);
        options.limits = limits;
    }
}

pub(super) fn usage<T>(text: impl Into<String>) -> Result<T, CliError> {
    Err(CliError::Usage(text.into()))
}

/// Rules that do not go together are known before anything is made.
fn network(mode: NetworkKind, allow: &[String]) -> Result<NetworkOptions, CliError> {
    match mode {
        NetworkKind::Allowlist => {
            // Not by the parser of the command line, which would show the text as it is.
            let rules = allow.iter().map(|text| Rule::parse(text, Origin::Flag));
            let rules = match rules.collect::<Result<Vec<_>, _>>() {
                Ok(rules) => rules,
                Err(error) => {
                    return misused(
                        &error,
                        match &error {
                            RuleError::Localhost { meant, .. } => Some(meant),
                            _ => None,
                        },
                    );
                }
            };
            if let Err(error) = wall::rules::check(&Loaded::default(), &rules) {
                return misused(
                    &error,
                    match &error {
                        CheckError::Loopback { meant, .. } => Some(meant),
                        _ => None,
                    },
                );
            }
            Ok(NetworkOptions::Allowlist { rules })
        }
        _ if !allow.is_empty() => usage("`--allow` is for `--network allowlist` only"),
        NetworkKind::None => Ok(NetworkOptions::None),
        NetworkKind::Open => Ok(NetworkOptions::Open),
    }
}

/// A rule of `--allow` that is none; with the one that was meant, where that is known.
fn misused<T>(error: &dyn std::error::Error, meant: Option<&String>) -> Result<T, CliError> {
    Err(CliError::Misused {
        message: format!("`--allow`: {error}"),
        hint: match meant {
            Some(rule) => format!("if this machine is meant: `--allow {rule}`"),
            None => "a rule is a name, an address or a range, with ports after a colon: see `cofferdam allow --help`".to_owned(),
        },
    })
}

fn mounts(given: &[OsString], environment: &Environment) -> Result<Vec<ExtraMount>, CliError> {
    let (directory, home) = (&environment.directory, environment.user_home.as_deref());
    let one = |text: &OsString| parse_mount(text, directory, home);
    let all = given.iter().map(one).collect::<Result<_, _>>();
    all.map_err(|error| CliError::Misused {
        message: format!("`--mount`: {error}"),
        hint: mount_hint(&error).to_owned(),
    })
}

/// `KEY=VALUE` as it is, `KEY` from the caller's environment.
pub(super) fn variables(
    given: &[OsString],
    environment: &Environment,
) -> Result<BTreeMap<OsString, OsString>, CliError> {
    let mut variables = BTreeMap::new();
    for item in given {
        let bytes = item.as_bytes();
        let (key, value) = match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => (
                &bytes[..at],
                Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned()),
            ),
            None => (bytes, None),
        };
        let shown = String::from_utf8_lossy(key).escape_debug().to_string();
        if key.is_empty() {
            return usage("`--env` needs a name: `--env KEY` or `--env KEY=VALUE`");
        }
        let key = OsStr::from_bytes(key);
        let Some(value) = value.or_else(|| environment.variables.get(key).cloned()) else {
            return usage(format!(
                "`--env {shown}`: it is not set in your environment"
            ));
        };
        variables.insert(key.to_owned(), value);
    }
    Ok(variables)
}
