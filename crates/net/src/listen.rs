//! Making sockets: listeners, and streams that connect.

use crate::address::Address;
use crate::core::State;
use crate::datagram::Outbox;
use crate::error::Error;
use crate::table::{Kind, Phase, SocketId};
use rustix::net::{sockopt, SocketAddrAny, SocketFlags, SocketType};
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

/// Takes a slot for a socket that listens, which the slot closes from then on. None: there is none left.
pub(crate) fn add_listener(state: &mut State, fd: RawFd) -> Option<SocketId> {
    let now_ms = state.clock.now_ms;
    let id = state.table.insert(Kind::Listener, Phase::Open, fd, now_ms)?;
    state.listeners.push(id);
    state.list(id);
    Some(id)
}

/// Takes a slot for a socket that is to be connected, which the slot closes from then on. None: there is none left.
pub(crate) fn add_connecting(state: &mut State, fd: RawFd, to: SocketAddrAny) -> Option<SocketId> {
    let now_ms = state.clock.now_ms;
    let id = state.table.insert(Kind::Stream, Phase::Connecting, fd, now_ms)?;
    state.connects.push((id, to));
    state.count_changed();
    Some(id)
}

/// Gives a socket to the slot that `add` takes. Where there is none left, the socket is closed.
fn own(socket: OwnedFd, add: impl FnOnce(RawFd) -> Option<SocketId>) -> rustix::io::Result<SocketId> {
    let id = add(socket.as_raw_fd()).ok_or(rustix::io::Errno::MFILE)?;
    let _ = socket.into_raw_fd();
    Ok(id)
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
    own(socket, |fd| add_listener(state, fd)).map_err(Error::at("listen", &address))
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
    own(socket, |fd| add_connecting(state, fd, to)).map_err(Error::at("connect", address))
}

pub(crate) fn open_datagram(
    state: &mut State,
    local: &Address,
    peer: Option<&Address>,
) -> Result<SocketId, Error> {
    let open = || {
        let socket = rustix::net::socket_with(local.family(), SocketType::DGRAM, FLAGS, None)?;
        rustix::net::bind(&socket, &local.to_any()?)?;
        Ok(socket)
    };
    let socket = open().map_err(Error::at("bind", local))?;
    if let Some(peer) = peer {
        let connect = || rustix::net::connect(&socket, &peer.to_any()?);
        connect().map_err(Error::at("connect", peer))?;
    }
    own(socket, |fd| {
        let now_ms = state.clock.now_ms;
        let id = state.table.insert(Kind::Datagram, Phase::Open, fd, now_ms)?;
        state.outboxes.insert(id, Outbox::new(local.is_inet()));
        state.list(id);
        Some(id)
    })
    .map_err(Error::at("bind", local))
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
