//! A server that sends the files of a directory.

use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

async fn serve(folder: PathBuf, stream: TcpStream) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let mut stream = BufStream::new(stream);
    let mut name = String::new();
    while stream.read_line(&mut name).await? > 0 {
        let contents = tokio::fs::read(folder.join(name.trim_end())).await?;
        stream.write_all(&(contents.len() as u64).to_le_bytes()).await?;
        stream.write_all(&contents).await?;
        stream.flush().await?;
        name.clear();
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
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
        tokio::spawn(async {
            if let Err(error) = request.await {
                eprintln!("a connection has failed: {error}");
            }
        });
    }
}
