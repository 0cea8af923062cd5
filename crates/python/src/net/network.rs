//! One network per event loop: its sockets, and their turns.

use super::events::{Connections, Events, News};
use super::stream::{to_python, NetStream, Shared};
use crate::attached::Attached;
use crate::errors;
use crate::files::{from_the_loop, new_future_of, running_loop, wake, LoopFuture};
use crate::python_code;
use crate::thread_bound::ThreadBound;
use proactor_net::{Address, Config, Context, Hidden, SocketId, Sockets};
use pyo3::exceptions::{PyNotImplementedError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};
use pyo3::PyTraverseError;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// What the network's loop calls for a listener: with each accepted connection, and with an error when none can be accepted.
struct Listening {
    id: SocketId,
    accepted: Py<PyAny>,
    failed: Py<PyAny>,
}

struct Timer {
    /// When it goes off.
    at: Instant,
    /// The loop's, which can be cancelled.
    handle: Py<PyAny>,
}

struct Inside {
    sockets: ThreadBound<Sockets>,
    connections: Connections,
    listening: Vec<Listening>,
    /// The loop will make a turn.
    scheduled: bool,
    /// The loop will make one at a later time, too.
    timer: Option<Timer>,
    /// What the loop watches: a copy, for the sockets' own goes with its thread.
    watched: Option<OwnedFd>,
    closed: bool,
}

/// The sockets of one event loop. Made by `network`; not for direct use.
#[pyclass(frozen, weakref, module = "proactor._native")]
pub(crate) struct Network {
    inside: Attached<Inside>,
    event_loop: Py<PyWeakrefReference>,
}

/// loop -> {engine name: Network}, weak in both: the loop itself has its networks, by their readers.
static REGISTRY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The running loop's sockets, on io_uring if `engine` is "auto" and that works here, on epoll if it is "epoll".
#[pyfunction]
pub(super) fn network<'py>(py: Python<'py>, engine: &str) -> PyResult<Bound<'py, Network>> {
    let event_loop = running_loop(py)?;
    let registry = REGISTRY.get_or_try_init(py, || -> PyResult<_> {
        let weak = py.import("weakref")?.getattr("WeakKeyDictionary")?;
        Ok(weak.call0()?.unbind())
    })?;
    let none_yet = PyDict::new(py);
    let args = [&event_loop, none_yet.as_any()];
    let per_engine = python_code::call_method(registry.bind(py), intern!(py, "setdefault"), args)?;
    let per_engine = per_engine.cast_into::<PyDict>()?;
    let known = per_engine
        .get_item(engine)?
        .and_then(|weak| weak.cast_into::<PyWeakrefReference>().ok()?.upgrade())
        .and_then(|network| network.cast_into::<Network>().ok());
    if let Some(network) = known.filter(|network| network.get().is_usable(py)) {
        return Ok(network);
    }
    let network = make(py, &event_loop, engine)?;
    per_engine.set_item(engine, PyWeakrefReference::new(network.as_any())?)?;
    Ok(network)
}

fn make<'py>(py: Python<'py>, event_loop: &Bound<'py, PyAny>, engine: &str) -> PyResult<Bound<'py, Network>> {
    let config = Config::default().answers_later(true);
    let config = match engine {
        "auto" => config,
        "epoll" => config.hide(Hidden {
            ring: true,
            ..Hidden::default()
        }),
        other => {
            return Err(PyValueError::new_err(format!(
                "engine must be 'auto' or 'epoll', not '{other}'"
            )))
        }
    };
    let mut sockets = config.build().map_err(|e| errors::no_engine(py, &e, "net"))?;
    let fd = sockets.descriptor();
    // SAFETY: the sockets have it open.
    let watched = fd.and_then(|fd| unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned());
    let watched = watched.map_err(|e| errors::io_error(py, &e, "net"))?;
    let fd = watched.as_raw_fd();
    let inside = Inside {
        sockets: ThreadBound::new(sockets),
        connections: Connections::default(),
        listening: Vec::new(),
        scheduled: false,
        timer: None,
        watched: Some(watched),
        closed: false,
    };
    let network = Network {
        inside: Attached::new(inside),
        event_loop: PyWeakrefReference::new(event_loop)?.unbind(),
    };
    let network = Bound::new(py, network)?;
    let reader = NetReader {
        network: Some(network.clone().unbind()),
    };
    let (fd, reader) = (fd.into_pyobject(py)?, Bound::new(py, reader)?);
    let args = [fd.as_any(), reader.as_any()];
    python_code::call_method(event_loop, intern!(py, "add_reader"), args).map_err(|e| {
        if e.is_instance_of::<PyNotImplementedError>(py) {
            PyRuntimeError::new_err("proactor needs an event loop with add_reader()")
        } else {
            e
        }
    })?;
    Ok(network)
}

impl Network {
    fn is_usable(&self, py: Python<'_>) -> bool {
        self.inside
            .borrow_mut(py)
            .is_ok_and(|mut inside| !inside.closed && inside.sockets.get().is_ok())
    }

    /// Calls `with` with the sockets, between two turns.
    ///
    /// # Errors
    /// RuntimeError in another thread than the loop's and in a forked child, and when the loop is closed.
    pub(super) fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Context<'_>) -> R) -> PyResult<R> {
        let mut inside = self.inside.borrow_mut(py)?;
        if inside.closed {
            return Err(PyRuntimeError::new_err("the event loop of this stream is closed"));
        }
        Ok(inside.sockets.get()?.with(with))
    }

    /// Sees to it that what has been asked for reaches the kernel in this turn of the loop.
    pub(super) fn schedule(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if std::mem::replace(&mut this.inside.borrow_mut(py)?.scheduled, true) {
            return Ok(());
        }
        let scheduled = this
            .event_loop
            .bind(py)
            .upgrade()
            .ok_or_else(loop_is_gone)
            .and_then(|event_loop| {
                let turn = slf.getattr(intern!(py, "_turn"))?;
                python_code::call_method(&event_loop, intern!(py, "call_soon"), [&turn])
            });
        if let Err(e) = scheduled {
            this.inside.borrow_mut(py)?.scheduled = false;
            return Err(e);
        }
        Ok(())
    }

    /// A future of this network's loop.
    ///
    /// # Errors
    /// RuntimeError in another thread than the loop's, and when the loop is gone.
    pub(super) fn new_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, LoopFuture>> {
        self.with(py, |_| ())?;
        let event_loop = self.event_loop.bind(py).upgrade();
        new_future_of(event_loop.ok_or_else(loop_is_gone)?)
    }

    fn has_work(&self, py: Python<'_>) -> PyResult<bool> {
        let mut inside = self.inside.borrow_mut(py)?;
        Ok(!inside.closed && inside.sockets.get()?.has_work())
    }

    /// Has the loop make a turn when one is due by the clock, unless it will make one before.
    fn set_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut inside = slf.get().inside.borrow_mut(py)?;
        if inside.closed {
            return Ok(());
        }
        let Some(left) = inside.sockets.get()?.next_timer() else {
            return Ok(());
        };
        let now = Instant::now();
        let at = now + left;
        let is_set = inside
            .timer
            .as_ref()
            .is_some_and(|timer| timer.at <= at && timer.at > now);
        if is_set {
            return Ok(());
        }
        let old = inside.timer.take();
        drop(inside);
        if let Some(old) = old {
            python_code::call_method(old.handle.bind(py), intern!(py, "cancel"), [])?;
        }
        let Some(event_loop) = slf.get().event_loop.bind(py).upgrade() else {
            return Ok(());
        };
        let delay = left.as_secs_f64().into_pyobject(py)?;
        let turn = slf.getattr(intern!(py, "_turn"))?;
        let args = [delay.as_any(), &turn];
        let handle = python_code::call_method(&event_loop, intern!(py, "call_later"), args)?.unbind();
        slf.get().inside.borrow_mut(py)?.timer = Some(Timer { at, handle });
        Ok(())
    }

    fn turn(&self, py: Python<'_>) -> PyResult<News> {
        let mut inside = self.inside.borrow_mut(py)?;
        let inside = &mut *inside;
        inside.scheduled = false;
        if inside.closed {
            return Ok(News::default());
        }
        let mut events = Events {
            py,
            connections: &mut inside.connections,
            news: News::default(),
        };
        let turned = inside.sockets.get()?.turn(&mut events, Some(Duration::ZERO));
        let news = events.news;
        match turned {
            Ok(()) => Ok(news),
            Err(e) => {
                drop(news);
                Err(errors::io_error(py, &e, "wait"))
            }
        }
    }

    /// Makes a turn and tells whoever has to be told.
    fn turn_and_tell(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let news = slf.get().turn(py)?;
        let mut outcome = Ok(());
        // One that fails must not keep the others from hearing of theirs.
        for (listener, id, state) in news.accepted {
            outcome = outcome.and(slf.get().tell_accepted(slf, listener, id, state));
        }
        for (listener, error) in news.failed {
            outcome = outcome.and(slf.get().tell_failed(py, listener, &error));
        }
        for future in news.woken {
            outcome = outcome.and(wake(future.bind(py)).map(drop));
        }
        // Receives to be armed, among others.
        if slf.get().has_work(py)? {
            outcome = outcome.and(Self::schedule(slf));
        }
        outcome.and(Self::set_timer(slf))
    }

    fn callbacks(&self, py: Python<'_>, listener: SocketId) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let inside = self.inside.borrow(py)?;
        let found = inside.listening.iter().find(|one| one.id == listener);
        Ok(found.map(|one| (one.accepted.clone_ref(py), one.failed.clone_ref(py))))
    }

    fn tell_accepted(
        &self,
        slf: &Bound<'_, Self>,
        listener: SocketId,
        id: SocketId,
        state: Shared,
    ) -> PyResult<()> {
        let py = slf.py();
        let Some((accepted, _)) = self.callbacks(py, listener)? else {
            // The listener was closed in this turn.
            return self.with(py, |cx| cx.abort(id));
        };
        let stream = Bound::new(py, NetStream::new(slf.clone().unbind(), id, state))?;
        let args = (stream,).into_pyobject(py)?;
        python_code::call(accepted.bind(py), &args).map(drop)
    }

    fn tell_failed(&self, py: Python<'_>, listener: SocketId, error: &std::io::Error) -> PyResult<()> {
        let Some((_, failed)) = self.callbacks(py, listener)? else {
            return Ok(());
        };
        let args = (errors::io_error(py, error, "accept"),).into_pyobject(py)?;
        python_code::call(failed.bind(py), &args).map(drop)
    }

    /// The loop is gone: all sockets are closed, and whoever waits is let go.
    fn leave(&self, py: Python<'_>) {
        let left = self.inside.get(py).map(|mut inside| {
            inside.closed = true;
            inside.watched = None;
            inside.sockets.let_go();
            (
                inside.connections.take_all(),
                std::mem::take(&mut inside.listening),
                inside.timer.take(),
            )
        });
        // Not while it is borrowed: the end of a callback runs Python code.
        let Some((connections, listening, timer)) = left else {
            return;
        };
        for state in &connections {
            if let Some(mut state) = state.get(py) {
                state.closed = true;
            }
        }
        drop((connections, listening, timer));
    }
}

fn loop_is_gone() -> PyErr {
    PyRuntimeError::new_err("the event loop of this stream is gone")
}

/// An address of the `socket` module's kind: `(host, port)`, `(host, port, flowinfo, scope_id)`, or a path.
fn address_of(address: &Bound<'_, PyAny>) -> PyResult<Address> {
    if let Ok((host, port)) = address.extract::<(String, u16)>() {
        return Ok(Address::Inet(SocketAddr::new(ip(&host)?, port)));
    }
    if let Ok((host, port, flow, scope)) = address.extract::<(String, u16, u32, u32)>() {
        // A scope may also stand in the host, which the resolver has put into the number.
        return Ok(match ip(host.split('%').next().unwrap_or_default())? {
            IpAddr::V6(v6) => Address::Inet(SocketAddrV6::new(v6, port, flow, scope).into()),
            v4 => Address::Inet(SocketAddr::new(v4, port)),
        });
    }
    let bytes: Vec<u8> = python_code::fspath(address).and_then(|path| {
        let path: std::ffi::OsString = path.extract().or_else(|_| {
            path.extract::<Vec<u8>>()
                .map(std::os::unix::ffi::OsStringExt::from_vec)
        })?;
        Ok(std::os::unix::ffi::OsStringExt::into_vec(path))
    })?;
    Ok(match bytes.split_first() {
        Some((0, name)) => Address::Abstract(name.to_vec()), // allocates: a name of the program's own
        // allocates: a name of the program's own, which is moved
        _ => Address::Unix(std::path::PathBuf::from(
            <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes),
        )),
    })
}

fn ip(host: &str) -> PyResult<IpAddr> {
    host.parse()
        .map_err(|_| PyValueError::new_err(format!("'{host}' is not an IP address")))
}

fn failed_at(py: Python<'_>, error: &proactor_net::Error, address: &Bound<'_, PyAny>) -> PyErr {
    let Some(errno) = error.errno() else {
        return errors::no_engine(py, &error.source, error.op);
    };
    let raised = PyOSError::new_err((errno, error.to_string())).into_value(py);
    let _ = raised.bind(py).setattr("op", error.op);
    if address.extract::<(String, u16)>().is_err() {
        let _ = raised.bind(py).setattr("filename", address);
    }
    PyErr::from_value(raised.into_bound(py).into_any())
}

#[pymethods]
impl Network {
    /// Listens. `accepted` is called with each connection's `NetStream`, `failed` with an error while none can be accepted.
    /// Returns a number for `close_listener`, and the address.
    fn listen(
        slf: &Bound<'_, Self>,
        address: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = crate::whole::listen_backlog)] backlog: u32,
        reuse_port: bool,
        accepted: Py<PyAny>,
        failed: Py<PyAny>,
    ) -> PyResult<(usize, Option<Py<PyAny>>)> {
        let py = slf.py();
        let to = address_of(address)?;
        let this = slf.get();
        let listened = this.with(py, |cx| {
            cx.listen(&to, backlog, reuse_port).map(|id| (id, cx.local(id)))
        })?;
        let (id, local) = listened.map_err(|e| failed_at(py, &e, address))?;
        let one = Listening { id, accepted, failed };
        // allocates: one listener
        this.inside.borrow_mut(py)?.listening.push(one);
        Self::schedule(slf)?;
        Ok((id.index(), local.map(|local| to_python(py, &local)).transpose()?))
    }

    /// Stops listening.
    fn close_listener(slf: &Bound<'_, Self>, listener: usize) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut inside = this.inside.borrow_mut(py)?;
        let Some(at) = inside.listening.iter().position(|one| one.id.index() == listener) else {
            return Ok(());
        };
        let one = inside.listening.swap_remove(at);
        drop(inside);
        this.with(py, |cx| cx.close(one.id))?;
        Self::schedule(slf)
    }

    /// Begins to connect. Returns the stream and a future that is done when it is connected or closed.
    fn connect(slf: &Bound<'_, Self>, address: &Bound<'_, PyAny>) -> PyResult<(NetStream, Py<LoopFuture>)> {
        let py = slf.py();
        let to = address_of(address)?;
        let this = slf.get();
        let future = this.new_future(py)?.unbind();
        let id = this
            .with(py, |cx| cx.connect(&to))?
            .map_err(|e| failed_at(py, &e, address))?;
        let state = this.inside.borrow_mut(py)?.connections.add(id);
        state.borrow_mut(py)?.connecting = Some(future.clone_ref(py));
        Self::schedule(slf)?;
        Ok((NetStream::new(slf.clone().unbind(), id, state), future))
    }

    /// What the sockets are on, and why not on io_uring: `(name, reason)`; the reason is empty for io_uring.
    fn chosen(&self, py: Python<'_>) -> PyResult<(&'static str, String)> {
        let mut inside = self.inside.borrow_mut(py)?;
        Ok(match inside.sockets.get()?.chosen() {
            proactor_net::Chosen::Uring => ("io_uring", String::new()),
            proactor_net::Chosen::Epoll(why) => ("epoll", why.clone()),
        })
    }

    /// Connections that are open.
    fn connections(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.inside.borrow(py)?.connections.len())
    }

    /// What `schedule` schedules.
    fn _turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        from_the_loop(slf.py(), || Self::turn_and_tell(slf))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(inside) = self.inside.seen_by_collector() else {
            return Ok(());
        };
        if let Some(timer) = &inside.timer {
            visit.call(&timer.handle)?;
        }
        inside.listening.iter().try_for_each(|one| {
            visit.call(&one.accepted)?;
            visit.call(&one.failed)
        })
    }
}

/// A loop's reader. It owns the network, as `files::reader` owns a driver.
#[pyclass(module = "proactor._native")]
struct NetReader {
    /// None when the collector has cleared it.
    network: Option<Py<Network>>,
}

#[pymethods]
impl NetReader {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(network) = &self.network else {
            return Ok(());
        };
        from_the_loop(py, || Network::turn_and_tell(network.bind(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.network)
    }

    fn __clear__(&mut self) {
        self.leave();
    }
}

impl NetReader {
    fn leave(&mut self) {
        let Some(network) = self.network.take() else {
            return;
        };
        errors::in_drop(|py| network.get().leave(py));
    }
}

impl Drop for NetReader {
    fn drop(&mut self) {
        self.leave();
    }
}
