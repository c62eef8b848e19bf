//! What every sandbox has to do, natively and in each engine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cofferdam::sandbox::BindMountProvider;
use cofferdam::sandbox::conformance::{self, Outcome, Subject};
use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::native::Native;
use cofferdam_lab::skip;
use cofferdam_lab::verdict::{self, Kind as What, Verdict};

use crate::world::{World, each, run_async};

/// A test for each of them, of each provider.
macro_rules! conform {
    ($($name:ident)+) => {
        $(mod $name {
            use super::*;

            #[test]
            fn native() {
                let place = tempfile::tempdir().unwrap();
                open_to_all(place.path());
                let provider = Arc::new(Native::default());
                run_async(conforms(stringify!($name), provider, place.path().to_owned()));
            }

            each! {
                async fn engine(world: World) {
                    let provider = world.provider();
                    let place = world.directory("conforms");
                    // Its directory is this test's alone.
                    open_to_all(place.parent().unwrap());
                    conforms(stringify!($name), provider, place).await;
                }
            }
        })+

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

/// An agent with ids of its own has to come through.
pub(crate) fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

// covers: S4-G4
#[test]
fn every_check_is_tried() {
    let tried: BTreeSet<&str> = NAMES.iter().copied().collect();
    let all: BTreeSet<&str> = (conformance::checks().iter())
        .map(conformance::Check::name)
        .collect();
    assert_eq!(tried, all);
    assert_eq!(all.len(), conformance::checks().len());
}

async fn conforms(name: &str, provider: Arc<dyn BindMountProvider>, place: PathBuf) {
    let who = verdict::who(provider.name());
    let built = tempfile::tempdir().unwrap();
    open_to_all(built.path());
    let mut subject = Subject::new(provider, place);
    subject.environment = std::env::vars_os().collect();
    subject.attempts = Some(attempts(built.path()));
    let outcome = conformance::named(name).unwrap().run(&subject).await;
    let said = |verdict| verdict::record(&who, What::Check, name, verdict);
    match outcome {
        Ok(Outcome::Passed) => {
            said(Verdict::Passed);
        }
        Ok(Outcome::InPart(why)) => {
            said(Verdict::InPart(&why));
        }
        // Where it has to be tried, or nobody makes a table, it is a test that is skipped.
        Ok(Outcome::NotTried(why)) => {
            if skip::is_forbidden() || !said(Verdict::NotTried(&why)) {
                skip!("{name} of {who}: {why}");
            }
        }
        Err(failure) => panic!("{name} of {who}: {failure}"),
    }
}

/// The program of the attacks for which a shell has no command.
pub(crate) fn attempts(place: &Path) -> PathBuf {
    let (source, program) = (place.join("attempts.c"), place.join("attempts"));
    fs::write(&source, conformance::ATTEMPTS).unwrap();
    let mut command = Command::new("cc");
    command.args(["-static", "-O1", "-Wall", "-Werror", "-o"]);
    let done = command.arg(&program).arg(&source).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    program
}

conform! {
    exits_are_told_apart
    a_program_that_cannot_run_is_an_error_at_once
    arguments_arrive_as_they_are
    the_environment_is_what_was_given
    a_program_starts_where_it_is_told
    signals_reach_the_group
    many_run_at_once
    what_was_left_running_keeps_nobody_waiting
    input_output_and_error_are_apart
    much_goes_through_unchanged
    an_input_that_ends_is_heard_of
    a_reader_that_went_away_is_noticed
    a_terminal_is_one
    a_new_size_is_heard_of
    control_characters_are_signals
    a_terminal_that_goes_away_hangs_up
    a_program_has_none_that_an_ordinary_one_has_not
    the_kernel_is_not_configured_from_inside
    processes_of_the_host_are_out_of_reach
    files_of_the_host_are_out_of_sight
    its_init_cannot_be_ended_or_looked_into
    no_system_call_leads_out_of_it
    no_file_in_the_workspace_gives_rights
    nobody_listens_inside_but_its_own
    files_in_memory_end_before_the_machines_does
    there_are_only_the_devices_of_every_program
    what_is_written_is_the_callers
    what_is_read_only_stays_so
    later_ones_lie_over_earlier_ones
    what_is_not_there_is_refused
    a_symlink_is_not_followed
    paths_are_taken_as_they_are
    paths_that_it_cannot_take_are_refused_by_name
    without_one_there_is_only_its_own_loopback
    behind_the_wall_nothing_is_reached_that_no_rule_names
    processes_are_bounded
    open_files_are_bounded
    memory_is_bounded
    cpus_are_bounded
    what_cannot_be_given_is_refused_before_anything_is_made
    closing_ends_everything
    one_ends_with_its_maker
    closing_twice_is_no_error
    one_that_is_cancelled_leaves_nothing
    two_know_nothing_of_each_other
    one_that_lives_on_is_found_again
    until_it_stays_it_ends_with_its_maker
    programs_survive_who_started_them
    programs_are_listed_and_signalled
    one_is_made_once
    what_is_gone_is_not_running
    what_is_paused_stands_still
    what_is_frozen_goes_on_when_nobody_holds_it
    what_somebody_has_to_watch_stands_still_unwatched
    files_go_in_and_what_changed_comes_out
    nothing_is_followed_out_of_it
    files_get_to_their_places_whole_or_not_at_all
}
