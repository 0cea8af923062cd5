//! The classes of ops, each with what it has beside the base.

use super::op::{check_resfd, memory_of, parse_offset, Kind, Op, Rest};
use super::priority::PyPriority;
use proactor_engine::op::RwFlags;
use pyo3::prelude::*;

macro_rules! transfer {
    ($(#[$doc:meta])* $name:ident, $memory:ident, $(#[$memory_doc:meta])*) => {
        $(#[$doc])*
        ///
        /// - `offset`: where in the file, in bytes, 0 to 2**63 - 1; None is the file's position. Pipes and sockets ignore it.
        /// - `rw_flags`: `RWF_*` flags; an event with EOPNOTSUPP where kernel or file system lack one, and ValueError for
        ///   a read with those of writes (`RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`).
        /// - `priority`: a `Priority`; None is the submitting thread's own.
        /// - `resfd`: an eventfd (int or object with `fileno()`) to which one is added when the op is complete.
        /// - `user_data`: anything; the event has it too.
        #[pyclass(extends = Op, module = "proactor.aio")]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (file, $memory, offset=None, *, rw_flags=0, priority=None, resfd=None, user_data=None))]
            #[allow(clippy::too_many_arguments)]
            fn new(
                py: Python<'_>,
                file: &Bound<'_, PyAny>,
                $memory: &Bound<'_, PyAny>,
                offset: Option<i64>,
                #[pyo3(from_py_with = crate::whole::rw_flags)] rw_flags: u32,
                priority: Option<PyPriority>,
                resfd: Option<Bound<'_, PyAny>>,
                user_data: Option<Py<PyAny>>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let (offset, resfd) = (parse_offset(offset)?, check_resfd(resfd)?);
                let rest = Rest { offset, rw_flags, priority, resfd, user_data };
                let memory = memory_of(py, Kind::$name, $memory)?;
                Ok(PyClassInitializer::from(Op::make(Kind::$name, file, memory, rest)?).add_subclass($name))
            }

            $(#[$memory_doc])*
            #[getter($memory)]
            fn memory<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                this.as_super().memory(py)
            }

            #[setter($memory)]
            fn set_memory(
                mut this: PyRefMut<'_, Self>,
                py: Python<'_>,
                memory: &Bound<'_, PyAny>,
            ) -> PyResult<()> {
                this.as_super().set_memory(py, memory)
            }

            /// Where in the file, in bytes; None is the file's position.
            #[getter]
            fn offset(this: PyRef<'_, Self>) -> Option<u64> {
                this.as_super().offset
            }

            #[setter]
            fn set_offset(mut this: PyRefMut<'_, Self>, offset: Option<i64>) -> PyResult<()> {
                let base = this.as_super();
                base.unlocked()?;
                base.offset = parse_offset(offset)?;
                Ok(())
            }

            /// `RWF_*` flags.
            #[getter]
            fn rw_flags(this: PyRef<'_, Self>) -> u32 {
                this.as_super().rw_flags
            }

            #[setter]
            fn set_rw_flags(
                mut this: PyRefMut<'_, Self>,
                #[pyo3(from_py_with = crate::whole::rw_flags)] flags: u32,
            ) -> PyResult<()> {
                this.as_super().set_rw_flags(flags)
            }

            /// The I/O priority, or None for the submitting thread's own.
            #[getter]
            fn priority(this: PyRef<'_, Self>) -> Option<PyPriority> {
                this.as_super().priority
            }

            #[setter]
            fn set_priority(mut this: PyRefMut<'_, Self>, priority: Option<PyPriority>) -> PyResult<()> {
                this.as_super().set_priority(priority)
            }
        }
    };
}

transfer!(
    /// Read into `buffer`: a writable, contiguous buffer (bytearray, memoryview, mmap, array, NumPy), or a size in bytes.
    /// For a size there is memory aligned to a page, as O_DIRECT wants it, which another read may have used before: what
    /// it holds beyond `Event.data` means nothing. It may read less; `Event.data` is what it has read.
    Read, buffer,
    /// The buffer that was given, or a memoryview of the memory for the size.
);
transfer!(
    /// Write `buffer`: any contiguous object with the buffer protocol. It may write less than all; see `Event.result`.
    Write, buffer,
    /// The buffer that was given.
);
transfer!(
    /// Read into several buffers, or sizes, in order: at most 1024 (ValueError).
    ReadV, buffers,
    /// A tuple of the buffers. Any iterable may be assigned.
);
transfer!(
    /// Write several buffers in order: at most 1024 (ValueError).
    WriteV, buffers,
    /// A tuple of the buffers. Any iterable may be assigned.
);

macro_rules! sync {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// `resfd` and `user_data` are as for `Read`. A `priority` raises ValueError, for the kernel would ignore it.
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

/// Wait, once, until a descriptor is ready for `events` (`select.POLLIN` and so on). `Event.result` is the event mask.
///
/// `resfd` and `user_data` are as for `Read`.
#[pyclass(extends = Op, module = "proactor.aio")]
pub(crate) struct Poll;

#[pymethods]
impl Poll {
    #[new]
    #[pyo3(signature = (file, events, *, resfd=None, user_data=None))]
    fn new(
        file: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = crate::whole::events)] events: u16,
        resfd: Option<Bound<'_, PyAny>>,
        user_data: Option<Py<PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let rest = Rest {
            resfd: check_resfd(resfd)?,
            user_data,
            ..Rest::default()
        };
        let mut base = Op::make(Kind::Poll, file, Vec::new(), rest)?;
        base.events = events;
        Ok(PyClassInitializer::from(base).add_subclass(Poll))
    }

    /// The event mask that is waited for.
    #[getter]
    fn events(this: PyRef<'_, Self>) -> u16 {
        this.as_super().events
    }

    #[setter]
    fn set_events(
        mut this: PyRefMut<'_, Self>,
        #[pyo3(from_py_with = crate::whole::events)] events: u16,
    ) -> PyResult<()> {
        let base = this.as_super();
        base.unlocked()?;
        base.events = events;
        Ok(())
    }
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
        module.add(name, flag.bits())?;
    }
    Ok(())
}
