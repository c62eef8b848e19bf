//! The TLS rule: the first message of the client names the place, before anything is dialled.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::gateway::budget::Budget;
use crate::gateway::hello_error::{HelloError, TIME};
use crate::gateway::retry::Retry;
use crate::{ClientHello, HostName};

/// A client hello that names what it should.
#[derive(Debug)]
pub(crate) struct Named {
    /// For the server.
    pub(crate) hello: Vec<u8>,
    /// What is looked at after it.
    pub(crate) retry: Retry,
}

/// Reads a client hello for exactly this name; `kept` was read before.
pub(crate) async fn read<S>(
    client: &mut S,
    kept: &[u8],
    name: &HostName,
    budget: &Budget,
) -> Result<Named, HelloError>
where
    S: AsyncRead + Unpin,
{
    tokio::time::timeout(TIME, whole(client, kept, name, budget))
        .await
        .map_err(|_| HelloError::Late)?
}

async fn whole<S>(
    client: &mut S,
    kept: &[u8],
    name: &HostName,
    budget: &Budget,
) -> Result<Named, HelloError>
where
    S: AsyncRead + Unpin,
{
    let mut hello = ClientHello::default();
    let mut share = budget.share();
    let mut found = if kept.is_empty() {
        None
    } else {
        let found = hello.push(kept)?;
        share.set(hello.held())?;
        found
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
        share.set(hello.held())?;
    };
    if found == *name {
        let (hello, after) = hello.into_parts();
        let retry = Retry::new(name.clone(), after, share);
        Ok(Named { hello, retry })
    } else {
        Err(HelloError::Other(found))
    }
}
