//! One connection, as `proactor.net.Stream` uses it.

use super::inbox::Inbox;
use super::network::Network;
use crate::attached::Attached;
use crate::errors;
use crate::files::{wake, LoopFuture};
use crate::memory;
use proactor_net::{Address, SocketId};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::PyTraverseError;
use std::sync::Arc;

/// What has happened to a connection, and who waits for more.
pub(crate) struct State {
    pub(crate) inbox: Inbox,
    /// Unread bytes from which on nothing is received, until half of them are read.
    pub(crate) most_unread: usize,
    pub(crate) paused: bool,
    /// The peer has sent its last byte.
    pub(crate) ended: bool,
    /// More is unsent than the bound allows.
    pub(crate) full: bool,
    pub(crate) closed: bool,
    /// The errno that ended it, or 0.
    pub(crate) errno: i32,
    /// Who waits for the connection, for this many unread bytes or the end, for room to send, and for the end.
    pub(crate) connecting: Option<Py<LoopFuture>>,
    pub(crate) reading: Option<Py<LoopFuture>>,
    pub(crate) wanted: usize,
    pub(crate) sending: Vec<Py<LoopFuture>>,
    pub(crate) closing: Vec<Py<LoopFuture>>,
}

impl State {
    pub(crate) fn new() -> Self {
        State {
            inbox: Inbox::default(),
            most_unread: 128 << 10,
            paused: false,
            ended: false,
            full: false,
            closed: false,
            errno: 0,
            connecting: None,
            reading: None,
            wanted: 0,
            sending: Vec::new(),
            closing: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.ended || self.closed
    }

    fn error(&self, py: Python<'_>) -> PyErr {
        match self.errno {
            0 => PyConnectionResetError::new_err((libc::ECONNRESET, "the connection is closed")),
            errno => errors::io_error(py, &std::io::Error::from_raw_os_error(errno), "stream"),
        }
    }
}

/// A connection's state, which the connection's slot and its `NetStream` share.
pub(crate) type Shared = Arc<Attached<State>>;

/// A connection: unread bytes, and calls that never wait. Made by `Network`; `proactor.net.Stream` stands on it.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct NetStream {
    network: Py<Network>,
    id: SocketId,
    state: Shared,
}

impl NetStream {
    pub(crate) fn new(network: Py<Network>, id: SocketId, state: Shared) -> Self {
        NetStream { network, id, state }
    }

    /// Gives up read bytes, and receives again if that was stopped.
    fn consumed(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let mut state = self.state.borrow_mut(py)?;
        state.inbox.consume(count);
        let resumes = state.paused && state.inbox.len() <= state.most_unread / 2;
        if resumes {
            state.paused = false;
            drop(state);
            self.network.get().with(py, |cx| cx.resume(self.id))?;
            Network::schedule(self.network.bind(py))?;
        }
        Ok(())
    }

    fn taken(&self, py: Python<'_>, count: usize) -> PyResult<Py<PyBytes>> {
        let bytes = memory::bytes(py, &self.state.borrow(py)?.inbox.unread()[..count])?.unbind();
        self.consumed(py, count)?;
        Ok(bytes)
    }

    fn address(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&mut proactor_net::Context<'_>) -> Option<Address>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let address = self.network.get().with(py, of)?;
        address.map(|address| to_python(py, &address)).transpose()
    }
}

/// An address as the `socket` module has it.
pub(crate) fn to_python(py: Python<'_>, address: &Address) -> PyResult<Py<PyAny>> {
    use std::net::SocketAddr;
    let any = match address {
        Address::Inet(SocketAddr::V4(v4)) => (v4.ip().to_string(), v4.port()).into_pyobject(py)?.into_any(),
        Address::Inet(SocketAddr::V6(v6)) => {
            let all = (v6.ip().to_string(), v6.port(), v6.flowinfo(), v6.scope_id());
            all.into_pyobject(py)?.into_any()
        }
        Address::Unix(path) => path.as_os_str().into_pyobject(py)?.into_any(),
        // allocates: a name of the kernel's, of at most 107 bytes
        Address::Abstract(name) => memory::bytes(py, &[&[0], name.as_slice()].concat())?.into_any(),
    };
    Ok(any.unbind())
}

#[pymethods]
impl NetStream {
    /// At most `most` unread bytes, all if it is negative. `b""` at the end, None if nothing is there yet.
    fn take(&self, py: Python<'_>, most: isize) -> PyResult<Option<Py<PyBytes>>> {
        let state = self.state.borrow(py)?;
        let count = state.inbox.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if count == 0 && most != 0 {
            if !state.is_over() {
                return Ok(None);
            }
            if state.errno != 0 {
                return Err(state.error(py));
            }
        }
        drop(state);
        self.taken(py, count).map(Some)
    }

    /// Exactly `count` unread bytes; None if there are fewer yet.
    fn take_exactly(&self, py: Python<'_>, count: usize) -> PyResult<Option<Py<PyBytes>>> {
        if self.state.borrow(py)?.inbox.len() < count {
            return Ok(None);
        }
        self.taken(py, count).map(Some)
    }

    /// The number of unread bytes up to the end of the first `separator`, or -1. `anew` is for another separator than the last
    /// search's.
    fn find(&self, py: Python<'_>, separator: &[u8], anew: bool) -> PyResult<isize> {
        if separator.is_empty() {
            return Err(PyValueError::new_err(
                "Separator should be at least one-byte string",
            ));
        }
        let mut state = self.state.borrow_mut(py)?;
        if anew {
            state.inbox.search_anew();
        }
        Ok(state.inbox.find(separator).map_or(-1, |end| end as isize))
    }

    /// Unread bytes.
    fn unread(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.state.borrow(py)?.inbox.len())
    }

    /// Whether the peer has sent its last byte, or the connection is closed. Unread bytes may be left.
    fn ended(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.state.borrow(py)?.is_over())
    }

    /// Whether the descriptor is closed.
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.state.borrow(py)?.closed)
    }

    /// Raises what ended the connection, if it was an error.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.borrow(py)?;
        if state.errno == 0 {
            return Ok(());
        }
        Err(state.error(py))
    }

    /// Unread bytes from which on nothing is received.
    fn set_most_unread(&self, py: Python<'_>, most: usize) -> PyResult<()> {
        self.state.borrow_mut(py)?.most_unread = most.max(1);
        Ok(())
    }

    /// A future that is done when there are at least `wanted` unread bytes or the last one has come.
    fn wait_readable(&self, py: Python<'_>, wanted: usize) -> PyResult<Py<LoopFuture>> {
        let future = self.network.get().new_future(py)?;
        let mut state = self.state.borrow_mut(py)?;
        if let Some(other) = &state.reading {
            if !other.borrow(py).done() {
                return Err(PyRuntimeError::new_err(
                    "another coroutine is already waiting for bytes of this stream",
                ));
            }
        }
        if state.inbox.len() >= wanted || state.is_over() {
            drop(state);
            wake(&future)?;
            return Ok(future.unbind());
        }
        state.wanted = wanted;
        let previous = state.reading.replace(future.clone().unbind());
        // More is wanted than may be unread: it has to be received all the same.
        let resumes = std::mem::take(&mut state.paused);
        drop(state);
        drop(previous);
        if resumes {
            self.network.get().with(py, |cx| cx.resume(self.id))?;
            Network::schedule(self.network.bind(py))?;
        }
        Ok(future.unbind())
    }

    /// A future that is done when there is room to send; None if there is room now.
    fn wait_writable(&self, py: Python<'_>) -> PyResult<Option<Py<LoopFuture>>> {
        let state = self.state.borrow(py)?;
        if state.closed && state.errno != 0 {
            return Err(state.error(py));
        }
        if !state.full || state.closed {
            return Ok(None);
        }
        drop(state);
        let future = self.network.get().new_future(py)?.unbind();
        // allocates: one reference
        self.state.borrow_mut(py)?.sending.push(future.clone_ref(py));
        Ok(Some(future))
    }

    /// A future that is done when the descriptor is closed; None if it is.
    fn wait_closed(&self, py: Python<'_>) -> PyResult<Option<Py<LoopFuture>>> {
        if self.state.borrow(py)?.closed {
            return Ok(None);
        }
        let future = self.network.get().new_future(py)?.unbind();
        // allocates: one reference
        self.state.borrow_mut(py)?.closing.push(future.clone_ref(py));
        Ok(Some(future))
    }

    /// Sends bytes, in order: what the kernel does not take at once is kept. False if more is unsent than the bound allows.
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        let network = self.network.get();
        let state = self.state.borrow(py)?;
        if state.closed {
            // A loop that is closed is the better reason.
            network.with(py, |_| ())?;
            return Err(state.error(py));
        }
        drop(state);
        let (room, queued) = if let Ok(bytes) = data.cast::<PyBytes>() {
            network.with(py, |cx| send(cx, self.id, bytes.as_bytes()))?
        } else {
            let buffer = PyBuffer::<u8>::get(data)?;
            if !buffer.is_c_contiguous() {
                return Err(PyValueError::new_err("a buffer of contiguous bytes is needed"));
            }
            // SAFETY: a live, contiguous buffer; no other code runs while its bytes are copied or sent, as the GIL is held.
            let bytes =
                unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
            network.with(py, |cx| send(cx, self.id, bytes))?
        };
        if !room {
            self.state.borrow_mut(py)?.full = true;
        }
        if queued {
            Network::schedule(self.network.bind(py))?;
        }
        Ok(room)
    }

    /// Bytes that the kernel has not taken yet.
    fn unsent(&self, py: Python<'_>) -> PyResult<usize> {
        if self.state.borrow(py)?.closed {
            return Ok(0);
        }
        self.network.get().with(py, |cx| cx.unsent(self.id))
    }

    /// Closes the connection when everything is sent.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |cx, id| cx.close(id))
    }

    /// Closes the connection at once; the peer gets a reset.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |cx, id| cx.abort(id))
    }

    /// Shuts the sending side down when everything is sent.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |cx, id| cx.shutdown(id))
    }

    /// The peer's address, or None.
    fn peer(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.address(py, |cx| cx.peer(self.id))
    }

    /// The own address, or None.
    fn local(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.address(py, |cx| cx.local(self.id))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.network)?;
        let Some(state) = self.state.seen_by_collector() else {
            return Ok(());
        };
        visit.call(&state.connecting)?;
        visit.call(&state.reading)?;
        let rest = state.sending.iter().chain(&state.closing);
        rest.into_iter().try_for_each(|future| visit.call(future))
    }
}

impl NetStream {
    fn end(
        &self,
        py: Python<'_>,
        how: impl FnOnce(&mut proactor_net::Context<'_>, SocketId),
    ) -> PyResult<()> {
        if self.state.borrow(py)?.closed {
            return Ok(());
        }
        self.network.get().with(py, |cx| how(cx, self.id))?;
        Network::schedule(self.network.bind(py))
    }
}

/// Whether there is room for more, and whether bytes wait for the next turn.
fn send(cx: &mut proactor_net::Context<'_>, id: SocketId, bytes: &[u8]) -> (bool, bool) {
    let room = cx.send(id, bytes);
    (room, cx.unsent(id) > 0 || !cx.is_open(id))
}
