//! What was refused, and the commands that open it.

use std::fmt::Write as _;

use cofferdam::agent;
use cofferdam::names::Slug;
use cofferdam::text::printable_line;
use cofferdam::wall::{Origin, Refused, Rule, Target, rules};

use super::from_here::from_here;
use super::shell::shell_word;
use super::table::fit;

/// So many things are named.
const NAMED: usize = 2;
/// So many commands are offered.
const OFFERED: usize = 10;
/// Longer names are cut, and nothing so long is offered to be opened.
const LONGEST: usize = 60;

/// The command that makes `rule`.
pub(crate) fn command(rule: &str) -> String {
    let words: Vec<String> = rule.split_ascii_whitespace().map(shell_word).collect();
    from_here(&format!("cofferdam allow {}", words.join(" "))).into_owned()
}

/// The command that makes `rule`, where it is one to offer. What was asked for is the sandbox's own choice: a
/// command to copy is offered for what a glance can judge, and never for this machine or the networks around it.
/// Its own name is another matter: it says what it opens. Nor is it for what nothing needs.
pub(crate) fn offer(rule: &str) -> Option<String> {
    let parsed = Rule::parse(rule, Origin::Live).ok()?;
    if not_needed(rule).is_some() {
        return None;
    }
    let is_host = matches!(parsed.target(), Target::Name(name) if name.is_host());
    let may = rule.len() <= LONGEST && (is_host || rules::caution(&parsed).is_none());
    may.then(|| command(rule))
}

/// The agent that asks for this, which a rule would open, and works as well without it.
pub(crate) fn not_needed(rule: &str) -> Option<&'static str> {
    let parsed = Rule::parse(rule, Origin::Live).ok()?;
    agent::works_without(&parsed.target().to_string())
}

/// `files.example.com:443 (3 times), 203.0.113.9:22 and 2 more`, and then a line for each command that opens one
/// of them; none where nothing was refused.
pub(crate) fn lines(refused: &[Refused], sandbox: Option<&Slug>) -> Vec<String> {
    if refused.is_empty() {
        return Vec::new();
    }
    let named: Vec<String> = refused.iter().take(NAMED).map(one).collect();
    let mut line = named.join(", ");
    if refused.len() > NAMED {
        let _ = write!(line, " and {} more", refused.len() - NAMED);
    }
    if let Some(name) = sandbox.filter(|_| refused.len() > 1) {
        let _ = write!(
            line,
            " (the whole list: cofferdam net log {name} --refused)"
        );
    }
    let mut lines = vec![line];
    let mut offers: Vec<String> = Vec::new();
    for one in refused {
        let offer = one.opens.as_deref().and_then(offer);
        offers.extend(offer.filter(|offer| !offers.contains(offer)));
    }
    let more = offers.len().saturating_sub(OFFERED);
    lines.extend(
        offers
            .into_iter()
            .take(OFFERED)
            .map(|command| format!("open with: {command}")),
    );
    if more > 0 {
        lines.push(format!("({more} more commands are in the whole list)"));
    }
    lines
}

/// [`lines`] as text: the first with its label, the others below it.
pub(crate) fn text(refused: &[Refused], sandbox: Option<&Slug>, label: &str) -> String {
    let mut text = String::new();
    for (number, line) in lines(refused, sandbox).iter().enumerate() {
        let label = if number == 0 { label } else { " " };
        let _ = writeln!(text, "{label} {line}");
    }
    text
}

fn one(refused: &Refused) -> String {
    let mut what = fit(&printable_line(&refused.what), LONGEST);
    if let Some(agent) = refused.opens.as_deref().and_then(not_needed) {
        let _ = write!(what, ", which {agent} does not need");
    }
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
    fn what_was_refused_with_a_command_for_each() {
        let name = Slug::from_text("one").unwrap();
        assert!(lines(&[], Some(&name)).is_empty());
        assert_eq!(text(&[], Some(&name), "refused:"), "");
        let first = refused("files.test:443", Some("files.test:443"), 3);
        assert_eq!(
            text(std::slice::from_ref(&first), Some(&name), "refused:"),
            "refused: files.test:443 (3 times)\n  open with: cofferdam allow files.test:443\n"
        );
        let more = [
            refused("169.254.169.254:80", None, 9),
            refused("evil\u{1b}[2J.test", None, 1),
            refused("[2606:4700::1]:53", Some("[2606:4700::1]:53"), 1),
            first.clone(),
            refused(
                "host.cofferdam.internal:8080",
                Some("host.cofferdam.internal:8080"),
                1,
            ),
            first,
        ];
        assert_eq!(
            lines(&more, Some(&name)),
            [
                "169.254.169.254:80 (9 times), evil\\u{1b}[2J.test and 4 more (the whole list: cofferdam net \
                 log one --refused)",
                "open with: cofferdam allow '[2606:4700::1]:53'",
                "open with: cofferdam allow files.test:443",
                "open with: cofferdam allow host.cofferdam.internal:8080",
            ]
        );
        let many: Vec<Refused> = (0..OFFERED + 3)
            .map(|n| refused("x", Some(&format!("n{n}.test")), 1))
            .collect();
        let many = lines(&many, None);
        assert_eq!(many.len(), 1 + OFFERED + 1);
        assert_eq!(
            many.last().unwrap(),
            "(3 more commands are in the whole list)"
        );
    }

    #[test]
    fn what_no_agent_needs_is_not_offered() {
        for (what, agent) in [
            ("ab.chatgpt.com", "codex"),
            ("ab.chatgpt.com:443", "codex"),
            ("http-intake.logs.us5.datadoghq.com:443", "claude-code"),
        ] {
            assert_eq!(offer(what), None, "{what}");
            assert_eq!(
                text(&[refused(what, Some(what), 2)], None, "refused:"),
                format!("refused: {what}, which {agent} does not need (2 times)\n")
            );
        }
        for what in ["chatgpt.com:443", "x.ab.chatgpt.com:443", "datadoghq.com"] {
            assert!(offer(what).is_some(), "{what}");
        }
    }

    #[test]
    fn what_a_sandbox_asks_for_is_no_bait() {
        for rule in [
            "files.test:443",
            "1.1.1.1:443",
            "host.cofferdam.internal:8080",
        ] {
            assert_eq!(offer(rule), Some(format!("cofferdam allow {rule}")));
        }
        for rule in [
            "127.0.0.1:5432",
            "10.0.0.1:22",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "[::1]:80",
            "[fd00::1]:80",
            "localhost:80",
            "host.cofferdam.internal",
            "host.cofferdam.internal:80 plain; x",
            "not a rule at all",
        ] {
            assert_eq!(offer(rule), None, "{rule}");
        }
        let long = format!("{}.test:443", "a.".repeat(30));
        assert_eq!(offer(&long), None);
        let shown = lines(&[refused(&long, None, 1)], None);
        assert!(shown[0].chars().count() <= LONGEST, "{shown:?}");
    }
}
