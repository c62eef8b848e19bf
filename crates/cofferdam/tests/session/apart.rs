//! Two agents at work at once, and the host beside them: none sees or disturbs another.

use std::os::unix::fs::MetadataExt;

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::Landing;

use crate::support::{Env, run_ok};

/// What the second agent finds. Each `try` is an attempt; `own` are the controls of the same form. The
/// marks stand in pieces, because the text itself is in a command line.
const LOOK: &str = r#"
    found() { grep -l "$1" /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | head -1; }
    try() { name=$1; shift; if "$@" > /dev/null 2>&1; then echo "$name: yes"; else echo "$name: no"; fi; }
    sh -c 'sleep 600; :' "MAR""K-own" & while test -z "$(found 'MAR[K]-own')"; do :; done
    try own-process test -n "$(found 'MAR[K]-own')"
    try host-process test -n "$(found 'MAR[K]-host')"; try other-process test -n "$(found 'MAR[K]-other')"
    try own-list ls .; try system-seen test "$(stat -c %i /usr)" = USR
    try root-seen test "$(stat -c %i /root)" = ROOT; try host-list ls DIR; try other-file cat /tmp/other /dev/shm/other
    try own-write touch new; try passwd-write sh -c 'echo x >> /etc/passwd'; try host-write touch DIR/new
    kill -9 -1; echo "still here"; git commit -qm second --allow-empty"#;

// covers: S4-NFR2 S4-G1 S4-G2 S4-AC4.1 S4-AC4.2
#[test]
fn agents_are_apart_from_each_other_and_from_the_host() {
    let (one, two) = (Env::new(), Env::new());
    let host = tempfile::Builder::new()
        .prefix("outside-")
        .tempdir_in(one.dir.path());
    let host = host.unwrap();
    std::fs::write(host.path().join("file"), "x").unwrap();
    let passwd = std::fs::read("/etc/passwd").unwrap();
    let mut process = std::process::Command::new("sh")
        .args(["-c", "read line; :", "MARK-host"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let wait = "echo x > /tmp/other; echo x > /dev/shm/other; touch started
        sh -c 'while ! test -e go; do sleep 0.05; done' MARK-other
        rm go started; git commit -qm first --allow-empty";
    let first = one.script(BranchStrategy::Head, wait);
    let report = std::thread::scope(|scope| {
        let first = scope.spawn(|| run_ok(first));
        let started = one.repo.join("started");
        while !started.exists() && !first.is_finished() {
            std::thread::yield_now();
        }
        let inode = |path: &str| std::fs::metadata(path).unwrap().ino().to_string();
        let look = LOOK
            .replace("DIR", host.path().to_str().unwrap())
            .replace("USR", &inode("/usr"))
            .replace("ROOT", &inode("/root"));
        run_ok(two.script(BranchStrategy::Head, &look));
        std::fs::write(one.repo.join("go"), "").unwrap();
        first.join().unwrap()
    });
    let said = two.said();
    for (attempt, works) in [
        ("own-process", "yes"),
        ("host-process", "no"),
        ("other-process", "no"),
        ("own-list", "yes"),
        ("system-seen", "yes"),
        ("root-seen", "no"),
        ("host-list", "no"),
        ("other-file", "no"),
        ("own-write", "yes"),
        ("passwd-write", "no"),
        ("host-write", "no"),
    ] {
        assert!(
            said.contains(&format!("{attempt}: {works}")),
            "{attempt}: {said}"
        );
    }
    // It ended what it could, and that was its own.
    assert!(said.contains("still here"), "{said}");
    assert!(
        process.try_wait().unwrap().is_none(),
        "the host's process is there"
    );
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(matches!(report.landing, Landing::Landed { .. }));
    assert_eq!(std::fs::read("/etc/passwd").unwrap(), passwd);
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 1);
}
