//! `proactor.aio`: low-level contexts. Ops go in, events come out, no event loop needed.

mod aligned;
mod context;
mod event;
mod kinds;
mod op;
mod outcome;
mod priority;
mod recycle;
mod shared;
mod subject;
mod waiting;

pub(crate) use context::parse_engine;
pub(crate) use op::descriptor;

use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<context::Context>()?;
    module.add_class::<event::Event>()?;
    module.add_class::<aligned::AlignedMemory>()?;
    outcome::add_to(module)?;
    priority::add_to(module)?;
    kinds::add_to(module)?;
    module.add_function(wrap_pyfunction!(aligned::aligned, module)?)?;
    module.add_function(wrap_pyfunction!(aligned::direct_alignment, module)?)
}
