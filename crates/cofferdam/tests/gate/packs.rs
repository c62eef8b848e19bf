//! What arrives as a pack: whole, broken, with holes, rewritten, too large.

use std::os::unix::fs::symlink;
use std::time::Duration;

use cofferdam::git::Oid;
use cofferdam::git::gate::{Gate, GateError, Limits, Refusal};
use cofferdam::process::Input;
use tokio_util::sync::CancellationToken;

use super::world::*;

#[tokio::test]
async fn plain_work_comes_home() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "new/file.rs", "fn main() {}\n");
        put(&w.inside(), "Makefile", "all:\n");
        w.commit("a\tsubject \u{1b}[2J");
        std::fs::remove_file(w.inside().join("c.txt")).unwrap();
        symlink("../a.txt", w.inside().join("dir/link")).unwrap();
        let tip = w.commit("second");
        let accepted = w.accept(&tip).await;
        let subjects: Vec<&str> = accepted
            .commits()
            .iter()
            .map(|c| c.subject.as_str())
            .collect();
        assert_eq!(subjects, ["a\tsubject \u{1b}[2J", "second"]);
        assert_eq!(accepted.executes(), ["Makefile"]);
        let changed: Vec<_> = accepted
            .changed()
            .iter()
            .map(|p| p.to_str().unwrap())
            .collect();
        assert_eq!(changed, ["Makefile", "c.txt", "dir/link", "new/file.rs"]);
        // The same again is no error.
        w.accept(&tip).await;
        // More on top of it.
        put(&w.inside(), "more", "x");
        let tip = w.commit("third");
        assert_eq!(w.accept(&tip).await.commits().len(), 3);
    }
}

/// It is kept once, however often it comes; another one is kept beside it.
#[tokio::test]
async fn what_is_refused_again_is_kept_once() {
    let w = World::new(&gits()[0]).await;
    let kept = || {
        let entries = std::fs::read_dir(w.state()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut packs: Vec<String> = names.filter(|name| name.starts_with("refused")).collect();
        packs.sort();
        packs
    };
    let blob = w.blob(b"x");
    let [one, other] =
        [".GIT", ".gIT"].map(|name| w.raw_commit(&[("100644", name.as_bytes(), &blob)]));
    for tip in [&one, &one, &other, &one, &other] {
        w.refuse(w.pack(tip.as_str()), tip).await;
    }
    assert_eq!(kept(), ["refused-2.pack", "refused.pack"]);
}

#[tokio::test]
async fn merges_and_old_parents_pass() {
    for git in gits() {
        let w = World::new(&git).await;
        w.agent(&["checkout", "-qb", "side", "HEAD~1"]);
        put(&w.inside(), "side.txt", "s");
        w.commit("side");
        w.agent(&["checkout", "-q", "main"]);
        put(&w.inside(), "main.txt", "m");
        w.commit("main");
        w.agent(&["merge", "-q", "--no-edit", "side"]);
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        assert_eq!(w.accept(&tip).await.commits().len(), 3);
    }
}

#[tokio::test]
async fn hostile_refs_and_replacements_stay_inside() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "x", "x");
        let tip = w.commit("x");
        for name in [
            "refs/heads/evil",
            "refs/tags/v1",
            "refs/stash",
            "refs/heads/secret",
            "refs/remotes/origin/y",
        ] {
            w.agent(&["update-ref", name, tip.as_str()]);
        }
        w.agent(&["replace", "HEAD~1", "HEAD"]);
        let pack = {
            let (done, bytes) = try_git(
                &git,
                &w.inside(),
                format!("{tip}\n^{}\n", w.base).as_bytes(),
                &[
                    "--no-replace-objects",
                    "pack-objects",
                    "-q",
                    "--revs",
                    "--stdout",
                    "--thin",
                ],
            );
            assert!(done.ok);
            bytes
        };
        w.receive(pack, &tip).await.unwrap();
        w.nothing_else_changed();
    }
}

#[tokio::test]
async fn broken_packs() {
    for git in gits() {
        let w = World::new(&git).await;
        let long = (0..2000)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        put(&w.inside(), "a.txt", &long);
        w.commit("one");
        put(&w.inside(), "a.txt", &format!("{long}\nmore\n"));
        let tip = w.commit("two");
        let good = w.pack(tip.as_str());
        let mut flipped = good.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x55;
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("empty", Vec::new()),
            ("no pack", b"this is not a pack, whatever it says".to_vec()),
            ("half", good[..good.len() / 2].to_vec()),
            ("without its end", good[..good.len() - 1].to_vec()),
            ("header only", good[..12].to_vec()),
            ("flipped", flipped),
        ];
        for (name, pack) in cases {
            let why = w.refuse(pack, &tip).await;
            assert!(matches!(why, Refusal::Pack { .. }), "{name}: {why}");
        }
        // Positive control. What follows a whole pack is ignored.
        w.receive([good.clone(), good].concat(), &tip)
            .await
            .unwrap();
        w.accept(&tip).await;
    }
}

#[tokio::test]
async fn packs_with_holes() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "x", "x");
        let one = w.commit("one");
        put(&w.inside(), "y", "y");
        let two = w.commit("two");
        // The commit between is missing.
        let pack = w.pack_of(&format!("{two}\n^{one}\n"));
        let why = w.refuse(pack, &two).await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
        // The claimed tip is not in the pack; nor is it a commit.
        let why = w.refuse(w.pack(one.as_str()), &two).await;
        assert!(matches!(why, Refusal::TipMissing { .. }), "{why}");
        let blob: Oid = w.agent(&["rev-parse", "HEAD:y"]).parse().unwrap();
        let why = w.refuse(w.pack(two.as_str()), &blob).await;
        assert!(matches!(why, Refusal::TipMissing { .. }), "{why}");
        // A thin pack against a base that the host has, but that was never exported.
        let secret = w.user(&["rev-parse", "secret"]);
        let url = format!("file://{}", w.host().display());
        w.agent(&["fetch", "-q", &url, "secret"]);
        w.agent(&["checkout", "-q", &secret]);
        put(&w.inside(), "secret.txt", "the secret\nand more\n");
        let tip = w.commit("on the secret");
        let why = w
            .refuse(w.pack_of(&format!("{tip}\n^{secret}\n")), &tip)
            .await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
        w.accept(&two).await;
    }
}

#[tokio::test]
async fn objects_that_were_never_exported_cannot_be_named() {
    for git in gits() {
        let w = World::new(&git).await;
        let secret = w.user(&["rev-parse", "secret:secret.txt"]);
        let commit = w.raw_commit(&[("100644", b"stolen", &secret)]);
        let tree = w.agent(&["rev-parse", &format!("{commit}^{{tree}}")]);
        // A liar's pack: commit and tree without the blob.
        let (done, pack) = try_git(
            &git,
            &w.inside(),
            format!("{commit}\n{tree}\n").as_bytes(),
            &["pack-objects", "-q", "--stdout"],
        );
        assert!(done.ok, "{}", done.err);
        let why = w.refuse(pack, &commit).await;
        assert!(matches!(why, Refusal::Pack { .. }), "{why}");
    }
}

#[tokio::test]
async fn rewritten_history() {
    for git in gits() {
        let w = World::new(&git).await;
        w.agent(&["commit", "-q", "--amend", "-m", "other"]);
        let amended: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let tree = w.agent(&["rev-parse", "HEAD^{tree}"]);
        let orphan: Oid = w
            .agent(&["commit-tree", &tree, "-m", "orphan"])
            .parse()
            .unwrap();
        for tip in [&amended, &orphan] {
            let why = w.refuse(w.pack(tip.as_str()), tip).await;
            assert!(matches!(why, Refusal::NotDescendant { .. }), "{why}");
        }
        // Below the base: nothing new, but not a descendant either.
        let below: Oid = w.user(&["rev-parse", "main~1"]).parse().unwrap();
        let why = w.refuse(w.pack(below.as_str()), &below).await;
        assert!(matches!(why, Refusal::NotDescendant { .. }), "{why}");
        // A merge of unrelated history descends; that is the sandbox's own affair.
        let merge: Oid = w
            .agent(&[
                "commit-tree",
                &tree,
                "-p",
                w.base.as_str(),
                "-p",
                orphan.as_str(),
                "-m",
                "m",
            ])
            .parse()
            .unwrap();
        assert_eq!(w.accept(&merge).await.commits().len(), 2);
    }
}

#[tokio::test]
async fn limits() {
    for git in gits() {
        let w = World::new(&git).await;
        for n in 0..12 {
            put(&w.inside(), &format!("f{n}"), &"y".repeat(1000));
            w.commit("n");
        }
        let tip: Oid = w.agent(&["rev-parse", "HEAD"]).parse().unwrap();
        let pack = w.pack(tip.as_str());
        let none = Limits::default;
        let cases = [
            (
                Limits {
                    commits: 11,
                    ..none()
                },
                "new commits",
            ),
            (
                Limits {
                    paths: 11,
                    ..none()
                },
                "changed paths",
            ),
            (
                Limits {
                    changes: 11,
                    ..none()
                },
                "changes of files",
            ),
            (
                Limits {
                    blob_bytes: 999,
                    ..none()
                },
                "larger than 999 bytes",
            ),
            (
                Limits {
                    pack_bytes: pack.len() as u64 - 1,
                    ..none()
                },
                "bytes in the pack",
            ),
        ];
        for (limits, why) in cases {
            let gate = Gate {
                limits: limits.clone(),
                ..w.gate()
            };
            let got = gate
                .receive(Input::Bytes(pack.clone()), &tip, &w.cancel)
                .await;
            let Err(GateError::Refused { why: got, .. }) = got else {
                panic!("not bounded: {limits:?}: {got:?}");
            };
            assert!(got.to_string().contains(why), "{limits:?}: {got}");
            w.nothing_else_changed();
            assert_eq!(w.all_refs(), w.refs);
        }
        let limits = Limits {
            commits: 12,
            paths: 12,
            changes: 12,
            blob_bytes: 1000,
            pack_bytes: pack.len() as u64,
            ..Limits::default()
        };
        let gate = Gate { limits, ..w.gate() };
        gate.receive(Input::Bytes(pack), &tip, &w.cancel)
            .await
            .unwrap();
        w.nothing_else_changed();
    }
}

#[tokio::test]
async fn a_bomb_is_bounded_and_a_silent_sender_too() {
    for git in gits() {
        let w = World::new(&git).await;
        // 150 MB of zeros in a few hundred KB.
        put(&w.inside(), "bomb", "");
        std::fs::File::options()
            .write(true)
            .open(w.inside().join("bomb"))
            .unwrap()
            .set_len(150 << 20)
            .unwrap();
        let tip = w.commit("bomb");
        let pack = w.pack(tip.as_str());
        let gate = Gate {
            limits: Limits {
                memory: 100 << 20,
                blob_bytes: 1 << 20,
                ..Limits::default()
            },
            ..w.gate()
        };
        let error = gate
            .receive(Input::Bytes(pack), &tip, &w.cancel)
            .await
            .unwrap_err();
        assert!(
            matches!(error, GateError::Refused { .. } | GateError::Git(_)),
            "{error}"
        );
        w.nothing_else_changed();

        let (read_end, write_end) = std::io::pipe().unwrap();
        let gate = Gate {
            limits: Limits {
                time: Duration::from_millis(300),
                ..Limits::default()
            },
            ..w.gate()
        };
        let error = gate
            .receive(Input::Fd(read_end.into()), &tip, &w.cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, GateError::TimedOut(_)), "{error}");
        drop(write_end);
        let (read_end, write_end) = std::io::pipe().unwrap();
        let cancel = CancellationToken::new();
        let soon = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            soon.cancel();
        });
        let error = w
            .gate()
            .receive(Input::Fd(read_end.into()), &tip, &cancel)
            .await
            .unwrap_err();
        assert!(matches!(error, GateError::Cancelled), "{error}");
        drop(write_end);
        w.nothing_else_changed();
    }
}

/// The pack with the objects behind its own that `more`, a piece of Perl, puts into `$more`, and their number into `$count`.
fn with_more(pack: &[u8], more: &str) -> Vec<u8> {
    use std::io::Write;
    const PERL: &str = r#"
        use Digest::SHA qw(sha1); use Compress::Zlib; binmode STDIN; binmode STDOUT; local $/;
        my ($pack, $more, $count) = (scalar <STDIN>, "", 0);
        sub head { my ($kind, $size) = @_; my ($byte, $head) = ($kind << 4 | $size & 15, ""); $size >>= 4;
            while ($size) { $head .= chr($byte | 128); $byte = $size & 127; $size >>= 7 } $head . chr($byte) }
        sub number { my ($size) = @_; my $out = "";
            do { my $byte = $size & 127; $size >>= 7; $out .= chr($size ? $byte | 128 : $byte) } while $size; $out }
        MORE;
        my $whole = "PACK" . pack("NN", 2, $count + unpack("N", substr $pack, 8, 4)) . substr($pack, 12, -20) . $more;
        print $whole, sha1($whole)"#;
    #[expect(clippy::disallowed_methods, reason = "the tests act as the sandbox")]
    let mut child = std::process::Command::new("perl")
        .args(["-e", &PERL.replace("MORE", more)])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let pack = pack.to_vec();
    let feed = std::thread::spawn(move || stdin.write_all(&pack).unwrap());
    let done = child.wait_with_output().unwrap();
    feed.join().unwrap();
    assert!(done.status.success());
    done.stdout
}

/// 1 GiB out of 16 MiB of zeros, which a few KiB hold, by sixty-four copies of them.
const DELTA: &str = r#"my $zeros = "\0" x 0xffffff; my $delta = number(0xffffff) . number(64 * 0xffffff) . "\xf0\xff\xff\xff" x 64;
    $more = head(3, 0xffffff) . compress($zeros) . head(7, length $delta) . sha1("blob 16777215\0$zeros") . compress($delta); $count = 2"#;

#[tokio::test]
async fn deltas_that_grow_are_bounded() {
    for git in gits() {
        let w = World::new(&git).await;
        put(&w.inside(), "x", "x");
        let tip = w.commit("x");
        let bomb = with_more(&w.pack(tip.as_str()), DELTA);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let gate = Gate {
            limits: Limits {
                memory: 256 << 20,
                ..Limits::default()
            },
            ..w.gate()
        };
        let got = gate.receive(Input::Bytes(bomb), &tip, &w.cancel).await;
        let error = got.unwrap_err();
        assert!(
            matches!(error, GateError::Refused { .. } | GateError::Git(_)),
            "{error}"
        );
        assert_eq!(w.all_refs(), w.refs);
        w.nothing_else_changed();
        // The control: it is the bomb alone that is too much.
        let pack = Input::Bytes(w.pack(tip.as_str()));
        gate.receive(pack, &tip, &w.cancel).await.unwrap();
        w.nothing_else_changed();
    }
}

/// Objects that nothing names cost their bytes and some time. A million with `--all`.
#[tokio::test]
async fn very_many_objects_are_bounded() {
    let git = gits().pop().unwrap();
    let w = World::new(&git).await;
    put(&w.inside(), "x", "x");
    let tip = w.commit("x");
    let number = if cofferdam_lab::sample::all() {
        1_000_000
    } else {
        50_000
    };
    let many = format!(
        r"for (1..{number}) {{ $more .= head(3, length $_) . compress($_) }} $count = {number}"
    );
    let pack = with_more(&w.pack(tip.as_str()), &many);
    let began = std::time::Instant::now();
    w.receive(pack, &tip).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "{:?}",
        began.elapsed()
    );
    w.nothing_else_changed();
    let gate = Gate {
        limits: Limits {
            pack_bytes: 100_000,
            ..Limits::default()
        },
        ..w.gate()
    };
    let pack = with_more(&w.pack(tip.as_str()), &many);
    let got = gate.receive(Input::Bytes(pack), &tip, &w.cancel).await;
    assert!(matches!(got, Err(GateError::Refused { .. })), "{got:?}");
    w.nothing_else_changed();
}

#[tokio::test]
async fn ten_thousand_commits() {
    let git = gits().pop().unwrap();
    let w = World::new(&git).await;
    let mut stream = String::new();
    for n in 0..10_000 {
        use std::fmt::Write;
        let from = if n == 0 {
            format!("from {}\n", w.base)
        } else {
            String::new()
        };
        writeln!(stream, "commit refs/heads/many\ncommitter A <a@b> {} +0000\ndata 1\nx\n{from}M 100644 inline f{}\ndata <<E\n{n}\nE\n", 1_700_000_000 + n, n % 100).unwrap();
    }
    w.agent_with(stream.as_bytes(), &["fast-import", "--quiet"]);
    let tip: Oid = w.agent(&["rev-parse", "many"]).parse().unwrap();
    assert_eq!(w.accept(&tip).await.commits().len(), 10_000);
}

/// What git finds wrong in a file of the base's keeps nothing from landing on top of it; what the sandbox makes so is refused as ever.
#[tokio::test]
async fn a_bad_file_of_the_base_is_no_fault_of_the_sandbox() {
    for git in gits() {
        let long = "x".repeat(2100);
        let w = World::with(&git, |run| {
            let url = "--upload-pack=touch";
            run(&["config", "-f", ".gitmodules", "submodule.x.path", "x"]);
            run(&["config", "-f", ".gitmodules", "submodule.x.url", url]);
            run(&["config", "-f", "dir/.gitattributes", "a.b", &long]);
            run(&["add", "-A"]);
            run(&["commit", "-qm", "bad"]);
            // A git directory may say where its files are.
            run(&["config", "core.worktree", ".."]);
        })
        .await;
        // So that the world's own look finds nothing but what is new.
        let blobs = ["main:.gitmodules", "main:dir/.gitattributes"];
        let blobs = blobs.map(|one| w.user(&["rev-parse", one]));
        let old = w.dir.path().join("old");
        cofferdam::fsx::write_private(&old, blobs.join("\n").as_bytes()).unwrap();
        w.user(&["config", "fsck.skipList", old.to_str().unwrap()]);
        put(&w.inside(), "a.txt", "work\n");
        let good = w.commit("good");
        // Beside the old ones new ones are found.
        put(&w.inside(), "other/.gitattributes", &format!("y {long}\n"));
        let tip = w.commit("new and bad");
        let why = w.refuse(w.pack(tip.as_str()), &tip).await;
        assert!(
            matches!(&why, Refusal::Pack { reason } if reason.contains("gitattributes")),
            "{why}"
        );
        for bad in [
            "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=other\n",
            "[submodule \"x\"]\n\tpath = --upload-pack=touch\n\turl = ./x\n",
        ] {
            w.agent(&["checkout", "-qf", good.as_str()]);
            put(&w.inside(), ".gitmodules", bad);
            let tip = w.commit("bad");
            let why = w.refuse(w.pack(tip.as_str()), &tip).await;
            assert!(matches!(&why, Refusal::Pack { .. }), "{bad}: {why}");
        }
        let accepted = w.accept(&good).await;
        assert_eq!(accepted.changed(), [std::path::Path::new("a.txt")]);
    }
}
