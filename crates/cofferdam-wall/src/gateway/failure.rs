//! What is allowed can fail too.

/// Why something that is allowed could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Nobody said no: the time was over.
    pub(crate) late: bool,
}

impl Failure {
    pub(crate) fn new(reason: String) -> Self {
        let late = false;
        Self { reason, late }
    }

    pub(crate) fn late(reason: String) -> Self {
        let late = true;
        Self { reason, late }
    }
}
