//! The one thing that a proving sandbox reaches: a service of the gateway's own, on this machine's loopback. It is
//! looked up, decided about, dialled and copied as everything else is later; so what gets its answer inside went the
//! whole way.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdTcpListener};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::control::{ANSWER, RuleLine};
use crate::gateway::sandbox::{Sandbox, compile};
use crate::{HostName, Origin, Policy};

/// The service, and the policy that opens it and nothing else.
#[derive(Debug)]
pub(super) struct Proof {
    listener: StdTcpListener,
    answer: [u8; ANSWER],
    pub(super) port: u16,
    pub(super) policy: Policy,
}

impl Proof {
    pub(super) fn new(answer: [u8; ANSWER]) -> io::Result<Self> {
        let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let rule = RuleLine {
            text: format!("{}:{port} plain", HostName::HOST),
            origin: Origin::Flag,
        };
        Ok(Self {
            listener,
            answer,
            port,
            policy: compile(&[rule]).map_err(io::Error::other)?,
        })
    }

    /// Answers until the proof is over. Others on this machine may ask too: it is no secret.
    pub(super) async fn serve(self, sandbox: Arc<Sandbox>) {
        let Ok(listener) = TcpListener::from_std(self.listener) else {
            return;
        };
        loop {
            let accepted = tokio::select! {
                () = sandbox.proven.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            if let Ok((mut stream, _)) = accepted {
                // So few bytes fit into any buffer. Who has gone needs none.
                _ = stream.write_all(&self.answer).await;
            }
        }
    }
}
