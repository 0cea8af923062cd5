//! A plain ring, as fio's `io_uring`: without O_DIRECT the kernel does what it can while it takes an op,
//! where our driver would use a worker for long transfers.
//!
//! Invariant: a slot's buffer stays where it is until its completion has been read.

use super::driver::{memlock, SQPOLL_IDLE};
use super::queue::{Ended, Transport, Way};
use super::Part;
use crate::job::Cell;
use crate::unless_interrupted;
use io_uring::types::{Fd, Fixed};
use io_uring::{opcode, squeue, IoUring};
use proactor_engine::buffer::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// User data of a sync.
const NO_SLOT: u64 = u64::MAX;

pub(super) struct RawUring {
    ring: IoUring,
    /// Source, and destination if there is one, in the order of registration.
    files: Vec<File>,
    /// True if files and buffers are registered.
    fixed: bool,
    iopoll: bool,
    buffers: Vec<AlignedBuf>,
    /// Number of ops in the submission queue or in the kernel.
    in_flight: usize,
    /// Upper bound on completions that are reaped together.
    most: usize,
    /// Completions that were read before the caller waited for them.
    early: Vec<Ended>,
}

/// Makes a ring with the newest features of the kernel: completions are run when we ask (6.1), without an
/// interrupt (5.19).
fn ring(cell: &Cell) -> io::Result<IoUring> {
    let mut last = None;
    for (defer, coop) in [(true, true), (false, true), (false, false)] {
        let mut builder = IoUring::builder();
        builder.setup_clamp();
        if cell.engine.iopoll {
            builder.setup_iopoll();
        }
        if cell.engine.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE.as_millis() as u32);
        } else {
            if coop {
                builder.setup_coop_taskrun();
            }
            if defer {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
        }
        match builder.build(cell.reachable_depth()) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => last = Some(e),
            made => return made,
        }
    }
    Err(last.expect("each was tried"))
}

impl RawUring {
    /// Puts an op into the submission queue.
    fn push(&mut self, entry: &squeue::Entry) -> Result<(), String> {
        // SAFETY: what the entry points to is a slot's buffer, which lives and lies still until its completion has been
        // read: `drop` waits for it.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.flush()?;
            let mut early = std::mem::take(&mut self.early);
            self.take(usize::MAX, &mut early);
            self.early = early;
            if self.ring.params().is_setup_sqpoll() {
                checked(unless_interrupted(self.ring.submitter().squeue_wait()))?;
            }
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Reads completions, at most `most`, and returns the number.
    fn take(&mut self, most: usize, ended: &mut Vec<Ended>) -> usize {
        let mut found = 0;
        for entry in self.ring.completion().take(most) {
            found += 1;
            let slot = Some(entry.user_data()).filter(|slot| *slot != NO_SLOT);
            ended.push(Ended {
                slot: slot.map(|slot| slot as usize),
                result: match usize::try_from(entry.result()) {
                    Ok(count) => Ok(count),
                    Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
                },
            });
        }
        self.in_flight -= found;
        found
    }

    fn written(&self) -> (usize, RawFd) {
        let index = self.files.len() - 1;
        (index, self.files[index].as_raw_fd())
    }
}

/// Interprets EBUSY: completions that found no room wait for it, and those that are ready have to be read
/// first (5.5).
fn checked(entered: io::Result<usize>) -> Result<(), String> {
    match entered {
        Err(e) if e.raw_os_error() != Some(libc::EBUSY) => Err(format!("io_uring_enter: {e}")),
        _ => Ok(()),
    }
}

impl Transport for RawUring {
    fn ready(part: &Part<'_>) -> Result<RawUring, String> {
        let cell = part.cell;
        let failed = |e: io::Error| format!("{}: {e}", cell.engine);
        let ring = ring(cell).map_err(failed)?;
        let files: Vec<File> = std::iter::once(part.source)
            .chain(part.destination)
            .map(|file| file.try_clone())
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        let mut buffers = part.buffers()?;
        if cell.engine.fixed {
            let fds: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
            ring.submitter().register_files(&fds).map_err(failed)?;
            let lent: Vec<libc::iovec> = buffers
                .iter_mut()
                .map(|buffer| libc::iovec {
                    iov_base: buffer.as_mut_ptr().cast(),
                    iov_len: buffer.len(),
                })
                .collect();
            // SAFETY: the memory is that of the buffers, which outlive the ring's use of them: `drop` waits for each op.
            unsafe { ring.submitter().register_buffers(&lent) }.map_err(|e| memlock(cell, &e))?;
        }
        Ok(RawUring {
            ring,
            files,
            fixed: cell.engine.fixed,
            iopoll: cell.engine.iopoll,
            buffers,
            in_flight: 0,
            most: part.most(),
            early: Vec::new(),
        })
    }

    fn buffer(&mut self, slot: usize, _: Way, bytes: usize) -> &mut [u8] {
        &mut self.buffers[slot][..bytes]
    }

    fn transfer(&mut self, slot: usize, way: Way, offset: u64, bytes: usize) -> Result<(), String> {
        let (index, fd) = match way {
            Way::WriteDestination => self.written(),
            Way::Read | Way::Write => (0, self.files[0].as_raw_fd()),
        };
        let buffer = &mut self.buffers[slot];
        let (start, length, place) = (buffer.as_mut_ptr(), buffer[..bytes].len() as u32, slot as u16);
        let (fd, fixed) = (Fd(fd), Fixed(index as u32));
        let entry = match (self.fixed, way == Way::Read) {
            (true, true) => opcode::ReadFixed::new(fixed, start, length, place)
                .offset(offset)
                .build(),
            (true, false) => opcode::WriteFixed::new(fixed, start, length, place)
                .offset(offset)
                .build(),
            (false, true) => opcode::Read::new(fd, start, length).offset(offset).build(),
            (false, false) => opcode::Write::new(fd, start, length).offset(offset).build(),
        };
        self.push(&entry.user_data(slot as u64))
    }

    /// Does an fsync at once, as a ring whose completions are polled for takes nothing but transfers.
    fn sync(&mut self) -> Result<(), String> {
        let (index, fd) = self.written();
        if self.iopoll {
            self.early.push(Ended::sync_at_once(&self.files[index]));
            return Ok(());
        }
        self.push(&opcode::Fsync::new(Fd(fd)).build().user_data(NO_SLOT))
    }

    fn flush(&mut self) -> Result<(), String> {
        checked(unless_interrupted(self.ring.submit()))
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String> {
        ended.append(&mut self.early);
        if ended.is_empty() && self.ring.completion().is_empty() {
            checked(unless_interrupted(self.ring.submit_and_wait(1)))?;
        } else if !self.ring.submission().is_empty() {
            self.flush()?;
        }
        self.take(self.most, ended);
        Ok(())
    }
}

impl Drop for RawUring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            if self.take(usize::MAX, &mut ended) > 0 {
                continue;
            }
            if checked(unless_interrupted(self.ring.submit_and_wait(1))).is_err() {
                // The kernel may write to them for as long as the process lives.
                std::mem::forget(std::mem::take(&mut self.buffers));
                return;
            }
        }
    }
}
