//! Repositories, agents and arguments as they should not be.
