//! The embedded sandbox: Linux namespaces, no daemon, no image. The default.
