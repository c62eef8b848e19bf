//! Whose host ids a sandbox's processes have. Never 0: see docs/decisions/0003-native-identity.md.

use cofferdam_guest::protocol::Agent;

use crate::names::SandboxId;
use crate::sandbox::SandboxError;

/// The first id that no distribution and no container tool hands out (systemd's ranges end below).
const FIRST: u32 = 0x7000_0000;
const COUNT: u32 = 0x0fff_0000;

/// An ordinary caller's own ids; for root ids that are this sandbox's alone.
pub(super) fn agent(id: SandboxId) -> Result<Agent, SandboxError> {
    if rustix::process::geteuid().as_raw() != 0 {
        return Ok(Agent::Caller);
    }
    let text = id.to_string();
    let value = u32::from_str_radix(&text[..8], 16).unwrap_or_default();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let uid = choose(&map, value).ok_or_else(|| SandboxError::Unsupported {
        what: "root has no unprivileged user id to give to the agent in this container".to_owned(),
        hint: "run as an ordinary user, or map more ids into the container".to_owned(),
    })?;
    Ok(Agent::Separate { uid, gid: uid })
}

/// An id that is mapped where the caller is: from our range, or in a container from the upper half
/// of its largest range.
fn choose(map: &str, value: u32) -> Option<u32> {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, _, count) = (
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
        );
        Some((inside, count))
    });
    let (inside, count) = ranges.max_by_key(|(_, count)| *count)?;
    let end = inside.checked_add(count)?;
    if inside <= FIRST && end >= FIRST + COUNT {
        return Some(FIRST + value % COUNT);
    }
    let half = count / 2;
    (half >= 1000).then(|| inside + half + value % half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_and_never_small() {
        let full = "         0          0 4294967295\n";
        assert_eq!(choose(full, 0), Some(FIRST));
        assert_eq!(choose(full, u32::MAX), Some(FIRST + u32::MAX % COUNT));
        assert_eq!(choose("0 1000 1\n1 100000 65536\n", 1), Some(1 + 32768 + 1));
        assert_eq!(choose("0 1000 1\n", 1), None);
        assert_eq!(choose("", 1), None);
    }
}
