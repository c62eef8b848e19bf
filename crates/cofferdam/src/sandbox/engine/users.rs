//! Whose an engine is.

/// Whose an engine is, and so what the caller's ids are in its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// The machine's: a container has the ids that it is started with.
    Machine,
    /// The caller's own, which keeps their ids in a container.
    Kept,
    /// The caller's own, in whose containers they are root: the guest makes a user namespace in which they are not.
    Mapped,
}

impl Users {
    /// Whether it is the caller's own.
    pub(super) fn rootless(self) -> bool {
        self != Self::Machine
    }
}
