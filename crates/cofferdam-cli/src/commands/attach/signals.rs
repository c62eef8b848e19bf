//! Those of the command's signals that are its program's.

use std::io;
use std::task::{Context, Poll};

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What asks the command itself to end, with its program.
const ENDS: [Number; 4] = [Number::INT, Number::TERM, Number::HUP, Number::QUIT];
/// What means whatever the program makes of it, and is deadly to one that makes nothing of it.
const OTHERS: [Number; 3] = [Number::USR1, Number::USR2, Number::ALARM];

/// Listens as long as it lives.
#[derive(Debug)]
pub(super) struct Signals(Vec<(Signal, i32)>);

impl Signals {
    /// On a terminal its new size is told by the program's own.
    pub(super) fn listen(on_a_terminal: bool) -> io::Result<Self> {
        let resized = (!on_a_terminal).then_some(Number::WINCH);
        let all = ENDS.into_iter().chain(OTHERS).chain(resized);
        let numbers = all.map(Number::as_raw);
        let listening = numbers.map(|number| Ok((signal(SignalKind::from_raw(number))?, number)));
        Ok(Self(listening.collect::<io::Result<_>>()?))
    }

    pub(super) async fn next(&mut self) -> i32 {
        let any = |context: &mut Context<'_>| {
            let came = |(signal, number): &mut (Signal, i32)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            };
            let came = self.0.iter_mut().find_map(came);
            came.map_or(Poll::Pending, Poll::Ready)
        };
        std::future::poll_fn(any).await
    }

    /// The next that ends a command which has no program yet.
    pub(super) async fn next_deadly(&mut self) -> i32 {
        self.next_of(|signal| signal != Number::WINCH.as_raw())
            .await
    }

    /// The next that asks for the end: once no program is left, the others are nobody's.
    pub(super) async fn next_end(&mut self) -> i32 {
        self.next_of(is_an_end).await
    }

    async fn next_of(&mut self, wanted: impl Fn(i32) -> bool) -> i32 {
        loop {
            let signal = self.next().await;
            if wanted(signal) {
                return signal;
            }
        }
    }
}

pub(super) fn is_an_end(signal: i32) -> bool {
    ENDS.iter().any(|end| end.as_raw() == signal)
}
