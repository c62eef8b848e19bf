//! Where a scripted conversation stands: the script, and what was seen so far.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::answer::{self, Answer, Language};
use super::request::Request;
use super::script::{Script, Turn};

/// What the server saw and did so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub requests: Vec<Request>,
    /// Requests that did not fit the script, and why.
    pub complaints: Vec<String>,
    /// Answers that stopped in their middle, their program still there.
    pub hanging: usize,
    /// Programs that left such an answer.
    pub left: usize,
}

impl Seen {
    /// The requests of the agent itself, without its small questions.
    pub fn work(&self) -> impl Iterator<Item = &Request> {
        let asks = |request: &&Request| {
            Language::of(request).is_some_and(|language| language.asks_for_work(request))
        };
        self.requests.iter().filter(asks)
    }
}

/// Script and record, shared by all connections.
#[derive(Debug)]
pub(super) struct Stage {
    script: Mutex<Script>,
    seen: Mutex<Seen>,
    pub(super) changed: Condvar,
}

impl Stage {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script: Mutex::new(script),
            seen: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changed.notify_all();
    }

    /// Records a request and says what it gets.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        let mut seen = self.seen();
        seen.requests.push(request.clone());
        let number = seen.requests.len();
        drop(seen);
        let answer = match Language::of(request) {
            None => answer::other(request),
            Some(language) if !language.asks_for_work(request) => {
                answer::answer(language, request, &Turn::default(), number)
            }
            Some(language) => self.next(language, request, number),
        };
        self.changed.notify_all();
        answer
    }

    fn next(&self, language: Language, request: &Request, number: usize) -> Answer {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = script.current();
        if let Some(wanted) = &turn.after {
            let last = request.tool_results().pop().unwrap_or_default();
            if !last.contains(wanted) {
                let complaint = format!("wanted a tool's result with `{wanted}`, got `{last}`");
                let answer = answer::refusal(language, &complaint);
                self.note(|seen| seen.complaints.push(complaint));
                return answer;
            }
        }
        script.advance();
        answer::answer(language, request, &turn, number)
    }
}
