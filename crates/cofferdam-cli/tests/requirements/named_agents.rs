//! Agents that texts and examples name exist: an example that compiles may still fail at its first line.

use cofferdam::agent::AGENTS;

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
