//! Programs that rename, link and look at times do over layers what they do on a file system of their own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cofferdam_lab::skip;

use crate::environment::{TestEnvironment, finish};

/// Everything in the workspace but git's: kind, mode, name, and what is in files and links.
const DIGEST: &str = "find . -mindepth 1 -path ./.git -prune -o -printf '%y %m %p %l\\n' | sort
    find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum; git status --porcelain | sort";

/// What a run in this mode finds at its end; `None` where the program is not in its sandboxes.
fn seen(mode: &str, program: &str, before: &str, script: &str) -> Option<String> {
    let environment = TestEnvironment::with_repository();
    environment
        .shell(&format!(
            "set -e; {before}; git add -Af; git commit -qm before"
        ))
        .expect_code(0);
    let script = format!(
        "command -v {program} >/dev/null || exit 77; set -e; {script}; ({DIGEST}) >/tmp/digest
         cp /tmp/digest digest; git add -f digest; git commit -qm digest -- digest"
    );
    let options = [
        "run",
        "--network",
        "none",
        "--mode",
        mode,
        "--merge-to-head",
    ];
    let mut command = environment.command(&[&options[..], &["--", "sh", "-c", &script]].concat());
    if program == "cargo"
        && let Some(toolchain) = rust(&environment.home())
    {
        let path = std::env::join_paths([toolchain.join("bin"), "/usr/bin".into(), "/bin".into()]);
        command.env("PATH", path.unwrap());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(command.spawn().unwrap());
    if done.stderr.contains("exit code 77") {
        return None;
    }
    done.expect_code(0);
    Some(environment.read("digest"))
}

/// The toolchain that built this, in a home as rustup would have put it there: of it only what compiles, by hard links where
/// that is possible. `None` where who asks may not read it: then there may be one of the system's.
fn rust(home: &Path) -> Option<PathBuf> {
    let from = Path::new(env!("CARGO")).ancestors().nth(2)?;
    let to = home.join(".rustup/toolchains/stable");
    std::fs::read_dir(from.join("lib")).ok()?;
    let copy = "set -e; mkdir -p \"$2/bin\" \"$2/lib/rustlib\"
        copy() { cp -alf \"$@\" 2>/dev/null || cp -af \"$@\"; }
        copy \"$1/bin/cargo\" \"$1/bin/rustc\" \"$2/bin\"
        for one in \"$1\"/lib/*.so*; do copy \"$one\" \"$2/lib\"; done
        for one in \"$1\"/lib/rustlib/*-linux-*; do copy \"$one\" \"$2/lib/rustlib\"; done";
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the command as a shell does"
    )]
    let done = std::process::Command::new("sh")
        .args(["-c", copy, "sh"])
        .args([from, &to])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    Some(to)
}

/// Over layers as on the disk's own file system.
#[track_caller]
fn same(program: &str, before: &str, script: &str) {
    let Some(layer) = seen("layer", program, before, script) else {
        skip!(
            "{program} is not in the sandboxes of who asks; `scripts/test --all` installs it for everybody"
        );
        return;
    };
    let copy = seen("copy", program, before, script).unwrap();
    assert_eq!(layer, copy);
    assert!(layer.lines().count() > 5, "{layer}");
}

#[test]
fn git_moves_a_directory() {
    same(
        "git",
        "mkdir -p src/deep; echo d > src/deep/d",
        "git mv src lib; git mv lib/deep up; git status --porcelain; git stash -q; git stash pop -q --index",
    );
}

/// The one that is installed already is renamed away and put back or removed.
#[test]
fn npm_replaces_a_package() {
    same(
        "npm",
        "mkdir -p one/lib two/lib node_modules/dep/lib; echo 'node_modules/.package-lock.json' > .gitignore
         for n in one two; do printf '{\"name\":\"dep\",\"version\":\"%s.0.0\"}' $(test $n = one && echo 1 || echo 2) > $n/package.json; echo $n > $n/lib/x.js; done
         cp -r one/. node_modules/dep; printf '{\"name\":\"top\",\"version\":\"1.0.0\",\"dependencies\":{}}' > package.json",
        "export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
         (cd two && npm pack --silent >/dev/null); npm install --silent --no-save ./two/dep-2.0.0.tgz
         grep -q two node_modules/dep/lib/x.js; rm two/dep-2.0.0.tgz; mv node_modules moved; mv moved/dep dep; mv dep moved/dep; mv moved node_modules",
    );
}

#[test]
fn cargo_builds_and_builds_again() {
    same(
        "cargo",
        "mkdir -p krate/src; printf '[package]\\nname = \"krate\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > krate/Cargo.toml
         echo 'fn main() { println!(\"ran\"); }' > krate/src/main.rs; echo target > krate/.gitignore",
        "cd krate; cargo build --quiet --offline; ./target/debug/krate; mv src lib; mkdir src; mv lib/main.rs src/; rmdir lib
         cargo build --quiet --offline; rm -rf target; cd ..",
    );
}

/// Offline and without what it fetches: the module has one package of its own, which is moved.
#[test]
fn go_builds_and_builds_again() {
    same(
        "go",
        "mkdir -p tool/src; printf 'module example.com/tool\n\ngo 1.19\n' > tool/go.mod
         printf 'package src\n\nconst Ran = \"ran\"\n' > tool/src/src.go
         printf 'package main\n\nimport \"example.com/tool/src\"\n\nfunc main() { println(src.Ran) }\n' > tool/main.go",
        "export GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local GOCACHE=/tmp/go-cache GOPATH=/tmp/go CGO_ENABLED=0; cd tool
         go build -o bin/tool .; ./bin/tool; mv src lib; sed -i s,tool/src,tool/lib, main.go; go build -o bin/tool .; ./bin/tool
         go mod vendor; go fmt ./... >/dev/null; go mod edit -module example.com/other; mv bin out; rm -r out; cd ..",
    );
}

#[test]
fn pip_installs_a_package() {
    same(
        "pip3",
        "mkdir -p pack/mod; echo 'x = 1' > pack/mod/__init__.py; printf 'from setuptools import setup\\nsetup(name=\"mod\", version=\"1\", packages=[\"mod\"])\\n' > pack/setup.py",
        "python3 -c 'import setuptools, wheel' 2>/dev/null || exit 77
         pip3 install --quiet --no-index --no-build-isolation --no-compile --target into ./pack; test -f into/mod/__init__.py
         mv into/mod into/moved; rm -rf into pack/build pack/*.egg-info",
    );
}
