//! Two files become one configuration (S1-5 to S1-14): pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cofferdam_wall::Rule;

use super::content::{
    Check, Config, Located, LocatedRule, OF_REPOSITORY, SyncHook, SyncRule, Variable,
};
use super::setting::Setting;

/// Which file says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The user's own.
    Global,
    /// The repository's.
    Repository,
}

impl Source {
    /// What messages call the file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Global => "config.yaml",
            Self::Repository => OF_REPOSITORY,
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Valued<T> {
    /// What was said.
    pub value: T,
    /// The file that says it, and where.
    pub source: Source,
    /// In its file, from 1.
    pub line: u64,
}

/// What both files say together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// None: the user's own file has no list, and the built-in one counts.
    pub allow: Option<Vec<Valued<Rule>>>,
    /// What the repository's own adds to that.
    pub allow_of_repository: Vec<Valued<Rule>>,
    /// Files that are copied in: the user's own, and then the repository's.
    pub sync: Vec<Valued<SyncRule>>,
    /// Variables of sandboxes, by their names.
    pub env: BTreeMap<String, Valued<Variable>>,
    /// Commands that run inside after a sync, in their order.
    pub on_sync: Vec<Valued<SyncHook>>,
    /// Paths below the repository's top that no sandbox sees.
    pub hide: Vec<Valued<PathBuf>>,
    /// Paths below the repository's top that no agent writes.
    pub protect: Vec<Valued<PathBuf>>,
    /// The repository's, where it has one.
    pub setup: Option<Valued<String>>,
    /// Commands that must succeed before a branch moves, in their order.
    pub checks: Vec<Valued<Check>>,
    /// The user's own alone.
    pub mcp_repositories: Vec<Valued<String>>,
    /// By their keys.
    pub settings: BTreeMap<&'static str, Valued<Setting>>,
}

/// What a repository's file says comes after the user's own; of its variables and of its rules for one destination it has the last word.
pub fn merge(global: Config, repository: Config) -> Merged {
    let (of_user, of_repository) = (Source::Global, Source::Repository);
    let rules = |found: Vec<LocatedRule>, source| -> Vec<Valued<Rule>> {
        let valued = found.into_iter().map(|one| Valued {
            value: one.rule,
            source,
            line: one.line,
        });
        valued.collect()
    };
    let of_theirs = |one: &Valued<SyncRule>| {
        let mut theirs = repository.sync.iter();
        theirs.any(|rule| rule.value.dest.is_same(&one.value.dest))
    };
    let mut sync = valued(global.sync, of_user);
    sync.retain(|one| !of_theirs(one));
    sync.extend(valued(repository.sync, of_repository));
    let mut env = BTreeMap::new();
    for (variables, source) in [(global.env, of_user), (repository.env, of_repository)] {
        env.extend(
            variables
                .into_iter()
                .map(|(name, one)| (name, one.from(source))),
        );
    }
    let mut settings = BTreeMap::new();
    for (found, source) in [
        (global.settings, of_user),
        (repository.settings, of_repository),
    ] {
        let found = valued(found, source);
        let other = |one: &Valued<Setting>| {
            let agent = |of: &Setting| matches!(of, Setting::Agent(_));
            agent(&one.value)
                && settings
                    .values()
                    .any(|own: &Valued<Setting>| agent(&own.value) && own.value != one.value)
        };
        if found.iter().any(other) {
            // They are names of the other agent's.
            settings.retain(|_, one| !matches!(one.value, Setting::Model(_) | Setting::Effort(_)));
        }
        settings.extend(found.into_iter().map(|one| (one.value.key(), one)));
    }
    Merged {
        allow: global.allow.map(|found| rules(found, of_user)),
        allow_of_repository: rules(repository.allow.unwrap_or_default(), of_repository),
        sync,
        env,
        on_sync: both(global.on_sync, repository.on_sync),
        hide: both(global.hide, repository.hide),
        protect: both(global.protect, repository.protect),
        setup: {
            let theirs = repository.setup.map(|one| one.from(of_repository));
            theirs.or_else(|| global.setup.map(|one| one.from(of_user)))
        },
        checks: both(global.checks, repository.checks),
        mcp_repositories: valued(global.mcp_repositories, of_user),
        settings,
    }
}

/// The user's own first.
fn both<T>(own: Vec<Located<T>>, theirs: Vec<Located<T>>) -> Vec<Valued<T>> {
    let mut all = valued(own, Source::Global);
    all.extend(valued(theirs, Source::Repository));
    all
}

fn valued<T>(found: Vec<Located<T>>, source: Source) -> Vec<Valued<T>> {
    found.into_iter().map(|one| one.from(source)).collect()
}

impl<T> Located<T> {
    fn from(self, source: Source) -> Valued<T> {
        Valued {
            value: self.value,
            source,
            line: self.line,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_wall::Origin;

    use super::*;

    fn read(text: &str) -> Config {
        super::super::parse(Path::new("c"), text.as_bytes(), Origin::Global).unwrap()
    }

    // covers: S1-5, S1-7, S1-8, S1-9, S1-10, S1-11, S1-12, S1-13, S1-14
    #[test]
    fn the_repositorys_comes_after_the_users_own() {
        let own = "env: {A: own, B: own}\nsync:\n  - {src: /own, dest: ~/one}\n  - {src: /own, dest: ~/two}\n\
                   on_sync: [{cmd: own}]\nfirewall: {allow: [{domain: own.test}]}\n";
        let theirs = "env: {B: theirs, C: theirs}\nsync:\n  - {src: /theirs, dest: ~/two}\n  - {src: /theirs, dest: ~/three}\n\
                      on_sync: [{cmd: theirs}]\nfirewall: {allow: [{domain: theirs.test}]}\n";
        let told = |merged: &Merged| {
            let sync = merged
                .sync
                .iter()
                .map(|one| format!("{} {}", one.value.dest, one.value.src));
            let env = merged
                .env
                .iter()
                .map(|(name, one)| format!("{name} {:?}", one.source));
            let hooks = merged.on_sync.iter().map(|one| one.value.command.clone());
            let rules = merged
                .allow
                .iter()
                .flatten()
                .chain(&merged.allow_of_repository);
            let rules = rules.map(|one| one.value.to_string());
            sync.chain(env)
                .chain(hooks)
                .chain(rules)
                .collect::<Vec<_>>()
        };
        let both = merge(read(own), read(theirs));
        assert_eq!(
            told(&both),
            [
                "~/one /own",
                "~/two /theirs",
                "~/three /theirs",
                "A Global",
                "B Repository",
                "C Repository",
                "own",
                "theirs",
                "own.test:80,443",
                "theirs.test:80,443"
            ]
        );
        assert_eq!(both.sync[1].line, 3);
        assert_eq!(told(&merge(read(own), Config::default())).len(), 6);
        // However often the user's own says it, and however either writes it.
        let own = "sync:\n  - {src: /own, dest: ~/two}\n  - {src: /more, dest: /home/agent/./two}\n  - {src: /own, dest: /home/agent/two/}\n\
                   \x20 - {src: /own, dest: /two}\n  - {src: /own, dest: ~/three}\n";
        assert_eq!(
            told(&merge(read(own), read(theirs)))[..4],
            [
                "/home/agent/two/ /own",
                "/two /own",
                "~/two /theirs",
                "~/three /theirs",
            ]
        );
        let alone = merge(Config::default(), read(theirs));
        assert_eq!(told(&alone).len(), 6);
        assert!(alone.allow.is_none());
        assert_eq!(
            merge(Config::default(), Config::default()),
            Merged::default()
        );
    }
}
