//! Text from a sandbox on its way to a person or a log: bounded lines, no raw control bytes.

/// Replaces control characters (C0 but line feed and tab, DEL, C1), bidirectional controls and
/// other invisible format characters by visible escapes such as `\u{1b}`.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{061c}'
        | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}
