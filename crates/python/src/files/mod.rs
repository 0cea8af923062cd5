//! asyncio files: awaitables that finish at once where they can, and suspend on the loop's driver where not.
//!
//! `driver` is the bridge between one event loop and one engine driver; `call` is a single awaited op; `read_many` is a
//! batch behind one asynchronous iterator, `help` the threads that it may use; `stat` is what a file is.

pub(crate) mod call;
pub(crate) mod driver;
mod help;
mod read_many;
mod stat;

use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<driver::LoopDriver>()?;
    module.add_class::<call::Call>()?;
    module.add_class::<read_many::ReadMany>()?;
    module.add_function(wrap_pyfunction!(call::read_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(call::write_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(stat::stat, module)?)?;
    module.add_function(wrap_pyfunction!(stat::fstat, module)?)
}
