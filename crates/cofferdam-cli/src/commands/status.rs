//! `cofferdam status`.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use cofferdam::git::Oid;
use cofferdam::names::Slug;
use cofferdam::registry::{ExtraMount, Mode, Record, Setup};
use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::{GroupMemory, Listed, SandboxError, Stopping};
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::manage::{self, State};
use cofferdam::session::{
    CommitLine, Landing, Notice, Session, SessionError, Unpublished, Unpushed,
};
use cofferdam::text::{printable_line, printable_path as shown};
use cofferdam::wall::supervisor::Wall;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::create::network;
use super::here::target;
use super::living;
use super::logs::{command, ended};
use super::of_a_run;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::{facts, human, json, output, shelf};

/// Say how a sandbox is: its state, its branch, what came home, what runs in it; of one that ended, how, and what can be done
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// One object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Status<'a> {
    id: String,
    name: &'a Slug,
    state: Now,
    /// When it ended, where it is stopped and no command asked for that.
    ended_unasked: Option<Timestamp>,
    branch: String,
    base: &'a str,
    /// Those that are home, newest last.
    commits: &'a [CommitLine],
    /// References with commits that are home and on no branch.
    beside: &'a [String],
    /// Why commits that came home last are kept beside their branch, or were refused; nothing where none are.
    held_back: Option<String>,
    /// What its branch was at when commits came home last, and when that was; nothing before.
    landed: Option<&'a str>,
    landed_at: Option<Timestamp>,
    /// Whether it has commits that are not home; nothing where that cannot be told now.
    uncollected: Option<bool>,
    /// Whether there is work in its files that is in no commit; nothing where that cannot be told now.
    changes: Option<bool>,
    /// What is committed on its branch on the shelf and on no branch here; nothing where nothing is.
    unpushed: Option<OnlyThere<'a>>,
    /// How many files of that branch on the shelf are in no commit; nothing where it works in the checkout, or nobody can tell.
    uncommitted_on_shelf: Option<usize>,
    mode: &'static str,
    /// Nothing where it is in no container.
    image: Option<&'a str>,
    network: &'static str,
    /// `carried`, `recovering`, `lost`, `none`; nothing where it is stopped.
    wall: Option<&'static str>,
    /// Why it is lost.
    wall_lost: Option<String>,
    /// Interfaces that lead past it: somebody joined another network to it by hand.
    joined: &'a BTreeSet<String>,
    /// `freezer`, `signals`: what stops its programs; nothing where it is stopped.
    pause: Option<&'static str>,
    /// Its first process, as this machine numbers it; nothing where it is stopped.
    process: Option<u32>,
    /// Bytes that it has in memory, those of files there (`/tmp`) too; nothing where nobody counts.
    memory: Option<u64>,
    /// Bytes that it may have; nothing where it has no limit of its own.
    memory_limit: Option<u64>,
    /// So many of its processes the kernel has killed since it was started, because its memory was used up; nothing where nobody counts.
    killed_for_memory: Option<u64>,
    /// Nothing where no directory of the host has its files as they are inside.
    workdir: Option<String>,
    /// What it sees of this machine beside its files.
    mounts: Vec<Mounted>,
    /// The ports of this machine that lead into it while it runs.
    ports: Vec<Port>,
    repository: String,
    created: Timestamp,
    programs: Vec<Running>,
}

/// Commits that are only on the shelf.
#[derive(Debug, Serialize)]
struct OnlyThere<'a> {
    branch: &'a str,
    /// Nothing where nobody can tell how many.
    commits: Option<usize>,
}

/// A directory or file of this machine, as `--mount` has it.
#[derive(Debug, Serialize)]
struct Mounted {
    source: String,
    target: String,
    writable: bool,
}

/// A port of this machine, as `--publish` has it.
#[derive(Debug, Serialize)]
struct Port {
    host: u16,
    inside: u16,
    /// Why nobody listens there; nothing where somebody does, or it is stopped.
    problem: Option<String>,
}

/// A program that runs.
#[derive(Debug, Serialize)]
struct Running {
    id: String,
    command: String,
    detached: bool,
    /// Where it ended, and the sandbox remembers it.
    ended: Option<String>,
}

/// As `list` has it, or that it cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    Of(State),
    /// Another version of this command started it.
    OtherVersion,
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(state) => state.fmt(f),
            Self::OtherVersion => f.pad("other-version"),
        }
    }
}

impl Serialize for Now {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the sandbox itself says.
struct Told {
    state: Now,
    ended_unasked: Option<Timestamp>,
    process: Option<u32>,
    memory: Option<GroupMemory>,
    stopping: Option<Stopping>,
    wall: Option<Wall>,
    joined: BTreeSet<String>,
    programs: Vec<Running>,
    unpublished: Vec<Unpublished>,
    uncollected: Option<bool>,
    changes: Option<bool>,
    unpushed: Option<Unpushed>,
    /// So many files of its branch on the shelf are in no commit.
    on_shelf: Option<usize>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let caller = living::caller(environment, interrupt);
    let named = match living::named(&arguments.name, &caller, environment).await {
        Err(SessionError::Ended { .. } | SessionError::OfARun { .. }) => {
            let Arguments { name, json } = arguments;
            return of_a_run::tell(name, *json, environment, interrupt).await;
        }
        Err(error) => {
            let name = &arguments.name;
            return Err(of_a_run::or_its_run(name, error, environment, interrupt).await);
        }
        Ok(named) => named,
    };
    let record = named.record().clone();
    let provider = named.provider(&caller)?;
    let missing = !record.has_files(&environment.home);
    let uncollected = lives::uncollected(&caller, &named).await;
    let unpushed = lives::unpushed(&caller, &named).await;
    let uncommitted = lives::uncommitted_on_shelf(&caller, &named).await;
    let changes = if missing {
        None
    } else {
        lives::changes(&caller, &named, &provider).await
    };
    let mut told = match lives::condition(&caller, &named, &provider).await {
        Ok(Condition::Stopped) => Told::without(Now::Of(State::Stopped)),
        Ok(_) => match Session::open(&caller, named.clone(), &provider).await {
            Ok(session) => asked(&session).await?,
            // It ended just then.
            Err(SessionError::Stopped { .. }) => Told::without(Now::Of(State::Stopped)),
            Err(error) => return Err(error.into()),
        },
        Err(SessionError::Sandbox {
            source: SandboxError::OtherVersion { .. },
            ..
        }) => Told::without(Now::OtherVersion),
        Err(error) => return Err(error.into()),
    };
    if told.state == Now::Of(State::Stopped) {
        told.ended_unasked = named.ended_unasked(&caller);
    }
    told.uncollected = uncollected;
    told.changes = changes;
    told.unpushed = unpushed;
    told.on_shelf = uncommitted;
    if missing {
        told.state = Now::Of(State::Missing);
    }
    let target = target(record.id.to_string(), environment, interrupt);
    let shown = manage::log(&target).await.ok();
    let held_back = shown
        .as_ref()
        .and_then(|one| one.refused.as_ref().or(one.kept.as_ref()));
    let held_back = held_back.cloned();
    let (commits, beside) = shown.map(|one| (one.what, one.beside)).unwrap_or_default();
    output::data(&if arguments.json {
        json::line(&told_as_json(
            &record,
            &told,
            (&commits, &beside, held_back.as_ref()),
            environment,
        ))?
    } else {
        render(&record, &told, (&commits, held_back.as_ref()), environment)
    })?;
    if !arguments.json {
        living::kept_beside(Some(&record), &beside);
    }
    if told.state == Now::OtherVersion {
        let name = &record.name;
        output::note(&format!(
            "another version of cofferdam started it: cofferdam stop {name} && cofferdam start {name}\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Told {
    fn without(state: Now) -> Self {
        Self {
            state,
            ended_unasked: None,
            process: None,
            memory: None,
            stopping: None,
            wall: None,
            joined: BTreeSet::new(),
            programs: Vec::new(),
            unpublished: Vec::new(),
            uncollected: None,
            changes: None,
            unpushed: None,
            on_shelf: None,
        }
    }
}

async fn asked(session: &Session) -> Result<Told, SessionError> {
    let state = match session.condition().await? {
        Condition::Paused => State::Paused,
        Condition::Stopped => State::Stopped,
        _ if session.record().setup == Setup::Failed => State::FailedSetup,
        _ => State::Active,
    };
    let stopping = session.stopping().await?;
    let start = session.starts()?;
    let programs = session.programs().await?;
    let shown = |one: &Listed| Running {
        id: format!("{start}.{}", one.number),
        command: command(one),
        detached: one.detached,
        ended: one.exit.map(ended),
    };
    Ok(Told {
        state: Now::Of(state),
        ended_unasked: None,
        process: session.process(),
        memory: session.sandbox().group_memory(),
        stopping: Some(stopping),
        wall: session.wall().await?,
        joined: session.joined(),
        programs: programs.iter().map(shown).collect(),
        unpublished: session.unpublished()?,
        uncollected: None,
        changes: None,
        unpushed: None,
        on_shelf: None,
    })
}

fn wall(wall: &Wall) -> &'static str {
    match wall {
        Wall::None => "none",
        Wall::Carried => "carried",
        Wall::Recovering => "recovering",
        Wall::Lost(_) => "lost",
    }
}

/// What it may reach, and whether it does now.
fn reach(record: &Record, told: &Told) -> String {
    let kind = network(record);
    if !told.joined.is_empty() {
        return format!("{kind}, but {}", joined(&record.name, &told.joined));
    }
    match &told.wall {
        Some(Wall::Carried) => format!("{kind}, through the gateway"),
        Some(Wall::Recovering) => {
            format!("{kind}, but nothing gets through until its gateway runs again")
        }
        Some(Wall::Lost(why)) => {
            format!("{kind}, but nothing gets through: {}", printable_line(why))
        }
        Some(Wall::None) | None => kind.to_owned(),
    }
}

/// That no command stopped it, and what may have been.
fn ended_unasked(record: &Record, at: Timestamp) -> String {
    let age = human::age(at, Timestamp::now());
    match Kind::named(&record.provider) {
        Some(kind) => {
            format!(
                "unasked, {age} ago: its container was killed, removed or out of memory, or {kind} ended"
            )
        }
        None => format!("unasked, {age} ago: its first process was killed"),
    }
}

/// What somebody opened by hand, and what closes it.
pub(super) fn joined(name: &Slug, interfaces: &BTreeSet<String>) -> String {
    let all: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    let told = format!(
        "open, joined to another network by hand ({}): cofferdam stop {name} && cofferdam start {name}",
        printable_line(&all.join(", "))
    );
    from_here(&told).into_owned()
}

fn pause(stopping: Stopping) -> &'static str {
    match stopping {
        Stopping::Freezer => "freezer",
        _ => "signals",
    }
}

/// What it has in memory, what it may have, and whom the kernel has killed for that.
fn in_memory(memory: GroupMemory) -> String {
    let mut line = human::size(memory.used);
    if let Some(limit) = memory.limit {
        let _ = write!(line, " of {}", human::size(limit));
    }
    if let Some(processes @ 1..) = memory.killed {
        let _ = write!(line, "; {}", Notice::KilledForMemory { processes });
    }
    line
}

/// What came home last, and how long ago.
fn landed(record: &Record) -> String {
    match (&record.landed, record.landed_at) {
        // What a push brings is told by the branch itself.
        (None, _) if record.shelf_branch().is_some() => "by `git push host` inside".to_owned(),
        (None, _) => "nothing yet".to_owned(),
        (Some(tip), None) => tip.short().to_owned(),
        (Some(tip), Some(at)) => {
            let age = human::age(at, Timestamp::now());
            format!("{}, {age} ago", tip.short())
        }
    }
}

fn told_as_json<'a>(
    record: &'a Record,
    told: &'a Told,
    (commits, beside, held_back): (&'a [CommitLine], &'a [String], Option<&String>),
    environment: &Environment,
) -> Status<'a> {
    let programs = told.programs.iter().filter(|one| one.ended.is_none());
    Status {
        id: record.id.to_string(),
        name: &record.name,
        state: told.state,
        ended_unasked: told.ended_unasked,
        branch: record.working_branch_text(),
        base: record.base.as_str(),
        commits,
        beside,
        held_back: held_back.cloned(),
        landed: record.landed.as_ref().map(Oid::as_str),
        landed_at: record.landed_at,
        uncollected: told.uncollected,
        changes: told.changes,
        unpushed: told.unpushed.as_ref().map(|one| OnlyThere {
            branch: one.branch.as_str(),
            commits: one.commits,
        }),
        uncommitted_on_shelf: told.on_shelf,
        mode: record.mode.as_str(),
        image: record.image.as_deref(),
        network: network(record),
        wall: told.wall.as_ref().map(wall),
        wall_lost: match &told.wall {
            Some(Wall::Lost(why)) => Some(why.clone()),
            _ => None,
        },
        joined: &told.joined,
        pause: told.stopping.map(pause),
        process: told.process,
        memory: told.memory.map(|memory| memory.used),
        memory_limit: told.memory.and_then(|memory| memory.limit),
        killed_for_memory: told.memory.and_then(|memory| memory.killed),
        workdir: workdir(record, environment).map(|path| path.to_string_lossy().into_owned()),
        mounts: record.mounts.iter().map(mounted).collect(),
        ports: record
            .ports
            .iter()
            .map(|port| Port {
                host: port.host.get(),
                inside: port.inside.get(),
                problem: (told.unpublished.iter())
                    .find(|one| one.port == port.host)
                    .map(|one| one.why.clone()),
            })
            .collect(),
        repository: record.repository.to_string_lossy().into_owned(),
        created: record.created,
        programs: programs
            .map(|one| Running {
                id: one.id.clone(),
                command: one.command.clone(),
                detached: one.detached,
                ended: None,
            })
            .collect(),
    }
}

fn mounted(mount: &ExtraMount) -> Mounted {
    Mounted {
        source: mount.source.to_string_lossy().into_owned(),
        target: mount.target.to_string_lossy().into_owned(),
        writable: mount.writable,
    }
}

/// Of layers what was changed alone is no place to work in, and on the shelf is what sandboxes have there.
fn workdir(record: &Record, environment: &Environment) -> Option<PathBuf> {
    (record.shelf_branch().is_none() && record.mode != Mode::Layer)
        .then(|| record.workspace(&environment.home))
}

fn render(
    record: &Record,
    told: &Told,
    (commits, held_back): (&[CommitLine], Option<&String>),
    environment: &Environment,
) -> String {
    let colour = environment.colour.on_stdout();
    let new = match told.uncollected {
        None => "nobody can tell now".to_owned(),
        Some(false) => "nothing to collect".to_owned(),
        Some(true) => {
            let landing = record.outcome.as_ref().map(|outcome| &outcome.landing);
            if let Some(Landing::Refused { why, .. }) = landing {
                let shell = format!("cofferdam shell {}", record.name);
                format!(
                    "refused by the gate: {}; mend it inside: {}",
                    printable_line(why),
                    from_here(&shell)
                )
            } else {
                let collect = format!("cofferdam collect {}", record.name);
                format!("commits inside: {}", from_here(&collect))
            }
        }
    };
    let changes = match told.changes {
        None => "nobody can tell now".to_owned(),
        Some(false) => "everything that no ignore file covers is in a commit".to_owned(),
        Some(true) if record.mode.owns_files() => {
            let diff = format!("cofferdam diff --uncommitted {}", record.name);
            format!("uncommitted: {}", from_here(&diff))
        }
        Some(true) => "uncommitted, in its files".to_owned(),
    };
    let name = &record.name;
    let state = match told.state {
        Now::Of(State::Stopped) => format!("stopped: cofferdam start {name}"),
        Now::Of(State::FailedSetup) if lives::can_be_set_up_again(&environment.home, record) => {
            format!("failed-setup: cofferdam start {name}")
        }
        Now::Of(State::Paused) => format!("paused: cofferdam resume {name}"),
        other => other.to_string(),
    };
    let mut lines = vec![("name", name.to_string()), ("state", state)];
    if let Some(at) = told.ended_unasked {
        lines.push(("ended", ended_unasked(record, at)));
    }
    if let Some(why) = lives::why_setup_failed(&environment.home, record) {
        // A line of its own for each that a program printed.
        lines.push(("why", why.replace('\n', "\n         | ")));
    }
    lines.extend([
        ("branch", printable_line(&record.working_branch_text())),
        ("base", record.base.short().to_owned()),
        ("commits", facts::commits(commits, colour)),
        ("home", landed(record)),
        ("new", new),
    ]);
    if let Some(one) = &told.unpushed {
        let mut push = shelf::push(name.as_str(), one);
        if told.state == Now::Of(State::Stopped) {
            push = format!("cofferdam start {name} && {push}");
        }
        let line = shelf::unpushed(one, &push);
        lines.push(("shelf", from_here(&line).into_owned()));
    }
    if let (Some(branch), Some(files @ 1..)) = (record.shelf_branch(), told.on_shelf) {
        let line = shelf::uncommitted(files, branch);
        lines.push(("shelf", from_here(&line).into_owned()));
    }
    if let Some(why) = held_back {
        lines.push(("held back", printable_line(why)));
    }
    // What lies in a checkout that it shares is its user's as well.
    if record.mode.owns_files() || record.worktree.is_some() {
        lines.push(("changes", changes));
    }
    if let Some(image) = &record.image {
        lines.push(("image", printable_line(image)));
    }
    lines.extend([
        ("mode", record.mode.as_str().to_owned()),
        (
            "workdir",
            workdir(record, environment).map_or_else(
                || {
                    let shell = format!("cofferdam shell {}", record.name);
                    format!("inside alone: {}", from_here(&shell))
                },
                |path| shown(&path),
            ),
        ),
        ("network", reach(record, told)),
    ]);
    lines.extend(facts::mounts(record));
    let is_stopped = told.state == Now::Of(State::Stopped);
    lines.extend(facts::ports(record, &told.unpublished, is_stopped));
    match told.stopping {
        None | Some(Stopping::Freezer) => {}
        Some(_) => {
            let why = if Kind::named(&record.provider).is_some() {
                "by signals, as in every container"
            } else {
                "by signals, no control group could be made: see cofferdam doctor"
            };
            lines.push(("pause", from_here(why).into_owned()));
        }
    }
    if let Some(memory) = told.memory {
        lines.push(("memory", in_memory(memory)));
    }
    lines.push(("age", human::age(record.created, Timestamp::now())));
    let mut out = facts::lines(&lines);
    let mut running = told
        .programs
        .iter()
        .filter(|one| one.ended.is_none())
        .peekable();
    if running.peek().is_some() {
        out.push_str("programs:\n");
    }
    for one in running {
        let how = if one.detached { " (left running)" } else { "" };
        let _ = writeln!(out, "  {}  {}{how}", one.id, one.command);
    }
    out
}
