//! A sandbox whose set-up failed: why, and its set-up once more.

use super::life::turn;
use super::{Session, SessionError};
use crate::fsx;
use crate::home::Home;
use crate::registry::{Owned, Record, Setup};
use crate::session::configured::{effective, plain};
use crate::session::emitter::Emitter;
use crate::session::form::Form;
use crate::session::hook_point::HookPoint;
use crate::session::hooks::HookError;
use crate::session::plan::SetUp;
use crate::session::set_up::set_up;
use crate::session::sync::SyncMode;
use crate::session::variables;
use crate::text::printable;

/// Why it failed, in the state directory.
const WHY: &str = "setup-failed";
/// Bytes of it that are shown.
const SHOWN: u64 = 64 << 10;

/// Whoever comes later has not seen it. What cannot be written now has been told.
pub(super) fn failed(owned: &Owned, error: &HookError) {
    let why = owned.directory().join(WHY);
    let _ = fsx::write_private(&why, error.to_string().as_bytes());
}

/// Why the set-up of a sandbox failed, with the first and last lines of what it printed; nothing where it did not.
pub fn why_setup_failed(home: &Home, record: &Record) -> Option<String> {
    if record.setup != Setup::Failed {
        return None;
    }
    let text = fsx::read_bounded(&home.sandbox(record.id).join(WHY), SHOWN).ok()?;
    Some(printable(&String::from_utf8_lossy(&text)))
}

/// Whether [`Session::set_up_again`] does something: what failed is in the configuration, and not a hook of the command that made it, which
/// nobody knows any more.
pub fn can_be_set_up_again(home: &Home, record: &Record) -> bool {
    let of_its_maker = format!("the {} hook ", HookPoint::SandboxReady);
    why_setup_failed(home, record).is_some_and(|why| !why.starts_with(&of_its_maker))
}

impl Session {
    /// Runs the set-up again where it failed, as the configuration has it now, and brings what that says before. `false`: it is as it was, because
    /// nothing had failed or that is not known any more ([`can_be_set_up_again`]). Bounded as a sync, and 600 s.
    pub async fn set_up_again(&mut self) -> Result<bool, SessionError> {
        if !can_be_set_up_again(&self.caller.home, self.record()) {
            return Ok(false);
        }
        let mut turn = turn(&self.caller, &self.named).await?;
        if turn.record.setup != Setup::Failed {
            return Ok(false);
        }
        let failed_again = |why: String| SessionError::SetUp {
            name: self.name().to_string(),
            why,
        };
        let found = effective(&self.caller, self.named.located.top()).await;
        if let Some(problem) = found.problems.first() {
            return Err(failed_again(problem.to_string()));
        }
        self.bring(SyncMode::IfChanged).await?;
        if let Some(command) = found.config.setup.clone() {
            let setup = SetUp {
                plain: plain(&found.config),
                is_default: false,
                command,
            };
            let given = Form::read(&self.directory())?.environment();
            let located = &self.named.located;
            let resolved = variables::of_a_session(&self.caller, &given, located).await;
            let (environment, _) = resolved?;
            let events = Emitter::sink(self.caller.events.clone());
            let cancel = &self.caller.cancel;
            let done = set_up(&setup, self.sandbox(), &environment, &events, cancel).await;
            if let Err(error) = done {
                failed(&turn, &error);
                return Err(failed_again(error.to_string()));
            }
        }
        turn.record.setup = Setup::Done;
        turn.save()?;
        fsx::remove_file_if_exists(&turn.directory().join(WHY))?;
        self.named.record = turn.record.clone();
        Ok(true)
    }
}
