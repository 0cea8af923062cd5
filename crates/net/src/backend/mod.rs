//! How accepts, connections, receives and sends get done: five verbs, and calls that are made at once.
//!
//! A verb takes a tag; its outcome is an [`Event`] with that tag, whose `res` and flags are those of io_uring's completions. A
//! backend must not know slots or handlers.

pub(crate) mod calls;
pub(crate) mod epoll;
mod messages;
#[cfg(test)]
pub(crate) mod sim;
pub(crate) mod uring;

use crate::address::Address;
use crate::datagram::Message;
use crate::recv::Way;
use crate::table::{SocketId, Tag};
use proactor_engine::ring::Event;
use rustix::net::{Shutdown, SocketAddrAny};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// System calls that are made at once. They never block.
pub(crate) trait Calls {
    fn send(&mut self, fd: RawFd, bytes: &[u8]) -> io::Result<usize>;
    fn recv(&mut self, fd: RawFd, into: &mut [u8]) -> io::Result<usize>;
    /// Receives one datagram, and who has sent it.
    fn recv_from(&mut self, _fd: RawFd, _into: &mut [u8]) -> io::Result<(usize, Option<SocketAddrAny>)> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The length of the next datagram, which stays where it is.
    fn next_len(&mut self, _fd: RawFd) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Sends datagrams in their order. Returns how many the kernel has taken, at least one, or why not the first.
    fn send_all_to(&mut self, _fd: RawFd, _messages: &[Message]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn shutdown(&mut self, fd: RawFd, how: Shutdown);
    fn close(&mut self, fd: RawFd);
    /// Makes the close send a reset.
    fn reset_on_close(&mut self, fd: RawFd);
    /// Ends a connection at once, so that the peer gets a reset and not an end.
    fn disconnect(&mut self, fd: RawFd) {
        self.shutdown(fd, Shutdown::Both);
    }
    /// Has a listener refuse connections from now on, before its descriptor can be closed.
    fn stop_listening(&mut self, _fd: RawFd) {}
    /// Whether the peer is a TCP socket of another machine.
    fn is_remote(&mut self, fd: RawFd) -> bool;
    /// Whether the number is a socket's descriptor.
    fn is_socket(&mut self, fd: RawFd) -> bool;
}

/// Which entries of a descriptor end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending<'a> {
    One(Tag),
    /// All; these are their tags.
    All(&'a [Tag]),
}

/// How entries get done.
pub(crate) trait Backend {
    type Calls: Calls;

    /// Receives into buffers of a pool; without, there are only polls.
    fn has_pool(&self) -> bool;

    /// Bytes of one buffer of the pool.
    fn buffer_bytes(&self) -> usize;

    /// Accepts connections, each an event with its descriptor: one, or all that come until the event without MORE.
    fn accept(&mut self, fd: RawFd, once: bool, tag: Tag) -> io::Result<()>;

    /// Connects; one event.
    fn connect(&mut self, fd: RawFd, address: SocketAddrAny, tag: Tag) -> io::Result<()>;

    /// Receives all that comes, or tells of all that can be received, until the event without MORE.
    fn recv(&mut self, fd: RawFd, way: Way, tag: Tag) -> io::Result<()>;

    /// Receives all datagrams that come, each with its sender, until the event without MORE. False: there are only polls.
    fn recv_messages(&mut self, _fd: RawFd, _tag: Tag) -> io::Result<bool> {
        Ok(false)
    }

    /// Tells once when there is room to send; one event.
    fn await_room(&mut self, _fd: RawFd, _tag: Tag) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends bytes, perhaps not all of them; one event. With `zero_copy` the backend may leave them where they are: there is
    /// an event with MORE then, and a notification when it does not need them any more.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until the last event.
    unsafe fn send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        zero_copy: bool,
        tag: Tag,
    ) -> io::Result<()>;

    /// Whether there is [`send_quietly`](Self::send_quietly).
    fn has_quiet_sends(&self) -> bool {
        false
    }

    /// Sends bytes. There is an event only if not all were sent: else [`each_sent`](Self::each_sent) tells of the end.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until then.
    unsafe fn send_quietly(
        &mut self,
        _fd: RawFd,
        _bytes: *const u8,
        _len: usize,
        _tag: Tag,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Calls `tell` for each quiet send that was seen by the last wait to have sent all.
    fn each_sent(&mut self, _tell: impl FnMut(SocketId)) {}

    /// Ends one entry of a descriptor, or all of them: they then have their last events. One event of its own, after which
    /// entries may be left: the caller asks again.
    fn stop(&mut self, fd: RawFd, which: Ending<'_>, tag: Tag) -> io::Result<()>;

    /// Whether the next wait has something to hand over, or events that are there already.
    fn has_work(&self) -> bool;

    /// Forgets a descriptor that no entry names and that is about to be closed.
    fn release(&mut self, _fd: RawFd) {}

    /// Hands over what was queued and waits for events, at most for `timeout`, or until a waker is used.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// The bytes of an event of the pool.
    fn bytes(&mut self, event: &Event) -> &[u8];

    /// Gives an event's buffer back to the pool.
    fn give_back(&mut self, event: &Event);

    /// The sender and the bytes of an event of `recv_messages`.
    fn message(&mut self, _: &Event) -> (Option<Address>, &[u8]) {
        unreachable!("there is no pool of datagrams")
    }

    /// Gives the buffer of an event of `recv_messages` back, and makes its pool larger if a receive found none.
    fn give_back_message(&mut self, _: &Event) {}

    /// Makes the pool larger, because a receive found no buffer.
    fn grow_pool(&mut self);

    /// Ends all entries and waits for their last events, which are added to `events`. False: that was not possible, and their
    /// memory must never be freed.
    fn drain(&mut self, events: &mut Vec<Event>) -> bool;
}
