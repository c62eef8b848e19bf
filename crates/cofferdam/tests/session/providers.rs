//! Providers written outside of the library.
