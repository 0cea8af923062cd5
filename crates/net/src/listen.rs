//! Making sockets: listeners, and streams that connect.

use crate::address::Address;
use crate::core::State;
use crate::error::Error;
use crate::table::{Kind, Phase, SocketId};
use rustix::net::{sockopt, SocketFlags, SocketType};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};

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
    let fd = socket.into_raw_fd();
    state.table.insert(kind, phase, fd, state.clock.now_ms)
}

pub(crate) fn listen(
    state: &mut State,
    address: &Address,
    backlog: i32,
    reuse_port: bool,
) -> Result<SocketId, Error> {
    let open = || {
        let socket = socket(address, state.no_delay)?;
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
    let id = insert(state, Kind::Listener, Phase::Open, socket)
        .ok_or_else(|| Error::at("listen", address)(rustix::io::Errno::MFILE))?;
    state.listeners.push(id);
    state.list(id);
    Ok(id)
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
