//! Ways of counting a round: perf events, or BPF where this build has it.

use super::seen::Seen;
use super::{ByName, Calls, Whom};
use std::thread;

/// Ways of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Perf events on the tracepoint of system calls.
    Perf,
    /// A BPF program on this and other tracepoints.
    Bpf,
}

/// A way of counting that is set up.
pub(crate) enum Tracer {
    Perf(ByName),
    #[cfg(feature = "bpf")]
    Bpf(Box<super::bpf::Bpf>),
}

impl Method {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Perf => "perf",
            Method::Bpf => "bpf",
        }
    }

    /// Checks whether it works here, and returns what it cannot see.
    ///
    /// # Errors
    /// A sentence that says why it does not.
    pub fn try_out(self) -> Result<Vec<String>, String> {
        // On a separate thread, because a tracer belongs to the thread that sets it up.
        let tried = || Ok(Tracer::prepare(self)?.blind_to());
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, tried);
            let thread = thread.map_err(|e| format!("making a thread: {e}"))?;
            thread.join().expect("no panic")
        })
    }
}

impl Tracer {
    /// Sets it up, on the thread that starts all that is to be counted.
    pub fn prepare(method: Method) -> Result<Tracer, String> {
        match method {
            Method::Perf => ByName::prepare(Whom::Threads).map(Tracer::Perf),
            #[cfg(feature = "bpf")]
            Method::Bpf => Ok(Tracer::Bpf(Box::new(super::bpf::Bpf::prepare()?))),
            #[cfg(not(feature = "bpf"))]
            Method::Bpf => {
                Err("this program was built without it (cargo build --features bpf, with clang)".into())
            }
        }
    }

    fn blind_to(&self) -> Vec<String> {
        match self {
            Tracer::Perf(_) => vec![
                "the work of io_uring's kernel threads, which make no system calls".into(),
                "times of threads off the CPU and their reasons, and times of ops in the kernel (--counters bpf shows them)".into(),
            ],
            #[cfg(feature = "bpf")]
            Tracer::Bpf(bpf) => {
                let mut list = vec![
                    "the thread of each call: those of other threads of the process are included".to_owned(),
                    "times of Linux AIO's ops in the kernel, which has no tracepoint for them".to_owned(),
                ];
                list.extend_from_slice(bpf.missing());
                list
            }
        }
    }

    pub fn start(&mut self) -> Result<(), String> {
        match self {
            Tracer::Perf(events) => events.start(),
            #[cfg(feature = "bpf")]
            Tracer::Bpf(bpf) => bpf.start(),
        }
    }

    pub fn stop(&mut self) -> Result<(Calls, Option<Seen>), String> {
        match self {
            Tracer::Perf(events) => Ok((events.stop()?, None)),
            #[cfg(feature = "bpf")]
            Tracer::Bpf(bpf) => bpf.stop().map(|(calls, seen)| (calls, Some(seen))),
        }
    }
}
