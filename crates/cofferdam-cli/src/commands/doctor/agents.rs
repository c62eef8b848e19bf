//! Which agents this user has: where `PATH` finds each, whether a sandbox shows it, its version, and whether it
//! has a login or a key.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam::agent::{self, AGENTS, Access, AgentKind, AgentOptions, AgentProvider};
use cofferdam::git::Repository;
use cofferdam::sandbox::native::jail::{self, JailOutput, JailRequest};
use cofferdam::sandbox::native::{self, Found, Host, Unshown};
use cofferdam::sandbox::{HostProgram, Limits};
use cofferdam::session::{self, Withheld, kept_login};
use cofferdam::text::printable_line;

use super::finding::{Agent, Finding, Standing};
use crate::commands::here::repository;
use crate::environment::Environment;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::table::fit;

/// For a program to say its version.
const LIMIT: Duration = Duration::from_secs(10);
/// So much of it is read, and so much shown.
const OUTPUT: usize = 4 << 10;
const SHOWN: usize = 60;

/// What the repository around here gives to agents.
#[derive(Debug)]
pub(super) struct Variables {
    repository: Option<Repository>,
    /// What is wrong with its `.cofferdam/.env`.
    wrong: Option<String>,
    /// What no run takes from that file.
    withheld: Withheld,
    /// Git does not track it yet, and does not ignore it either.
    exposed: bool,
}

impl Variables {
    pub(super) async fn read(environment: &Environment, interrupt: &Interrupt) -> Self {
        // Without a repository there is no such file.
        let repository = repository(environment, interrupt).await.ok();
        let mut this = Self {
            repository,
            wrong: None,
            withheld: Withheld::default(),
            exposed: false,
        };
        match this.of(&[], environment, interrupt).await {
            Ok((_, withheld)) => this.withheld = withheld,
            Err(wrong) => this.wrong = Some(wrong),
        }
        if let Some(repository) = &this.repository {
            let exposed = session::env_file_is_exposed(repository, &interrupt.cancel).await;
            this.exposed = exposed.unwrap_or_default();
        }
        this
    }

    /// A file that cannot be used ends every run before it starts; one that git has, or would take, gives away
    /// what is in it.
    pub(super) fn finding(&self) -> Option<Finding> {
        const NAME: &str = ".cofferdam/.env";
        if let Some(wrong) = &self.wrong {
            let hint = "each line is KEY=VALUE, KEY= to take yours, or a comment after `#`";
            return Some(Finding::new(NAME, Standing::Malformed, wrong, hint));
        }
        let top = self.repository.as_ref()?.top.as_path();
        if let Some(why) = self.withheld.why {
            let names = [&self.withheld.steering[..], &self.withheld.callers[..]].concat();
            let detail = format!("{why}, so no run takes these from it: {}", names.join(", "));
            let hint = crate::error::env_file_hint(why, top);
            return Some(Finding::new(NAME, Standing::Degraded, detail, hint));
        }
        let detail = "nothing in the repository has git ignore it: `git add` would take it";
        let ignore = shell_word(top.join(".cofferdam/.gitignore"));
        let hint = format!("echo /.env >> {ignore}");
        let exposed = || Finding::new(NAME, Standing::Degraded, detail, hint);
        self.exposed.then(exposed)
    }

    /// How an agent without a key gets one.
    fn key_hint(&self, agent: &dyn AgentProvider) -> String {
        let (Access::Missing { keys } | Access::Perhaps { keys, .. }) =
            agent.access(&BTreeMap::new(), false)
        else {
            return String::new();
        };
        if let (Some((why, key)), Some(repository)) = (self.withheld.key(keys), &self.repository) {
            let trust = crate::error::env_file_hint(why, repository.top.as_path());
            return format!(
                "`.cofferdam/.env` sets {key}, and no key is taken from it, because {why}: {trust}"
            );
        }
        let program = agent
            .program()
            .map(|program| program.name.to_string_lossy());
        let login = agent.login().map(|login| login.path);
        crate::error::access_hint(keys, login, program.as_deref())
    }

    /// What an agent that declares these names would have.
    async fn of(
        &self,
        declared: &[&str],
        environment: &Environment,
        interrupt: &Interrupt,
    ) -> Result<(BTreeMap<OsString, OsString>, Withheld), String> {
        let caller = &environment.variables;
        let Some(repository) = &self.repository else {
            let mut own = caller.clone();
            own.retain(|name, _| declared.iter().any(|declared| name == declared));
            return Ok((own, Withheld::default()));
        };
        let read = session::variables(repository, caller, declared, &interrupt.cancel).await;
        read.map_err(|error| crate::error::message(&error))
    }
}

/// One finding for each agent that has a program of its own.
pub(super) async fn find(
    own: &Variables,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for kind in AGENTS.iter().filter(|kind| !kind.install.is_empty()) {
        if let Ok(agent) = agent::by_name(kind.name, AgentOptions::default()) {
            let finding = look(kind, agent.as_ref(), own, environment, interrupt).await;
            found.extend(finding.map(|finding| untried(kind, finding)));
        }
    }
    found
}

fn untried(kind: &AgentKind, mut finding: Finding) -> Finding {
    if !kind.tried {
        finding
            .detail
            .push_str("; how it is started and read here was not tried with the program itself");
    }
    finding
}

async fn look(
    kind: &AgentKind,
    agent: &dyn AgentProvider,
    own: &Variables,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Option<Finding> {
    let program = agent.program()?;
    let variables = own.of(agent.environment(), environment, interrupt).await;
    let (variables, _) = variables.unwrap_or_default();
    let access = access(agent, &variables, environment);
    let program = HostProgram {
        name: program.name.to_owned(),
        directories: program.directories.iter().map(PathBuf::from).collect(),
    };
    let unseen = environment.unseen();
    let host = Host {
        search_path: environment.variable("PATH"),
        home: environment.user_home.as_deref(),
        programs: std::slice::from_ref(&program),
        unseen: &unseen,
    };
    let name = format!("agent {}", kind.name);
    let shown = program.name.to_string_lossy().into_owned();
    let Some(found) = native::locate(&program, &host) else {
        let detail = format!("there is no `{shown}` in your PATH");
        let mut finding = Finding::new(&name, Standing::Absent, detail, kind.install);
        finding.agent = Some(Agent {
            path: None,
            visible: false,
            version: None,
            access,
        });
        return Some(finding);
    };
    let version = version(program.name.clone(), &host, interrupt).await;
    let hint = own.key_hint(agent);
    Some(tell(&name, &found, version, access, hint))
}

fn tell(
    name: &str,
    found: &Found,
    version: Result<Option<String>, String>,
    access: Option<String>,
    key_hint: String,
) -> Finding {
    let place = found.path.display();
    let mut finding = match (&found.unshown, &version) {
        (Some(why), _) => Finding::new(
            name,
            Standing::Degraded,
            format!("{place} is not visible inside: {why}"),
            elsewhere(why),
        ),
        (None, Err(why)) => Finding::new(
            name,
            Standing::Degraded,
            format!("{place} does not start inside: {why}"),
            "what it needs may lie elsewhere in your home: install it anew with its own installer or with npm",
        ),
        (None, Ok(version)) => {
            let version = version
                .as_deref()
                .unwrap_or("of a version that it does not say");
            let (entry, standing, hint) = match &access {
                Some(access) => (access.as_str(), Standing::Ok, String::new()),
                None => ("no key, no login", Standing::Degraded, key_hint),
            };
            let detail = format!("{version} ({place}), visible inside, {entry}");
            Finding::new(name, standing, detail, hint)
        }
    };
    finding.agent = Some(Agent {
        path: Some(place.to_string()),
        visible: found.unshown.is_none() && version.is_ok(),
        version: version.ok().flatten(),
        access,
    });
    finding
}

/// The next step for a program that no sandbox shows.
pub(crate) fn elsewhere(why: &Unshown) -> &'static str {
    match why {
        Unshown::In(_) => "install it outside of there, for example in ~/.local",
        Unshown::Checkout(..) => {
            "install a copy of it, with `npm install --global --install-links .` in that directory"
        }
        Unshown::System(_) => "install it in ~/.local or in /usr/local",
        Unshown::Unreadable => "look at its symlinks and its permissions",
    }
}

/// What it would have in a run without options.
fn access(
    agent: &dyn AgentProvider,
    variables: &BTreeMap<OsString, OsString>,
    environment: &Environment,
) -> Option<String> {
    let logged_in = kept_login(&environment.home, agent).is_file();
    match agent.access(variables, logged_in) {
        Access::Login => Some("login".to_owned()),
        Access::Variable(name) => Some(name.to_owned()),
        Access::Unknown => Some("no key needed".to_owned()),
        Access::Perhaps { .. } | Access::Missing { .. } => None,
    }
}

/// Asked in a sandbox without a network and without anything of the user's: no program of theirs is run as them.
/// `Err`: it did not start.
async fn version(
    program: OsString,
    host: &Host<'_>,
    interrupt: &Interrupt,
) -> Result<Option<String>, String> {
    let request = JailRequest {
        mounts: Vec::new(),
        arguments: vec![program, "--version".into()],
        environment: BTreeMap::new(),
        directory: PathBuf::from("/tmp"),
        stdin: Vec::new(),
        stdout: JailOutput::Capture(OUTPUT),
        limits: Limits::default(),
        timeout: LIMIT,
    };
    let done = jail::run_showing(request, host, &interrupt.cancel).await;
    let done = done.map_err(|error| crate::error::message(&error))?;
    if !done.exit.success() {
        let said = String::from_utf8_lossy(&done.stderr_tail);
        let said = said
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or_default();
        return Err(format!(
            "{}, {}",
            done.exit,
            fit(&printable_line(said), SHOWN)
        ));
    }
    let said = String::from_utf8_lossy(&done.stdout);
    let first = said.lines().next().unwrap_or_default().trim();
    Ok((!first.is_empty()).then(|| fit(&printable_line(first), SHOWN)))
}
