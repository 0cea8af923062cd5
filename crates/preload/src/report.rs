//! Options from the environment, and what is said at the end of the process.

use crate::table;
use crate::worker::{self, Workers};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Options as `proactor run` hands them over: `name=value` with semicolons between.
const VARIABLE: &CStr = c"PROACTOR_RUN";

/// Why a socket or a set is on plain epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Cause {
    NoRing,
    SecondThread,
    OtherThread,
    Nested,
    SetSent,
    Duplicated,
    Sent,
    Blocking,
    Fork,
    Splice,
    KernelTls,
    Urgent,
    Stdio,
    Connected,
    SocketOption,
    Polled,
    TwoSets,
    Exclusive,
    RingLost,
}

const CAUSES: [(Cause, &str); 19] = [
    (Cause::NoRing, "no ring could be made"),
    (Cause::SecondThread, "a second thread waits on the set"),
    (Cause::OtherThread, "another thread uses a socket of the set"),
    (Cause::Nested, "the set is in another set, or is polled"),
    (Cause::SetSent, "the set's descriptor is sent to another process"),
    (Cause::Duplicated, "the socket's descriptor is duplicated"),
    (Cause::Sent, "the socket's descriptor is sent to another process"),
    (Cause::Blocking, "the socket is made blocking, or signals input"),
    (Cause::Fork, "the process forks"),
    (Cause::Splice, "splice or sendfile takes from the socket"),
    (Cause::KernelTls, "TLS in the kernel"),
    (Cause::Urgent, "urgent data"),
    (Cause::Stdio, "fdopen on the socket"),
    (Cause::Connected, "connect on the socket"),
    (Cause::SocketOption, "an option that changes what is received"),
    (Cause::Polled, "poll or select on the socket"),
    (Cause::TwoSets, "the socket is in two sets"),
    (Cause::Exclusive, "EPOLLEXCLUSIVE, EPOLLWAKEUP or EPOLLPRI"),
    (Cause::RingLost, "the ring cannot be used any more"),
];

static COUNTS: [AtomicU64; CAUSES.len()] = [const { AtomicU64::new(0) }; CAUSES.len()];

/// Connected Unix sockets, which stay on epoll.
static UNIX_SOCKETS: AtomicU64 = AtomicU64::new(0);
const WHY_NOT_UNIX: &str = "their peers may send descriptors with any byte, which a ring would drop";

pub(crate) fn count_unix_socket() {
    UNIX_SOCKETS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a socket or a set that is handed back.
pub(crate) fn count(cause: Cause) {
    COUNTS[cause as usize].fetch_add(1, Ordering::Relaxed);
}

/// What a set has done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stats {
    pub(crate) adopted: u64,
    /// Sockets that have come back after a fork.
    pub(crate) returned: u64,
    pub(crate) received: u64,
    pub(crate) queued_sends: u64,
    pub(crate) direct_sends: u64,
    pub(crate) enters: u64,
    pub(crate) waits: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.adopted += other.adopted;
        self.returned += other.returned;
        self.received += other.received;
        self.queued_sends += other.queued_sends;
        self.direct_sends += other.direct_sends;
        self.enters += other.enters;
        self.waits += other.waits;
    }
}

/// What the command line says.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Local ports of the connections that go on a ring. Empty: all.
    pub(crate) only: Vec<u16>,
    pub(crate) per_socket: Option<usize>,
    pub(crate) pool: Option<u16>,
    pub(crate) workers: Workers,
    explain: bool,
    stats: bool,
    stats_file: Option<OsString>,
}

static OPTIONS: OnceLock<Options> = OnceLock::new();
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The file of the statistics, or -1. It is opened at the start, as the program may become a user who cannot open it,
/// or change its root directory.
static STATS_FILE: AtomicI32 = AtomicI32::new(-1);
/// Its device and inode number.
static STATS_FILE_IS: OnceLock<(u64, u64)> = OnceLock::new();
/// The file's number is at least this where the limit allows it: programs count on low numbers.
const STATS_FILE_FROM: i32 = 900;

/// The options, all at their defaults before [`read_options`].
pub(crate) fn options() -> &'static Options {
    OPTIONS.get_or_init(read_options)
}

fn read_options() -> Options {
    let mut options = Options::default();
    // SAFETY: the name ends with a zero; the value is read at once.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return options;
    }
    // SAFETY: a value in the environment ends with a zero.
    let value = unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned();
    for item in value.split(';') {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        match name {
            "only" => options.only = numbers(value),
            "per-socket" => options.per_socket = value.parse().ok(),
            "pool" => options.pool = value.parse().ok(),
            "kernel-workers" => options.workers.count = value.parse().unwrap_or(0),
            "kernel-cpus" => options.workers.cpus = numbers(value),
            "sqpoll-idle-ms" => options.workers.idle_ms = value.parse().unwrap_or(0),
            "user-spin-ns" => options.workers.spin = Duration::from_nanos(value.parse().unwrap_or(0)),
            "in-step" => options.workers.in_step = true,
            "iowq" => options.workers.io_workers = value.parse().ok(),
            "iowq-cpus" => options.workers.io_cpus = numbers(value),
            "explain" => options.explain = true,
            "stats" => options.stats = true,
            _ => {}
        }
    }
    options.stats_file = std::env::var_os("PROACTOR_RUN_STATS");
    options
}

fn numbers<T: std::str::FromStr>(list: &str) -> Vec<T> {
    // allocates: numbers of an option
    list.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// Takes what concerns this library out of the environment of programs that this one starts. `ours` is how LD_PRELOAD names it.
fn hide_from_children(ours: &[u8]) {
    const LIST: &CStr = c"LD_PRELOAD";
    // SAFETY: names that end with a zero; this runs before the program has threads.
    unsafe {
        let list = libc::getenv(LIST.as_ptr());
        if !list.is_null() {
            let rest: Vec<&[u8]> = CStr::from_ptr(list)
                .to_bytes()
                .split(|byte| matches!(byte, b':' | b' '))
                .filter(|path| *path != ours && !path.is_empty())
                .collect(); // allocates: an entry for each library, once at the start
                            // allocates: a variable, once at the start
            match CString::new(rest.join(&b':')) {
                Ok(rest) if !rest.is_empty() => libc::setenv(LIST.as_ptr(), rest.as_ptr(), 1),
                _ => libc::unsetenv(LIST.as_ptr()),
            };
        }
        for name in [VARIABLE, c"PROACTOR_RUN_STATS", c"PROACTOR_RUN_ALONE"] {
            libc::unsetenv(name.as_ptr());
        }
    }
}

/// Called when the library is loaded.
pub(crate) fn start() {
    options();
    // SAFETY: a name that ends with a zero; the value is copied before anything changes it.
    let alone = unsafe {
        let ours = libc::getenv(c"PROACTOR_RUN_ALONE".as_ptr());
        (!ours.is_null()).then(|| CStr::from_ptr(ours).to_bytes().to_vec()) // allocates: a variable, once at the start
    };
    if let Some(ours) = alone {
        hide_from_children(&ours);
    }
    if let Some(Ok(file)) = options().stats_file.as_deref().map(open_stats_file) {
        keep_stats_file(file);
    }
    note_process();
}

fn open_stats_file(path: &OsStr) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn keep_stats_file(file: File) {
    let Some(which) = which_file(file.as_raw_fd()) else {
        return;
    };
    let _ = STATS_FILE_IS.set(which);
    // SAFETY: no pointer is passed; `file` has the descriptor.
    let high =
        unsafe { crate::real::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, STATS_FILE_FROM as usize) };
    let fd = if high < 0 { file.into_raw_fd() } else { high };
    table::set_own(fd);
    STATS_FILE.store(fd, Ordering::Relaxed);
}

/// Whether this is the process whose memory this is. Between vfork and exec another one uses it.
pub(crate) fn is_this_process() -> bool {
    // SAFETY: no argument.
    PROCESS.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// Remembers which process this is. A forked child begins with counts of its own.
pub(crate) fn note_process() {
    // SAFETY: no argument.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
    UNIX_SOCKETS.store(0, Ordering::Relaxed);
}

fn total() -> Stats {
    let mut total = Stats::default();
    for set in table::sets() {
        if let Some(stats) = set.stats() {
            total.add(&stats);
        }
    }
    total
}

fn name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().replace(['"', '\\'], "?")
}

fn as_json(total: &Stats) -> String {
    let mut text = format!(
        "{{\"program\":\"{}\",\"pid\":{},\"sockets\":{},\"returned\":{},\"received_bytes\":{},\"queued_sends\":{},\"direct_sends\":{},\
         \"waits\":{},\"enters\":{},\"kernel_workers\":{},\"unix_sockets_on_epoll\":{},\"handed_back\":{{",
        name(),
        std::process::id(),
        total.adopted,
        total.returned,
        total.received,
        total.queued_sends,
        total.direct_sends,
        total.waits,
        total.enters,
        worker::count(),
        UNIX_SOCKETS.load(Ordering::Relaxed)
    );
    let counted = CAUSES
        .iter()
        .map(|(cause, why)| (why, COUNTS[*cause as usize].load(Ordering::Relaxed)));
    let named: Vec<String> = counted
        .filter(|(_, count)| *count > 0)
        .map(|(why, count)| format!("\"{why}\":{count}"))
        .collect(); // allocates: an entry for each cause
    let _ = writeln!(text, "{}}}}}", named.join(","));
    text
}

fn explained(total: &Stats) -> String {
    let mut text = format!(
        "proactor run: {} ({}): {} sockets on a ring\n",
        name(),
        std::process::id(),
        total.adopted
    );
    if worker::count() > 0 {
        let _ = writeln!(text, "proactor run: {} kernel workers", worker::count());
    }
    for (cause, why) in CAUSES {
        let count = COUNTS[cause as usize].load(Ordering::Relaxed);
        if count > 0 {
            let _ = writeln!(text, "proactor run: handed back to epoll {count} times: {why}");
        }
    }
    let count = UNIX_SOCKETS.load(Ordering::Relaxed);
    if count > 0 {
        let _ = writeln!(
            text,
            "proactor run: {count} Unix sockets stayed on epoll: {WHY_NOT_UNIX}"
        );
    }
    text
}

/// Writes what was asked for, at the end of the process.
pub(crate) fn finish() {
    if !is_this_process() {
        return;
    }
    let options = options();
    if !(options.explain || options.stats || options.stats_file.is_some()) {
        return;
    }
    let total = total();
    if options.explain {
        to_descriptor(2, explained(&total).as_bytes());
    }
    if options.stats {
        to_descriptor(2, as_json(&total).as_bytes());
    }
    if let Some(path) = &options.stats_file {
        // Each process of the program adds a line.
        if let Err(e) = write_stats_file(path, as_json(&total).as_bytes()) {
            let path = path.to_string_lossy();
            to_descriptor(2, format!("proactor run: {path}: {e}\n").as_bytes());
        }
    }
}

fn write_stats_file(path: &OsStr, text: &[u8]) -> std::io::Result<()> {
    let fd = STATS_FILE.load(Ordering::Relaxed);
    // A program that closes it without the C library has another file there.
    if fd >= 0 && which_file(fd).as_ref() == STATS_FILE_IS.get() {
        to_descriptor(fd, text);
        return Ok(());
    }
    open_stats_file(path)?.write_all(text)
}

fn which_file(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: a struct of numbers, which are zero; the kernel fills it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}

fn to_descriptor(fd: i32, text: &[u8]) {
    // SAFETY: a live slice.
    unsafe { crate::real::write(fd, text.as_ptr().cast(), text.len()) };
}
