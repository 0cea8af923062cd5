//! From an op to a submission queue entry.

use crate::op::{Call, Facts, FileKind, Handle, Op, OpenFlags, Priority, RwFlags, XattrTarget};
use crate::sys::perform::transfer_file;
use crate::sys::MAX_RW_BYTES;
use io_uring::types::FsyncFlags;
use io_uring::{opcode, squeue, types};
use std::os::fd::AsRawFd;

/// Builds with the registered file's index where the handle has one in this ring, with the descriptor otherwise.
macro_rules! on {
    ($handle:expr, $places:expr, |$fd:ident| $body:expr) => {
        match $places.files.and_then(|driver_id| $handle.fixed_index(driver_id)) {
            Some(index) => {
                let $fd = types::Fixed(index);
                $body
            }
            None => {
                let $fd = types::Fd($handle.fd());
                $body
            }
        }
    };
}

/// Whose registered files and buffers an entry may name by their places.
pub(super) struct Places {
    /// A driver's id. None: an entry is to name files by their descriptors.
    pub(super) files: Option<u64>,
    pub(super) buffers: u64,
}

/// Longer reads of a file through the page cache go to a kernel worker at once. The ring would make their pages while it submits and copy
/// them when it is entered again, all on the caller's time: 64 cold files of 100 KB held an event loop for up to 15 ms,
/// and took a tenth longer. At 24 KB a worker takes a third longer instead.
const WORKER_READ_BYTES: usize = 64 * 1024;

/// The kernel's offset for "the file's position".
fn offset(offset: Option<u64>, skip: usize) -> u64 {
    offset.map_or(u64::MAX, |offset| offset + skip as u64)
}

/// The entry of a single read or write of which it is known that the ring does it, by its own attempt. None: it may be all the
/// same, and `build` makes the entry.
#[inline(always)]
pub(super) fn single(op: &mut Op, skip: usize, priority: Priority, id: u64) -> Option<squeue::Entry> {
    let unusual = RwFlags::HIPRI.bits() | RwFlags::NOWAIT.bits();
    let entry = match op {
        Op::Read(o) => {
            let (ptr, len, _) = o.prepare(skip);
            if o.flags.bits() & unusual != 0 || len > WORKER_READ_BYTES || !o.file.is_known_to_queue() {
                return None;
            }
            let (fd, flags) = place(&o.file, id);
            let at = offset(o.offset, skip);
            let entry = match registered(&o.buffer, id) {
                Some(index) => opcode::ReadFixed::new(fd, ptr, len as u32, index)
                    .offset(at)
                    .rw_flags(o.flags.bits())
                    .ioprio(priority.raw())
                    .build(),
                None => opcode::Read::new(fd, ptr, len as u32)
                    .offset(at)
                    .rw_flags(o.flags.bits())
                    .ioprio(priority.raw())
                    .build(),
            };
            entry.flags(flags)
        }
        Op::Write(o) => {
            let (ptr, len, _) = o.prepare(skip);
            if o.flags.bits() & unusual != 0 || !o.file.is_known_to_queue() || !o.file.is_known_no_terminal()
            {
                return None;
            }
            let (fd, flags) = place(&o.file, id);
            let at = offset(o.offset, skip);
            let entry = match registered(&o.buffer, id) {
                Some(index) => opcode::WriteFixed::new(fd, ptr, len as u32, index)
                    .offset(at)
                    .rw_flags(o.flags.bits())
                    .ioprio(priority.raw())
                    .build(),
                None => opcode::Write::new(fd, ptr, len as u32)
                    .offset(at)
                    .rw_flags(o.flags.bits())
                    .ioprio(priority.raw())
                    .build(),
            };
            entry.flags(flags)
        }
        _ => return None,
    };
    Some(entry)
}

/// What an entry names the file by.
#[inline(always)]
fn place(file: &Handle, id: u64) -> (types::Fd, squeue::Flags) {
    match file.fixed_index(id) {
        Some(index) => (types::Fd(index as i32), squeue::Flags::FIXED_FILE),
        None => (types::Fd(file.fd()), squeue::Flags::empty()),
    }
}

/// Whether the ring must not try the next entry itself, on the caller's time.
///
/// Its own attempt to open a file adds O_NONBLOCK: a FIFO opens without a writer, or fails with ENXIO. (What can be opened
/// without a worker the driver has tried.) And it takes the kernel's word that a terminal does not make it wait (Linux
/// 6.18), but a write waits there for somebody to read the other side.
pub(super) fn needs_worker(op: &mut Op, skip: usize) -> bool {
    opens(op)
        || is_long_read(op, skip)
        || matches!(op, Op::Write(_) | Op::WriteV(_))
            && transfer_file(op).is_some_and(|file| file.facts().is_ok_and(|facts| facts.terminal))
}

fn is_long_read(op: &Op, skip: usize) -> bool {
    let (file, len) = match op {
        Op::Read(o) => (&o.file, o.buffer.capacity()),
        Op::ReadV(o) => (&o.file, o.total_len()),
        _ => return false,
    };
    let cached = |facts: Facts| facts.kind == FileKind::Disk && !facts.direct;
    len.saturating_sub(skip) > WORKER_READ_BYTES && file.facts().is_ok_and(cached)
}

fn opens(op: &mut Op) -> bool {
    const WAIT_FOR_NOBODY: OpenFlags = OpenFlags::NONBLOCK
        .union(OpenFlags::DIRECTORY)
        .union(OpenFlags::PATH);
    match op {
        Op::Open(o) => !o.flags.intersects(WAIT_FOR_NOBODY),
        Op::ReadFile(o) => matches!(o.call(), Call::Open { .. }),
        _ => false,
    }
}

/// The entry for what is left of the op after `skip` bytes. It points into the op: the op must stay where it is.
pub(super) fn build(op: &mut Op, skip: usize, priority: Priority, places: &Places) -> squeue::Entry {
    match op {
        Op::Read(_) | Op::Write(_) | Op::ReadV(_) | Op::WriteV(_) => transfer(op, skip, priority, places),
        Op::ReadFile(o) => match o.call() {
            Call::Open { dir, path, how } => opcode::OpenAt2::new(types::Fd(dir), path, how.cast()).build(),
            Call::Read { fd, to, len, offset } => {
                let entry = opcode::Read::new(types::Fd(fd), to, len as u32)
                    .offset(offset)
                    .build();
                let long = len > WORKER_READ_BYTES;
                entry.flags(if long {
                    squeue::Flags::ASYNC
                } else {
                    squeue::Flags::empty()
                })
            }
        },
        Op::Fsync(o) => {
            let flags = if o.data_only {
                FsyncFlags::DATASYNC
            } else {
                FsyncFlags::empty()
            };
            on!(o.file, places, |fd| opcode::Fsync::new(fd).flags(flags).build())
        }
        Op::SyncRange(o) => {
            on!(o.file, places, |fd| {
                opcode::SyncFileRange::new(fd, o.len)
                    .offset(o.offset)
                    .flags(o.flags.bits())
                    .build()
            })
        }
        Op::Allocate(o) => {
            on!(o.file, places, |fd| opcode::Fallocate::new(fd, o.len)
                .offset(o.offset)
                .mode(o.mode.bits())
                .build())
        }
        Op::Advise(o) => {
            on!(o.file, places, |fd| opcode::Fadvise::new(
                fd,
                o.len as _,
                o.advice as i32
            )
            .offset(o.offset)
            .build())
        }
        Op::Truncate(o) => on!(o.file, places, |fd| opcode::Ftruncate::new(fd, o.len).build()),
        Op::Splice(o) => {
            let (from, to) = (offset_or_none(o.from_offset), offset_or_none(o.to_offset));
            let (from_fd, to_fd) = (types::Fd(o.from.fd()), types::Fd(o.to.fd()));
            opcode::Splice::new(from_fd, from, to_fd, to, o.len)
                .flags(o.flags.bits())
                .build()
        }
        Op::Poll(o) => on!(o.file, places, |fd| {
            opcode::PollAdd::new(fd, u32::from(o.events.bits()))
                .multi(o.multishot)
                .build()
        }),
        Op::Timeout(o) => opcode::Timeout::new(o.prepare().cast()).build(),
        Op::Nop(_) => opcode::Nop::new().build(),
        Op::Close(o) => {
            let fd = o.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            opcode::Close::new(types::Fd(fd)).build()
        }
        Op::GetXattr(_) | Op::SetXattr(_) => xattr(op),
        _ => path(op),
    }
}

fn offset_or_none(offset: Option<u64>) -> i64 {
    offset.map_or(-1, |offset| offset as i64)
}

fn transfer(op: &mut Op, skip: usize, priority: Priority, places: &Places) -> squeue::Entry {
    let ioprio = priority.raw();
    match op {
        Op::Read(o) => {
            let (ptr, len, _) = o.prepare(skip);
            let at = offset(o.offset, skip);
            let flags = o.flags.bits();
            if let Some(index) = registered(&o.buffer, places.buffers) {
                return on!(o.file, places, |fd| {
                    let op = opcode::ReadFixed::new(fd, ptr, len as u32, index);
                    op.offset(at).rw_flags(flags).ioprio(ioprio).build()
                });
            }
            on!(o.file, places, |fd| {
                opcode::Read::new(fd, ptr, len as u32)
                    .offset(at)
                    .rw_flags(flags)
                    .ioprio(ioprio)
                    .build()
            })
        }
        Op::Write(o) => {
            let (ptr, len, _) = o.prepare(skip);
            let at = offset(o.offset, skip);
            let flags = o.flags.bits();
            if let Some(index) = registered(&o.buffer, places.buffers) {
                return on!(o.file, places, |fd| {
                    let op = opcode::WriteFixed::new(fd, ptr, len as u32, index);
                    op.offset(at).rw_flags(flags).ioprio(ioprio).build()
                });
            }
            on!(o.file, places, |fd| {
                opcode::Write::new(fd, ptr, len as u32)
                    .offset(at)
                    .rw_flags(flags)
                    .ioprio(ioprio)
                    .build()
            })
        }
        Op::ReadV(o) => {
            let (at, flags) = (offset(o.offset, skip), o.flags.bits());
            let iovecs = o.prepare(skip);
            let (ptr, count) = (iovecs.as_ptr(), iovecs.len() as u32);
            on!(o.file, places, |fd| {
                opcode::Readv::new(fd, ptr, count)
                    .offset(at)
                    .rw_flags(flags)
                    .ioprio(ioprio)
                    .build()
            })
        }
        Op::WriteV(o) => {
            let (at, flags) = (offset(o.offset, skip), o.flags.bits());
            let iovecs = o.prepare(skip);
            let (ptr, count) = (iovecs.as_ptr(), iovecs.len() as u32);
            on!(o.file, places, |fd| {
                opcode::Writev::new(fd, ptr, count)
                    .offset(at)
                    .rw_flags(flags)
                    .ioprio(ioprio)
                    .build()
            })
        }
        other => unreachable!("{} is no transfer", other.name()),
    }
}

fn registered(buffer: &crate::buffer::Buf, id: u64) -> Option<u16> {
    match buffer {
        crate::buffer::Buf::Registered(buffer) => buffer.index_in(id),
        _ => None,
    }
}

fn directory(handle: &Handle) -> types::Fd {
    types::Fd(handle.fd())
}

fn path(op: &mut Op) -> squeue::Entry {
    match op {
        Op::Open(o) => {
            let how = o.prepare();
            opcode::OpenAt2::new(directory(&o.dir), o.path.as_ptr(), how.cast()).build()
        }
        Op::Statx(o) => {
            let to = (&raw mut *o.stat).cast();
            opcode::Statx::new(directory(&o.dir), o.path.as_ptr(), to)
                .flags(o.flags.bits())
                .mask(o.mask.bits())
                .build()
        }
        Op::Rename(o) => {
            let (from, to) = (directory(&o.from_dir), directory(&o.to_dir));
            opcode::RenameAt::new(from, o.from.as_ptr(), to, o.to.as_ptr())
                .flags(o.flags.bits())
                .build()
        }
        Op::Unlink(o) => opcode::UnlinkAt::new(directory(&o.dir), o.path.as_ptr())
            .flags(o.flags.bits())
            .build(),
        Op::Mkdir(o) => opcode::MkDirAt::new(directory(&o.dir), o.path.as_ptr())
            .mode(o.mode)
            .build(),
        Op::Link(o) => {
            let (from, to) = (directory(&o.from_dir), directory(&o.to_dir));
            opcode::LinkAt::new(from, o.from.as_ptr(), to, o.to.as_ptr())
                .flags(o.flags.bits())
                .build()
        }
        Op::Symlink(o) => {
            opcode::SymlinkAt::new(directory(&o.dir), o.target.as_ptr(), o.path.as_ptr()).build()
        }
        other => unreachable!("{} is for the helper: `Native::has` said so", other.name()),
    }
}

fn xattr(op: &mut Op) -> squeue::Entry {
    match op {
        Op::GetXattr(o) => {
            let (name, to, len) = (
                o.name.as_ptr(),
                o.buffer.mut_ptr(),
                o.buffer.capacity().min(MAX_RW_BYTES) as u32,
            );
            match &o.target {
                XattrTarget::File(file) => {
                    opcode::FGetXattr::new(types::Fd(file.fd()), name, to.cast(), len).build()
                }
                XattrTarget::Path(path) | XattrTarget::LinkPath(path) => {
                    opcode::GetXattr::new(name, to.cast(), path.as_ptr(), len).build()
                }
            }
        }
        Op::SetXattr(o) => {
            let (name, from, len) = (
                o.name.as_ptr(),
                o.value.ptr(),
                o.value.len().min(MAX_RW_BYTES) as u32,
            );
            match &o.target {
                XattrTarget::File(file) => {
                    let op = opcode::FSetXattr::new(types::Fd(file.fd()), name, from.cast(), len);
                    op.flags(o.flags.bits()).build()
                }
                XattrTarget::Path(path) | XattrTarget::LinkPath(path) => {
                    opcode::SetXattr::new(name, from.cast(), path.as_ptr(), len)
                        .flags(o.flags.bits())
                        .build()
                }
            }
        }
        other => unreachable!("{} is not about attributes", other.name()),
    }
}
