//! asyncio files.

use pyo3::prelude::*;

pub(crate) fn add_to(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
