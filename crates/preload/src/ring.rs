//! One thread's ring and its pool of buffers.
//!
//! Not the engine's ring: a wait here takes a signal mask as epoll_pwait does, and another thread may have to end the ring
//! while its owner is elsewhere. That is sound because of three things. With DEFER_TASKRUN the kernel takes bytes from a socket
//! only inside the owner's io_uring_enter. Sends are MSG_DONTWAIT, so they end inside the call that submits them. And before
//! the ring is given up, its pool is emptied ([`Ring::stop_receiving`]), so that no receive can take anything any more.
//! A ring with a kernel worker has other rules: see `worker.rs`.

use crate::report::options;
use crate::worker;
use io_uring::types::BufRingEntry;
use io_uring::{cqueue, squeue, IoUring};
use libc::{c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const ENTRIES: u32 = 1024;
/// Receives that stay in the ring fill the completion queue by themselves.
const COMPLETIONS: u32 = 8192;
pub(crate) const BUFFER_BYTES: usize = 4096;
/// Offered at first: few, so that they stay in the processor's cache.
const BUFFERS: u16 = 64;
const MAX_BUFFERS: u16 = 2048;
pub(crate) const GROUP: u16 = 0;

// Values of the kernel's interface (include/uapi/linux/io_uring.h).
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_SQ_WAIT: u32 = 1 << 2;
/// Linux 6.15.
const ENTER_NO_IOWAIT: u32 = 1 << 7;
const UNREGISTER_EVENTFD: c_long = 5;
/// How long a worker is waited for at a time.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a signal mask, as the kernel counts them.
const MASK_BYTES: u32 = 8;

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct GetEventsArg {
    sigmask: u64,
    sigmask_sz: u32,
    min_wait_usec: u32,
    ts: u64,
}

/// A private anonymous mapping.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is the whole process's.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Buffers into which the kernel receives. One is either offered or in use by a socket.
pub(crate) struct Pool {
    offers: Mapping,
    memory: Mapping,
    bound: u16,
    /// Buffers that have been offered at least once.
    made: u16,
    tail: u16,
    /// Buffers that the kernel has and no completion has named.
    pub(crate) free: u16,
}

impl Pool {
    fn new(bound: u16) -> io::Result<Self> {
        let offers = Mapping::new(usize::from(bound) * size_of::<BufRingEntry>())?;
        let memory = Mapping::new(usize::from(bound) * BUFFER_BYTES)?;
        Ok(Pool {
            offers,
            memory,
            bound,
            made: 0,
            tail: 0,
            free: 0,
        })
    }

    fn address(&self, id: u16) -> *mut u8 {
        // SAFETY: ids are below `bound`, for which the mapping has room.
        unsafe {
            self.memory
                .start
                .as_ptr()
                .add(usize::from(id & (self.bound - 1)) * BUFFER_BYTES)
        }
    }

    fn publish(&mut self, tail: u16) {
        self.tail = tail;
        // SAFETY: the tail lies in the first entry, which is aligned for it; the kernel reads it atomically.
        unsafe {
            let tail = BufRingEntry::tail(self.offers.start.as_ptr().cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Hands a buffer to the kernel.
    pub(crate) fn offer(&mut self, id: u16) {
        let address = self.address(id) as u64;
        let at = usize::from(self.tail & (self.bound - 1));
        // SAFETY: the slot is within the mapping, and the kernel reads it only after the tail has passed it.
        unsafe {
            let slot = self.offers.start.as_ptr().cast::<BufRingEntry>().add(at);
            (*slot).set_addr(address);
            (*slot).set_len(BUFFER_BYTES as u32);
            (*slot).set_bid(id);
        }
        self.free += 1;
        self.publish(self.tail.wrapping_add(1));
    }

    /// Offers twice as many buffers as there were, up to the bound.
    pub(crate) fn grow(&mut self, count: u16) {
        while self.made < count.min(self.bound) {
            self.made += 1;
            self.offer(self.made - 1);
        }
    }

    pub(crate) fn made(&self) -> u16 {
        self.made
    }

    /// The bytes that were received into a buffer that is in use.
    pub(crate) fn bytes(&self, id: u16, from: usize, to: usize) -> &[u8] {
        let to = to.min(BUFFER_BYTES);
        // SAFETY: within the mapping. The kernel does not write to a buffer that it has handed out, and the slice borrows the
        // pool, which `offer` needs for itself.
        unsafe { std::slice::from_raw_parts(self.address(id).add(from.min(to)), to - from.min(to)) }
    }
}

/// A ring, of the thread that made it.
pub(crate) struct Ring {
    io: IoUring,
    pub(crate) pool: Pool,
    /// Entries that were queued so far.
    pub(crate) pushed: u32,
    flags: u32,
    /// A thread of the kernel submits (SQPOLL), receives and sends.
    pub(crate) has_worker: bool,
    /// Ends the owner's wait from another thread.
    pub(crate) wake: RawFd,
}

impl Ring {
    /// Makes a ring for this thread. Needs Linux 6.1.
    pub(crate) fn new(buffers: Option<u16>) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder
            .dontfork()
            .setup_clamp()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS);
        let worker = worker::next()?;
        match worker {
            Some(of) => builder
                .setup_sqpoll(options().workers.idle_ms)
                .setup_attach_wq(of),
            None => builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag(),
        };
        let io = builder.build(ENTRIES)?;
        worker::bound_io_workers(&io)?;
        let buffers = buffers.unwrap_or(BUFFERS).clamp(1, MAX_BUFFERS);
        let mut pool = Pool::new(MAX_BUFFERS)?;
        // SAFETY: the mapping has as many entries, and lives until after the ring (field order).
        unsafe {
            io.submitter().register_buf_ring_with_flags(
                pool.offers.start.as_ptr() as u64,
                pool.bound,
                GROUP,
                0,
            )
        }?;
        pool.grow(buffers);
        // SAFETY: no pointer is passed.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if wake < 0 {
            return Err(io::Error::last_os_error());
        }
        let no_iowait = if io.params().is_feature_no_iowait() {
            ENTER_NO_IOWAIT
        } else {
            0
        };
        Ok(Ring {
            io,
            pool,
            pushed: 0,
            flags: ENTER_GETEVENTS | no_iowait,
            has_worker: worker.is_some(),
            wake,
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }

    /// Queues an entry. False: the queue is full and the kernel takes nothing from it.
    ///
    /// # Safety
    /// What the entry names stays valid until its last completion has been read, or the ring has been given up.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        let is_pushed = unsafe { self.io.submission().push(entry) }.is_ok() || {
            self.make_room();
            // SAFETY: as above.
            unsafe { self.io.submission().push(entry) }.is_ok()
        };
        self.pushed = self.pushed.wrapping_add(u32::from(is_pushed));
        is_pushed
    }

    #[cold]
    fn make_room(&mut self) {
        if self.has_worker {
            let mut call = self.call(0);
            call.flags |= ENTER_SQ_WAIT;
            let _ = call.enter();
        } else {
            let _ = self.submit();
        }
    }

    /// How many entries the kernel has taken so far, if the results of all of them can be read.
    pub(crate) fn taken(&mut self) -> Option<u32> {
        let pushed = self.pushed;
        let queue = self.io.submission();
        (!queue.cq_overflow()).then(|| pushed.wrapping_sub(queue.len() as u32))
    }

    /// Whether the kernel has to be called for it to take what is queued.
    pub(crate) fn must_submit(&mut self) -> bool {
        let queue = self.io.submission();
        !queue.is_empty() && (!self.has_worker || queue.need_wakeup())
    }

    /// Wakes a worker that sleeps while something is queued.
    pub(crate) fn wake_worker(&mut self) {
        if self.has_worker && self.must_submit() {
            let mut call = self.call(0);
            call.flags &= !ENTER_GETEVENTS;
            let _ = call.enter();
        }
    }

    /// Where the call is denied (a sandbox), the worker works on. What it polls wakes it.
    #[cold]
    fn wait_without_call(&self) {
        let one = 1u64;
        // SAFETY: eight live bytes.
        unsafe { crate::real::write(self.wake, (&raw const one).cast(), 8) };
        std::thread::sleep(PAUSE / 100);
    }

    /// Sees that completions of what the worker has done are in the queue: it holds the ring's lock from when it takes bytes
    /// from a socket until then.
    pub(crate) fn wait_for_lock(&self) {
        // Fails, as there is no eventfd; but only after it had the lock.
        // SAFETY: no pointer is passed.
        unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.fd() as c_long,
                UNREGISTER_EVENTFD,
                0,
                0,
            )
        };
    }

    pub(crate) fn queued(&mut self) -> u32 {
        self.io.submission().len() as u32
    }

    /// Whether completions need a call to appear.
    pub(crate) fn is_behind(&mut self) -> bool {
        let queue = self.io.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    pub(crate) fn completions(&self) -> usize {
        // SAFETY: the ring is used by whoever holds the set's lock.
        unsafe { self.io.completion_shared() }.len()
    }

    pub(crate) fn next(&mut self) -> Option<cqueue::Entry> {
        self.io.completion().next()
    }

    /// Hands over what is queued and runs deferred work, without waiting. With a kernel worker: waits for something that it
    /// has done.
    pub(crate) fn submit(&mut self) -> Result<u32, i32> {
        let mut call = self.call(u32::from(self.has_worker));
        if self.has_worker {
            call.timeout = Some(PAUSE);
            return match call.enter() {
                Err(libc::ETIME) => Ok(0),
                Err(error) if !matches!(error, libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                    self.wait_without_call();
                    Ok(0)
                }
                result => result,
            };
        }
        call.enter()
    }

    /// A call that waits for `want` completions, and looks for them before it sleeps.
    pub(crate) fn wait_call(&mut self, want: u32) -> Call {
        let spin = Some((&raw const self.io, options().workers.spin)).filter(|_| self.has_worker && want > 0);
        Call {
            spin,
            ..self.call(want)
        }
    }

    /// A call that waits for `want` completions.
    pub(crate) fn call(&mut self, want: u32) -> Call {
        let must_wake = self.has_worker && self.must_submit();
        Call {
            fd: self.fd(),
            queued: if self.has_worker { 0 } else { self.queued() },
            want,
            flags: self.flags | if must_wake { ENTER_SQ_WAKEUP } else { 0 },
            timeout: None,
            mask: std::ptr::null(),
            spin: None,
        }
    }

    /// Makes receives find no buffer, so that they take no byte: for a ring that is given up.
    ///
    /// Nothing of this ring runs now, and all completions have been read: `free` is what the kernel has not used.
    pub(crate) fn stop_receiving(&mut self) {
        self.pool.publish(self.pool.tail.wrapping_sub(self.pool.free));
        self.pool.free = 0;
    }
}

impl Ring {
    /// Closes the descriptors in a forked child, where the queues are not mapped: nothing may be unmapped or read.
    pub(crate) fn forget_in_child(self) {
        let ring = std::mem::ManuallyDrop::new(self);
        for fd in [ring.wake, ring.fd()] {
            crate::table::clear(fd);
            // SAFETY: the descriptor is this ring's own, and the ring is not used any more.
            unsafe { crate::real::close(fd) };
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        crate::table::clear(self.wake);
        crate::table::clear(self.fd());
        // SAFETY: the descriptor is this ring's own.
        unsafe { crate::real::close(self.wake) };
    }
}

/// One io_uring_enter. Made while the set is locked, run while it is not.
pub(crate) struct Call {
    fd: RawFd,
    pub(crate) queued: u32,
    pub(crate) want: u32,
    flags: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) mask: *const libc::sigset_t,
    /// Where completions appear without a call, and how long to look for them before one.
    spin: Option<(*const IoUring, Duration)>,
}

impl Call {
    /// As [`enter`](Self::enter), without a call if what is wanted appears by itself soon. `enters` counts calls.
    ///
    /// # Safety
    /// The ring stays where it is until then.
    pub(crate) unsafe fn run(&self, enters: &mut u64) -> Result<u32, i32> {
        let mut is_awake = self.flags & ENTER_SQ_WAKEUP == 0;
        if let Some((ring, time)) = self.spin.filter(|(_, time)| !time.is_zero()) {
            if !is_awake {
                *enters += 1;
                Call {
                    want: 0,
                    spin: None,
                    mask: std::ptr::null(),
                    timeout: None,
                    ..*self
                }
                .enter()?;
                is_awake = true;
            }
            let time = self.timeout.map_or(time, |timeout| timeout.min(time));
            let start = Instant::now();
            while start.elapsed() < time {
                // SAFETY: the caller's promise. The queue is only looked at.
                if unsafe { (*ring).completion_shared() }.len() >= self.want as usize {
                    return Ok(0);
                }
                std::hint::spin_loop();
            }
        }
        *enters += 1;
        let woken = if is_awake { ENTER_SQ_WAKEUP } else { 0 };
        Call {
            flags: self.flags & !woken,
            spin: None,
            ..*self
        }
        .enter()
    }

    /// Returns the number of entries that the kernel has taken.
    fn enter(&self) -> Result<u32, i32> {
        let time = self.timeout.map(timespec);
        let arg = GetEventsArg {
            sigmask: self.mask as u64,
            sigmask_sz: if self.mask.is_null() { 0 } else { MASK_BYTES },
            min_wait_usec: 0,
            ts: time.as_ref().map_or(0, |time| std::ptr::from_ref(time) as u64),
        };
        // SAFETY: the argument and what it names are live during the call, which only reads them. On every 64-bit Linux
        // `timespec` has the layout of `__kernel_timespec`.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd as c_long,
                self.queued as c_long,
                self.want as c_long,
                (self.flags | ENTER_EXT_ARG) as c_long,
                (&raw const arg).cast::<c_void>(),
                size_of::<GetEventsArg>(),
            )
        };
        if taken < 0 {
            Err(crate::errno())
        } else {
            Ok(taken as u32)
        }
    }
}

pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
