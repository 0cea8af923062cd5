//! `proactor._native.Counters`: what a stretch of work cost this process, for the demo and the comparisons. Not public.

use proactor_bench::counters::{self, ByName, Whom};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};

/// Counts from its construction until `stop()`: CPU, context switches, page faults and, unless `system_calls` is false,
/// system calls of all threads. To count those makes each of them slower while it lasts. With `by_name` also the system calls
/// by name, of the calling thread and those that it starts meanwhile.
#[pyclass(module = "proactor._native", frozen)]
struct Counters {
    running: Mutex<Option<Running>>,
}

struct Running {
    counters: counters::Counters,
    by_name: Option<Result<ByName, String>>,
}

#[pymethods]
impl Counters {
    #[new]
    #[pyo3(signature = (*, system_calls = true, by_name = false))]
    fn new(system_calls: bool, by_name: bool) -> Self {
        let counters = if system_calls {
            counters::Counters::start()
        } else {
            counters::Counters::without_system_calls()
        };
        // Last, so that the calls above are not in it.
        let by_name = by_name.then(|| {
            let prepared = ByName::prepare(Whom::Threads)?;
            prepared.start()?;
            Ok(prepared)
        });
        Counters {
            running: Mutex::new(Some(Running { counters, by_name })),
        }
    }

    /// Ends counting and returns a dict: `wall_s`, `user_s`, `system_s`, `context_switches`, `minor_faults`,
    /// `major_faults`, `device_read_bytes`, `max_rss_bytes`, and `system_calls` or, where that is None, the reason in
    /// `system_calls_unavailable`. `voluntary` and `involuntary` are the context switches apart; `calls_by_name` is a dict with
    /// `total`, `by_name` and `other`, or None where they were not asked for or cannot be counted.
    ///
    /// Raises RuntimeError the second time.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.ok_or_else(|| PyRuntimeError::new_err("these counters have been stopped"))?;
        // First, as it was started last.
        let calls = running
            .by_name
            .and_then(|by_name| by_name.and_then(|events| events.stop()).ok());
        let counts = running.counters.stop();
        let dict = PyDict::new(py);
        dict.set_item("wall_s", counts.wall.as_secs_f64())?;
        dict.set_item("user_s", counts.user.as_secs_f64())?;
        dict.set_item("system_s", counts.system.as_secs_f64())?;
        dict.set_item("context_switches", counts.context_switches)?;
        dict.set_item("voluntary", counts.voluntary)?;
        dict.set_item("involuntary", counts.context_switches - counts.voluntary)?;
        let calls = calls.map(|calls| {
            let by_name = PyDict::new(py);
            for (name, count) in &calls.by_name {
                by_name.set_item(name, count)?;
            }
            let dict = PyDict::new(py);
            dict.set_item("total", calls.total)?;
            dict.set_item("by_name", by_name)?;
            dict.set_item("other", calls.other)?;
            PyResult::Ok(dict)
        });
        dict.set_item("calls_by_name", calls.transpose()?)?;
        dict.set_item("minor_faults", counts.minor_faults)?;
        dict.set_item("major_faults", counts.major_faults)?;
        dict.set_item("device_read_bytes", counts.device_read_bytes)?;
        dict.set_item("max_rss_bytes", counts.max_rss_bytes)?;
        dict.set_item("system_calls", counts.system_calls.as_ref().ok())?;
        dict.set_item("system_calls_unavailable", counts.system_calls.as_ref().err())?;
        Ok(dict)
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Counters>()
}
