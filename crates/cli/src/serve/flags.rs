//! The flags of `proactor serve`, each described once.

use crate::kernel_workers::{cpus, some_time, workers, Cpus, KernelWorkers};
use clap::{ArgAction, Args, ValueEnum};
use proactor_bench::units::{parse_bytes, parse_seconds};
use proactor_net::serve::{DEFAULT_MAX_LINE, DEFAULT_MAX_MEMORY};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const AFTER_HELP: &str = "\
The first line on standard output says where the server listens; --ready-file has the same for programs. \
Messages go to standard error.

SIGTERM and SIGINT end the server in order: it accepts no connection any more and ends with its last one, \
or after --grace. A second signal ends it at once. Exits with 0 when it was ended in order, with 1 if it \
failed, with 2 if it was not started, with 130 or 143 if a second signal ended it.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// Sends back what it receives
    Echo,
    /// Sends back whole lines
    Line,
    /// A key-value store in memory that speaks Redis's protocol (RESP2): strings and lists
    Resp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineChoice {
    /// io_uring where the kernel can receive for a socket (Linux 6.0), else epoll
    Auto,
    /// io_uring; an error if that is not possible
    Uring,
    Epoll,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StatsForm {
    /// A line of text
    Text,
    /// A line of JSON
    Json,
}

fn connections(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "an integer of at least 1; without the option there is no limit".into())
}

fn backlog(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|count| (1..=1 << 30).contains(count));
    parsed.ok_or_else(|| "an integer of at least 1".into())
}

/// Upper bound on entries of a ring (IORING_MAX_ENTRIES).
pub(super) const MAX_QUEUE: u32 = 32_768;

fn queue(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_QUEUE).contains(&count) => Ok(count.next_power_of_two()),
        _ => Err(format!("a number from 1 to {MAX_QUEUE}")),
    }
}

fn some_bytes(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        0 => Err("at least 1 byte".into()),
        bytes => usize::try_from(bytes).map_err(|_| format!("{text:?} is too large")),
    }
}

/// Flags of `proactor serve`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Serve {
    /// Server to run
    #[arg(value_enum, required_unless_present = "import")]
    pub(super) server: Option<Server>,

    /// Address or name to listen on
    ///
    /// A name means all of its addresses.
    #[arg(
        long,
        value_name = "HOST",
        default_value = "127.0.0.1",
        conflicts_with = "unix",
        help_heading = "Where"
    )]
    pub(super) host: String,
    /// The port; 0 lets the kernel choose one [default: 0]
    #[arg(long, value_name = "PORT", conflicts_with = "unix", help_heading = "Where")]
    pub(super) port: Option<u16>,
    /// Listen on a Unix socket instead; @NAME is one without a file
    ///
    /// The file is removed at the end.
    #[arg(long, value_name = "PATH", help_heading = "Where")]
    pub(super) unix: Option<PathBuf>,
    /// Connections that may wait to be accepted
    ///
    /// The kernel takes at most net.core.somaxconn.
    #[arg(long, value_parser = backlog, default_value = "4096", value_name = "N", help_heading = "Where")]
    pub(super) backlog: u32,
    /// Write the addresses to this file when the server is ready
    ///
    /// One a line.
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub(super) ready_file: Option<PathBuf>,

    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "ENGINE",
        help_heading = "How"
    )]
    pub(super) engine: EngineChoice,
    /// User threads, which share the port (SO_REUSEPORT)
    ///
    /// A new connection goes to the one that has the fewest.
    #[arg(long, visible_alias = "user-workers", value_parser = workers, default_value = "1", value_name = "N", help_heading = "How")]
    pub(super) workers: usize,
    /// Processors of the user threads, one for each, as 0-3,8
    ///
    /// By default, with kernel workers one core for each, otherwise any.
    #[arg(long, value_parser = cpus, value_name = "LIST", help_heading = "How")]
    pub(super) user_cpus: Option<Cpus>,
    /// Read options from a TOML file
    ///
    /// Each line is an option's name without its dashes, and its value. The command line takes precedence.
    #[arg(long, value_name = "FILE", help_heading = "How")]
    pub(super) config: Option<PathBuf>,
    /// Read options from fastio.conf, or a configuration of SAIO
    ///
    /// Reports what each setting becomes, and why some have no effect. Without a server, it ends then.
    #[arg(long, value_name = "FILE", conflicts_with = "config", help_heading = "How")]
    pub(super) import: Option<PathBuf>,
    /// Entries of each ring's submission queue
    ///
    /// From 1 to 32,768, rounded up to a power of two.
    #[arg(long, value_parser = queue, default_value = "1024", value_name = "N", help_heading = "How")]
    pub(super) queue: u32,

    /// Do not copy sends of at least this many bytes [default: copy all]
    ///
    /// Only those that wait for a TCP peer on another machine.
    #[arg(long, value_parser = some_bytes, value_name = "BYTES", help_heading = "How")]
    pub(super) zero_copy_above: Option<usize>,

    #[command(flatten)]
    pub(super) kernel: KernelWorkers,

    /// Limit on connections at once; more wait to be accepted
    ///
    /// Divided among the workers.
    #[arg(long, value_parser = connections, value_name = "N", help_heading = "Bounds")]
    pub(super) max_connections: Option<usize>,
    /// Close connections that neither received nor sent for this long
    #[arg(long, value_parser = some_time, value_name = "TIME", help_heading = "Bounds")]
    pub(super) idle_timeout: Option<Duration>,
    /// Limit on unsent bytes of all connections
    ///
    /// Divided among the workers. Above it nothing is accepted until they are below 80 %.
    #[arg(long, value_parser = some_bytes, default_value = "256m", value_name = "BYTES", help_heading = "Bounds")]
    pub(super) max_buffered: usize,
    /// Limit on unsent bytes of one connection
    ///
    /// Above it nothing is received from it until they are below half.
    #[arg(long, value_parser = some_bytes, default_value = "256k", value_name = "BYTES", help_heading = "Bounds")]
    pub(super) max_buffered_each: usize,
    /// line: limit on bytes of a line [default: 64k]
    ///
    /// A connection that sends a longer one is closed.
    #[arg(long, value_parser = some_bytes, value_name = "BYTES", help_heading = "Bounds")]
    pub(super) max_line: Option<usize>,
    /// resp: limit on bytes of keys and values [default: 1g]
    #[arg(long, value_parser = some_bytes, value_name = "BYTES", help_heading = "Bounds")]
    pub(super) max_memory: Option<usize>,
    /// How long connections may continue after the first signal
    #[arg(long, value_parser = parse_seconds, default_value = "5s", value_name = "TIME", help_heading = "Bounds")]
    pub(super) grace: Duration,

    /// Each second report requests, calls, latency and CPU
    ///
    /// Connections and requests, system calls and context switches per request, the latency of requests in
    /// the server (p50, p99), and the CPU of each thread, the kernel's included.
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text",
        action = ArgAction::Set,
        value_name = "FORM",
        help_heading = "Output"
    )]
    pub(super) stats: Option<StatsForm>,
    /// Interval of --stats
    #[arg(
        long,
        requires = "stats",
        value_parser = some_time,
        default_value = "1s",
        value_name = "TIME",
        help_heading = "Output"
    )]
    pub(super) stats_interval: Duration,
}

impl Serve {
    pub(super) fn max_line(&self) -> usize {
        self.max_line.unwrap_or(DEFAULT_MAX_LINE)
    }

    pub(super) fn max_memory(&self) -> usize {
        self.max_memory.unwrap_or(DEFAULT_MAX_MEMORY)
    }

    /// Returns the name of the server.
    pub(super) fn name(&self) -> String {
        let value = self.server.and_then(|server| server.to_possible_value());
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
