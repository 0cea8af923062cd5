//! Errors of the calls that name an address.

use crate::address::Address;
use std::fmt;
use std::io;

/// A call on an address that failed.
#[derive(Debug)]
pub struct Error {
    /// The call: `listen`, `connect` ...
    pub op: &'static str,
    /// The address, as it was given.
    pub address: Option<Address>,
    /// What the kernel said.
    pub source: io::Error,
}

impl Error {
    pub(crate) fn at(op: &'static str, address: &Address) -> impl FnOnce(rustix::io::Errno) -> Error {
        let address = address.clone();
        move |errno| Error {
            op,
            address: Some(address),
            source: errno.into(),
        }
    }

    /// The kernel's number for the error, if it was the kernel's.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    fn hint(&self) -> &'static str {
        let is_unix = matches!(self.address, Some(Address::Unix(_) | Address::Abstract(_)));
        match (self.op, self.errno()) {
            ("listen" | "bind", Some(libc::EADDRINUSE)) if is_unix => {
                "; another program listens there or the file is no socket, choose another path"
            }
            ("listen" | "bind", Some(libc::EACCES)) if is_unix => "; this user may not make files there",
            ("listen" | "bind", Some(libc::EADDRINUSE)) => {
                "; another program has this port, choose another one"
            }
            ("listen" | "bind", Some(libc::EACCES)) => {
                "; ports below 1024 are for root (CAP_NET_BIND_SERVICE)"
            }
            ("listen" | "bind", Some(libc::EADDRNOTAVAIL)) => {
                "; no interface of this machine has this address"
            }
            (_, Some(libc::EMFILE)) => "; close some, or raise the limit (ulimit -n)",
            _ => "",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(
                f,
                "cannot {} {}: {}{}",
                verb(self.op),
                address,
                self.source,
                self.hint()
            ),
            None => write!(f, "cannot {}: {}{}", self.op, self.source, self.hint()),
        }
    }
}

fn verb(op: &'static str) -> &'static str {
    match op {
        "listen" => "listen on",
        "connect" => "connect to",
        "bind" => "bind to",
        other => other,
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.source.kind(), error)
    }
}
