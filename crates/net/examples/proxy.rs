//! A TCP proxy: `cargo run --release -p proactor-net --example proxy -- 127.0.0.1:80`. Each connection to it is joined with one to
//! that address.

use proactor_net::task::{spawn, Listener, ReadHalf, Stream, WriteHalf};
use proactor_net::{Address, Config, Group};
use std::io;

const BUFFER_BYTES: usize = 16 << 10;

/// One direction. Its end goes on to the other side when `to` is dropped.
async fn forward(mut from: ReadHalf, mut to: WriteHalf) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn join(client: Stream, target: Address) {
    match Stream::connect(&target).await {
        Ok(server) => {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            spawn(forward(from_client, to_server));
            forward(from_server, to_client).await;
        }
        Err(error) => eprintln!("{target} cannot be reached: {error}"),
    }
}

async fn proxy(target: Address) -> io::Result<()> {
    let mut listener = Listener::bind(&"127.0.0.1:0".parse()?)?;
    if let Some(address) = listener.address() {
        println!("listening on {address}");
    }
    loop {
        match listener.accept().await {
            Ok(client) => spawn(join(client, target.clone())),
            Err(error) => eprintln!("no connection can be accepted for now: {error}"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: proxy TARGET")?.parse()?;
    Ok(Group::block_on(Config::default(), proxy(target))??)
}
