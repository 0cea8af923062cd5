//! A server that sends the files of a directory, on compio's own runtime: it does not run under tokio.

use compio::buf::BufResult;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use std::path::PathBuf;

async fn serve(folder: PathBuf, mut stream: TcpStream) -> programs::Result {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let BufResult(count, read) = stream.read(buffer).await;
        if count? == 0 {
            return Ok(());
        }
        received.extend_from_slice(&read);
        buffer = read;
        buffer.clear();
        while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let name: Vec<u8> = received.drain(..=end).collect();
            let contents = compio::fs::read(folder.join(std::str::from_utf8(&name[..end])?)).await?;
            let mut answer = (contents.len() as u64).to_le_bytes().to_vec();
            answer.extend_from_slice(&contents);
            stream.write_all(answer).await.0?;
        }
    }
}

#[compio::main]
pub async fn main() -> programs::Result {
    let folder: PathBuf = programs::args()
        .next()
        .ok_or("usage: serve_files DIRECTORY")?
        .into();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let request = serve(folder.clone(), stream);
        compio::runtime::spawn(async {
            if let Err(error) = request.await {
                eprintln!("a connection has failed: {error}");
            }
        })
        .detach();
    }
}
