//! What the wall refuses a living sandbox while somebody waits for one of its programs.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::detached::Program;
use super::{Named, Session};
use crate::session::options::Caller;
use crate::wall::Refused;
use crate::wall::log::{self, Reader};

/// So many destinations are told: a program can ask for any number.
const MOST: usize = 20;

/// What is refused is written down a little later than a program hears of it.
const LATE: Duration = Duration::from_secs(1);

/// What is refused from some moment on, whoever in the sandbox asks for it.
#[derive(Debug)]
pub struct RefusedSince(Option<Reader>);

impl Session {
    /// Nothing where it has no wall.
    pub fn refused_from_now_on(&self) -> RefusedSince {
        let log = self.caller.home.network_log(self.id());
        RefusedSince(Reader::at_end(&log).ok())
    }
}

impl RefusedSince {
    /// Each destination once, in the order in which they were asked for: 20 at most.
    pub fn until_now(mut self) -> Vec<Refused> {
        let mut all: Vec<Refused> = Vec::new();
        if let Some(reader) = &mut self.0 {
            // Where it cannot be read on, what was read is told.
            let _ = reader.read(|line| {
                if let Some(one) = log::refused(line) {
                    add(one, &mut all);
                }
            });
        }
        all
    }
}

/// What is refused while a program runs that nobody waits for, or was while it ran, whoever in the sandbox asked for it: each destination
/// once, 20 at most.
pub fn refused_during(caller: &Caller, named: &Named, program: &Program) -> Vec<Refused> {
    let mut all: Vec<Refused> = Vec::new();
    let at = |time: SystemTime| Timestamp::try_from(time).ok();
    // Its output is there from its start on, and its end is written when it ends.
    let began = program.output.metadata().and_then(|found| found.created());
    let Some(began) = began.ok().and_then(at) else {
        return all;
    };
    let ended = match program.exit() {
        Ok(Some(_)) => {
            let ended = program.end.metadata().and_then(|found| found.modified());
            ended.ok().and_then(|ended| at(ended + LATE))
        }
        _ => None,
    };
    let log = caller.home.network_log(named.id());
    if let Ok(mut reader) = Reader::open(&log) {
        let _ = reader.read(|line| {
            let found = log::refused_at(line);
            let meanwhile =
                found.filter(|(at, _)| *at >= began && ended.is_none_or(|end| *at <= end));
            if let Some((_, one)) = meanwhile {
                add(one, &mut all);
            }
        });
    }
    all
}

fn add(refused: Refused, all: &mut Vec<Refused>) {
    if let Some(known) = all.iter_mut().find(|known| known.what == refused.what) {
        known.count += 1;
    } else if all.len() < MOST {
        all.push(refused);
    }
}
