//! Address of a server, and a connection to it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Time for a connection to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    /// Parses `HOST:PORT`, `PORT` of this machine, or `unix:PATH`.
    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(path.into()));
        }
        let whole = match text.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => text.to_owned(),
        };
        let expected = "expected HOST:PORT, PORT, or unix:PATH";
        let mut found = whole
            .to_socket_addrs()
            .map_err(|e| format!("{text}: {e}; {expected}"))?;
        found
            .next()
            .map(Address::Inet)
            .ok_or_else(|| format!("{text}: the name has no address"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn connect(address: &Address) -> io::Result<Stream> {
        Stream::connect_within(address, PATIENCE)
    }

    /// Connects within this time: TCP itself waits minutes for a listener whose queue is full.
    pub fn connect_within(address: &Address, time: Duration) -> io::Result<Stream> {
        match address {
            Address::Inet(address) => {
                let stream = TcpStream::connect_timeout(address, time)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Reads what is available; `None` if nothing is.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        };
        when_ready(read)
    }

    /// Writes what fits; `None` if nothing does.
    pub fn write_some(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let written = match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        };
        when_ready(written)
    }
}

fn when_ready(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(parsed("7000").unwrap(), "127.0.0.1:7000");
        assert_eq!(parsed("[::1]:7000").unwrap(), "[::1]:7000");
        assert_eq!(parsed("unix:/tmp/s").unwrap(), "unix:/tmp/s");
        assert!(parsed("127.0.0.1").unwrap_err().contains("expected HOST:PORT"));
        assert!(parsed("70000").is_err());
    }
}
