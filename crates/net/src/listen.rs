//! Making sockets: listeners, and streams that connect.

use crate::address::Address;
use crate::core::State;
use crate::error::Error;
use crate::table::{Kind, Phase, SocketId};
use rustix::net::{sockopt, SocketFlags, SocketType};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn socket(address: &Address, no_delay: bool) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(address.family(), SocketType::STREAM, FLAGS, None)?;
    if address.is_inet() && no_delay {
        // Sockets that a listener accepts have it from there.
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}

fn insert(state: &mut State, kind: Kind, phase: Phase, socket: OwnedFd) -> Option<SocketId> {
    let now_ms = state.clock.now_ms;
    let id = state.table.insert(kind, phase, socket.as_raw_fd(), now_ms)?;
    // The slot closes it from now on.
    let _ = socket.into_raw_fd();
    Some(id)
}

/// A socket that listens and that no [`Sockets`](crate::Sockets) has yet: it is bound in one thread and used in another.
#[derive(Debug)]
pub struct Bound {
    socket: OwnedFd,
    address: Address,
}

impl Bound {
    /// Binds a socket and listens, with TCP_NODELAY for the connections if `no_delay`.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2), with the address.
    pub fn new(address: &Address, backlog: u32, reuse_port: bool, no_delay: bool) -> Result<Self, Error> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        let open = || {
            let socket = socket(address, no_delay)?;
            if address.is_inet() {
                sockopt::set_socket_reuseaddr(&socket, true)?;
                if reuse_port {
                    sockopt::set_socket_reuseport(&socket, true)?;
                }
            }
            rustix::net::bind(&socket, &address.to_any()?)?;
            rustix::net::listen(&socket, backlog)?;
            Ok(socket)
        };
        let socket = open().map_err(Error::at("listen", address))?;
        let address = local(socket.as_raw_fd()).unwrap_or_else(|| address.clone());
        Ok(Bound { socket, address })
    }

    /// The address, with the port that the kernel has chosen for port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The same listener again: whoever accepts first has the connection.
    ///
    /// # Errors
    /// EMFILE, with the address.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let socket = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0);
        Ok(Bound {
            socket: socket.map_err(Error::at("listen", &self.address))?,
            address: self.address.clone(),
        })
    }
}

pub(crate) fn adopt(state: &mut State, bound: Bound) -> Result<SocketId, Error> {
    let Bound { socket, address } = bound;
    let id = insert(state, Kind::Listener, Phase::Open, socket)
        .ok_or_else(|| Error::at("listen", &address)(rustix::io::Errno::MFILE))?;
    state.listeners.push(id);
    state.list(id);
    Ok(id)
}

pub(crate) fn listen(
    state: &mut State,
    address: &Address,
    backlog: i32,
    reuse_port: bool,
) -> Result<SocketId, Error> {
    let bound = Bound::new(address, backlog.unsigned_abs(), reuse_port, state.no_delay)?;
    adopt(state, bound)
}

pub(crate) fn connect(state: &mut State, address: &Address) -> Result<SocketId, Error> {
    let open = || Ok((socket(address, state.no_delay)?, address.to_any()?));
    let (socket, to) = open().map_err(Error::at("connect", address))?;
    let id = insert(state, Kind::Stream, Phase::Connecting, socket)
        .ok_or_else(|| Error::at("connect", address)(rustix::io::Errno::MFILE))?;
    state.connects.push((id, to));
    Ok(id)
}

fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: a slot's descriptor is open.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

pub(crate) fn peer(fd: RawFd) -> Option<Address> {
    rustix::net::getpeername(borrow(fd))
        .ok()
        .flatten()
        .and_then(Address::from_any)
}

pub(crate) fn local(fd: RawFd) -> Option<Address> {
    rustix::net::getsockname(borrow(fd))
        .ok()
        .and_then(Address::from_any)
}
