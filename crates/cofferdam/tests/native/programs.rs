//! Programs in a sandbox: how they start, end, stop and are frozen; and those in a jail of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam::sandbox::native::jail::{self, JailOutput, JailRequest};
use cofferdam::sandbox::{Access, ExecRequest, Exit, Limits, SandboxError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::world::{both, create, finish, mount, sh, spec, start, words};

both! {
    async fn a_program_that_cannot_run_is_an_error_at_once() {
        let sandbox = create(&spec()).await.unwrap();
        let began = Instant::now();
        for (arguments, directory, part) in [
            (words(["no-such-program"]), None, "does not exist"),
            (words(["/no/such/program"]), None, "does not exist"),
            (words(["/etc/passwd"]), None, "Permission denied"),
            (words(["true"]), Some("/no/such/directory"), "/no/such/directory"),
            (words(["true", &"x".repeat(200_000)]), None, "too long"),
            (words(["true", &"x".repeat(2 << 20)]), None, "too long"),
            (Vec::new(), None, ""),
        ] {
            let directory = directory.map(PathBuf::from);
            let mut request = ExecRequest::new(arguments);
            request.directory = directory;
            request.stdin = true;
            let error = sandbox.exec(request).await.unwrap_err();
            assert!(matches!(error, SandboxError::Program { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        // At once: it waits for nothing. A busy machine takes its time.
        assert!(began.elapsed() < Duration::from_secs(20));
        // A program that never reads its megabyte of input.
        let mut request = ExecRequest::new(["true"]);
        request.stdin = true;
        let mut run = sandbox.exec(request).await.unwrap();
        let mut stdin = run.take_stdin().unwrap();
        let _ = stdin.write_all(&vec![b'x'; 1 << 20]).await;
        assert!(run.wait().await.unwrap().success());
        // And one that reads it all.
        let mut request = ExecRequest::new(["wc", "-c"]);
        request.stdin = true;
        let mut run = sandbox.exec(request).await.unwrap();
        let mut stdin = run.take_stdin().unwrap();
        stdin.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
        drop(stdin);
        assert_eq!(finish(run).await.1.trim(), "1048576");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn exits_are_told_apart() {
        let sandbox = create(&spec()).await.unwrap();
        assert_eq!(sh(&*sandbox, "exit 7").await.0, Exit::Code(7));
        assert_eq!(sh(&*sandbox, "kill -9 $$").await.0, Exit::Signal(9));
        assert_eq!(sh(&*sandbox, "kill -TERM $$").await.0, Exit::Signal(15));
        let mut run = start(&*sandbox, "trap '' TERM; echo ready; while :; do sleep 0.01; done").await;
        let mut line = [0u8; 6];
        run.take_stdout().unwrap().read_exact(&mut line).await.unwrap();
        run.kill(15).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(200), run.wait()).await;
        assert!(waited.is_err(), "it ignores SIGTERM");
        run.kill(9).await.unwrap();
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(9));
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(9), "told again");
        sandbox.close().await.unwrap();
    }
}

both! {
    /// A program that makes its parent, which is the init, its tracer, stops, and goes on: only an exit is its exit.
    async fn a_stop_is_no_exit() {
        let sandbox = create(&spec()).await.unwrap();
        let traced = "$| = 1; $SIG{USR1} = sub { print \"heard \" }; syscall(101, 0, 0, 0, 0) == 0 or die $!;";
        // The control: nobody is its tracer.
        let alone = "$SIG{USR1} = sub { print \"heard \" }; kill USR1, $$; print \"on\"; exit 7";
        let (exit, out, _) = sh(&*sandbox, &format!("exec perl -e '{alone}'")).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "heard on"));
        for (signal, said) in [("USR1", "heard on"), ("TRAP", "on"), ("CONT", "on"), ("WINCH", "on")] {
            let script = format!("exec perl -e '{traced} kill {signal}, $$; kill {signal}, $$ if \"{signal}\" eq \"TRAP\"; print \"on\"; exit 7'");
            // What is taken for an exit stays stopped, with the ends of its pipes.
            let ended = tokio::time::timeout(Duration::from_secs(20), sh(&*sandbox, &script)).await;
            let (exit, out, err) = ended.unwrap_or_else(|_| panic!("{signal}: a stop was taken for an exit"));
            // Asked for once, the init is no tracer any more: the second trap is one.
            if signal == "TRAP" {
                assert_eq!((exit, out.as_str()), (Exit::Signal(5), ""), "{err}");
            } else {
                assert_eq!((exit, out.as_str()), (Exit::Code(7), said), "{signal}: {err}");
            }
        }
        // Stopped as by a shell, not for ever: the host wakes it.
        let mut run = start(&*sandbox, &format!("exec perl -e '{traced} kill STOP, $$; print \"on\"; exit 7'")).await;
        let waited = tokio::time::timeout(Duration::from_millis(200), run.wait()).await;
        assert!(waited.is_err(), "{waited:?}");
        run.kill(18).await.unwrap();
        let (exit, out, err) = finish(run).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "on"), "{err}");
        // One that became the init's child only later; an execve, which a tracer sees as a trap; a second thread.
        let orphan = format!("pipe R, W; if (!fork) {{ close R; if (!fork) {{ select undef, undef, undef, 0.01 while getppid != 1; \
            {traced} kill USR1, $$; open O, \">&\", W; print O \"orphan\"; close O }} exit }} wait; close W; print <R>");
        let (exit, out, err) = sh(&*sandbox, &format!("exec perl -e '{orphan}'")).await;
        assert!(exit.success() && out.ends_with("orphan"), "{exit} {out} {err}");
        let executes = format!("exec perl -e '{traced} exec \"sh\", \"-c\", \"echo on; exit 7\"'");
        let (exit, out, err) = sh(&*sandbox, &executes).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(7), "on\n"), "{err}");
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn freezing_stops_and_thawing_goes_on() {
        let sandbox = create(&spec()).await.unwrap();
        let script = "while :; do echo x; sleep 0.005; done & wait";
        let mut run = start(&*sandbox, script).await;
        let mut stdout = run.take_stdout().unwrap();
        let mut buffer = [0u8; 4096];
        assert!(stdout.read(&mut buffer).await.unwrap() > 0);
        sandbox.freeze().await.unwrap();
        // What was written before may still be in the pipe.
        while let Ok(read) = tokio::time::timeout(Duration::from_millis(300), stdout.read(&mut buffer)).await {
            assert!(read.unwrap() < 4096, "it still writes");
        }
        sandbox.thaw().await.unwrap();
        assert!(stdout.read(&mut buffer).await.unwrap() > 0);
        sandbox.close().await.unwrap();
    }
}

both! {
    async fn many_programs_at_once() {
        let sandbox = create(&spec()).await.unwrap();
        let runs = (0..50).map(|n| {
            let sandbox = Arc::clone(&sandbox);
            tokio::spawn(async move { (n, sh(&*sandbox, &format!("echo {n}; exit {n}")).await) })
        });
        for run in runs.collect::<Vec<_>>() {
            let (n, (exit, out, _)) = run.await.unwrap();
            assert_eq!((exit, out), (Exit::Code(n), format!("{n}\n")));
        }
        sandbox.close().await.unwrap();
    }
}

fn jail_request(script: &str) -> JailRequest {
    JailRequest {
        mounts: Vec::new(),
        arguments: words(["sh", "-c", script]),
        environment: BTreeMap::new(),
        directory: "/".into(),
        stdin: Vec::new(),
        stdout: JailOutput::Capture(1 << 20),
        limits: Limits::default(),
        timeout: Duration::from_secs(20),
    }
}

both! {
    async fn a_jail_runs_one_program() {
        let cancel = CancellationToken::new();
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("f"), "content").unwrap();
        let request = JailRequest {
            mounts: vec![mount(tree.path(), "/in", Access::ReadOnly)],
            stdin: b"input ".to_vec(),
            environment: [("A".into(), "env ".into())].into(),
            ..jail_request("cat; printf '%s' \"$A\"; cat /in/f; echo oops >&2; rm -f /in/f; sleep 1000 & exit 3")
        };
        let done = jail::run(request, &cancel).await.unwrap();
        assert_eq!((done.exit, &done.stdout[..]), (Exit::Code(3), &b"input env content"[..]));
        assert!(done.stderr_tail.starts_with(b"oops\n"));
        assert!(tree.path().join("f").exists());

        let out = fs::File::create(tree.path().join("out")).unwrap();
        let request = JailRequest { stdout: JailOutput::Fd(out.into()), ..jail_request("echo to a file") };
        jail::run(request, &cancel).await.unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("out")).unwrap(), "to a file\n");

        let request = JailRequest { stdout: JailOutput::Capture(10), ..jail_request("yes") };
        assert!(jail::run(request, &cancel).await.is_err());
        let began = Instant::now();
        let request = JailRequest { timeout: Duration::from_millis(300), ..jail_request("sleep 1000") };
        assert!(matches!(jail::run(request, &cancel).await, Err(SandboxError::TimedOut(_))));
        cancel.cancel();
        assert!(matches!(jail::run(jail_request("sleep 1000"), &cancel).await, Err(SandboxError::Cancelled)));
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
