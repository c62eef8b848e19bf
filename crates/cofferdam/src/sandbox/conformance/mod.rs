//! What every sandbox has to do, whoever provides it: checks that anybody can run against a provider of their own. The
//! providers of this crate pass all of them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use cofferdam::sandbox::{conformance, native::Native};
//!
//! let subject = conformance::Subject::new(Arc::new(Native::default()), "/tmp/an-empty-directory");
//! for check in conformance::checks() {
//!     match check.run(&subject).await {
//!         Ok(conformance::Outcome::Passed) => println!("{check}: passed"),
//!         Ok(conformance::Outcome::InPart(but)) => println!("{check}: passed, but {but}"),
//!         Ok(conformance::Outcome::NotTried(why)) => println!("{check}: not tried: {why}"),
//!         Err(failure) => println!("{check}: FAILED: {failure}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A sandbox needs `/bin/sh` with the usual small programs, as `busybox` has them. What a provider does not promise
//! ([`super::Abilities`]) is not tried, and that is said.

mod attacks;
mod ends;
mod files;
mod limits;
mod living;
mod mounts;
mod network;
mod programs;
mod rights;
mod stopping;
mod streams;
mod terminals;
mod trial;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Ability, BindMountProvider, Limits, SandboxError};
use trial::Trial;

/// No check takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// A provider, and what its checks need.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Subject {
    /// What is checked.
    pub provider: Arc<dyn BindMountProvider>,
    /// A directory of the host's that is there. Each check works in one of its own below it, which stays when it fails.
    pub place: PathBuf,
    /// Of sandboxes of which a check asks for none.
    pub limits: Limits,
    /// The caller's own variables, none of which may be inside.
    pub environment: Vec<(OsString, OsString)>,
    /// The static program that [`ATTEMPTS`] becomes. Whoever gives none is told which checks were not tried for want of it.
    pub attempts: Option<PathBuf>,
}

/// A program in C that makes the system calls for which a shell has no command: `cc -static -o attempts attempts.c`.
pub const ATTEMPTS: &str = include_str!("attempts.c");

impl Subject {
    /// With limits that every machine can give.
    pub fn new(provider: Arc<dyn BindMountProvider>, place: impl Into<PathBuf>) -> Self {
        Self {
            provider,
            place: place.into(),
            limits: Limits {
                processes: Some(256),
                memory: None,
                cpus: None,
                open_files: Some(1024),
            },
            environment: Vec::new(),
            attempts: None,
        }
    }
}

/// How a check ended that found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It does what every sandbox has to.
    Passed,
    /// What could be tried passed. The rest, or what it has no control for on this machine, and why.
    InPart(String),
    /// The provider does not promise it, or this machine cannot carry it: why.
    NotTried(String),
}

/// What a provider did otherwise than it should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self(format!("the sandbox says: {error}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

type Trying<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send + 'a>>;

/// One thing that a sandbox has to do.
pub struct Check {
    name: &'static str,
    needs: &'static [Ability],
    attempt: for<'a> fn(&'a Trial<'a>) -> Trying<'a>,
}

impl Check {
    /// A short sentence in words with underscores between them, as a test is named.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Tries it in new sandboxes, all of which end with it. Bounded: two minutes.
    pub async fn run(&self, subject: &Subject) -> Result<Outcome, Failure> {
        let abilities = subject.provider.abilities();
        if let Some(missing) = self.needs.iter().find(|ability| !abilities.has(**ability)) {
            return Ok(Outcome::NotTried(format!(
                "{} cannot {missing}",
                subject.provider.name()
            )));
        }
        let trial = Trial::begin(subject, self.name)?;
        let tried = tokio::time::timeout(LIMIT, (self.attempt)(&trial)).await;
        let tried = tried.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            Err(Failure(format!("it did not end within {seconds} s")))
        });
        let ended = trial.end(tried.is_ok()).await;
        let outcome = tried?;
        ended?;
        Ok(outcome)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

/// All of them; each stands for itself.
pub fn checks() -> &'static [Check] {
    CHECKS
}

/// The check of that name.
pub fn named(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

macro_rules! checks {
    ($($module:ident::$name:ident [$($ability:ident),*];)*) => {
        const CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            needs: &[$(Ability::$ability),*],
            attempt: |trial| Box::pin($module::$name(trial)),
        }),*];
    };
}

checks! {
    programs::exits_are_told_apart [];
    programs::a_program_that_cannot_run_is_an_error_at_once [];
    programs::arguments_arrive_as_they_are [];
    programs::the_environment_is_what_was_given [];
    programs::a_program_starts_where_it_is_told [];
    programs::signals_reach_the_group [];
    programs::many_run_at_once [];
    programs::what_was_left_running_keeps_nobody_waiting [];
    streams::input_output_and_error_are_apart [];
    streams::much_goes_through_unchanged [];
    streams::an_input_that_ends_is_heard_of [];
    streams::a_reader_that_went_away_is_noticed [];
    terminals::a_terminal_is_one [Terminal];
    terminals::a_new_size_is_heard_of [Terminal];
    terminals::control_characters_are_signals [Terminal];
    terminals::a_terminal_that_goes_away_hangs_up [Terminal];
    rights::a_program_has_none_that_an_ordinary_one_has_not [];
    rights::the_kernel_is_not_configured_from_inside [];
    rights::processes_of_the_host_are_out_of_reach [];
    rights::files_of_the_host_are_out_of_sight [];
    rights::its_init_cannot_be_ended_or_looked_into [];
    attacks::no_system_call_leads_out_of_it [Mount];
    attacks::no_file_in_the_workspace_gives_rights [Mount];
    attacks::nobody_listens_inside_but_its_own [Mount];
    attacks::files_in_memory_end_before_the_machines_does [];
    attacks::there_are_only_the_devices_of_every_program [];
    mounts::what_is_written_is_the_callers [Mount];
    mounts::what_is_read_only_stays_so [Mount];
    mounts::later_ones_lie_over_earlier_ones [Mount];
    mounts::what_is_not_there_is_refused [Mount];
    mounts::a_symlink_is_not_followed [Mount];
    mounts::paths_are_taken_as_they_are [Mount];
    mounts::paths_that_it_cannot_take_are_refused_by_name [Mount];
    network::without_one_there_is_only_its_own_loopback [];
    network::behind_the_wall_nothing_is_reached_that_no_rule_names [];
    limits::processes_are_bounded [];
    limits::open_files_are_bounded [];
    limits::memory_is_bounded [];
    limits::cpus_are_bounded [];
    limits::what_cannot_be_given_is_refused_before_anything_is_made [];
    ends::closing_ends_everything [Mount];
    ends::one_ends_with_its_maker [Mount];
    ends::closing_twice_is_no_error [];
    ends::one_that_is_cancelled_leaves_nothing [Outlive];
    ends::two_know_nothing_of_each_other [];
    living::one_that_lives_on_is_found_again [Outlive];
    living::until_it_stays_it_ends_with_its_maker [Outlive];
    living::programs_survive_who_started_them [Outlive];
    living::programs_are_listed_and_signalled [Outlive];
    living::one_is_made_once [Outlive];
    living::what_is_gone_is_not_running [Outlive];
    stopping::what_is_paused_stands_still [Pause, Outlive, Mount];
    stopping::what_is_frozen_goes_on_when_nobody_holds_it [Pause, Outlive, Mount];
    stopping::what_somebody_has_to_watch_stands_still_unwatched [Pause, Outlive, Mount];
    files::files_go_in_and_what_changed_comes_out [Files];
    files::nothing_is_followed_out_of_it [Files];
    files::files_get_to_their_places_whole_or_not_at_all [Files];
}

/// Fails with a sentence unless something holds.
macro_rules! ensure {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err($crate::sandbox::conformance::Failure(format!($($said)+)));
        }
    };
}
use ensure;
