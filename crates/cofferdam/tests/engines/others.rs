//! A provider of somebody else's, which is what the checks are public for: one that promises little passes what it promises, and one
//! with a fault fails the check that is about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cofferdam::sandbox::conformance::{self, Failure, Outcome, Subject};
use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{
    Abilities, Ability, Access, BindMountProvider, ExecRequest, Execution, Limits, Network,
    NetworkKind, Sandbox, SandboxError, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

use crate::conforms::open_to_all;
use crate::world::run_async;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Programs have the caller's variables.
    TellsVariables,
    /// What was to be read alone can be written.
    LetsWrite,
    /// A sandbox that was to have no network has the host's.
    OpensNetwork,
    /// It forgets limits.
    ForgetsLimits,
    /// Sandboxes that are closed go on.
    LeavesOpen,
    /// Nobody hears of a directory that is not there.
    StartsElsewhere,
}

/// It has no more than mounts, and the embedded one does its work.
#[derive(Debug)]
struct Plain(Fault);

#[async_trait]
impl BindMountProvider for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None],
            others: &[Ability::Mount],
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let mut spec = spec.clone();
        match self.0 {
            Fault::TellsVariables => spec.environment.extend(std::env::vars_os()),
            Fault::LetsWrite => {
                for mount in &mut spec.mounts {
                    mount.access = Access::ReadWrite;
                }
            }
            Fault::OpensNetwork => spec.network = Network::Open,
            Fault::ForgetsLimits => spec.limits = Limits::default(),
            Fault::None | Fault::LeavesOpen | Fault::StartsElsewhere => {}
        }
        let inner = Native::default().create(&spec, cancel).await?;
        Ok(Arc::new(Made {
            inner,
            fault: self.0,
        }))
    }
}

#[derive(Debug)]
struct Made {
    inner: Arc<dyn Sandbox>,
    fault: Fault,
}

#[async_trait]
impl Sandbox for Made {
    async fn exec(&self, mut request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        if self.fault == Fault::StartsElsewhere {
            request.directory = None;
        }
        self.inner.exec(request).await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        if self.fault == Fault::LeavesOpen {
            return Ok(());
        }
        self.inner.close().await
    }
}

/// What became of these checks; without names, of all.
fn tried(fault: Fault, names: &[&str]) -> BTreeMap<&'static str, Result<Outcome, Failure>> {
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path());
    let mut subject = Subject::new(Arc::new(Plain(fault)), place.path());
    subject.environment = std::env::vars_os().collect();
    let mut outcomes = BTreeMap::new();
    run_async(async {
        for check in conformance::checks() {
            if names.is_empty() || names.contains(&check.name()) {
                outcomes.insert(check.name(), check.run(&subject).await);
            }
        }
    });
    // What was left open ends with the last who has it, and may still write.
    let began = Instant::now();
    while place.path().exists() && std::fs::remove_dir_all(place.path()).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    outcomes
}

#[test]
fn one_that_promises_little_passes_that_and_the_rest_is_named() {
    let mut untried = BTreeMap::new();
    for (name, outcome) in tried(Fault::None, &[]) {
        match outcome {
            Ok(Outcome::Passed | Outcome::InPart(_)) => {}
            // No machine is asked for a limit that it cannot give.
            Ok(Outcome::NotTried(_)) if name.ends_with("bounded") => {}
            Ok(Outcome::NotTried(why)) => *untried.entry(why).or_insert(0) += 1,
            Err(failure) => panic!("{name}: {failure}"),
        }
    }
    let expected = [
        ("nobody has built the program of `ATTEMPTS`", 3),
        ("plain cannot give a program a terminal", 4),
        (
            "plain cannot keep a sandbox longer than the program that made it",
            7,
        ),
        ("plain cannot stop its programs for a while", 3),
        (
            "plain cannot take files in and tell which of them changed",
            3,
        ),
        ("plain has no wall", 1),
    ];
    let expected = expected.map(|(why, count)| (why.to_owned(), count));
    assert_eq!(untried, BTreeMap::from(expected));
}

#[test]
fn a_fault_fails_the_check_that_is_about_it() {
    for (fault, name) in [
        (Fault::TellsVariables, "the_environment_is_what_was_given"),
        (Fault::LetsWrite, "what_is_read_only_stays_so"),
        (
            Fault::OpensNetwork,
            "without_one_there_is_only_its_own_loopback",
        ),
        (Fault::ForgetsLimits, "open_files_are_bounded"),
        (Fault::LeavesOpen, "closing_ends_everything"),
        (Fault::StartsElsewhere, "a_program_starts_where_it_is_told"),
    ] {
        let outcome = tried(fault, &[name]).remove(name).unwrap();
        assert!(outcome.is_err(), "{fault:?}: {name}: {outcome:?}");
    }
}
