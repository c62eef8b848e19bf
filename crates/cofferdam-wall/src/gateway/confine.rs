//! Takes the files from the process: what resolves names may be read, nothing is written or executed.
//!
//! A second wall behind the first, for the day on which hostile bytes win against a parser. Where the kernel has
//! no Landlock, the process does without: it is an unprivileged user in any case.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};

/// What is known here of Landlock; an older kernel enforces its part.
const KNOWN: ABI = ABI::V6;
/// Where resolv.conf and hosts are, and what writes them. Whole folders, because the files are replaced by others
/// of the same name, which a rule about the file would not know.
const FOLDERS: [&str; 5] = [
    "/etc",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/connman",
];
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// A link into one of these means its folder; into another one, only the file.
const WRITTEN_BY_SYSTEM: [&str; 3] = ["/run", "/var", "/mnt"];

/// Confines this thread and those that it will start. Whether the kernel does it.
pub(super) fn confine() -> bool {
    restrict().is_ok_and(|status| status != RulesetStatus::NotEnforced)
}

fn restrict() -> Result<RulesetStatus, RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable(), AccessFs::ReadFile))?
        .restrict_self()?;
    Ok(status.ruleset)
}

fn readable() -> Vec<PathBuf> {
    let targets = FILES.iter().filter_map(|file| {
        let target = Path::new(file).canonicalize().ok()?;
        let folder = target.parent()?;
        let whole = WRITTEN_BY_SYSTEM
            .iter()
            .any(|top| folder.starts_with(top) && folder != Path::new(top));
        Some(if whole { folder.to_owned() } else { target })
    });
    FOLDERS.iter().map(PathBuf::from).chain(targets).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_resolves_names_can_be_read_and_nothing_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::File::create(&file).unwrap();
        let own = std::env::current_exe().unwrap();
        let tried = move || {
            let hosts = std::fs::read("/etc/hosts").is_ok();
            let read = std::fs::File::open(&file).is_ok();
            let executable = std::fs::File::open(&own).is_ok();
            let process = std::fs::read("/proc/self/environ").is_ok();
            let written = std::fs::File::options().append(true).open(&file).is_ok();
            let made = std::fs::File::create(file.with_extension("new")).is_ok();
            (hosts, [read, executable, process, written, made])
        };
        // In a thread, because there is no way back. What it starts is confined as well.
        let (confined, before, after) = std::thread::spawn(move || {
            let before = tried();
            let confined = confine();
            (confined, before, std::thread::spawn(tried).join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(before, (true, [true; 5]));
        assert_eq!(after, (true, [!confined; 5]));
    }
}
