//! Finishing an op at once, if that needs no waiting.
//!
//! A cached page, a waiting byte in a pipe, a path whose every part is in the kernel's cache: such an op costs one system
//! call here, and no queue, no wake-up. Knows no backend. Invariant: nothing in here may block.

use crate::descriptors::{self, Opens};
use crate::driver::complete::outcome;
use crate::driver::Output;
use crate::error::Error;
use crate::op::{
    AtFlags, Call, Facts, File, FileKind, Handle, Op, Open, OpenFlags, ReadFile, ResolveFlags, RwFlags,
    Statx, StatxMask, Step,
};
use crate::sys::fifo::{has_writer, set_blocking};
use crate::sys::mount::{self, UNIQUE_MOUNT};
use crate::sys::older::Way;
use crate::sys::{self, perform};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the kernel or a filter does not know `openat2` with RESOLVE_CACHED.
static NO_CACHED_OPEN: AtomicBool = AtomicBool::new(false);

impl Op {
    /// Does the op now, if that needs no waiting: a transfer of cached pages or on a ready pipe, an open, a statx or a
    /// poll. `None`: submit it. A read may be shorter than the driver would make it: only what is cached.
    pub fn attempt(&mut self) -> Option<Result<Output, Error>> {
        if self.make_room().is_err() {
            return Some(Err(Error::out_of_memory(self.name())));
        }
        let mut done = 0;
        match attempt(self, &mut done) {
            Some(res) => Some(outcome(self, res, done)),
            None if done > 0 => Some(outcome(self, 0, done)),
            None => None,
        }
    }
}

/// The op's whole result, or None if it has to be queued. `skip` then says how much of a transfer is done already.
pub(crate) fn attempt(op: &mut Op, skip: &mut usize) -> Option<i32> {
    match op {
        Op::Read(o) => {
            let at_end = can_transfer(&o.file, o.flags)?;
            let len = o.buffer.capacity();
            let flags = o.flags | RwFlags::NOWAIT;
            let fd = o.file.fd();
            let tried = transfer(len, at_end, skip, |skip| {
                let (ptr, len, offset) = o.prepare(skip);
                perform::rw(Way::Read, fd, &[perform::iovec(ptr, len)], offset, flags)
            });
            remember(&o.file, tried)
        }
        Op::ReadV(o) => {
            let at_end = can_transfer(&o.file, o.flags)?;
            let len = o.total_len();
            let (fd, flags) = (o.file.fd(), o.flags | RwFlags::NOWAIT);
            let tried = transfer(len, at_end, skip, |skip| {
                let offset = o.raw_offset(skip);
                perform::rw(Way::Read, fd, o.prepare(skip), offset, flags)
            });
            remember(&o.file, tried)
        }
        Op::Poll(o) if !o.multishot => {
            let events = sys::poll_now(o.file.fd(), o.events.bits() as i16);
            match events & libc::POLLNVAL {
                0 if events == 0 => None,
                0 => Some(events.into()),
                _ => Some(-libc::EBADF),
            }
        }
        Op::Open(o) => match o.now()? {
            Ok(file) => Some(file.into_fd().ok()?.into_raw_fd()),
            Err(e) => Some(-e.errno()),
        },
        Op::Statx(o) => cached_statx(o.dir.fd(), &o.path, o.flags, o.mask, &mut o.stat),
        Op::ReadFile(o) => read_file(o),
        _ => None,
    }
}

/// None if this file must not be tried. Otherwise whether a short read has to be looked into: on a disk file it may mean
/// the end of the file or the end of what is cached.
fn can_transfer(file: &Handle, flags: RwFlags) -> Option<bool> {
    if file.nowait_refused() || flags.contains(RwFlags::HIPRI) {
        return None;
    }
    match file.facts() {
        // An O_DIRECT read with RWF_NOWAIT waits for the device all the same.
        Ok(Facts { direct: true, .. }) | Err(_) => None,
        Ok(Facts {
            kind: FileKind::Disk, ..
        }) => Some(true),
        Ok(Facts {
            kind: FileKind::Stream,
            ..
        }) => Some(false),
        Ok(_) => None,
    }
}

/// The result, `Err(refused)` if the op has to be queued; refused: this file knows no RWF_NOWAIT.
fn transfer(
    len: usize,
    look_further: bool,
    skip: &mut usize,
    mut once: impl FnMut(usize) -> i32,
) -> Result<i32, bool> {
    loop {
        match once(*skip) {
            0 => return Ok(0),
            e if e == -libc::EAGAIN || e == -libc::EINTR => return Err(false),
            e if e == -libc::EOPNOTSUPP => return Err(true),
            e if e < 0 => return Ok(e),
            n if !look_further || *skip + n as usize >= len.min(sys::MAX_RW_BYTES) => return Ok(n),
            n => *skip += n as usize,
        }
    }
}

fn remember(file: &Handle, tried: Result<i32, bool>) -> Option<i32> {
    if tried == Err(true) {
        file.refuse_nowait();
    }
    tried.ok()
}

impl Open {
    /// Opens a file for reading, if its path is all in the cache and it is a regular file, a directory, or a FIFO that has a
    /// writer. `None`: submit it. As [`Op::attempt`], and what is learned of the file on the way need not be asked again.
    pub fn now(&self) -> Option<Result<File, Error>> {
        // TMPFILE contains DIRECTORY, which is harmless.
        const HARMFUL: OpenFlags = OpenFlags::TMPFILE
            .without(OpenFlags::DIRECTORY)
            .union(OpenFlags::CREATE)
            .union(OpenFlags::TRUNCATE)
            .union(OpenFlags::PATH)
            .union(OpenFlags::NONBLOCK)
            .union(OpenFlags::ACCESS);
        if self.mode != 0 || self.flags.intersects(HARMFUL) {
            return None;
        }
        let permit = descriptors::take_at_once(Opens::Kept, 1)?;
        let fd = cached_open(self.dir.fd(), self.path.as_ptr(), self.flags, self.resolve)?;
        if fd < 0 {
            return Some(Err(Error::new(-fd, "open")));
        }
        let fd = sys::owned(fd);
        let stat = is_open(&fd)?;
        drop(permit); // the file counts from here on
                      // SAFETY: no pointers. Takes back the O_NONBLOCK that `cached_open` has added.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, self.flags.bits()) };
        Some(Ok(File::known(fd, Facts::new(&stat, self.flags.bits()))))
    }
}

/// What fstat says of a file that is open as a blocking open would have it. None: the backend is to open it once more.
///
/// A FIFO's writer has been let in by now, and would be alone again: it is kept if there is one. (Who opens the FIFO for
/// writing after this look, and before we have closed it, gets EPIPE for what it writes until the backend has opened it.)
fn is_open(fd: &OwnedFd) -> Option<libc::stat> {
    let stat = perform::fstat(fd.as_raw_fd()).ok()?;
    let open = match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFDIR => true,
        libc::S_IFIFO => has_writer(fd.as_raw_fd()),
        _ => false,
    };
    open.then_some(stat)
}

fn cached_open(dir: i32, path: *const libc::c_char, flags: OpenFlags, resolve: ResolveFlags) -> Option<i32> {
    if NO_CACHED_OPEN.load(Ordering::Relaxed) {
        return None;
    }
    // With O_PATH nothing is opened that could block, and openat2 refuses the flag.
    let never_block = match flags.contains(OpenFlags::PATH) {
        true => OpenFlags::NONE,
        false => OpenFlags::NONBLOCK,
    };
    // Linux 5.12: EAGAIN instead of reading directories from disk.
    let resolve = resolve | ResolveFlags::CACHED;
    let how = [(flags | never_block).how(), 0, resolve.bits()];
    match perform::openat2(dir, path, how.as_ptr()) {
        e if e == -libc::EAGAIN => None,
        // ENOSYS: Linux before 5.6. EINVAL: before 5.12, or a bad flag, which the backend will say better. EPERM: a
        // filter older than the call.
        e if e == -libc::ENOSYS => {
            NO_CACHED_OPEN.store(true, Ordering::Relaxed);
            None
        }
        e if e == -libc::EINVAL || e == -libc::EPERM || e == -libc::EWOULDBLOCK => None,
        // The op waits for a descriptor.
        e if sys::lacks_descriptor(-e) => None,
        res => Some(res),
    }
}

impl Statx {
    /// `statx` of a path or, if that is empty, of the descriptor `dir`, if it needs no waiting; `stat` is the answer. `None`:
    /// submit it. As [`Op::attempt`], without an op that would have to own the path.
    pub fn now(
        dir: &Handle,
        path: &CStr,
        flags: AtFlags,
        stat: &mut libc::statx,
    ) -> Option<Result<(), Error>> {
        let res = cached_statx(dir.fd(), path, flags, StatxMask::BASIC, stat)?;
        Some(if res < 0 {
            Err(Error::new(-res, "statx"))
        } else {
            Ok(())
        })
    }
}

/// What the kernel has in memory of a path that is all in its cache, or of an open file, on a local file system.
///
/// (Before Linux 6.10 whoever watches the file by inotify sees it opened and closed.)
fn cached_statx(
    dir: RawFd,
    path: &CStr,
    flags: AtFlags,
    mask: StatxMask,
    stat: &mut libc::statx,
) -> Option<i32> {
    const KNOWN: AtFlags = AtFlags::SYMLINK_NOFOLLOW
        .union(AtFlags::NO_AUTOMOUNT)
        .union(AtFlags::EMPTY_PATH);
    if !KNOWN.contains(flags) {
        return None;
    }
    if path.is_empty() {
        return (flags.contains(AtFlags::EMPTY_PATH) && dir >= 0)
            .then(|| statx_of(dir, mask, stat))
            .flatten();
    }
    let mut open_flags = OpenFlags::PATH | OpenFlags::CLOEXEC;
    if flags.contains(AtFlags::SYMLINK_NOFOLLOW) {
        open_flags |= OpenFlags::NOFOLLOW;
    }
    match cached_open(dir, path.as_ptr(), open_flags, ResolveFlags::NONE)? {
        fd if fd >= 0 => statx_of(sys::owned(fd).as_raw_fd(), mask, stat),
        e if [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EACCES].contains(&-e) => Some(e),
        // No room for a descriptor, which a plain statx needs not; or what the backend will say better.
        _ => None,
    }
}

fn statx_of(fd: RawFd, mask: StatxMask, stat: &mut libc::statx) -> Option<i32> {
    // The two ids of a mount have one place, and we ask for the other one.
    if mask.contains(StatxMask::MNT_ID) {
        return None;
    }
    let mask = mask.bits();
    // Without it a network file system would ask its server before we know that it is one.
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let res = perform::statx_only(fd, c"".as_ptr(), flags, mask | UNIQUE_MOUNT, stat);
    let done = res == 0 && mount::traits(fd, stat).local;
    if mask & UNIQUE_MOUNT == 0 {
        stat.stx_mask &= !UNIQUE_MOUNT;
        stat.stx_mnt_id = 0;
    }
    done.then_some(0)
}

/// A longer copy would keep the caller from its other work: at 10 GB/s it takes 100 microseconds.
const MAX_COPY_BYTES: usize = 1 << 20;

/// Opens the file if its path is cached, and makes room for its contents. Afterwards it is to be read, unless there is a
/// result already.
pub(crate) fn open_file(o: &mut ReadFile) -> Option<Result<(), i32>> {
    if let Call::Open { dir, path, .. } = o.call() {
        let fd = cached_open(dir, path, OpenFlags::CLOEXEC, ResolveFlags::NONE)?;
        if fd < 0 {
            return Some(Err(fd));
        }
        let fd = sys::owned(fd);
        let size = size_of(&fd)?;
        if let Step::Done(res) = o.start_reading(fd, size) {
            return Some(Err(res));
        }
    }
    Some(Ok(()))
}

pub(crate) fn read_file(o: &mut ReadFile) -> Option<i32> {
    let res = read_cached(o);
    if res.is_none() {
        o.keep_open();
    }
    res
}

fn read_cached(o: &mut ReadFile) -> Option<i32> {
    if let Err(res) = open_file(o)? {
        return Some(res);
    }
    while let Call::Read { fd, to, len, offset } = o.call() {
        if len > MAX_COPY_BYTES {
            return None;
        }
        let iovec = perform::iovec(to, len);
        match perform::rw(Way::Read, fd, &[iovec], offset as i64, RwFlags::NOWAIT) {
            // What is left is for the backend, which goes on from here.
            e if e == -libc::EAGAIN || e == -libc::EINTR || e == -libc::EOPNOTSUPP => return None,
            res => {
                if let Step::Done(res) = o.advance(res) {
                    return Some(res);
                }
            }
        }
    }
    None
}

/// The size of a file that is open as a blocking open would have it. None: the backend is to open it once more.
fn size_of(fd: &OwnedFd) -> Option<usize> {
    // Half the price of fstat, and refused by pipes, sockets and terminals.
    // SAFETY: no pointers.
    match usize::try_from(unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_END) }) {
        Ok(size) if size > 0 && size <= MAX_COPY_BYTES => Some(size),
        _ => look_closer(fd),
    }
}

/// An empty file, one that states no size (/proc), a directory, a large one, a FIFO.
fn look_closer(fd: &OwnedFd) -> Option<usize> {
    let stat = is_open(fd)?;
    if stat.st_mode & libc::S_IFMT == libc::S_IFIFO {
        set_blocking(fd.as_raw_fd());
    }
    Some(stat.st_size as usize)
}
