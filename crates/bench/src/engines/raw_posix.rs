//! Plain `aio_read` and `aio_write` of the C library, as fio's `posixaio`: no request reports its end, so the
//! program checks each, and waits for some of them with `aio_suspend`.
//!
//! The choice of those decides how often the program is woken. glibc has one thread for a file's requests,
//! which does them in order: waiting for the oldest wakes the program for each, and waiting for all makes
//! `aio_suspend` register and unregister each, every time. As in fio, the program waits for those of the
//! lowest slots, so that many have ended by then.
//!
//! Invariant: a control block and its buffer stay where they are until `aio_return` has been called for it.

use super::queue::{Ended, Transport, Way};
use super::Part;
use crate::unless_interrupted;
use proactor_engine::buffer::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// From `signal.h`: no notification.
const SIGEV_NONE: libc::c_int = 1;
/// Upper bound on requests that are waited for together: fio's number.
const WAITED_FOR: usize = 8;

pub(super) struct RawPosix {
    source: File,
    destination: Option<File>,
    blocks: Box<[libc::aiocb]>,
    buffers: Vec<AlignedBuf>,
    /// True for each slot whose request the library has.
    flying: Vec<bool>,
    /// Slot after the one that was reaped last.
    next: usize,
    /// Upper bound on completions that are reaped together.
    most: usize,
    /// Syncs, which are done at once.
    synced: Vec<Ended>,
}

// SAFETY: the pointers in the control blocks are into `buffers`, which go with them.
unsafe impl Send for RawPosix {}

impl RawPosix {
    /// Returns the result of a slot, if it has one.
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

    /// Reaps what has ended, waiting for a first one unless nothing is in flight. Returns the number.
    fn reap(&mut self, most: usize, ended: &mut Vec<Ended>) -> io::Result<usize> {
        let count = self.flying.len();
        loop {
            let (mut found, mut list, mut listed) = (0, [std::ptr::null(); WAITED_FOR], 0);
            // After the one that was reaped last, or those of high slots would wait for ever where only some
            // are reaped.
            let start = if most < count { self.next } else { 0 };
            for slot in (start..count).chain(0..start) {
                if !self.flying[slot] {
                    continue;
                }
                match self.result(slot) {
                    None if listed < list.len() => {
                        list[listed] = &raw const self.blocks[slot];
                        listed += 1;
                    }
                    None => {}
                    Some(result) => {
                        self.flying[slot] = false;
                        self.next = slot + 1;
                        found += 1;
                        ended.push(Ended {
                            slot: Some(slot),
                            result,
                        });
                        if found == most {
                            break;
                        }
                    }
                }
            }
            if found > 0 || listed == 0 {
                return Ok(found);
            }
            // SAFETY: requests of ours, in the library's hands, and as many as it says.
            if unsafe { libc::aio_suspend(list.as_ptr(), listed as libc::c_int, std::ptr::null()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
}

impl Transport for RawPosix {
    fn ready(part: &Part<'_>) -> Result<RawPosix, String> {
        let cell = part.cell;
        let open = |file: &File| file.try_clone().map_err(|e| format!("{}: {e}", cell.engine));
        let buffers = part.buffers()?;
        // SAFETY: zeroes are a valid `aiocb`.
        let none = || unsafe { std::mem::zeroed::<libc::aiocb>() };
        Ok(RawPosix {
            source: open(part.source)?,
            destination: part.destination.map(open).transpose()?,
            blocks: buffers.iter().map(|_| none()).collect(),
            flying: vec![false; buffers.len()],
            next: 0,
            buffers,
            most: part.most(),
            synced: Vec::new(),
        })
    }

    fn buffer(&mut self, slot: usize, _: Way, bytes: usize) -> &mut [u8] {
        &mut self.buffers[slot][..bytes]
    }

    fn transfer(&mut self, slot: usize, way: Way, offset: u64, bytes: usize) -> Result<(), String> {
        let file = match (way, &self.destination) {
            (Way::WriteDestination, Some(file)) => file,
            _ => &self.source,
        };
        let buffer = &mut self.buffers[slot];
        let block = &mut self.blocks[slot];
        block.aio_fildes = file.as_raw_fd();
        block.aio_buf = buffer.as_mut_ptr().cast();
        block.aio_nbytes = buffer[..bytes].len();
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
        self.flying[slot] = true;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        let file = self.destination.as_ref().unwrap_or(&self.source);
        self.synced.push(Ended::sync_at_once(file));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String> {
        ended.append(&mut self.synced);
        if !ended.is_empty() {
            return Ok(());
        }
        unless_interrupted(self.reap(self.most, ended)).map_err(|e| format!("aio_suspend: {e}"))?;
        Ok(())
    }
}

impl Drop for RawPosix {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.flying.contains(&true) {
            let _ = self.reap(usize::MAX, &mut ended);
        }
    }
}
