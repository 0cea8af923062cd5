//! Plain `io_submit` and `io_getevents`, as fio's `libaio`: without O_DIRECT a submission blocks until its
//! transfer is done, which our driver would not allow.
//!
//! Invariant: an iocb and its buffer stay where they are until the event has been read, or the context is
//! gone.

use super::queue::{Ended, Transport, Way};
use super::Part;
use proactor_engine::buffer::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const CMD_PREAD: u16 = 0;
const CMD_PWRITE: u16 = 1;

/// `struct iocb`, as far as it is used: what is left out at its end is zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    reqprio: i16,
    fd: u32,
    buf: u64,
    len: u64,
    offset: i64,
    rest: [u64; 2],
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

struct Context(libc::c_ulong);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: a context of ours that is used no more. The call waits for what is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

pub(super) struct RawAio {
    // Declared first: gone before what its requests point to.
    context: Context,
    source: File,
    destination: Option<File>,
    iocbs: Box<[Iocb]>,
    buffers: Vec<AlignedBuf>,
    /// Slots that are queued and not submitted.
    taken: Vec<usize>,
    in_kernel: usize,
    /// Events; the length is the upper bound on completions that are reaped together.
    events: Vec<Event>,
    /// Syncs, which are done at once.
    synced: Vec<Ended>,
}

impl RawAio {
    /// Submits as many as the kernel takes now.
    fn submit(&mut self) -> Result<(), String> {
        while !self.taken.is_empty() {
            let base = self.iocbs.as_mut_ptr();
            let list: Vec<*mut Iocb> = self.taken.iter().map(|slot| base.wrapping_add(*slot)).collect();
            // SAFETY: each points into `iocbs`, which never moves, and describes the slot's buffer and a file that both
            // live until the context is gone.
            let taken = unsafe {
                let count = list.len() as libc::c_long;
                libc::syscall(libc::SYS_io_submit, self.context.0, count, list.as_ptr())
            };
            match usize::try_from(taken) {
                Ok(count) => {
                    self.taken.drain(..count);
                    self.in_kernel += count;
                }
                Err(_) => match io::Error::last_os_error() {
                    e if e.raw_os_error() == Some(libc::EAGAIN) && self.in_kernel > 0 => return Ok(()),
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(format!("io_submit: {e}")),
                },
            }
        }
        Ok(())
    }
}

impl Transport for RawAio {
    fn ready(part: &Part<'_>) -> Result<RawAio, String> {
        let cell = part.cell;
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes one context id to a live, zeroed local.
        if unsafe { libc::syscall(libc::SYS_io_setup, cell.reachable_depth(), &raw mut id) } < 0 {
            let e = io::Error::last_os_error();
            return Err(format!(
                "{}: io_setup for {} ops: {e} (see fs.aio-max-nr)",
                cell.engine, cell.iodepth
            ));
        }
        let context = Context(id);
        let open = |file: &File| file.try_clone().map_err(|e| format!("{}: {e}", cell.engine));
        let buffers = part.buffers()?;
        Ok(RawAio {
            context,
            source: open(part.source)?,
            destination: part.destination.map(open).transpose()?,
            iocbs: vec![Iocb::default(); buffers.len()].into(),
            taken: Vec::with_capacity(buffers.len()),
            events: vec![Event::default(); part.most().min(buffers.len())],
            buffers,
            in_kernel: 0,
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
        self.iocbs[slot] = Iocb {
            data: slot as u64,
            opcode: if way == Way::Read { CMD_PREAD } else { CMD_PWRITE },
            fd: file.as_raw_fd() as u32,
            buf: buffer.as_mut_ptr() as u64,
            len: buffer[..bytes].len() as u64,
            offset: offset as i64,
            ..Iocb::default()
        };
        self.taken.push(slot);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        let file = self.destination.as_ref().unwrap_or(&self.source);
        self.synced.push(Ended::sync_at_once(file));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.submit()
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String> {
        self.submit()?;
        let wanted = usize::from(self.synced.is_empty());
        ended.append(&mut self.synced);
        if self.in_kernel == 0 {
            return Ok(());
        }
        // SAFETY: the kernel writes at most `events.len()` events; without a timeout it reads nothing.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context.0,
                wanted as libc::c_long,
                self.events.len() as libc::c_long,
                self.events.as_mut_ptr(),
                std::ptr::null::<libc::timespec>(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            return match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
                e => Err(format!("io_getevents: {e}")),
            };
        };
        self.in_kernel -= count;
        ended.extend(self.events[..count].iter().map(|event| Ended {
            slot: Some(event.data as usize),
            result: match usize::try_from(event.res) {
                Ok(count) => Ok(count),
                Err(_) => Err(io::Error::from_raw_os_error(-event.res as i32)),
            },
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_have_the_size_of_the_kernels() {
        assert_eq!((size_of::<Iocb>(), size_of::<Event>()), (64, 32));
    }
}
