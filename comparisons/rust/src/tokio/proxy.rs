//! A TCP proxy: each connection to it is joined with one to the address.

use tokio::net::{TcpListener, TcpStream};

async fn join(mut client: TcpStream, target: String) {
    let _ = client.set_nodelay(true);
    match TcpStream::connect(&target).await {
        Ok(mut server) => {
            let _ = server.set_nodelay(true);
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        Err(error) => eprintln!("{target} cannot be reached: {error}"),
    }
}

#[tokio::main(flavor = "current_thread")]
pub async fn main() -> programs::Result {
    let target = programs::args().next().ok_or("usage: proxy TARGET")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(join(client, target.clone()));
    }
}
