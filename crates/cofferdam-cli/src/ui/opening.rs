//! What was refused, in one line, and the command that opens it.

use std::fmt::Write as _;

use cofferdam::names::Slug;
use cofferdam::text::printable_line;
use cofferdam::wall::Refused;

use super::steps::shell_word;
use super::table::fit;

/// So many things are named.
const NAMED: usize = 2;

/// The command that makes `rule`.
pub(crate) fn command(rule: &str) -> String {
    let words: Vec<String> = rule.split_ascii_whitespace().map(shell_word).collect();
    format!("cofferdam allow {}", words.join(" "))
}

/// `files.example.com:443 (3 times), 203.0.113.9:22 and 2 more; open with: …`; none where nothing was
/// refused.
pub(crate) fn line(refused: &[Refused], sandbox: Option<&Slug>) -> Option<String> {
    if refused.is_empty() {
        return None;
    }
    let named: Vec<String> = refused.iter().take(NAMED).map(one).collect();
    let mut line = named.join(", ");
    if refused.len() > NAMED {
        let _ = write!(line, " and {} more", refused.len() - NAMED);
    }
    if let Some(rule) = refused.iter().find_map(|one| one.opens.as_deref()) {
        let _ = write!(line, "; open with: {}", command(rule));
    }
    if let Some(name) = sandbox.filter(|_| refused.len() > 1) {
        let _ = write!(line, " (all of it: cofferdam net log {name} --refused)");
    }
    Some(line)
}

fn one(refused: &Refused) -> String {
    let what = fit(&printable_line(&refused.what), 100);
    match refused.count {
        0 | 1 => what,
        count => format!("{what} ({count} times)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(what: &str, opens: Option<&str>, count: u64) -> Refused {
        Refused {
            what: what.to_owned(),
            reason: String::new(),
            opens: opens.map(str::to_owned),
            count,
        }
    }

    #[test]
    fn one_line_with_the_next_step() {
        let name = Slug::from_text("one").unwrap();
        assert_eq!(line(&[], Some(&name)), None);
        let first = refused("files.test:443", Some("files.test:443"), 3);
        assert_eq!(
            line(std::slice::from_ref(&first), Some(&name)).unwrap(),
            "files.test:443 (3 times); open with: cofferdam allow files.test:443"
        );
        let more = [
            refused("169.254.169.254:80", None, 9),
            refused("evil\u{1b}[2J.test", None, 1),
            refused("[2001:db8::1]:53 udp", Some("[2001:db8::1]:53 udp"), 1),
            first,
        ];
        assert_eq!(
            line(&more, Some(&name)).unwrap(),
            "169.254.169.254:80 (9 times), evil\\u{1b}[2J.test and 2 more; open with: cofferdam allow \
             '[2001:db8::1]:53' udp (all of it: cofferdam net log one --refused)"
        );
    }
}
