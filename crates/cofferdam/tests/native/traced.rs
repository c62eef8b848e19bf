//! Programs that trace others: the kernel tells them of an end first, and nobody else before they have heard of it.

use std::time::Duration;

use cofferdam::sandbox::{ExecRequest, Execution, Exit, Sandbox};
use cofferdam_lab::skip;
use tokio::time::timeout;

use crate::living::Living;
use crate::world::{both, create, eventually, marker, ok, processes_with, spec, words};

/// Far more than it takes, and far less than for ever.
const LIMIT: Duration = Duration::from_secs(20);
/// Lets anybody trace it (where a machine restricts that), and lives until it is told to end, with code 7.
const TRACED: &str = "syscall(157, 0x59616d61, -1, 0, 0, 0); open(F, '>', qq(/tmp/pid-$ARGV[0])); print F $$; close F; sleep(0.01) until -e qq(/tmp/end-$ARGV[0]); exit 7";
/// Traces a process (PTRACE_SEIZE) with these options, and never hears of it.
const SEIZE: &str = "syscall(101, 0x4206, $ARGV[0] + 0, 0, $ARGV[1] + 0) == 0 or die $!;";
const TRACE_EXIT: u32 = 0x40;

fn cannot() -> bool {
    cfg!(not(target_arch = "x86_64"))
}

macro_rules! known_system_calls {
    () => {
        if cannot() {
            return skip!("the numbers of system calls are another machine's");
        }
    };
}

async fn perl(sandbox: &dyn Sandbox, script: &str, rest: &[&str]) -> Box<dyn Execution> {
    let select = script.replace("sleep(0.01)", "select(undef, undef, undef, 0.01)");
    let arguments = words(
        ["perl", "-e", &select]
            .into_iter()
            .chain(rest.iter().copied()),
    );
    sandbox.exec(ExecRequest::new(arguments)).await.unwrap()
}

/// A program with a mark, and one that traces it and does what `then` says.
async fn traced(
    [user, sandbox]: [&dyn Sandbox; 2],
    mark: &str,
    options: u32,
    then: &str,
) -> [Box<dyn Execution>; 2] {
    let program = perl(user, TRACED, &[mark]).await;
    let pid = said(sandbox, &format!("pid-{mark}")).await;
    let tracer = trace(sandbox, &pid, options, then, &format!("by-{mark}")).await;
    [program, tracer]
}

/// What stands in a file below `/tmp`, as soon as something does.
async fn said(sandbox: &dyn Sandbox, file: &str) -> String {
    let script = format!("until test -s /tmp/{file}; do sleep 0.01; done; cat /tmp/{file}");
    ok(sandbox, &script).await.trim().to_owned()
}

/// A program that traces a thread by now, and does what `then` says, with `name` as its third argument.
async fn trace(
    sandbox: &dyn Sandbox,
    thread: &str,
    options: u32,
    then: &str,
    name: &str,
) -> Box<dyn Execution> {
    let script = format!("{SEIZE} {then}");
    let tracer = perl(sandbox, &script, &[thread, &options.to_string(), name]).await;
    let wait =
        format!("until grep -q 'TracerPid:.[1-9]' /proc/{thread}/status; do sleep 0.01; done");
    ok(sandbox, &wait).await;
    tracer
}

async fn end_of(mut program: Box<dyn Execution>) -> Exit {
    let ended = timeout(LIMIT, program.wait()).await;
    ended.expect("its end is told").unwrap()
}

both! {
    /// Killed, or ended by itself: whoever waits for it hears of that.
    async fn a_traced_program_ends_for_who_waits() {
        known_system_calls!();
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        for options in [0, TRACE_EXIT] {
            let mark = marker();
            let [mut program, tracer] = traced([sandbox; 2], &mark, options, "sleep").await;
            program.kill(9).await.unwrap();
            assert_eq!(end_of(program).await, Exit::Signal(9));
            assert_eq!(end_of(tracer).await, Exit::Signal(9));
        }
        let mark = marker();
        let [program, tracer] = traced([sandbox; 2], &mark, 0, "sleep").await;
        ok(sandbox, &format!("touch /tmp/end-{mark}")).await;
        assert_eq!(end_of(program).await, Exit::Code(7));
        assert_eq!(end_of(tracer).await, Exit::Signal(9));
    }
}

both! {
    /// A debugger that hears of the end goes on: it was no hindrance.
    async fn who_cares_for_what_it_traces_goes_on() {
        known_system_calls!();
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let hears = "waitpid($ARGV[0], 0x40000000) > 0 or die; open(F, '>', qq(/tmp/$ARGV[2])); print F $?; close F; sleep";
        for by_itself in [true, false] {
            let mark = marker();
            let [mut program, tracer] = traced([sandbox; 2], &mark, 0, hears).await;
            let (expected, told) = if by_itself {
                ok(sandbox, &format!("touch /tmp/end-{mark}")).await;
                (Exit::Code(7), "1792")
            } else {
                program.kill(9).await.unwrap();
                (Exit::Signal(9), "9")
            };
            assert_eq!(end_of(program).await, expected);
            assert_eq!(ok(sandbox, &format!("sleep 1.5; cat /tmp/by-{mark}")).await, told);
            assert_eq!(processes_with(&format!("by-{mark}")).len(), 1);
            drop(tracer);
        }
    }
}

both! {
    /// Who traces may be traced itself, and is kept from its own end by that.
    async fn a_tracer_that_is_traced_keeps_nobody() {
        known_system_calls!();
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let mark = marker();
        let shows = "syscall(157, 0x59616d61, -1, 0, 0, 0); open(F, '>', qq(/tmp/$ARGV[2])); print F $$; close F; sleep";
        let [mut program, tracer] = traced([sandbox; 2], &mark, TRACE_EXIT, shows).await;
        let pid = said(sandbox, &format!("by-{mark}")).await;
        let second = trace(sandbox, &pid, TRACE_EXIT, "sleep", "second").await;
        program.kill(9).await.unwrap();
        assert_eq!(end_of(program).await, Exit::Signal(9));
        assert_eq!(end_of(tracer).await, Exit::Signal(9));
        assert_eq!(end_of(second).await, Exit::Signal(9));
    }
}

/// Says the number of a thread that is not its first.
const THREADS: &str = "
import ctypes, os, threading, time
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
print(max(int(thread) for thread in os.listdir('/proc/self/task')), flush=True)
time.sleep(1000)
";

both! {
    /// A single thread that is traced keeps its process as well.
    async fn a_traced_thread_does_not_keep_what_is_killed() {
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let python = "/usr/bin/python3";
        let there = ok(sandbox, &format!("test -x {python} && echo there || true")).await;
        if cannot() || there.is_empty() {
            return skip!("there is no python3 inside, or the numbers of system calls are another machine's");
        }
        let arguments = words(["sh", "-c", &format!("exec {python} -c \"$0\" > /tmp/thread"), THREADS]);
        let request = ExecRequest::new(arguments);
        let mut program = sandbox.exec(request).await.unwrap();
        let thread = said(sandbox, "thread").await;
        let tracer = trace(sandbox, &thread, 0, "sleep", "tracer").await;
        program.kill(9).await.unwrap();
        assert_eq!(end_of(program).await, Exit::Signal(9));
        assert_eq!(end_of(tracer).await, Exit::Signal(9));
    }
}

both! {
    /// Of one whose user is gone nobody waits for the end, and it comes.
    async fn nobody_waits_for_what_is_being_ended() {
        known_system_calls!();
        let living = Living::new();
        let sandbox = living.create().await;
        let other = living.open().await;
        let mark = marker();
        let [program, tracer] = traced([other.as_ref(), sandbox.as_ref()], &mark, 0, "sleep").await;
        let number = program.number().unwrap();
        let found = async || {
            let listed = sandbox.programs().await.unwrap();
            listed.into_iter().find(|one| one.number == number).unwrap()
        };
        assert!(found().await.awaited);
        drop((program, other));
        while found().await.awaited {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while found().await.exit.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(end_of(tracer).await, Exit::Signal(9));
        eventually("nothing of it is left", || processes_with(&mark).is_empty()).await;
    }
}

both! {
    /// Who makes init its tracer, again and again, keeps it from nobody.
    async fn a_flood_of_those_whom_init_traces_keeps_nobody_waiting() {
        known_system_calls!();
        let sandbox = create(&spec()).await.unwrap();
        let sandbox = sandbox.as_ref();
        let mark = marker();
        // Orphans: their parent is init. Enough of them that one has always stopped; each takes its share of the machine too.
        let flood = "use POSIX; for (1 .. 16) { fork and next; setsid; fork and exit; $SIG{USR1} = q(IGNORE); sleep(0.01) until -e qq(/tmp/end-$ARGV[0]); while (1) { syscall(101, 0, 0, 0, 0); kill USR1 => $$ } }";
        let flood = perl(sandbox, flood, &[&mark]).await;
        assert_eq!(end_of(flood).await, Exit::Code(0));
        ok(sandbox, &format!("sleep 0.5; touch /tmp/end-{mark}; sleep 0.2")).await;
        // Each is bounded.
        for _ in 0..6 {
            assert_eq!(ok(sandbox, "echo fine").await, "fine\n");
        }
    }
}
