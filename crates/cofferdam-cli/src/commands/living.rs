//! Sandboxes that live on, as the commands on them name, open and ask them.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use cofferdam::git::Oid;
use cofferdam::names::SandboxId;
use cofferdam::registry::{Record, RegistryError};
use cofferdam::session::living::{self, Collection, Condition, Named};
use cofferdam::session::manage::{self, Rest, Shown, State};
use cofferdam::session::{Beside, Caller, Landing, Session, SessionError, Unpushed};
use cofferdam::text::printable_line;

use super::here::{is_path, is_plainly_a_path, target};
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::live::{Live, Mode, Stream};
use crate::ui::shell::shell_word;
use crate::ui::steps::{self, Narrator, Verbosity};
use crate::ui::{human, output, shelf, summary};

/// Who works in a sandbox notices when it stands still for so long.
const NOTICED: Duration = Duration::from_secs(1);

/// Those that a command is about.
#[derive(Debug, Args)]
pub(super) struct Sandboxes {
    /// The sandboxes, as `cofferdam list` names them, or paths of checkouts for their dev sandboxes, such as `.`
    #[arg(required = true, value_name = "SANDBOX|PATH")]
    pub(super) names: Vec<String>,
}

/// Those that a command is about, or all that it may be about.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["names", "all_envs", "all_repos"]))]
pub(super) struct Many {
    /// The sandboxes, as `cofferdam list` names them, or paths of checkouts for their dev sandboxes, such as `.`
    #[arg(value_name = "SANDBOX|PATH", conflicts_with_all = ["all_envs", "all_repos"])]
    names: Vec<String>,

    /// All of this repository
    #[arg(long, conflicts_with = "all_repos")]
    all_envs: bool,

    /// All of all your repositories
    #[arg(long)]
    all_repos: bool,
}

/// As [`each`]. Where all are meant, those in the state `wanted`; `none` is said where there is none.
pub(super) async fn each_of(
    many: &Many,
    (wanted, none): (State, &str),
    environment: &Environment,
    interrupt: &Interrupt,
    act: impl AsyncFn(&Caller, Named) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    if !many.all_envs && !many.all_repos {
        let names = many.names.clone();
        return each(&Sandboxes { names }, environment, interrupt, act).await;
    }
    let caller = caller(environment, interrupt);
    let (home, user) = (&environment.home, environment.user_home.as_deref());
    let here = (!many.all_repos).then_some(environment.directory.as_path());
    let found = manage::list(home, &environment.git, here, user, &interrupt.cancel).await;
    let mut found = found?;
    let silent = manage::ask(home, &mut found).await;
    let mut code = ExitCode::SUCCESS;
    for (id, why) in silent {
        let name = found.iter().find(|one| one.id == id);
        let name = name.map_or_else(|| id.to_string(), |one| one.name.to_string());
        let why = printable_line(&why);
        let (what, hint) = (
            format!("error: {name} does not say how it is: {why}\n"),
            format!(
                "hint: end what hangs in it, and then start it again: cofferdam stop {id}; cofferdam start {id}\n"
            ),
        );
        output::note(&(what + &hint));
        code = ExitCode::FAILURE;
    }
    found.retain(|one| one.lives_on && one.state == wanted);
    if found.is_empty() && code == ExitCode::SUCCESS {
        output::note(none);
    }
    let mut all = Vec::new();
    for one in found {
        // By its id, and in its own repository: a name may be there twice.
        match Named::find(&caller, &one.checkout, &one.id.to_string()).await {
            Ok(named) => all.push(named),
            Err(error) => {
                let error = CliError::from(error);
                output::note(&error::render(&error, environment.colour.on_stderr()));
                code = ExitCode::FAILURE;
            }
        }
    }
    let done = with_each(all, false, &caller, environment, interrupt, act).await?;
    Ok(if code == ExitCode::SUCCESS {
        done
    } else {
        code
    })
}

/// The library's caller, whom the user's signals cancel.
pub(super) fn caller(environment: &Environment, interrupt: &Interrupt) -> Caller {
    let mut caller = environment.caller();
    caller.cancel = interrupt.cancel.clone();
    caller.abandon = interrupt.abandon.clone();
    caller
}

/// Does what may take long because files of a commit are written for it, and shows how far they are.
pub(super) async fn shown<T>(
    caller: &Caller,
    environment: &Environment,
    act: impl AsyncFnOnce(&Caller) -> T,
) -> Result<T, CliError> {
    narrated(caller, environment, Verbosity::Quiet, act).await
}

/// Does something, and tells of its steps.
pub(super) async fn narrated<T>(
    caller: &Caller,
    environment: &Environment,
    verbosity: Verbosity,
    act: impl AsyncFnOnce(&Caller) -> T,
) -> Result<T, CliError> {
    let mode = if environment.live {
        Mode::Terminal
    } else {
        Mode::Plain
    };
    let narrator = Narrator::new(verbosity, false);
    let colour = environment.colour.on_stderr();
    let live = Live::start(mode, Stream::Error, narrator, colour).map_err(CliError::Runtime)?;
    let mut caller = caller.clone();
    caller.events = live.sink();
    let done = act(&caller).await;
    live.finish().await;
    Ok(done)
}

/// The sandbox `name` of the repository that the command works in; where it is the path of a checkout, that one's dev sandbox.
pub(super) async fn named(
    name: &str,
    caller: &Caller,
    environment: &Environment,
) -> Result<Named, SessionError> {
    let at_path = async || Named::dev(caller, &environment.directory.join(name), None).await;
    if is_plainly_a_path(name) {
        return at_path().await;
    }
    match Named::find(caller, &environment.directory, name).await {
        // A directory whose path begins with nothing that says so, not the branch of a sandbox.
        Err(SessionError::Registry(RegistryError::Unknown { .. }))
            if is_path(OsStr::new(name)) && environment.directory.join(name).is_dir() =>
        {
            at_path().await
        }
        found => found,
    }
}

/// The same; `None`: it is none that lives on. Whatever else is wrong with the name is told by who goes on from there.
pub(super) async fn named_if_it_lives_on(
    name: &str,
    caller: &Caller,
    environment: &Environment,
) -> Result<Option<Named>, SessionError> {
    match named(name, caller, environment).await {
        Ok(named) => Ok(Some(named)),
        Err(
            SessionError::OfARun { .. }
            | SessionError::Unfinished { .. }
            | SessionError::Ended { .. }
            | SessionError::Registry(_)
            | SessionError::Repository(_),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether nothing runs in it any more; one that does not answer is none of those.
pub(super) async fn is_stopped(id: SandboxId, caller: &Caller, environment: &Environment) -> bool {
    let asked = async {
        let named = named(&id.to_string(), caller, environment).await?;
        let provider = named.provider(caller)?;
        living::condition(caller, &named, &provider).await
    };
    matches!(asked.await, Ok(Condition::Stopped))
}

/// The sandbox `name`, which ended and kept its files: from now on it lives until it is deleted.
pub(super) async fn revived(
    name: &str,
    caller: &Caller,
    environment: &Environment,
) -> Result<Named, SessionError> {
    let named = Named::revive(caller, &environment.directory, name).await?;
    output::note(&format!(
        "note: {} had ended, and stays now until you delete it\n",
        named.name()
    ));
    Ok(named)
}

/// As [`named`], opened.
pub(super) async fn open(
    name: &str,
    caller: &Caller,
    environment: &Environment,
) -> Result<Session, SessionError> {
    let named = named(name, caller, environment).await?;
    let provider = named.provider(caller)?;
    Session::open(caller, named, &provider).await
}

/// What else has ended with a sandbox.
pub(super) fn with_programs(count: u32) -> String {
    match count {
        0 => String::new(),
        count => format!(
            " with {} that ran in it",
            human::plural(count as usize, "program")
        ),
    }
}

/// Does something with each of several sandboxes. All are found before anything is done with one; what fails with
/// one is said, and the others are done all the same.
pub(super) async fn each(
    Sandboxes { names }: &Sandboxes,
    environment: &Environment,
    interrupt: &Interrupt,
    act: impl AsyncFn(&Caller, Named) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let caller = caller(environment, interrupt);
    let mut all = Vec::new();
    for name in names {
        let named = named(name, &caller, environment).await?;
        // Who names one twice means it once.
        if !all.iter().any(|one: &Named| one.id() == named.id()) {
            all.push(named);
        }
    }
    let alone = all.len() == 1;
    with_each(all, alone, &caller, environment, interrupt, act).await
}

async fn with_each(
    all: Vec<Named>,
    alone: bool,
    caller: &Caller,
    environment: &Environment,
    interrupt: &Interrupt,
    act: impl AsyncFn(&Caller, Named) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let mut code = ExitCode::SUCCESS;
    for named in all {
        match act(caller, named).await {
            Err(error) if alone || interrupt.code().is_some() => return Err(error),
            Err(error) => {
                output::note(&error::render(&error, environment.colour.on_stderr()));
                code = ExitCode::FAILURE;
            }
            Ok(()) => {}
        }
    }
    Ok(code)
}

/// What a command is going to do with the commits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What is checked out stays where it is, also where the sandbox works in the checkout itself.
    Look,
    Merge,
}

/// Brings the commits of a sandbox home that lives on, for a command that is about to need them. `None`: it is none
/// of those, and what it committed came home when it ended.
pub(super) async fn refresh(
    name: &str,
    purpose: Purpose,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Option<Collection>, CliError> {
    let caller = caller(environment, interrupt);
    let Some(named) = named_if_it_lives_on(name, &caller, environment).await? else {
        return Ok(None);
    };
    let name = named.name().to_string();
    let provider = named.provider(&caller)?;
    let collection = match purpose {
        Purpose::Look => living::look(&caller, named, &provider).await?,
        Purpose::Merge => living::collect(&caller, named, &provider).await?,
    };
    let colour = environment.colour.on_stderr();
    let landing = &collection.landing;
    // Whether it lands after all is what `merge` says of it.
    let told_later = purpose == Purpose::Merge
        && matches!(landing, Landing::Kept { .. })
        && !landing.is_to_be_looked_at();
    let tells = !collection.commits.is_empty() || matches!(landing, Landing::Refused { .. });
    if tells && !told_later {
        let text = summary::merged(&collection.landing, &collection.commits, colour);
        output::note(&text);
    }
    beside(&name, &collection);
    Ok(Some(collection))
}

/// What a sandbox has in no commit.
#[derive(Debug)]
pub(super) enum Uncommitted {
    Nothing,
    /// The same as a commit; `whole`: all of it.
    Commit {
        rest: Oid,
        whole: bool,
    },
    /// It has ended and left a worktree.
    Worktree(PathBuf),
}

/// The commit of what a sandbox has in no commit, for a command that is about to show it or to bring it out. What one that
/// lives on has committed comes home first.
pub(super) async fn rest(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Uncommitted, CliError> {
    let rest = match refresh(name, Purpose::Look, environment, interrupt).await? {
        Some(_) => {
            let caller = caller(environment, interrupt);
            let named = named(name, &caller, environment).await?;
            let provider = named.provider(&caller)?;
            living::rest(&caller, &named, &provider).await?
        }
        None => manage::rest(&target(name.to_owned(), environment, interrupt)).await?,
    };
    match rest {
        Rest::Nothing => Ok(Uncommitted::Nothing),
        Rest::Commit {
            commit,
            unread,
            more,
        } => {
            if more {
                output::note(&format!(
                    "note: what is staged there otherwise than its files are, or a merge that is not done, stays inside: `cofferdam shell \
                     {}`\n",
                    shell_word(name)
                ));
            }
            if unread > 0 {
                let paths = human::plural(unread as usize, "path");
                let stay = if unread == 1 { "stays" } else { "stay" };
                output::note(&format!(
                    "note: {paths} that its git cannot read {stay} inside: `cofferdam shell {}`\n",
                    shell_word(name)
                ));
            }
            Ok(Uncommitted::Commit {
                rest: commit,
                whole: unread == 0 && !more,
            })
        }
        Rest::Worktree(path) => Ok(Uncommitted::Worktree(path)),
        Rest::Refused { why } => {
            let name = shell_word(name);
            Err(CliError::Failed {
                message: format!(
                    "what is uncommitted in {name} does not come out: {}",
                    printable_line(&why)
                ),
                hint: format!("look at it inside with `cofferdam shell {name}`"),
            })
        }
    }
}

/// Says of what is shown what is not in it. `refreshed`: what was collected just now, which has told of itself.
pub(super) fn not_in_it<T>(name: &str, shown: &Shown<T>, refreshed: Option<&Collection>) {
    if let (Some(why), None) = (&shown.refused, refreshed) {
        output::note(&format!(
            "note: the gate refused what it committed last: {}\n",
            printable_line(why)
        ));
    }
    kept_beside(None, &shown.beside);
    if let Some(one) = &shown.unpushed {
        only_on_the_shelf(name, one);
    }
}

/// Says of one that lives on that what its programs changed is in no commit: neither shown nor merged with what is.
pub(super) async fn tell_uncommitted(name: &str, environment: &Environment, interrupt: &Interrupt) {
    let caller = caller(environment, interrupt);
    let Ok(Some(named)) = named_if_it_lives_on(name, &caller, environment).await else {
        return;
    };
    let Ok(provider) = named.provider(&caller) else {
        return;
    };
    if living::changes(&caller, &named, &provider).await == Some(true) {
        let name = named.name();
        let line = format!(
            "in {name} there are changes that are in no commit: see them with `cofferdam diff --uncommitted {name}`"
        );
        output::note(&format!("note: {}\n", from_here(&line)));
    }
}

/// What a sandbox that lives on has on its branch on the shelf alone.
pub(super) async fn unpushed(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Option<Unpushed> {
    let caller = caller(environment, interrupt);
    let named = named_if_it_lives_on(name, &caller, environment).await;
    living::unpushed(&caller, &named.ok()??).await
}

/// Says of that how it comes here.
pub(super) fn only_on_the_shelf(name: &str, one: &Unpushed) {
    let line = shelf::unpushed(one, &shelf::push(name, one));
    output::note(&format!("note: {}\n", from_here(&line)));
}

/// Says where commits are that are on no branch.
pub(super) fn kept_beside(record: Option<&Record>, references: &[String]) {
    let in_checkout = |one: &&Record| one.dev.is_some() && one.shelf_branch().is_none();
    let lives = record.filter(in_checkout);
    let lives = lives.map(|one| (one.name.to_string(), one.branch_text()));
    let lives = (lives.as_ref()).map(|(name, branch)| (name.as_str(), branch.as_str()));
    if let Some(line) = summary::beside(references, "", lives) {
        output::note(&format!("note: {line}\n"));
    }
}

/// Whether this is said already: something in the sandbox's git directory cannot be read, which keeps its branch back as well.
pub(super) fn is_unreadable(beside: &Beside, landing: &Landing) -> bool {
    let Landing::Refused {
        pack: Some(at),
        why,
    } = landing
    else {
        return false;
    };
    beside.refused.as_ref() == Some(why) && beside.at == printable_line(&at.to_string_lossy())
}

/// What is to be said of a collecting beside its commits.
pub(super) fn beside(name: &str, collection: &Collection) {
    if let Some(printed) = &collection.failed_check {
        for line in steps::around(printed) {
            output::note(&format!("  {line}\n"));
        }
    }
    for note in &collection.notes {
        output::note(&format!("note: {}\n", printable_line(note)));
    }
    for one in &collection.beside {
        // It keeps the branch back as well, and is said of that.
        if !is_unreadable(one, &collection.landing) {
            output::note(&format!("note: {one}\n"));
        }
    }
    if let Some(line) = summary::taken(&collection.taken) {
        output::note(&format!("note: {line}\n"));
    }
    stood_still(name, collection.still, collection.ended);
}

/// What became of a sandbox's programs while its commits came home.
pub(super) fn stood_still(name: &str, still: Duration, ended: bool) {
    if still >= NOTICED {
        output::note(&format!(
            "note: the programs in {name} stood still for {:.1} s meanwhile\n",
            still.as_secs_f32()
        ));
    }
    if ended {
        output::note(&format!(
            "note: programs in {name} could not be stopped for a while, so the sandbox was stopped: start it with \
             `cofferdam start {name}`\n"
        ));
    }
}
