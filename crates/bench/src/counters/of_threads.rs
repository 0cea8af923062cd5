//! System calls of threads that are running already.

use super::perf::{
    control, explain, open_event, read_count, tracepoint_id, Whom, PERF_EVENT_IOC_DISABLE,
    PERF_EVENT_IOC_ENABLE,
};
use std::os::fd::OwnedFd;

/// Events, one for each thread and inherited by what it starts.
#[derive(Debug)]
pub struct OfThreads {
    events: Vec<OwnedFd>,
}

impl OfThreads {
    /// Makes the events, switched off. A thread that has ended is left out.
    ///
    /// # Errors
    /// A sentence that says why it cannot be done.
    pub fn prepare(threads: &[i32]) -> Result<OfThreads, String> {
        let id = tracepoint_id()?;
        let mut events = Vec::new();
        for tid in threads {
            match open_event(id, *tid, Whom::Children) {
                Ok(event) => events.push(event),
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => return Err(explain(&e)),
            }
        }
        Ok(OfThreads { events })
    }

    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(&self) -> Result<(), String> {
        self.events
            .iter()
            .try_for_each(|event| control(event, PERF_EVENT_IOC_ENABLE))
    }

    /// Stops counting, and returns the number of calls.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(self) -> Result<u64, String> {
        for event in &self.events {
            control(event, PERF_EVENT_IOC_DISABLE)?;
        }
        self.events.iter().map(read_count).sum()
    }
}
