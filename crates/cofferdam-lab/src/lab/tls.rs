//! A server's side of TLS that has a certificate for every name.

use std::io;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Makes a certificate for each connection. Nobody here checks who signed it.
#[derive(Debug)]
struct AnyName;

impl ResolvesServerCert for AnyName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or("no-name.test").to_owned();
        let key = KeyPair::generate().ok()?;
        let certificate = CertificateParams::new([name])
            .ok()?
            .self_signed(&key)
            .ok()?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = ring::sign::any_supported_type(&key).ok()?;
        Some(Arc::new(CertifiedKey::new(
            vec![certificate.der().clone()],
            key,
        )))
    }
}

pub(crate) fn server() -> io::Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AnyName));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
