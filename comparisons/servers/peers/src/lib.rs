//! What the servers have in common: a listener on a port of the kernel's choice, or on the one that is given.

use std::net::TcpListener;

/// Bytes that are read at once.
pub const BUFFER_BYTES: usize = 16 << 10;

/// Listens on the loopback address, at the port that the command line gives.
pub fn listen() -> TcpListener {
    let port = std::env::args()
        .nth(1)
        .map_or(0, |port| port.parse().expect("a port"));
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free")
}
