//! Whose host ids a sandbox's processes have, and those of the gateway. Never 0: see docs/decisions/0003-native-identity.md.

use std::ops::Range;

use crate::names::SandboxId;

/// The first id that no distribution and no container tool hands out (systemd's ranges end below).
const FIRST: u32 = 0x7000_0000;
const COUNT: u32 = 0x0fff_0000;

/// For root an id that is this sandbox's alone. `None`: root has none to give in this container. An ordinary caller's
/// sandboxes have the caller's.
pub(crate) fn of_sandbox(id: SandboxId) -> Option<u32> {
    let text = id.to_string();
    let value = u32::from_str_radix(&text[..8], 16).unwrap_or_default();
    choose(&own_map(), value)
}

/// The user that the gateway of this caller becomes: an ordinary caller's own; for root an id that
/// no sandbox gets. `None`: root has none to give.
pub(crate) fn gateway() -> Option<u32> {
    let caller = rustix::process::geteuid().as_raw();
    if caller != 0 {
        return Some(caller);
    }
    Some(usable(&own_map())?.start)
}

fn own_map() -> String {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// One of the sandboxes' ids.
fn choose(map: &str, value: u32) -> Option<u32> {
    let Range { start, end } = usable(map)?;
    Some(start + 1 + value % (end - start - 1))
}

/// The ids that are ours and mapped where the caller is: our range, or in a container the upper half
/// of its largest range. The first is the gateway's.
fn usable(map: &str) -> Option<Range<u32>> {
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
        return Some(FIRST..FIRST + COUNT);
    }
    let half = count / 2;
    (half >= 1000).then(|| inside + half..inside + half + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_and_never_small() {
        let full = "         0          0 4294967295\n";
        assert_eq!(choose(full, 0), Some(FIRST + 1));
        assert_eq!(choose(full, COUNT - 2), Some(FIRST + COUNT - 1));
        assert_eq!(choose(full, COUNT - 1), Some(FIRST + 1));
        let container = "0 1000 1\n1 100000 65536\n";
        assert_eq!(choose(container, 1), Some(1 + 32768 + 2));
        assert_eq!(usable(container), Some(1 + 32768..1 + 65536));
        assert_eq!(choose("0 1000 1\n", 1), None);
        assert_eq!(choose("", 1), None);
    }
}
