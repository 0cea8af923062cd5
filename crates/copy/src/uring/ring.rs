//! A ring of the engine, with the files that are in it and their memory. It knows nothing of how a file is copied.

use super::flight::{Flight, Later, Task};
use crate::pair::directory::Opened;
use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::Op;
use proactor_engine::{Completion, Config, Driver, Engine, Output, Token};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// Longer files are copied in pieces, by plain calls. 64 buffers of this size are 8 MiB, for each thread.
pub(super) const MOST_BYTES: u64 = 128 << 10;

/// The size of a page. Copies between user and kernel are fastest if they start at one.
const PAGE_BYTES: usize = 4096;

/// A ring and the files in flight.
pub(super) struct Ring {
    /// The first to be dropped: it waits until the kernel has let go of all that the flights below hold open.
    pub(super) driver: Driver,
    pub(super) flights: HashMap<Token, Flight>,
    /// Files that the ring cannot copy while it holds so much open.
    pub(super) later: Vec<Later>,
    pub(super) done: Vec<Completion>,
    buffers: Vec<AlignedBuf>,
    pub(super) depth: usize,
}

/// The result of an op, with the op.
pub(super) struct Landing {
    pub(super) result: io::Result<Output>,
    pub(super) op: Option<Op>,
}

impl Ring {
    pub(super) fn new(depth: usize) -> io::Result<Ring> {
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

    /// Takes memory for this many bytes: a ring reads as much as there is room for.
    ///
    /// # Errors
    /// ENOMEM if there is none.
    pub(super) fn buffer(&mut self, bytes: usize) -> io::Result<AlignedBuf> {
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
    pub(super) fn give_back(&mut self, buffer: AlignedBuf) {
        if self.buffers.len() >= self.depth {
            // The one that has not been wanted for longest.
            self.buffers.remove(0);
        }
        self.buffers.push(buffer);
    }

    /// Leaves a file to plain calls, when the ring holds nothing.
    pub(super) fn put_off(&mut self, at: Opened, name: CString, task: Option<Box<Task>>) {
        self.later.push(Later { at, name, task });
    }
}

impl Landing {
    /// The memory that a transfer had.
    pub(super) fn buffer(self) -> (io::Result<usize>, AlignedBuf) {
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
