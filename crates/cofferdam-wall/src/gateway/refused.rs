//! What was refused to one sandbox so far, counted by destination.

use std::collections::HashMap;

use crate::control::Refused;

const MOST: usize = 512;

/// Bounded counts of refusals.
#[derive(Debug, Default)]
pub(super) struct Summary {
    counts: HashMap<String, Line>,
    /// Refusals of destinations that found no room.
    others: u64,
}

#[derive(Debug)]
struct Line {
    reason: String,
    opens: Option<String>,
    times: u64,
}

impl Summary {
    pub(super) fn add(&mut self, what: String, reason: &str, opens: Option<&str>) {
        if let Some(line) = self.counts.get_mut(&what) {
            line.times += 1;
        } else if self.counts.len() < MOST {
            let line = Line {
                reason: reason.to_owned(),
                opens: opens.map(str::to_owned),
                times: 1,
            };
            self.counts.insert(what, line);
        } else {
            self.others += 1;
        }
    }

    /// Most often refused first.
    pub(super) fn list(&self) -> Vec<Refused> {
        let mut list: Vec<Refused> = self
            .counts
            .iter()
            .map(|(what, line)| Refused {
                what: what.clone(),
                reason: line.reason.clone(),
                opens: line.opens.clone(),
                count: line.times,
            })
            .collect();
        list.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.what.cmp(&b.what)));
        if self.others > 0 {
            list.push(Refused {
                what: "other destinations".to_owned(),
                reason: format!("more than {MOST} destinations were refused"),
                opens: None,
                count: self.others,
            });
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_refused_come_first_and_there_is_a_limit() {
        let mut summary = Summary::default();
        for number in 0..MOST + 5 {
            summary.add(format!("{number}.test:443"), "no rule", None);
        }
        summary.add("7.test:443".to_owned(), "no rule", None);
        let list = summary.list();
        assert_eq!(list.len(), MOST + 1);
        assert_eq!((list[0].what.as_str(), list[0].count), ("7.test:443", 2));
        assert_eq!(list[MOST].count, 5);
    }
}
