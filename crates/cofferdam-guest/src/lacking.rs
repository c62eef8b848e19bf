//! What a machine does not give, in words, with the next step.

use std::io;

use crate::tree::Refusal;

/// Whether whoever started this one has it filtered, as engines do.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.trim_end() == "Seccomp:\t2")
}

/// No sandbox without them.
pub(crate) fn namespaces(error: &io::Error) -> Refusal {
    Refusal::Unsupported {
        what: format!("this machine refuses user namespaces: {error}"),
        hint: namespace_hint(error),
    }
}

/// A filter may let namespaces be made, and nothing be done in them.
pub(crate) fn hostname(error: &io::Error) -> Refusal {
    let what = format!("cannot set the host name: {error}");
    if is_filtered() {
        let hint = FILTERED.to_owned();
        return Refusal::Unsupported { what, hint };
    }
    Refusal::Broken(what)
}

/// What to do where somebody else's filter forbids what a sandbox is made with.
const FILTERED: &str = "a filter of system calls forbids it: inside a container, run that with `--security-opt \
                        seccomp=seccomp.json --security-opt systempaths=unconfined`, see docs/containers.md";

/// For who may not have them.
pub(crate) fn namespace_hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        // Nothing filters who starts it otherwise.
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) if is_filtered() => {
            FILTERED.to_owned()
        }
        Some(libc::ENOSPC | libc::EUSERS) => {
            "raise the sysctl `user.max_user_namespaces`".to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => {
            "allow user namespaces: see `cofferdam doctor` (sysctl `kernel.unprivileged_userns_clone`, \
             or on Ubuntu an AppArmor profile with `userns`)"
                .to_owned()
        }
        _ => "see `cofferdam doctor`".to_owned(),
    }
}
