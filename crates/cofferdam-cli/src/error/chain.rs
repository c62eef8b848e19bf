//! Errors that speak for others. One that is `transparent` gives the cause of what it holds for its own, so whoever follows
//! the causes passes over what it holds, and over its hint. Every variant is written out: one that is new is asked here.

use std::error::Error;

use cofferdam::git::before::BeforeError;
use cofferdam::git::gate::GateError;
use cofferdam::git::index::IndexError;
use cofferdam::git::land::LandError;
use cofferdam::git::refs::RefError;
use cofferdam::git::trees::TreeError;
use cofferdam::git::vault::VaultError;
use cofferdam::git::worktree::WorktreeError;
use cofferdam::git::{GitError, RepositoryError};
use cofferdam::image::ImageError;
use cofferdam::runs::RunsError;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{
    AgentFailure, CollectError, ConversationError, ExtraMountError, PlanError, PortsError,
    RunErrorKind, ShelfError,
};
use cofferdam::volumes::VolumeError;
use cofferdam::wall::change::ChangeError;

use super::{CliError, living};

type Cause<'a> = Option<&'a (dyn Error + 'static)>;

/// The error that a variant holds and speaks for. Of files there is only what the disk says, which follows.
pub(super) fn held<'a>(error: &'a (dyn Error + 'static)) -> Cause<'a> {
    of(error, in_command)
        .or_else(|| of(error, in_run))
        .or_else(|| of(error, living::held))
        .or_else(|| of(error, in_image))
        .or_else(|| of(error, in_volume))
        .or_else(|| of(error, in_shelf))
        .or_else(|| of(error, in_runs))
        .or_else(|| of(error, in_conversation))
        .or_else(|| of(error, in_manage))
        .or_else(|| of(error, in_plan))
        .or_else(|| of(error, in_agent))
        .or_else(|| of(error, in_collect))
        .or_else(|| of(error, in_change))
        .or_else(|| of(error, in_gate))
        .or_else(|| of(error, in_land))
        .or_else(|| of(error, in_refs))
        .or_else(|| of(error, in_worktree))
        .or_else(|| of(error, in_vault))
        .or_else(|| of(error, in_tree))
        .or_else(|| of(error, in_index))
        .or_else(|| of(error, in_before))
        .or_else(|| of(error, in_repository))
        .or_else(|| of(error, in_git))
}

fn of<'a, E: Error + 'static>(
    error: &'a (dyn Error + 'static),
    held: fn(&'a E) -> Cause<'a>,
) -> Cause<'a> {
    error.downcast_ref().and_then(held)
}

fn in_command(error: &CliError) -> Cause<'_> {
    match error {
        CliError::Environment(error) => Some(error),
        CliError::Agent(error) => Some(error),
        CliError::Run(error) => Some(&error.kind),
        CliError::Manage(error) => Some(error),
        CliError::Session(error) => Some(error),
        CliError::NotStarted { error, .. } => Some(error.as_ref()),
        CliError::Unmade { error, .. } => Some(error.as_ref()),
        CliError::Wall(error) => Some(error),
        CliError::Change(error) => Some(error),
        CliError::Image(error) => Some(error),
        CliError::NetworkLog(error) => Some(error),
        CliError::File(error) => Some(error),
        CliError::Volume(error) => Some(error),
        CliError::Runs(error) => Some(error),
        CliError::PlanFile(error) => Some(error),
        CliError::PlanRun(error) => Some(error),
        CliError::Login(error) => Some(error),
        CliError::Shelf(error) => Some(error),
        CliError::Registry(error) => Some(error),
        // They have said what is to be said.
        CliError::Usage(_)
        | CliError::Misused { .. }
        | CliError::Prompt(_)
        | CliError::Program { .. }
        | CliError::Runtime(_)
        | CliError::Output(_)
        | CliError::Failed { .. }
        | CliError::Interrupted { .. } => None,
    }
}

fn in_image(error: &ImageError) -> Cause<'_> {
    match error {
        ImageError::File(error) => Some(error),
        ImageError::Engine(error) => Some(error),
        ImageError::Unusable { .. }
        | ImageError::Unresolved { .. }
        | ImageError::NoDockerfile(_)
        | ImageError::Context { .. }
        | ImageError::LeadsOut { .. }
        | ImageError::NoBase { .. }
        | ImageError::Untrusted(_)
        | ImageError::OtherDigest { .. }
        | ImageError::Pack(_)
        | ImageError::Build { .. }
        | ImageError::Cancelled => None,
    }
}

fn in_volume(error: &VolumeError) -> Cause<'_> {
    match error {
        VolumeError::File(error) => Some(error),
        VolumeError::Registry(error) => Some(error),
        VolumeError::Unknown(_)
        | VolumeError::Used { .. }
        | VolumeError::Busy
        | VolumeError::Label { .. }
        | VolumeError::Export { .. }
        | VolumeError::NoName(_) => None,
    }
}

fn in_conversation(error: &ConversationError) -> Cause<'_> {
    match error {
        ConversationError::Agent(error) => Some(error),
        ConversationError::File(error) => Some(error),
        ConversationError::NotKept { .. }
        | ConversationError::MadeRoom
        | ConversationError::NoFiles { .. }
        | ConversationError::Foreign { .. }
        | ConversationError::NotGiven(_)
        | ConversationError::NotTaken(_)
        | ConversationError::Cancelled => None,
    }
}

fn in_runs(error: &RunsError) -> Cause<'_> {
    match error {
        RunsError::File(error) => Some(error),
        RunsError::Unreadable { .. }
        | RunsError::Unknown { .. }
        | RunsError::NoConversation(_)
        | RunsError::NotNew { .. }
        | RunsError::NoParent { .. }
        | RunsError::AtWork(_) => None,
    }
}

fn in_shelf(error: &ShelfError) -> Cause<'_> {
    match error {
        ShelfError::Volume(error) => Some(error),
        ShelfError::Git(error) => Some(error),
        ShelfError::Vault(error) => Some(error),
        ShelfError::File(error) => Some(error),
        ShelfError::Jail { .. } | ShelfError::Failed { .. } | ShelfError::Another { .. } => None,
    }
}

fn in_run(error: &RunErrorKind) -> Cause<'_> {
    match error {
        RunErrorKind::Repository(error) => Some(error),
        RunErrorKind::Plan(error) => Some(error),
        RunErrorKind::EnvFile(error) => Some(error),
        RunErrorKind::Login(error) => Some(error),
        RunErrorKind::Copy(error) => Some(error),
        RunErrorKind::Registry(error) => Some(error),
        RunErrorKind::Git(error) => Some(error),
        RunErrorKind::Prompt { source, .. } => Some(source),
        RunErrorKind::Worktree(error) => Some(error),
        RunErrorKind::Tree(error) => Some(error),
        RunErrorKind::Vault(error) => Some(error),
        RunErrorKind::Runs(error) => Some(error),
        RunErrorKind::Conversation(error) => Some(error),
        RunErrorKind::Before(error) => Some(error),
        RunErrorKind::Sandbox(error) => Some(error),
        RunErrorKind::Agent { failure, .. } => Some(failure),
        RunErrorKind::Collect(error) => Some(error),
        RunErrorKind::Left(error) => Some(error.as_ref()),
        RunErrorKind::Session(error) => Some(error.as_ref()),
        RunErrorKind::File(error) => Some(error),
        RunErrorKind::Unwatched(_)
        | RunErrorKind::Prepare { .. }
        | RunErrorKind::StepTimedOut { .. }
        | RunErrorKind::Hook(_)
        | RunErrorKind::Expression(_)
        | RunErrorKind::Output(_)
        | RunErrorKind::Cancelled => None,
    }
}

fn in_manage(error: &ManageError) -> Cause<'_> {
    match error {
        ManageError::Repository(error) => Some(error),
        ManageError::Registry(error) => Some(error),
        ManageError::Git(error) => Some(error),
        ManageError::Collect(error) => Some(error),
        ManageError::Worktree(error) => Some(error),
        ManageError::Refs(error) => Some(error),
        ManageError::File(_)
        | ManageError::Running { .. }
        | ManageError::Unasked { .. }
        | ManageError::Interrupted { .. }
        | ManageError::Uncollectable { .. }
        | ManageError::HalfMerged { .. }
        | ManageError::NoBranch { .. }
        | ManageError::Refused { .. }
        | ManageError::DetachedTarget
        | ManageError::Unpushed { .. }
        | ManageError::UncommittedWork { .. }
        | ManageError::KeptWork { .. }
        | ManageError::OnNoOtherBranch { .. }
        | ManageError::Applying { .. }
        | ManageError::BranchLeft { .. }
        | ManageError::OtherCleansUp
        | ManageError::Orphaned { .. }
        | ManageError::Ambiguous { .. }
        | ManageError::Others { .. }
        | ManageError::Alive { .. }
        | ManageError::NoIdentity => None,
    }
}

fn in_plan(error: &PlanError) -> Cause<'_> {
    match error {
        PlanError::Name(error) => Some(error),
        PlanError::Volume(error) => Some(error),
        PlanError::Mount(ExtraMountError::File(error)) => Some(error),
        PlanError::Ports(PortsError::Taken { source, .. }) => Some(source),
        PlanError::Request(error) => Some(error),
        PlanError::DetachedTarget
        | PlanError::CopyWithHead
        | PlanError::Uncommitted { .. }
        | PlanError::LayerHook
        | PlanError::ExpressionsOnHost
        | PlanError::NoLayers { .. }
        | PlanError::Hide { .. }
        | PlanError::Protect { .. }
        | PlanError::Unread { .. }
        | PlanError::CheckedOut { .. }
        | PlanError::UnknownBase(_)
        | PlanError::NameTaken(_)
        | PlanError::BranchHeld { .. }
        | PlanError::EmptyPrompt
        | PlanError::BranchTaken(_)
        | PlanError::BranchMade(_)
        | PlanError::BranchBarred { .. }
        | PlanError::GitSymlink(_)
        | PlanError::SharedHome(_)
        | PlanError::ShowsHome { .. }
        | PlanError::InHome { .. }
        | PlanError::RefusedWorkspace { .. }
        | PlanError::ManySockets { .. }
        | PlanError::ManyLinks { .. }
        | PlanError::Mount(_)
        | PlanError::Ports(_)
        | PlanError::EmptySignal
        | PlanError::ModelRefused { .. }
        | PlanError::ModelInside { .. }
        | PlanError::ModelAddress { .. }
        | PlanError::NoAccess { .. }
        | PlanError::KeyWithheld { .. }
        | PlanError::NoSuchNetwork { .. } => None,
    }
}

fn in_agent(error: &AgentFailure) -> Cause<'_> {
    match error {
        AgentFailure::Request(error) => Some(error),
        AgentFailure::Sandbox(error) => Some(error),
        AgentFailure::Exit { .. }
        | AgentFailure::Reported(_)
        | AgentFailure::Silent(_)
        | AgentFailure::Idle(_)
        | AgentFailure::Budget(_)
        | AgentFailure::Quota { .. }
        | AgentFailure::Cancelled => None,
    }
}

fn in_collect(error: &CollectError) -> Cause<'_> {
    match error {
        CollectError::Registry(error) => Some(error),
        CollectError::Git(error) => Some(error),
        CollectError::Worktree(error) => Some(error),
        CollectError::Gate(error) => Some(error),
        CollectError::Land(error) => Some(error),
        CollectError::Refs(error) => Some(error),
        CollectError::File(_)
        | CollectError::PrivateRefs(_)
        | CollectError::NoBase { .. }
        | CollectError::Changes(_)
        | CollectError::Jail(_)
        | CollectError::Pack { .. }
        | CollectError::Inside(_)
        | CollectError::Foreign(_)
        | CollectError::TimedOut(_)
        | CollectError::Cancelled => None,
    }
}

fn in_change(error: &ChangeError) -> Cause<'_> {
    match error {
        ChangeError::Registry(error) => Some(error),
        ChangeError::Wall(error) => Some(error),
        ChangeError::Add(_) => None,
    }
}

fn in_gate(error: &GateError) -> Cause<'_> {
    match error {
        GateError::Git(error) => Some(error),
        GateError::Ref(error) => Some(error),
        GateError::File(_)
        | GateError::Refused { .. }
        | GateError::Cancelled
        | GateError::TimedOut(_) => None,
    }
}

fn in_land(error: &LandError) -> Cause<'_> {
    match error {
        LandError::Git(error) => Some(error),
        LandError::Ref(error) => Some(error),
        LandError::File(_) | LandError::Journal { .. } | LandError::HalfDone { .. } => None,
    }
}

fn in_refs(error: &RefError) -> Cause<'_> {
    match error {
        RefError::Git(error) => Some(error),
        RefError::Moved { .. } | RefError::CheckedOut { .. } | RefError::TrashFull(_) => None,
    }
}

fn in_worktree(error: &WorktreeError) -> Cause<'_> {
    match error {
        WorktreeError::Git(error) => Some(error),
        WorktreeError::File(_)
        | WorktreeError::CheckedOut { .. }
        | WorktreeError::Preserved { .. }
        | WorktreeError::NameConflict { .. }
        | WorktreeError::NotMade { .. }
        | WorktreeError::NoBranch { .. }
        | WorktreeError::InTheWay { .. }
        | WorktreeError::NotOurs { .. }
        | WorktreeError::Cancelled => None,
    }
}

fn in_vault(error: &VaultError) -> Cause<'_> {
    match error {
        VaultError::Git(error) => Some(error),
        VaultError::File(_) | VaultError::PartialClone { .. } | VaultError::Cancelled => None,
    }
}

fn in_tree(error: &TreeError) -> Cause<'_> {
    match error {
        TreeError::Git(error) => Some(error),
        TreeError::Index(error) => Some(error),
        TreeError::File(_) | TreeError::Cancelled => None,
    }
}

fn in_index(error: &IndexError) -> Cause<'_> {
    match error {
        IndexError::Git(error) => Some(error),
        IndexError::File(_) | IndexError::Format(_) => None,
    }
}

fn in_before(error: &BeforeError) -> Cause<'_> {
    match error {
        BeforeError::Git(error) => Some(error),
        BeforeError::File(_) | BeforeError::Trap(_) => None,
    }
}

fn in_repository(error: &RepositoryError) -> Cause<'_> {
    match error {
        RepositoryError::Git(error) => Some(error),
        RepositoryError::Path { .. }
        | RepositoryError::NotARepository { .. }
        | RepositoryError::AgentsOwn { .. }
        | RepositoryError::Elsewhere { .. }
        | RepositoryError::Bare { .. }
        | RepositoryError::Unborn { .. }
        | RepositoryError::ForeignOwner { .. }
        | RepositoryError::BranchName(_)
        | RepositoryError::OldGit { .. } => None,
    }
}

fn in_git(error: &GitError) -> Cause<'_> {
    match error {
        GitError::Process(error) => Some(error),
        GitError::Failed { .. } | GitError::Output { .. } => None,
    }
}
