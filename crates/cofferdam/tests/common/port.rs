//! Speaking to a server inside, by whichever way a test came to it.

use cofferdam::sandbox::PortStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What it answers who says "this" and nothing more.
pub(crate) async fn answered(mut stream: PortStream) -> String {
    stream.input.write_all(b"this").await.unwrap();
    stream.input.shutdown().await.unwrap();
    let mut said = String::new();
    stream.output.read_to_string(&mut said).await.unwrap();
    said
}
