//! `aio_read` and `aio_write` of the C library with nothing around them, as fio's `posixaio`: no request tells of its end,
//! the program looks at each, and waits for the oldest with `aio_suspend`.
//!
//! glibc has one thread for a file's requests, which does them in order, so the oldest ends first: to wait for all of
//! them would make `aio_suspend` note down and forget each, every time.
//!
//! Invariant: a control block and its buffer stay where they are until `aio_return` has been asked for it.

use super::queue::{Ended, Transport, Way};
use super::{Part, ALIGNMENT};
use crate::data;
use proactor::buffer::AlignedBuf;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// From `signal.h`: no notification.
const SIGEV_NONE: libc::c_int = 1;

pub(super) struct RawPosix {
    source: File,
    destination: Option<File>,
    blocks: Box<[libc::aiocb]>,
    buffers: Vec<AlignedBuf>,
    /// Slots in the library's hands, the oldest first.
    flying: VecDeque<usize>,
    /// The most that are taken back together; 0: all.
    most: usize,
    /// Syncs, which are done at once.
    synced: Vec<Ended>,
}

// SAFETY: the pointers in the control blocks are into `buffers`, which go with them.
unsafe impl Send for RawPosix {}

impl RawPosix {
    /// The result of a slot, if it has one.
    fn result(&mut self, slot: usize) -> Option<io::Result<usize>> {
        let block = &raw mut self.blocks[slot];
        // SAFETY: submitted, and its result has not been read: it is in `flying`.
        match unsafe { libc::aio_error(block) } {
            libc::EINPROGRESS => None,
            // SAFETY: as above, and it is complete.
            0 => Some(Ok(unsafe { libc::aio_return(block) } as usize)),
            error => {
                // SAFETY: as above.
                unsafe { libc::aio_return(block) };
                Some(Err(io::Error::from_raw_os_error(error)))
            }
        }
    }

    fn reap(&mut self, ended: &mut Vec<Ended>) {
        let most = if self.most == 0 { usize::MAX } else { self.most };
        let (mut at, mut found) = (0, 0);
        while at < self.flying.len() && found < most {
            let slot = self.flying[at];
            match self.result(slot) {
                None => at += 1,
                Some(result) => {
                    self.flying.remove(at);
                    found += 1;
                    ended.push(Ended {
                        slot: Some(slot),
                        result,
                    });
                }
            }
        }
    }
}

impl Transport for RawPosix {
    fn ready(part: &Part<'_>) -> Result<RawPosix, String> {
        let cell = part.cell;
        let open = |file: &File| file.try_clone().map_err(|e| format!("{}: {e}", cell.engine));
        let mut buffers = Vec::new();
        for slot in 0..u64::from(cell.iodepth) {
            let mut buffer = AlignedBuf::zeroed(cell.bs as usize, ALIGNMENT);
            data::fill(&mut buffer, part.seed, part.generation, slot * cell.bs);
            buffers.push(buffer);
        }
        // SAFETY: zeroes are a valid `aiocb`.
        let none = || unsafe { std::mem::zeroed::<libc::aiocb>() };
        Ok(RawPosix {
            source: open(part.source)?,
            destination: part.destination.map(open).transpose()?,
            blocks: buffers.iter().map(|_| none()).collect(),
            flying: VecDeque::with_capacity(buffers.len()),
            buffers,
            most: cell.complete_max as usize,
            synced: Vec::new(),
        })
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    fn transfer(&mut self, slot: usize, way: Way, offset: u64) -> Result<(), String> {
        let file = match (way, &self.destination) {
            (Way::WriteDestination, Some(file)) => file,
            _ => &self.source,
        };
        let buffer = &mut self.buffers[slot];
        let block = &mut self.blocks[slot];
        block.aio_fildes = file.as_raw_fd();
        block.aio_buf = buffer.as_mut_ptr().cast();
        block.aio_nbytes = buffer.len();
        block.aio_offset = offset as libc::off_t;
        block.aio_sigevent.sigev_notify = SIGEV_NONE;
        // SAFETY: block and buffer are of this slot, which nothing else uses until its result has been read, and neither
        // moves; `drop` waits for those that are left.
        let refused = unsafe {
            match way {
                Way::Read => libc::aio_read(block),
                Way::Write | Way::WriteDestination => libc::aio_write(block),
            }
        };
        if refused != 0 {
            return Err(format!("aio_read or aio_write: {}", io::Error::last_os_error()));
        }
        self.flying.push_back(slot);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        let file = self.destination.as_ref().unwrap_or(&self.source);
        let result = rustix::fs::fsync(file).map(|()| 0).map_err(Into::into);
        self.synced.push(Ended { slot: None, result });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String> {
        ended.append(&mut self.synced);
        self.reap(ended);
        while ended.is_empty() {
            let Some(oldest) = self.flying.front() else {
                return Ok(());
            };
            let list = [&raw const self.blocks[*oldest]];
            // SAFETY: one request of ours, in the library's hands.
            if unsafe { libc::aio_suspend(list.as_ptr(), 1, std::ptr::null()) } != 0 {
                return match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
                    e => Err(format!("aio_suspend: {e}")),
                };
            }
            self.reap(ended);
        }
        Ok(())
    }
}

impl Drop for RawPosix {
    fn drop(&mut self) {
        while let Some(slot) = self.flying.front().copied() {
            if self.result(slot).is_some() {
                self.flying.pop_front();
                continue;
            }
            let list = [&raw const self.blocks[slot]];
            // SAFETY: as in `wait`.
            unsafe { libc::aio_suspend(list.as_ptr(), 1, std::ptr::null()) };
        }
    }
}
