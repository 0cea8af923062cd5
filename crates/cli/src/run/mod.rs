//! `proactor run`: starts a program with the library that puts its sockets on a ring, and becomes it.
//!
//! The library itself is in `crates/preload`. This module decides whether it can be loaded into the program,
//! reports it if not, and passes the options in the environment.

mod embedded;
mod library;
mod program;
mod workers;

use crate::kernel_workers::KernelWorkers;
use crate::{complain, config, suggestion, Host};
use clap::{Args, Parser as _};
use proactor_bench::units::parse_bytes;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status for a wrong command line, or with --strict for a program that would run without a ring.
const MISUSE: u8 = 2;
/// Exit status of a shell for a program that cannot be started; the next is that for one that does not exist.
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Upper bound on buffers of the pool (crates/preload/src/ring.rs).
const MAX_POOL: u16 = 2048;
const MIN_PER_SOCKET: u32 = 4096;

/// Flags of `proactor run`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Run {
    /// Only connections to these local ports
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    only: Vec<u16>,
    /// Initial number of receive buffers of a ring, 4 KiB each
    ///
    /// A power of two up to 2048.
    #[arg(long, value_name = "COUNT", value_parser = parse_pool)]
    pool: Option<u16>,
    /// Received bytes of one socket that may wait [default: 64k]
    ///
    /// Above it the peer is slowed down until the program has read them.
    #[arg(long, value_name = "BYTES", value_parser = parse_per_socket)]
    per_socket: Option<u32>,
    /// Report what was handed back to epoll, how often, and why
    ///
    /// At the end of each process.
    #[arg(long)]
    explain: bool,
    /// Write counts as a line of JSON at the end of each process
    ///
    /// To standard error, or appended to FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    stats: Option<Option<PathBuf>>,
    /// Exit with 2 instead of running the program without a ring
    #[arg(long)]
    strict: bool,
    /// Do not load the library into programs that this one starts
    #[arg(long)]
    no_children: bool,
    /// The library to load, instead of the one of this command
    ///
    /// PROACTOR_PRELOAD in the environment names one, too.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Read options from a TOML file
    ///
    /// Each line is an option's name without its dashes, and its value. The command line takes precedence.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    kernel: KernelWorkers,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

fn parse_per_socket(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_bytes(text)?).map_err(|_| format!("{text:?} is too large"))?;
    if bytes < MIN_PER_SOCKET {
        return Err(format!("at least {MIN_PER_SOCKET} bytes"));
    }
    Ok(bytes)
}

fn parse_pool(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(count) if count.is_power_of_two() && count <= MAX_POOL => Ok(count),
        _ => Err(format!("a power of two from 1 to {MAX_POOL}")),
    }
}

/// Becomes the program. Returns only if it cannot be started.
pub(crate) fn run(args: Run, command: &[OsString], host: &Host<'_>) -> u8 {
    match with_config(args, command) {
        Ok(args) => start(&args, host),
        Err(status) => status,
    }
}

/// Adds the options of a file. An error has been reported, and is the exit status.
fn with_config(args: Run, command: &[OsString]) -> Result<Run, u8> {
    let Some(file) = &args.config else { return Ok(args) };
    let of_run = Run::augment_args(clap::Command::new("run"));
    let mut more = config::arguments(&of_run, &[], file).map_err(|why| misuse(&why))?;
    if !args.only.is_empty() {
        // Lists would be joined.
        more.retain(|argument| !argument.as_bytes().starts_with(b"--only="));
    }
    match crate::Cli::try_parse_from(config::before_own(command, more)) {
        Ok(crate::Cli {
            command: Some(crate::Command::Run(args)),
        }) => Ok(*args),
        Ok(_) => Err(misuse(
            "the options of the file do not go with those of the command",
        )),
        Err(error) => {
            crate::print_usage(&error);
            Err(MISUSE)
        }
    }
}

fn misuse(why: &str) -> u8 {
    complain(&format!("proactor run: {why}"));
    MISUSE
}

fn start(args: &Run, host: &Host<'_>) -> u8 {
    let name = &args.command[0];
    let shown = Path::new(name).display();
    if name.as_bytes().starts_with(b"-") {
        let word = name.to_string_lossy();
        let word = word.trim_start_matches('-');
        let like = suggestion::like(
            &Run::augment_args(clap::Command::new("run")),
            word.split('=').next().unwrap_or(word),
            &[],
        );
        complain(&format!(
            "proactor run: {shown}: no such option{like}; `proactor run --help` lists them, a program of this name is ./{shown}"
        ));
        return MISUSE;
    }
    let Some(path) = program::find(name) else {
        complain(&format!("proactor run: {shown}: no such program"));
        return NOT_FOUND;
    };
    if let Err(why) = workers::check(&args.kernel) {
        return misuse(&why);
    }
    let library = match library::find(args.library.as_deref()) {
        Ok(library) => library,
        Err(why) => return misuse(&why),
    };
    let mut command = Command::new(&path);
    command.arg0(name).args(&args.command[1..]);
    match program::obstacle(&path).or_else(|| workers::no_ring(&args.kernel)) {
        Some(why) if args.strict => return misuse(&format!("{shown}: {why}")),
        Some(why) => complain(&format!("proactor run: {shown}: {why}; it runs without a ring")),
        None => {
            if let Err(why) = prepare(&mut command, args, &library) {
                return misuse(&why);
            }
        }
    }
    if host.python.is_some() {
        // The interpreter ignores it, and the program would too. SAFETY: the default action is no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
    let error = command.exec();
    complain(&format!("proactor run: {shown}: {error}"));
    NOT_STARTED
}

fn prepare(command: &mut Command, args: &Run, library: &Path) -> Result<(), String> {
    let mut options = Vec::new();
    if !args.only.is_empty() {
        let ports: Vec<String> = args.only.iter().map(u16::to_string).collect();
        options.push(format!("only={}", ports.join(",")));
    }
    options.extend(args.pool.map(|count| format!("pool={count}")));
    options.extend(args.per_socket.map(|bytes| format!("per-socket={bytes}")));
    options.extend(workers::options(&args.kernel));
    options.extend(args.explain.then(|| "explain".to_owned()));
    match &args.stats {
        Some(Some(file)) => {
            // The program may change its directory.
            let file = std::path::absolute(file).map_err(|e| format!("{}: {e}", file.display()))?;
            let written = std::fs::OpenOptions::new().create(true).append(true).open(&file);
            written.map_err(|e| format!("{}: {e}", file.display()))?;
            command.env("PROACTOR_RUN_STATS", file);
        }
        Some(None) => options.push("stats".to_owned()),
        None => {}
    }
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command
        .env("LD_PRELOAD", list)
        .env("PROACTOR_RUN", options.join(";"));
    if args.no_children {
        command.env("PROACTOR_RUN_ALONE", library);
    }
    Ok(())
}
