//! The flags of `proactor bench io`, each described once.

use super::outputs::{FioOutput, Outputs};
use clap::{ArgAction, Args, ValueEnum};
use proactor_bench::job::{EngineSpec, IoSize, Rates, Rw, Task};
use proactor_bench::preset::{Preset, PRESETS};
use proactor_bench::units::{parse_bytes, parse_micros, parse_seconds};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const AFTER_HELP: &str = "\
Exits with 0 if all was measured, with 1 if a cell failed, with 2 if what was asked for cannot be done here, with 129,
130 or 143 if a signal ended it: what was measured by then is reported all the same.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CounterChoice {
    /// Where the kernel allows it
    Auto,
    /// Not at all
    None,
    /// By perf events on the tracepoint of system calls, or not at all and it is an error
    Perf,
    /// By BPF, or it is an error: also how long the kernel had each op and why threads were off the CPU (bench io; a
    /// build with the feature bpf, and root)
    Bpf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal
    Auto,
    Always,
    Never,
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

/// An option that is given again counts as it was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(super) struct Io {
    /// A job file of fio's, for its common options: its sections are measured with fio's defaults for what they do not say,
    /// at once unless stonewall divides them
    #[arg(value_name = "JOBFILE", conflicts_with_all = ["preset", "task"])]
    pub job_file: Option<PathBuf>,

    #[arg(long, value_parser = preset, help = preset_names(), value_name = "NAME", help_heading = "What is asked")]
    pub preset: Option<&'static Preset>,
    /// The question: pressure (a copy, by its time), throughput, iops, latency [default: iops]
    #[arg(long, conflicts_with = "preset", help_heading = "What is asked")]
    pub task: Option<Task>,
    /// sync, psync-threads, posix-aio, linux-aio, io_uring, and of io_uring the variants fixed, sqpoll and iopoll, as in
    /// io_uring:fixed+sqpoll; the variant raw of the last three is aio_read, io_submit or a ring without our driver [default: the first five, as far as they work here]
    #[arg(
        long,
        visible_alias = "ioengine",
        action = ArgAction::Set, value_delimiter = ',',
        value_name = "LIST",
        help_heading = "What is asked"
    )]
    pub engine: Option<Vec<EngineSpec>>,

    /// read, write, randread, randwrite, randrw, rw (a mixture in order), copy
    #[arg(
        long,
        visible_alias = "readwrite",
        action = ArgAction::Set, value_delimiter = ',',
        value_name = "LIST",
        help_heading = "The work"
    )]
    pub rw: Option<Vec<Rw>>,
    /// Bytes of each job's file
    #[arg(long, value_parser = parse_bytes, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub size: Option<Vec<u64>>,
    /// Bytes of ops in a round of each job, or a share of --size as in 50%, with --time_based=0; 0:
    /// as many as --size
    #[arg(long = "io_size", value_name = "SIZE", help_heading = "The work")]
    pub io_size: Option<IoSize>,
    /// Do the work of a round this many times, with --time_based=0
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "N", help_heading = "The work")]
    pub loops: Option<u64>,
    /// The most ops a second of each way, for each job; two numbers as in 300,100 bound reads and
    /// writes; 0: no bound
    #[arg(long = "rate_iops", value_name = "N[,N]", help_heading = "The work")]
    pub rate_iops: Option<Rates>,
    /// Bytes of one op
    #[arg(long, visible_alias = "blocksize", value_parser = parse_bytes, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST",
          help_heading = "The work")]
    pub bs: Option<Vec<u64>>,
    /// Bytes of one write, if not those of --bs: what fio has as the second size in bs=4k,64k
    #[arg(long = "bs_of_writes", value_parser = parse_bytes, value_name = "SIZE", help_heading = "The work")]
    pub bs_of_writes: Option<u64>,
    /// Ops at once, for each job; sync has always 1
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub iodepth: Option<Vec<u32>>,
    /// The most ops that are submitted together; 0: all that there is room for [default: 0; fio's is 1]
    #[arg(
        long = "iodepth_batch",
        visible_alias = "iodepth_batch_submit",
        value_name = "N",
        help_heading = "The work"
    )]
    pub batch: Option<u32>,
    /// The most ops that are taken back together; 0: all that have come back [default: 0; fio's is 1]
    #[arg(
        long = "iodepth_batch_complete_max",
        value_name = "N",
        help_heading = "The work"
    )]
    pub complete_max: Option<u32>,
    /// Jobs beside each other, each with a depth and (without --filename) a file of its own
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub numjobs: Option<Vec<u32>>,
    /// Around the page cache: 1 or 0 [default: 1; fio's is 0]
    #[arg(long, value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1", action = ArgAction::Set, value_delimiter = ',',
          value_name = "LIST", help_heading = "The work")]
    pub direct: Option<Vec<String>>,
    /// An fsync after this many writes of a job; 0: none
    #[arg(long, value_name = "N", help_heading = "The work")]
    pub fsync: Option<u32>,
    /// An fsync at the end, within the time that is told
    #[arg(long = "end_fsync", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", help_heading = "The work")]
    pub end_fsync: Option<String>,
    /// The share of reads in randrw and rw, in percent [default: 50]
    #[arg(long, value_name = "PERCENT", help_heading = "The work")]
    pub rwmixread: Option<u8>,
    /// Sleep this long (microseconds) after submitting, before looking for completions
    #[arg(long, value_parser = parse_micros, action = ArgAction::Set, value_delimiter = ',', value_name = "LIST", help_heading = "The work")]
    pub thinktime: Option<Vec<Duration>>,
    /// Draw offsets one by one: some blocks come twice, others not at all
    #[arg(long, help_heading = "The work")]
    pub norandommap: bool,

    /// The most time of a round, in seconds
    #[arg(long, value_parser = parse_seconds, value_name = "TIME", help_heading = "How long")]
    pub runtime: Option<Duration>,
    /// Go round the file until --runtime is over: 1 or 0
    #[arg(long = "time_based", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", help_heading = "How long")]
    pub time_based: Option<String>,
    /// Time before anything is measured, with --time_based
    #[arg(long = "ramp_time", visible_alias = "ramp-time", value_parser = parse_seconds, value_name = "TIME",
          help_heading = "How long")]
    pub ramp_time: Option<Duration>,
    /// How often everything is measured; 4 are needed to tell engines apart [default: 5]
    #[arg(long, value_name = "N", help_heading = "How long")]
    pub rounds: Option<u32>,
    /// A first look: files of at most 64 MiB, rounds of at most half a second, 4 of them, unless it is said otherwise
    #[arg(long, help_heading = "How long")]
    pub quick: bool,

    /// Work in files without a name in this directory [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "filename", help_heading = "Where")]
    pub directory: Option<PathBuf>,
    /// Work in this file, which all jobs share. If it is not there it is made, and removed at the end
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    pub filename: Option<PathBuf>,
    /// The file may be there already, or be a block device: it is read as it is, and OVERWRITTEN if the work writes
    #[arg(long, help_heading = "Where")]
    pub use_existing: bool,
    /// Drop the file from the page cache before each round that is not direct: 1 or 0 [default: 1]
    #[arg(long, value_parser = ["0", "1"], value_name = "0|1", help_heading = "Where")]
    pub invalidate: Option<String>,
    /// Read the file into the page cache before each round that is not direct
    #[arg(long = "pre_read", value_parser = ["0", "1"], num_args = 0..=1, default_missing_value = "1",
          value_name = "0|1", conflicts_with = "invalidate", help_heading = "Where")]
    pub pre_read: Option<String>,

    /// Check every byte that is read, and read back what was written. The times then have the checking in them
    #[arg(long, help_heading = "How it is measured")]
    pub verify: bool,
    /// Where offsets and contents come from [default: 1]
    #[arg(long, value_name = "N", help_heading = "How it is measured")]
    pub seed: Option<u64>,
    /// Whether system calls are counted, in a round of its own
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
    /// Measure nothing: say what would be measured
    #[arg(long, help_heading = "How it is measured")]
    pub dry_run: bool,

    #[command(flatten)]
    pub outputs: Outputs,
    #[command(flatten)]
    pub fio: FioOutput,
    /// Show how far it is
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "What is said"
    )]
    pub progress: When,
}
