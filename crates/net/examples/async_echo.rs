//! An echo server as futures: `cargo run --release -p proactor-net --example async_echo -- 127.0.0.1:7003`.

use proactor_net::{task, Address, Config, Group};

async fn echo(mut stream: task::Stream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.close().await,
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: Address = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => "127.0.0.1:0".parse()?,
    };
    Group::block_on(Config::default(), async {
        let mut listener = task::Listener::bind(&address)?;
        println!("listening on {}", listener.address().unwrap_or(address));
        loop {
            match listener.accept().await {
                Ok(stream) => task::spawn(async {
                    if let Err(error) = echo(stream).await {
                        eprintln!("a connection has failed: {error}");
                    }
                }),
                Err(error) => eprintln!("no connection can be accepted for now: {error}"),
            }
        }
    })?
}
