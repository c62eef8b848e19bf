//! The extension `TREE` of an index (gitformat-index(5)): the ids of the trees that its entries add up to, so that nobody has
//! to compute or to read them.

use std::collections::BTreeMap;

use super::format::Entry;
use crate::git::ObjectFormat;

/// The raw ids of directories that are valid, by path.
pub(in crate::git) type Ids = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads the content of the extension; `None` where it is not what git writes. The top has an empty path.
pub(in crate::git) fn ids(content: &[u8], format: ObjectFormat) -> Option<Ids> {
    let mut ids = Ids::new();
    let mut rest = content;
    // What is above, each with how many of its directories are still to come.
    let mut above: Vec<(Vec<u8>, usize)> = Vec::new();
    loop {
        let name = take(&mut rest, 0)?;
        let (count, below) = std::str::from_utf8(take(&mut rest, b'\n')?)
            .ok()?
            .split_once(' ')?;
        let below: usize = below.parse().ok()?;
        let path = match above.last() {
            None | Some((_, 0)) if !above.is_empty() => return None,
            None => Vec::new(),
            Some((up, _)) if up.is_empty() => name.to_vec(),
            Some((up, _)) => [up, &b"/"[..], name].concat(),
        };
        if let Some((_, left)) = above.last_mut() {
            *left -= 1;
        }
        // A negative count marks a tree that is not valid any more.
        if count.parse::<i64>().ok()? >= 0 {
            let (id, after) = rest.split_at_checked(format.hex_len() / 2)?;
            ids.insert(path.clone(), id.to_vec());
            rest = after;
        }
        above.push((path, below));
        while above.last().is_some_and(|(_, left)| *left == 0) {
            above.pop();
        }
        if above.is_empty() {
            return rest.is_empty().then_some(ids);
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|&byte| byte == end)?;
    let (taken, after) = rest.split_at(at);
    *rest = &after[1..];
    Some(taken)
}

/// The content of the extension for these entries, which are in git's order. A directory that `ids` does not know is
/// written as one that is not valid.
pub(in crate::git) fn write(entries: &[Entry<'_>], ids: &Ids) -> Vec<u8> {
    let mut out = Vec::new();
    tree(entries, b"", 0, ids, &mut out);
    out
}

/// `entries`: those below `path`, whose own length with the slash behind it is `prefix`.
fn tree(entries: &[Entry<'_>], path: &[u8], prefix: usize, ids: &Ids, out: &mut Vec<u8>) {
    let mut below: Vec<(&[u8], &[Entry<'_>])> = Vec::new();
    let mut at = 0;
    while let Some(entry) = entries.get(at) {
        let Some(slash) = entry.path[prefix..].iter().position(|&byte| byte == b'/') else {
            at += 1;
            continue;
        };
        let directory = &entry.path[..prefix + slash];
        let rest = &entries[at..];
        let count = rest.partition_point(|one| {
            one.path.len() > directory.len()
                && one.path.starts_with(directory)
                && one.path[directory.len()] == b'/'
        });
        below.push((directory, &rest[..count]));
        at += count;
    }
    // Git keeps shorter names first.
    below.sort_by(|(one, _), (other, _)| (one.len(), *one).cmp(&(other.len(), *other)));
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    out.extend_from_slice(name);
    out.push(0);
    let id = ids.get(path);
    let count = id.map_or_else(|| "-1".to_owned(), |_| entries.len().to_string());
    out.extend_from_slice(format!("{count} {}\n", below.len()).as_bytes());
    out.extend(id.into_iter().flatten());
    for (directory, entries) in below {
        tree(entries, directory, directory.len() + 1, ids, out);
    }
}
