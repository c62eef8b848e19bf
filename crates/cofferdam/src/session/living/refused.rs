//! What the wall refuses a living sandbox while somebody waits for one of its programs.

use super::Session;
use crate::wall::Refused;
use crate::wall::log::{self, Reader};

/// So many destinations are told: a program can ask for any number.
const MOST: usize = 20;

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
        let Some(reader) = &mut self.0 else {
            return all;
        };
        // Where it cannot be read on, what was read is told.
        let _ = reader.read(|line| {
            let Some(refused) = log::refused(line) else {
                return;
            };
            if let Some(known) = all.iter_mut().find(|known| known.what == refused.what) {
                known.count += 1;
            } else if all.len() < MOST {
                all.push(refused);
            }
        });
        all
    }
}
