//! What sockets are made of.

use crate::limits::Limits;
use crate::sockets::Sockets;
use proactor_engine::SqPoll;
use std::io;
use std::time::Duration;

/// How sends go to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendPolicy {
    /// By the number of sockets that were ready in the turn.
    #[default]
    Auto,
    /// Each by a system call of its own.
    Direct,
    /// All of a turn together with its wait.
    Queued,
}

/// Parts of the kernel's io_uring to do without, for tests: what an older kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    /// io_uring itself: sockets are on epoll.
    pub ring: bool,
    /// Accepts that stay in the ring (Linux 5.19).
    pub multishot_accept: bool,
    /// Receives that stay in the ring (Linux 6.0): sockets are on epoll.
    pub multishot_receive: bool,
    /// Buffers that the kernel chooses from (Linux 5.19): sockets are on epoll.
    pub buffer_rings: bool,
    /// Cancellation of all entries of a descriptor (Linux 5.19).
    pub cancel_by_descriptor: bool,
    /// Sends that have no completion if all is sent (Linux 5.17).
    pub quiet_sends: bool,
    /// Completions that are handled when this thread asks for them (Linux 6.1).
    pub defer_taskrun: bool,
}

/// The builder of [`Sockets`].
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) limits: Limits,
    pub(crate) send: SendPolicy,
    pub(crate) backlog: i32,
    pub(crate) reuse_port: bool,
    pub(crate) no_delay: bool,
    pub(crate) buffer_bytes: u32,
    pub(crate) buffers: u16,
    pub(crate) max_buffers: u16,
    pub(crate) entries: u32,
    pub(crate) sqpoll: Option<SqPoll>,
    pub(crate) user_spin: Duration,
    pub(crate) require_ring: bool,
    /// Set by a group: what the ring begins with that shares another one's kernel worker.
    pub(crate) attach: Option<proactor_engine::Config>,
    pub(crate) io_workers: Option<u32>,
    pub(crate) io_worker_cpus: Option<Vec<u32>>,
    pub(crate) answers_later: bool,
    pub(crate) napi: Option<Duration>,
    pub(crate) zero_copy_above: Option<usize>,
    pub(crate) hidden: Hidden,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            limits: Limits::default(),
            send: SendPolicy::Auto,
            backlog: 4096,
            reuse_port: false,
            no_delay: true,
            buffer_bytes: 16 << 10,
            buffers: 32,
            max_buffers: 1024,
            entries: 1024,
            sqpoll: None,
            user_spin: Duration::ZERO,
            require_ring: false,
            attach: None,
            io_workers: None,
            io_worker_cpus: None,
            answers_later: false,
            napi: None,
            zero_copy_above: None,
            hidden: Hidden::default(),
        }
    }
}

impl Config {
    /// Bounds of memory, connections and time.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How sends go to the kernel; default by the number of sockets that were ready.
    #[must_use]
    pub fn send(mut self, policy: SendPolicy) -> Self {
        self.send = policy;
        self
    }

    /// Connections that may wait to be accepted; default 4,096. The kernel takes at most `net.core.somaxconn`.
    #[must_use]
    pub fn backlog(mut self, backlog: u32) -> Self {
        self.backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        self
    }

    /// Whether several listeners may share a port (SO_REUSEPORT), among which the kernel divides connections; default false.
    #[must_use]
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Whether short messages are sent at once (TCP_NODELAY); default true.
    #[must_use]
    pub fn no_delay(mut self, no_delay: bool) -> Self {
        self.no_delay = no_delay;
        self
    }

    /// The pool that all receives share: `count` buffers of `bytes` each, and at most `max` when that is too few. Default 32 of
    /// 16 KiB, at most 1,024. `max` is rounded up to a power of two, at most 32,768.
    #[must_use]
    pub fn pool(mut self, count: u16, bytes: u32, max: u16) -> Self {
        self.max_buffers = max.clamp(1, 1 << 15).next_power_of_two();
        self.buffers = count.clamp(1, self.max_buffers);
        self.buffer_bytes = bytes.max(1);
        self
    }

    /// Entries of the submission queue, 1 to 32,768; default 1,024. The completion queue has four times as many.
    #[must_use]
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = entries.clamp(1, 32_768);
        self
    }

    /// Lets a kernel thread make the system calls: it submits, receives and sends, so that this thread makes none while there is
    /// work. The kernel's thread uses a processor for as long as it polls.
    #[must_use]
    pub fn kernel_worker(mut self, worker: SqPoll) -> Self {
        self.sqpoll = Some(worker);
        self
    }

    /// How long a turn looks at the completion queue before the thread sleeps; default zero. Only with a
    /// [`kernel_worker`](Self::kernel_worker).
    #[must_use]
    pub fn user_spin(mut self, spin: Duration) -> Self {
        self.user_spin = spin;
        self
    }

    /// The most threads of the kernel for work that blocks, each for bounded and unbounded work; the kernel's default otherwise
    /// (Linux 5.15). Sockets hardly need any.
    #[must_use]
    pub fn io_workers(mut self, count: u32) -> Self {
        self.io_workers = Some(count);
        self
    }

    /// The processors of those threads (Linux 5.14).
    #[must_use]
    pub fn io_worker_cpus(mut self, cpus: Vec<u32>) -> Self {
        self.io_worker_cpus = Some(cpus);
        self
    }

    /// Whether [`build`](Self::build) fails where a ring cannot be had; default false.
    #[must_use]
    pub fn require_ring(mut self, required: bool) -> Self {
        self.require_ring = required;
        self
    }

    /// Whether what is sent between two turns belongs to the turn before them: for a handler that only takes note of what has
    /// happened, and a program that answers after the turn and then makes another one. Default false: what is sent between
    /// turns is sent at once.
    #[must_use]
    pub fn answers_later(mut self, later: bool) -> Self {
        self.answers_later = later;
        self
    }

    /// Has waits poll the network device for so long instead of waiting for its interrupts; see [`proactor_engine::Config::napi`].
    #[must_use]
    pub fn napi(mut self, busy_poll: Duration) -> Self {
        self.napi = Some(busy_poll);
        self
    }

    /// Sends of so many bytes or more that wait for a TCP peer on another machine are not copied by the kernel (Linux 6.0);
    /// default none. Their memory is kept until the peer has acknowledged them, and nothing else is sent to it before. Never
    /// to this machine, where the kernel would copy all the same. Without effect on epoll.
    #[must_use]
    pub fn zero_copy_above(mut self, bytes: usize) -> Self {
        self.zero_copy_above = Some(bytes.max(1));
        self
    }

    /// Does without parts of the kernel's io_uring. For tests.
    #[must_use]
    pub fn hide(mut self, hidden: Hidden) -> Self {
        self.hidden = hidden;
        self
    }

    /// Makes the sockets' side of one thread.
    ///
    /// # Errors
    /// EMFILE or ENOMEM where not even epoll can be had, and `InvalidInput` for a kernel worker on a processor that cannot be
    /// used. A ring that cannot be had is no error, unless it is required: sockets are on epoll then, and [`Sockets::chosen`] says why.
    pub fn build(self) -> io::Result<Sockets> {
        Sockets::new(self)
    }
}
