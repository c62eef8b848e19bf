//! The TLS rule: the first message of the client names the place, before anything is dialled.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{ClientHello, HostName, SniError};

/// For the client hello to be complete.
const TIME: Duration = Duration::from_secs(10);

/// Why the connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    #[error(transparent)]
    Sni(#[from] SniError),
    #[error("its TLS client hello names {0} instead")]
    Other(HostName),
    #[error("its rule compares a name, and this is an address")]
    NoName,
    #[error("no TLS client hello came within {} s", TIME.as_secs())]
    Late,
    /// The client went away: nothing was refused.
    #[error("the connection ended before its TLS client hello: {0}")]
    Ended(#[from] io::Error),
}

/// Reads a client hello for exactly this name. Gives every byte read, for the server; `kept` was read before.
pub(crate) async fn read<S>(
    client: &mut S,
    kept: &[u8],
    name: &HostName,
) -> Result<Vec<u8>, HelloError>
where
    S: AsyncRead + Unpin,
{
    tokio::time::timeout(TIME, whole(client, kept, name))
        .await
        .map_err(|_| HelloError::Late)?
}

async fn whole<S>(client: &mut S, kept: &[u8], name: &HostName) -> Result<Vec<u8>, HelloError>
where
    S: AsyncRead + Unpin,
{
    let mut hello = ClientHello::default();
    let mut found = if kept.is_empty() {
        None
    } else {
        hello.push(kept)?
    };
    let mut piece = [0; 4096];
    let found = loop {
        if let Some(found) = found {
            break found;
        }
        let count = client.read(&mut piece).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        found = hello.push(&piece[..count])?;
    };
    if found == *name {
        Ok(hello.into_bytes())
    } else {
        Err(HelloError::Other(found))
    }
}
