//! Which engines can have sandboxes here.

use cofferdam::sandbox::SandboxError;
use cofferdam::sandbox::engine::{self, Found, Kind};

use super::finding::{Finding, Standing};
use crate::environment::Environment;

/// Each of them, in the order of their names. One that is not there lacks to nobody who does not ask for it.
pub(super) async fn find(environment: &Environment) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in Kind::ALL {
        let found = engine::probe(kind, &environment.engines()).await;
        findings.push(match found {
            Ok(found) => told(kind, &found),
            Err(
                SandboxError::Unsupported { what, hint } | SandboxError::NoEngine { what, hint },
            ) => Finding::new(kind.name(), Standing::Absent, what, hint),
            Err(error) => Finding::new(kind.name(), Standing::Absent, error.to_string(), ""),
        });
    }
    findings
}

fn told(kind: Kind, found: &Found) -> Finding {
    let Found {
        version,
        api: (major, minor),
        socket,
        ..
    } = found;
    let by = found
        .named_by
        .as_ref()
        .map_or_else(String::new, |by| format!(", named by {by}"));
    let whose = if found.rootless { ", rootless" } else { "" };
    let mut detail = format!(
        "{version} at {}{by}, API {major}.{minor}{whose}",
        socket.display()
    );
    match &found.no_layers {
        None => detail.push_str("; layers work"),
        Some(why) => detail.push_str(&format!("; no layers: {why}")),
    }
    for note in &found.notes {
        detail.push_str(&format!("; {note}"));
    }
    if found.lacks.is_empty() {
        return Finding::new(kind.name(), Standing::Ok, detail, "");
    }
    let lacks: Vec<&str> = found.lacks.iter().map(|lack| lack.what.as_str()).collect();
    detail.push_str(&format!("; without {}", lacks.join(", without ")));
    let hints: Vec<&str> = found.lacks.iter().map(|lack| lack.hint.as_str()).collect();
    Finding::new(kind.name(), Standing::Degraded, detail, hints.join("\n"))
}
