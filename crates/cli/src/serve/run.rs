//! The run of a server: start, wait for signals, drain, end.

use super::flags::{EngineChoice, Serve, Server, StatsForm};
use super::signals::Signals;
use super::stats::Watch;
use super::{import, places, say, workers, Misuse};
use crate::config;
use crate::given;
use clap::{Args as _, Parser as _};
use proactor_net::serve::{Echo, Line, Resp, Store};
use proactor_net::{Address, Chosen, Config, Group, Hidden, Limits, Plan, StartError};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for workers that are to end at once.
const STOPPING: Duration = Duration::from_secs(1);

/// Runs the server. Returns 0 if it was ended in order, 1 if it failed, 2 if it was not started, and 128 plus
/// the signal's number if a second signal ended it.
pub(crate) fn run(args: Serve, command: &[OsString]) -> u8 {
    match expand(args, command) {
        Ok(Expanded::Serve(args)) => finish(serve(&args)),
        Ok(Expanded::Ended(status)) => status,
        Err(misuse) => finish(Err(misuse)),
    }
}

/// Result of adding the options of files to a command.
enum Expanded {
    Serve(Box<Serve>),
    Ended(u8),
}

fn expand(args: Serve, command: &[OsString]) -> Result<Expanded, Misuse> {
    // Options of a file can be overridden.
    let known = Serve::augment_args(clap::Command::new("serve"));
    given::warn_of_repeated("proactor serve", &given::options(&known, &command[2..]));
    let more = match (&args.config, &args.import) {
        (Some(file), _) => config::arguments(&of_serve(), &["echo"], file).map_err(Misuse::new)?,
        (None, Some(file)) => {
            let imported = import::read(file)?;
            if args.server.is_none() {
                crate::print(&imported.text);
                return Ok(Expanded::Ended(0));
            }
            crate::to_stderr(&imported.text);
            imported.arguments
        }
        (None, None) => return Ok(Expanded::Serve(Box::new(args))),
    };
    match crate::Cli::try_parse_from(config::before_own(command, more)) {
        Ok(crate::Cli {
            command: Some(crate::Command::Serve(args)),
        }) => Ok(Expanded::Serve(args)),
        Ok(_) => Err(Misuse::new(
            "the options of the file do not go with those of the command",
        )),
        Err(error) => {
            crate::print_usage(&error);
            Ok(Expanded::Ended(2))
        }
    }
}

fn of_serve() -> clap::Command {
    Serve::augment_args(clap::Command::new("serve"))
}

fn finish(result: Result<u8, Misuse>) -> u8 {
    match result {
        Ok(status) => status,
        Err(Misuse(why)) => {
            say(&why);
            2
        }
    }
}

fn serve(args: &Serve) -> Result<u8, Misuse> {
    check(args)?;
    let addresses = places::addresses(args)?;
    places::check_files(args, addresses.len())?;
    let signals = Signals::listen().map_err(|e| Misuse::new(format!("signals cannot be caught: {e}")))?;
    let watch = args.stats.map(Watch::start);
    let group = start(args, addresses)?;
    if let Err(misuse) = announce(args, &group) {
        group.stop();
        let _ = group.join();
        return Err(misuse);
    }
    let status = Run {
        args,
        group: &group,
        signals: &signals,
        watch,
    }
    .until_end();
    let Some(status) = status else {
        // A worker hangs in a turn: it cannot be waited for.
        return Ok(signals.status());
    };
    match group.join() {
        Ok(()) => Ok(status),
        Err(e) => {
            say(&format!("a worker failed: {e}"));
            Ok(1)
        }
    }
}

/// Fails for options that do not go together.
fn check(args: &Serve) -> Result<(), Misuse> {
    if args.max_line.is_some() && args.server != Some(Server::Line) {
        return Err(Misuse::new(
            "--max-line is for `proactor serve line` only, leave it out",
        ));
    }
    if args.max_memory.is_some() && args.server != Some(Server::Resp) {
        return Err(Misuse::new(
            "--max-memory is for `proactor serve resp` only, leave it out",
        ));
    }
    if args.zero_copy_above.is_some() && !wants_ring(args.engine) {
        return Err(Misuse::new(
            "--zero-copy-above needs io_uring, leave it or the choice of epoll out",
        ));
    }
    match args.max_connections {
        Some(most) if most < args.workers.max(args.kernel.kernel_workers.unwrap_or(0)) => Err(Misuse::new(format!(
            "--max-connections {most}: each worker needs one, raise it or lower --workers and --kernel-workers",
        ))),
        _ => Ok(()),
    }
}

/// Returns the configuration of the sockets of one of `rings` rings.
fn sockets(args: &Serve, ring: usize, rings: usize) -> Config {
    let share = |all: usize| all / rings + usize::from(ring < all % rings);
    let limits = Limits {
        max_connections: args.max_connections.map_or(usize::MAX, share),
        socket_bytes: args.max_buffered_each,
        total_bytes: share(args.max_buffered).max(1),
        idle: args.idle_timeout,
        ..Limits::default()
    };
    let mut config = Config::default();
    if let Some(count) = args.kernel.iowq {
        config = config.io_workers(count as u32);
    }
    if let Some(cpus) = &args.kernel.iowq_cpus {
        config = config.io_worker_cpus(cpus.0.clone());
    }
    if let Some(bytes) = args.zero_copy_above {
        config = config.zero_copy_above(bytes);
    }
    config
        .limits(limits)
        .entries(args.queue)
        .backlog(args.backlog)
        .require_ring(args.engine == EngineChoice::Uring)
        .hide(Hidden {
            ring: !wants_ring(args.engine),
            ..Hidden::default()
        })
}

/// Returns true if a ring is to be tried. `PROACTOR_ENGINE` decides where no option does.
fn wants_ring(engine: EngineChoice) -> bool {
    match engine {
        EngineChoice::Uring => true,
        EngineChoice::Epoll => false,
        EngineChoice::Auto => std::env::var(proactor_engine::probe::ENGINE_VARIABLE)
            .is_ok_and(|name| !name.is_empty())
            .then(|| {
                std::env::var(proactor_engine::probe::ENGINE_VARIABLE)
                    .ok()?
                    .parse()
                    .ok()
            })
            .flatten()
            .is_none_or(|engine: proactor_engine::Engine| engine == proactor_engine::Engine::IoUring),
    }
}

fn start(args: &Serve, addresses: Vec<Address>) -> Result<Group, Misuse> {
    let plan = Plan {
        addresses,
        workers: workers::plan(args, |ring, rings| sockets(args, ring, rings))?,
        accept_failed: Box::new(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EMFILE) => ": raise `ulimit -n`, or bound them with --max-connections",
                Some(libc::ENFILE) => ": raise fs.file-max",
                _ => "",
            };
            say(&format!(
                "no connection can be accepted for now ({error}); those that are open go on, and accepting does as soon as it \
                 can{hint}"
            ));
        }),
    };
    let started = match args.server {
        Some(Server::Echo) | None => Group::start(plan, |_| Echo),
        Some(Server::Line) => Group::start(plan, |_| Line::new(args.max_line())),
        Some(Server::Resp) => {
            let store = Arc::new(Store::new(args.max_memory()));
            Group::start(plan, |_| Resp::new(Arc::clone(&store)))
        }
    };
    started.map_err(|error| match error {
        StartError::Listen(error) => Misuse::new(error.to_string()),
        StartError::Worker(error) if args.engine == EngineChoice::Uring => Misuse::new(format!(
            "--engine uring: io_uring cannot be used ({error}), take --engine auto or epoll"
        )),
        StartError::Worker(error) => Misuse::new(format!("a worker cannot be started: {error}")),
    })
}

#[derive(Serialize)]
struct Listening {
    event: &'static str,
    server: String,
    addresses: Vec<String>,
    engine: &'static str,
    /// Reason why it is not io_uring.
    why: Option<String>,
    workers: usize,
    kernel_workers: usize,
    pid: u32,
}

/// Reports that the server accepts connections, and where.
fn announce(args: &Serve, group: &Group) -> Result<(), Misuse> {
    let addresses: Vec<String> = group.addresses().iter().map(Address::to_string).collect();
    let (engine, why) = match group.chosen().first() {
        Some(Chosen::Epoll(why)) => ("epoll", Some(why.clone())),
        _ => ("io_uring", None),
    };
    if engine == "epoll" && args.zero_copy_above.is_some() {
        say("--zero-copy-above has no effect on epoll: all sends are copied");
    }
    if let Some(path) = &args.ready_file {
        let text = addresses.join("\n") + "\n";
        write_whole(path, &text).map_err(|e| {
            Misuse::new(format!(
                "--ready-file {}: it cannot be written ({e}), choose another file",
                path.display()
            ))
        })?;
    }
    if args.stats == Some(StatsForm::Json) {
        let listening = Listening {
            event: "listening",
            server: args.name(),
            addresses,
            engine,
            why,
            workers: args.workers,
            kernel_workers: args.kernel.kernel_workers.unwrap_or(0),
            pid: std::process::id(),
        };
        crate::print(&(serde_json::to_string(&listening).expect("only strings and numbers") + "\n"));
        return Ok(());
    }
    let workers = match args.workers {
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    let kernel = workers::describe(args).map_or_else(String::new, |text| format!(", {text}"));
    let why = match (why, args.engine) {
        (Some(why), EngineChoice::Auto) => format!(", since {why}"),
        _ => String::new(),
    };
    crate::print(&format!(
        "listening on {} ({} on {engine}, {workers}{kernel}{why})\n",
        addresses.join(" "),
        args.name()
    ));
    Ok(())
}

/// Writes a file that readers find whole or not at all.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Phases of the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Connections continue until this time.
    Draining(Instant),
    /// Workers are waited for until this time; the second field is true if a signal has cut the drain short.
    Stopping(Instant, bool),
}

struct Run<'a> {
    args: &'a Serve,
    group: &'a Group,
    signals: &'a Signals,
    watch: Option<Watch>,
}

impl Run<'_> {
    /// Serves until the end. `None` if a worker did not end.
    fn until_end(mut self) -> Option<u8> {
        let mut next_line = Instant::now() + self.args.stats_interval;
        let mut phase = Phase::Serving;
        while !self.group.is_finished() {
            let now = Instant::now();
            phase = match phase {
                Phase::Draining(until) if now >= until => self.cut_short(),
                Phase::Stopping(until, _) if now >= until => return None,
                // Only a worker that failed ends by itself; the status then comes from its error.
                phase if self.group.has_finished() && phase == Phase::Serving => self.stop(false),
                phase => phase,
            };
            if self.watch.is_some() && now >= next_line {
                self.tell();
                next_line = (next_line + self.args.stats_interval).max(now);
            }
            let mut until = self.watch.is_some().then_some(next_line);
            if let Phase::Draining(end) | Phase::Stopping(end, _) = phase {
                until = Some(until.map_or(end, |until| until.min(end)));
            }
            self.wait(until);
            for _ in 0..self.signals.take() {
                phase = match phase {
                    Phase::Serving => self.drain(),
                    Phase::Draining(_) => self.stop(true),
                    stopping @ Phase::Stopping(..) => stopping,
                };
            }
        }
        if let Some(watch) = &self.watch {
            crate::print(&watch.end(self.group.snapshots()));
        }
        match phase {
            Phase::Stopping(_, true) => Some(self.signals.status()),
            _ => Some(0),
        }
    }

    fn tell(&mut self) {
        let snapshots = self.group.snapshots();
        if let Some(watch) = &mut self.watch {
            crate::print(&watch.line(snapshots));
        }
        if crate::UNWRITTEN.load(std::sync::atomic::Ordering::Relaxed) {
            // Nothing reads them any more; the server continues.
            self.watch = None;
        }
    }

    fn drain(&self) -> Phase {
        self.group.drain();
        Phase::Draining(Instant::now() + self.args.grace)
    }

    fn cut_short(&self) -> Phase {
        let open: usize = self.group.snapshots().iter().map(|one| one.connections).sum();
        if open > 0 {
            let connections = if open == 1 {
                "connection was"
            } else {
                "connections were"
            };
            say(&format!(
                "{open} {connections} still open after --grace {:?}, and closed",
                self.args.grace
            ));
        }
        self.stop(false)
    }

    fn stop(&self, by_signal: bool) -> Phase {
        self.signals.arm();
        self.group.stop();
        Phase::Stopping(Instant::now() + STOPPING, by_signal)
    }

    /// Waits for a signal, a worker's end, or this time.
    fn wait(&self, until: Option<Instant>) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let ended = self.group.ended();
        let mut both = [
            PollFd::new(self.signals.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(ended, PollFlags::IN),
        ];
        // EINTR: a signal, which the loop sees.
        let _ = poll(&mut both, left.as_ref());
    }
}
