//! What of the configuration cannot work, as far as that can be told without a sandbox.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::as_root::NO_ROOT;
use super::configured::effective;
use super::hide;
use super::inside::AGENT_HOME;
use super::looking::Looking;
use super::options::Caller;
use crate::config::{self, Merged, ProviderKind, Setting, Valued, Variable};
use crate::git::Repository;
use crate::process::{Invocation, Sink};
use crate::registry::RegistryError;
use crate::sync::{Complaint, Item, Places, gather};

/// A shell that only looks for a program.
const LOOKED: Duration = Duration::from_secs(5);

/// What will be missing, with the key, the file and the line that ask for it. Without a repository, of the user's own file alone. What
/// an image has is not known.
pub async fn doubts(
    caller: &Caller,
    repository: Option<&Repository>,
) -> Result<Vec<Complaint>, RegistryError> {
    let config = match repository {
        Some(repository) => effective(caller, &repository.top).await.config,
        None => config::effective(&caller.home, None).config,
    };
    let top = repository.map(|repository| repository.top.as_path());
    let mut workdir = PathBuf::from("/workspace");
    if let Some(repository) = repository {
        workdir.push(repository.top.slug().as_str());
    }
    let kind = config.settings.get("sandbox").map(|one| &one.value);
    let native = matches!(kind, None | Some(Setting::Sandbox(ProviderKind::Native)));
    let looking = Looking {
        caller,
        top: top.unwrap_or(caller.home.path()),
        workdir: &workdir,
        given: &BTreeMap::new(),
        mounts: &[],
        root: !native,
    };
    let look = |config: &Merged, places: Places<'_>| gather(config, places, |_| false);
    let wanted = looking.look(&config, look).await?;
    let mut doubts = wanted.complaints;
    for (name, one) in &config.env {
        if let Variable::OfHost(host) = &one.value
            && !caller.environment.contains_key(OsStr::new(host))
        {
            let reason = format!("this machine has no variable `{host}` now");
            doubts.push(doubt(&format!("env.{name}"), one, reason));
        }
    }
    if let Some(repository) = repository {
        for one in &config.hide {
            let (base, path) = (repository.head.commit(), &one.value);
            match hide::found(repository, base, path, &caller.cancel).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let path = path.display();
                    let reason = format!("nothing is at `{path}`, so nothing is hidden");
                    doubts.push(doubt("hide", one, reason));
                }
                Err(error) => doubts.push(doubt("hide", one, error.to_string())),
            }
        }
    }
    let programs = Programs {
        caller,
        items: &wanted.items,
        top,
        workdir: &workdir,
        native,
    };
    for one in &config.on_sync {
        let lacks = if one.value.root {
            native.then(|| NO_ROOT.to_owned())
        } else {
            programs
                .lacks(&one.value.command, AGENT_HOME.as_ref())
                .await
        };
        doubts.extend(lacks.map(|reason| doubt("on_sync", one, reason)));
    }
    if let Some(one) = &config.setup {
        let lacks = programs.lacks(&one.value, &workdir).await;
        doubts.extend(lacks.map(|reason| doubt("setup", one, reason)));
    }
    for one in &config.checks {
        let lacks = programs.lacks(&one.value.command, &workdir).await;
        doubts.extend(lacks.map(|reason| doubt("gate.checks", one, reason)));
    }
    Ok(doubts)
}

fn doubt<T>(key: &str, one: &Valued<T>, reason: String) -> Complaint {
    let item = format!("`{key}` of {} at line {}", one.source.file(), one.line);
    Complaint { item, reason }
}

/// What commands will find.
struct Programs<'a> {
    caller: &'a Caller,
    /// What is brought, by places without the first slash.
    items: &'a BTreeMap<PathBuf, Item>,
    top: Option<&'a Path>,
    workdir: &'a Path,
    /// It has the programs of this machine.
    native: bool,
}

impl Programs<'_> {
    /// Why the first program of a command that begins in `from` cannot be started.
    async fn lacks(&self, command: &str, from: &Path) -> Option<String> {
        let word = program(command)?;
        if !word.contains('/') {
            let mut names = self.items.keys().filter_map(|path| path.file_name());
            let there = names.any(|name| name == word)
                || !self.native
                || self.is_on_this_machine(word).await;
            return (!there).then(|| format!("this machine has no program `{word}`"));
        }
        let place = match word.strip_prefix("~/") {
            Some(rest) => Path::new(AGENT_HOME).join(rest),
            None => from.join(word),
        };
        let place: PathBuf = place.components().collect();
        let leads_up = place.components().any(|part| part == Component::ParentDir);
        if leads_up || self.items.contains_key(place.strip_prefix("/").ok()?) {
            return None;
        }
        if let Ok(below) = place.strip_prefix(self.workdir) {
            let missing = self.top?.join(below).symlink_metadata().is_err();
            return missing.then(|| format!("the repository has no `{}`", below.display()));
        }
        if place.starts_with(AGENT_HOME) {
            return Some(format!(
                "nothing brings `{word}`: something inside has to make it first"
            ));
        }
        (self.native && !place.exists()).then(|| format!("this machine has no `{word}`"))
    }

    /// Or is a word of the shell itself.
    async fn is_on_this_machine(&self, word: &str) -> bool {
        let mut asked = Invocation::new("/bin/sh", "/");
        asked = asked.args(["-c", "command -v \"$1\"", "sh", word]);
        if let Some(path) = self.caller.environment.get(OsStr::new("PATH")) {
            asked = asked.env("PATH", path);
        }
        (asked.limit, asked.output) = (LOOKED, Sink::Nothing);
        let answer = asked.run(&self.caller.cancel).await;
        // Nobody knows without one.
        answer.map_or(true, |answer| answer.exit.success())
    }
}

/// The first word of a line for a shell, where it says by itself what it means.
fn program(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/~+-".contains(c);
    (word.chars().all(plain) && !word.starts_with('-')).then_some(word)
}
