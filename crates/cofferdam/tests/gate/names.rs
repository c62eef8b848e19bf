//! Names, links and modes in trees.

use std::os::unix::fs::symlink;
use std::path::Path;

use cofferdam::git::Oid;
use cofferdam::git::gate::{GateError, Refusal};

use super::world::*;

#[tokio::test]
async fn hostile_names() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let names: &[&[u8]] = &[
            b".git",
            b".GIT",
            b".Git",
            b"git~1",
            b"GIT~1",
            ".g\u{200c}it".as_bytes(),
            b".git.",
            b".git ",
            b".git::$INDEX_ALLOCATION",
            b"..",
            b".",
            b"a\\b",
            b"..\\..\\x",
            "\u{ff0e}git".as_bytes(),
            b"with/slash",
            &[b'x'; 300],
        ];
        for name in names {
            let tip = w.raw_commit(&[("100644", name, &blob)]);
            let why = w.refuse(w.pack(tip.as_str()), &tip).await;
            assert!(
                matches!(why, Refusal::Pack { .. } | Refusal::Tree(_)),
                "{name:?}: {why}"
            );
            let shown = String::from_utf8_lossy(name).into_owned();
            if matches!(&*shown, "a\\b" | ".git." | "..\\..\\x") {
                assert!(
                    why.to_string().contains(&shown) || matches!(why, Refusal::Pack { .. }),
                    "{why}"
                );
            }
        }
        // As a directory, and deep.
        let inner = w.raw_tree(vec![("100644".into(), b"config".to_vec(), blob.clone())]);
        for name in [&b".git"[..], b".gIt", b".."] {
            let tip = w.raw_commit(&[("40000", name, &inner)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
            let outer = w.raw_tree(vec![("40000".into(), name.to_vec(), inner.clone())]);
            let tip = w.raw_commit(&[("40000", b"deep", &outer)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
        }
        // Twice, as file and file, and as file and directory.
        let tip = w.raw_commit(&[("100644", b"twice", &blob), ("100644", b"twice", &blob)]);
        w.refuse(w.pack(tip.as_str()), &tip).await;
        let tip = w.raw_commit(&[("100644", b"twice", &blob), ("40000", b"twice", &inner)]);
        w.refuse(w.pack(tip.as_str()), &tip).await;
        // Without a name. No walk of git's own gets through such a tree, so the objects are named one by one.
        let tip = w.raw_commit(&[("100644", b"", &blob)]);
        let tree = w.agent(&["rev-parse", &format!("{tip}^{{tree}}")]);
        let objects = format!("{tip}\n{tree}\n{blob}\n");
        let pack = ["pack-objects", "-q", "--stdout"];
        let (done, pack) = try_git(&git, &w.inside(), objects.as_bytes(), &pack);
        assert!(done.ok, "{}", done.err);
        let why = w.refuse(pack, &tip).await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
        // Modes git does not know.
        for mode in ["100666", "0100644", "100664", "60000"] {
            let tip = w.raw_commit(&[(mode, b"mode", &blob)]);
            w.refuse(w.pack(tip.as_str()), &tip).await;
        }
        // Positive control: odd but harmless names; misleading ones are noted.
        let tip = w.raw_commit(&[
            ("100644", b"-rf", &blob),
            ("100755", b"a b", &blob),
            ("100644", b"\xff\xfe", &blob),
            ("100644", b"esc\x1b[2J\nx", &blob),
            ("100644", b"A.txt", &blob),
            ("100644", b"con", &blob),
            ("100644", b"dot.", &blob),
            ("100644", b"space ", &blob),
            ("100644", "größe".as_bytes(), &blob),
        ]);
        let accepted = w.accept(&tip).await;
        assert!(
            accepted
                .notes()
                .iter()
                .any(|note| note.contains("esc\\u{1b}[2J\\nx")),
            "{:?}",
            accepted.notes()
        );
        assert!(
            accepted
                .notes()
                .iter()
                .any(|note| note.contains("A.txt") && note.contains("a.txt")),
            "{:?}",
            accepted.notes()
        );
        assert!(
            accepted
                .notes()
                .iter()
                .all(|note| !note.contains(|c: char| c.is_control()))
        );
    }
}

/// Who makes thousands of them does not fill its user's terminal.
#[tokio::test]
async fn of_very_many_notes_the_first_are_told() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let names = (0..60).flat_map(|n| [format!("same-{n}"), format!("SAME-{n}")]);
        let names: Vec<String> = names.collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| ("100644", name.as_bytes(), &*blob))
            .collect();
        let accepted = w.accept(&w.raw_commit(&entries)).await;
        let (last, first) = accepted.notes().split_last().unwrap();
        assert_eq!(first.len(), 50);
        assert!(first.iter().all(|note| note.contains("are one name")));
        assert_eq!(last, "10 more names are like these");
    }
}

#[tokio::test]
async fn a_bad_name_in_between_is_found() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let first = w.raw_commit(&[("100644", b"a\\b", &blob)]);
        let tree = w.agent(&["rev-parse", &format!("{}^{{tree}}", w.base)]);
        let tip: Oid = w
            .agent(&["commit-tree", &tree, "-p", first.as_str(), "-m", "gone"])
            .parse()
            .unwrap();
        w.refuse_tree(&tip, "a\\b").await;
    }
}

#[tokio::test]
async fn symlinks() {
    for git in gits() {
        let w = World::new(&git).await;
        for target in [
            "/etc/passwd",
            "../outside",
            "..",
            "dir/../../x",
            ".git/hooks",
            "dir/../a.txt",
            ".GIT",
        ] {
            let blob = w.blob(target.as_bytes());
            let tip = w.raw_commit(&[("120000", b"link", &blob)]);
            w.refuse_tree(&tip, "link").await;
        }
        let long = w.blob(&[b'x'; 5000]);
        let tip = w.raw_commit(&[("120000", b"link", &long)]);
        w.refuse_tree(&tip, "link").await;
        let empty = w.blob(b"");
        let tip = w.raw_commit(&[("120000", b"link", &empty)]);
        w.refuse_tree(&tip, "link").await;
        // A link first, a path below it later.
        let blob = w.blob(b"/tmp");
        let first = w.raw_commit(&[("120000", b"l", &blob)]);
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        put(&w.inside(), "l/x", "x");
        w.agent(&["add", "-A"]);
        let tree = w.agent(&["write-tree"]);
        let tip: Oid = w
            .agent(&["commit-tree", &tree, "-p", first.as_str(), "-m", "x"])
            .parse()
            .unwrap();
        w.refuse_tree(&tip, "l").await;
        let blob = w.blob(b"a.txt");
        let tip = w.raw_commit(&[("120000", b"link", &blob)]);
        w.accept(&tip).await;
    }
}

#[tokio::test]
async fn submodules_and_protected_paths() {
    for git in gits() {
        let w = World::new(&git).await;
        let tip = w.raw_commit(&[("160000", b"sub", w.base.as_str())]);
        w.refuse_tree(&tip, "sub").await;
        for content in [
            "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x\n",
            // A path that ends in a line end for who writes it and not for who reads it, and one that is a link.
            "[submodule \"x\"]\n\tpath = \"x\r\"\n\turl = ./x\n",
            "[submodule \"link\"]\n\tpath = link\n\turl = ./x\n",
            "nothing",
        ] {
            let [blob, target] = [content, "a.txt"].map(|text| w.blob(text.as_bytes()));
            for name in [".gitmodules", ".GitModules"] {
                let link: (_, &[u8], _) = ("120000", b"link", &*target);
                let tip = w.raw_commit(&[("100644", name.as_bytes(), &blob), link]);
                w.refuse_tree(&tip, name).await;
            }
        }
        for bad in [
            "[submodule \"../../hooks\"]\n\tpath = x\n\turl = ext::sh -c touch\n",
            "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch\n",
            "[submodule \"x\"]\n\tpath = --upload-pack=touch\n\turl = ./x\n",
        ] {
            let blob = w.blob(bad.as_bytes());
            let tip = w.raw_commit(&[("100644", b".gitmodules", &blob)]);
            let why = w.refuse(w.pack(tip.as_str()), &tip).await;
            assert!(matches!(why, Refusal::Pack { .. }), "{bad}: {why}");
        }

        for path in [
            ".husky/pre-commit",
            ".husky/new",
            ".cofferdam/config.yaml",
            ".Husky/x",
            ".HUSKY./x",
            ".husky /y",
        ] {
            w.agent(&["checkout", "-qf", w.base.as_str()]);
            put(&w.inside(), path, "evil");
            let tip = w.commit("protected");
            w.refuse_tree(&tip, path).await;
        }
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        w.agent(&["rm", "-qr", ".husky"]);
        let tip = w.commit("deleted");
        w.refuse_tree(&tip, ".husky/pre-commit").await;
        // Changed and changed back: seen, because each commit counts.
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        put(&w.inside(), ".husky/pre-commit", "evil");
        w.commit("there");
        put(&w.inside(), ".husky/pre-commit", "exit 0\n");
        let tip = w.commit("and back");
        w.refuse_tree(&tip, ".husky/pre-commit").await;
        // Replaced by a symlink.
        w.agent(&["checkout", "-qf", w.base.as_str()]);
        w.agent(&["rm", "-qr", ".husky"]);
        symlink("dir", w.inside().join(".husky")).unwrap();
        let tip = w.commit("link");
        w.refuse_tree(&tip, ".husky").await;
    }
}

#[tokio::test]
async fn what_the_base_has_is_the_users_own() {
    for git in gits() {
        let w = World::with(&git, |run| {
            let id = "1234567890123456789012345678901234567890";
            run(&[
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("160000,{id},module"),
            ]);
            run(&["commit", "-qm", "a submodule"]);
        })
        .await;
        // A diff of a merge against an old parent lists what the base has itself.
        w.agent(&["checkout", "-qb", "side", "HEAD~1"]);
        put(&w.inside(), "side", "s");
        w.commit("side");
        w.agent(&["checkout", "-q", "main"]);
        w.agent(&["merge", "-q", "--no-edit", "side"]);
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        w.accept(&tip).await;
        // But another state of it is refused.
        w.agent(&[
            "update-index",
            "--cacheinfo",
            &format!("160000,{},module", w.base),
        ]);
        w.agent(&["commit", "-qm", "moved"]);
        let moved: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let error = w.receive(w.pack(moved.as_str()), &moved).await.unwrap_err();
        assert!(
            matches!(
                error,
                GateError::Refused {
                    why: Refusal::Tree(_),
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// What makes a directory a repository, or two names one, may be half there already: what stands beside the new names
/// counts with them.
#[tokio::test]
async fn what_stands_beside_new_names() {
    for git in gits() {
        let base = tempfile::tempdir().unwrap();
        let in_base = |top: &Path| {
            put(top, "deep/half/objects/keep", "");
            put(top, "deep/half/refs/keep", "");
            put(top, "own.git/HEAD", "ref: refs/heads/main\n");
            put(top, "own.git/objects/keep", "");
            put(top, "own.git/refs/keep", "");
            put(top, "deep/readme", "");
            put(top, "deep/odd\nname/x", "");
        };
        in_base(base.path());
        let w = World::with(&git, |run| {
            let top = base.path().to_str().unwrap();
            run(&["--work-tree", top, "add", "-A"]);
            run(&["commit", "-qm", "halves"]);
            run(&["checkout", "-qf", "HEAD"]);
        })
        .await;
        put(&w.inside(), "deep/half/HEAD", "ref: refs/heads/main\n");
        w.refuse_tree(&w.commit("whole"), "deep/half").await;
        w.agent(&["reset", "-q", "--hard", "HEAD~1"]);
        // The control: what is half stays half, also beside names with line ends.
        put(&w.inside(), "deep/half/objects/more", "");
        put(&w.inside(), "deep/odd\nname/y", "");
        let accepted = w.accept(&w.commit("harmless")).await;
        let notes = accepted.notes();
        assert!(
            notes.len() == 1 && notes[0].contains("control characters"),
            "{notes:?}"
        );
        // The user's own is told, not refused.
        put(&w.inside(), "own.git/config", "[core]\n");
        let accepted = w.accept(&w.commit("own")).await;
        assert_eq!(accepted.executes(), ["own.git/config"]);
        put(&w.inside(), "deep/README", "");
        let accepted = w.accept(&w.commit("twins")).await;
        let said = "`deep/readme` and `deep/README` are one name on some file systems";
        assert!(
            accepted.notes().iter().any(|note| note == said),
            "{accepted:?}"
        );
    }
}

/// A commit that nobody's tip has any more can still be checked out.
#[tokio::test]
async fn a_repository_in_between_is_found() {
    for git in gits() {
        let base = tempfile::tempdir().unwrap();
        put(base.path(), "half/HEAD", "ref: refs/heads/main\n");
        let w = World::with(&git, |run| {
            let top = base.path().to_str().unwrap();
            run(&["--work-tree", top, "add", "-A"]);
            run(&["commit", "-qm", "half"]);
            run(&["checkout", "-qf", "HEAD"]);
        })
        .await;
        put(&w.inside(), "half/objects/keep", "");
        put(&w.inside(), "half/refs/keep", "");
        w.commit("whole");
        w.agent(&["rm", "-q", "half/HEAD"]);
        w.refuse_tree(&w.commit("half again"), "half").await;
    }
}

/// So many directories side by side take no more time than so many files.
#[tokio::test]
async fn many_new_directories() {
    for git in gits() {
        let w = World::new(&git).await;
        let blob = w.blob(b"x");
        let inner = w.raw_tree(vec![("100644".into(), b"file".to_vec(), blob)]);
        let names: Vec<Vec<u8>> = (0..30_000).map(|n| format!("d{n:06}").into()).collect();
        let entries: Vec<(&str, &[u8], &str)> = (names.iter())
            .map(|name| ("40000", name.as_slice(), inner.as_str()))
            .collect();
        let tip = w.raw_commit(&entries);
        let began = std::time::Instant::now();
        assert_eq!(w.accept(&tip).await.changed().len(), 30_000);
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    }
}
