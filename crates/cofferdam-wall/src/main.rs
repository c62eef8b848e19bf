//! Stands in for the gateway: answers every question, carries nothing.

use std::io;
use std::os::fd::AsFd;

use cofferdam_wall::control::{self, Answer, Ask, HEAD, Seen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

fn main() -> io::Result<()> {
    let listener =
        std::os::unix::net::UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = UnixListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream));
        }
    })
}

async fn serve(mut stream: UnixStream) -> io::Result<()> {
    loop {
        let mut head = [0u8; HEAD];
        stream.read_exact(&mut head).await?;
        let mut body = vec![0; control::body_length(head).map_err(io::Error::other)?];
        stream.read_exact(&mut body).await?;
        let answer = match control::decode(&body).map_err(io::Error::other)? {
            Ask::Register(_) => Answer::Done,
            Ask::Open => Answer::Seen(Seen::default()),
            Ask::Refused { .. } => Answer::Refused(Vec::new()),
            _ => Answer::Status(Vec::new()),
        };
        let frame = control::encode(&answer).map_err(io::Error::other)?;
        stream.write_all(&frame).await?;
    }
}
