//! What the user's configuration brings into a sandbox: which files ([`items`]), whether anything changed ([`manifest`]), and how they
//! get there ([`deliver`]). Knows no session.

pub mod deliver;
mod items;
pub mod manifest;
mod pattern;
mod shell;
mod theme;
mod tree;

pub use items::{Complaint, Item, Places, Wanted, gather, ids, variables};
pub use theme::{Theme, theme};
