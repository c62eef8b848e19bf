//! Dev sandboxes, as commands name and bring them up: by the directory of their checkout, and a branch where they are on one.

mod build;
mod meant;

use std::fs::File;
use std::time::Duration;

use clap::Args;
use cofferdam::git::Repository;
use cofferdam::names::{BranchName, RepoPath};
use cofferdam::published::PublishedPort;
use cofferdam::registry::{self, DevSandbox, Entry, Record, belongs};
use cofferdam::sandbox::{BindMountProvider, BranchStrategy};
use cofferdam::session::living::{self as lives, Condition, Followed, Named};
use cofferdam::session::{Caller, Landing, Session, SessionError, SessionOptions, dev, provision};

use self::build::{Asked, built};
pub(super) use self::meant::{
    Meant, Unsaid, are_here, by_path, directory, meant, sandboxes, there, unsaid,
};
use super::defaults::Defaults;
use super::making::{self, DevOptions, Sandbox, Strategy};
use super::{codex_config, here, images, keep_ready, living, unpublished};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::again::{self, Again};
use crate::ui::from_here::from_here;
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};
use crate::ui::{output, summary};

/// Who leaves notices that they wait.
const NOTICED: Duration = Duration::from_secs(2);
/// How long programs may take to end before their sandbox is made anew.
const GRACE: Duration = Duration::from_secs(10);

/// Sandboxes by their names, or the dev sandbox of a checkout.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Places {
    /// The sandboxes, as `cofferdam list` names them, or the path of a checkout, such as ./there; without any the dev sandbox of the
    /// checkout that you stand in
    #[arg(value_name = "SANDBOX|PATH")]
    pub(super) names: Vec<String>,

    #[command(flatten)]
    pub(super) which: Which,
}

/// Which of a checkout's.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Which {
    /// The one for this branch, beside the checkout on the repository's shelf
    #[arg(long, value_name = "BRANCH", help_heading = "Dev sandbox")]
    pub(super) branch: Option<BranchName>,
}

/// How the image is built first.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Build {
    /// Build the repository's image first, and make the sandbox anew from it
    #[arg(long, help_heading = "Dev sandbox")]
    pub(super) build: bool,

    /// The tag of the base that the image is built on
    #[arg(
        long,
        value_name = "TAG",
        requires = "build",
        help_heading = "Dev sandbox"
    )]
    pub(super) base_tag: Option<String>,
}

/// Whether the checkout has one in which somebody works on what is checked out.
pub(super) async fn has_one(
    caller: &Caller,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<bool, CliError> {
    let repository = here::repository(environment, interrupt).await?;
    let found = dev::find(caller, &repository.top, &DevSandbox::default())?;
    Ok(found.is_some())
}

/// What is to be brought up.
#[derive(Debug)]
pub(super) struct Up<'a> {
    pub(super) which: &'a Which,
    pub(super) build: &'a Build,
    /// What it is made with, where it has to be made.
    pub(super) options: &'a DevOptions,
    /// The checkout is where this works.
    pub(super) environment: &'a Environment,
}

/// How it came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Made,
    Started,
    /// It was running.
    Before,
}

/// Makes the dev sandbox, starts it, or finds it running.
pub(super) async fn up(up: Up<'_>, interrupt: &Interrupt) -> Result<(Session, Came), CliError> {
    let Up {
        which,
        build,
        options,
        environment,
    } = up;
    let caller = living::caller(environment, interrupt);
    let repository = here::repository(environment, interrupt).await?;
    let turn = turn(&caller, &repository.top).await?;
    let of = DevSandbox {
        branch: which.branch.clone(),
    };
    let mut there = dev::find(&caller, &repository.top, &of)?;
    if let Some(record) = &there {
        refuse_options(record, options, environment)?;
    }
    let defaults = Defaults::read(environment)?;
    let given = options.ports()?;
    let sandbox = Sandbox::from(options.clone()).or(&defaults);
    if build.build {
        let asked = Asked {
            build,
            there: there.as_ref(),
            place: sandbox.kind().0,
            branch: which.branch.as_ref(),
            options,
        };
        let image = built(&asked, environment, interrupt).await?;
        if let Some(record) = there.take() {
            there = Some(renewed(&record, &image, &caller, environment).await?);
        }
    }
    let (session, came) = if let Some(record) = there {
        woken(&record, given, &repository, &caller, environment).await?
    } else {
        let ports = Ports::chosen(given, &defaults);
        let session = made(of, (sandbox, ports), &caller, environment).await?;
        // Whatever is wrong there is nothing of this one's.
        let _ = tell_left_behind(&repository, &caller).await;
        (session, Came::Made)
    };
    drop(turn);
    if came != Came::Before {
        keep_ready::after_living(session.record());
        give_logins(&session).await;
        unpublished::tell(&session, environment)?;
    }
    if came == Came::Started && !build.build {
        images::tell_changed(session.record(), environment).await;
    }
    Ok((session, came))
}

/// What counts when one is made cannot be given for one that is there, unless it has that already.
pub(super) fn refuse_options(
    record: &Record,
    options: &DevOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let others = options.not_of(record, environment)?;
    if others.is_empty() {
        return Ok(());
    }
    let name = &record.name;
    let flags = others.iter().map(|flag| format!("`{flag}`"));
    let flags = flags.collect::<Vec<_>>().join(", ");
    Err(CliError::Misused {
        message: format!("{name} is there already, and was not made with this {flags}"),
        hint: format!(
            "leave that out; or end it with `cofferdam delete {name}`, and it is made anew with it: its history and its shelf stay"
        ),
    })
}

/// Whose turn it is with the dev sandboxes of a checkout.
pub(super) async fn turn(caller: &Caller, top: &RepoPath) -> Result<File, CliError> {
    dev::turn(caller, top)
        .await?
        .ok_or_else(|| CliError::Failed {
            message: "another command is at work on the dev sandboxes of this checkout".to_owned(),
            hint: "wait for its end, and try again".to_owned(),
        })
}

async fn named(
    record: &Record,
    caller: &Caller,
    environment: &Environment,
) -> Result<Named, SessionError> {
    Named::find(caller, &environment.directory, &record.id.to_string()).await
}

/// It is stopped, and made from this image when it is started: what it was made with stays, and so does its home.
async fn renewed(
    record: &Record,
    image: &str,
    caller: &Caller,
    environment: &Environment,
) -> Result<Record, CliError> {
    let mut named = named(record, caller, environment).await?;
    let provider = named.provider(caller)?;
    if lives::condition(caller, &named, &provider).await? != Condition::Stopped {
        take_logins(caller, &named, &provider).await;
        lives::stop_within(caller, &named, &provider, GRACE).await?;
    }
    lives::make_from(caller, &mut named, image).await?;
    Ok(named.record().clone())
}

async fn woken(
    record: &Record,
    given: Option<Vec<PublishedPort>>,
    repository: &Repository,
    caller: &Caller,
    environment: &Environment,
) -> Result<(Session, Came), CliError> {
    let mut named = named(record, caller, environment).await?;
    let provider = named.provider(caller)?;
    match lives::condition(caller, &named, &provider).await? {
        Condition::Paused => {
            let name = named.name().to_string();
            Err(SessionError::Paused { name }.into())
        }
        Condition::Stopped => {
            let ports = Ports::of(record, given, environment)?;
            ports.give(caller, &mut named).await?;
            // Somebody may have taken its working tree away.
            if let Some(branch) = record.shelf_branch() {
                Box::pin(provision(caller, repository, branch)).await?;
            }
            let start = async |caller: &Caller| lives::start(caller, named, &provider).await;
            let session = living::shown(caller, environment, start).await??;
            Ok((session, Came::Started))
        }
        _ if given.is_some_and(|given| given != record.ports) => {
            let name = &record.name;
            Err(CliError::Misused {
                message: format!(
                    "{name} is running, and no other ports lead into it until it is started again"
                ),
                hint: format!(
                    "stop it first: `cofferdam stop {name}`; or for now: `cofferdam forward {name} PORT`"
                ),
            })
        }
        _ => {
            let session = Session::open(caller, named, &provider).await?;
            Ok((session, Came::Before))
        }
    }
}

async fn made(
    of: DevSandbox,
    (sandbox, ports): (Sandbox, Ports),
    caller: &Caller,
    environment: &Environment,
) -> Result<Session, CliError> {
    let strategy = Strategy {
        head: true,
        ..Strategy::default()
    };
    let contained = making::contained(&strategy, &sandbox, environment, BranchStrategy::Head)?;
    let names_image = sandbox.image.is_some();
    let making = making::session(sandbox, environment)?;
    let mut options = SessionOptions::new(environment.directory.clone(), contained);
    making.put_into(&mut options);
    options.dev = Some(of);
    (options.ports, options.ports_configured) = (ports.all, ports.configured);
    let create = async |caller: &Caller| Box::pin(Session::create(caller, &options)).await;
    let made = living::shown(caller, environment, create).await??;
    if !names_image {
        images::tell_unbuilt(made.record(), environment).await;
    }
    Ok(made)
}

/// Says which were made where this repository was before, if its commits are here: their own place is gone.
async fn tell_left_behind(repository: &Repository, caller: &Caller) -> Result<(), CliError> {
    let listing = registry::list(&caller.home, None)?;
    let there = listing.entries.into_iter().filter(Entry::is_there);
    let gone = |record: &Record| record.dev.is_some() && belongs::is_gone(record);
    for record in there.map(|entry| entry.record).filter(gone) {
        let begun = repository.resolve(record.base.as_str(), &caller.cancel);
        if matches!(begun.await, Ok(Some(_))) {
            let (name, id) = (&record.name, record.id);
            output::note(&format!(
                "note: the repository of {name} ({id}) is gone; if you moved it here: `cofferdam delete {id}`\n"
            ));
        }
    }
    Ok(())
}

/// The ports of this machine that lead into one from its next start on.
#[derive(Debug)]
pub(super) struct Ports {
    all: Vec<PublishedPort>,
    /// The configuration names them.
    configured: bool,
}

impl Ports {
    /// Those that somebody gives now, or gave once; else what the configuration of its checkout says by now.
    pub(super) fn of(
        record: &Record,
        given: Option<Vec<PublishedPort>>,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let by_hand = !record.ports.is_empty() && !record.ports_configured;
        let given = given.or_else(|| by_hand.then(|| record.ports.clone()));
        // What is not asked keeps nobody out.
        let defaults = match given {
            Some(_) => Defaults::default(),
            None => Defaults::read(&environment.at(record.repository.clone()))?,
        };
        Ok(Self::chosen(given, &defaults))
    }

    fn chosen(given: Option<Vec<PublishedPort>>, defaults: &Defaults) -> Self {
        let configured = given.is_none();
        let all = given.or_else(|| defaults.ports.clone());
        Self {
            all: all.unwrap_or_default(),
            configured,
        }
    }

    pub(super) async fn give(
        &self,
        caller: &Caller,
        named: &mut Named,
    ) -> Result<(), SessionError> {
        lives::publish(caller, named, &self.all, self.configured).await
    }
}

/// What a dev sandbox is for, in words.
pub(super) fn place(record: &Record) -> String {
    let checkout = shell_word(&record.repository);
    match record.shelf_branch() {
        Some(branch) => format!("branch {branch} of {checkout}"),
        None => checkout,
    }
}

/// Who comes in finds what is checked out now, and the logins that are kept. What goes wrong with either is told, and keeps nobody out:
/// it can be mended inside alone.
pub(super) async fn follow(session: &Session) {
    let name = session.name();
    // Who works on a branch of the shelf is on that, whatever is checked out here.
    let is_beside = session.record().shelf_branch().is_some();
    match session.follow().await {
        Ok(Followed::Same) => {}
        Ok(Followed::Moved { .. }) if is_beside => {}
        Ok(Followed::Moved { to }) => {
            output::note(&format!("{name} is on {to} now, as this checkout is\n"));
        }
        Ok(Followed::Stays { checked_out }) if is_beside => output::note(&format!(
            "note: {checked_out} is checked out here, and the checkout in {name} stays where it is: something is staged or under way there, \
             or it has commits that are on no branch here; `git push host` brings those\n"
        )),
        Ok(Followed::Stays { checked_out }) => output::note(&format!(
            "note: {checked_out} is checked out here, and {name} stays where it is: something is staged or under way there, or it has commits \
             that are on no branch here, which `cofferdam stop {name}`, and then `cofferdam merge {name}`, brings to {checked_out}\n"
        )),
        Err(error) => output::note(&format!("note: {error}\n")),
    }
    give_logins(session).await;
}

/// Whoever works in one finds the logins that are kept.
async fn give_logins(session: &Session) {
    if session.record().dev.is_some()
        && let Err(error) = session.give_logins().await
    {
        output::note(&format!("note: {error}\n"));
    }
}

/// What programs in one made of their logins is kept, before it is stopped or deleted. One that cannot be asked keeps its own.
pub(super) async fn take_logins(caller: &Caller, named: &Named, provider: &dyn BindMountProvider) {
    if named.record().dev.is_none()
        || !matches!(
            lives::condition(caller, named, provider).await,
            Ok(Condition::Running)
        )
    {
        return;
    }
    if let Ok(session) = Session::open(caller, named.clone(), provider).await {
        keep_logins(&session).await;
    }
}

async fn keep_logins(session: &Session) {
    let name = session.name();
    match session.take_logins().await {
        Ok(taken) => {
            for agent in taken.first {
                output::note(&format!(
                    "note: the login of {agent} that was made in {name} is kept, and other sandboxes get it: see cofferdam volume\n"
                ));
            }
            for agent in taken.forgotten {
                let give = codex_config::gives_again(&agent);
                output::note(&format!(
                    "note: the login of {agent} in {name} is not kept, because you had one forgotten: give one with {give}\n"
                ));
            }
        }
        Err(error) => output::note(&format!("note: {error}\n")),
    }
}

/// Who leaves one finds on their checkout's branch what was committed in it.
pub(super) async fn left(session: &Session, environment: &Environment) {
    let name = session.name();
    let mut collecting = std::pin::pin!(session.collect());
    let collected = tokio::select! {
        collected = &mut collecting => collected,
        () = tokio::time::sleep(NOTICED) => {
            output::note(&format!(
                "what is committed in {name} passes the gate and the checks of the configuration\n"
            ));
            collecting.await
        }
    };
    match collected {
        Ok(collection) => {
            let (landing, commits) = (&collection.landing, &collection.commits);
            if !commits.is_empty() || !matches!(landing, Landing::Nothing) {
                let colour = environment.colour.on_stderr();
                output::note(&summary::merged(landing, commits, colour));
            }
            let again = Again {
                // It runs, and so nothing is merged into its checkout.
                at_work: match session.record().shelf_branch() {
                    Some(_) => "",
                    None => name.as_str(),
                },
                lies_there: true,
                ..Again::of(name.as_str())
            };
            if let Some(next) = again::after_collect(landing, again) {
                output::note(&format!("next: {}\n", from_here(&next)));
            }
            living::beside(name.as_str(), &collection);
        }
        // It may have been stopped or deleted; nothing is lost by that.
        Err(error) => {
            let label = paint("note:", style::WARNING, environment.colour.on_stderr());
            output::note(&format!(
                "{label} what is committed in {name} is not home yet: {error}; bring it with: cofferdam collect {name}\n"
            ));
        }
    }
    if let Some(one) = session.unpushed().await {
        living::only_on_the_shelf(name.as_str(), &one);
    }
    keep_logins(session).await;
}
