//! What sandboxes exist: one record each in the host-owned state directory.
