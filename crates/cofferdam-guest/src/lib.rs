//! The protocol between host and guest.
