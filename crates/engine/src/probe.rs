//! Which backends work here, and why not.

#[cfg(feature = "linux-aio")]
use crate::backend::linux_aio;
#[cfg(all(feature = "posix-aio", any(target_env = "gnu", target_env = "musl")))]
use crate::backend::posix_aio;
#[cfg(feature = "sim")]
use crate::backend::sim;
use crate::backend::{threads, uring, Backend};
use crate::config::Config;
use crate::op::OpKind;
use crate::sys;
use std::fmt;
use std::io;
use std::str::FromStr;

/// A backend's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// io_uring, Linux 5.10 or newer.
    IoUring,
    /// Linux native AIO (`io_submit`): asynchronous for O_DIRECT; everything else goes to threads. With the feature
    /// `linux-aio`, a default one.
    LinuxAio,
    /// POSIX AIO, the C library's. With the feature `posix-aio`, a default one.
    PosixAio,
    /// A pool of threads.
    Threads,
    /// The seeded simulator, for tests. Never chosen automatically. With the feature `sim`.
    Sim,
}

impl Engine {
    /// All of them, best first.
    pub const ALL: &'static [Engine] = &[
        Engine::IoUring,
        Engine::LinuxAio,
        Engine::PosixAio,
        Engine::Threads,
        Engine::Sim,
    ];

    /// The order of the automatic choice: a thread pool of our own beats both AIOs on buffered files and equals them
    /// elsewhere in all but many deep O_DIRECT queues.
    const AUTO: &'static [Engine] = &[Engine::IoUring, Engine::Threads];

    /// As in `--engine` and `PROACTOR_ENGINE`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::IoUring => "io_uring",
            Engine::LinuxAio => "linux_aio",
            Engine::PosixAio => "posix_aio",
            Engine::Threads => "threads",
            Engine::Sim => "sim",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No backend has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices = "auto, io_uring, linux_aio, posix_aio, threads or sim";
        write!(f, "no engine is called {:?}: choose {choices}", self.0)
    }
}

impl std::error::Error for UnknownEngine {}

impl FromStr for Engine {
    type Err = UnknownEngine;
    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let folded = name.trim().to_ascii_lowercase().replace('-', "_");
        let short = |e: &&Engine| e.name() == folded || e.name().replace('_', "") == folded;
        match Engine::ALL.iter().find(short) {
            Some(engine) => Ok(*engine),
            None if folded == "uring" => Ok(Engine::IoUring),
            None => Err(UnknownEngine(name.into())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Auto,
    Named(Engine),
}

/// How a backend does one kind of op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// By the backend itself.
    Native,
    /// By the backend for some files, by worker threads for the others.
    Partly(&'static str),
    /// By the driver's worker threads, for this reason.
    Threads(&'static str),
    /// By the driver's readiness reactor: no thread, no system call per op beyond it.
    Reactor,
}

impl Support {
    /// `native`, `partly`, `threads` or `reactor`.
    pub fn name(self) -> &'static str {
        match self {
            Support::Native => "native",
            Support::Partly(_) => "partly",
            Support::Threads(_) => "threads",
            Support::Reactor => "reactor",
        }
    }

    /// Why it is not native.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Support::Partly(reason) | Support::Threads(reason) => Some(reason),
            _ => None,
        }
    }
}

/// What one backend can do here.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// Which.
    pub engine: Engine,
    /// Whether a driver on it completed a real op; if not, why.
    pub usable: Result<(), String>,
    /// How it does each kind of op; empty if it is not usable.
    pub support: Vec<(OpKind, Support)>,
    /// Features of the set-up that were found, such as `DEFER_TASKRUN`.
    pub features: Vec<&'static str>,
}

/// The environment variable that names the engine for every driver that is not told one.
pub const ENGINE_VARIABLE: &str = "PROACTOR_ENGINE";

/// The outcome of choosing: the engine and the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// Which.
    pub engine: Engine,
    /// Why, in words for a person.
    pub reason: String,
}

/// Opens the backend that the configuration asks for.
pub(crate) fn open(config: &Config) -> io::Result<(Box<dyn Backend>, Chosen)> {
    if let Choice::Named(engine) = config.engine {
        let backend = open_named(engine, config)?;
        return Ok((
            backend,
            Chosen {
                engine,
                reason: "asked for by name".into(),
            },
        ));
    }
    if let Some(name) =
        std::env::var_os(ENGINE_VARIABLE).filter(|v| !v.is_empty() && !v.eq_ignore_ascii_case("auto"))
    {
        let engine = name
            .to_string_lossy()
            .parse::<Engine>()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{ENGINE_VARIABLE}: {e}")))?;
        let backend = open_named(engine, config).map_err(|e| {
            let words = format!("{ENGINE_VARIABLE}={engine}: {e}");
            sys::in_words(e, words)
        })?;
        return Ok((
            backend,
            Chosen {
                engine,
                reason: format!("named by {ENGINE_VARIABLE}"),
            },
        ));
    }
    let mut refused: Vec<(Engine, io::Error)> = Vec::new();
    for &engine in Engine::AUTO {
        match open_named(engine, config) {
            Ok(backend) if refused.is_empty() => {
                return Ok((
                    backend,
                    Chosen {
                        engine,
                        reason: "the first choice, and it works here".into(),
                    },
                ));
            }
            Ok(backend) => {
                return Ok((
                    backend,
                    Chosen {
                        engine,
                        reason: format!("{engine} works here; {}", why_not(&refused)),
                    },
                ));
            }
            // What the caller asked for can be had nowhere.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput && sys::errno_of(&e).is_none() => {
                return Err(e)
            }
            Err(e) => refused.push((engine, e)),
        }
    }
    Err(none_works(refused))
}

/// Joins the reasons of all engines that were tried: "io_uring does not: it is forbidden; ...".
fn why_not(refused: &[(Engine, io::Error)]) -> String {
    let each = refused
        .iter()
        .map(|(engine, e)| format!("{engine} does not: {e}"));
    each.collect::<Vec<_>>().join("; ") // allocates: an entry for each engine
}

/// Gives the last engine's error with the reasons of all of them. A reason that they share is given once.
fn none_works(mut refused: Vec<(Engine, io::Error)>) -> io::Error {
    let reason = |(_, e): &(Engine, io::Error)| e.to_string();
    let words = match refused
        .windows(2)
        .all(|pair| reason(&pair[0]) == reason(&pair[1]))
    {
        true => {
            // allocates: an entry for each engine
            let names: Vec<_> = refused.iter().map(|(engine, _)| engine.name()).collect();
            let shared = refused.last().map(reason).unwrap_or_default();
            format!("{shared} (no engine works here: {})", names.join(", "))
        }
        false => format!("no engine works here; {}", why_not(&refused)),
    };
    match refused.pop() {
        Some((_, last)) => sys::in_words(last, words),
        None => io::Error::from_raw_os_error(libc::ENOSYS),
    }
}

#[cfg(not(all(feature = "linux-aio", feature = "posix-aio", feature = "sim")))]
fn left_out(engine: Engine, feature: &str) -> io::Error {
    let words = format!(
        "{engine} was left out of this program: build it with the feature {feature:?} of proactor-engine"
    );
    io::Error::new(io::ErrorKind::Unsupported, words)
}

/// Opens this backend. The text of an error names the reason once, and no errno.
fn open_named(engine: Engine, config: &Config) -> io::Result<Box<dyn Backend>> {
    make(engine, config).map_err(|e| match e.raw_os_error() {
        Some(libc::EMFILE) => sys::explained(e, "close some, or raise the limit (ulimit -n)"),
        Some(libc::ENFILE) => sys::explained(e, "raise the limit of the whole system (sysctl fs.file-max)"),
        Some(errno) => sys::in_words(e, sys::strerror(errno)),
        None => e,
    })
}

fn make(engine: Engine, config: &Config) -> io::Result<Box<dyn Backend>> {
    Ok(match engine {
        Engine::IoUring => Box::new(uring::Uring::new(config)?),
        #[cfg(feature = "linux-aio")]
        Engine::LinuxAio => Box::new(linux_aio::LinuxAio::new(config)?),
        #[cfg(not(feature = "linux-aio"))]
        Engine::LinuxAio => return Err(left_out(engine, "linux-aio")),
        #[cfg(all(feature = "posix-aio", any(target_env = "gnu", target_env = "musl")))]
        Engine::PosixAio => Box::new(posix_aio::PosixAio::new(config)?),
        #[cfg(not(feature = "posix-aio"))]
        Engine::PosixAio => return Err(left_out(engine, "posix-aio")),
        #[cfg(all(feature = "posix-aio", not(any(target_env = "gnu", target_env = "musl"))))]
        Engine::PosixAio => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this C library has no POSIX AIO",
            ))
        }
        Engine::Threads => Box::new(threads::Threads::new(config)?),
        #[cfg(feature = "sim")]
        Engine::Sim => Box::new(sim::Sim::new(config)?),
        #[cfg(not(feature = "sim"))]
        Engine::Sim => return Err(left_out(engine, "sim")),
    })
}

/// Lists the types of the file systems that are mounted here, with how io_uring and Linux AIO
/// transfer to and from their files. The other backends use plain calls on all of them, and so do
/// these two on an overlay with a layer of a type that is not tested.
///
/// # Errors
/// If /proc/self/mountinfo cannot be read.
pub fn file_systems() -> io::Result<Vec<(String, Support)>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    // Optional fields end with a dash; then comes the type.
    let names = mounts.lines().filter_map(|line| line.split_once(" - "));
    // allocates: an entry for each mount, for a report
    let mut names: Vec<&str> = names.filter_map(|(_, rest)| rest.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    let support = |name: &str| match name {
        _ if sys::mount::is_tested(name) => Support::Native,
        _ if name
            .split('.')
            .next()
            .is_some_and(|kind| kind.starts_with("fuse")) =>
        {
            Support::Threads("with direct I/O, io_uring counts short reads twice; pread does not")
        }
        _ => Support::Threads("not on the list of file systems whose queued reads were tested"),
    };
    Ok(names
        .iter()
        .map(|name| (name.to_string(), support(name)))
        .collect()) // allocates: an entry for each type, for a report
}

/// Tries one backend with a real op and lists what it can do.
pub fn report(engine: Engine) -> Report {
    let usable = try_op(engine);
    let mut support = Vec::new();
    let mut features = Vec::new();
    if usable.is_ok() {
        if let Ok(backend) = open_named(engine, &Config::default()) {
            support = OpKind::ALL
                .iter()
                .map(|&kind| (kind, backend.support(kind)))
                .collect(); // allocates: an entry for each kind of op
            features = backend.features();
        }
    }
    Report {
        engine,
        usable,
        support,
        features,
    }
}

/// Writes to a pipe and reads it back, and syncs a file in memory: the one is what a backend waits for, and the other goes
/// through its own queue (io_submit, `aio_fsync`) or a worker thread, kernel's or ours.
fn try_op(engine: Engine) -> Result<(), String> {
    let attempt = || -> io::Result<Vec<u8>> {
        let (reader, writer) = sys::pipe()?;
        // SAFETY: a static name.
        let memory = sys::check(unsafe { libc::memfd_create(c"proactor".as_ptr(), libc::MFD_CLOEXEC) });
        // As large as a program gets it: a smaller one may fit where that does not.
        let mut driver = Config::default().engine(engine).inline(false).build()?;
        driver.submit(crate::op::Read::new(
            crate::op::File::new(reader),
            Vec::with_capacity(8),
        ))?;
        driver.submit(crate::op::Write::new(crate::op::File::new(writer), b"proactor"))?;
        // Without a file in memory (a filter older than Linux 3.17) the sync is left out.
        if let Ok(memory) = memory.map(sys::owned) {
            driver.submit(crate::op::Fsync::new(crate::op::File::new(memory)))?;
        }
        let mut done = Vec::new();
        while driver.pending() > 0 {
            let timeout = std::time::Duration::from_secs(5);
            match driver.wait(driver.pending(), usize::MAX, Some(timeout), &mut done) {
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::ETIME)),
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                // Also of a ring of this thread that is taken down: the next wait says what has come.
                _ => {}
            }
        }
        let mut data = Vec::new();
        for completion in done {
            completion.result.map_err(explain_failure)?;
            if let Some(crate::op::Op::Read(read)) = completion.op {
                data = read.buffer.into_vec();
            }
        }
        Ok(data)
    };
    match attempt() {
        Ok(data) if data == b"proactor" => Ok(()),
        Ok(_) => Err("a pipe gave back other bytes than were written to it".into()),
        Err(e) => Err(e.to_string()),
    }
}

fn explain_failure(error: crate::Error) -> io::Error {
    let thread = error.op() == OpKind::Fsync.name()
        // io_uring's own answer when the kernel gives it no worker.
        && matches!(error.errno(), libc::EAGAIN | libc::ECANCELED);
    let error = io::Error::from_raw_os_error(error.errno());
    match thread {
        true => sys::explained(error, "no worker thread can be made (try ulimit -u)"),
        false => error,
    }
}

/// The engine that a driver without a named engine gets here and now, and why.
pub fn choose() -> io::Result<Chosen> {
    open(&Config::default()).map(|(_, chosen)| chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make release-check` runs it without features.
    #[test]
    fn an_engine_that_was_left_out_says_which_feature_has_it() {
        let features = [
            (Engine::LinuxAio, "linux-aio", cfg!(feature = "linux-aio")),
            (Engine::PosixAio, "posix-aio", cfg!(feature = "posix-aio")),
            (Engine::Sim, "sim", cfg!(feature = "sim")),
        ];
        for (engine, feature, is_there) in features {
            let Err(error) = Config::default().engine(engine).build() else {
                continue;
            };
            let named = error.to_string().contains(&format!("the feature {feature:?}"));
            assert_eq!(named, !is_there, "{error}");
            assert!(is_there || error.kind() == io::ErrorKind::Unsupported);
        }
    }
}
