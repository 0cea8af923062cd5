//! A TCP proxy: each connection to it is joined with one to the address.

use compio::buf::{BufResult, IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};

const BUFFER_BYTES: usize = 16 << 10;

async fn forward(mut from: impl AsyncRead, mut to: impl AsyncWrite) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let BufResult(count, read) = from.read(buffer).await;
        let Ok(count @ 1..) = count else { break };
        let BufResult(written, sent) = to.write_all(read.slice(..count)).await;
        if written.is_err() {
            return;
        }
        buffer = sent.into_inner();
        buffer.clear();
    }
    let _ = to.shutdown().await;
}

async fn join(client: TcpStream, target: String) {
    let _ = client.set_nodelay(true);
    match TcpStream::connect(&target).await {
        Ok(server) => {
            let _ = server.set_nodelay(true);
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            compio::runtime::spawn(forward(from_client, to_server)).detach();
            forward(from_server, to_client).await;
        }
        Err(error) => eprintln!("{target} cannot be reached: {error}"),
    }
}

#[compio::main]
pub async fn main() -> programs::Result {
    let target = programs::args().next().ok_or("usage: proxy TARGET")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        compio::runtime::spawn(join(client, target.clone())).detach();
    }
}
