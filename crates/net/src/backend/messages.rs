//! The pool into which a ring receives datagrams, each with its sender.
//!
//! It is made with the first socket for datagrams. A buffer has room for the longest UDP datagram, so none is cut short.

use crate::address::Address;
use proactor_engine::ring::{types, BufferRing, Event};
use proactor_engine::Driver;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for what the kernel says of a datagram, its sender's address (128 bytes), and 65,507 bytes.
const EACH_BYTES: u32 = 66 << 10;
/// Buffers to begin with, and at most. Memory that was never received into is not used.
const BUFFERS: u16 = 8;
const MAX_BUFFERS: u16 = 64;

pub(super) struct Messages {
    pub(super) pool: BufferRing,
    /// What the kernel writes of each datagram: entries name it while they are in the ring.
    pub(super) header: Box<libc::msghdr>,
}

impl Messages {
    pub(super) fn new(driver: &mut Driver) -> io::Result<Self> {
        // SAFETY: zeroes are a valid msghdr: nothing but a name's length is asked for.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        let pool = driver.buffer_ring(MAX_BUFFERS, BUFFERS, EACH_BYTES)?;
        Ok(Messages { pool, header })
    }

    /// The sender and the bytes of a datagram.
    pub(super) fn read(&self, event: &Event) -> (Option<Address>, &[u8]) {
        let id = event.buffer_id().expect("the event has a buffer");
        // SAFETY: the event is of this pool, and its buffer has not been given back.
        let buffer = unsafe { self.pool.bytes(id, event.res.max(0) as usize) };
        let start = {
            let Ok(out) = types::RecvMsgOut::parse(buffer, &self.header) else {
                return (None, &[]);
            };
            debug_assert!(
                !out.is_payload_truncated(),
                "a datagram is longer than UDP has them"
            );
            (inet(out.name_data()), buffer.len() - out.payload_data().len())
        };
        (start.0, &buffer[start.1..])
    }

    /// Gives the buffer of an event back. An event without one says that there was none.
    pub(super) fn give_back(&mut self, event: &Event) {
        match event.buffer_id() {
            // SAFETY: as above; the slice of `read` has ended.
            Some(id) => unsafe { self.pool.give_back(id) },
            None if event.res == -libc::ENOBUFS => {
                self.pool.grow(self.pool.count().saturating_mul(2));
            }
            None => {}
        }
    }
}

/// An internet address as the kernel writes it (sockaddr_in, sockaddr_in6).
fn inet(name: &[u8]) -> Option<Address> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    let inet: SocketAddr = match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            (Ipv4Addr::from(ip), port).into()
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            let flow = u32::from_be_bytes(name.get(4..8)?.try_into().ok()?);
            let scope = u32::from_ne_bytes(name.get(24..28)?.try_into().ok()?);
            SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into()
        }
        _ => return None,
    };
    Some(Address::Inet(inet))
}
