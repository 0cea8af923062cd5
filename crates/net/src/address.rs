//! Where sockets are: internet and Unix addresses.

use rustix::net::{AddressFamily, SocketAddrUnix};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on or to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4 or IPv6, with a port; port 0 lets the kernel choose one.
    Inet(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
    /// A Unix socket's name in Linux's abstract namespace, without the leading zero byte.
    Abstract(Vec<u8>),
}

impl Address {
    /// Looks a name up: `host:port`, `[v6]:port`, `unix:PATH` or `unix:@NAME`. Blocks for as long as the system's resolver does.
    ///
    /// # Errors
    /// `InvalidInput` for what is no address, and the resolver's errors.
    pub fn resolve(text: &str) -> io::Result<Vec<Address>> {
        if let Ok(address) = text.parse() {
            return Ok(vec![address]);
        }
        let found: Vec<Address> = text.to_socket_addrs()?.map(Address::Inet).collect();
        if found.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{text} has no address"),
            ));
        }
        Ok(found)
    }

    pub(crate) fn family(&self) -> AddressFamily {
        match self {
            Address::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) | Address::Abstract(_) => AddressFamily::UNIX,
        }
    }

    pub(crate) fn is_inet(&self) -> bool {
        matches!(self, Address::Inet(_))
    }

    /// The address as the kernel takes it.
    pub(crate) fn to_any(&self) -> rustix::io::Result<rustix::net::SocketAddrAny> {
        Ok(match self {
            Address::Inet(address) => (*address).into(),
            Address::Unix(path) => SocketAddrUnix::new(path.as_path())?.into(),
            Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name)?.into(),
        })
    }

    pub(crate) fn from_any(any: rustix::net::SocketAddrAny) -> Option<Address> {
        if let Ok(inet) = SocketAddr::try_from(any.clone()) {
            return Some(Address::Inet(inet));
        }
        let unix = SocketAddrUnix::try_from(any).ok()?;
        if let Some(name) = unix.abstract_name() {
            return Some(Address::Abstract(name.to_vec()));
        }
        let path = unix
            .path()
            .map(|path| OsString::from_vec(path.to_bytes().to_vec()));
        Some(Address::Unix(path.unwrap_or_default().into()))
    }
}

impl FromStr for Address {
    type Err = io::Error;

    /// Reads an address without a look-up: `1.2.3.4:80`, `[::1]:80`, `unix:PATH`, `unix:@NAME`.
    fn from_str(text: &str) -> io::Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match (path.strip_prefix('@'), path.is_empty()) {
                (_, true) => Err(not_an_address(text)),
                (Some(name), _) => Ok(Address::Abstract(name.as_bytes().to_vec())),
                (None, _) => Ok(Address::Unix(path.into())),
            };
        }
        text.parse().map(Address::Inet).map_err(|_| not_an_address(text))
    }
}

fn not_an_address(text: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("'{text}' is no address: write HOST:PORT, [V6]:PORT, unix:PATH or unix:@NAME"),
    )
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Abstract(name) => write!(f, "unix:@{}", String::from_utf8_lossy(name)),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Inet(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/tmp/a b", "unix:@name"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "80", "unix:", "1.2.3.4", "::1:80x"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }
}
