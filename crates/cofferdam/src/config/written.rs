//! Rules as a file has them.

use cofferdam_wall::defaults::{self, ListError};
use cofferdam_wall::{Origin, Protocol, Rule, Target};

use super::schema;

/// The text of a file that has just these rules. `None`: one of them says more than an entry can.
pub(super) fn text(rules: &[Rule]) -> Option<String> {
    let entries: String = rules.iter().map(entry).collect();
    let text = format!("firewall:\n  allow:\n{entries}");
    let read = schema::parse(&text, Origin::Global).ok()?.allow?;
    let same = read.len() == rules.len()
        && (read.iter().zip(rules)).all(|(one, rule)| one.rule.is_same(rule));
    same.then_some(text)
}

/// The built-in list with its comments, as a file has it.
pub(super) fn built_in() -> Result<String, ListError> {
    let mut text = "firewall:\n  allow:\n".to_owned();
    for line in defaults::TEXT.lines().map(str::trim) {
        if line.starts_with('#') {
            text.push_str(&format!("    {line}\n"));
        } else {
            let rules = defaults::parse(line, Origin::Defaults)?;
            text.extend(rules.iter().map(entry));
        }
    }
    Ok(text)
}

fn entry(rule: &Rule) -> String {
    let (field, target) = match rule.target() {
        Target::Range(range) => ("cidr", format!("\"{range}\"")),
        Target::Name(name) => ("domain", name.to_string()),
        // It begins with what YAML takes for an alias.
        below @ Target::Below(_) => ("domain", format!("\"{below}\"")),
    };
    let mut text = format!("    - {field}: {target}\n");
    let target = rule.target().clone();
    let usual = Rule::new(target, None, Protocol::Tcp, None, rule.origin());
    if let (Some(ports), false) = (rule.ports().listed(), usual.as_ref() == Ok(rule)) {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        text.push_str(&format!("      ports: [{}]\n", ports.join(", ")));
    }
    text
}
