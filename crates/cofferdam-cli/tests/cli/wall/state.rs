//! Homes that cannot be used, and disks that are full.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use cofferdam_lab::skip;

use super::world::{Origin, Running, closed, run_arguments, script, state};
use crate::environment::{Done, TestEnvironment, finish};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `line` of sh in a mount namespace of its own, with `$0` the command and the rest its
/// arguments. Only root can mount here.
fn apart(environment: &TestEnvironment, line: &str, arguments: &[String]) -> Done {
    let plain = environment.command(&[]);
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the command as a shell does"
    )]
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", line])
        .arg(plain.get_program())
        .args(arguments)
        .env_clear()
        .current_dir(environment.repository())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (key, value) in plain.get_envs() {
        command.env(key, value.unwrap());
    }
    finish(command.spawn().unwrap())
}

/// The log's disk takes a page: the connections are carried all the same, and what is there is shown.
#[test]
fn a_full_disk_costs_lines_of_the_log_alone() {
    if !is_root() {
        return skip!("only root can mount a small disk for its log");
    }
    let environment = closed();
    let origin = Origin::new();
    let body = "for n in $(seq 80); do look_up n$n.test && exit 10; done\nask $HOST $PORT || exit 11\necho carried";
    let rule = origin.rule();
    let arguments = run_arguments("one", &["--allow", &rule], &script(&origin, body));
    let net = state(&environment).join("net");
    cofferdam::fsx::private_dir(&net).unwrap();
    let line = format!(
        "mount -t tmpfs -o size=4k,mode=700 tmpfs '{}' && \"$0\" \"$@\" && exec \"$0\" net log one --refused",
        net.display()
    );
    let done = apart(&environment, &line, &arguments).expect_code(0);
    assert!(done.stderr.contains("carried"), "{done}");
    assert_eq!(origin.greeted(), 1);
    let lines = done
        .stdout
        .lines()
        .filter(|line| line.contains(".test (lookup)"));
    let lines = lines.count();
    assert!((1..80).contains(&lines), "{lines} lines: {done}");
}

/// Nothing starts without a place for its state, and the message says which.
#[test]
fn a_home_that_cannot_be_written_stops_the_start() {
    let environment = closed();
    let origin = Origin::new();
    let arguments = run_arguments("one", &["--head"], &script(&origin, "touch started"));
    let home = state(&environment);
    let done = if is_root() {
        let line = format!(
            "mount --bind '{0}' '{0}' && mount -o remount,bind,ro '{0}' && exec \"$0\" \"$@\"",
            home.display()
        );
        apart(&environment, &line, &arguments)
    } else {
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o500)).unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = environment.cofferdam(&arguments);
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
        done
    };
    let done = done.expect_code(1);
    assert!(
        done.stderr.contains("/.cofferdam") && done.stderr.contains("COFFERDAM_HOME"),
        "{done}"
    );
    assert!(!environment.repository().join("started").exists());
}

#[test]
fn a_home_that_is_no_directory_is_named() {
    let environment = TestEnvironment::with_repository();
    let file = environment.home().join("file");
    cofferdam::fsx::write_private(&file, b"").unwrap();
    for arguments in [
        &["allow", "a.test"][..],
        &["net", "rules"],
        &["net", "log"],
        &["run", "--", "true"],
    ] {
        let mut command = environment.command(arguments);
        command
            .env("COFFERDAM_HOME", file.join("below"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let done = finish(command.spawn().unwrap()).expect_code(1);
        assert!(
            done.stderr.contains("/file/below") && done.stderr.contains("Not a directory"),
            "{done}"
        );
    }
}

/// Where somebody else could have put a socket, there is no wall: the run does not start without it.
#[test]
fn a_gateway_directory_that_others_may_enter_stops_the_start() {
    let environment = closed();
    let origin = Origin::new();
    environment
        .cofferdam(&["net", "test", "a.test", "443"])
        .expect_code(1);
    let place = std::fs::read_dir(state(&environment))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("gateway-")
        })
        .unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = Running::start(
        &environment,
        "one",
        &["--head"],
        &script(&origin, "touch started"),
    );
    let done = run.finish().expect_code(1);
    assert!(
        done.stderr.contains("other users may enter it") && done.stderr.contains("hint: look at"),
        "{done}"
    );
    assert!(!environment.repository().join("started").exists());
}
