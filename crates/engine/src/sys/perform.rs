//! Any op by plain, blocking system calls: what worker threads and the simulator run, and the reference for every
//! backend's results. A result is a count or a negated errno, as a completion queue entry has it.

use super::older::{self, Way};
use super::{check, errno, raw};
use crate::op::{
    Close, Handle, KernelTimespec, Op, Open, ReadFile, RenameFlags, ResolveFlags, RwFlags, Step, WriteFile,
    XattrTarget,
};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Does the op. `skip` bytes of a transfer have been done already; the result counts from there.
pub(crate) fn perform(op: &mut Op, skip: usize) -> i32 {
    static NEVER: AtomicBool = AtomicBool::new(false);
    perform_until(op, skip, &NEVER)
}

/// As `perform`; an op of several calls gives up with EINTR once it is interrupted and `stop` is set.
pub(crate) fn perform_until(op: &mut Op, skip: usize, stop: &AtomicBool) -> i32 {
    match op {
        Op::Read(o) => {
            let (ptr, len, offset) = o.prepare(skip);
            rw(Way::Read, o.file.fd(), &[iovec(ptr, len)], offset, o.flags)
        }
        Op::Write(o) => {
            let (ptr, len, offset) = o.prepare(skip);
            rw(Way::Write, o.file.fd(), &[iovec(ptr, len)], offset, o.flags)
        }
        Op::ReadV(o) => {
            let (fd, offset, flags) = (o.file.fd(), o.raw_offset(skip), o.flags);
            rw(Way::Read, fd, o.prepare(skip), offset, flags)
        }
        Op::WriteV(o) => {
            let (fd, offset, flags) = (o.file.fd(), o.raw_offset(skip), o.flags);
            rw(Way::Write, fd, o.prepare(skip), offset, flags)
        }
        Op::ReadFile(o) => read_file(o, stop),
        Op::WriteFile(o) => write_file(o, stop),
        Op::ReadCached(o) => o.perform(stop),
        Op::Blocking(o) => o.perform(stop),
        Op::Open(o) => open(o),
        Op::Close(o) => close(o),
        Op::Timeout(o) => sleep(*{
            o.prepare();
            &o.timespec
        }),
        Op::Nop(_) => 0,
        Op::GetXattr(_) | Op::SetXattr(_) | Op::ListXattr(_) | Op::RemoveXattr(_) => xattr(op),
        _ => plain(op),
    }
}

/// Ops that are one call on descriptors, paths and numbers.
fn plain(op: &mut Op) -> i32 {
    // SAFETY: every pointer is to a NUL-terminated path or a result struct inside `op`, which outlives the call.
    unsafe {
        raw(match op {
            Op::Fsync(o) if o.data_only => libc::fdatasync(o.file.fd()).into(),
            Op::Fsync(o) => libc::fsync(o.file.fd()).into(),
            Op::SyncRange(o) => {
                libc::sync_file_range(o.file.fd(), o.offset as i64, o.len.into(), o.flags.bits()).into()
            }
            Op::Allocate(o) => {
                libc::fallocate(o.file.fd(), o.mode.bits(), o.offset as i64, o.len as i64).into()
            }
            // posix_fadvise returns the error instead of setting errno.
            Op::Advise(o) => {
                return -libc::posix_fadvise(o.file.fd(), o.offset as i64, o.len.into(), o.advice as i32);
            }
            Op::Truncate(o) => libc::ftruncate(o.file.fd(), o.len as i64).into(),
            Op::Statx(o) => {
                return statx(
                    o.dir.fd(),
                    o.path.as_ptr(),
                    o.flags.bits(),
                    o.mask.bits(),
                    &mut o.stat,
                );
            }
            // Older than the call with flags, and than filters that do not know that.
            Op::Rename(o) if o.flags == RenameFlags::NONE => {
                libc::renameat(o.from_dir.fd(), o.from.as_ptr(), o.to_dir.fd(), o.to.as_ptr()).into()
            }
            Op::Rename(o) => {
                let (from, to) = (o.from.as_ptr(), o.to.as_ptr());
                libc::syscall(
                    libc::SYS_renameat2,
                    o.from_dir.fd(),
                    from,
                    o.to_dir.fd(),
                    to,
                    o.flags,
                )
            }
            Op::Unlink(o) => libc::unlinkat(o.dir.fd(), o.path.as_ptr(), o.flags.bits()).into(),
            Op::Mkdir(o) => libc::mkdirat(o.dir.fd(), o.path.as_ptr(), o.mode).into(),
            Op::Link(o) => libc::linkat(
                o.from_dir.fd(),
                o.from.as_ptr(),
                o.to_dir.fd(),
                o.to.as_ptr(),
                o.flags.bits(),
            )
            .into(),
            Op::Symlink(o) => libc::symlinkat(o.target.as_ptr(), o.dir.fd(), o.path.as_ptr()).into(),
            Op::Splice(o) => {
                let (mut from, mut to) = (o.from_offset.map(|x| x as i64), o.to_offset.map(|x| x as i64));
                let from_ptr = from.as_mut().map_or(std::ptr::null_mut(), |x| &raw mut *x);
                let to_ptr = to.as_mut().map_or(std::ptr::null_mut(), |x| &raw mut *x);
                libc::splice(
                    o.from.fd(),
                    from_ptr,
                    o.to.fd(),
                    to_ptr,
                    o.len as usize,
                    o.flags.bits(),
                ) as i64
            }
            // poll(2) would ignore it, for ever.
            Op::Poll(o) if o.file.fd() < 0 => return -libc::EBADF,
            // Nor does anything tell of these: the ring's answer.
            Op::Poll(_) if is_poll_in_vain(op) && is_always_ready(op) => return -libc::EINVAL,
            Op::Poll(o) => {
                let mut entry = libc::pollfd {
                    fd: o.file.fd(),
                    events: o.events.bits() as i16,
                    revents: 0,
                };
                match libc::poll(&raw mut entry, 1, -1) {
                    1 if entry.revents & libc::POLLNVAL != 0 => return -libc::EBADF,
                    1 => entry.revents.into(),
                    other => other.into(),
                }
            }
            other => unreachable!("{} is not one plain call", other.name()),
        })
    }
}

/// One segment. The kernel only reads from a write's.
pub(crate) fn iovec(ptr: *const u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: ptr.cast_mut().cast(),
        iov_len: len,
    }
}

pub(crate) fn rw(way: Way, fd: RawFd, iovecs: &[libc::iovec], offset: i64, flags: RwFlags) -> i32 {
    // SAFETY: the segments point into buffers that the op owns and that outlive this blocking call.
    let once = |offset| match unsafe { way.call(fd, iovecs, offset, flags) } {
        // SAFETY: as above.
        e if e == -libc::EPERM => unsafe { way.call_older(fd, iovecs, offset, flags) },
        res => res,
    };
    match once(offset) {
        // A pipe has no offsets. The ring ignores them there, so everybody does.
        e if e == -libc::ESPIPE && offset >= 0 => once(-1),
        res => res,
    }
}

fn open(o: &mut Open) -> i32 {
    o.prepare();
    match openat2(o.dir.fd(), o.path.as_ptr(), o.how.as_ptr()) {
        // Linux before 5.6, and seccomp filters older than the call, which answer EPERM.
        e if (e == -libc::ENOSYS || e == -libc::EPERM) && o.resolve == ResolveFlags::NONE => {
            // SAFETY: the path is NUL-terminated and outlives the call.
            raw(unsafe {
                libc::openat(
                    o.dir.fd(),
                    o.path.as_ptr(),
                    o.flags.bits(),
                    o.mode as libc::mode_t,
                )
            }
            .into())
        }
        res => res,
    }
}

/// `how` points to the three u64 of `struct open_how`.
pub(crate) fn openat2(dir: RawFd, path: *const libc::c_char, how: *const u64) -> i32 {
    // SAFETY: callers pass a NUL-terminated path and three u64, both alive during the call.
    raw(unsafe { libc::syscall(libc::SYS_openat2, dir, path, how, 24usize) })
}

fn close(o: &mut Close) -> i32 {
    match o.fd.take() {
        // Linux frees the descriptor even where close() reports an error, so it is never tried again.
        // SAFETY: ownership has just been taken out of the op.
        Some(fd) => raw(unsafe { libc::close(fd.into_raw_fd()) }.into()),
        None => -libc::EBADF,
    }
}

fn sleep(time: KernelTimespec) -> i32 {
    let request = libc::timespec {
        tv_sec: time.seconds as libc::time_t,
        tv_nsec: time.nanoseconds as _,
    };
    // SAFETY: the request is a live local; the remainder is not asked for.
    -unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const request, std::ptr::null_mut()) }
}

/// `statx(2)` of a NUL-terminated path that outlives the call.
pub(crate) fn statx(
    dir: RawFd,
    path: *const libc::c_char,
    flags: i32,
    mask: u32,
    to: &mut libc::statx,
) -> i32 {
    match statx_only(dir, path, flags, mask, to) {
        e if e == -libc::EPERM => older::statx(dir, path, flags, to),
        res => res,
    }
}

/// The same by that call alone: the older ones do not know AT_STATX_DONT_SYNC, and so may wait.
pub(crate) fn statx_only(
    dir: RawFd,
    path: *const libc::c_char,
    flags: i32,
    mask: u32,
    to: &mut libc::statx,
) -> i32 {
    // SAFETY: as above; the struct outlives the call.
    raw(unsafe { libc::statx(dir, path, flags, mask, to) }.into())
}

/// Which kind of file system an open file is on: statfs's `f_type`.
#[allow(clippy::unnecessary_cast)] // its type is the C library's choice
pub(crate) fn file_system(fd: RawFd) -> io::Result<i64> {
    // SAFETY: zero is a valid initial value, and the struct outlives the call.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        check(libc::fstatfs(fd, &raw mut stat))?;
        Ok(stat.f_type as i64)
    }
}

/// The same of a mount, by the number that only it ever has (statmount, Linux 6.8); never asks the file system itself.
pub(crate) fn file_system_of_mount(mount: u64) -> Option<i64> {
    /// `struct mnt_id_req` with what is asked for: STATMOUNT_SB_BASIC.
    #[repr(C)]
    struct Request {
        size: u32,
        spare: u32,
        mount: u64,
        wanted: u64,
    }
    const SB_BASIC: u64 = 1;
    const NUMBER: libc::c_long = 457; // on all architectures but Alpha
    const MAGIC_AT: usize = 3; // in words of 64 bits, behind two sizes, the mask and the device
    let request = Request {
        size: size_of::<Request>() as u32,
        spare: 0,
        mount,
        wanted: SB_BASIC,
    };
    // The kernel's struct of 512 bytes, with room for newer ones.
    let mut answer = [0u64; 128];
    // SAFETY: both are live locals of the sizes that are given.
    let res = unsafe {
        libc::syscall(
            NUMBER,
            &raw const request,
            answer.as_mut_ptr(),
            size_of_val(&answer),
            0,
        )
    };
    (res == 0 && answer[1] & SB_BASIC != 0).then_some(answer[MAGIC_AT] as i64)
}

pub(crate) fn fstat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: zero is a valid initial value, and the struct outlives the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check(libc::fstat(fd, &raw mut stat))?;
        Ok(stat)
    }
}

fn read_file(o: &mut ReadFile, stop: &AtomicBool) -> i32 {
    use crate::op::Call;
    loop {
        // A source that never ends (/dev/zero) never blocks either, so that no signal would be noticed.
        if stop.load(Ordering::Relaxed) {
            return -libc::ECANCELED;
        }
        let res = match o.call() {
            Call::Open { dir, path, how } => match openat2(dir, path, how) {
                e if e == -libc::ENOSYS || e == -libc::EPERM => {
                    // SAFETY: the path is NUL-terminated and outlives the call.
                    raw(unsafe { libc::openat(dir, path, libc::O_RDONLY | libc::O_CLOEXEC) }.into())
                }
                res => res,
            },
            Call::Read { fd, to, len, offset } => {
                rw(Way::Read, fd, &[iovec(to, len)], offset as i64, RwFlags::NONE)
            }
        };
        // Somebody else's signal. To start again from the open would lose what a FIFO has given.
        if res == -libc::EINTR && !stop.load(Ordering::Relaxed) {
            continue;
        }
        if let Step::Done(res) = o.advance(res) {
            return res;
        }
    }
}

/// Whether it is a poll for what is not so, which poll(2) would wait for.
pub(crate) fn is_poll_in_vain(op: &Op) -> bool {
    // (No descriptor is a negative one, for which poll(2) has nothing to say either.)
    matches!(op, Op::Poll(o) if o.file.fd() >= 0 && super::poll_now(o.file.fd(), o.events.bits() as i16) == 0)
}

/// Whether it polls a file or a directory, which have no events.
fn is_always_ready(op: &Op) -> bool {
    let Op::Poll(o) = op else { return false };
    // SAFETY: zero is a valid initial value; the struct outlives the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(o.file.fd(), &raw mut stat) == 0
            && matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR)
    }
}

/// Whether the path is now a FIFO or a device, where a write may wait for a peer for ever.
pub(crate) fn writes_to_stream(o: &WriteFile) -> bool {
    // SAFETY: zero is a valid initial value; struct and path outlive the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstatat(o.dir.fd(), o.path.as_ptr(), &raw mut stat, 0) == 0
            && matches!(stat.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFCHR)
    }
}

fn write_file(o: &mut WriteFile, stop: &AtomicBool) -> i32 {
    let fd = loop {
        // SAFETY: the path is NUL-terminated and outlives the call.
        let fd = unsafe {
            libc::openat(
                o.dir.fd(),
                o.path.as_ptr(),
                o.flags.bits(),
                o.mode as libc::mode_t,
            )
        };
        match errno() {
            _ if fd >= 0 => break fd,
            libc::EINTR if !stop.load(Ordering::Relaxed) => {}
            e => return -e,
        }
    };
    let fd = super::owned(fd);
    let mut done = 0;
    while done < o.data.len() {
        let len = (o.data.len() - done).min(super::MAX_RW_BYTES);
        // SAFETY: the range lies within the op's buffer.
        let res = raw(unsafe { libc::write(fd.as_raw_fd(), o.data.ptr().add(done).cast(), len) } as i64);
        match res {
            0.. => done += res as usize,
            e if e == -libc::EINTR && !stop.load(Ordering::Relaxed) => {}
            e => return e,
        }
    }
    // SAFETY: no pointers; close() takes the descriptor out of our hands.
    unsafe {
        if o.sync && libc::fdatasync(fd.as_raw_fd()) < 0 {
            return -errno();
        }
        // NFS and FUSE report write errors here.
        if libc::close(fd.into_raw_fd()) < 0 {
            return -errno();
        }
    }
    i32::try_from(done).unwrap_or(i32::MAX)
}

fn xattr(op: &mut Op) -> i32 {
    use XattrTarget::{File, LinkPath, Path};
    // SAFETY: names and paths are NUL-terminated and, like the buffers, owned by the op, which outlives the call.
    unsafe {
        raw(match op {
            Op::GetXattr(o) => {
                let (name, to, len) = (o.name.as_ptr(), o.buffer.mut_ptr().cast(), o.buffer.capacity());
                match &o.target {
                    Path(path) => libc::getxattr(path.as_ptr(), name, to, len),
                    LinkPath(path) => libc::lgetxattr(path.as_ptr(), name, to, len),
                    File(file) => libc::fgetxattr(file.fd(), name, to, len),
                }
            }
            Op::SetXattr(o) => {
                let (name, from, len) = (o.name.as_ptr(), o.value.ptr().cast(), o.value.len());
                match &o.target {
                    Path(path) => libc::setxattr(path.as_ptr(), name, from, len, o.flags.bits()),
                    LinkPath(path) => libc::lsetxattr(path.as_ptr(), name, from, len, o.flags.bits()),
                    File(file) => libc::fsetxattr(file.fd(), name, from, len, o.flags.bits()),
                }
                .try_into()
                .unwrap_or(-1)
            }
            Op::ListXattr(o) => {
                let (to, len) = (o.buffer.mut_ptr().cast(), o.buffer.capacity());
                match &o.target {
                    Path(path) => libc::listxattr(path.as_ptr(), to, len),
                    LinkPath(path) => libc::llistxattr(path.as_ptr(), to, len),
                    File(file) => libc::flistxattr(file.fd(), to, len),
                }
            }
            Op::RemoveXattr(o) => match &o.target {
                Path(path) => libc::removexattr(path.as_ptr(), o.name.as_ptr()),
                LinkPath(path) => libc::lremovexattr(path.as_ptr(), o.name.as_ptr()),
                File(file) => libc::fremovexattr(file.fd(), o.name.as_ptr()),
            }
            .try_into()
            .unwrap_or(-1),
            other => unreachable!("{} is not about attributes", other.name()),
        } as i64)
    }
}

/// What a finished op leaves behind in its buffer: sets lengths after a success.
pub(crate) fn filled(op: &mut Op, count: usize) {
    match op {
        Op::Read(o) => o.filled(count),
        Op::ReadV(o) => o.filled(count),
        // A size query has filled nothing.
        // SAFETY: the kernel has written `count` bytes from the start.
        Op::GetXattr(o) if count <= o.buffer.capacity() => unsafe { o.buffer.set_len(count) },
        // SAFETY: as above.
        Op::ListXattr(o) if count <= o.buffer.capacity() => unsafe { o.buffer.set_len(count) },
        _ => {}
    }
}

/// Whether it transfers to or from a file on which the kernel's queues are not known to be right.
pub(crate) fn needs_plain_calls(op: &Op) -> bool {
    match op {
        Op::ReadFile(o) => o.reading().is_some_and(|fd| !super::mount::may_queue(fd)),
        op => transfer_file(op).is_some_and(|file| !file.may_queue()),
    }
}

/// The file whose kind decides where the op may wait for ever, if it is a plain transfer.
pub(crate) fn transfer_file(op: &Op) -> Option<&Handle> {
    match op {
        Op::Read(o) => Some(&o.file),
        Op::Write(o) => Some(&o.file),
        Op::ReadV(o) => Some(&o.file),
        Op::WriteV(o) => Some(&o.file),
        _ => None,
    }
}
