//! What has come for a socket and was not taken yet, and who waits for it.

use crate::address::Address;
use crate::context::Context;
use crate::handler::Handler;
use crate::table::SocketId;
use proactor_engine::memory;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::task::Waker;

/// Bytes of one socket that wait to be taken, from which on nothing is received. It goes on below half of it.
const MAX_BYTES: usize = 256 << 10;

/// One socket's mail.
#[derive(Default)]
pub(super) struct Mail {
    bytes: Vec<u8>,
    /// So many of them are taken.
    taken: usize,
    datagrams: VecDeque<(Vec<u8>, Option<Address>)>,
    /// Bytes of those.
    datagram_bytes: usize,
    /// Connections of a listener.
    pub(super) accepted: VecDeque<(SocketId, Rc<RefCell<Mail>>)>,
    pub(super) errors: VecDeque<io::Error>,
    pub(super) is_open: bool,
    pub(super) has_ended: bool,
    pub(super) is_closed: bool,
    /// What has ended it.
    pub(super) error: Option<io::Error>,
    /// Its sending side was ended here.
    pub(super) is_shut: bool,
    /// A send has found the socket full.
    pub(super) is_full: bool,
    is_paused: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

pub(super) type Shared = Rc<RefCell<Mail>>;

impl Mail {
    fn unread(&self) -> usize {
        self.bytes.len() - self.taken + self.datagram_bytes
    }

    fn pause_if_full(&mut self, cx: &mut Context<'_>, id: SocketId) {
        if !self.is_paused && self.unread() > MAX_BYTES {
            self.is_paused = true;
            cx.pause(id);
        }
    }

    /// Whether receiving is to go on.
    pub(super) fn resumes(&mut self) -> bool {
        let resumes = self.is_paused && self.unread() <= MAX_BYTES / 2;
        self.is_paused &= !resumes;
        resumes
    }

    /// Takes bytes in their order. None: there are none.
    pub(super) fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let rest = &self.bytes[self.taken..];
        if rest.is_empty() {
            return None;
        }
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken >= MAX_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        Some(count)
    }

    pub(super) fn take_datagram(&mut self) -> Option<(Vec<u8>, Option<Address>)> {
        let datagram = self.datagrams.pop_front()?;
        self.datagram_bytes -= datagram.0.len();
        Some(datagram)
    }

    /// Why the socket cannot be used any more.
    pub(super) fn end(&self) -> io::Error {
        match self.error.as_ref().and_then(io::Error::raw_os_error) {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::ErrorKind::BrokenPipe.into(),
        }
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

/// The mail of all sockets that somebody holds.
pub(super) struct Office {
    pub(super) mails: HashMap<SocketId, Shared>,
    /// Whether a future is to be polled.
    pub(super) is_ready: Box<dyn Fn() -> bool>,
}

impl Office {
    fn of(&self, id: SocketId, with: impl FnOnce(&mut Mail)) {
        if let Some(mail) = self.mails.get(&id) {
            with(&mut mail.borrow_mut());
        }
    }
}

impl Handler for Office {
    fn has_other_work(&mut self) -> bool {
        (self.is_ready)()
    }

    fn opened(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.of(id, |mail| {
            mail.is_open = true;
            mail.wake_reader();
        });
    }

    fn accepted(&mut self, cx: &mut Context<'_>, listener: SocketId, id: SocketId) {
        let Some(of_listener) = self.mails.get(&listener).cloned() else {
            return cx.close(id);
        };
        let mail = Shared::default();
        mail.borrow_mut().is_open = true;
        self.mails.insert(id, Rc::clone(&mail));
        let mut of_listener = of_listener.borrow_mut();
        of_listener.accepted.push_back((id, mail));
        of_listener.wake_reader();
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.of(id, |mail| {
            // allocates: what the stream may have unread, and a buffer of the pool
            mail.bytes.extend_from_slice(bytes);
            mail.pause_if_full(cx, id);
            mail.wake_reader();
        });
    }

    fn datagram(&mut self, cx: &mut Context<'_>, id: SocketId, from: Option<&Address>, bytes: &[u8]) {
        self.of(id, |mail| {
            let mut copy = Vec::new();
            if memory::append(&mut copy, bytes).is_err() {
                // Lost, as the network may lose it.
                return;
            }
            mail.datagrams.push_back((copy, from.cloned()));
            mail.datagram_bytes += bytes.len();
            mail.pause_if_full(cx, id);
            mail.wake_reader();
        });
    }

    fn datagram_failed(&mut self, _: &mut Context<'_>, id: SocketId, _: Option<&Address>, error: &io::Error) {
        self.of(id, |mail| {
            mail.errors.push_back(copy_of(error));
            mail.wake_reader();
        });
    }

    fn ended(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.of(id, |mail| {
            mail.has_ended = true;
            mail.wake_reader();
        });
    }

    fn writable(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.of(id, |mail| {
            mail.is_full = false;
            mail.wake_writer();
        });
    }

    fn closed(&mut self, _: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        self.of(id, |mail| {
            mail.is_closed = true;
            mail.error = error.map(copy_of);
            mail.wake_reader();
            mail.wake_writer();
        });
        self.mails.remove(&id);
    }

    fn accept_failed(&mut self, _: &mut Context<'_>, listener: SocketId, error: &io::Error) {
        self.of(listener, |mail| {
            mail.errors.push_back(copy_of(error));
            mail.wake_reader();
        });
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => error.kind().into(),
    }
}
