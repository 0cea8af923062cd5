//! What a request to cancel comes to, as Python's enum.

use super::priority::python_enum;
use proactor_engine::CancelOutcome;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The Python enum.
static OUTCOME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

const OUTCOME_DOC: &str = "\
What became of a request to cancel.

- CANCELLED: it was stopped. Its event, with ECANCELED, will come from `wait`.
- RUNNING: it is being worked on and was asked to stop; its event says how that ended.
- FINISHED: it is complete: its event waits or was taken.";

fn outcome_enum(py: Python<'_>) -> PyResult<&Py<PyAny>> {
    OUTCOME.get_or_try_init(py, || {
        let members = ["CANCELLED", "RUNNING", "FINISHED"].map(|name| (name, name.to_lowercase()));
        python_enum(py, "Enum", "CancelOutcome", OUTCOME_DOC, members.into())
    })
}

pub(super) fn outcome(py: Python<'_>, outcome: CancelOutcome) -> PyResult<Py<PyAny>> {
    let name = match outcome {
        CancelOutcome::Cancelled => "CANCELLED",
        CancelOutcome::Running => "RUNNING",
        CancelOutcome::Finished => "FINISHED",
    };
    outcome_enum(py)?.getattr(py, name)
}

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CancelOutcome", outcome_enum(module.py())?)
}
