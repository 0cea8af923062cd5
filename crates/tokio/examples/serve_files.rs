//! A tokio program: a server that sends the files of a directory. A request is a name and a line end, the answer a length of eight
//! bytes and the contents. Sockets are tokio's, files are read by proactor:
//! `cargo run --release -p proactor-tokio --example serve_files -- DIRECTORY`.

use proactor_engine::{fs, Config, Io};
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

async fn serve(io: Io, folder: PathBuf, stream: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
    stream.set_nodelay(true)?;
    let mut stream = BufStream::new(stream);
    let mut name = String::new();
    while stream.read_line(&mut name).await? > 0 {
        let contents = fs::read(&io, folder.join(name.trim_end())).await?;
        stream.write_all(&(contents.len() as u64).to_le_bytes()).await?;
        stream.write_all(&contents).await?;
        stream.flush().await?;
        name.clear();
    }
    Ok(())
}

#[tokio::main(flavor = "local")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .ok_or("usage: serve_files DIRECTORY")?
        .into();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    let io = proactor_tokio::local(Config::default())?;
    loop {
        let (stream, _) = listener.accept().await?;
        let request = serve(io.clone(), folder.clone(), stream);
        tokio::task::spawn_local(async {
            if let Err(error) = request.await {
                eprintln!("a connection has failed: {error}");
            }
        });
    }
}
