//! Agents that texts and examples name exist: an example that compiles may still fail at its first line.

use std::collections::BTreeSet;
use std::sync::Arc;

use cofferdam::agent::{self, AGENTS, AgentOptions, AgentProvider};

use crate::named_paths::{sources, texts};

/// What stands between this and the next quote.
const CALL: &str = "agent::by_name(\"";

#[test]
fn named_agents_exist() {
    let top = crate::top();
    let folders = ["docs", "docs/decisions"].map(|folder| texts(&top.join(folder)));
    let documents = folders.iter().flatten().filter(|path| path.is_file());
    let sources = sources(&top.join("crates"));
    let known: Vec<&str> = AGENTS.iter().map(|kind| kind.name).collect();
    let mut seen = 0;
    for file in documents.chain(&sources).chain([&top.join("README.md")]) {
        for rest in crate::read(file).split(CALL).skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            seen += 1;
            assert!(
                known.contains(&name),
                "{}: no agent is called {name}",
                file.display()
            );
        }
    }
    assert!(seen >= 3, "{seen}");
}

fn made(name: &str, model: Option<&str>) -> Arc<dyn AgentProvider> {
    let mut options = AgentOptions::default();
    options.model = model.map(str::to_owned);
    if name == "command" {
        options.arguments = vec!["true".into()];
    }
    agent::by_name(name, options).unwrap()
}

/// What stands between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_variables_of_each_agent_are_those_that_it_gets() {
    let page = crate::read(&crate::top().join("docs/orchestration.md"));
    let rows = |text: &str| -> Vec<(String, BTreeSet<String>)> {
        let (_, table) = text
            .split_once("| agent | takes from your environment |\n")
            .unwrap();
        let rows = table.lines().skip(1).map_while(|line| {
            let (first, second) = line.strip_prefix("| ")?.split_once(" | ")?;
            let is_variable =
                |name: &&str| name.bytes().all(|b| b == b'_' || b.is_ascii_uppercase());
            let names = spans(second).filter(is_variable).map(str::to_owned);
            Some((first.trim_matches('`').to_owned(), names.collect()))
        });
        rows.collect()
    };
    let given = |name: &str| {
        made(name, None)
            .environment()
            .iter()
            .map(|&one| one.to_owned())
            .collect()
    };
    let all = AGENTS
        .iter()
        .map(|kind| (kind.name.to_owned(), given(kind.name)));
    assert_eq!(rows(&page), all.collect::<Vec<_>>());
    for (name, variables) in rows(&crate::read(&crate::top().join("README.md"))) {
        if name != "the others" {
            assert_eq!(variables, given(&name), "{name}");
        }
    }
    for name in ["opencode", "pi"] {
        let agent = made(name, Some("anthropic/NAME"));
        let variables = agent.environment();
        assert!(
            variables.iter().all(|one| one.starts_with("ANTHROPIC_")),
            "{variables:?}"
        );
    }
}

/// At its terminal nobody reads what an agent prints: which conversation it was is known by its files alone.
#[test]
fn whose_conversations_at_a_terminal_are_not_kept_is_said() {
    let page = crate::read(&crate::top().join("docs/orchestration.md"));
    let (_, said) = page
        .split_once("its conversation is kept (but for those of ")
        .unwrap();
    let said: BTreeSet<&str> = spans(said.split_once(':').unwrap().0).collect();
    let is_kept = |name: &str| made(name, None).sessions().is_some();
    let names = AGENTS.iter().map(|kind| kind.name);
    assert_eq!(said, names.filter(|name| !is_kept(name)).collect());
}
