//! What a person types where nobody hears it, and how they leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam::session::Session;
use cofferdam::session::living::Condition;
use tokio::time::sleep;

use crate::ui::output;

/// Presses that are further apart do not count together.
const TOGETHER: Duration = Duration::from_secs(2);
/// So long after a key without an answer it is asked whether the sandbox is paused.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
pub(super) const CTRL_C: u8 = 3;

/// Counts presses of Ctrl-C, one soon after the other.
#[derive(Debug, Default)]
pub(super) struct Presses {
    last: Option<Instant>,
    count: u32,
}

impl Presses {
    pub(super) fn press(&mut self) -> u32 {
        let now = Instant::now();
        let soon = self
            .last
            .is_some_and(|last| now.duration_since(last) < TOGETHER);
        self.count = if soon { self.count + 1 } else { 1 };
        self.last = Some(now);
        self.count
    }
}

/// Notices that a terminal is silent because its sandbox is paused, and lets its user leave it.
pub(super) struct Watch<'a> {
    /// Without one nobody can pause it.
    session: Option<&'a Session>,
    answers: Arc<AtomicU64>,
    /// When to ask, and how many answers there were when a key was typed.
    due: Option<(Instant, u64)>,
    /// Ctrl-C was pressed: it is asked whatever was printed. A terminal shows what is typed by itself, also where no program
    /// reads it.
    certain: bool,
    /// It was pressed more than once: it is asked at once.
    urgent: bool,
    /// Where it was told that the sandbox is paused: how many answers there had been.
    told: Option<u64>,
    presses: Presses,
    /// How its user gets away from it, in words.
    way_out: &'static str,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        session: Option<&'a Session>,
        answers: Arc<AtomicU64>,
        way_out: &'static str,
    ) -> Self {
        Self {
            session,
            way_out,
            answers,
            due: None,
            certain: false,
            urgent: false,
            told: None,
            presses: Presses::default(),
        }
    }

    /// Something is typed.
    pub(super) fn hear(&mut self, typed: &[u8]) {
        let answers = self.answers.load(Ordering::Relaxed);
        match self.due {
            Some((_, before)) if before == answers => {}
            _ => self.due = Some((Instant::now() + ANSWER, answers)),
        }
        let presses = typed.iter().filter(|&&key| key == CTRL_C);
        let most = presses.map(|_| self.presses.press()).max();
        self.certain |= most.is_some();
        if most.is_some_and(|most| most >= 2) {
            self.urgent = true;
            self.due = Some((Instant::now(), answers));
        }
    }

    pub(super) async fn due(&self) {
        match self.due {
            Some((at, _)) => sleep(at.saturating_duration_since(Instant::now())).await,
            None => std::future::pending().await,
        }
    }

    /// Whether the user leaves a program that cannot hear it.
    pub(super) async fn ask(&mut self) -> bool {
        let Some((_, before)) = self.due.take() else {
            return false;
        };
        let urgent = std::mem::take(&mut self.urgent);
        let certain = std::mem::take(&mut self.certain);
        let answers = self.answers.load(Ordering::Relaxed);
        if !urgent && (!certain && answers != before || self.told == Some(before)) {
            return false;
        }
        let Some(session) = self.session else {
            return false;
        };
        let asked = tokio::time::timeout(ANSWER, session.condition()).await;
        if !matches!(asked, Ok(Ok(Condition::Paused))) {
            self.told = None;
            return false;
        }
        let leaves = urgent && self.presses.count >= 3;
        let known = self.told == Some(answers) || leaves && self.told.is_some();
        if !known {
            let name = session.name();
            output::note(&format!(
                "\r\n{name} is paused; it goes on with: cofferdam resume {name}\r\n\
                 ({})\r\n",
                self.way_out
            ));
        }
        self.told = Some(answers);
        leaves
    }
}
