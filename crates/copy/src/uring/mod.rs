//! `Engine::Uring`: a ring for each worker, with many files in it at once, each a small state machine that completions
//! drive (`flight.rs`).
//!
//! This file knows the engine and nothing of how a file is copied. Invariants: a buffer is with the kernel or here, never
//! both; a descriptor that an op names is closed after that op has completed, also when a worker panics.

mod flight;
mod lost;

pub(crate) use lost::Lost;

use crate::job::worker::Worker;
use crate::pair::Entry;
use flight::{Flight, Later};
use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::Op;
use proactor_engine::{Completion, Config, Driver, Engine, Options, Output, Token};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// Longer files are copied in pieces, by the worker itself. 64 buffers of this size are 8 MiB, for each worker.
pub(crate) const MOST_BYTES: u64 = 128 << 10;

/// Where a page begins, copies between user and kernel are fastest.
const PAGE_BYTES: usize = 4096;

pub(crate) struct Ring {
    /// The first to be dropped: it waits until the kernel has let go of all that the flights below hold open.
    driver: Driver,
    flights: HashMap<Token, Flight>,
    /// What the ring cannot do while it holds so many descriptors.
    later: Vec<Later>,
    done: Vec<Completion>,
    buffers: Vec<AlignedBuf>,
    depth: usize,
}

/// How an op went, with the op.
struct Landing {
    result: io::Result<Output>,
    op: Option<Op>,
}

impl Ring {
    pub(crate) fn new(depth: usize) -> io::Result<Ring> {
        // The queue counts descriptors itself, and `later` is for what finds none.
        let config = Config::default()
            .engine(Engine::IoUring)
            .depth(depth as u32)
            .descriptor_wait(Duration::ZERO);
        let mut flights = HashMap::new();
        flights.try_reserve(depth).map_err(|_| Errno::NOMEM)?;
        Ok(Ring {
            driver: config.build()?,
            flights,
            later: Vec::new(),
            done: Vec::new(),
            buffers: Vec::new(),
            depth,
        })
    }

    /// Memory for so many bytes: a ring reads as much as there is room for.
    ///
    /// # Errors
    /// ENOMEM if there is none.
    fn buffer(&mut self, bytes: usize) -> io::Result<AlignedBuf> {
        let capacity = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let fits = |buffer: &AlignedBuf| buffer.capacity() == capacity;
        match self.buffers.iter().rposition(fits) {
            Some(at) => Ok(self.buffers.swap_remove(at)),
            None => {
                let made = AlignedBuf::try_zeroed(capacity, PAGE_BYTES);
                let mut made = made.ok_or(Errno::NOMEM)?;
                made.set_len(0);
                Ok(made)
            }
        }
    }

    /// Takes memory back, as much as files in flight could have.
    fn give_back(&mut self, buffer: AlignedBuf) {
        if self.buffers.len() >= self.depth {
            // The one that has not been wanted for longest.
            self.buffers.remove(0);
        }
        self.buffers.push(buffer);
    }
}

impl Landing {
    /// The memory that a transfer had.
    fn buffer(self) -> (io::Result<usize>, AlignedBuf) {
        let buffer = match self.op {
            Some(Op::Read(op)) => op.buffer,
            Some(Op::Write(op)) => op.buffer,
            _ => unreachable!("only transfers are asked for their memory"),
        };
        let Buf::Aligned(buffer) = buffer else {
            unreachable!("it was given aligned memory");
        };
        let count = self.result.map(|output| match output {
            Output::Count(count) => count,
            _ => unreachable!("a transfer counts bytes"),
        });
        (count, buffer)
    }
}

impl Worker<'_> {
    fn ring(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("this worker's engine is a ring")
    }

    /// Begins to copy a regular file, when there is room for it.
    pub(crate) fn begin_in_ring(&mut self, entry: &Entry<'_>) {
        if !self.is_wanted(entry, FileType::RegularFile) {
            return;
        }
        if self.ring().later.len() >= self.ring().depth {
            self.settle_ring();
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
        self.open_source_in_ring(entry);
    }

    /// Lands everything.
    pub(crate) fn settle_ring(&mut self) {
        while self.ring.as_ref().is_some_and(|ring| !ring.flights.is_empty()) {
            self.turn();
        }
        let later = self.ring.as_mut().map(|ring| std::mem::take(&mut ring.later));
        for later in later.into_iter().flatten() {
            self.do_later(later);
        }
    }

    /// Hands an op to the ring; `flight` goes on with its completion.
    fn launch(&mut self, flight: Flight, op: impl Into<Op>) {
        // What the engine would try at once costs it as many calls as the worker's own.
        let options = Options {
            no_inline: true,
            ..Options::default()
        };
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
                self.landed(flight, landing);
            }
        }
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
            self.landed(flight.expect("each op has a flight"), landing);
        }
        self.ring().done = done;
    }
}
