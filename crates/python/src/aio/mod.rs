//! `proactor.aio`: low-level contexts. Ops go in, events come out, no event loop needed.

mod context;
mod event;
mod op;
mod priority;

pub(crate) use context::parse_engine;

use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Memory for O_DIRECT: a writable `memoryview` of `n` zero bytes whose address is a multiple of `alignment`.
///
/// `alignment` is a power of two in bytes; by default the size of a page, which suits every file system whose blocks
/// are no larger. `proactor.aio.direct_alignment(file)` asks the kernel.
///
/// Raises ValueError if `n` is 0 or `alignment` is no power of two.
#[pyfunction]
#[pyo3(signature = (n, alignment=None))]
fn aligned(py: Python<'_>, n: usize, alignment: Option<usize>) -> PyResult<Bound<'_, PyMemoryView>> {
    op::aligned_memory(py, n, alignment)
}

/// What O_DIRECT needs of `file` (an int or an object with `fileno()`): `(memory, offset)` alignment in bytes.
///
/// From `statx(STATX_DIOALIGN)` since Linux 6.1, before that the file system's block size, which is always enough.
/// Raises OSError (EINVAL) for a file that cannot be used with O_DIRECT.
#[pyfunction]
fn direct_alignment(file: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let alignment = proactor::op::direct_alignment(op::descriptor(file)?)?;
    Ok((alignment.memory, alignment.offset))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<context::Context>()?;
    module.add_class::<context::PyCancelOutcome>()?;
    module.add_class::<event::Event>()?;
    module.add_class::<priority::PyPriority>()?;
    module.add_class::<priority::PyPriorityClass>()?;
    module.add_class::<op::AlignedMemory>()?;
    op::add_to(module)?;
    module.add_function(wrap_pyfunction!(aligned, module)?)?;
    module.add_function(wrap_pyfunction!(direct_alignment, module)?)
}
