//! Echo by mio: readiness, edge-triggered, so that a socket is read until it has no more.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};

const LISTENER: Token = Token(usize::MAX);

struct Connection {
    stream: TcpStream,
    /// Bytes that the socket did not take.
    unsent: Vec<u8>,
}

/// Serves what is ready. Returns whether the connection goes on.
fn serve(connection: &mut Connection, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        while !connection.unsent.is_empty() {
            match connection.stream.write(&connection.unsent) {
                Ok(len) => drop(connection.unsent.drain(..len)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) => return Err(e),
            }
        }
        let received = match connection.stream.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) => return Err(e),
        };
        let sent = match connection.stream.write(&buffer[..received]) {
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        connection.unsent.extend_from_slice(&buffer[sent..received]);
        // A short read has emptied the socket: the next bytes are a new edge.
        if received < buffer.len() && connection.unsent.is_empty() {
            return Ok(true);
        }
    }
}

fn main() -> io::Result<()> {
    let listener = peers::listen();
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut buffer = vec![0; peers::BUFFER_BYTES];
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let slot = free.pop().unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(slot), interest)?;
                    connections[slot] = Some(Connection {
                        stream,
                        unsent: Vec::new(),
                    });
                }
                continue;
            }
            let slot = event.token().0;
            let Some(connection) = &mut connections[slot] else {
                continue;
            };
            if !matches!(serve(connection, &mut buffer), Ok(true)) {
                connections[slot] = None;
                free.push(slot);
            }
        }
    }
}
