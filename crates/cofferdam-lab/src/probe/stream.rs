//! Connections: what is said in them and what comes back.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::task::Step;

const CONNECT: Duration = Duration::from_secs(6);
const HEAR: Duration = Duration::from_secs(6);
/// Silence after something was heard ends [`Step::HearAll`].
const PAUSE: Duration = Duration::from_millis(150);
const MOST: usize = 1 << 16;

pub(super) fn connect(to: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The first address of a place.
pub(super) fn address(to: &str) -> io::Result<SocketAddr> {
    let mut found = to.to_socket_addrs()?;
    found
        .next()
        .ok_or_else(|| io::Error::other("the name has no address"))
}

pub(super) fn walk(stream: &mut TcpStream, steps: &[Step], heard: &mut String) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Say(bytes) => stream.write_all(bytes)?,
            Step::Hear => {
                if hear(stream, HEAR, heard)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            Step::HearAll => {
                let mut patience = HEAR;
                while heard.len() < MOST {
                    match hear(stream, patience, heard) {
                        Ok(0) => break,
                        Ok(_) => patience = PAUSE,
                        Err(_) if !heard.is_empty() => break,
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
    Ok(())
}

fn hear(stream: &mut TcpStream, patience: Duration, heard: &mut String) -> io::Result<usize> {
    stream.set_read_timeout(Some(patience))?;
    let mut buffer = [0; 1 << 13];
    let length = stream.read(&mut buffer)?;
    let _ = write!(heard, "{}", String::from_utf8_lossy(&buffer[..length]));
    Ok(length)
}

pub(super) fn https(to: &str, name: &str) -> io::Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let stream = connect(to)?;
    stream.set_read_timeout(Some(HEAR))?;
    let mut stream = StreamOwned::new(session, stream);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // Servers that do not say goodbye are common.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The lab's certificates are signed by nobody.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
