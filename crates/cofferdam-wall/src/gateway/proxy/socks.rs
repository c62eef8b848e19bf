//! SOCKS5 (RFC 1928): CONNECT without a login, to a name or an address.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::gateway::http::authority::host_of;
use crate::gateway::wanted::Wanted;

/// The first byte of every message.
pub(super) const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    Command = 7,
    AddressType = 8,
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocksError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Was answered.
    #[error("a SOCKS5 request {0}")]
    Answered(&'static str),
}

/// Reads exactly the handshake, no byte of what follows, and answers it up to the reply. Bound the time outside.
pub(super) async fn request<S>(client: &mut S) -> Result<(Wanted, u16), SocksError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let [version, methods] = bytes(client).await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await?;
    if version != VERSION || !offered.contains(&NO_LOGIN) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(SocksError::Answered("that wants a login"));
    }
    client.write_all(&[VERSION, NO_LOGIN]).await?;

    let [version, command, _, kind] = bytes(client).await?;
    if version != VERSION {
        return Err(SocksError::Answered("of another version"));
    }
    let wanted = match kind {
        1 => Some(Wanted::Address(
            Ipv4Addr::from(bytes::<4, _>(client).await?).into(),
        )),
        3 => {
            let [length] = bytes(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            wanted(&name)
        }
        4 => Some(Wanted::Address(
            Ipv6Addr::from(bytes::<16, _>(client).await?).into(),
        )),
        _ => {
            let why = "for an address of an unknown kind";
            return turn_down(client, Reply::AddressType, why).await;
        }
    };
    let port = u16::from_be_bytes(bytes(client).await?);
    if command != CONNECT {
        return turn_down(client, Reply::Command, "for something else than CONNECT").await;
    }
    match wanted {
        Some(wanted) if port != 0 => Ok((wanted, port)),
        Some(_) => turn_down(client, Reply::NotAllowed, "for port 0").await,
        None => turn_down(client, Reply::NotAllowed, "for what is no host name").await,
    }
}

/// Some programs put an address where the name belongs.
fn wanted(name: &[u8]) -> Option<Wanted> {
    let text = std::str::from_utf8(name).ok()?;
    match text.parse::<Ipv6Addr>() {
        Ok(address) => Some(Wanted::Address(address.into())),
        Err(_) => host_of(text).ok(),
    }
}

/// Sends the reply, with no address: the one that was dialled is nobody's business in the sandbox.
pub(super) async fn reply<S: AsyncWrite + Unpin>(client: &mut S, reply: Reply) -> io::Result<()> {
    let message = [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0];
    client.write_all(&message).await
}

async fn turn_down<S: AsyncWrite + Unpin, T>(
    client: &mut S,
    with: Reply,
    why: &'static str,
) -> Result<T, SocksError> {
    reply(client, with).await?;
    Err(SocksError::Answered(why))
}

async fn bytes<const N: usize, S: AsyncRead + Unpin>(client: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a request that is taken, exactly its own bytes were read: what follows belongs to the connection.
    #[test]
    fn fuzz_socks() {
        let request = |kind: u8, to: &[u8]| [&[5, 2, 1, 0, 5, 1, 0, kind], to, &[1, 0xbb]].concat();
        let name = [&[12][..], b"allowed.test"].concat();
        let seeds = [
            request(3, &name),
            request(1, &[203, 0, 113, 9]),
            [request(4, &[1; 16]), b"more".to_vec()].concat(),
            request(3, &[&[11][..], b"2001:db8::1"].concat()),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        // The request, and what was not read of it.
        let read = |said: &[u8]| {
            let mut client = tokio::io::join(said, Vec::new());
            let asked = runtime.block_on(super::request(&mut client));
            (asked.ok(), client.reader().len(), client.into_inner().1)
        };
        for seed in &seeds[..2] {
            assert!(matches!(read(seed), (Some((_, 443)), 0, answer) if answer == [5, 0]));
        }
        assert_eq!(read(&seeds[2]).1, 4);
        cofferdam_lab::fuzz::mutate("socks", &seeds, |said| {
            let (asked, left, answer) = read(said);
            // The choice of a method, and a refusal at most.
            assert!(answer.len() <= 12, "{answer:?}");
            if let Some((wanted, port)) = asked {
                assert!(port != 0 && answer == [VERSION, NO_LOGIN]);
                let own = &said[..said.len() - left];
                assert_eq!(read(own), (Some((wanted, port)), 0, answer));
                assert!(read(&own[..own.len() - 1]).0.is_none());
            }
        });
    }
}
