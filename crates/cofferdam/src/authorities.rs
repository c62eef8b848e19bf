//! Whom this machine believes: its certificates, as its own programs read them. What is built or run elsewhere is to believe the
//! same, an authority of the user's network among them.

use std::path::PathBuf;

/// The bundle of each family of systems.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The machine's file of certificates, its real path; none where it has none.
pub fn bundle() -> Option<PathBuf> {
    BUNDLES
        .iter()
        .find_map(|path| PathBuf::from(path).canonicalize().ok())
}
