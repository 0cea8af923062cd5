//! What a driver is made of, and which backend it gets.

use crate::driver::{Disabled, Driver};
use crate::probe::{Choice, Engine};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A kernel thread that polls the submission queue, so that submitting makes no system call.
///
/// It burns a core while there is work and for `idle` after; it is a choice for servers. Linux 5.13 without privilege.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqPoll {
    /// How long the thread polls without work before it sleeps. Whole milliseconds; at least 1.
    pub idle: Duration,
    /// The processor it is bound to.
    pub cpu: Option<u32>,
}

impl SqPoll {
    /// Polls for so long without work, on any processor.
    pub fn new(idle: Duration) -> Self {
        SqPoll { idle, cpu: None }
    }

    /// On this processor alone; `None`: on any.
    pub fn cpu(mut self, cpu: impl Into<Option<u32>>) -> Self {
        self.cpu = cpu.into();
        self
    }
}

/// How the simulator misbehaves. Rates are out of 256 per op.
///
/// ```
/// # use proactor_engine::SimConfig;
/// let sim = SimConfig::new(7).short_rate(64).error_rate(8);
/// ```
#[cfg(feature = "sim")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SimConfig {
    /// The same seed and program give the same run.
    pub seed: u64,
    /// Transfers cut short.
    pub short_rate: u8,
    /// Ops that fail with EIO, ENOSPC or EINTR without effect.
    pub error_rate: u8,
    /// Cancellations that come too late.
    pub late_cancel_rate: u8,
    /// Whether completions come back out of order.
    pub reorder: bool,
    /// How many bytes writes may bring in all. A write that exceeds it is cut short, and every later one fails with ENOSPC.
    pub space_bytes: Option<u64>,
    /// Offsets, from the first up to and without the second, at which no file can be read or written: a transfer stops
    /// before them, and one that begins there fails with EIO.
    pub bad_range: Option<(u64, u64)>,
}

#[cfg(feature = "sim")]
impl SimConfig {
    /// Does everything right, in the order of this seed.
    pub fn new(seed: u64) -> Self {
        SimConfig {
            seed,
            ..SimConfig::default()
        }
    }

    /// Cuts so many of 256 transfers short.
    pub fn short_rate(mut self, rate: u8) -> Self {
        self.short_rate = rate;
        self
    }

    /// Lets so many of 256 ops fail.
    pub fn error_rate(mut self, rate: u8) -> Self {
        self.error_rate = rate;
        self
    }

    /// Lets so many of 256 cancellations come too late.
    pub fn late_cancel_rate(mut self, rate: u8) -> Self {
        self.late_cancel_rate = rate;
        self
    }

    /// Whether completions come back out of order.
    pub fn reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// How many bytes writes may bring in all.
    pub fn space_bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.space_bytes = bytes.into();
        self
    }

    /// Offsets at which no file can be read or written: from the first up to and without the second.
    pub fn bad_range(mut self, range: impl Into<Option<(u64, u64)>>) -> Self {
        self.bad_range = range.into();
        self
    }
}

/// The builder of a [`Driver`].
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) engine: Choice,
    pub(crate) depth: u32,
    pub(crate) backlog: usize,
    pub(crate) inline: bool,
    pub(crate) sqpoll: Option<SqPoll>,
    pub(crate) iopoll: bool,
    pub(crate) cq_entries: Option<u32>,
    /// A copy of another ring's descriptor.
    pub(crate) attach_to: Option<Arc<OwnedFd>>,
    pub(crate) no_iowait: bool,
    pub(crate) napi: Option<Duration>,
    /// The ring is made and cannot be used yet.
    pub(crate) start_disabled: bool,
    pub(crate) hide_defer_taskrun: bool,
    pub(crate) user_spin: Duration,
    pub(crate) io_workers: Option<[u32; 2]>,
    pub(crate) io_worker_cpus: Option<Vec<usize>>,
    /// None: as many as [`default_threads`] says.
    pub(crate) max_threads: Option<usize>,
    pub(crate) fixed_files: u32,
    pub(crate) descriptor_wait: Option<Duration>,
    #[cfg(feature = "sim")]
    pub(crate) sim: SimConfig,
    /// Set by the driver: whose registered files and buffers the backend knows.
    pub(crate) driver_id: u64,
}

/// Ops that the backend holds at once, if nothing else is said.
const DEPTH: u32 = 256;
/// The most a ring can hold (Linux, `IORING_MAX_ENTRIES`).
const MAX_DEPTH: u32 = 32_768;
/// Ops that may wait behind them: enough for any burst, small enough to notice a program that never collects.
const BACKLOG: usize = 65_536;
/// The most places in a ring's table of files (Linux, `IORING_MAX_FIXED_FILES`).
const MAX_FIXED_FILES: u32 = 1 << 20;
/// Room in the table of registered files.
const FIXED_FILES: u32 = 1024;
/// Worker threads per processor: they mostly wait for the device.
const THREADS_PER_CPU: usize = 8;
const MAX_THREADS: usize = 64;

/// Worker threads at most, if nothing else is said. Not asked before there is work for one: the standard library reads
/// three files to find out (the cgroup's quota), which a driver that never has such work need not wait for.
pub(crate) fn default_threads() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus * THREADS_PER_CPU).min(MAX_THREADS)
}

impl Default for Config {
    fn default() -> Self {
        Config {
            engine: Choice::Auto,
            depth: DEPTH,
            backlog: BACKLOG,
            inline: true,
            sqpoll: None,
            iopoll: false,
            cq_entries: None,
            attach_to: None,
            no_iowait: false,
            napi: None,
            start_disabled: false,
            hide_defer_taskrun: false,
            user_spin: Duration::ZERO,
            io_workers: None,
            io_worker_cpus: None,
            max_threads: None,
            fixed_files: FIXED_FILES,
            descriptor_wait: None,
            #[cfg(feature = "sim")]
            sim: SimConfig::default(),
            driver_id: 0,
        }
    }
}

impl Config {
    /// This backend and no other: [`build`](Self::build) fails if it cannot be had. Without it, `PROACTOR_ENGINE` names one;
    /// without that io_uring is taken where it works, and threads where not.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Choice::Named(engine);
        self
    }

    /// The most ops in flight with the backend, 1 to 32,768; default 256. More wait in user space.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth.clamp(1, MAX_DEPTH);
        self
    }

    /// The most ops that wait in user space behind the queue; default 65,536. Beyond it, `submit` refuses.
    pub fn backlog(mut self, backlog: usize) -> Self {
        self.backlog = backlog;
        self
    }

    /// Whether to try each op at once before queueing it; default true.
    pub fn inline(mut self, inline: bool) -> Self {
        self.inline = inline;
        self
    }

    /// Let a kernel thread poll the submission queue. io_uring only; other backends ignore it.
    pub fn sqpoll(mut self, sqpoll: SqPoll) -> Self {
        self.sqpoll = Some(sqpoll);
        self
    }

    /// Poll the device for completions: O_DIRECT reads and writes on a device with poll queues only (EOPNOTSUPP on
    /// others); everything else goes to worker threads. io_uring only.
    pub fn iopoll(mut self, iopoll: bool) -> Self {
        self.iopoll = iopoll;
        self
    }

    /// Sets the number of entries in the completion queue; default twice the submission queue, rounded up to a power of two.
    /// Multishot entries fill it faster than the submission queue. io_uring only.
    pub fn cq_entries(mut self, entries: u32) -> Self {
        self.cq_entries = Some(entries);
        self
    }

    /// Shares the kernel workers of another driver's ring, and its polling thread if both rings have [`SqPoll`]. io_uring
    /// only, Linux 5.6 (5.10 for the polling thread).
    ///
    /// # Errors
    /// `Unsupported` if the other driver has no ring; EMFILE if its descriptor cannot be duplicated.
    pub fn attach_to(mut self, other: &mut Driver) -> io::Result<Self> {
        self.attach_to = Some(Arc::new(other.duplicate_ring_fd()?));
        Ok(self)
    }

    /// Keeps waits from counting as waits for I/O, in load averages and for the choice of the processor's speed; default
    /// false. io_uring only, Linux 6.15; ignored before.
    pub fn no_iowait(mut self, no_iowait: bool) -> Self {
        self.no_iowait = no_iowait;
        self
    }

    /// Has waits poll the network device of the ring's sockets for so long, instead of waiting for its interrupts; default
    /// not. For a real device with few sockets: it uses a processor, does nothing for loopback, and starves other rings that
    /// share a polling thread. io_uring only, Linux 6.9; there is no ring before.
    pub fn napi(mut self, busy_poll: Duration) -> Self {
        self.napi = Some(busy_poll);
        self
    }

    /// Does without DEFER_TASKRUN (Linux 6.1), as an older kernel. For tests.
    #[doc(hidden)]
    pub fn hide_defer_taskrun(mut self, hidden: bool) -> Self {
        self.hide_defer_taskrun = hidden;
        self
    }

    /// Sets for how long a wait looks at the completion queue before the thread sleeps; default zero. Only with
    /// [`sqpoll`](Self::sqpoll), where completions appear without a system call.
    pub fn user_spin(mut self, spin: Duration) -> Self {
        self.user_spin = spin;
        self
    }

    /// The most kernel worker threads for bounded (disk) and unbounded (pipe, socket) work; 0 leaves one unchanged.
    /// io_uring, Linux 5.15.
    pub fn io_workers(mut self, bounded: u32, unbounded: u32) -> Self {
        self.io_workers = Some([bounded, unbounded]);
        self
    }

    /// The processors that the ring's kernel workers may run on. io_uring, Linux 5.14.
    pub fn io_worker_cpus(mut self, cpus: Vec<usize>) -> Self {
        self.io_worker_cpus = Some(cpus);
        self
    }

    /// The most worker threads of the driver's own; default 8 per processor, at most 64.
    pub fn max_threads(mut self, max_threads: usize) -> Self {
        self.max_threads = Some(max_threads.max(1));
        self
    }

    /// Room in the ring's table of registered files, 1 to 1,048,576; default 1,024. Registering the first one fails with
    /// EMFILE where it is more than RLIMIT_NOFILE.
    pub fn fixed_files(mut self, count: u32) -> Self {
        self.fixed_files = count.clamp(1, MAX_FIXED_FILES);
        self
    }

    /// Sets how long an op waits for a descriptor while no op of the process gets one, before it fails with EMFILE. Zero: ops
    /// do not wait, and may take the descriptors that others leave to the program. Default: as
    /// [`set_descriptor_wait`](crate::set_descriptor_wait) says; zero on the simulator, whose errors are meant.
    pub fn descriptor_wait(mut self, wait: Duration) -> Self {
        self.descriptor_wait = Some(wait);
        self
    }

    /// How the simulator behaves. Only with [`Engine::Sim`].
    #[cfg(feature = "sim")]
    pub fn sim(mut self, sim: SimConfig) -> Self {
        self.sim = sim;
        self
    }

    /// Makes a driver that another thread is to use (IORING_SETUP_R_DISABLED, Linux 5.10): what can fail fails here, and
    /// [`Disabled::enable`] has only to begin. io_uring only.
    ///
    /// # Errors
    /// As [`build`](Self::build) for [`Engine::IoUring`], and `InvalidInput` if another engine was named.
    pub fn build_disabled(mut self) -> io::Result<Disabled> {
        if let Choice::Named(engine) = self.engine {
            if engine != Engine::IoUring {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("only io_uring starts disabled, and {engine} was named"),
                ));
            }
        }
        self.engine = Choice::Named(Engine::IoUring);
        self.start_disabled = true;
        self.build().map(Disabled::new)
    }

    /// Makes the driver.
    ///
    /// # Errors
    /// For a named engine, why it cannot be had. Without a name only if not even threads work (EMFILE, ENOMEM).
    pub fn build(self) -> io::Result<Driver> {
        Driver::with_config(self)
    }
}
