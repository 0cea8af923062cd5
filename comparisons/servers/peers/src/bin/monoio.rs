//! Echo by monoio: a task for each connection, on its io_uring driver.

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

async fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(peers::BUFFER_BYTES);
    loop {
        let (received, bytes) = stream.read(buffer).await;
        if !matches!(received, Ok(1..)) {
            return;
        }
        let (sent, mut bytes) = stream.write_all(bytes).await;
        if sent.is_err() {
            return;
        }
        bytes.clear();
        buffer = bytes;
    }
}

fn main() {
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(4096)
        .build()
        .expect("io_uring");
    runtime.block_on(async {
        let listener = TcpListener::from_std(peers::listen()).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            monoio::spawn(serve(stream));
        }
    });
}
