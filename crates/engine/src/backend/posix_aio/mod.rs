//! POSIX AIO, the C library's: threads of its own behind `aio_read`, one per file at a time in glibc.
//!
//! Two ways to learn of a completion. SIGEV_THREAD starts a thread per completion, which posts into the helper's
//! mailbox: the only way that an epoll can wait for. `aio_suspend` waits for these requests and nothing else. Measured
//! (glibc 2.36, 4 KiB O_DIRECT reads of one file, depth 64): 9.4 K IOPS and 75 microseconds of CPU per read by
//! `aio_suspend`, 8.8 K and 125 by SIGEV_THREAD. So a request is silent (`aio_suspend`) while nobody watches the
//! driver's eventfd and the helper has nothing to do, and loud (SIGEV_THREAD) otherwise.
//!
//! Invariant: a `Control`, and the memory that its aiocb describes, stays until the C library has let go of it: when
//! `aio_error`, which takes the library's lock, no longer says EINPROGRESS.
//!
//! The library's own threads end after a second without work; no call ends them sooner.

use super::helper::{Helper, Mailbox};
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{FileKind, Handle, Op, OpKind, Options, RwFlags};
use crate::probe::Support;
use crate::sys;
use std::collections::{HashMap, TryReserveError};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// `aio_suspend` and the look at each request after it take time in proportion to their number, and hold up the library's
/// threads, which want the same lock. Measured (buffered 4 KiB reads, not cached): 141 microseconds of CPU a read with 256
/// in flight, 793 with 1,024.
const MAX_SILENT: usize = 256;

/// From `signal.h`; libc has it for some targets only.
const SIGEV_NONE: libc::c_int = 1;
const SIGEV_THREAD: libc::c_int = 2;

/// The fork generation, plus one, in which this process (or an ancestor) first used the library's AIO.
static USED_IN: AtomicU32 = AtomicU32::new(0);

const PLAIN_ONLY: Support =
    Support::Partly("disk files at an offset, without flags or priority; others by worker threads");
const NO_VECTORS: Support = Support::Threads("aio_read and aio_write take one buffer");
const NO_FUNCTION: Support = Support::Threads("POSIX AIO has no such function");
const FORKED: Support = Support::Threads(
    "the process was forked after its parent had used POSIX AIO, whose threads do not survive that",
);

/// One request as the C library and its notification thread see it.
#[repr(C)]
struct Control {
    // First: a pointer to it is a pointer to the whole.
    aiocb: libc::aiocb,
    token: Token,
    mailbox: Arc<Mailbox>,
    notify: Option<Arc<OwnedFd>>,
}

pub(crate) struct PosixAio {
    helper: Helper,
    in_helper: usize,
    /// In the library's hands. Freed in `take` only; after a fork never.
    requests: HashMap<Token, NonNull<Control>>,
    /// Those of them that nothing tells of.
    silent: Vec<*const libc::aiocb>,
    early: Vec<Raw>,
    watched: bool,
    /// Not in a child whose parent has used the library's AIO before.
    native: bool,
    /// Those of the helper's mailbox when no request is in flight.
    mailbox_owners: usize,
    forked: bool,
}

/// Runs in a thread of the C library's when a loud request is complete.
extern "C" fn completed(value: libc::sigval) {
    let control: *mut Control = value.sival_ptr.cast();
    // SAFETY: `submit` has made it from a box that is freed only after the token below has been posted. `mailbox` and
    // `notify` are cloned before that, so nothing of it is used afterwards. The driver's thread passes only `aiocb` to
    // the library meanwhile (`aio_error`), which has a lock of its own.
    let (token, res, mailbox, notify) = unsafe {
        (
            (*control).token,
            result(&raw mut (*control).aiocb),
            Arc::clone(&(*control).mailbox),
            (*control).notify.clone(),
        )
    };
    if let Some(fd) = notify {
        sys::eventfd_signal(fd.as_raw_fd());
    }
    mailbox.post(Raw::new(token, res));
    // The clone of `mailbox` goes last: `PosixAio::drop` waits for it.
}

/// The result of a request that is complete: a count or a negated errno. Asked once per request.
///
/// # Safety
/// The request was submitted and `aio_return` has not been called for it.
unsafe fn result(aiocb: *mut libc::aiocb) -> i32 {
    // SAFETY: the caller's. `aio_error` also takes the lock under which glibc lets go of the request.
    unsafe {
        let error = libc::aio_error(aiocb);
        let count = libc::aio_return(aiocb);
        if error == 0 {
            // Transfers are cut to MAX_RW_BYTES.
            count as i32
        } else {
            -error
        }
    }
}

/// What to ask the C library for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Read,
    Write,
    Sync(libc::c_int),
}

impl PosixAio {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let used_in = USED_IN.load(Ordering::Relaxed);
        let helper = Helper::new(config.max_threads)?;
        Ok(PosixAio {
            mailbox_owners: Arc::strong_count(helper.mailbox()),
            forked: false,
            helper,
            in_helper: 0,
            requests: HashMap::new(),
            silent: Vec::new(),
            early: Vec::new(),
            watched: false,
            native: used_in == 0 || used_in == sys::fork::generation().wrapping_add(1),
        })
    }

    /// The aiocb and the command for this op, if the library can do it.
    fn command(&self, slot: &mut Slot) -> Option<(Command, libc::aiocb)> {
        // SAFETY: zero is a valid value for the C struct.
        let mut aiocb: libc::aiocb = unsafe { std::mem::zeroed() };
        let Options { priority, .. } = &slot.options;
        let transfer = |file: &Handle, offset: Option<u64>, flags| {
            offset.is_some() && flags == RwFlags::NONE && priority.raw() == 0 && is_disk(file)
        };
        let command = match &mut slot.op {
            Op::Read(o) if transfer(&o.file, o.offset, o.flags) => {
                let (ptr, len, offset) = o.prepare(slot.skip);
                aiocb.aio_fildes = o.file.fd();
                (aiocb.aio_buf, aiocb.aio_nbytes) = (ptr.cast(), len);
                aiocb.aio_offset = libc::off_t::try_from(offset).ok()?;
                Command::Read
            }
            Op::Write(o) if transfer(&o.file, o.offset, o.flags) => {
                let (ptr, len, offset) = o.prepare(slot.skip);
                aiocb.aio_fildes = o.file.fd();
                (aiocb.aio_buf, aiocb.aio_nbytes) = (ptr.cast_mut().cast(), len);
                aiocb.aio_offset = libc::off_t::try_from(offset).ok()?;
                Command::Write
            }
            Op::Fsync(o) if priority.raw() == 0 && is_disk(&o.file) => {
                aiocb.aio_fildes = o.file.fd();
                Command::Sync(if o.data_only { libc::O_DSYNC } else { libc::O_SYNC })
            }
            _ => return None,
        };
        Some((command, aiocb))
    }

    /// Gives it to the library. False: it would not take it.
    fn start(&mut self, token: Token, slot: &Slot, command: Command, mut aiocb: libc::aiocb) -> bool {
        // A sync may take seconds: never silent, or the helper's results would wait for it.
        let silent = !self.watched
            && self.in_helper == 0
            && self.silent.len() < MAX_SILENT
            && slot.options.notify.is_none()
            && !matches!(command, Command::Sync(_));
        aiocb.aio_sigevent.sigev_notify = if silent { SIGEV_NONE } else { SIGEV_THREAD };
        let control = Box::new(Control {
            aiocb,
            token,
            mailbox: Arc::clone(self.helper.mailbox()),
            notify: slot.options.notify.clone(),
        });
        let control = NonNull::from(Box::leak(control));
        let _ = USED_IN.compare_exchange(
            0,
            sys::fork::generation().wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        // SAFETY: the box is leaked until `take`, which runs after the completion. What the aiocb describes is in the
        // op in its slab slot, which stays as long (`Backend::submit`'s contract).
        let ret = unsafe {
            let aiocb = &raw mut (*control.as_ptr()).aiocb;
            if !silent {
                let value = libc::sigval {
                    sival_ptr: control.as_ptr().cast(),
                };
                notify_by_thread(&raw mut (*aiocb).aio_sigevent, value);
            }
            match command {
                Command::Read => libc::aio_read(aiocb),
                Command::Write => libc::aio_write(aiocb),
                Command::Sync(how) => libc::aio_fsync(how, aiocb),
            }
        };
        if ret != 0 {
            // SAFETY: refused, so the library has not kept it.
            drop(unsafe { Box::from_raw(control.as_ptr()) });
            return false;
        }
        self.requests.insert(token, control);
        if silent {
            self.silent.push(control.as_ptr().cast_const().cast());
        }
        true
    }

    /// Frees the control block of a request whose result has been read.
    fn take(&mut self, token: Token) {
        if let Some(control) = self.requests.remove(&token) {
            // SAFETY: leaked in `start`. The library has let go of it (see `result`), and so has `completed`, if it ran.
            drop(unsafe { Box::from_raw(control.as_ptr()) });
        }
    }

    fn reap_silent(&mut self, done: &mut Vec<Raw>) {
        let mut at = 0;
        while at < self.silent.len() {
            let aiocb = self.silent[at].cast_mut();
            // SAFETY: in `silent`, so submitted, not freed, and its result not read.
            if unsafe { libc::aio_error(aiocb) } == libc::EINPROGRESS {
                at += 1;
                continue;
            }
            // SAFETY: as above, and a pointer to the first field is one to the whole.
            let (token, res) = unsafe { ((*aiocb.cast::<Control>()).token, result(aiocb)) };
            self.silent.swap_remove(at);
            self.take(token);
            done.push(Raw::new(token, res));
        }
    }

    /// Waits until a silent request is complete.
    fn suspend(&self, timeout: Option<Duration>) -> io::Result<()> {
        let spec = timeout.map(sys::timespec);
        let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = self.silent.len() as libc::c_int;
        // SAFETY: the list holds `count` requests that are not freed while they are in it.
        if unsafe { libc::aio_suspend(self.silent.as_ptr(), count, spec) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // The time has passed.
            e if e.raw_os_error() == Some(libc::EAGAIN) => Ok(()),
            e => Err(e),
        }
    }

    /// What has come into the mailbox: the helper's results, and the loud requests'.
    fn collect(&mut self, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        let before = done.len();
        let result = self.helper.wait(timeout, done);
        for raw in &done[before..] {
            match raw.op {
                _ if raw.more => {}
                Some(_) => self.in_helper -= 1,
                None => self.take(raw.token),
            }
        }
        result
    }
}

fn is_disk(file: &Handle) -> bool {
    file.facts().is_ok_and(|facts| facts.kind == FileKind::Disk)
}

/// Fills in the part of `struct sigevent` that the libc crate leaves out: at the start of its union, the function and
/// its thread's attributes.
///
/// # Safety
/// `event` is valid for writes.
unsafe fn notify_by_thread(event: *mut libc::sigevent, value: libc::sigval) {
    #[repr(C)]
    struct ByThread {
        function: extern "C" fn(libc::sigval),
        attributes: *const libc::pthread_attr_t,
    }
    const AT: usize = offset_of!(libc::sigevent, sigev_notify_thread_id);
    const { assert!(AT + size_of::<ByThread>() <= size_of::<libc::sigevent>()) };
    const { assert!(AT % align_of::<ByThread>() == 0) };
    // SAFETY: within the struct, aligned (both asserted), and the caller vouches for the struct.
    unsafe {
        (*event).sigev_value = value;
        (*event).sigev_notify = SIGEV_THREAD;
        event.byte_add(AT).cast::<ByThread>().write(ByThread {
            function: completed,
            attributes: std::ptr::null(),
        });
    }
}

const NOW: Option<Duration> = Some(Duration::ZERO);

impl Backend for PosixAio {
    fn support(&self, kind: OpKind) -> Support {
        match kind {
            OpKind::Poll | OpKind::Timeout => Support::Reactor,
            OpKind::Read | OpKind::Write | OpKind::Fsync if !self.native => FORKED,
            OpKind::Read | OpKind::Write => PLAIN_ONLY,
            OpKind::Fsync => Support::Partly("disk files, without a priority; others by worker threads"),
            OpKind::ReadV | OpKind::WriteV => NO_VECTORS,
            _ => NO_FUNCTION,
        }
    }

    fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        self.requests
            .try_reserve(ops.saturating_sub(self.requests.len()))?;
        self.silent.try_reserve(ops.saturating_sub(self.silent.len()))?;
        self.early.try_reserve(ops.saturating_sub(self.early.len()))?;
        self.helper.make_room(ops)
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        let command = if self.native { self.command(slot) } else { None };
        let started = command.is_some_and(|(command, aiocb)| self.start(token, slot, command, aiocb));
        if !started {
            // Also what the library has refused, for reasons of its own (EAGAIN): a worker does it, or meets the errno
            // that every backend reports.
            self.helper.submit(token, slot);
            self.in_helper += 1;
        }
        Taken::Yes
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        let before = done.len();
        done.append(&mut self.early);
        let missing = |done: &Vec<Raw>| done.len() - before < min;
        self.reap_silent(done);
        let silent_only = self.in_helper == 0 && !self.watched && self.requests.len() == self.silent.len();
        if !silent_only {
            let timeout = if missing(done) && self.silent.is_empty() {
                timeout
            } else {
                NOW
            };
            self.collect(timeout, done)?;
        }
        if missing(done) && !self.silent.is_empty() {
            // Of a disk, so it answers soon, and nothing else would tell of it.
            self.suspend(timeout)?;
            self.reap_silent(done);
            if !silent_only {
                self.collect(NOW, done)?;
            }
        }
        Ok(())
    }

    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        let Some(control) = self.requests.get(&token) else {
            let before = done.len();
            let outcome = self.helper.cancel(token, done);
            self.in_helper -= done.len() - before;
            return outcome;
        };
        // Not by `aio_cancel`: the library does the requests of a descriptor one after the other, and glibc (2.36) makes the one
        // behind a cancelled one the first without telling its threads, so that it and all that follow are never done.
        // A transfer of a disk ends by itself.
        // SAFETY: in `requests`, so submitted, not freed, and its result not read, if it is silent; `aio_error` only looks.
        match unsafe { libc::aio_error(control.as_ptr().cast_const().cast()) } {
            libc::EINPROGRESS => CancelOutcome::Running,
            _ => CancelOutcome::Finished,
        }
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        while !self.silent.is_empty() {
            // Transfers of a disk, so they end. Their results are kept for the next `wait`.
            match self.suspend(None) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            let mut early = std::mem::take(&mut self.early);
            self.reap_silent(&mut early);
            self.early = early;
        }
        if !self.early.is_empty() {
            self.helper.wake();
        }
        self.watched = true;
        Ok(self.helper.poll_fd())
    }

    fn wake(&mut self) {
        self.helper.wake();
    }

    fn forget_threads(&mut self) {
        self.forked = true;
        self.helper.forget_threads();
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        // A callback may have posted its result and not yet let go of the mailbox, whose eventfd it would keep open.
        while !self.forked && Arc::strong_count(self.helper.mailbox()) > self.mailbox_owners {
            std::thread::yield_now();
        }
    }
}
