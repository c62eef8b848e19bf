//! Index files under changed inputs: see `cofferdam_lab::fuzz`. The one of a repository that agents work in is
//! read, and so is that of any repository which they leave in a checkout.

use super::format::{Entry, Rewrite, Stat, is_masked, parse, rewrite, write};
use crate::git::ObjectFormat;

const FORMAT: ObjectFormat = ObjectFormat::Sha1;
const ID: usize = 20;

/// What is read and written again is the same, and what was rewritten where it lies is a plain list with its masks
/// kept.
#[test]
fn fuzz_indexes() {
    let entry = |path: &'static [u8], mode| Entry {
        path: path.into(),
        stat: Stat {
            mtime: [5, 0],
            ..Stat::default()
        },
        mode,
        oid: vec![1; ID].into(),
        stage: 0,
        assume_valid: false,
        skip_worktree: false,
        intent_to_add: false,
    };
    let plain = [entry(b"a/b", 0o100_644), entry(b"sub", 0o160_000)];
    let mut flagged = plain.clone();
    flagged[0].skip_worktree = true;
    let tree = [7; ID];
    let trees = [&b"\x002 0\n"[..], &tree].concat();
    let seeds = [
        write(&plain, Some(&trees), FORMAT),
        write(&flagged, Some(&trees), FORMAT),
        compressed(),
        linked(&write(&plain[..1], None, FORMAT)),
    ];
    for seed in &seeds {
        parse(seed, FORMAT).unwrap();
    }
    let masked = [b".cofferdam".to_vec()];
    let to = Rewrite {
        uid: 1,
        gid: 2,
        forget_from: 6,
        tree: &tree,
        masked: &masked,
    };
    let rewritten = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let gitlinks = rewrite(&mut bytes, FORMAT, to)?;
        Some((bytes, gitlinks))
    };
    assert!(rewritten(&seeds[0]).is_some_and(|(_, links)| links == [b"sub"]));
    cofferdam_lab::fuzz::mutate("indexes", &seeds, |bytes| {
        if let Ok(index) = parse(bytes, FORMAT) {
            let root = index.root_tree(FORMAT);
            assert!(root.is_none_or(|root| root.len() == ID));
            // What has no such form is written with flags of its own version.
            let again = write(&index.entries, index.trees, FORMAT);
            assert_eq!(parse(&again, FORMAT).unwrap().entries, index.entries);
        }
        _ = parse(bytes, ObjectFormat::Sha256);
        if let Some((bytes, gitlinks)) = rewritten(bytes) {
            let index = parse(&bytes, FORMAT).unwrap();
            assert_eq!(index.root_tree(FORMAT), Some(&tree[..]));
            assert!(!index.sparse && index.shared.is_none());
            let links = index.entries.iter().filter(|one| one.mode == 0o160_000);
            assert_eq!(links.count(), gitlinks.len());
            for entry in &index.entries {
                assert_eq!((entry.stage, entry.stat.uid, entry.stat.gid), (0, 1, 2));
                assert!(!is_masked(&entry.path, &masked) && !entry.intent_to_add);
            }
        }
    });
}

/// Of version 4: the second path is the first without its last byte, and another.
fn compressed() -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x04\0\0\0\x02".to_vec();
    for (strip, rest) in [(0, &b"dir/a"[..]), (1, b"b")] {
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend([1; ID]);
        bytes.extend([0, 5, strip]);
        bytes.extend(rest);
        bytes.push(0);
    }
    bytes.extend([0; ID]);
    bytes
}

/// With the extension of an index that is the rest of another.
fn linked(whole: &[u8]) -> Vec<u8> {
    let (body, sum) = whole.split_at(whole.len() - ID);
    [body, b"link\0\0\0\x14", &[9; ID], sum].concat()
}
