//! Refusals in the file of the host's, where it is in a sandbox.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_lab::skip;

/// A root of its own, in which the guard is where a sandbox has it.
const ROOT: &str = r#"
mkdir -p "$root/.cofferdam/bin" "$root/usr" "$root/proc" "$root/dev" "$root/tmp"
for link in bin lib lib64; do
    if [ -L "/$link" ]; then ln -s "$(readlink "/$link")" "$root/$link"; fi
done
for place in usr proc dev; do mount --rbind "/$place" "$root/$place"; done
cp "$guard" "$root/.cofferdam/bin/git"
export PATH=/.cofferdam/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin HOME=/tmp GIT_CONFIG_NOSYSTEM=1
exec chroot "$root" /bin/sh -c "cd /tmp; $line"
"#;

fn in_a_root(root: &Path, line: &str) -> Output {
    Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "/bin/sh",
            "-euc",
            ROOT,
        ])
        .env("root", root)
        .env("guard", env!("CARGO_BIN_EXE_cofferdam-guest"))
        .env("line", line)
        .output()
        .unwrap()
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

const LINE: &str = "git init -q r; cd r; git commit -nm 'a secret' && exit 3; git push -f origin secret && exit 3; \
    HUSKY=0 git -c alias.secret=push secret && exit 3; git status -s; git log secret && exit 3; exit 0";

#[test]
fn refusals_are_noted_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let tried = in_a_root(root.path(), "git --version");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        return skip!(
            "a root of its own needs user namespaces and mounts: {}",
            why.trim()
        );
    }
    // It is not made.
    let unnoted = tempfile::tempdir().unwrap();
    let output = in_a_root(unnoted.path(), LINE);
    assert!(output.status.success(), "{output:?}");
    assert!(!unnoted.path().join(".cofferdam/guard.log").exists());

    let noted = tempfile::tempdir().unwrap();
    let log = noted.path().join(".cofferdam/guard.log");
    fs::create_dir(noted.path().join(".cofferdam")).unwrap();
    fs::write(&log, "").unwrap();
    let before = seconds();
    let output = in_a_root(noted.path(), LINE);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    let (times, lines): (Vec<_>, Vec<_>) = lines.unzip();
    assert_eq!(
        lines,
        ["commit --no-verify", "push --force", "push HUSKY=0"]
    );
    for time in times {
        assert!(
            (before..=seconds()).contains(&time.parse().unwrap()),
            "{text}"
        );
    }
}
