//! What everything that copies needs to know: options, the observer, who we are, and whether to stop.

pub(crate) mod outcome;
pub(crate) mod rate_limit;
pub(crate) mod reporter;

use crate::api::observer::Observer;
use crate::api::options::{Method, Options};
use crate::sys;
use crate::sys::names::{partial_name, random_u64};
use rate_limit::RateLimit;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all threads of a copy, and the same from its beginning to its end.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) rate_limit: RateLimit,
    pub(crate) umask: u32,
    pub(crate) privileged: bool,
    /// User and group of this process.
    pub(crate) owner: (u32, u32),
    /// The part of the whole that each source is, if the observer wants to know how much is done.
    pub(crate) part_of_source: Option<f64>,
    /// Partial names end in it.
    pub(crate) id: u32,
    pub(crate) has_one_source: bool,
    stopped: AtomicBool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(options: &'a Options, observer: &'a dyn Observer, sources: usize) -> Context<'a> {
        Context {
            options,
            observer,
            rate_limit: RateLimit::new(),
            umask: sys::umask(),
            privileged: rustix::process::geteuid().is_root(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            part_of_source: observer.measures().then(|| 1.0 / sources as f64),
            id: random_u64() as u32,
            has_one_source: sources == 1,
            stopped: AtomicBool::new(false),
        }
    }

    /// Makes a name for something that is not finished: `NAME.partial-` and this run's id, or a later number if that name
    /// is taken.
    pub(crate) fn partial_name(&self, name: &CStr, attempt: u32) -> CString {
        partial_name(name, self.id.wrapping_add(attempt))
    }

    /// Makes something under a partial name that is free.
    pub(crate) fn partial<T>(
        &self,
        name: &CStr,
        mut make: impl FnMut(&CStr) -> io::Result<T>,
    ) -> io::Result<(CString, T)> {
        for attempt in 0.. {
            let partial = self.partial_name(name, attempt);
            match make(&partial) {
                Ok(made) => return Ok((partial, made)),
                Err(error) if sys::is(&error, &[Errno::EXIST]) => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("there are more numbers than names in a directory")
    }

    /// Returns true if contents are copied, and not only examined or linked.
    pub(crate) fn copies_contents(&self) -> bool {
        let options = self.options;
        options.method == Method::Contents && !options.attributes_only && !options.dry_run
    }

    /// Returns true once the observer has asked to stop.
    pub(crate) fn stopped(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let stop = self.observer.stop();
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stop
    }
}
