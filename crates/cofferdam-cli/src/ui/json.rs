//! JSON for scripts: one value on one line, safe to show on a terminal.

use std::fmt::Write;

use serde::Serialize;

/// The form of the lines of `run --json`. It counts up when a field goes or means something else; new
/// events and new fields leave it as it is. `docs/run-events.schema.json` is the schema.
pub(crate) const VERSION: u32 = 1;

#[derive(Serialize)]
struct Envelope<'a, T> {
    version: u32,
    #[serde(flatten)]
    event: &'a T,
}

/// One event of a run as a line, with the version of its form.
pub(crate) fn event(event: &impl Serialize) -> std::io::Result<String> {
    line(&Envelope {
        version: VERSION,
        event,
    })
}

/// `value` as one line of JSON. `serde_json` escapes C0 controls; C1 controls, bidirectional and
/// invisible characters, which can only stand inside of strings, are escaped here as well.
pub(crate) fn line(value: &impl Serialize) -> std::io::Result<String> {
    let text = serde_json::to_string(value)?;
    let mut out = String::with_capacity(text.len() + 1);
    let mut buffer = [0u8; 4];
    for c in text.chars() {
        let shown: &str = c.encode_utf8(&mut buffer);
        // What is printable is printed as it is; only then are both equal.
        if (c.is_ascii() && c != '\u{7f}') || cofferdam::text::printable(shown) == shown {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0u16; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push('\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_survives_and_is_inert() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{e0041}é\n";
        let line = line(&text).unwrap();
        assert_eq!(
            line,
            "\"a\\u001b[2J\\u007f\\u009b31m\\u202e\\udb40\\udc41é\\n\"\n"
        );
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}
