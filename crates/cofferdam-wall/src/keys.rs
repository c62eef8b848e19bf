//! What a terminal tells the programs in front, which is not for a process that outlives its starter. It is in the starter's job
//! until it has a session of its own: a Ctrl-Z in that moment would have it stand still, for everybody whom it serves.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

const ALL: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

fn all() -> SigSet {
    ALL.into_iter().collect()
}

/// Starts something, which has them withheld from its first instruction on: signal masks are inherited.
pub fn withheld<T>(start: impl FnOnce() -> T) -> T {
    let before = all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = start();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    started
}

/// Of a process that was started so, and has begun: what else its starter withheld comes again. In the only thread.
#[cfg(feature = "gateway")]
pub(crate) fn keep_withheld() {
    let inherited = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
    let kept: SigSet = ALL
        .into_iter()
        .filter(|one| inherited.contains(*one))
        .collect();
    let _ = kept.thread_set_mask();
}
