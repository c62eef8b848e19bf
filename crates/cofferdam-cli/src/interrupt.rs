//! Ctrl-C, SIGTERM and SIGHUP: once = stop and keep what there is, twice = at once, thrice = leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two stages of stopping, driven by signals of the user.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    /// First stage: end the work, keep what there is.
    pub(crate) cancel: CancellationToken,
    /// Second stage: do not even collect.
    pub(crate) abandon: CancellationToken,
    /// 128 + the first signal's number, 0 while there was none.
    code: Arc<AtomicU8>,
}

/// Which press it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    First,
    Second,
}

impl Interrupt {
    /// Listens from now on; `say` is called at the first and the second signal.
    pub(crate) fn listen(say: impl Fn(Stage) + Send + 'static) -> std::io::Result<Self> {
        let this = Self {
            cancel: CancellationToken::new(),
            abandon: CancellationToken::new(),
            code: Arc::default(),
        };
        let sources = [
            (signal(SignalKind::interrupt())?, 130),
            (signal(SignalKind::terminate())?, 143),
            (signal(SignalKind::hangup())?, 129),
        ];
        tokio::spawn(this.clone().watch(sources, say));
        Ok(this)
    }

    /// For commands that have nothing to collect: one signal, no words.
    pub(crate) fn quiet() -> std::io::Result<Self> {
        Self::listen(|_| {})
    }

    /// The exit code that the user's signal asks for.
    pub(crate) fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::Relaxed)).filter(|&code| code != 0)
    }

    async fn watch(self, sources: [(Signal, u8); 3], say: impl Fn(Stage)) {
        let [
            (mut int, int_code),
            (mut term, term_code),
            (mut hup, hup_code),
        ] = sources;
        for press in 1u8.. {
            let code = tokio::select! {
                _ = int.recv() => int_code,
                _ = term.recv() => term_code,
                _ = hup.recv() => hup_code,
            };
            match press {
                1 => {
                    self.code.store(code, Ordering::Relaxed);
                    self.cancel.cancel();
                    say(Stage::First);
                }
                2 => {
                    self.abandon.cancel();
                    say(Stage::Second);
                }
                // They asked three times; `gc` finds what is left.
                _ => std::process::exit(code.into()),
            }
        }
    }
}
