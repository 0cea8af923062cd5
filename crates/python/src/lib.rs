//! `proactor._native`: from Python objects to ops and back, and the wake-ups of event loops. No I/O logic lives here.

mod aio;
mod attached;
mod cluster;
mod copying;
mod coroutine;
mod counters;
mod errors;
mod file;
mod files;
mod free;
mod memory;
mod net;
mod path;
mod python_code;
mod ready;
mod references;
mod reused;
mod thread_bound;
mod whole;

pub(crate) use aio::descriptor as aio_descriptor;
pub(crate) use aio::parse_engine as aio_engine;

use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Runs the `proactor` command with `argv`, the program's name first. Returns the exit status.
#[pyfunction]
fn cli_main(py: Python<'_>, argv: Vec<OsString>) -> u8 {
    let python = py.import("sys").and_then(|sys| sys.getattr("executable"));
    let python: Option<String> = python.and_then(|path| path.extract()).ok();
    // Empty where it is embedded in another program.
    let python = python.filter(|path| !path.is_empty()).map(Into::into);
    py.detach(|| {
        let cluster: Option<&dyn proactor_cli::Cluster> = Some(&cluster::Ray);
        proactor_cli::run(argv, &proactor_cli::Host { cluster, python })
    })
}

/// The names of the engines that work here, best first; the simulator is not among them.
///
/// Each was tried with a real op.
#[pyfunction]
fn engines(py: Python<'_>) -> Vec<&'static str> {
    py.detach(|| {
        use proactor_engine::probe::report;
        use proactor_engine::Engine;
        let real = Engine::ALL.iter().filter(|e| **e != Engine::Sim);
        real.filter(|e| report(**e).usable.is_ok())
            .map(|e| e.name())
            .collect() // allocates: an entry for each engine
    })
}

/// The engine that is used when none is named, and why: `(name, reason)`.
///
/// `PROACTOR_ENGINE` names one; ValueError if it is unknown, OSError if it cannot be had.
#[pyfunction]
fn chosen_engine(py: Python<'_>) -> PyResult<(&'static str, String)> {
    let chosen = py
        .detach(proactor_engine::probe::choose)
        .map_err(|e| errors::no_engine(py, &e, "chosen_engine"))?;
    Ok((chosen.engine.name(), chosen.reason))
}

/// Sets for how many seconds ops wait for a descriptor while none gets one, before they fail with EMFILE; 30 by default.
/// For tests.
#[pyfunction]
fn set_descriptor_wait(seconds: f64) -> PyResult<()> {
    let wait = Duration::try_from_secs_f64(seconds).map_err(|e| PyValueError::new_err(e.to_string()))?;
    proactor_engine::set_descriptor_wait(wait);
    Ok(())
}

/// Refuses all interpreters of a process but the first that imports this: the module's statics hold that one's objects.
fn check_interpreter() -> PyResult<()> {
    static FIRST: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: the thread is attached, as the interpreter is importing.
    let this = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    let first = FIRST.compare_exchange(-1, this, Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Err(first) if first != this => Err(PyImportError::new_err(
            "proactor is used by another interpreter of this process already, and supports one",
        )),
        _ => Ok(()),
    }
}

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    check_interpreter()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(cli_main, module)?)?;
    module.add_function(wrap_pyfunction!(engines, module)?)?;
    module.add_function(wrap_pyfunction!(copying::is_selinux, module)?)?;
    module.add_function(wrap_pyfunction!(chosen_engine, module)?)?;
    module.add_function(wrap_pyfunction!(set_descriptor_wait, module)?)?;
    module.add_class::<copying::Copying>()?;
    aio::add_to(module)?;
    counters::add_to(module)?;
    file::add_to(module)?;
    files::add_to(module)?;
    net::add_to(module)
}
