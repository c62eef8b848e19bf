//! Terminals, and programs that survive whoever started them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam::sandbox::{
    Detached, ExecRequest, Execution, Exit, Sandbox, SandboxError, Terminal, TerminalSize,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::living::Living;
use crate::world::{both, create, eventually, marker, ok, processes_with, spec, words};

const SIZE: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

async fn with_terminal(sandbox: &dyn Sandbox, script: &str) -> (Box<dyn Execution>, Terminal) {
    let mut request = ExecRequest::new(["sh", "-c", script]);
    request.terminal = Some(SIZE);
    let mut run = sandbox.exec(request).await.unwrap();
    assert!(run.take_stdin().is_none() && run.take_stdout().is_none());
    assert!(run.take_stderr().is_none());
    let terminal = run.take_terminal().unwrap();
    assert!(run.take_terminal().is_none());
    (run, terminal)
}

/// Reads until the text has come; what came before it.
async fn until(terminal: &mut Terminal, text: &str) -> String {
    let mut seen = Vec::new();
    let mut chunk = [0u8; 512];
    loop {
        let said = String::from_utf8_lossy(&seen).into_owned();
        if said.contains(text) {
            return said;
        }
        let read = terminal.output.read(&mut chunk);
        let Ok(got) = tokio::time::timeout(Duration::from_secs(20), read).await else {
            panic!("it never said {text:?}: {said:?}");
        };
        let got = got.unwrap();
        assert!(got > 0, "it ended without {text:?}: {said:?}");
        seen.extend_from_slice(&chunk[..got]);
    }
}

both! {
    async fn a_terminal_is_one() {
        let sandbox = create(&spec()).await.unwrap();
        // Its own, by its name and as the controlling one; the same on all three descriptors.
        let script = "tty; stty size; exec 9<>\"$(tty)\" && echo opened; echo through > /dev/tty; \
            for fd in 0 1 2; do test -t $fd && printf %s $fd; done; echo; exit 3";
        let (mut run, mut terminal) = with_terminal(&*sandbox, script).await;
        let mut said = String::new();
        terminal.output.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "/dev/pts/0\r\n24 80\r\nopened\r\nthrough\r\n012\r\n");
        assert_eq!(run.wait().await.unwrap(), Exit::Code(3));
        // A resize is heard of.
        let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done";
        let (mut run, mut terminal) = with_terminal(&*sandbox, script).await;
        until(&mut terminal, "ready").await;
        terminal.size.resize(TerminalSize { rows: 50, columns: 132 }).unwrap();
        until(&mut terminal, "50 132").await;
        assert!(run.wait().await.unwrap().success());
        // Keys are signals to the group in front, and their end is typed.
        let (mut run, mut terminal) = with_terminal(&*sandbox, "echo ready; cat; echo after").await;
        until(&mut terminal, "ready").await;
        terminal.input.write_all(b"typed\n\x04").await.unwrap();
        let said = until(&mut terminal, "after").await;
        assert_eq!(said.matches("typed").count(), 2, "the echo and cat: {said}");
        assert!(run.wait().await.unwrap().success());
        let (mut run, mut terminal) = with_terminal(&*sandbox, "echo ready; exec sleep 1000").await;
        until(&mut terminal, "ready").await;
        terminal.input.write_all(b"\x03").await.unwrap();
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(2));
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn a_shell_controls_its_jobs() {
        let sandbox = create(&spec()).await.unwrap();
        let (mut run, mut terminal) = with_terminal(&*sandbox, "exec bash --norc --noprofile -i").await;
        let typed = b"sh -c 'echo in''front; exec sleep 1000'\n";
        terminal.input.write_all(typed).await.unwrap();
        until(&mut terminal, "infront\r\n").await;
        // Only a shell with a controlling terminal has jobs: the one in front hears the key, and the shell does not.
        terminal.input.write_all(b"\x1a").await.unwrap();
        until(&mut terminal, "Stopped").await;
        terminal.input.write_all(b"kill -9 %1; wait; echo still here\n").await.unwrap();
        until(&mut terminal, "still here\r\n").await;
        // A shell that has just had stopped jobs wants to be told twice.
        let _ = terminal.input.write_all(b"exit 4\nexit 4\n").await;
        assert_eq!(run.wait().await.unwrap(), Exit::Code(4));
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn what_is_not_read_waits_and_what_is_left_is_hung_up() {
        let living = Living::new();
        let sandbox = living.create().await;
        let (mut run, mut terminal) = with_terminal(&*sandbox, "stty raw -echo; echo ready; sleep 1000").await;
        until(&mut terminal, "ready").await;
        // Nobody inside reads: who types waits, and the sandbox goes on.
        let typing = async {
            while terminal.input.write_all(&[b'x'; 4096]).await.is_ok() {}
        };
        assert!(tokio::time::timeout(Duration::from_millis(500), typing).await.is_err());
        assert_eq!(ok(&*sandbox, "echo served").await, "served\n");
        drop(terminal);
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(1), "the hang-up");
        // With its user go the program and what it left behind, also what ignores the hang-up, which reaches who leads
        // the session; a shell has a moment to write its history.
        let marker = marker();
        let script = format!("trap 'echo history > /tmp/history' HUP; echo ready; nohup sleep {marker} & sleep {marker} & wait; sleep {marker}");
        let user = living.open().await;
        let (_run, mut terminal) = with_terminal(&*user, &script).await;
        until(&mut terminal, "ready").await;
        eventually("both", || processes_with(&format!("sleep {marker}")).len() >= 3).await;
        drop((user, terminal));
        eventually("all dead", || processes_with(&marker).is_empty()).await;
        assert_eq!(ok(&*sandbox, "cat /tmp/history").await, "history\n");
    }
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn request(&self, script: &str) -> ExecRequest {
        let mut request = ExecRequest::new(["sh", "-c", script]);
        request.detached = Some(Detached {
            output: self.path("output"),
            end: self.path("end"),
        });
        request
    }

    fn output(&self) -> String {
        fs::read_to_string(self.path("output")).unwrap()
    }

    fn end(&self) -> Option<Exit> {
        Detached::read_end(&fs::read(self.path("end")).unwrap())
    }
}

both! {
    async fn a_detached_program_survives_its_client() {
        let living = Living::new();
        let sandbox = living.create().await;
        let files = Files::new();
        let client = living.open().await;
        let script = "echo begun; cat; until test -e /tmp/go; do sleep 0.01; done; echo done; echo oops >&2; exit 6";
        let run = client.exec(files.request(script)).await.unwrap();
        let number = run.number().unwrap();
        drop((run, client));
        eventually("it prints", || files.output() == "begun\n").await;
        let listed = sandbox.programs().await.unwrap();
        let found = listed.iter().find(|one| one.number == number).unwrap();
        assert!(found.detached && found.exit.is_none());
        assert_eq!(found.arguments, words(["sh", "-c", script]));
        assert_eq!(files.end(), None);
        ok(&*sandbox, "touch /tmp/go").await;
        eventually("its end", || files.end() == Some(Exit::Code(6))).await;
        assert_eq!(files.output(), "begun\ndone\noops\n");
        let listed = living.open().await.programs().await.unwrap();
        assert_eq!(listed.iter().find(|one| one.number == number).unwrap().exit, Some(Exit::Code(6)));
        // The same files are nobody else's.
        let again = sandbox.exec(files.request("true")).await.unwrap_err();
        assert!(matches!(again, SandboxError::Program { .. }), "{again}");
        assert_eq!(files.output(), "begun\ndone\noops\n");
        // What was not started leaves none.
        let none = Files::new();
        let mut request = none.request("");
        request.arguments = words(["no-such-program"]);
        assert!(sandbox.exec(request).await.is_err());
        assert!(!none.path("output").exists() && !none.path("end").exists());
    }
}

both! {
    /// By the number of the sandbox's own; those of two clients are never the same.
    async fn any_client_ends_any_program() {
        let living = Living::new();
        let (one, two) = (living.create().await, living.open().await);
        let (first, second) = (Files::new(), Files::new());
        let a = one.exec(first.request("trap '' HUP TERM; sleep 1000 & wait")).await.unwrap();
        let b = two.exec(second.request("sleep 1000")).await.unwrap();
        let (a, b) = (a.number().unwrap(), b.number().unwrap());
        assert_ne!(a, b);
        two.signal(a, 9).await.unwrap();
        one.signal(b, 15).await.unwrap();
        eventually("both ends", || first.end() == Some(Exit::Signal(9)) && second.end() == Some(Exit::Signal(15))).await;
        assert!(matches!(one.signal(4711, 9).await, Err(SandboxError::NoProgram(4711))));
        one.signal(a, 9).await.unwrap();
        // While everything stands still nothing is woken.
        let third = Files::new();
        let c = one.exec(third.request("sleep 1000")).await.unwrap().number().unwrap();
        two.pause().await.unwrap();
        assert!(one.signal(c, 18).await.is_err());
        assert!(two.status().await.unwrap().paused);
        one.signal(c, 9).await.unwrap();
        eventually("killed asleep", || third.end() == Some(Exit::Signal(9))).await;
        two.resume().await.unwrap();
    }
}

both! {
    /// 64 MiB are kept, and what follows costs no room and does not stop the program.
    async fn output_has_a_bound() {
        let living = Living::new();
        let sandbox = living.create().await;
        let files = Files::new();
        let script = "dd if=/dev/zero bs=1M count=80 2>/dev/null; echo unseen; exit 5";
        sandbox.exec(files.request(script)).await.unwrap();
        eventually("its end", || files.end() == Some(Exit::Code(5))).await;
        let output = fs::read(files.path("output")).unwrap();
        let bound = 64 << 20;
        assert!(output[..bound].iter().all(|&byte| byte == 0));
        let said = String::from_utf8_lossy(&output[bound..]).into_owned();
        assert_eq!(said, format!("\n[cofferdam: what follows after {bound} bytes is dropped]\n"));
    }
}
