//! What the product must do (`docs/requirements.toml`) against the tests that claim it
//! (`// covers: S2-17` above a test), and the repository's own texts against its files.
//!
//! `COFFERDAM_UPDATE=1 cargo test -p cofferdam-cli --test requirements` rewrites
//! `docs/requirements-map.md`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests, and only tests, are below"
)]

mod attacks;
mod map;
mod mutants;
mod named_agents;
mod named_paths;
mod register;
mod silence;
mod tags;

use std::path::{Path, PathBuf};

/// The repository's top directory.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
