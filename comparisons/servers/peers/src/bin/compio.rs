//! Echo by compio: a task for each connection, on its io_uring driver.

use compio::buf::{IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};

async fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(peers::BUFFER_BYTES);
    loop {
        let done = stream.read(buffer).await;
        let Ok(len @ 1..) = done.0 else { return };
        let done = stream.write_all(done.1.slice(..len)).await;
        if done.0.is_err() {
            return;
        }
        buffer = done.1.into_inner();
        buffer.clear();
    }
}

#[compio::main]
async fn main() {
    let listener = TcpListener::from_std(peers::listen()).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        compio::runtime::spawn(serve(stream)).detach();
    }
}
