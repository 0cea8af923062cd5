//! Flags of kernel threads that `proactor serve` and `proactor run` share.

use clap::Args;
use proactor_bench::units::{parse_micros, parse_seconds};
use proactor_net::topology::parse_list;
use std::time::Duration;

/// Upper bound on threads of one kind.
const MAX_WORKERS: usize = 1024;

#[derive(Args)]
pub(crate) struct KernelWorkers {
    /// Kernel threads (SQPOLL) that submit, receive and send
    ///
    /// They do it in place of the user threads, which then make no system calls while there is work. Each
    /// uses a processor as long as it polls: `proactor doctor --workers` says whether that pays.
    #[arg(long, value_parser = workers, value_name = "N", help_heading = "Kernel workers")]
    pub(crate) kernel_workers: Option<usize>,
    /// Processors of the kernel workers, one for each
    ///
    /// By default of `serve` the user thread's sibling, otherwise one of its node, otherwise any; of `run`
    /// any.
    #[arg(long, value_parser = cpus, requires = "kernel_workers", value_name = "LIST", help_heading = "Kernel workers")]
    pub(crate) kernel_cpus: Option<Cpus>,
    /// How long kernel workers poll without work before they sleep
    ///
    /// In milliseconds, or with a unit.
    #[arg(long, value_parser = some_millis, requires = "kernel_workers", default_value = "1000", value_name = "MS", help_heading = "Kernel workers")]
    pub(crate) sqpoll_idle: Duration,
    /// How long a user thread polls for completions before it sleeps
    ///
    /// In microseconds, or with a unit.
    #[arg(long, value_parser = parse_micros, requires = "kernel_workers", default_value = "50", value_name = "US", help_heading = "Kernel workers")]
    pub(crate) user_spin: Duration,
    /// Limit on kernel threads for blocking work
    ///
    /// Servers have next to none.
    #[arg(long, value_parser = workers, value_name = "N", help_heading = "Kernel workers")]
    pub(crate) iowq: Option<usize>,
    /// Processors of those threads
    #[arg(long, value_parser = cpus, value_name = "LIST", help_heading = "Kernel workers")]
    pub(crate) iowq_cpus: Option<Cpus>,
}

/// Processors, in the order in which they were written.
#[derive(Clone)]
pub(crate) struct Cpus(pub(crate) Vec<u32>);

pub(crate) fn cpus(text: &str) -> Result<Cpus, String> {
    parse_list(text).map(Cpus)
}

fn some_millis(text: &str) -> Result<Duration, String> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
    some_time(&if is_bare {
        format!("{text}ms")
    } else {
        text.to_owned()
    })
}

pub(crate) fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_WORKERS).contains(&count) => Ok(count),
        _ => Err(format!(
            "a number from 1 to {MAX_WORKERS}; one for each processor is enough"
        )),
    }
}

pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        Duration::ZERO => Err("more than 0".into()),
        time => Ok(time),
    }
}
