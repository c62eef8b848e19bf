//! `firewall.allow`: the entries of the file become rules.

use cofferdam_wall::{Origin, Ports, Protocol, Rule, Target};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::content::{ContentError, LocatedRule, MAX_RULES, Misplaced};
#[cfg(test)]
use super::described;
use super::fields::{line, present, value, wrong};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Firewall {
    /// What `cofferdam net rules` lists.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(with = "Vec<Entry>", extend("maxItems" = MAX_RULES)))]
    allow: Option<Spanned<Option<Vec<Spanned<Entry>>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Allow"))]
#[cfg_attr(test, schemars(extend("oneOf" = [{"required": ["domain"]}, {"required": ["cidr"]}])))]
#[serde(deny_unknown_fields, default)]
struct Entry {
    /// A host, or all below one: `*.example.com`.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::host"))]
    domain: Option<Spanned<String>>,
    /// An address or a range of addresses.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::host"))]
    cidr: Option<Spanned<String>>,
    /// 80 and 443 of a domain, all of a range unless given.
    #[serde(deserialize_with = "present")]
    #[cfg_attr(test, schemars(schema_with = "described::ports"))]
    ports: Option<Spanned<Option<Vec<Spanned<i64>>>>>,
}

/// The rules of `firewall.allow`; none where the file does not have it.
pub(super) fn allow(
    firewall: &Firewall,
    origin: Origin,
) -> Result<Option<Vec<LocatedRule>>, Misplaced> {
    let Some(allow) = &firewall.allow else {
        return Ok(None);
    };
    let entries = value(allow, "firewall.allow", "allow: []")?;
    if entries.len() > MAX_RULES {
        return Err(wrong(allow, "firewall.allow", ContentError::TooMany));
    }
    let rules = entries.iter().enumerate();
    let rules: Result<_, _> = rules
        .map(|(index, entry)| located(index, entry, origin))
        .collect();
    rules.map(Some)
}

fn located(index: usize, entry: &Spanned<Entry>, origin: Origin) -> Result<LocatedRule, Misplaced> {
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
    let rule = Rule::new(target, ports, Protocol::Tcp, None, origin);
    Ok(LocatedRule {
        rule: rule.map_err(|error| wrong(text, field(name), error.into()))?,
        line: line(text),
    })
}

fn listed(found: &Spanned<Option<Vec<Spanned<i64>>>>, index: usize) -> Result<Ports, Misplaced> {
    let field = format!("firewall.allow[{index}].ports");
    let numbers = value(found, &field, "ports: [443]")?;
    for (at, number) in numbers.iter().enumerate() {
        Ports::list([number.value])
            .map_err(|error| wrong(number, format!("{field}[{at}]"), error.into()))?;
    }
    Ports::list(numbers.iter().map(|number| number.value))
        .map_err(|error| wrong(found, field, error.into()))
}
