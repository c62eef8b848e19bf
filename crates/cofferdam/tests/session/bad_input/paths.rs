//! Names: of the repository's directory, and of files in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{HEAD, exercise, whole, whole_ok};
use crate::support::{Env, run};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Landing, PromptSource};

const NAMES: [&[u8]; 18] = [
    b"with space",
    b"quo'te\"d",
    b"new\nline",
    b"\nnew line first",
    b"not \xff\xfe utf8",
    b"a:b,c=d",
    b"-rf",
    b"--help",
    b"$(touch canary) `id`; *",
    b"[x]{y}",
    b"%s\\n",
    b"\xc3\xbcml\xc3\xa4ut",
    b"...",
    b"escape \x1b[31m",
    b"con",
    b"C:x",
    b"dot.",
    b"space ",
];

#[test]
fn repositories_below_any_path() {
    let all: &[u8] = b"a b'c\"d\ne\xff\xfe:,=$(touch canary)`id`;*[x]{y}%s\\n\xc3\xbc\x1b[31m";
    let long = "x".repeat(200);
    for name in [all, b"-rf", b"\nfirst", b"...", long.as_bytes()] {
        exercise(&Env::at(OsStr::from_bytes(name), &[]));
    }
}

#[test]
fn a_path_with_a_symlink_in_it_is_the_same_repository() {
    let mut env = Env::new();
    let link = env.dir.path().join("link");
    std::os::unix::fs::symlink(env.dir.path(), &link).unwrap();
    let real = std::mem::replace(&mut env.repo, link.join("repo"));
    exercise(&env);
    env.repo = real.join("src");
    let options = env.script(
        HEAD,
        "test -e README.md && git commit -qm sub --allow-empty",
    );
    run(options).unwrap();
    env.repo = real;
    assert_eq!(env.git(&["log", "-1", "--format=%s"]), "sub");
}

#[test]
fn files_of_any_name_are_changed_added_and_brought_home() {
    let env = Env::new();
    let write = |name: &[u8], text: &str| {
        std::fs::write(env.repo.join("src").join(OsStr::from_bytes(name)), text).unwrap();
    };
    for name in NAMES {
        write(name, "before\n");
    }
    env.commit_all("names");
    let script = "
        cd src; for file in * ...; do echo after >> \"./$file\"; case $file in *\\\\*) ;; *) cp -- \"$file\" \"./new $file\";; esac; done
        cd ..; git add -A; git commit -qm names";
    for (strategy, lines) in [(HEAD, 2), (BranchStrategy::MergeToHead, 3)] {
        let report = whole_ok(&env, env.script(strategy, script), &["refs/heads/main"]);
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{}",
            report.landing
        );
        assert!(!report.diffstat.contains('\u{1b}'));
        for name in NAMES {
            let path = env.repo.join("src").join(OsStr::from_bytes(name));
            let text = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.lines().count(), lines, "{}", name.escape_ascii());
        }
        assert_eq!(env.git(&["status", "--porcelain"]), "");
    }
    env.assert_no_state();
}

#[test]
fn copies_of_any_name() {
    let env = Env::new();
    env.write(".gitignore", "/ignored/\n");
    env.commit_all("ignore");
    let mut wanted = Vec::new();
    for name in NAMES {
        let path = OsStr::from_bytes(&[b"ignored/", name].concat()).to_owned();
        std::fs::create_dir_all(env.repo.join("ignored")).unwrap();
        std::fs::write(env.repo.join(&path), "x").unwrap();
        wanted.push(path.into());
    }
    let count = format!(
        "test $(ls -A ignored | tr -cd '\\n' | wc -c) -ge {}",
        NAMES.len()
    );
    let mut options = env.script(BranchStrategy::MergeToHead, &count);
    options.session.copy = wanted;
    whole_ok(&env, options, &[]);
    for bad in ["../outside", "/etc/passwd", ".git/config", "."] {
        let mut options = env.script(BranchStrategy::MergeToHead, "true");
        options.session.copy = vec![bad.into()];
        let error = whole(&env, options, &[]).unwrap_err().to_string();
        assert!(error.contains(bad), "{error}");
        env.assert_no_state();
    }
}

#[test]
fn prompt_files_that_cannot_be_used() {
    let env = Env::new();
    let path = |name: &str| env.dir.path().join(name);
    std::fs::create_dir(path("directory")).unwrap();
    std::fs::write(path("binary"), b"\xff\xfe\0").unwrap();
    let fifo = std::ffi::CString::new(path("fifo").as_os_str().as_bytes()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let huge = std::fs::File::create(path("huge")).unwrap();
    huge.set_len(8 << 30).unwrap();
    for name in ["none", "directory", "binary", "fifo", "huge"] {
        let mut options = env.script(HEAD, "true");
        let arguments = std::collections::BTreeMap::new();
        options.task.prompt = PromptSource::Template {
            path: path(name),
            arguments,
        };
        let began = std::time::Instant::now();
        let error = run(options).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert!(began.elapsed().as_secs() < 10, "{name}");
        env.assert_no_state();
    }
}

#[test]
fn names_that_cannot_be() {
    let env = Env::new();
    for name in ["", "   ", "///", "\u{1b}"] {
        let mut options = env.script(BranchStrategy::MergeToHead, "true");
        options.session.name = Some(name.to_owned());
        run(options).unwrap_err();
        env.assert_no_state();
    }
    for name in [
        "",
        "-x",
        "a..b",
        "a b",
        "refs/heads/",
        "a.lock",
        "@{1}",
        "HEAD",
    ] {
        assert!(
            name.parse::<cofferdam::names::BranchName>().is_err(),
            "{name}"
        );
    }
    let mut options = env.script(HEAD, "true");
    options.task.completion_signals = vec![String::new()];
    let error = run(options).unwrap_err().to_string();
    assert!(error.contains("completion signal"), "{error}");
    let mut options = env.script(super::branch("new"), "true");
    let base = Some("no-such-commit".to_owned());
    let strategy = BranchStrategy::Branch {
        branch: "new".parse().unwrap(),
        base,
    };
    options.session.sandbox =
        cofferdam::sandbox::BindMount::new(crate::support::provider(), strategy).into();
    let error = run(options).unwrap_err().to_string();
    assert!(error.contains("no-such-commit"), "{error}");
    let arguments: Vec<OsString> = env.refs().lines().map(Into::into).collect();
    assert_eq!(arguments.len(), 1);
}
