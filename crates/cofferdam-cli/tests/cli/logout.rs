//! What becomes of a sandbox when the session of the person who made it ends.

use rustix::process::{Pid, Signal, kill_process};

use crate::lives::Lives;

/// proc_pid_stat(5): after the name in brackets come state, parent, process group and session.
fn session_of(pid: Pid) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(3)?.parse().ok()
}

fn processes(session: i32) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|one| one.file_name().to_str()?.parse().ok());
    all.filter_map(Pid::from_raw)
        .filter(|pid| session_of(*pid) == Some(session))
        .collect()
}

/// The terminal goes, and all that is left of the session is killed: no sandbox that stays is in it, nor who keeps one,
/// carries what one asks for, or watches the checkout that one shares.
#[test]
fn a_sandbox_and_its_programs_outlive_the_session_that_made_them() {
    let lives = Lives::new();
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    let mut shell = lives.program_on_a_terminal("sh", &["-i"]);
    shell.press(&format!(
        "'{cofferdam}' create one && '{cofferdam}' create two --head --mode bind && '{cofferdam}' exec --detach one -- sleep 4711 && echo bo''th there\r"
    ));
    shell.expect("both there");
    let own = Pid::from_child(&shell.child);
    let session = session_of(own).unwrap();
    let in_it = processes(session);
    assert!(in_it.contains(&own));
    for one in &in_it {
        let path = format!("/proc/{}/cmdline", one.as_raw_nonzero());
        let words = std::fs::read_to_string(path).unwrap_or_default();
        // One that ends by itself has none.
        assert!(words.is_empty() || words.starts_with("sh\0"), "{words:?}");
    }
    let init = lives.status("one", "process");
    shell.close();
    for one in processes(session) {
        let _ = kill_process(one, Signal::KILL);
    }
    shell.ends();
    assert_eq!(lives.state("one"), "active");
    assert_eq!(lives.state("two"), "active");
    lives.cofferdam(&["delete", "two"]).expect_code(0);
    assert_eq!(lives.status("one", "process"), init);
    lives.exec("one", "pgrep -f 'sleep [4]711'").expect_code(0);
    lives
        .exec("one", "echo more > more; git add more; git commit -qm more")
        .expect_code(0);
    lives.cofferdam(&["merge", "one"]).expect_code(0);
    assert_eq!(lives.read("more"), "more\n");
}
