//! Calls to the kernel that are made at once.

use super::Calls;
use crate::address::Address;
use crate::datagram::Message;
use crate::listen;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketAddrAny};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The kernel's own calls.
#[derive(Default)]
pub(crate) struct System {
    /// How many were made.
    pub(crate) made: u64,
}

fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the table closes a descriptor only after it has freed its slot, and calls name descriptors of slots in use.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

impl Calls for System {
    #[inline]
    fn send(&mut self, fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        self.made += 1;
        Ok(rustix::net::send(
            borrow(fd),
            bytes,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?)
    }

    fn recv(&mut self, fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
        self.made += 1;
        Ok(rustix::net::recv(borrow(fd), into, RecvFlags::DONTWAIT)?.0)
    }

    fn recv_from(&mut self, fd: RawFd, into: &mut [u8]) -> io::Result<(usize, Option<SocketAddrAny>)> {
        self.made += 1;
        let (_, len, from) = rustix::net::recvfrom(borrow(fd), into, RecvFlags::DONTWAIT)?;
        Ok((len, from))
    }

    fn next_len(&mut self, fd: RawFd) -> io::Result<usize> {
        self.made += 1;
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC;
        Ok(rustix::net::recv(borrow(fd), &mut [0u8; 0], flags)?.1)
    }

    fn send_all_to(&mut self, fd: RawFd, messages: &[Message]) -> io::Result<usize> {
        self.made += 1;
        // allocates: an entry for each message of a turn
        let mut places: Vec<libc::iovec> = messages.iter().map(Message::place).collect();
        let mut headers: Vec<libc::mmsghdr> = messages
            .iter()
            .zip(&mut places)
            .map(|(message, place)| message.header(place))
            .collect(); // allocates: an entry for each message of a turn
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: headers, places, names and bytes are valid for the call, which only reads all but the headers' lengths.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), headers.len() as u32, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(sent as usize)
    }

    fn shutdown(&mut self, fd: RawFd, how: Shutdown) {
        self.made += 1;
        // ENOTCONN: the peer was quicker.
        let _ = rustix::net::shutdown(borrow(fd), how);
    }

    fn close(&mut self, fd: RawFd) {
        self.made += 1;
        // SAFETY: the slot that owned the descriptor has given it up, and no entry names it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }

    fn reset_on_close(&mut self, fd: RawFd) {
        self.made += 1;
        let _ = rustix::net::sockopt::set_socket_linger(borrow(fd), Some(std::time::Duration::ZERO));
    }

    fn disconnect(&mut self, fd: RawFd) {
        // Unix sockets cannot be disconnected.
        if rustix::net::connect_unspec(borrow(fd)).is_err() {
            self.shutdown(fd, Shutdown::Both);
        }
    }

    fn stop_listening(&mut self, fd: RawFd) {
        // Linux stops a listener that is shut down, and completes its accepts with EINVAL.
        self.shutdown(fd, Shutdown::Both);
    }

    fn is_remote(&mut self, fd: RawFd) -> bool {
        self.made += 2;
        let (peer, local) = (listen::peer(fd), listen::local(fd));
        match (peer, local) {
            // What goes to an address of this machine goes over loopback, whichever address that is.
            (Some(Address::Inet(peer)), Some(Address::Inet(local))) => {
                !peer.ip().to_canonical().is_loopback() && peer.ip() != local.ip()
            }
            _ => false,
        }
    }

    fn is_socket(&mut self, fd: RawFd) -> bool {
        self.made += 1;
        fd >= 0 && rustix::net::sockopt::socket_domain(borrow(fd)).is_ok()
    }
}
