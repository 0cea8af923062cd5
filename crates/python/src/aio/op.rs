//! The ops of `proactor.aio`: Python objects that can be submitted again and again.

use super::aligned::for_reading;
use super::priority::PyPriority;
use super::subject;
use crate::free;
use crate::memory;
use proactor_engine::op::{self as engine, Events, RwFlags};
use proactor_engine::{Options, Token};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyMemoryView, PyTuple};
use pyo3::PyTraverseError;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Linux, `UIO_MAXIOV`.
const UIO_MAXIOV: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    ReadV,
    WriteV,
    Fsync,
    Fdatasync,
    Poll,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Submitted(Token),
    Done,
}

/// One thing to do; the base of Read, Write, ReadV, WriteV, Fsync, Fdatasync and Poll, and not made itself.
///
/// An op may be submitted again once its event has been taken. While it is submitted, nothing about it can be changed
/// (RuntimeError), and its buffers are exported: a bytearray, for one, refuses to be resized (BufferError). Ops are equal
/// and hash by identity. A number that is no open descriptor is an event with EBADF; a file object that is closed raises
/// ValueError at `submit`. A path (str, bytes, path-like; not for `Poll`) is opened by `submit` for this one time, for
/// writing by a write and for reading by all others, never created, and closed when the op is done; `submit` raises the
/// OSError of that.
#[pyclass(subclass, module = "proactor.aio")]
pub(crate) struct Op {
    kind: Kind,
    state: State,
    file: Py<PyAny>,
    pub(super) offset: Option<u64>,
    buffers: Vec<Py<PyAny>>,
    pub(super) events: u16,
    pub(super) rw_flags: u32,
    pub(super) priority: Option<PyPriority>,
    resfd: Option<Py<PyAny>>,
    user_data: Option<Py<PyAny>>,
}

/// What a constructor collects besides the file.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) offset: Option<u64>,
    pub(super) rw_flags: u32,
    pub(super) priority: Option<PyPriority>,
    pub(super) resfd: Option<Py<PyAny>>,
    pub(super) user_data: Option<Py<PyAny>>,
}

/// The descriptor of an int or of an object with `fileno()`.
pub(crate) fn descriptor(file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    // SAFETY: a live object; the function sets an exception when it returns -1. It is the same as `os.read` uses.
    let fd = unsafe { ffi::PyObject_AsFileDescriptor(file.as_ptr()) };
    if fd < 0 {
        return Err(PyErr::take(file.py()).unwrap_or_else(|| PyValueError::new_err("a negative descriptor")));
    }
    Ok(fd)
}

/// A duplicate of an eventfd: the caller may close its own before the op is done.
fn eventfd(object: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    let refused =
        |errno: i32, why: &str| PyOSError::new_err((errno, format!("{why}: resfd must be an eventfd")));
    let fd = descriptor(object)?;
    // SAFETY: the descriptor is only borrowed for the duplication; a wrong number gives EBADF.
    let duplicate = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
        .try_clone_to_owned()
        .map_err(|_| refused(libc::EBADF, "Bad file descriptor"))?;
    // Without /proc nobody can tell; then it is written to like any other.
    match std::fs::read_link(format!("/proc/self/fd/{}", duplicate.as_raw_fd())) {
        Ok(what) if what.as_os_str() != "anon_inode:[eventfd]" => {
            Err(refused(libc::EINVAL, "Invalid argument"))
        }
        _ => Ok(duplicate),
    }
}

impl Kind {
    /// What an OSError's `op` says.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::ReadV => "readv",
            Kind::WriteV => "writev",
            Kind::Fsync => "fsync",
            Kind::Fdatasync => "fdatasync",
            Kind::Poll => "poll",
        }
    }
}

impl Op {
    pub(super) fn make(
        kind: Kind,
        file: &Bound<'_, PyAny>,
        buffers: Vec<Py<PyAny>>,
        rest: Rest,
    ) -> PyResult<Self> {
        subject::check(kind, file)?;
        check_priority(kind, rest.priority)?;
        check_rw_flags(kind, rest.rw_flags)?;
        let Rest {
            offset,
            rw_flags,
            priority,
            resfd,
            user_data,
        } = rest;
        let file = file.clone().unbind();
        let state = State::New;
        Ok(Op {
            kind,
            state,
            file,
            offset,
            buffers,
            events: 0,
            rw_flags,
            priority,
            resfd,
            user_data,
        })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::ReadV)
    }

    pub(super) fn is_vectored(&self) -> bool {
        matches!(self.kind, Kind::ReadV | Kind::WriteV)
    }

    pub(super) fn buffers(&self) -> &[Py<PyAny>] {
        &self.buffers
    }

    pub(super) fn user_data_of(&self, py: Python<'_>) -> Py<PyAny> {
        self.user_data
            .as_ref()
            .map_or_else(|| py.None(), |data| data.clone_ref(py))
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self.state {
            State::Submitted(token) => Some(token),
            _ => None,
        }
    }

    pub(super) fn is_new(&self) -> bool {
        self.state == State::New
    }

    pub(super) fn submitted(&mut self, token: Token) {
        self.state = State::Submitted(token);
    }

    pub(super) fn done(&mut self) {
        self.state = State::Done;
    }

    /// The name of the file, where the file object has one: what an OSError shows.
    pub(super) fn filename<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let file = self.file.bind(py);
        if subject::is_path(file).unwrap_or(false) {
            return Some(file.clone());
        }
        let name = file.getattr("name").ok()?;
        (!name.is_instance_of::<pyo3::types::PyInt>()).then_some(name)
    }

    /// The engine's op, with the buffers exported.
    pub(super) fn prepare(&self, py: Python<'_>) -> PyResult<(engine::Op, Options)> {
        if let State::Submitted(_) = self.state {
            return Err(PyValueError::new_err(
                "this op is in flight already: take its event first",
            ));
        }
        let file = subject::handle(self.kind, self.file.bind(py))?;
        let mut options = Options::default();
        if let Some(priority) = self.priority {
            options.priority = priority.to_engine();
        }
        if let Some(resfd) = &self.resfd {
            options.notify = Some(Arc::new(eventfd(resfd.bind(py))?));
        }
        let flags = RwFlags::from_bits(self.rw_flags as i32);
        let single = |writable| memory::buffer(self.buffers[0].bind(py), writable);
        let vector = |writable| {
            let buffers = self.buffers.iter();
            memory::collected(buffers.map(|b| memory::buffer(b.bind(py), writable)))
        };
        let op: engine::Op = match self.kind {
            Kind::Read => {
                let mut op = engine::Read::new(file, single(true)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::Write => {
                let mut op = engine::Write::new(file, single(false)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::ReadV => {
                let mut op = engine::ReadV::new(file, vector(true)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::WriteV => {
                let mut op = engine::WriteV::new(file, vector(false)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::Fsync => engine::Fsync::new(file).into(),
            Kind::Fdatasync => engine::Fsync::data(file).into(),
            Kind::Poll => engine::Poll::new(file, Events::from_bits(self.events)).into(),
        };
        Ok((op, options))
    }

    /// The buffer as given; a tuple of them for a vectored op; None for an op without one.
    pub(super) fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.kind {
            Kind::ReadV | Kind::WriteV => Ok(PyTuple::new(py, &self.buffers)?.into_any()),
            _ => Ok(self
                .buffers
                .first()
                .map_or_else(|| py.None(), |b| b.clone_ref(py))
                .into_bound(py)),
        }
    }

    pub(super) fn set_memory(&mut self, py: Python<'_>, memory: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unlocked()?;
        self.buffers = memory_of(py, self.kind, memory)?;
        Ok(())
    }

    pub(super) fn set_priority(&mut self, priority: Option<PyPriority>) -> PyResult<()> {
        self.unlocked()?;
        check_priority(self.kind, priority)?;
        self.priority = priority;
        Ok(())
    }

    pub(super) fn set_rw_flags(&mut self, flags: u32) -> PyResult<()> {
        self.unlocked()?;
        check_rw_flags(self.kind, flags)?;
        self.rw_flags = flags;
        Ok(())
    }

    pub(super) fn unlocked(&self) -> PyResult<()> {
        match self.state {
            State::Submitted(_) => Err(PyRuntimeError::new_err(
                "a submitted op cannot be changed: take its event first",
            )),
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl Op {
    /// "new", "submitted" or "done".
    #[getter]
    fn state(&self) -> &'static str {
        match self.state {
            State::New => "new",
            State::Submitted(_) => "submitted",
            State::Done => "done",
        }
    }

    /// The file: an int or an object with `fileno()`, which is asked at each `submit`; or a path, which is opened then.
    #[getter]
    fn file(&self, py: Python<'_>) -> Py<PyAny> {
        self.file.clone_ref(py)
    }

    #[setter]
    fn set_file(&mut self, file: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unlocked()?;
        subject::check(self.kind, file)?;
        self.file = file.clone().unbind();
        Ok(())
    }

    /// An eventfd (int or object with `fileno()`) to which one is added when this op is complete, or None. `submit`
    /// raises OSError, EBADF or EINVAL, if it is none.
    #[getter]
    fn resfd(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.resfd.as_ref().map(|fd| fd.clone_ref(py))
    }

    #[setter]
    fn set_resfd(&mut self, resfd: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        self.unlocked()?;
        self.resfd = check_resfd(resfd)?;
        Ok(())
    }

    /// Anything of the caller's.
    #[getter]
    fn user_data(&self, py: Python<'_>) -> Py<PyAny> {
        self.user_data_of(py)
    }

    #[setter]
    fn set_user_data(&mut self, data: Option<Py<PyAny>>) -> PyResult<()> {
        self.unlocked()?;
        self.user_data = data;
        Ok(())
    }

    // The file's own repr is the caller's code, which may wait for this very op: nothing is borrowed meanwhile.
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let file = slf.try_borrow()?.file.clone_ref(py);
        let file = file.bind(py).repr()?;
        let this = slf.try_borrow()?;
        let (kind, state) = (this.kind, this.state());
        match this.offset {
            Some(offset) => Ok(format!("<{kind:?} {file} at {offset}, {state}>")),
            None => Ok(format!("<{kind:?} {file}, {state}>")),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        visit.call(&self.user_data)?;
        visit.call(&self.resfd)?;
        self.buffers.iter().try_for_each(|buffer| visit.call(buffer))
    }

    fn __clear__(&mut self) {
        self.user_data = None;
        self.resfd = None;
        self.buffers.clear();
        Python::attach(|py| self.file = py.None());
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        // All of these may be or have another op, which has another one.
        let held = self.user_data.take().into_iter();
        let held = held.chain(self.resfd.take()).chain(self.buffers.drain(..));
        held.for_each(free::release);
    }
}

/// An offset in bytes; None is the file's position.
///
/// # Errors
/// ValueError if it is negative, OverflowError above 2**63 - 1, as `os.pread` has it.
pub(super) fn parse_offset(offset: Option<i64>) -> PyResult<Option<u64>> {
    let checked =
        |offset| u64::try_from(offset).map_err(|_| PyValueError::new_err("offset must not be negative"));
    offset.map(checked).transpose()
}

pub(super) fn check_resfd(resfd: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match resfd {
        Some(fd) => {
            descriptor(&fd)?;
            Ok(Some(fd.unbind()))
        }
        None => Ok(None),
    }
}

fn check_priority(kind: Kind, priority: Option<PyPriority>) -> PyResult<()> {
    let ignored = matches!(kind, Kind::Fsync | Kind::Fdatasync) && priority.is_some_and(|p| !p.is_none());
    if ignored {
        return Err(PyValueError::new_err(
            "the kernel would ignore the priority of an fsync: use ioprio_set(2) on the thread",
        ));
    }
    Ok(())
}

/// The kernel takes these flags for reads, and does nothing with them.
fn check_rw_flags(kind: Kind, flags: u32) -> PyResult<()> {
    let of_writes = [
        (RwFlags::DSYNC, "RWF_DSYNC"),
        (RwFlags::SYNC, "RWF_SYNC"),
        (RwFlags::APPEND, "RWF_APPEND"),
    ];
    let is_given = |flag: RwFlags| flags & flag.bits() as u32 != 0;
    match of_writes.into_iter().find(|(flag, _)| is_given(*flag)) {
        Some((_, name)) if matches!(kind, Kind::Read | Kind::ReadV) => Err(PyValueError::new_err(format!(
            "rw_flags: {name} has no effect on a read: leave it out"
        ))),
        _ => Ok(()),
    }
}

/// What an op of this kind was given as memory, checked.
pub(super) fn memory_of(py: Python<'_>, kind: Kind, memory: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    let one = |object: &Bound<'_, PyAny>| match kind {
        Kind::Read | Kind::ReadV => readable_into(py, object),
        // A buffer that can be exported, now at least.
        _ => memory::Exported::new(object, false).map(|_| object.clone().unbind()),
    };
    if matches!(kind, Kind::Read | Kind::Write) {
        return Ok(vec![one(memory)?]);
    }
    let mut buffers = Vec::new();
    for object in memory.try_iter()? {
        if buffers.len() == UIO_MAXIOV {
            return Err(PyValueError::new_err(format!(
                "the kernel takes at most {UIO_MAXIOV} buffers in one op"
            )));
        }
        proactor_engine::memory::push(&mut buffers, one(&object?)?).map_err(memory::lacking)?;
    }
    Ok(buffers)
}

fn has_dimensions(buffer: &Bound<'_, PyAny>) -> bool {
    PyMemoryView::from(buffer)
        .and_then(|view| view.getattr("ndim"))
        .and_then(|dimensions| dimensions.is_truthy())
        .unwrap_or(false)
}

/// A writable buffer, or a size for which there is memory of ours.
fn readable_into(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let refused = match memory::Exported::new(buffer, true) {
        Ok(_) => return Ok(buffer.clone().unbind()),
        Err(e) => e,
    };
    // NumPy's integers are both, a read-only buffer without dimensions and a number; its arrays have `__index__`, too.
    let is_size = buffer.is_instance_of::<PyInt>() || buffer.hasattr("__index__")? && !has_dimensions(buffer);
    if !is_size {
        return Err(refused);
    }
    let size = usize::try_from(buffer.extract::<isize>()?)
        .map_err(|_| PyValueError::new_err("a size in bytes must not be negative"))?;
    Ok(for_reading(py, size)?.into_any().unbind())
}
