//! What to do about a run that cannot begin.

use std::fmt::Write as _;
use std::path::Path;

use cofferdam::session::{NotTrusted, PlanError, PortsError};

use super::mount::mount_hint;
use super::names::{self, CHECKED_OUT_HINT};
use crate::ui::opening;
use crate::ui::shell::shell_word;

pub(super) const PROMPT_HINT: &str =
    "give one with `--prompt TEXT` or `--prompt-file FILE`, or pipe it in: `… | cofferdam run`";

fn ports_hint(error: &PortsError) -> String {
    match error {
        PortsError::NotDev => "leave out `--publish`".to_owned(),
        PortsError::Taken { port, .. } => {
            let port = port.get();
            // Ordinary users may listen from 1024 on.
            let other = if port < 1024 { port + 8000 } else { port.checked_add(1).unwrap_or(port - 1) };
            format!("end what listens there, or name another port of this machine before the one inside, as in `{other}:80`")
        }
        PortsError::Open => {
            "make one without `--network open`; natively what listens in one with it listens on this machine itself".to_owned()
        }
    }
}

pub(super) fn plan_hint(error: &PlanError) -> Option<String> {
    let hint = match error {
        PlanError::DetachedTarget => {
            "check out a branch with `git switch NAME`, or use `--branch NAME` or `--head`"
                .to_owned()
        }
        PlanError::Hide { .. } => {
            "give a path below the top of the repository, as `git ls-files` names them".to_owned()
        }
        PlanError::Unread { .. } => {
            "mend it at that place: see `cofferdam config check`".to_owned()
        }
        PlanError::Protect { .. } => {
            "correct `protect` in the configuration: `cofferdam config` says where it stands".to_owned()
        }
        PlanError::Uncommitted { path, .. } => {
            format!("commit it, or add `--copy {}`", shell_word(path))
        }
        PlanError::ExpressionsOnHost => {
            "`cofferdam prompt check FILE --run` shows what they print: give that with `--prompt`, or leave out `--no-sandbox`"
                .to_owned()
        }
        PlanError::LayerHook => "use `--mode bind`".to_owned(),
        PlanError::NoLayers { .. } => {
            "leave out `--mode layer`, or use `--mode bind` or `--mode copy`; `cofferdam doctor` looks at it too".to_owned()
        }
        PlanError::CopyWithHead => "add `--merge-to-head` or `--branch NAME`".to_owned(),
        PlanError::CheckedOut { .. } => CHECKED_OUT_HINT.to_owned(),
        PlanError::UnknownBase(_) => "see `git log --oneline --all` for what there is".to_owned(),
        PlanError::NameTaken(name) => names::taken_hint(name),
        PlanError::BranchHeld { holder, .. } => names::held_hint(holder),
        PlanError::GitSymlink(_) => "leave out `--head`".to_owned(),
        PlanError::EmptyPrompt => PROMPT_HINT.to_owned(),
        PlanError::SharedHome(_) => {
            "set COFFERDAM_HOME to a directory outside of the repository".to_owned()
        }
        PlanError::ShowsHome { .. } => {
            "give it files of its own (`--mode copy`, without `--head`), or set COFFERDAM_HOME to a directory outside of it".to_owned()
        }
        PlanError::InHome { .. } => {
            "give it files of its own (`--mode copy`, without `--head`), or move the repository out of there".to_owned()
        }
        PlanError::RefusedWorkspace { .. } => {
            "give it files of its own (`--mode copy`, without `--head`), or work in a repository further down".to_owned()
        }
        PlanError::Mount(error) => mount_hint(error).to_owned(),
        PlanError::Ports(error) => ports_hint(error),
        PlanError::ManySockets { .. } => {
            "remove those that are left over, or give it files of its own: `--mode copy`, without `--head`".to_owned()
        }
        PlanError::ModelRefused {
            opens: Some(rule), ..
        } => {
            let command = opening::command(rule);
            format!("open it with `{command}`, or for this run alone with `--allow {rule}`")
        }
        PlanError::ModelInside {
            variable,
            url,
            has_more,
            opens,
            ..
        } => {
            let (more, what) = if *has_more {
                ("/…", ", with the rest of your address in place of `/…`")
            } else {
                ("", "")
            };
            format!(
                "if it is on this machine, say so: `--env {variable}={}{more} --allow {opens}`{what}",
                shell_word(url)
            )
        }
        PlanError::ModelAddress { variable } => {
            format!("give one such as `--env {variable}=https://models.example.com`")
        }
        PlanError::NoAccess {
            keys,
            login,
            program,
            ..
        } => access_hint(keys, *login, program.as_deref()),
        PlanError::KeyWithheld {
            variable, why, top, ..
        } => {
            let trust = env_file_hint(*why, top);
            format!("{trust}; or give it with `--env {variable}=VALUE`")
        }
        PlanError::ManyLinks { .. } => {
            "give it files of its own (`--mode copy`, without `--head`), or work in a fresh `git clone`".to_owned()
        }
        PlanError::BranchTaken(_) => "give another `--name`".to_owned(),
        PlanError::BranchMade(_) => "give the same command again, and it works on that branch as it is; or name another \
             with `--branch`"
            .to_owned(),
        PlanError::BranchBarred { .. } => {
            "when nothing is in its way any more, try again".to_owned()
        }
        PlanError::NoSuchNetwork { given, .. } => match given.first() {
            Some(kind) => format!("ask for `--network {}`", kind.as_str()),
            None => return None,
        },
        PlanError::Name(_)
        | PlanError::Volume(_)
        | PlanError::Request(_)
        | PlanError::EmptySignal
        | PlanError::ModelRefused { opens: None, .. } => return None,
    };
    Some(hint)
}

/// The same for an agent in a sandbox that was there before: what it may have and reach was said when it was made.
pub(crate) fn hint_within(error: &PlanError) -> Option<String> {
    let made = |options: &str| format!("`cofferdam create NAME {options}`");
    let hint = match error {
        PlanError::NoAccess {
            keys,
            login,
            program,
            ..
        } => {
            let first = keys.first().copied().unwrap_or("NAME");
            let made = made(&format!("--env {first}=VALUE"));
            key_hint(
                keys,
                &format!("make a sandbox that has it: {made}"),
                *login,
                program.as_deref(),
            )
        }
        PlanError::KeyWithheld {
            variable, why, top, ..
        } => format!(
            "{}; or make a sandbox that has it: {}",
            env_file_hint(*why, top),
            made(&format!("--env {variable}=VALUE"))
        ),
        PlanError::ModelRefused {
            opens: Some(rule), ..
        } => format!("open it with `{}`", opening::command(rule)),
        PlanError::ModelInside {
            variable, opens, ..
        } => format!(
            "if it is on this machine, make a sandbox that may reach it: {}",
            made(&format!("--env {variable}=URL --allow {opens}"))
        ),
        PlanError::ModelAddress { variable } => format!(
            "make a sandbox with one: {}",
            made(&format!("--env {variable}=https://models.example.com"))
        ),
        // What is true of any sandbox, or never happens in one that is there.
        PlanError::Name(_)
        | PlanError::Volume(_)
        | PlanError::Request(_)
        | PlanError::DetachedTarget
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
        | PlanError::ModelRefused { opens: None, .. }
        | PlanError::NoSuchNetwork { .. } => return None,
    };
    Some(hint)
}

/// How an agent gets a key or a login.
pub(crate) fn access_hint(keys: &[&str], login: Option<&str>, program: Option<&str>) -> String {
    let first = keys.first().copied().unwrap_or("NAME");
    let given = format!("give it with `--env {first}=VALUE`");
    key_hint(keys, &given, login, program)
}

fn key_hint(keys: &[&str], given: &str, login: Option<&str>, program: Option<&str>) -> String {
    let keys = match keys {
        [] => "its key".to_owned(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} or {last}", before.join(", ")),
    };
    let mut hint = format!("set {keys} in your environment or in `.cofferdam/.env`, or {given}");
    if let Some(login) = login {
        let first = program.map_or_else(String::new, |program| {
            format!("log in with `{program}`, then ")
        });
        let _ = write!(
            hint,
            ", or {first}give the login once with `cofferdam run --login ~/{login} …`"
        );
    }
    hint
}

/// How `.cofferdam/.env` becomes the user's own. By force: git wants that where a staged file was changed since,
/// and the file on the disk stays all the same.
pub(crate) fn env_file_hint(why: NotTrusted, top: &Path) -> String {
    match why {
        NotTrusted::Tracked => format!(
            "take it out of git with `git -C {} rm --cached -f .cofferdam/.env`: the file stays on your disk; \
             replace a key that was committed where others see it",
            shell_word(top)
        ),
        NotTrusted::Linked => format!(
            "put a plain file that git does not track in its place, {}",
            shell_word(top.join(".cofferdam/.env"))
        ),
    }
}

pub(super) fn arguments_hint(key: &str, also: &[String]) -> String {
    let mut given = format!("--arg {key}=VALUE");
    for key in also {
        let _ = write!(given, " --arg {key}=VALUE");
    }
    format!("give what is missing with `{given}`")
}
