//! Network policy. Knows nothing of git, agents or engines.
