//! `setup` of the configuration: what runs in a sandbox once, before anybody works there.

use std::collections::BTreeMap;
use std::ffi::OsString;

use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::hook_point::HookPoint;
use super::hooks::{self, HookError};
use super::plan::SetUp;
use crate::config::Source;
use crate::sandbox::Sandbox;

/// `environment`: of its user's own commands. Bounded: 600 s.
pub(super) async fn set_up(
    setup: &SetUp,
    sandbox: &dyn Sandbox,
    environment: &BTreeMap<OsString, OsString>,
    events: &Emitter,
    cancel: &CancellationToken,
) -> Result<(), HookError> {
    let inside = hooks::InSandbox {
        point: HookPoint::Setup,
        sandbox,
        directory: None,
        environment: match setup.command.source {
            Source::Global => environment,
            Source::Repository => &setup.plain,
        },
        events,
    };
    let command = &setup.command.value;
    let done = inside
        .configured(command, command, hooks::LIMIT, cancel)
        .await;
    done.or_else(|error| match error {
        error if setup.is_default && error.no_shell => Ok(()),
        error => Err(error),
    })
}
