//! The first bytes of a TLS connection, with any server name or none.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A client hello as a real client sends it. The server name may be any text of at most 60 bytes.
pub fn client_hello(name: Option<&str>) -> io::Result<Vec<u8>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    // A name as long as the wanted one, which then takes its place: the library sends no bad names.
    let stand_in = "q".repeat(name.map_or(1, str::len));
    let server = ServerName::try_from(stand_in.clone()).map_err(io::Error::other)?;
    let mut session = ClientConnection::new(Arc::new(config), server).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes)?;
    if let Some(name) = name {
        let stand_in = stand_in.as_bytes();
        let at = bytes
            .windows(stand_in.len())
            .position(|window| window == stand_in)
            .ok_or_else(|| io::Error::other("no server name in the hello"))?;
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    Ok(bytes)
}
