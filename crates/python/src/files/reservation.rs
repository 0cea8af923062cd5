//! Descriptors for what threads of `proactor.shutil` open.

use super::Call;
use pyo3::prelude::*;

/// The right to open some descriptors: taken at once, or waited for in the line of the engine's ops.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct Reservation(proactor_engine::Reservation);

#[pymethods]
impl Reservation {
    #[new]
    fn new(count: u8) -> Self {
        Reservation(proactor_engine::Reservation::new(count))
    }

    /// Whether they could be had without waiting.
    fn take(&self) -> bool {
        self.0.take()
    }

    /// A coroutine that waits for them. `path` is for its error, EMFILE.
    fn wait(&self, path: &Bound<'_, PyAny>) -> Call {
        Call::new("Reservation.wait", self.0.wait(), path, None)
    }

    /// Says that they are open.
    fn opened(&self) {
        self.0.opened();
    }

    /// Gives them back.
    fn release(&self) {
        self.0.release();
    }
}
