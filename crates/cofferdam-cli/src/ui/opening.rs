//! What was refused, in one line, and the command that opens it.

use std::fmt::Write as _;

use cofferdam::names::Slug;
use cofferdam::text::printable_line;
use cofferdam::wall::{Origin, Refused, Rule, rules};

use super::steps::shell_word;
use super::table::fit;

/// So many things are named.
const NAMED: usize = 2;
/// Longer names are cut, and nothing so long is offered to be opened.
const LONGEST: usize = 60;

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
    let mut rules = refused.iter().filter_map(|one| one.opens.as_deref());
    if let Some(rule) = rules.find(|rule| may_be_offered(rule)) {
        let _ = write!(line, "; open with: {}", command(rule));
    }
    if let Some(name) = sandbox.filter(|_| refused.len() > 1) {
        let _ = write!(
            line,
            " (the whole list: cofferdam net log {name} --refused)"
        );
    }
    Some(line)
}

/// What was asked for is the sandbox's own choice: a command to copy is offered for what a glance can judge, and
/// never for this machine or the networks around it.
fn may_be_offered(rule: &str) -> bool {
    rule.len() <= LONGEST
        && Rule::parse(rule, Origin::Live).is_ok_and(|rule| rules::caution(&rule).is_none())
}

fn one(refused: &Refused) -> String {
    let what = fit(&printable_line(&refused.what), LONGEST);
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
            refused("[2606:4700::1]:53", Some("[2606:4700::1]:53"), 1),
            first,
        ];
        assert_eq!(
            line(&more, Some(&name)).unwrap(),
            "169.254.169.254:80 (9 times), evil\\u{1b}[2J.test and 2 more; open with: cofferdam allow \
             '[2606:4700::1]:53' (the whole list: cofferdam net log one --refused)"
        );
    }
    #[test]
    fn what_a_sandbox_asks_for_is_no_bait() {
        let offers = |rule: &str| {
            let line = line(&[refused("x", Some(rule), 1)], None).unwrap();
            line.contains("open with")
        };
        assert!(offers("files.test:443"));
        assert!(offers("1.1.1.1:443"));
        for rule in [
            "127.0.0.1:5432",
            "10.0.0.1:22",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "[::1]:80",
            "[fd00::1]:80",
            "host.cofferdam.internal:80 plain; x",
            "not a rule at all",
        ] {
            assert!(!offers(rule), "{rule}");
        }
        let long = format!("{}.test:443", "a.".repeat(30));
        assert!(!offers(&long));
        let shown = line(&[refused(&long, None, 1)], None).unwrap();
        assert!(shown.chars().count() <= LONGEST, "{shown}");
        // A later one that can be offered is.
        let two = [
            refused("a", Some("10.0.0.1:22"), 2),
            refused("b", Some("b.test:443"), 1),
        ];
        assert!(
            line(&two, None)
                .unwrap()
                .ends_with("open with: cofferdam allow b.test:443")
        );
    }
}
