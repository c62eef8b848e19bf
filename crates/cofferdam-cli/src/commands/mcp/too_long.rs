//! A message that is too long is passed over. It is answered all the same, so that no client waits for ever: another one stands behind
//! it, with its id, and what that asks for is refused.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of a message with the end of its line.
pub(super) const MOST: usize = 16 << 20;
/// What the message behind it asks for.
pub(super) const METHOD: &str = "cofferdam/too-long";
/// Why that is refused.
pub(super) const WHY: &str =
    "a message has 16 MiB at most, and this one is longer: nothing was done. Send less at a time";
/// Bytes of an id that is answered to.
const LONGEST_ID: usize = 256;

/// What a client sends, with another message behind each one that is too long.
#[derive(Debug)]
pub(super) struct Answered<R> {
    from: R,
    line: Line,
    /// What was read and comes behind such a message.
    more: Vec<u8>,
}

impl<R> Answered<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            line: Line::default(),
            more: Vec::new(),
        }
    }

    /// Where in these bytes the first message ends that is too long; all of what comes then is kept.
    fn hear(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut end = None;
        for (at, &byte) in bytes.iter().enumerate() {
            if end.is_some() {
                self.more.push(byte);
            }
            if let Some(behind) = self.line.hear(byte) {
                self.more.extend(behind);
                end = end.or(Some(at + 1));
            }
        }
        end
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Answered<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.more.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.from).poll_read(context, buffer))?;
            if let Some(end) = this.hear(&buffer.filled()[before..]) {
                buffer.set_filled(before + end);
            }
        } else {
            let fits = this.more.len().min(buffer.remaining());
            buffer.put_slice(&this.more[..fits]);
            this.more.drain(..fits);
        }
        Poll::Ready(Ok(()))
    }
}

/// A message of which so much has come: as little is known of it as its id takes. Whatever is no JSON has none, or a wrong one.
#[derive(Debug, Default)]
struct Line {
    length: usize,
    /// Objects and lists that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The name or the value that is being read of the outermost object, as JSON has it.
    word: Vec<u8>,
    /// It is the value of `id`.
    is_id: bool,
    id: Vec<u8>,
}

impl Line {
    /// One byte more. At the end of one that is too long: the message behind it.
    fn hear(&mut self, byte: u8) -> Option<Vec<u8>> {
        self.length = self.length.saturating_add(1);
        if byte == b'\n' {
            let line = std::mem::take(self);
            return (line.length > MOST).then(|| line.behind());
        }
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return None;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_value(),
            b':' if self.depth == 1 => {
                self.is_id = self.word == b"\"id\"";
                self.word.clear();
            }
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
        None
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < LONGEST_ID {
            self.word.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 {
            let word = std::mem::take(&mut self.word);
            if std::mem::take(&mut self.is_id) {
                self.id = word;
            }
        }
    }

    /// Where it has no id that could be answered to, it is none, and the answer has none either.
    fn behind(&self) -> Vec<u8> {
        let id = serde_json::from_slice::<Value>(&self.id).ok();
        let id = id.filter(|id| id.is_string() || id.is_i64());
        let behind = id.map_or_else(
            || json!({}),
            |id| json!({"jsonrpc": "2.0", "id": id, "method": METHOD}),
        );
        format!("{behind}\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// What comes behind a message that is too long.
    fn behind(message: &str) -> String {
        let mut line = Line::default();
        for byte in message.bytes() {
            assert_eq!(line.hear(byte), None);
        }
        // As if it were.
        line.length = MOST;
        String::from_utf8(line.hear(b'\n').unwrap()).unwrap()
    }

    #[test]
    fn an_id_is_found_wherever_it_is() {
        let with = |id: Value| {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": METHOD});
            format!("{message}\n")
        };
        for (message, id) in [
            (r#"{"id":1,"params":{"id":2}}"#, json!(1)),
            (
                r#"{ "params" : {"id":2, "x": [{"id": 3}]}, "id" : -4 }"#,
                json!(-4),
            ),
            (
                r#"{"params":{"x":"\",\"id\":5,\\"},"id":"a\"b"}"#,
                json!("a\"b"),
            ),
            (r#"{"method":"id","id":"6"}"#, json!("6")),
        ] {
            assert_eq!(behind(message), with(id), "{message}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(LONGEST_ID));
        for message in [
            "",
            "no json",
            r#"{"id":null}"#,
            r#"{"id":{"id":1}}"#,
            r#"{"id":1.5}"#,
            r#"[{"id":1}]"#,
            r#"{"method":"x"}"#,
            "}}}]],,::",
            &long,
        ] {
            assert_eq!(behind(message), "{}\n", "{message}");
        }
    }

    #[tokio::test]
    async fn everything_else_comes_as_it_is() {
        let first = "{\"id\":1}\nno json\n\n";
        let fits = format!("{}\n", "x".repeat(MOST - 1));
        let long = format!("{{\"id\":7,\"x\":\"{}\"}}\n", "x".repeat(MOST));
        let last = "{\"id\":2}\nhalf";
        let sent = [first, &fits, &long, last].concat();
        let mut heard = String::new();
        let mut from = Answered::new(sent.as_bytes());
        from.read_to_string(&mut heard).await.unwrap();
        let behind = format!("{}\n", json!({"jsonrpc": "2.0", "id": 7, "method": METHOD}));
        let wanted = [first, &fits, &long, &behind, last].concat();
        assert!(heard == wanted, "{} bytes", heard.len());
    }
}
