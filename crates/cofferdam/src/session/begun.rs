//! The first record of a sandbox: from here on its name and its branch are its own.

use super::error::RunErrorKind;
use super::holder::Holder;
use super::plan::{Plan, PlanError};
use crate::home::Home;
use crate::registry::{Owned, Record, RegistryError};

/// Planning has not seen what began at the same moment: that is refused in its words. Nothing is made then.
pub(super) fn begin(home: &Home, record: Record, plan: &Plan) -> Result<Owned, RunErrorKind> {
    Owned::create(home, record).map_err(|error| match error {
        RegistryError::NameTaken(name) => PlanError::NameTaken(name).into(),
        RegistryError::BranchTaken { branch, by } => {
            match Holder::of(home, &plan.repository.top, &branch) {
                Ok(Some(holder)) => PlanError::BranchHeld { branch, holder }.into(),
                // It ended meanwhile.
                _ => RegistryError::BranchTaken { branch, by }.into(),
            }
        }
        error => error.into(),
    })
}
