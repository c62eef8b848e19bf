//! Full disks, as small file systems in a mount namespace of the test's own (root only).

use std::path::Path;
use std::process::Command;

use cofferdam_lab::skip;

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment};

/// Runs `test` of this module again, as root, in a mount namespace of its own. `false`: this is that run.
pub(crate) fn apart(test: &str) -> bool {
    if std::env::var_os("COFFERDAM_CHAOS_APART").is_some() {
        return false;
    }
    let done = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("COFFERDAM_CHAOS_APART", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    true
}

pub(crate) fn mount(at: &Path, options: &str) {
    let done = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(at)
        .status()
        .unwrap();
    assert!(done.success());
}

/// Unmounts when it goes, so that the directory below can be removed.
pub(crate) struct Mounted(pub(crate) std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The state directory has room for only so much: whatever step fails, the user hears why, nothing
/// is lost, and with room again `gc` finishes.
#[test]
fn no_room_for_state() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("full_disk::no_room_for_state") {
        return;
    }
    let mut failed = 0;
    for (number, kib) in [
        4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 384, 512,
    ]
    .into_iter()
    .enumerate()
    {
        let options = [
            &["--head"][..],
            &["--mode", "bind", "--merge-to-head"],
            &["--mode", "copy", "--merge-to-head"],
            &["--mode", "layer", "--merge-to-head"],
        ][number % 4];
        let environment = Environment::new();
        let before = User::of(&environment);
        std::fs::create_dir(environment.home()).unwrap();
        mount(&environment.home(), &format!("mode=700,size={kib}k"));
        let _mounted = Mounted(environment.home());
        let end = environment.start_run(options, AGENT).finish();
        let what = format!("{options:?} with {kib} KiB");
        if end.status != 0 {
            failed += 1;
            let said = format!("{}{}", end.stderr, end.stdout);
            assert!(
                said.contains("No space left on device") || said.contains("disk"),
                "{what}: it does not say why: {said}"
            );
        }
        let work = Work::of(&environment);
        mount_again(&environment.home(), "size=64m");
        checker::assert_recovers(&environment, &before, &work, &what);
        if end.stdout.contains("all-committed") {
            assert_eq!(
                checker::subjects(&environment).len(),
                3,
                "{what}: {}",
                end.stderr
            );
        }
    }
    assert!(failed > 3, "only {failed} runs had no room");
}

/// Files of a commit that have no room: nothing half of them is in the store, and with room they are written.
#[test]
fn no_room_for_a_layer() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("full_disk::no_room_for_a_layer") {
        return;
    }
    let environment = Environment::new();
    for number in 0..40 {
        environment.write(&format!("many/{number}"), "x".repeat(100_000));
    }
    environment.git(&["add", "many"]);
    environment.git(&["commit", "-qm", "many", "--", "many"]);
    let before = User::of(&environment);
    std::fs::create_dir(environment.home()).unwrap();
    mount(&environment.home(), "mode=700,size=2m");
    let _mounted = Mounted(environment.home());
    let options = ["--mode", "layer", "--merge-to-head"];
    let end = environment.start_run(&options, AGENT).finish();
    assert_ne!(end.status, 0, "{}", end.stdout);
    // Whoever writes at that moment says it: the kernel's words, or git's where a write came to its half.
    let says = ["No space left on device", "Out of diskspace"];
    assert!(
        says.iter().any(|said| end.stderr.contains(said)),
        "{}",
        end.stderr
    );
    assert_eq!(layers(&environment), 0, "{}", end.stderr);
    mount_again(&environment.home(), "size=64m");
    let what = "with room again";
    checker::gc(&environment, what);
    let end = environment.start_run(&options, AGENT).finish();
    assert_eq!(end.status, 0, "{}", end.stderr);
    assert_eq!(layers(&environment), 1, "{}", end.stderr);
    assert_eq!(checker::subjects(&environment).len(), 3, "{}", end.stderr);
    checker::assert_clean(&environment, &before, what, "");
}

/// How many layers have their names, and nothing is half there.
fn layers(environment: &Environment) -> usize {
    let trees = environment.home().join("trees");
    let stores = trees.read_dir().unwrap().flatten().map(|one| one.path());
    let store = stores.into_iter().find(|one| one.is_dir()).unwrap();
    assert_eq!(store.join("tmp").read_dir().unwrap().count(), 0);
    let entries = store.read_dir().unwrap().flatten();
    entries.filter(|one| one.file_name().len() == 40).count()
}

pub(crate) fn mount_again(at: &Path, options: &str) {
    let done = Command::new("mount")
        .args(["-o", &format!("remount,{options}")])
        .arg(at)
        .status()
        .unwrap();
    assert!(done.success());
}

/// The agent fills the disk that the repository is on.
#[test]
fn an_agent_that_fills_the_disk() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("full_disk::an_agent_that_fills_the_disk") {
        return;
    }
    for (options, fill) in [
        (&["--head"][..], "agent/big"),
        (&["--mode", "bind", "--merge-to-head"], "agent/big"),
        (&["--mode", "bind", "--branch", "feature"], "agent/big"),
        (&["--mode", "copy", "--merge-to-head"], "agent/big"),
        (&["--mode", "layer", "--merge-to-head"], "agent/big"),
    ] {
        let environment = Environment::new();
        // The whole place: repository and state.
        let place = environment.path("");
        let aside = crate::environment::directory();
        for name in ["repo", "home", "tmp", "bin", "kill"] {
            crate::environment::copy(&place.join(name), &aside.path().join(name));
        }
        mount(&place, "size=24m,mode=755");
        let _mounted = Mounted(place.clone());
        for name in ["repo", "home", "tmp", "bin", "kill"] {
            crate::environment::copy(&aside.path().join(name), &place.join(name));
        }
        let before = User::of(&environment);
        // What the command says goes to a disk that is not full.
        let script = format!("{AGENT}; cat /dev/zero > {fill}; echo it-is-full; exit 0");
        let mut command = environment.command(&["run", "--json"]);
        command.args(options).args(["--", "sh", "-c", &script]);
        let done = command.output().unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        let what = format!("{options:?} on a full disk");
        assert!(said.contains("it-is-full"), "{what}: {said}");
        let work = Work::of(&environment);
        if !done.status.success() {
            assert!(
                said.contains("No space left"),
                "{what}: it does not say why: {said}"
            );
        }
        mount_again(&place, "size=200m");
        checker::gc(&environment, &what);
        work.assert_kept(&environment, &what);
        checker::assert_sound(&environment, &what);
        assert_eq!(User::of(&environment), before, "{what}");
        assert_eq!(checker::subjects(&environment).len(), 3, "{what}: {said}");
        assert_eq!(
            checker::gc(&environment, &what),
            "nothing to clean up\n",
            "{what}"
        );
    }
}

/// Where `apply` has no room for all of it, nothing of it stays, whatever git could still write.
#[test]
fn an_apply_without_room_is_taken_back() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("full_disk::an_apply_without_room_is_taken_back") {
        return;
    }
    for kib in [60, 1_000, 3_000, 6_000] {
        let environment = Environment::new();
        let repo = environment.repo();
        let aside = crate::environment::directory();
        crate::environment::copy(&repo, &aside.path().join("repo"));
        mount(&repo, "size=40m,mode=755");
        let _mounted = Mounted(repo.clone());
        for entry in aside.path().join("repo").read_dir().unwrap().flatten() {
            crate::environment::copy(&entry.path(), &repo.join(entry.file_name()));
        }
        let script = "for n in 1 2 3 4 5; do head -c 1500000 /dev/urandom > n$n; done; \
                      echo more >> src/lib.txt; rm README.md";
        for arguments in [
            &["create", "one", "--network", "none"][..],
            &["exec", "one", "--", "sh", "-ec", script],
            &["diff", "--uncommitted", "--stat", "one"],
        ] {
            let done = environment.cofferdam(arguments);
            assert_eq!(done.status, 0, "{}", done.stderr);
        }
        let before = User::of(&environment);
        let filler = environment.path("repo/.git/filler");
        crate::no_room::fill(&filler, kib);
        let done = environment.cofferdam(&["apply", "one"]);
        let what = format!("{kib} KiB: {}", done.stderr);
        assert_ne!(done.status, 0, "{what}");
        assert!(
            done.stderr.contains("could not be written")
                || done.stderr.contains("nothing was changed"),
            "{what}"
        );
        std::fs::remove_file(&filler).unwrap();
        assert_eq!(User::of(&environment), before, "{what}");
        let again = environment.cofferdam(&["apply", "one"]);
        assert_eq!(again.status, 0, "{what}, again: {}", again.stderr);
        let undone = environment.cofferdam(&["apply", "--undo", "one"]);
        assert_eq!(undone.status, 0, "{what}, undone: {}", undone.stderr);
        assert_eq!(User::of(&environment), before, "{what}, undone");
        let deleted = environment.cofferdam(&["delete", "--force", "one"]);
        assert_eq!(deleted.status, 0, "{what}: {}", deleted.stderr);
    }
}

/// The run's log has no room: the run goes on, its work lands, and that the log lacks something is told once.
#[test]
fn no_room_for_the_run_log() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can mount a small disk");
    }
    if apart("full_disk::no_room_for_the_run_log") {
        return;
    }
    let says = r#""notice":"log_incomplete","why":"No space left on device"#;
    // The control: with room nothing is said, and all of it is there.
    for (kib, told) in [(8, 1), (1024, 0)] {
        let environment = Environment::new();
        let before = User::of(&environment);
        let logs = environment.path("logs");
        std::fs::create_dir(&logs).unwrap();
        mount(&logs, &format!("mode=700,size={kib}k"));
        let _mounted = Mounted(logs.clone());
        let log = logs.join("log");
        let script = format!("{AGENT}; seq 5000; echo it-is-over");
        let options = ["--head", "--log", log.to_str().unwrap()];
        let end = environment.start_run(&options, &script).finish();
        let what = format!("{kib} KiB: {}{}", end.stderr, end.stdout);
        assert_eq!(end.status, 0, "{what}");
        assert!(end.stdout.contains("it-is-over"), "{what}");
        assert_eq!(end.stdout.matches(says).count(), told, "{what}");
        let written = std::fs::read_to_string(&log).unwrap();
        assert!(written.starts_with("--- Run started: "), "{written}");
        assert_eq!(written.contains("it-is-over"), told == 0, "{written}");
        assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
        checker::assert_clean(&environment, &before, &what, "");
    }
}

/// The sandbox's own `/tmp` is memory: it counts against the sandbox's limit, and the run is not
/// harmed.
#[test]
fn an_agent_that_fills_its_tmp() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root has control groups to limit memory with");
    }
    let environment = Environment::new();
    let before = User::of(&environment);
    let script = format!(
        "{AGENT}; head -c 3000000000 /dev/zero > /tmp/big; code=$?; rm -f /tmp/big; echo tmp-ended $code"
    );
    let end = environment
        .start_run(&["--head", "--memory", "256m"], &script)
        .finish();
    assert!(!end.stdout.contains("tmp-ended 0"), "{}", end.stdout);
    assert_eq!(checker::subjects(&environment).len(), 3, "{}", end.stderr);
    checker::assert_clean(&environment, &before, "a full /tmp", "");
}
