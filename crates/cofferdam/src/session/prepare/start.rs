//! From a workspace to a sandbox that is up.

use std::path::PathBuf;
use std::time::Instant;

use super::{Making, Ready};
use crate::agent::{self, AGENTS, AgentOptions, AgentProgram, AgentProvider};
use crate::home::agent_home_in;
use crate::registry::{self, Mode, Owned};
use crate::sandbox::{
    Ability, Access, Contained, HostProgram, Lifetime, Mount, MountSource, ProgramFault, Sandbox,
    SandboxError, SandboxSpec,
};
use crate::session::error::{RunErrorKind, step};
use crate::session::event::{Event, Notice};
use crate::session::extra::Beside;
use crate::session::files;
use crate::session::form::Form;
use crate::session::inside::{AGENT_HOME, Inside, InsideError, Output};
use crate::session::mounts::{self, Mounts, Workspace};
use crate::session::place;
use crate::session::plan::PlanError;
use crate::session::transfer;
use crate::session::{dev, guard, push, shells};
use crate::volumes;
use crate::wall::Registration;

impl Making<'_> {
    pub(super) async fn start(
        &self,
        owned: &Owned,
        workspace: &Workspace<'_>,
        slot: &mut Option<Ready>,
    ) -> Result<(), RunErrorKind> {
        self.events.emit(&Event::Step { step: "sandbox" });
        let began = Instant::now();
        let isolated = matches!(self.options.sandbox, Contained::Isolated(_));
        let Mounts { all, passing } = mounts::mounts(workspace);
        let mut spec = SandboxSpec {
            id: owned.record.id,
            slug: owned.record.name.clone(),
            hostname: match &owned.record.dev {
                Some(of) => dev::hostname(&self.plan.repository.top, of),
                None => format!(
                    "cofferdam-{}-{}",
                    self.plan.repository.top.slug(),
                    owned.record.name
                ),
            },
            named: owned.record.dev.is_some(),
            workdir: match &owned.record.dev {
                Some(of) => dev::workdir(&self.plan.repository.top, of),
                None => self.plan.workdir.clone(),
            },
            mounts: if isolated { Vec::new() } else { all },
            environment: std::collections::BTreeMap::new(),
            search_first: None,
            search_path: self
                .caller
                .environment
                .get(std::ffi::OsStr::new("PATH"))
                .cloned(),
            caller_home: self.caller.user_home.clone(),
            programs: programs(self.agent),
            unseen: registry::unseen(
                &self.caller.home,
                self.plan.repository.top.as_path(),
                self.caller.user_home.as_deref(),
            )?,
            repository: Some(self.plan.repository.top.clone()),
            image: self.plan.record.image.clone(),
            limits: self.options.limits.clone(),
            root: self.plan.root,
            network: self.options.network.spec(
                &self.caller.home,
                &owned.record,
                &self.plan.repository.top,
            ),
            // One that has its files inside stays where its work could not be brought home.
            lifetime: if self.lives_on
                || (isolated && self.options.sandbox.abilities().has(Ability::Outlive))
            {
                Lifetime::UntilRemoved {
                    state: owned.directory().to_owned(),
                }
            } else {
                Lifetime::WithMaker
            },
            place: Some(owned.directory().to_owned()),
        };
        if self.lives_on || owned.record.mode.owns_files() {
            // What is made anew later has the agent's home as it was.
            let home = agent_home_in(owned.directory());
            spec.mounts.push(Mount {
                source: MountSource::Path(home),
                target: AGENT_HOME.into(),
                access: Access::ReadWrite,
            });
            if owned.record.dev.is_some() {
                spec.mounts.extend(self.volumes(owned)?);
                spec.mounts
                    .extend(guard::mounts(&self.caller.home, owned.directory())?);
                spec.mounts
                    .extend(push::mounts(&self.caller.home, owned.directory())?);
                spec.search_first = Some(guard::DIRECTORY.into());
            }
            let form = Form::of(&spec, &self.options.environment);
            let form = if workspace.shared {
                form.looking_again(passing)
            } else {
                form
            };
            form.write(owned)?;
            if self.lives_on {
                shells::agent_home(owned.directory())?;
                if owned.record.dev.is_some() {
                    shells::give_rules(owned.directory())?;
                }
            } else {
                // That of a run goes with it.
                spec.mounts.pop();
            }
        }
        let beside = Beside {
            caller: self.caller,
            repository: &self.plan.repository,
            id: owned.record.id,
            hidden: &owned.record.hidden,
        };
        let (state, home) = (owned.directory(), agent_home_in(owned.directory()));
        let home = self.lives_on.then_some(&*home);
        let mounts = &owned.record.mounts;
        let extra = beside.mounts::<RunErrorKind>(mounts, state, home, self.events);
        spec.mounts.extend(Box::pin(extra).await?);
        place::check_mounts(&spec.mounts, &self.caller.home)?;
        let limit = self.options.timeouts.sandbox_start;
        let create = async {
            match &self.options.sandbox {
                Contained::BindMount(kind) => Ok(Ready::Mounted(
                    kind.provider.create(&spec, &self.caller.cancel).await?,
                )),
                Contained::PrivateCopy(kind) => Ok(Ready::Mounted(
                    kind.provider.create(&spec, &self.caller.cancel).await?,
                )),
                Contained::Isolated(kind) => Ok(Ready::Isolated(
                    kind.provider.create(&spec, &self.caller.cancel).await?,
                )),
            }
        };
        let ready =
            tokio::time::timeout(limit, create)
                .await
                .map_err(|_| RunErrorKind::StepTimedOut {
                    step: "starting the sandbox",
                    limit,
                })?;
        let ready = slot.insert(ready.map_err(|error: SandboxError| match error {
            SandboxError::Cancelled => RunErrorKind::Cancelled,
            error => error.into(),
        })?);
        let problems = ready.sandbox().wall().map(Registration::problems);
        for problem in problems.unwrap_or_default() {
            let text = problem.message();
            let said = |notice: &Notice| matches!(notice, Notice::ConfigUnread { text: said } if *said == text);
            if self.plan.notices.iter().any(said) {
                continue;
            }
            self.events.notice(Notice::NetworkConfig { text });
        }
        let has_git = !isolated || self.options.sandbox.abilities().has(Ability::Git);
        if let Ready::Isolated(sandbox) = ready {
            if spec.lifetime != Lifetime::WithMaker && !self.lives_on {
                sandbox.stay().await?;
            }
            let (to, sandbox) = (&self.plan.workdir, sandbox.as_ref());
            let sent = async {
                if has_git {
                    return transfer::send(owned.directory(), workspace.source, to, sandbox).await;
                }
                let (repo, cancel) = (&self.plan.repository, &self.caller.cancel);
                files::send(repo, owned, workspace.source, to, sandbox, cancel).await
            };
            tokio::time::timeout(limit, sent)
                .await
                .map_err(|_| RunErrorKind::StepTimedOut {
                    step: "copying into the sandbox",
                    limit,
                })??;
        }
        if matches!(owned.record.mode, Mode::Copy | Mode::Inside) && has_git {
            self.check_out(owned, ready.sandbox()).await?;
        }
        self.events.emit(&Event::SandboxReady {
            millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        Ok(())
    }

    /// What outlives it, made where it is missing. The record names it by now: nobody removes it.
    fn volumes(&self, owned: &Owned) -> Result<Vec<Mount>, PlanError> {
        let top = self.plan.repository.top.as_path();
        let all = owned.record.volumes.iter().filter_map(|mount| {
            let purpose = dev::purpose(mount)?;
            Some((purpose, mount))
        });
        let all = all.map(|(purpose, mount)| {
            let volume = volumes::open(&self.caller.home, purpose, top)?;
            Ok(Mount {
                source: MountSource::Path(volume.files()),
                target: mount.target.clone(),
                access: Access::ReadWrite,
            })
        });
        all.collect()
    }

    /// Writes the source commit's files into a private copy, by the sandbox's own git where it has one.
    async fn check_out(&self, owned: &Owned, sandbox: &dyn Sandbox) -> Result<(), RunErrorKind> {
        let inside = Inside {
            sandbox,
            arguments: ["git", "reset", "--hard", "--quiet", "HEAD"]
                .map(Into::into)
                .to_vec(),
            directory: None,
            environment: self.environment,
            limit: self.options.timeouts.sandbox_start,
            output: Output::Captured(1 << 20),
        };
        let done = match inside.run(&self.caller.cancel).await {
            Err(InsideError::Sandbox(SandboxError::Program {
                fault: ProgramFault::Missing,
                ..
            })) if owned.record.mode == Mode::Copy => {
                let sent = files::send_into_copy(
                    &self.plan.repository,
                    owned,
                    &self.plan.workdir,
                    sandbox,
                    &self.caller.cancel,
                );
                let limit = self.options.timeouts.sandbox_start;
                return tokio::time::timeout(limit, sent).await.map_err(|_| {
                    RunErrorKind::StepTimedOut {
                        step: "copying into the sandbox",
                        limit,
                    }
                })?;
            }
            done => done.map_err(step("copy"))?,
        };
        if done.exit.success() {
            return Ok(());
        }
        let text = crate::text::printable(String::from_utf8_lossy(&done.stderr).trim_end());
        Err(SandboxError::Start(format!("the checkout in it failed: {text}")).into())
    }
}

/// The programs that a sandbox shows as the user has them: this agent's, and those of all agents that are known,
/// because scripts start them too.
pub(in crate::session) fn programs(agent: Option<&dyn AgentProvider>) -> Vec<HostProgram> {
    let known = AGENTS.iter().filter_map(|kind| {
        let agent = agent::by_name(kind.name, AgentOptions::default()).ok()?;
        agent.program().map(host_program)
    });
    let own = agent.and_then(AgentProvider::program).map(host_program);
    let mut programs: Vec<HostProgram> = Vec::new();
    for program in own.into_iter().chain(known) {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    programs
}

fn host_program(program: AgentProgram<'_>) -> HostProgram {
    HostProgram {
        name: program.name.to_owned(),
        directories: program.directories.iter().map(PathBuf::from).collect(),
    }
}
