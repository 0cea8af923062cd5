//! A kernel in memory for tests: sockets are byte queues between the code under test and peers that the test plays.
//!
//! Invariant: what Linux guarantees holds. The bytes of a socket and the events of an entry keep their order, and the lowest free
//! descriptor is the next one. All else is a choice of the seed: how much is sent or received, when an entry makes progress,
//! in which order the events of different entries come, which entry fails for no reason or is missed by a cancellation.
//! It also asserts what the kernel cannot: a descriptor is closed once and after its last entry, the memory of a send stays as
//! it is, and a buffer is given back once.

mod connection;
mod kernel;
mod quiet;
mod settings;

pub(crate) use connection::Connection;
pub(crate) use kernel::Kernel;
pub(crate) use settings::{Faults, Settings};

use super::{Backend, Calls, Ending};
use crate::clock::simulated;
use crate::recv::Way;
use crate::table::{SocketId, Tag};
use kernel::Job;
use proactor_engine::ring::Event;
use rustix::net::{Shutdown, SocketAddrAny};
use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// xorshift64*.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The finalizer of SplitMix64, so that neighbouring seeds have nothing in common.
        let mixed = (seed ^ (seed >> 30) ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Random((mixed ^ (mixed >> 27)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True in `rate` of 1,000 cases.
    pub(crate) fn chance(&mut self, rate: usize) -> bool {
        self.below(1000) < rate
    }
}

/// The backend; the test keeps the other handle of its kernel.
pub(crate) struct Sim {
    kernel: Rc<RefCell<Kernel>>,
    /// The bytes of the event that is being looked at.
    bytes: Vec<u8>,
}

impl Sim {
    pub(crate) fn new(kernel: Rc<RefCell<Kernel>>) -> Self {
        Sim {
            kernel,
            bytes: Vec::new(),
        }
    }
}

impl Backend for Sim {
    type Calls = Sim;

    fn has_pool(&self) -> bool {
        self.kernel.borrow().settings.has_pool
    }

    fn buffer_bytes(&self) -> usize {
        self.kernel.borrow().settings.buffer_bytes
    }

    fn accept(&mut self, fd: RawFd, once: bool, tag: Tag) -> io::Result<()> {
        self.kernel.borrow_mut().push(fd, tag, Job::Accept { once })
    }

    fn has_work(&self) -> bool {
        false
    }

    fn connect(&mut self, fd: RawFd, _: SocketAddrAny, tag: Tag) -> io::Result<()> {
        self.kernel.borrow_mut().push(fd, tag, Job::Connect)
    }

    fn recv(&mut self, fd: RawFd, way: Way, tag: Tag) -> io::Result<()> {
        let job = if way == Way::Pool { Job::Recv } else { Job::Poll };
        self.kernel.borrow_mut().push(fd, tag, job)
    }

    unsafe fn send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        zero_copy: bool,
        tag: Tag,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let copy = unsafe { std::slice::from_raw_parts(bytes, len) }.to_vec();
        self.kernel.borrow_mut().push(
            fd,
            tag,
            Job::Send {
                start: bytes,
                copy,
                zero_copy,
                is_quiet: false,
            },
        )
    }

    fn has_quiet_sends(&self) -> bool {
        self.kernel.borrow().settings.has_quiet_sends
    }

    unsafe fn send_quietly(&mut self, fd: RawFd, bytes: *const u8, len: usize, tag: Tag) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Backend::send(self, fd, bytes, len, false, tag) }?;
        self.kernel.borrow_mut().make_quiet();
        Ok(())
    }

    fn each_sent(&mut self, tell: impl FnMut(SocketId)) {
        let sent = self.kernel.borrow_mut().take_sent();
        sent.into_iter().for_each(tell);
    }

    fn stop(&mut self, fd: RawFd, which: Ending<'_>, tag: Tag) -> io::Result<()> {
        let mut kernel = self.kernel.borrow_mut();
        let tags = match which {
            Ending::One(tag) => Some(vec![tag]),
            Ending::All(_) if kernel.settings.by_descriptor => None,
            Ending::All(tags) => Some(tags[..1].to_vec()),
        };
        kernel.push(fd, tag, Job::Stop(tags))
    }

    fn release(&mut self, fd: RawFd) {
        let mut kernel = self.kernel.borrow_mut();
        if matches!(kernel.object(fd), Some(kernel::Object::Stream(_))) {
            kernel.connection(fd).released = true;
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let mut kernel = self.kernel.borrow_mut();
        let was_full = std::mem::take(&mut kernel.is_full);
        kernel.send_quietly();
        kernel.progress(false);
        if kernel.posted.is_empty() {
            kernel.progress(true);
        }
        kernel.idle = kernel.posted.is_empty();
        kernel.asleep = kernel.idle && timeout.is_none();
        kernel.sleeps = kernel.asleep && !was_full;
        if !kernel.idle {
            kernel.collect(events);
        } else if let Some(timeout) = timeout {
            simulated::advance(timeout);
        }
        Ok(())
    }

    fn bytes(&mut self, event: &Event) -> &[u8] {
        let id = usize::from(event.buffer_id().expect("the event has a buffer"));
        let bytes = self.kernel.borrow().buffers[id].clone();
        self.bytes = bytes.expect("the buffer was not given back");
        &self.bytes
    }

    fn give_back(&mut self, event: &Event) {
        let id = usize::from(event.buffer_id().expect("the event has a buffer"));
        let bytes = self.kernel.borrow_mut().buffers[id].take();
        assert!(bytes.is_some(), "buffer {id} was given back twice");
    }

    fn grow_pool(&mut self) {
        let mut kernel = self.kernel.borrow_mut();
        let count = (kernel.buffers.len() * 2).min(kernel.settings.max_buffers);
        kernel.buffers.resize(count, None);
    }

    fn drain(&mut self, events: &mut Vec<Event>) -> bool {
        let mut kernel = self.kernel.borrow_mut();
        kernel.progress(false);
        for at in 0..kernel.entries.len() {
            kernel.check_memory(at);
            kernel.check_notification(at);
        }
        kernel.entries.clear();
        events.extend(kernel.posted.drain(..).map(|(_, event)| event));
        true
    }
}

impl Calls for Sim {
    fn send(&mut self, fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        let mut kernel = self.kernel.borrow_mut();
        let queued = |entry: &kernel::Entry| {
            entry.fd == fd && matches!(entry.job, Job::Send { .. } | Job::Notify { .. })
        };
        assert!(!kernel.entries.iter().any(queued), "a send overtakes another one");
        if let Some(errno) = kernel.transient() {
            let errno = if errno == libc::ECANCELED {
                libc::EAGAIN
            } else {
                errno
            };
            return Err(io::Error::from_raw_os_error(errno));
        }
        let most = kernel.part(bytes.len());
        let result = kernel.connection(fd).transmit(bytes, most);
        result
            .unwrap_or(Err(libc::EAGAIN))
            .map_err(io::Error::from_raw_os_error)
    }

    fn recv(&mut self, fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
        let mut kernel = self.kernel.borrow_mut();
        let running = |entry: &kernel::Entry| entry.fd == fd && matches!(entry.job, Job::Recv);
        assert!(
            !kernel.entries.iter().any(running),
            "a receive overtakes another one"
        );
        let most = kernel.part(into.len());
        let bytes = kernel.connection(fd).receive(most).unwrap_or(Err(libc::EAGAIN));
        let bytes = bytes.map_err(io::Error::from_raw_os_error)?;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn shutdown(&mut self, fd: RawFd, how: Shutdown) {
        let mut kernel = self.kernel.borrow_mut();
        assert!(!kernel.sleeps, "descriptor {fd} waited for a quiet send");
        let connection = kernel.connection(fd);
        connection.shut = true;
        connection.ended = true;
        connection.no_receives |= how == Shutdown::Both;
    }

    fn close(&mut self, fd: RawFd) {
        let mut kernel = self.kernel.borrow_mut();
        let object = kernel.object(fd);
        if std::thread::panicking() {
            // A second panic would hide the first one's seed.
            return;
        }
        assert!(object.is_some(), "descriptor {fd} is closed twice");
        let named = kernel.entries.iter().any(|entry| entry.fd == fd)
            || kernel.posted.iter().any(|(of, _)| *of == fd);
        assert!(
            !named,
            "descriptor {fd} is closed before its last entry has ended"
        );
        kernel.objects[(fd - kernel::FIRST_FD) as usize] = None;
        if !kernel.has_listener() {
            for number in std::mem::take(&mut kernel.backlog) {
                kernel.connections[number].peer_reset();
            }
        }
        if let Some(kernel::Object::Stream(number)) = object {
            let connection = &mut kernel.connections[number];
            connection.closed = true;
            connection.ended = true;
            connection.cut = !connection.incoming.is_empty();
            if connection.cut || connection.reset_on_close {
                connection.reset();
            }
        }
    }

    fn reset_on_close(&mut self, fd: RawFd) {
        self.kernel.borrow_mut().connection(fd).reset_on_close = true;
    }

    fn disconnect(&mut self, fd: RawFd) {
        self.shutdown(fd, Shutdown::Both);
        self.kernel.borrow_mut().connection(fd).purge();
    }

    fn is_remote(&mut self, fd: RawFd) -> bool {
        // Half of the connections, always the same ones.
        self.kernel.borrow().number(fd) % 2 == 1
    }

    fn is_socket(&mut self, fd: RawFd) -> bool {
        self.kernel.borrow().object(fd).is_some()
    }
}
