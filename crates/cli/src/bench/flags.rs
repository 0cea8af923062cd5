//! The flags of `proactor bench io`, each described once.

use super::outputs::{FioOutput, Outputs};
use crate::progress::When;
use clap::{ArgAction, Args, ValueEnum};
use proactor_bench::job::{EngineSpec, IoSize, Rates, Rw, Task};
use proactor_bench::preset::{Preset, PRESETS};
use proactor_bench::units::{parse_bytes, parse_micros, parse_seconds};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const AFTER_HELP: &str = "\
Exits with 0 if all was measured, with 1 if a cell failed, with 2 if what was asked for cannot be done \
here, with 129, 130 or 143 if a signal ended it: what was measured by then is reported all the same.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CounterChoice {
    /// Count them where the kernel allows it
    Auto,
    /// Do not count them
    None,
    /// Count them with perf events on the system-call tracepoint; an error if that is not possible
    Perf,
    /// Count them with BPF; an error if that is not possible. Also shows how long the kernel had each op and
    /// why threads were off the CPU (bench io; a build with the feature bpf, and root)
    Bpf,
}

fn preset(name: &str) -> Result<&'static Preset, String> {
    Preset::named(name)
}

fn preset_names() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    format!(
        "A table with a name: {} (--list describes them)",
        names.join(", ")
    )
}

/// Flags of `bench io`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(super) struct Io {
    /// A fio job file
    ///
    /// Its common options are understood, with fio's defaults for what it does not set. Its sections are
    /// measured at once unless stonewall separates them.
    #[arg(value_name = "JOBFILE", conflicts_with_all = ["preset", "task"])]
    pub job_file: Option<PathBuf>,

    #[arg(long, value_parser = preset, help = preset_names(), value_name = "NAME", help_heading = "Workload")]
    pub preset: Option<&'static Preset>,
    /// The goal: pressure, throughput, iops, latency [default: iops]
    ///
    /// pressure is a copy, judged by its time.
    #[arg(long, conflicts_with = "preset", help_heading = "Workload")]
    pub task: Option<Task>,
    /// sync, psync-threads, posix-aio, linux-aio, io_uring [default: those that work here]
    ///
    /// Variants: fixed, sqpoll and iopoll of io_uring, as in io_uring:fixed+sqpoll. The variant raw of the
    /// last three is aio_read, io_submit or a ring without our driver.
    #[arg(
        long,
        visible_alias = "ioengine",
        action = ArgAction::Set, value_delimiter = ',',
        value_name = "LIST",
        help_heading = "Workload"
    )]
    pub engine: Option<Vec<EngineSpec>>,

    /// read, write, randread, randwrite, randrw, rw, copy
    ///
    /// rw reads and writes in order.
    #[arg(
        long,
        visible_alias = "readwrite",
        action = ArgAction::Set, value_delimiter = ',',
        value_name = "LIST",
        help_heading = "The work"
    )]
    pub rw: Option<Vec<Rw>>,
    /// Size of each job's file in bytes
    #[arg(long, value_parser = parse_bytes, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub size: Option<Vec<u64>>,
    /// Bytes of ops in a round of each job; 0: as many as --size
    ///
    /// With --time_based=0. Also a share of --size, as in 50%.
    #[arg(long = "io_size", value_name = "SIZE", help_heading = "The work")]
    pub io_size: Option<IoSize>,
    /// Repeat the work of a round this many times
    ///
    /// With --time_based=0.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "N", help_heading = "The work")]
    pub loops: Option<u64>,
    /// Limit the ops a second of each job; 0: no limit
    ///
    /// Two numbers, as in 300,100, limit reads and writes separately.
    #[arg(long = "rate_iops", value_name = "N[,N]", help_heading = "The work")]
    pub rate_iops: Option<Rates>,
    /// Size of one op in bytes
    #[arg(long, visible_alias = "blocksize", value_parser = parse_bytes, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST",
          help_heading = "The work")]
    pub bs: Option<Vec<u64>>,
    /// Size of one write in bytes, if it differs from --bs
    ///
    /// The second size in fio's bs=4k,64k.
    #[arg(long = "bs_of_writes", value_parser = parse_bytes, value_name = "SIZE", help_heading = "The work")]
    pub bs_of_writes: Option<u64>,
    /// Ops in flight in each job; always 1 for sync
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub iodepth: Option<Vec<u32>>,
    /// Submit at most this many ops together; 0: all [default: 0]
    ///
    /// fio's default is 1. 0 means as many as there is room for.
    #[arg(
        long = "iodepth_batch",
        visible_alias = "iodepth_batch_submit",
        value_name = "N",
        help_heading = "The work"
    )]
    pub batch: Option<u32>,
    /// Reap at most this many completions together; 0: all [default: 0]
    ///
    /// fio's default is 1. 0 means all that are ready.
    #[arg(
        long = "iodepth_batch_complete_max",
        value_name = "N",
        help_heading = "The work"
    )]
    pub complete_max: Option<u32>,
    /// Jobs that run at once, each with a depth of its own
    ///
    /// Each has a file of its own, too, without --filename.
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub numjobs: Option<Vec<u32>>,
    /// Bypass the page cache [default: 1]
    ///
    /// fio's default is 0.
    #[arg(long, value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1", action = ArgAction::Set, value_delimiter = ',',
          value_name = "LIST", help_heading = "The work")]
    pub direct: Option<Vec<String>>,
    /// Call fsync after this many writes of a job; 0: never
    #[arg(long, value_name = "N", help_heading = "The work")]
    pub fsync: Option<u32>,
    /// Call fsync at the end, within the measured time
    #[arg(long = "end_fsync", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", help_heading = "The work")]
    pub end_fsync: Option<String>,
    /// The share of reads in randrw and rw, in percent [default: 50]
    #[arg(long, value_name = "PERCENT", help_heading = "The work")]
    pub rwmixread: Option<u8>,
    /// Sleep this long (microseconds) after submitting
    ///
    /// Before looking for completions.
    #[arg(long, value_parser = parse_micros, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub thinktime: Option<Vec<Duration>>,
    /// Draw offsets independently
    ///
    /// Some blocks come twice, others not at all.
    #[arg(long, help_heading = "The work")]
    pub norandommap: bool,

    /// Limit the time of a round, in seconds
    #[arg(long, value_parser = parse_seconds, value_name = "TIME", help_heading = "How long")]
    pub runtime: Option<Duration>,
    /// Start over at the end of the file until --runtime is over
    #[arg(long = "time_based", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", help_heading = "How long")]
    pub time_based: Option<String>,
    /// Run this long before measuring, with --time_based
    #[arg(long = "ramp_time", visible_alias = "ramp-time", value_parser = parse_seconds, value_name = "TIME",
          help_heading = "How long")]
    pub ramp_time: Option<Duration>,
    /// Rounds [default: 5]
    ///
    /// At least 4 are needed to tell engines apart.
    #[arg(long, value_name = "N", help_heading = "How long")]
    pub rounds: Option<u32>,
    /// Take a first look of at most half a second a round
    ///
    /// Files of at most 64 MiB and 4 rounds, unless other options set them.
    #[arg(long, help_heading = "How long")]
    pub quick: bool,

    /// Work in unnamed files in this directory [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "filename", help_heading = "Where")]
    pub directory: Option<PathBuf>,
    /// Work in this file, which all jobs share
    ///
    /// If it does not exist, it is created, and removed at the end.
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub filename: Option<PathBuf>,
    /// Allow a file that exists, or a block device
    ///
    /// It is read as it is, and OVERWRITTEN if the work writes.
    #[arg(long, help_heading = "Where")]
    pub use_existing: bool,
    /// Drop the file from the page cache before each round [default: 1]
    ///
    /// Only for rounds that are not direct.
    #[arg(long, value_parser = ["0", "1"], value_name = "0|1", help_heading = "Where")]
    pub invalidate: Option<String>,
    /// Read the file into the page cache before each round
    ///
    /// Only for rounds that are not direct.
    #[arg(long = "pre_read", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", conflicts_with = "invalidate", help_heading = "Where")]
    pub pre_read: Option<String>,

    /// Check every byte that is read, and read back what was written
    ///
    /// The times then include the checking.
    #[arg(long, help_heading = "How it is measured")]
    pub verify: bool,
    /// Seed of offsets and contents [default: 1]
    #[arg(long, value_name = "N", help_heading = "How it is measured")]
    pub seed: Option<u64>,
    /// Count system calls, in a separate round
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "HOW",
        help_heading = "How it is measured"
    )]
    pub counters: CounterChoice,
    /// Measure nothing: list what works here, and the presets
    #[arg(long, help_heading = "How it is measured")]
    pub list: bool,
    /// Measure nothing: show what would be measured
    #[arg(long, help_heading = "How it is measured")]
    pub dry_run: bool,

    #[command(flatten)]
    pub outputs: Outputs,
    #[command(flatten)]
    pub fio: FioOutput,
    /// Show progress
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Output"
    )]
    pub progress: When,
}
