//! What a turn takes note of. No Python code runs meanwhile: who has to be told is told after the turn.

use super::stream::{Shared, State};
use crate::attached::Attached;
use crate::files::LoopFuture;
use proactor_net::{Context, Handler, SocketId};
use pyo3::prelude::*;
use std::io;
use std::sync::Arc;

/// The connections of a network, by their index.
#[derive(Default)]
pub(crate) struct Connections(Vec<Option<Shared>>);

impl Connections {
    pub(crate) fn add(&mut self, id: SocketId) -> Shared {
        let state: Shared = Arc::new(Attached::new(State::new()));
        if self.0.len() <= id.index() {
            // allocates: one pointer per connection
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(Arc::clone(&state));
        state
    }

    fn get(&self, id: SocketId) -> Option<&Shared> {
        self.0.get(id.index())?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Shared> {
        std::mem::take(&mut self.0).into_iter().flatten().collect() // allocates: one pointer per connection
    }
}

/// Who is to be told of what.
#[derive(Default)]
pub(crate) struct News {
    /// Accepted connections, each with its listener.
    pub(crate) accepted: Vec<(SocketId, SocketId, Shared)>,
    pub(crate) woken: Vec<Py<LoopFuture>>,
    /// Listeners that cannot accept for now, and why.
    pub(crate) failed: Vec<(SocketId, io::Error)>,
}

/// A turn's handler.
pub(crate) struct Events<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) connections: &'a mut Connections,
    pub(crate) news: News,
}

impl Events<'_, '_> {
    fn change(&mut self, id: SocketId, change: impl FnOnce(&mut State, &mut News)) {
        let Some(state) = self.connections.get(id).cloned() else {
            return;
        };
        // Nobody has it borrowed: a turn is made by the loop, or between two calls.
        if let Some(mut state) = state.get(self.py) {
            change(&mut state, &mut self.news);
        };
    }
}

/// Ends the wait of whoever reads.
fn wake_reader(state: &mut State, news: &mut News) {
    news.woken.extend(state.reading.take()); // allocates: one reference
}

fn wake_senders(state: &mut State, news: &mut News) {
    news.woken.append(&mut state.sending);
}

impl Handler for Events<'_, '_> {
    fn accepted(&mut self, _: &mut Context<'_>, listener: SocketId, id: SocketId) {
        let state = self.connections.add(id);
        self.news.accepted.push((listener, id, state)); // allocates: one connection
    }

    fn opened(&mut self, _: &mut Context<'_>, id: SocketId) {
        // allocates: one reference
        self.change(id, |state, news| news.woken.extend(state.connecting.take()));
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.change(id, |state, news| {
            if state.inbox.push(bytes).is_err() {
                state.errno = libc::ENOMEM;
                cx.abort(id);
                return;
            }
            let unread = state.inbox.len();
            if state.reading.is_some() && unread >= state.wanted {
                wake_reader(state, news);
            }
            if unread > state.most_unread && state.reading.is_none() {
                state.paused = true;
                cx.pause(id);
            }
        });
    }

    fn ended(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.change(id, |state, news| {
            state.ended = true;
            wake_reader(state, news);
        });
    }

    fn writable(&mut self, _: &mut Context<'_>, id: SocketId) {
        self.change(id, |state, news| {
            state.full = false;
            wake_senders(state, news);
        });
    }

    fn closed(&mut self, _: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        self.change(id, |state, news| {
            state.closed = true;
            let errno = error.map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            if state.errno == 0 {
                state.errno = errno;
            }
            wake_reader(state, news);
            wake_senders(state, news);
            news.woken.extend(state.connecting.take()); // allocates: one reference
            news.woken.append(&mut state.closing);
        });
        self.connections.0[id.index()] = None;
    }

    fn accept_failed(&mut self, _: &mut Context<'_>, listener: SocketId, error: &io::Error) {
        let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
        self.news.failed.push((listener, error)); // allocates: one error
    }
}
