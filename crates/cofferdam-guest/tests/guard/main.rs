//! The guest's executable under the name `git`, in front of the real one, in real repositories.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start programs, write files, and stop at the first surprise"
)]

mod abbreviations;
mod allowed;
mod noted;
mod refused;
mod scene;
mod transparent;
