//! One part of a long list: from where on, and how much of it.

use std::ops::ControlFlow;

/// Bytes of one part: what a model reads at once.
const BYTES: usize = 60_000;

#[derive(Debug)]
pub(super) struct Page {
    /// So many of the first things are parts of earlier answers.
    from: usize,
    seen: usize,
    things: usize,
    bytes: usize,
    is_full: bool,
}

impl Page {
    pub(super) fn new(from: Option<usize>, things: usize) -> Self {
        Self {
            from: from.unwrap_or(0),
            seen: 0,
            things,
            bytes: BYTES,
            is_full: false,
        }
    }

    /// Whether the next thing, which is told in so many bytes, belongs to this part. `Break`: it belongs to a later one, and whatever
    /// follows too.
    pub(super) fn takes(&mut self, bytes: usize) -> ControlFlow<(), bool> {
        if self.seen < self.from {
            self.seen += 1;
            return ControlFlow::Continue(false);
        }
        // One thing alone is told, however long it is.
        let is_first = self.seen == self.from;
        if self.things == 0 || (bytes > self.bytes && !is_first) {
            self.is_full = true;
            return ControlFlow::Break(());
        }
        self.seen += 1;
        self.things -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        ControlFlow::Continue(true)
    }

    /// From where on to ask for what follows; `None`: that was the end.
    pub(super) fn next(&self) -> Option<usize> {
        self.is_full.then_some(self.seen)
    }
}

/// What a text says of [`Page::next`].
pub(super) fn more(next: Option<usize>) -> String {
    let ask = |next| {
        format!(
            "[there are more: ask with the offset {next}, or say more exactly what you look for]\n"
        )
    };
    next.map(ask).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a list of things that take so many bytes each.
    fn parts(bytes: &[usize], most: usize) -> Vec<Vec<usize>> {
        let (mut parts, mut from) = (Vec::new(), None);
        loop {
            let mut page = Page::new(from, most);
            let mut part = Vec::new();
            for (at, &one) in bytes.iter().enumerate() {
                match page.takes(one) {
                    ControlFlow::Continue(true) => part.push(at),
                    ControlFlow::Continue(false) => {}
                    ControlFlow::Break(()) => break,
                }
            }
            parts.push(part);
            from = page.next();
            if from.is_none() {
                return parts;
            }
        }
    }

    #[test]
    fn everything_is_in_one_part() {
        assert_eq!(parts(&[], 2), [Vec::<usize>::new()]);
        assert_eq!(parts(&[1, 1], 2), [vec![0, 1]]);
        assert_eq!(parts(&[1, 1, 1], 2), [vec![0, 1], vec![2]]);
        let long = [BYTES - 1, 2, BYTES + 1, 1];
        assert_eq!(parts(&long, 9), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(parts(&[BYTES, 0, 1], 9), [vec![0, 1], vec![2]]);
    }
}
