//! A small key-value store that clients and benchmarks of Redis can talk to: strings and lists in memory, RESP2.
//!
//! Requests are answered in order, as many as a receive brings in one go. Invariant: a connection whose replies are above the bound
//! of unsent bytes has no request answered before its peer has read enough of them.

mod command;
mod request;
mod store;

pub use store::{Store, DEFAULT_MAX_MEMORY};

use super::Service;
use crate::context::Context;
use crate::handler::Handler;
use crate::stats::Stats;
use crate::table::SocketId;
use command::{error, execute, After};
use proactor_engine::memory;
use request::{Found, Request};
use std::io;
use std::sync::Arc;

/// Room for replies that is kept between two receives.
const KEPT_BYTES: usize = 64 << 10;

/// What a connection has sent and was not answered yet.
#[derive(Debug, Default)]
struct Pending {
    request: Request,
    bytes: Vec<u8>,
    /// Its replies are above the bound: nothing is answered before [`Handler::writable`].
    is_blocked: bool,
    /// The peer has sent its last byte.
    has_ended: bool,
}

/// One worker's part of a key-value store.
#[derive(Debug)]
pub struct Resp {
    store: Arc<Store>,
    /// By the socket's index; None for a connection of which everything is answered.
    pending: Vec<Option<Box<Pending>>>,
    /// For requests that come in one piece.
    request: Request,
    out: Vec<u8>,
    requests: u64,
}

/// Why answering has stopped.
enum Stop {
    /// The bytes from here on are no whole request yet.
    Part(usize),
    /// So many bytes are answered, and the replies are above the bound.
    Blocked(usize),
    /// The connection is being closed.
    Closed,
}

impl Resp {
    /// Makes a worker's part of a store.
    pub fn new(store: Arc<Store>) -> Self {
        Resp {
            store,
            pending: Vec::new(),
            request: Request::default(),
            out: Vec::new(),
            requests: 0,
        }
    }

    fn pending(&mut self, id: SocketId) -> &mut Option<Box<Pending>> {
        if id.index() >= self.pending.len() {
            // allocates: eight bytes a socket
            self.pending.resize_with(id.index() + 1, || None);
        }
        &mut self.pending[id.index()]
    }

    /// Answers the requests in `bytes`.
    fn answer(&mut self, cx: &mut Context<'_>, id: SocketId, request: &mut Request, bytes: &[u8]) -> Stop {
        let mut at = 0;
        loop {
            let stop = self.answer_some(cx.limits().socket_bytes, request, bytes, &mut at);
            let has_room = self.out.is_empty() || cx.send(id, &self.out);
            self.out.clear();
            self.out.shrink_to(KEPT_BYTES);
            match stop {
                Stop::Closed => {
                    cx.close(id);
                    return stop;
                }
                _ if !cx.is_open(id) => return Stop::Closed,
                _ if !has_room => return Stop::Blocked(at),
                Stop::Part(_) => return stop,
                // The kernel has taken all replies.
                Stop::Blocked(_) => {}
            }
        }
    }

    /// Answers requests from `at` on until the replies have more than `bound` bytes.
    fn answer_some(&mut self, bound: usize, request: &mut Request, bytes: &[u8], at: &mut usize) -> Stop {
        let mut keys = self.store.lock();
        while self.out.len() <= bound {
            match request.read(&bytes[*at..]) {
                Found::Part => return Stop::Part(*at),
                Found::Wrong(why) => {
                    error(&mut self.out, &format!("ERR {why}"));
                    return Stop::Closed;
                }
                Found::Whole(len) => {
                    let args = request.arguments(&bytes[*at..]);
                    *at += len;
                    if args.len() == 0 {
                        continue;
                    }
                    self.requests += 1;
                    if execute(&mut keys, args, &mut self.out) == After::Close {
                        return Stop::Closed;
                    }
                }
            }
        }
        Stop::Blocked(*at)
    }

    /// Answers what a connection has sent before.
    fn answer_pending(&mut self, cx: &mut Context<'_>, id: SocketId, pending: Pending) {
        let Pending {
            mut request,
            bytes,
            has_ended,
            ..
        } = pending;
        let stop = self.answer(cx, id, &mut request, &bytes);
        self.keep(cx, id, stop, request, bytes, has_ended);
    }

    /// Keeps what is not answered yet.
    fn keep(
        &mut self,
        cx: &mut Context<'_>,
        id: SocketId,
        stop: Stop,
        request: Request,
        mut bytes: Vec<u8>,
        has_ended: bool,
    ) {
        let (answered, is_blocked) = match stop {
            Stop::Closed => return,
            Stop::Part(at) => (at, false),
            Stop::Blocked(at) => (at, true),
        };
        if has_ended && !is_blocked {
            return cx.close(id);
        }
        bytes.drain(..answered);
        if bytes.is_empty() && !is_blocked {
            return;
        }
        *self.pending(id) = Some(Box::new(Pending {
            request,
            bytes,
            is_blocked,
            has_ended,
        }));
    }
}

impl Handler for Resp {
    fn opened(&mut self, _: &mut Context<'_>, id: SocketId) {
        *self.pending(id) = None;
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        if let Some(mut pending) = self.pending(id).take() {
            if memory::append(&mut pending.bytes, bytes).is_err() {
                return cx.abort(id);
            }
            if pending.is_blocked {
                *self.pending(id) = Some(pending);
            } else {
                self.answer_pending(cx, id, *pending);
            }
            return;
        }
        let mut request = std::mem::take(&mut self.request);
        match self.answer(cx, id, &mut request, bytes) {
            Stop::Part(at) if at == bytes.len() => self.request = request,
            // allocates: a buffer of the pool at most
            stop => self.keep(cx, id, stop, request, bytes.to_vec(), false),
        }
    }

    fn writable(&mut self, cx: &mut Context<'_>, id: SocketId) {
        if let Some(pending) = self.pending(id).take() {
            self.answer_pending(cx, id, *pending);
        }
    }

    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        match self.pending(id) {
            Some(pending) if pending.is_blocked => pending.has_ended = true,
            _ => cx.close(id),
        }
    }

    fn closed(&mut self, _: &mut Context<'_>, id: SocketId, _: Option<&io::Error>) {
        *self.pending(id) = None;
    }
}

impl Service for Resp {
    fn requests(&self, _: &Stats) -> u64 {
        self.requests
    }
}
