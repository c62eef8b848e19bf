//! `firewall.allow`: the entries of the file become rules.

use cofferdam_wall::{Origin, Ports, Protocol, Rule, Target};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::content::{Config, ContentError, LocatedRule, MAX_RULES, Misplaced};
use super::yaml;

/// Each field is there or not; one without a value is not the same as none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    #[serde(deserialize_with = "present")]
    firewall: Option<Spanned<Option<Firewall>>>,
    #[serde(deserialize_with = "present")]
    sync: Option<Spanned<IgnoredAny>>,
    #[serde(deserialize_with = "present")]
    env: Option<Spanned<IgnoredAny>>,
    #[serde(deserialize_with = "present")]
    on_sync: Option<Spanned<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Firewall {
    #[serde(deserialize_with = "present")]
    allow: Option<Spanned<Option<Vec<Spanned<Entry>>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    #[serde(deserialize_with = "present")]
    domain: Option<Spanned<String>>,
    #[serde(deserialize_with = "present")]
    cidr: Option<Spanned<String>>,
    #[serde(deserialize_with = "present")]
    ports: Option<Spanned<Option<Vec<Spanned<i64>>>>>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// What the text of a config file says. An empty one says nothing.
pub(super) fn parse(text: &str) -> Result<Config, Misplaced> {
    let file: File = yaml::read::<Option<File>>(text)?.unwrap_or_default();
    for (name, found) in [
        ("sync", &file.sync),
        ("env", &file.env),
        ("on_sync", &file.on_sync),
    ] {
        if let Some(found) = found {
            return Err(wrong(found, name, ContentError::NotYet(name)));
        }
    }
    let Some(firewall) = file.firewall else {
        return Ok(Config::default());
    };
    let empty = |example| ContentError::NoValue(example);
    let allow = match &firewall.value {
        None => return Err(wrong(&firewall, "firewall", empty("firewall: {}"))),
        Some(Firewall { allow: None }) => return Ok(Config::default()),
        Some(Firewall { allow: Some(allow) }) => allow,
    };
    let Some(entries) = &allow.value else {
        return Err(wrong(allow, "firewall.allow", empty("allow: []")));
    };
    if entries.len() > MAX_RULES {
        return Err(wrong(allow, "firewall.allow", ContentError::TooMany));
    }
    let rules = entries.iter().enumerate();
    let rules: Result<_, _> = rules.map(|(index, entry)| located(index, entry)).collect();
    Ok(Config {
        allow: Some(rules?),
    })
}

/// The text of a file that has just these rules. `None`: one of them says more than an entry can.
pub(super) fn text(rules: &[Rule]) -> Option<String> {
    let mut text = "firewall:\n  allow:\n".to_owned();
    for rule in rules {
        let (field, target) = match rule.target() {
            Target::Range(range) => ("cidr", format!("\"{range}\"")),
            Target::Name(name) => ("domain", name.to_string()),
            // It begins with what YAML takes for an alias.
            below @ Target::Below(_) => ("domain", format!("\"{below}\"")),
        };
        text.push_str(&format!("    - {field}: {target}\n"));
        let target = rule.target().clone();
        let usual = Rule::new(target, None, Protocol::Tcp, None, rule.origin());
        if let (Some(ports), false) = (rule.ports().listed(), usual.as_ref() == Ok(rule)) {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            text.push_str(&format!("      ports: [{}]\n", ports.join(", ")));
        }
    }
    let read = parse(&text).ok()?.allow?;
    let same = read.len() == rules.len()
        && (read.iter().zip(rules)).all(|(one, rule)| one.rule.is_same(rule));
    same.then_some(text)
}

fn located(index: usize, entry: &Spanned<Entry>) -> Result<LocatedRule, Misplaced> {
    let field = |name: &str| format!("firewall.allow[{index}]{name}");
    let Entry {
        domain,
        cidr,
        ports,
    } = &entry.value;
    let (name, text, target) = match (domain, cidr) {
        (Some(domain), None) => (".domain", domain, Target::domain(&domain.value)),
        (None, Some(cidr)) => {
            let range = cidr.value.parse().map(Target::Range);
            (".cidr", cidr, range.map_err(Into::into))
        }
        (Some(_), Some(cidr)) => return Err(wrong(cidr, field(""), ContentError::Both)),
        (None, None) => return Err(wrong(entry, field(""), ContentError::Neither)),
    };
    let target = target.map_err(|error| wrong(text, field(name), error.into()))?;
    let ports = match ports {
        None => None,
        Some(found) => Some(listed(found, index)?),
    };
    let rule = Rule::new(target, ports, Protocol::Tcp, None, Origin::Global);
    Ok(LocatedRule {
        rule: rule.map_err(|error| wrong(text, field(name), error.into()))?,
        line: yaml::position(text.referenced).line,
    })
}

fn listed(found: &Spanned<Option<Vec<Spanned<i64>>>>, index: usize) -> Result<Ports, Misplaced> {
    let field = format!("firewall.allow[{index}].ports");
    let Some(numbers) = &found.value else {
        return Err(wrong(found, field, ContentError::NoValue("ports: [443]")));
    };
    for (at, number) in numbers.iter().enumerate() {
        Ports::list([number.value])
            .map_err(|error| wrong(number, format!("{field}[{at}]"), error.into()))?;
    }
    Ports::list(numbers.iter().map(|number| number.value))
        .map_err(|error| wrong(found, field, error.into()))
}

fn wrong<T>(found: &Spanned<T>, field: impl Into<String>, problem: ContentError) -> Misplaced {
    Misplaced {
        at: yaml::position(found.referenced),
        field: field.into(),
        problem,
    }
}
