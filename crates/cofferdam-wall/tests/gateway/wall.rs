//! In the sandbox's place.
