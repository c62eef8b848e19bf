//! An agent's task in a living sandbox.
