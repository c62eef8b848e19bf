//! A process that cannot be stopped, without any right: neither by signals nor by the freezer.

use std::path::Path;

/// What [`PROGRAM`] is for.
pub const PYTHON: &str = "/usr/bin/python3";

/// Executes something while one of its threads has ended and is kept by who traces it: until that one looks, the kernel
/// lets nothing through to it but its death. Its argument is a directory: `stuck` there has the process's number, and once
/// `let-go` is there it goes on as `sh`.
pub const PROGRAM: &str = "
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
if os.fork():
    while not os.path.exists('let-go'):
        time.sleep(0.01)
    while True:
        os.waitpid(-1, 0x40000000)
def traced():
    assert libc.ptrace(0, 0, 0, 0) == 0
    ready.set()
    time.sleep(1000)
ready = threading.Event()
threading.Thread(target=traced, daemon=True).start()
ready.wait()
print(os.getpid(), file=open('stuck', 'w'), flush=True)
os.execv('/bin/sh', ['sh', '-c', 'sleep 1000; :'])
";

/// A line of shell that waits, in that directory, until it is stuck.
pub const WAIT: &str =
    "until test -s stuck && grep -q '^State:.D' /proc/$(cat stuck)/status; do sleep 0.01; done";

/// One that lets it go, and waits until it has gone on.
pub const LET_GO: &str =
    "touch let-go; until grep -q '^Name:.sh' /proc/$(cat stuck)/status; do sleep 0.01; done";

/// Why there is none here, if so.
pub fn missing() -> Option<&'static str> {
    (!Path::new(PYTHON).exists()).then_some("there is no /usr/bin/python3")
}
