//! Git directories full of spite.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam::sandbox::{BindMount, BranchStrategy, Contained, CopyStrategy, PrivateCopy};

use crate::world::{Hostile, Spite, env, is_cleaned_up, survives};

fn put(path: PathBuf, bytes: impl AsRef<[u8]>) {
    let _ = fs::remove_file(&path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn node(path: &Path, kind: rustix::fs::FileType, device: u64) {
    let _ = fs::remove_file(path);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    // Devices only where the caller may; a sandbox may not either.
    let _ = rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device);
}

fn large(path: &Path) {
    let _ = fs::remove_file(path);
    fs::File::create(path).unwrap().set_len(1 << 30).unwrap();
}

#[test]
fn git_directories_full_of_spite() {
    let nowhere = "1234567890123456789012345678901234567890";
    let outside = tempfile::tempdir().unwrap();
    put(outside.path().join("oid"), format!("{nowhere}\n"));
    let out = outside.path().to_owned();
    let fifo = rustix::fs::FileType::Fifo;
    let zero = rustix::fs::makedev(1, 5);
    let device = rustix::fs::FileType::CharacterDevice;
    let secret = env().git(&["rev-parse", "secret"]);
    let cases: Vec<(&str, Spite)> = vec![
        (
            "HEAD is noise",
            Arc::new(|git| put(git.join("HEAD"), [0xff; 99])),
        ),
        ("HEAD is empty", Arc::new(|git| put(git.join("HEAD"), ""))),
        (
            "HEAD is missing",
            Arc::new(|git| fs::remove_file(git.join("HEAD")).unwrap_or(())),
        ),
        (
            "HEAD is a pipe",
            Arc::new(move |git| node(&git.join("HEAD"), fifo, 0)),
        ),
        (
            "HEAD is a device",
            Arc::new(move |git| node(&git.join("HEAD"), device, zero)),
        ),
        ("HEAD is 1 GiB", Arc::new(|git| large(&git.join("HEAD")))),
        (
            "HEAD leads outside",
            Arc::new(|git| {
                put(
                    git.join("HEAD"),
                    "ref: refs/heads/../../../../../etc/passwd\n",
                );
            }),
        ),
        (
            "HEAD leads to itself",
            Arc::new(|git| put(git.join("HEAD"), "ref: HEAD\n")),
        ),
        (
            "HEAD is no object",
            Arc::new(move |git| put(git.join("HEAD"), format!("{nowhere}\n"))),
        ),
        ("HEAD is a link outside", {
            let out = out.clone();
            Arc::new(move |git| {
                let _ = fs::remove_file(git.join("HEAD"));
                let _ = symlink(out.join("oid"), git.join("HEAD"));
            })
        }),
        ("the branch is what was never exported", {
            let secret = secret.clone();
            Arc::new(move |git| put(git.join("refs/heads/main"), format!("{secret}\n")))
        }),
        (
            "the branch is null",
            Arc::new(|git| put(git.join("refs/heads/main"), format!("{}\n", "0".repeat(40)))),
        ),
        (
            "a branch is a pipe",
            Arc::new(move |git| node(&git.join("refs/heads/pipe"), fifo, 0)),
        ),
        (
            "a branch is a device",
            Arc::new(move |git| node(&git.join("refs/heads/device"), device, zero)),
        ),
        (
            "a branch is 1 GiB",
            Arc::new(|git| large(&git.join("refs/heads/large"))),
        ),
        (
            "branches lead in a circle",
            Arc::new(|git| {
                put(git.join("refs/heads/a"), "ref: refs/heads/b\n");
                put(git.join("refs/heads/b"), "ref: refs/heads/a\n");
                put(git.join("HEAD"), "ref: refs/heads/a\n");
            }),
        ),
        (
            "a name of control bytes",
            Arc::new(move |git| put(git.join("refs/heads/\u{1b}[31m\n"), format!("{nowhere}\n"))),
        ),
        (
            "packed-refs is a pipe",
            Arc::new(move |git| node(&git.join("packed-refs"), fifo, 0)),
        ),
        (
            "packed-refs is 1 GiB",
            Arc::new(|git| large(&git.join("packed-refs"))),
        ),
        (
            "a million refs",
            Arc::new(move |git| {
                let lines: String = (0..1_000_000)
                    .map(|n| format!("{nowhere} refs/heads/x{n}\n"))
                    .collect();
                put(git.join("packed-refs"), lines);
            }),
        ),
        (
            "deep directories",
            Arc::new(|git| {
                let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
                fs::create_dir_all(git.join("refs/heads").join(deep)).unwrap();
            }),
        ),
        ("refs is a link outside", {
            let out = out.clone();
            Arc::new(move |git| {
                let _ = fs::remove_dir_all(git.join("refs"));
                let _ = symlink(&out, git.join("refs"));
            })
        }),
        (
            "a loose object is noise",
            Arc::new(move |git| {
                put(git.join("objects/12").join(&nowhere[2..]), [0x78; 400]);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "packs are noise",
            Arc::new(move |git| {
                put(
                    git.join("objects/pack/pack-1234567890123456789012345678901234567890.pack"),
                    [7; 4000],
                );
                put(
                    git.join("objects/pack/pack-1234567890123456789012345678901234567890.idx"),
                    [9; 4000],
                );
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates are a pipe",
            Arc::new(move |git| {
                node(&git.join("objects/info/alternates"), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates have no end",
            Arc::new(move |git| {
                let _ = fs::remove_file(git.join("objects/info/alternates"));
                let _ = symlink("/dev/zero", git.join("objects/info/alternates"));
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "alternates claim 1 TiB",
            Arc::new(|git| {
                let file = git.join("objects/info/alternates");
                let _ = fs::remove_file(&file);
                fs::File::create(file).unwrap().set_len(1 << 40).unwrap();
            }),
        ),
        (
            "a loose object is a pipe",
            Arc::new(move |git| {
                fs::create_dir_all(git.join("objects/12")).unwrap();
                node(&git.join("objects/12").join(&nowhere[2..]), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        ("configuration that runs programs", {
            let out = out.clone();
            Arc::new(move |git| {
                let touch = format!("touch {}/ran", out.display());
                let text = format!(
                    "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {touch}\n\tpager = {touch}\n\
                     \thooksPath = {0}\n\talternateRefsCommand = {touch}\n[uploadpack]\n\tpackObjectsHook = {touch}\n\
                     [include]\n\tpath = {0}/more\n",
                    out.display()
                );
                put(git.join("config"), text);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            })
        }),
        (
            "the configuration is a pipe",
            Arc::new(move |git| {
                node(&git.join("config"), fifo, 0);
                put(git.join("refs/heads/main"), format!("{nowhere}\n"));
            }),
        ),
        (
            "nothing is left",
            Arc::new(|git| {
                for entry in fs::read_dir(git).unwrap().flatten() {
                    let _ =
                        fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
                }
            }),
        ),
    ];
    for (case, spite) in cases {
        // The user's checkout, and files of its own.
        for layered in [false, true] {
            let env = env();
            let spite = Arc::clone(&spite);
            let hostile = Hostile::spiteful(move |git| spite(git));
            let sandbox: Contained = if layered {
                PrivateCopy::layered(hostile, CopyStrategy::MergeToHead).into()
            } else {
                BindMount::new(hostile, BranchStrategy::Head).into()
            };
            let what = format!("{case}, layered: {layered}");
            let landed = survives(&env, sandbox, &what);
            if let Ok(report) = landed {
                assert_eq!(report.commits.len(), 0, "{what}");
            }
            is_cleaned_up(&env, &what);
            assert!(
                !out.join("ran").exists(),
                "{what}: something of the sandbox's ran"
            );
        }
    }
}
