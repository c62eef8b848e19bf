//! What a command prints, as it comes: its beginning and its end are kept, and the line that it is at.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::process::Watch;

/// So many bytes of the beginning are kept, and as many of the end.
const HALF: usize = 512 << 10;
/// The longest line that is shown while it runs, in bytes.
const LINE: usize = 400;

/// Both streams of a program in one.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Output>);

#[derive(Debug, Default)]
struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
    /// Something came since [`Heard::news`].
    is_new: bool,
}

impl Heard {
    /// Whoever reads the streams gives it what it reads.
    pub(super) fn watch(self: &Arc<Self>) -> Watch {
        let this = Arc::clone(self);
        Watch(Arc::new(move |bytes| this.output().add(bytes)))
    }

    /// The last line with something in it, if anything came since this was asked before.
    pub(super) fn news(&self) -> Option<String> {
        let mut output = self.output();
        if !std::mem::take(&mut output.is_new) {
            return None;
        }
        let end = |bytes: &[u8]| {
            let lines = bytes.rsplit(|&byte| byte == b'\n' || byte == b'\r');
            let said = lines.map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
            said.map(|line| String::from_utf8_lossy(&line[..line.len().min(LINE)]).into_owned())
        };
        let tail = output.tail.len().saturating_sub(2 * LINE);
        let recent: Vec<u8> = output.tail.iter().skip(tail).copied().collect();
        end(&recent).or_else(|| end(&output.head[output.head.len().saturating_sub(2 * LINE)..]))
    }

    /// All of it, or its beginning and its end with a line between them that says how much is missing.
    pub(super) fn text(&self) -> String {
        let mut output = self.output();
        let Output {
            head,
            tail,
            left_out,
            ..
        } = &mut *output;
        let tail = tail.make_contiguous();
        if *left_out == 0 {
            return String::from_utf8_lossy(&[&head[..], tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n… {left_out} bytes are left out …\n{tail}")
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    fn add(&mut self, bytes: &[u8]) {
        self.is_new |= !bytes.is_empty();
        let room = (HALF - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Of a piece that is longer than all that is kept only its end is looked at.
        let (skipped, rest) = rest.split_at(rest.len().saturating_sub(HALF));
        let over = (self.tail.len() + rest.len()).saturating_sub(HALF);
        self.tail.drain(..over);
        self.tail.extend(rest);
        self.left_out += (skipped.len() + over) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        let Watch(see) = heard.watch();
        for piece in pieces {
            see(piece);
        }
        heard
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let all = heard(&[b"one\n", b"two\n"]);
        assert_eq!(all.text(), "one\ntwo\n");
        let middle = vec![b'm'; 3 * HALF];
        for pieces in [
            &[&b"first\n"[..], &middle, b"\nlast\n"][..],
            &[&[b"first\n", &middle[..], b"\nlast\n"].concat()[..]],
        ] {
            let text = heard(pieces).text();
            let missing = 3 * HALF + 12 - 2 * HALF;
            assert!(text.starts_with("first\nmmm"), "{}", &text[..20]);
            assert!(text.ends_with("mmm\nlast\n"));
            assert!(text.contains(&format!("m\n… {missing} bytes are left out …\nm")));
            assert!(text.len() < 2 * HALF + 100, "{}", text.len());
        }
        // In very many small pieces too.
        let small = heard(&vec![&[b'x'; 100][..]; 20_000]);
        assert!(small.text().len() < 2 * HALF + 100);
    }

    #[test]
    fn news_is_the_line_it_is_at_and_is_told_once() {
        let one = heard(&[b"10%\r20%\r", b"  \n"]);
        assert_eq!(one.news().as_deref(), Some("20%"));
        assert_eq!(one.news(), None);
        let Watch(see) = one.watch();
        see(&vec![b'x'; HALF]);
        see(b"\n the end \n\n");
        assert_eq!(one.news().as_deref(), Some("the end"));
        see(&vec![b'y'; 4 * HALF]);
        assert_eq!(one.news(), Some("y".repeat(LINE)));
        assert_eq!(heard(&[b"\n \n"]).news(), None);
    }
}
