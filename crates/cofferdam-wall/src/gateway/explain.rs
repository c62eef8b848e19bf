//! A decision, taken as for a connection and told instead of carried out.

use std::net::IpAddr;

use crate::control::{Explanation, RuleLine};
use crate::gateway::dial::{addresses, check, told};
use crate::gateway::resolve::{Family, Resolver};
use crate::gateway::sandbox_door::decide;
use crate::gateway::wanted::Wanted;
use crate::{HostName, Kind, NameError, Policy, Refusal};

/// What `policy` says about a connection to `host` (a name or an address) and `port`.
pub(super) async fn explain(
    policy: &Policy,
    resolver: &Resolver,
    host: &str,
    port: u16,
) -> Result<Explanation, NameError> {
    let wanted = match host.parse::<IpAddr>() {
        Ok(address) => Wanted::Address(address),
        Err(_) => Wanted::Name(host.parse()?),
    };
    let allowed = match decide(policy, &wanted, port) {
        Ok(allowed) => allowed,
        Err(refusal) => return Ok(refused(refusal)),
    };
    let mut explanation = Explanation {
        allowed: true,
        rule: Some(RuleLine {
            text: allowed.rule.to_string(),
            origin: allowed.rule.origin(),
        }),
        kind: Some(
            match allowed.kind {
                Kind::Http => "http",
                Kind::Tls => "tls",
                Kind::Plain => "plain",
            }
            .to_owned(),
        ),
        ..nothing()
    };
    if let Wanted::Name(name) = &wanted {
        look_up(&mut explanation, policy, resolver, name, port).await;
    }
    Ok(explanation)
}

async fn look_up(
    explanation: &mut Explanation,
    policy: &Policy,
    resolver: &Resolver,
    name: &HostName,
    port: u16,
) {
    let mut first = None;
    for family in [Family::V4, Family::V6] {
        match addresses(resolver, name, family).await {
            Ok(found) => {
                for address in found {
                    let verdict = check(policy, name, address, port).err().map(told);
                    let reason = verdict.as_ref().map(ToString::to_string);
                    explanation.addresses.push((address, reason));
                    if let Some(refusal) = verdict {
                        first.get_or_insert(refusal);
                    }
                }
            }
            Err(failure) => {
                explanation.unresolved.get_or_insert(failure.reason);
            }
        }
    }
    let open = explanation
        .addresses
        .iter()
        .any(|(_, reason)| reason.is_none());
    if !explanation.addresses.is_empty() {
        explanation.unresolved = None;
    } else if explanation.unresolved.is_none() {
        explanation.unresolved = Some(format!("{name} has no address"));
    }
    if let Some(refusal) = first.filter(|_| !open) {
        explanation.allowed = false;
        explanation.reason = Some(refusal.to_string());
        explanation.opens = refusal.opening_rule();
    }
}

fn refused(refusal: Refusal) -> Explanation {
    let refusal = told(refusal);
    Explanation {
        reason: Some(refusal.to_string()),
        opens: refusal.opening_rule(),
        ..nothing()
    }
}

fn nothing() -> Explanation {
    Explanation {
        allowed: false,
        rule: None,
        kind: None,
        reason: None,
        opens: None,
        addresses: Vec::new(),
        unresolved: None,
    }
}
