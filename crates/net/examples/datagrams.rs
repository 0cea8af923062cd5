//! A server that sends each datagram back: `cargo run --release -p proactor-net --example datagrams -- 127.0.0.1:7002`.

use proactor_net::{Address, Config, Context, Handler, SocketId};

struct Echo;

impl Handler for Echo {
    fn received(&mut self, _: &mut Context<'_>, _: SocketId, _: &[u8]) {}

    fn datagram(&mut self, cx: &mut Context<'_>, id: SocketId, from: Option<&Address>, bytes: &[u8]) {
        // UDP may lose datagrams anyway, so one that finds no room is dropped.
        cx.send_to(id, from, bytes);
    }

    fn datagram_failed(
        &mut self,
        _: &mut Context<'_>,
        _: SocketId,
        to: Option<&Address>,
        error: &std::io::Error,
    ) {
        eprintln!("not sent to {to:?}: {error}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: Address = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => "127.0.0.1:0".parse()?,
    };
    let mut sockets = Config::default().build()?;
    let id = sockets.open_datagram(&address, None)?;
    let address = sockets.with(|cx| cx.local(id)).unwrap_or(address);
    println!("listening on {address} ({})", sockets.chosen());
    loop {
        sockets.turn(&mut Echo, None)?;
    }
}
