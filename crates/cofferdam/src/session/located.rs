//! A repository whose place is known. What git says of it is asked once, by who needs it first.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::options::Caller;
use crate::git::Repository;
use crate::git::discovery::{self, Start};
use crate::git::repository::RepositoryError;
use crate::names::RepoPath;
use crate::registry::{self, RegistryError};

/// Why git finds no repository there.
#[derive(Debug, thiserror::Error)]
pub(super) enum LocateError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
}

#[derive(Debug, Clone)]
pub(super) struct Located {
    top: RepoPath,
    /// Whoever has a copy asks no second time.
    found: Arc<OnceCell<Repository>>,
}

impl From<Repository> for Located {
    fn from(repository: Repository) -> Self {
        Self {
            top: repository.top.clone(),
            found: Arc::new(OnceCell::new_with(Some(repository))),
        }
    }
}

impl Located {
    /// The checkout around `directory`, without git where that can be told.
    pub(super) async fn around(caller: &Caller, directory: &Path) -> Result<Self, LocateError> {
        let workspaces = registry::workspaces(&caller.home)?;
        match discovery::checkout_around(directory, &workspaces)? {
            Some(top) => Ok(Self {
                top,
                found: Arc::default(),
            }),
            None => Ok(discover(caller, directory).await?.into()),
        }
    }

    pub(super) fn top(&self) -> &RepoPath {
        &self.top
    }

    pub(super) async fn repository(&self, caller: &Caller) -> Result<&Repository, LocateError> {
        let find = async || {
            let (found, top) = (discover(caller, self.top.as_path()).await?, &self.top);
            if found.top != *top {
                let (path, top) = (top.as_path().to_owned(), found.top.as_path().to_owned());
                return Err(RepositoryError::Elsewhere { path, top }.into());
            }
            Ok(found)
        };
        self.found.get_or_try_init(find).await
    }
}

/// The repository around `directory`, as git finds it.
pub(super) async fn discover(caller: &Caller, directory: &Path) -> Result<Repository, LocateError> {
    let start = Start::find(directory, &registry::workspaces(&caller.home)?)?;
    let user = caller.user_home.as_deref();
    Ok(Repository::discover(&caller.git, &start, user, &caller.cancel).await?)
}
