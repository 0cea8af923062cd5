//! An echo server in one thread: `cargo run --release -p proactor-net --example echo -- 127.0.0.1:7000`.

use proactor_net::{Address, Config, Context, Handler, SocketId};

struct Echo;

impl Handler for Echo {
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        cx.send(id, bytes);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: Address = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => "127.0.0.1:0".parse()?,
    };
    let mut sockets = Config::default().build()?;
    let listener = sockets.listen(&address)?;
    let address = sockets.with(|cx| cx.local(listener)).unwrap_or(address);
    println!("listening on {address} ({})", sockets.chosen());
    loop {
        sockets.turn(&mut Echo, None)?;
    }
}
