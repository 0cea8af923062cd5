//! The ops of `proactor.aio`: Python objects that can be submitted again and again.

use super::priority::PyPriority;
use crate::memory;
use proactor::op::{self as engine, RwFlags};
use proactor::{Options, Token};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList, PyMemoryView};
use pyo3::PyTraverseError;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

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

/// One thing to do; the base of Read, Write, ReadV, WriteV, Fsync, Fdatasync and Poll.
///
/// An op may be submitted again once its event has been taken. While it is submitted, nothing about it can be changed
/// (RuntimeError), and its buffers are exported: a bytearray, for one, refuses to be resized (BufferError).
#[pyclass(subclass, module = "proactor.aio")]
pub(crate) struct Op {
    kind: Kind,
    state: State,
    file: Py<PyAny>,
    offset: Option<u64>,
    buffers: Vec<Py<PyAny>>,
    events: u16,
    rw_flags: i32,
    priority: Option<PyPriority>,
    resfd: Option<Py<PyAny>>,
    user_data: Option<Py<PyAny>>,
}

/// What a constructor collects besides the file.
#[derive(Default)]
struct Rest {
    offset: Option<u64>,
    rw_flags: i32,
    priority: Option<PyPriority>,
    resfd: Option<Py<PyAny>>,
    user_data: Option<Py<PyAny>>,
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

fn duplicate(fd: RawFd) -> PyResult<OwnedFd> {
    // SAFETY: the descriptor is only borrowed for the duplication; a wrong number gives EBADF.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    Ok(borrowed.try_clone_to_owned()?)
}

impl Op {
    fn make(kind: Kind, file: &Bound<'_, PyAny>, buffers: Vec<Py<PyAny>>, rest: Rest) -> PyResult<Self> {
        descriptor(file)?;
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
        let name = self.file.bind(py).getattr("name").ok()?;
        (!name.is_instance_of::<pyo3::types::PyInt>()).then_some(name)
    }

    /// The engine's op, with the buffers exported.
    pub(super) fn prepare(&self, py: Python<'_>) -> PyResult<(engine::Op, Options)> {
        if let State::Submitted(_) = self.state {
            return Err(PyValueError::new_err(
                "this op is submitted already: take its event first",
            ));
        }
        let fd = descriptor(self.file.bind(py))?;
        let mut options = Options::default();
        if let Some(priority) = self.priority {
            options.priority = priority.to_engine();
        }
        if let Some(resfd) = &self.resfd {
            // A duplicate: the caller may close its own before the op is done.
            options.notify = Some(Arc::new(duplicate(descriptor(resfd.bind(py))?)?));
        }
        let flags = RwFlags(self.rw_flags);
        let single = |writable| memory::buffer(self.buffers[0].bind(py), writable);
        let vector = |writable| {
            self.buffers
                .iter()
                .map(|b| memory::buffer(b.bind(py), writable))
                .collect::<PyResult<Vec<_>>>()
        };
        let op: engine::Op = match self.kind {
            Kind::Read => engine::Read {
                offset: self.offset,
                flags,
                ..engine::Read::new(fd, single(true)?)
            }
            .into(),
            Kind::Write => engine::Write {
                offset: self.offset,
                flags,
                ..engine::Write::new(fd, single(false)?)
            }
            .into(),
            Kind::ReadV => {
                let mut op = engine::ReadV::new(fd, vector(true)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::WriteV => {
                let mut op = engine::WriteV::new(fd, vector(false)?).flags(flags);
                op.offset = self.offset;
                op.into()
            }
            Kind::Fsync => engine::Fsync::new(fd).into(),
            Kind::Fdatasync => engine::Fsync::data(fd).into(),
            Kind::Poll => engine::Poll::new(fd, self.events as i16).into(),
        };
        Ok((op, options))
    }

    fn unlocked(&self) -> PyResult<()> {
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

    /// The file: an int or an object with `fileno()`.
    #[getter]
    fn file(&self, py: Python<'_>) -> Py<PyAny> {
        self.file.clone_ref(py)
    }

    #[setter]
    fn set_file(&mut self, file: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unlocked()?;
        descriptor(file)?;
        self.file = file.clone().unbind();
        Ok(())
    }

    /// Where in the file, in bytes; None is the file's position.
    #[getter]
    fn offset(&self) -> Option<u64> {
        self.offset
    }

    #[setter]
    fn set_offset(&mut self, offset: Option<u64>) -> PyResult<()> {
        self.unlocked()?;
        self.offset = check_offset(offset)?;
        Ok(())
    }

    /// The buffer as given; a list of buffers for a vectored op; None for an op without one.
    #[getter]
    pub(super) fn buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.kind {
            Kind::Read | Kind::Write => Ok(self.buffers[0].bind(py).clone()),
            Kind::ReadV | Kind::WriteV => Ok(PyList::new(py, &self.buffers)?.into_any()),
            _ => Ok(py.None().into_bound(py)),
        }
    }

    #[setter]
    fn set_buffer(&mut self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unlocked()?;
        self.buffers = match self.kind {
            Kind::Read => vec![readable_into(py, buffer)?],
            Kind::Write => one(buffer, false)?,
            Kind::ReadV => many(buffer, true)?,
            Kind::WriteV => many(buffer, false)?,
            _ => return Err(PyTypeError::new_err("this op has no buffer")),
        };
        Ok(())
    }

    /// `RWF_*` flags.
    #[getter]
    fn rw_flags(&self) -> i32 {
        self.rw_flags
    }

    #[setter]
    fn set_rw_flags(&mut self, flags: i32) -> PyResult<()> {
        self.unlocked()?;
        self.rw_flags = flags;
        Ok(())
    }

    /// The I/O priority, or None for the submitting thread's own.
    #[getter]
    fn priority(&self) -> Option<PyPriority> {
        self.priority
    }

    #[setter]
    fn set_priority(&mut self, priority: Option<PyPriority>) -> PyResult<()> {
        self.unlocked()?;
        self.priority = priority;
        Ok(())
    }

    /// An eventfd (int or object with `fileno()`) to which one is added when this op is complete, or None.
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (file, state) = (self.file.bind(py).repr()?, self.state());
        match self.offset {
            Some(offset) => Ok(format!("<{:?} {file} at {offset}, {state}>", self.kind)),
            None => Ok(format!("<{:?} {file}, {state}>", self.kind)),
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
    }
}

fn check_offset(offset: Option<u64>) -> PyResult<Option<u64>> {
    match offset {
        Some(offset) if offset > i64::MAX as u64 => {
            Err(PyValueError::new_err("an offset is at most 2**63 - 1"))
        }
        offset => Ok(offset),
    }
}

fn check_resfd(resfd: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match resfd {
        Some(fd) => {
            descriptor(&fd)?;
            Ok(Some(fd.unbind()))
        }
        None => Ok(None),
    }
}

/// A buffer that can be exported, now at least.
fn one(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Vec<Py<PyAny>>> {
    memory::Exported::new(object, writable)?;
    Ok(vec![object.clone().unbind()])
}

fn many(objects: &Bound<'_, PyAny>, writable: bool) -> PyResult<Vec<Py<PyAny>>> {
    let mut buffers = Vec::new();
    for object in objects.try_iter()? {
        buffers.append(&mut one(&object?, writable)?);
    }
    // Linux, UIO_MAXIOV.
    if buffers.len() > 1024 {
        return Err(PyValueError::new_err(format!(
            "{} buffers in one op: the kernel takes 1024",
            buffers.len()
        )));
    }
    Ok(buffers)
}

/// A writable buffer, or a size for which a bytearray is made.
fn readable_into(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if let Ok(size) = buffer.extract::<usize>() {
        return Ok(PyByteArray::new_with(py, size, |_| Ok(()))?.into_any().unbind());
    }
    Ok(one(buffer, true)?.remove(0))
}

macro_rules! transfer {
    ($(#[$doc:meta])* $name:ident, $argument:ident, |$py:ident, $buffer:ident| $make:expr) => {
        $(#[$doc])*
        #[pyclass(extends = Op, module = "proactor.aio")]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (file, $argument, offset=None, *, rw_flags=0, priority=None, resfd=None, user_data=None))]
            #[allow(clippy::too_many_arguments)]
            fn new(
                $py: Python<'_>,
                file: &Bound<'_, PyAny>,
                $argument: &Bound<'_, PyAny>,
                offset: Option<u64>,
                rw_flags: i32,
                priority: Option<PyPriority>,
                resfd: Option<Bound<'_, PyAny>>,
                user_data: Option<Py<PyAny>>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let $buffer = $argument;
                let (offset, resfd) = (check_offset(offset)?, check_resfd(resfd)?);
                let rest = Rest { offset, rw_flags, priority, resfd, user_data };
                Ok(PyClassInitializer::from(Op::make(Kind::$name, file, $make, rest)?).add_subclass($name))
            }
        }
    };
}

transfer!(
    /// Read into `buffer`: a writable buffer (bytearray, memoryview, mmap, array, NumPy), or a size in bytes for which a
    /// bytearray is made. `offset` None is the file's position; pipes and sockets ignore it.
    Read, buffer, |py, buffer| vec![readable_into(py, buffer)?]
);
transfer!(
    /// Write `buffer`: anything with the buffer protocol. May write less than all of it; see `Event.result`.
    Write, buffer, |_py, buffer| one(buffer, false)?
);
transfer!(
    /// Read into several writable buffers in order: at most 1024.
    ReadV, buffers, |_py, buffers| many(buffers, true)?
);
transfer!(
    /// Write several buffers in order: at most 1024.
    WriteV, buffers, |_py, buffers| many(buffers, false)?
);

macro_rules! sync {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[pyclass(extends = Op, module = "proactor.aio")]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (file, *, priority=None, resfd=None, user_data=None))]
            fn new(
                file: &Bound<'_, PyAny>,
                priority: Option<PyPriority>,
                resfd: Option<Bound<'_, PyAny>>,
                user_data: Option<Py<PyAny>>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let rest = Rest { priority, resfd: check_resfd(resfd)?, user_data, ..Rest::default() };
                Ok(PyClassInitializer::from(Op::make(Kind::$name, file, Vec::new(), rest)?).add_subclass($name))
            }
        }
    };
}

sync!(
    /// Bring a file's data and metadata to the device: fsync(2).
    Fsync
);
sync!(
    /// Bring a file's data to the device, and the metadata needed to read it: fdatasync(2).
    Fdatasync
);

/// Wait until a descriptor is ready for `events` (`select.POLLIN` and so on). `Event.result` is the event mask.
#[pyclass(extends = Op, module = "proactor.aio")]
pub(crate) struct Poll;

#[pymethods]
impl Poll {
    #[new]
    #[pyo3(signature = (file, events, *, resfd=None, user_data=None))]
    fn new(
        file: &Bound<'_, PyAny>,
        events: u16,
        resfd: Option<Bound<'_, PyAny>>,
        user_data: Option<Py<PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let rest = Rest {
            resfd: check_resfd(resfd)?,
            user_data,
            ..Rest::default()
        };
        let base = Op {
            events,
            ..Op::make(Kind::Poll, file, Vec::new(), rest)?
        };
        Ok(PyClassInitializer::from(base).add_subclass(Poll))
    }

    /// The event mask that is waited for.
    #[getter]
    fn events(this: PyRef<'_, Self>) -> u16 {
        this.as_super().events
    }
}

/// The owner of aligned memory, which memoryviews keep alive.
#[pyclass(module = "proactor.aio")]
pub(crate) struct AlignedMemory {
    memory: proactor::buffer::AlignedBuf,
}

#[pymethods]
impl AlignedMemory {
    /// # Safety
    /// Called by the interpreter with a Py_buffer to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let (ptr, len) = {
            let mut this = slf.borrow_mut();
            (this.memory.as_mut_ptr(), this.memory.len())
        };
        // SAFETY: the memory lives as long as the object, to which the view holds a reference.
        let ret = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), ptr.cast(), len as isize, 0, flags) };
        if ret != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

pub(super) fn aligned_memory(
    py: Python<'_>,
    n: usize,
    alignment: Option<usize>,
) -> PyResult<Bound<'_, PyMemoryView>> {
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize };
    let alignment = alignment.unwrap_or(page);
    if n == 0 || n > isize::MAX as usize / 2 || !alignment.is_power_of_two() {
        return Err(PyValueError::new_err(
            "n must be at least 1, and alignment a power of two",
        ));
    }
    let owner = Bound::new(
        py,
        AlignedMemory {
            memory: proactor::buffer::AlignedBuf::zeroed(n, alignment),
        },
    )?;
    PyMemoryView::from(owner.as_any())
}

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Op>()?;
    module.add_class::<Read>()?;
    module.add_class::<Write>()?;
    module.add_class::<ReadV>()?;
    module.add_class::<WriteV>()?;
    module.add_class::<Fsync>()?;
    module.add_class::<Fdatasync>()?;
    module.add_class::<Poll>()?;
    for (name, flag) in [
        ("RWF_HIPRI", RwFlags::HIPRI),
        ("RWF_DSYNC", RwFlags::DSYNC),
        ("RWF_SYNC", RwFlags::SYNC),
        ("RWF_NOWAIT", RwFlags::NOWAIT),
        ("RWF_APPEND", RwFlags::APPEND),
    ] {
        module.add(name, flag.0)?;
    }
    Ok(())
}
