//! A ring that may not be entered any more, because a seccomp filter came while files were in it.
//!
//! What the kernel was told before goes on, and its result cannot be read. So the buffers are left to it, by the engine, and
//! what its ops name stays open: the kernel looks a number up when a worker of its own begins, and must not find another file
//! there. Invariant: what was in the ring is dealt with after the thread that the ring belonged to has ended. The kernel does
//! not let a thread end before all of that is done (Linux 5.12: its workers are the thread's own), so that no file appears
//! late, under a name that is not expected any more.

use super::copier::RingCopier;
use super::flight::{entry, Flight, Later, Stage, Task};
use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::Engine;
use crate::entry::name::remove_own;
use crate::pair::Source;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::mem::forget;

/// A file that was in a ring that is lost.
pub(crate) struct Lost {
    later: Later,
    /// The name of the file that it has made, or may have made.
    made: Option<CString>,
    errno: i32,
}

impl RingCopier<'_> {
    /// Gives the ring up.
    pub(super) fn lose_ring(&mut self, error: &io::Error) {
        let Some(mut ring) = self.ring.take() else { return };
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        self.ring_lost = Some(errno);
        let later = std::mem::take(&mut ring.later);
        for flight in std::mem::take(&mut ring.flights).into_values() {
            if let Some((later, made)) = self.forsake(flight) {
                let lost = Lost { later, made, errno };
                self.lost.lock().unwrap().push(lost);
            }
        }
        drop(ring);
        for later in later {
            self.copy_later(later);
        }
    }

    /// Returns what is left of a file in flight without what its op needs.
    fn forsake(&mut self, flight: Flight) -> Option<(Later, Option<CString>)> {
        let Flight { at, name, stage } = flight;
        forget(at.clone());
        let (task, made) = match stage {
            Stage::Open => (None, None),
            Stage::Read(task) => (Some(task), None),
            Stage::Create(task, _) => {
                let made = task.name_of_new(&self.entries.shared.context, &name);
                (Some(task), Some(made))
            }
            Stage::Write(task, new)
            | Stage::Flush(task, new)
            | Stage::ReadBack(task, new)
            | Stage::Sync(task, new) => {
                forget(new.to);
                (Some(task), Some(new.name))
            }
            Stage::Close(task, new) => (Some(task), Some(new.name)),
        };
        let task = task.map(|task| task.with_own_source()).transpose();
        match task {
            Ok(task) => Some((Later { at, name, task }, made)),
            Err(error) => {
                let reporter = &self.entries.reporter;
                reporter.failed(Step::Read, entry(&at, &name).source(), error);
                self.finished.push(at.dir);
                None
            }
        }
    }

    /// Copies files of lost rings, whose threads have ended; or fails them, if no other engine was to be taken. Returns
    /// false if there are none.
    pub(crate) fn recover(&mut self) -> bool {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap());
        let is_any = !lost.is_empty();
        for Lost { later, made, errno } in lost {
            let of = entry(&later.at, &later.name);
            if let Some(made) = made {
                remove_own(&of, &made);
            }
            let context = &self.entries.shared.context;
            if context.options.engine == Engine::Uring && !context.stopped() {
                let error = io::Error::from_raw_os_error(errno);
                let reporter = &self.entries.reporter;
                reporter.failed(Step::Engine, of.source(), error);
                self.finished.push(later.at.dir);
            } else {
                self.copy_later(later);
            }
        }
        is_any
    }
}

impl Task {
    /// Returns the same task with another descriptor of its source. The one that it had stays open.
    fn with_own_source(self: Box<Task>) -> io::Result<Box<Task>> {
        let Task {
            source,
            old,
            prepared,
            ..
        } = *self;
        let own: io::Result<OwnedFd> = source.fd.try_clone();
        forget(source.fd);
        Ok(Box::new(Task {
            source: Source { fd: own?, ..source },
            old,
            prepared,
            attempt: 0,
        }))
    }
}
