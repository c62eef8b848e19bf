//! The first lines of a run: what is going to happen, and what about it the user should know.

use super::envfile::Withheld;
use super::event::{Event, Notice};
use super::mode_reason::ModeReason;
use super::network_options::NetworkOptions;
use super::options::{RunOptions, SessionOptions};
use super::plan::{Plan, TaskPlan};
use crate::registry::Strategy;

/// The first events. `uncommitted`: how many paths of the user's differ from HEAD in a checkout that
/// the agent shares.
pub(super) fn events(
    options: &RunOptions,
    plan: &Plan,
    task: &TaskPlan,
    log: Option<&std::path::Path>,
    uncommitted: usize,
) -> Vec<Event> {
    let mut notices = Vec::new();
    if options.session.on_host {
        notices.push(Notice::OnHost);
    } else if options.session.network == NetworkOptions::Open {
        notices.push(Notice::NetworkOpen);
    }
    let agent = options.task.agent.as_ref();
    if let Some(told) = agent.usage_told() {
        let unseen = options.task.budget.unseen(told).into_iter();
        notices.extend(unseen.map(|what| Notice::BoundsNothing {
            agent: agent.name().to_owned(),
            what,
        }));
    }
    for name in &task.unused_arguments {
        notices.push(Notice::UnusedArgument { name: name.clone() });
    }
    let names = task.withheld.callers.clone();
    if !names.is_empty() {
        notices.push(Notice::EnvironmentWithheld { names });
    }
    let names = task.withheld.steering.clone();
    if !names.is_empty() {
        notices.push(Notice::SteeringWithheld { names });
    }
    let planned = Event::Planned {
        id: plan.record.id,
        name: plan.record.name.clone(),
        agent: options.task.agent.name().to_owned(),
        provider: plan.record.provider.clone(),
        image: plan.record.image.clone(),
        strategy: plan.record.strategy.as_str(),
        mode: plan.record.mode.as_str(),
        why_mode: plan.why_mode.clone(),
        source_branch: plan.source_branch.clone(),
        target_branch: plan.target_branch.clone(),
        uncommitted,
        max_iterations: options.task.max_iterations.get(),
        log: log.map(std::path::Path::to_owned),
    };
    let notices = notices.into_iter().map(Event::Notice);
    let first = plan
        .notices
        .iter()
        .chain(&task.notices)
        .cloned()
        .map(Event::Notice);
    first
        .chain(std::iter::once(planned))
        .chain(notices)
        .collect()
}

/// The same where no agent is known yet.
pub(super) fn of_a_session(
    options: &SessionOptions,
    plan: &Plan,
    withheld: &Withheld,
) -> Vec<Event> {
    let mut notices = plan.notices.clone();
    if let ModeReason::Impossible(why) = &plan.why_mode {
        notices.push(Notice::NoLayers { why: why.clone() });
    }
    if options.network == NetworkOptions::Open {
        notices.push(Notice::NetworkOpen);
    }
    let names = withheld.callers.clone();
    if !names.is_empty() {
        notices.push(Notice::EnvironmentWithheld { names });
    }
    let names = withheld.steering.clone();
    if !names.is_empty() {
        notices.push(Notice::SteeringWithheld { names });
    }
    notices.into_iter().map(Event::Notice).collect()
}

/// Whether the first line waits for a look at the user's uncommitted work.
pub(super) fn waits(plan: &Plan) -> bool {
    plan.record.strategy == Strategy::Head
}
