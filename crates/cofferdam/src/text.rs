//! Text from a sandbox on its way to a person or a log: bounded lines, no raw control bytes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// So much of one line is kept by default: 1 MiB.
pub const LINE_LIMIT: usize = 1 << 20;

/// One line of output without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// What was printed, any bytes; of a long one how it begins.
    pub bytes: &'a [u8],
    /// The line was longer than the bound; the rest was dropped.
    pub truncated: bool,
}

impl Line<'_> {
    /// The line as text; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

/// Cuts a stream of bytes into lines, in constant memory whatever the stream holds.
///
/// A line ends at LF; one CR before it belongs to the line end. NULs and bytes that are not UTF-8
/// are ordinary content. How the stream was cut into pieces never changes the lines.
#[derive(Debug)]
pub struct LineFramer {
    limit: usize,
    /// The unfinished line: at most one byte more than the limit, because that byte may be a CR.
    held: Vec<u8>,
    overlong: bool,
}

impl Default for LineFramer {
    fn default() -> Self {
        Self::new(LINE_LIMIT)
    }
}

impl LineFramer {
    /// Keeps at most `limit` bytes of each line.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            held: Vec::new(),
            overlong: false,
        }
    }

    /// Takes the next piece of the stream and gives every line that it ends to `each`.
    pub fn push(&mut self, mut piece: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(end) = piece.iter().position(|&byte| byte == b'\n') {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            if self.held.is_empty() && !self.overlong {
                each(ended(line, self.limit, false));
            } else {
                self.hold(line);
                each(ended(&self.held, self.limit, self.overlong));
                self.held.clear();
                self.overlong = false;
            }
            piece = rest;
        }
        self.hold(piece);
    }

    /// The stream has ended: gives a last line that had no line end.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if !self.held.is_empty() || self.overlong {
            let bytes = &self.held[..self.held.len().min(self.limit)];
            each(Line {
                bytes,
                truncated: self.overlong || self.held.len() > self.limit,
            });
        }
        self.held = Vec::new();
        self.overlong = false;
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = (self.limit + 1).saturating_sub(self.held.len());
        if bytes.len() > room {
            self.overlong = true;
        }
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn ended(line: &[u8], limit: usize, overlong: bool) -> Line<'_> {
    let content = match line {
        [content @ .., b'\r'] if !overlong => content,
        _ => line,
    };
    let bytes = &content[..content.len().min(limit)];
    Line {
        bytes,
        truncated: overlong || content.len() > limit,
    }
}

/// Two lower-case hexadecimal digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Replaces control characters (C0 but line feed and tab, DEL, C1), bidirectional controls and
/// other invisible format characters by visible escapes such as `\u{1b}`. A CR before a line feed
/// is dropped.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_printable(&mut out, text);
    out
}

/// As [`printable`], for bytes: what is not UTF-8 becomes `\xNN`.
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_printable(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// As [`printable`], on one line: line feeds and tabs are escaped too.
pub fn printable_line(text: &str) -> String {
    one_line(printable(text))
}

/// As [`printable_bytes`], on one line: for file names.
pub fn printable_bytes_line(bytes: &[u8]) -> String {
    one_line(printable_bytes(bytes))
}

/// As [`printable_bytes_line`], for a path.
pub fn printable_path(path: &Path) -> String {
    printable_bytes_line(path.as_os_str().as_bytes())
}

fn one_line(text: String) -> String {
    if text.contains(['\n', '\t']) {
        text.replace('\n', "\\n").replace('\t', "\\t")
    } else {
        text
    }
}

/// Drops what a program prints to colour its lines: `ESC [ … m`, and `ESC [ … K`, which goes along with
/// it. Only digits and separators go with them, so that nothing hides there. Not for what is in
/// files: there an escape is something to see.
pub fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        out.push_str(before);
        let parameters = &sequence[2..];
        let end = parameters.trim_start_matches(|c: char| c.is_ascii_digit() || ";:".contains(c));
        if let Some(after) = end.strip_prefix(['m', 'K']) {
            rest = after;
        } else {
            out.push('\u{1b}');
            rest = &sequence[1..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Cuts printable text on one line to `columns` terminal columns; `…` stands for what was cut.
///
/// Never wider than asked for; it may be narrower where terminals disagree about a character.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    let mut used = 0;
    // Where to cut so that the ellipsis still fits.
    let mut cut = 0;
    for (at, c) in text.char_indices() {
        let wide = columns_of(c);
        if used + wide > columns {
            return match columns {
                0 => Cow::Borrowed(""),
                _ => Cow::Owned(format!("{}…", &text[..cut])),
            };
        }
        used += wide;
        if used < columns {
            cut = at + c.len_utf8();
        }
    }
    Cow::Borrowed(text)
}

fn columns_of(c: char) -> usize {
    match c {
        // Makes a narrow symbol before it wide on many terminals.
        '\u{fe0f}' => 1,
        c => unicode_width::UnicodeWidthChar::width(c).unwrap_or(1),
    }
}

fn push_printable(out: &mut String, text: &str) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if is_unsafe(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
}

/// Control characters, and every character that Unicode calls "default ignorable" or that reorders
/// text: what a person cannot see can hide a file name, a command or a message to another agent.
fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        // The last two variation selectors stay: they are part of ordinary emoji.
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// RFC 4648, in both alphabets, with padding or without.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0u32, 0u32);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(limit: usize, pieces: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let mut framer = LineFramer::new(limit);
        let mut lines = Vec::new();
        let mut keep = |line: Line<'_>| lines.push((line.bytes.to_vec(), line.truncated));
        for piece in pieces {
            framer.push(piece, &mut keep);
        }
        framer.finish(&mut keep);
        lines
    }

    fn check_lines(limit: usize, stream: &str, want: &[(&str, bool)]) {
        let want: Vec<_> = want
            .iter()
            .map(|(l, t)| (l.as_bytes().to_vec(), *t))
            .collect();
        assert_eq!(
            frame(limit, &[stream.as_bytes()]),
            want,
            "{stream:?} in one piece"
        );
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(frame(limit, &bytes), want, "{stream:?} byte by byte");
    }

    #[test]
    fn lines() {
        check_lines(4, "", &[]);
        check_lines(4, "\n", &[("", false)]);
        check_lines(4, "a\nb", &[("a", false), ("b", false)]);
        check_lines(4, "a\r\n\r\n", &[("a", false), ("", false)]);
        check_lines(4, "a\r\r\nb\rc\n", &[("a\r", false), ("b\rc", false)]);
        check_lines(4, "a\0b\n", &[("a\0b", false)]);
        check_lines(4, "1234\n", &[("1234", false)]);
        check_lines(4, "1234\r\n", &[("1234", false)]);
        check_lines(4, "12345\nx\n", &[("1234", true), ("x", false)]);
        check_lines(4, "12345\r\n", &[("1234", true)]);
        check_lines(4, "12345", &[("1234", true)]);
        check_lines(4, "123456789", &[("1234", true)]);
        check_lines(4, "123\r", &[("123\r", false)]);
        check_lines(0, "a\n\nb", &[("", true), ("", false), ("", true)]);
    }

    #[test]
    fn a_gigabyte_line_is_held_in_bounded_memory() {
        let mut framer = LineFramer::new(1000);
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            framer.push(&piece, |_| panic!("no line ended"));
        }
        assert!(framer.held.capacity() < 4096, "{}", framer.held.capacity());
        let mut lines = 0;
        framer.push(b"\nnext\n", |line| {
            lines += 1;
            assert_eq!(line.truncated, lines == 1);
        });
        assert_eq!(lines, 2);
    }

    fn check_printable(text: &str, want: &str) {
        assert_eq!(printable(text), want, "{text:?}");
    }

    #[test]
    fn printables() {
        check_printable(
            "plain größe 日本 👩 ❤\u{fe0f}\n\tx",
            "plain größe 日本 👩 ❤\u{fe0f}\n\tx",
        );
        check_printable("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}");
        check_printable("a\r\nb\rc", "a\nb\\u{d}c");
        check_printable("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\u{0}");
        check_printable(
            "a\u{202e}b\u{2066}c\u{200b}d\u{ad}",
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{ad}",
        );
        check_printable(
            "\u{e0041}\u{e0100}\u{feff}\u{3164}",
            "\\u{e0041}\\u{e0100}\\u{feff}\\u{3164}",
        );
        assert_eq!(printable_bytes(b"a\xff\x1bb\xc3\xb6"), "a\\xff\\u{1b}bö");
        assert_eq!(printable_line("a\nb\tc\u{1b}"), "a\\nb\\tc\\u{1b}");
        assert_eq!(printable_bytes_line(b"a\n\xfe"), "a\\n\\xfe");
        assert_eq!(printable_path(Path::new("/a\nb\u{1b}")), "/a\\nb\\u{1b}");
    }

    #[test]
    fn colours_go_and_other_sequences_stay() {
        let check = |text: &str, want: &str| assert_eq!(without_colours(text), want, "{text:?}");
        check("plain", "plain");
        check(
            "\u{1b}[1;31mred\u{1b}[0m \u{1b}[m\u{1b}[38:5:1mx\u{1b}[K",
            "red x",
        );
        check("a\u{1b}[2Jb\u{1b}[31", "a\u{1b}[2Jb\u{1b}[31");
        check(
            "\u{1b}[\u{1b}[31m\u{1b}]0;title\u{7}",
            "\u{1b}[\u{1b}]0;title\u{7}",
        );
        check("\u{1b}[3\u{1b}[m1m", "\u{1b}[31m");
    }

    fn check_fit(text: &str, columns: usize, want: &str) {
        assert_eq!(fit(text, columns), want, "{text:?} in {columns}");
    }

    #[test]
    fn fits() {
        check_fit("hello", 5, "hello");
        check_fit("hello!", 5, "hell…");
        check_fit("日本語", 6, "日本語");
        check_fit("日本語", 5, "日本…");
        check_fit("日本語", 4, "日…");
        check_fit("日", 1, "…");
        check_fit("x", 0, "");
        check_fit("", 0, "");
    }

    proptest! {
        #[test]
        fn framing_does_not_depend_on_the_pieces(
            pieces in prop::collection::vec(prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0u8), any::<u8>()], 0..12), 0..12),
            limit in 0usize..9,
        ) {
            let cut: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = pieces.concat();
            let lines = frame(limit, &cut);
            prop_assert_eq!(&lines, &frame(limit, &[&whole]));
            // An independent statement of what the lines are.
            let mut want: Vec<(Vec<u8>, bool)> = Vec::new();
            let parts: Vec<&[u8]> = whole.split(|&b| b == b'\n').collect();
            for (i, part) in parts.iter().enumerate() {
                let last = i + 1 == parts.len();
                if last && part.is_empty() { continue; }
                // A CR past the first byte over the limit is part of what was dropped.
                let part = if last { part } else { part.strip_suffix(b"\r").unwrap_or(part) };
                want.push((part[..part.len().min(limit)].to_vec(), part.len() > limit));
            }
            prop_assert_eq!(lines, want);
        }

        #[test]
        fn printable_leaves_nothing_raw(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC*|.*") {
            for out in [printable_bytes(&bytes), printable(&text)] {
                prop_assert!(!out.chars().any(is_unsafe));
                prop_assert_eq!(printable(&out), out.clone());
                prop_assert!(!one_line(out).contains(['\n', '\t']));
            }
        }

        #[test]
        fn fit_is_never_too_wide(text in ".*", columns in 0usize..20) {
            let text = printable_line(&text);
            let cut = fit(&text, columns);
            prop_assert!(unicode_width::UnicodeWidthStr::width(&*cut) <= columns, "{:?}", cut);
            if columns >= text.chars().map(columns_of).sum() {
                prop_assert_eq!(&*cut, &*text);
            }
        }
    }
}
