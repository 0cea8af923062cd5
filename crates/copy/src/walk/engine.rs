//! Which way the files of a directory are copied: by calls of the worker's own, one file after the other, or by a ring,
//! many at once. Both make the same of the same; whoever fills directories knows no more than this.

use crate::api::error::{Diagnostic, Step};
use crate::api::observer::Paths;
use crate::api::options::Engine;
use crate::job::worker::Worker;
use crate::pair::Entry;
use crate::uring::Ring;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;

impl Worker<'_> {
    /// Makes what the engine of this worker needs. An error says why that cannot be had here.
    pub(crate) fn start_engine(&mut self) -> io::Result<()> {
        let moves_contents = self.run.context.copies_contents();
        match self.options().engine {
            _ if !moves_contents => {}
            Engine::Uring => self.ring = Some(Ring::new(self.run.limits.depth)?),
            Engine::Auto if self.run.limits.depth > 0 => self.ring = Ring::new(self.run.limits.depth).ok(),
            Engine::Auto | Engine::Threads => {}
        }
        Ok(())
    }

    /// Takes the memory that it needs and starts the engine, or tells why not.
    pub(crate) fn has_engine(&mut self) -> bool {
        if self.take_memory().is_err() {
            self.reporter.tell(&Diagnostic::NoMemory);
            return false;
        }
        let started = self.start_engine();
        if let Err(error) = &started {
            self.reporter.tell(&Diagnostic::NoEngine {
                engine: "uring".into(),
                errno: proactor_engine::errno_of(error).unwrap_or(Errno::OPNOTSUPP.raw_os_error()),
                reason: error.to_string(),
            });
        }
        started.is_ok()
    }

    /// Copies an entry of a directory that is no directory, or begins to.
    pub(crate) fn begin(&mut self, entry: &Entry<'_>, listed: FileType) {
        let suits = listed == FileType::RegularFile && self.suits_ring();
        match self.ring_lost {
            _ if !suits => self.entry(entry, listed),
            None if self.ring.is_some() => self.begin_in_ring(entry),
            // No other engine is taken.
            Some(errno) if self.options().engine == Engine::Uring => {
                if self.is_wanted(entry, listed) {
                    let error = io::Error::from_raw_os_error(errno);
                    self.reporter.failed(Step::Engine, entry.source(), error);
                }
            }
            _ => self.entry(entry, listed),
        }
    }

    /// Brings what was begun to its end.
    pub(crate) fn settle(&mut self) {
        if self.ring.is_some() {
            self.settle_ring();
        }
    }
}
