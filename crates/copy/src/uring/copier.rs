//! The copier of one thread: plain calls, one file after the other, or a ring with many files in it at once. Both make the
//! same of the same, and the walk does not know which of them it is.

use super::flight::{entry, Flight, Later};
use super::landed::Landed;
use super::lost::Lost;
use super::ring::{Landing, Ring};
use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Engine, Options, Reflink, Sparse};
use crate::context::outcome::{End, Outcome};
use crate::entry::EntryCopier;
use crate::pair::directory::{Dir, Opened};
use crate::pair::Entry;
use proactor_engine::op::Op;
use rustix::fs::FileType;
use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex};

/// Copies entries, regular files through a ring if the thread has one.
pub(crate) struct RingCopier<'a> {
    /// Dropped first: the ring waits until the kernel has let go of all that its files hold open.
    pub(super) ring: Option<Ring>,
    /// The error of a ring that may not be entered any more.
    pub(super) ring_lost: Option<i32>,
    pub(super) lost: &'a Mutex<Vec<Lost>>,
    pub(crate) entries: EntryCopier<'a>,
    /// A directory for each file that has left the ring: one entry in it is done.
    pub(crate) finished: Vec<Arc<Dir>>,
    /// Directories that were found in the place of files, for the walk. Each is an entry that is not done.
    pub(crate) directories: Vec<(Opened, CString)>,
}

impl<'a> RingCopier<'a> {
    pub(crate) fn new(entries: EntryCopier<'a>, lost: &'a Mutex<Vec<Lost>>) -> RingCopier<'a> {
        RingCopier {
            ring: None,
            ring_lost: None,
            lost,
            entries,
            finished: Vec::new(),
            directories: Vec::new(),
        }
    }

    fn options(&self) -> &'a Options {
        self.entries.shared.context.options
    }

    /// Makes a ring for this many files, if one is wanted. An error says why it cannot be had here.
    pub(crate) fn start(&mut self, depth: usize) -> io::Result<()> {
        let moves_contents = self.entries.shared.context.copies_contents();
        match self.options().engine {
            _ if !moves_contents => {}
            Engine::Uring => self.ring = Some(Ring::new(depth)?),
            Engine::Auto if depth > 0 => self.ring = Ring::new(depth).ok(),
            Engine::Auto | Engine::Threads => {}
        }
        Ok(())
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Copies an entry, or begins to. Returns true if it is a directory, for the walk to copy.
    #[must_use]
    pub(crate) fn begin(&mut self, entry: &Entry<'_>, listed: FileType) -> bool {
        let suits = listed == FileType::RegularFile && suits_ring(self.options());
        match self.ring_lost {
            _ if !suits => return self.entries.copy(entry, listed),
            None if self.ring.is_some() => return self.begin_in_ring(entry),
            // No other engine is taken.
            Some(errno) if self.options().engine == Engine::Uring => {
                if self.entries.is_wanted(entry, listed) {
                    let error = io::Error::from_raw_os_error(errno);
                    let reporter = &self.entries.reporter;
                    reporter.failed(Step::Engine, entry.source(), error);
                }
            }
            _ => return self.entries.copy(entry, listed),
        }
        false
    }

    /// Begins to copy a regular file, when there is room for it.
    fn begin_in_ring(&mut self, entry: &Entry<'_>) -> bool {
        if !self.entries.is_wanted(entry, FileType::RegularFile) {
            return false;
        }
        if self
            .ring
            .as_ref()
            .is_some_and(|ring| ring.later.len() >= ring.depth)
        {
            self.settle();
        }
        while self
            .ring
            .as_ref()
            .is_some_and(|ring| ring.flights.len() >= ring.depth)
        {
            self.turn();
        }
        if self.ring.is_none() {
            return self.begin(entry, FileType::RegularFile);
        }
        entry.at.dir.add(1);
        Landed::open_source(self, entry);
        false
    }

    /// Ends what was begun.
    pub(crate) fn settle(&mut self) {
        while self.ring.as_ref().is_some_and(|ring| !ring.flights.is_empty()) {
            self.turn();
        }
        let later = self.ring.as_mut().map(|ring| std::mem::take(&mut ring.later));
        for later in later.into_iter().flatten() {
            self.copy_later(later);
        }
    }

    /// Hands an op to the ring; `flight` goes on with its completion.
    pub(super) fn launch(&mut self, flight: Flight, op: impl Into<Op>) {
        // Trying an op inline first would take as many calls as copying without a ring.
        let options = proactor_engine::Options::default().no_inline(true);
        let ring = self.ring();
        match ring.driver.submit_with(op, options) {
            Ok(token) => {
                ring.flights.insert(token, flight);
            }
            Err(refused) => {
                let error = io::Error::other(refused.refusal.to_string());
                let landing = Landing {
                    result: Err(error),
                    op: Some(*refused.op),
                };
                Landed::go_on(self, flight, landing);
            }
        }
    }

    pub(super) fn ring(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("this thread has a ring")
    }

    /// Waits for completions, and goes on with their files.
    fn turn(&mut self) {
        let ring = self.ring();
        let mut done = std::mem::take(&mut ring.done);
        // A quarter of them at a time: fewer turns, and the kernel still has work meanwhile.
        let least = (ring.flights.len() / 4).max(1);
        match ring.driver.wait(least, usize::MAX, None, &mut done) {
            Err(error) if proactor_engine::is_forbidden(&error) => return self.lose_ring(&error),
            // After another error (a signal, no memory just now) nothing is lost: the next turn waits again.
            _ => {}
        }
        for completion in done.drain(..) {
            let flight = self.ring().flights.remove(&completion.token);
            let landing = Landing {
                // The copier names file and step itself.
                result: completion
                    .result
                    .map_err(|error| io::Error::from_raw_os_error(error.errno())),
                op: completion.op,
            };
            Landed::go_on(self, flight.expect("each op has a flight"), landing);
        }
        self.ring().done = done;
    }

    /// Copies a file that was put off, by plain calls.
    pub(super) fn copy_later(&mut self, later: Later) {
        let Later { at, name, task } = later;
        let entry = entry(&at, &name);
        let done = match task {
            _ if self.entries.shared.context.stopped() => Ok(()),
            Some(task) => task.copy(&mut self.entries, &entry),
            None => self.entries.copy_as(&entry, FileType::RegularFile),
        };
        self.leave(at, name, done);
    }

    /// Ends a file's time in the ring. Errors are reported already.
    pub(super) fn leave(&mut self, at: Opened, name: CString, done: Outcome<()>) {
        match done {
            Err(End::Directory) => self.directories.push((at, name)),
            _ => self.finished.push(at.dir),
        }
    }
}

/// Returns true if the ring is of use for any file of this copy.
fn suits_ring(options: &Options) -> bool {
    // Questions go one file after the other; flags are set while a file is empty.
    !options.overwrite.ask
        && !options.preserve.flags
        && options.reflink != Reflink::Always
        && options.sparse != Sparse::Always
}
