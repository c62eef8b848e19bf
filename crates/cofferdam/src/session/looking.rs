//! Where a caller and a repository have the sources of a sync.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::options::Caller;
use crate::config::Merged;
use crate::registry::{self, ExtraMount, RegistryError};
use crate::sync::{Places, theme};

/// For a look at what the configuration names.
#[derive(Debug)]
pub(super) struct Looking<'a> {
    pub caller: &'a Caller,
    /// Of the checkout.
    pub top: &'a Path,
    /// Where the sandbox has the repository's files.
    pub workdir: &'a Path,
    /// What programs inside are given by whoever starts them.
    pub given: &'a BTreeMap<OsString, OsString>,
    /// What the sandbox sees of this machine beside its files.
    pub mounts: &'a [ExtraMount],
    /// Somebody can bring files that are not the agent's.
    pub root: bool,
}

impl Looking<'_> {
    /// Looks beside everything else that this process does.
    pub(super) async fn look<T: Default + Send + 'static>(
        &self,
        config: &Merged,
        look: impl FnOnce(&Merged, Places<'_>) -> T + Send + 'static,
    ) -> Result<T, RegistryError> {
        let config = config.clone();
        let own = self.caller.home.path().to_owned();
        let user_home = self.caller.user_home.clone();
        let home = user_home.as_deref();
        let theme = home.and_then(|home| theme(home, &self.caller.environment));
        let top = self.top.to_owned();
        let written = if config.sync.is_empty() && theme.is_none() {
            Vec::new()
        } else {
            registry::unseen(&self.caller.home, &top, home)?
        };
        let environment = self.caller.environment.clone();
        let root = self.root;
        let (workdir, given) = (self.workdir.to_owned(), self.given.clone());
        let writable = self.mounts.iter().filter(|mount| mount.writable);
        let mounted: BTreeMap<_, _> = writable
            .map(|mount| (mount.target.clone(), mount.source.clone()))
            .collect();
        let looking = move || {
            let places = Places {
                own: &own,
                user_home: user_home.as_deref(),
                top: &top,
                written: &written,
                theme: theme.as_ref(),
                environment: &environment,
                given: &given,
                workdir: &workdir,
                mounted: &mounted,
                root,
            };
            look(&config, places)
        };
        let looked = tokio::task::spawn_blocking(looking).await;
        Ok(looked.unwrap_or_default())
    }
}
