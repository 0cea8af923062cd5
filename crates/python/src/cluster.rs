//! Ray as the command's cluster: `proactor/_ray.py`, called from the command's threads.

use proactor_cli::{Cluster, Ended, Tasks};
use pyo3::prelude::*;
use std::time::Duration;

/// Imported when it is asked for.
pub(crate) struct Ray;

impl Cluster for Ray {
    fn connect(&self, address: &str, jobs: usize) -> Result<Box<dyn Tasks>, String> {
        Python::attach(|py| {
            let connect = || {
                let tasks = py
                    .import("proactor._ray")?
                    .getattr("Tasks")?
                    .call1((address, jobs))?;
                let workers = tasks.getattr("workers")?.extract()?;
                let tasks = tasks.unbind();
                Ok(Box::new(RayTasks { tasks, workers }) as Box<dyn Tasks>)
            };
            connect().map_err(|error| said(py, &error))
        })
    }
}

struct RayTasks {
    /// A `Tasks` of Python's.
    tasks: Py<PyAny>,
    workers: usize,
}

impl Tasks for RayTasks {
    fn workers(&self) -> usize {
        self.workers
    }

    fn start(&mut self, plan: &str, shards: &[usize]) -> Result<(), String> {
        Python::attach(|py| {
            // allocates: the numbers of shards, of which each is a part of a tree
            let started = self.tasks.call_method1(py, "start", (plan, shards.to_vec()));
            started.map(|_| ()).map_err(|error| said(py, &error))
        })
    }

    fn next(&mut self, within: Duration) -> Result<Option<Ended>, String> {
        Python::attach(|py| {
            let next = || {
                let next = self.tasks.call_method1(py, "next", (within.as_secs_f64(),))?;
                next.extract::<Option<(usize, Option<String>)>>(py)
            };
            let next = next().map_err(|error| said(py, &error))?;
            Ok(next.map(|(shard, problem)| Ended { shard, problem }))
        })
    }

    fn cancel(&mut self) {
        // They end by themselves if this does not work.
        let _ = Python::attach(|py| self.tasks.call_method0(py, "cancel"));
    }
}

impl Drop for RayTasks {
    fn drop(&mut self) {
        let _ = Python::attach(|py| self.tasks.call_method0(py, "close"));
    }
}

/// An exception in words: its own if it has any.
fn said(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).to_string();
    if text.is_empty() {
        return error.to_string();
    }
    text
}
