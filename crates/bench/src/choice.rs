//! The words of the command line: kinds of work, goals, engines. This module does not know their effect.

use crate::units::{self, parse_bytes};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident => $text:literal $(| $alias:literal)*),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant),* }

        impl $name {
            /// Every variant, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Returns the name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text.trim().to_ascii_lowercase().as_str() {
                    $($text $(| $alias)* => Ok($name::$variant),)*
                    _ => {
                        let all: Vec<&str> = $name::ALL.iter().map(|one| one.name()).collect();
                        Err(format!("no {} is called {text:?}: choose from {}", $what, all.join(", ")))
                    }
                }
            }
        }
    };
}

named! {
    /// Kind of work, in fio's words, and `copy`.
    Rw, "--rw" {
        /// Reads from the start to the end.
        Read => "read",
        /// Overwrites from the start to the end.
        Write => "write",
        /// Reads each block once, in an order that looks random.
        RandRead => "randread",
        /// Writes each block once, in an order that looks random.
        RandWrite => "randwrite",
        /// Reads and writes in the ratio of `rwmixread`.
        RandRw => "randrw",
        /// Reads from the start to the end, and writes likewise, in the ratio of `rwmixread`.
        Mixed => "rw" | "readwrite",
        /// Reads each block from one file and writes it to another.
        Copy => "copy",
    }
}

impl Rw {
    /// Returns true if the order looks random.
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw)
    }

    /// Returns true if `rwmixread` divides reads from writes.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::RandRw | Rw::Mixed)
    }

    /// Returns true if anything is read; a copy reads.
    pub fn reads(self) -> bool {
        !matches!(self, Rw::Write | Rw::RandWrite)
    }

    /// Returns true if anything is written.
    pub fn writes(self) -> bool {
        !matches!(self, Rw::Read | Rw::RandRead)
    }
}

/// The state of the page cache when a buffered cell begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// No page of the file (fio's `invalidate=1`).
    Dropped,
    /// All pages of the file (fio's `pre_read=1`).
    Warmed,
    /// The pages that the cell before has left (fio's `invalidate=0`).
    Left,
}

/// The amount of work in a round of one job, as fio's `io_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoSize {
    /// Number of bytes of ops.
    Bytes(u64),
    /// A share of the job's `size`, in percent.
    Percent(u8),
}

impl IoSize {
    /// Converts it to bytes for a job whose file has this size.
    pub fn of(self, size: u64) -> u64 {
        match self {
            IoSize::Bytes(bytes) => bytes,
            IoSize::Percent(percent) => percent_of(percent, size),
        }
    }

    /// Returns `None` for zero, which in fio means that no size is given.
    pub fn unless_zero(self) -> Option<IoSize> {
        (!matches!(self, IoSize::Bytes(0) | IoSize::Percent(0))).then_some(self)
    }
}

/// Returns `percent` percent of `bytes`.
pub(crate) fn percent_of(percent: u8, bytes: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

impl FromStr for IoSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%').map(str::parse) {
            None => parse_bytes(text).map(IoSize::Bytes),
            Some(Ok(percent @ 0..=100)) => Ok(IoSize::Percent(percent)),
            Some(_) => Err(format!("{text:?}: from 0% to 100% of the size")),
        }
    }
}

impl fmt::Display for IoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoSize::Bytes(bytes) => f.write_str(&units::bytes(*bytes)),
            IoSize::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Upper bounds on ops a second, as fio's `rate_iops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// The bound for reads and copies.
    pub reads: Option<u32>,
    /// The bound for writes.
    pub writes: Option<u32>,
}

impl FromStr for Rates {
    type Err = String;

    /// Parses `300` for both, `300,600` for reads and writes, or `300,` for reads alone. A third number is
    /// for trims, which are not supported.
    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |text: &str| match text.trim() {
            "" => Ok(None),
            text => match parse_bytes(text).map(u32::try_from) {
                Ok(Ok(rate)) => Ok(Some(rate).filter(|rate| *rate > 0)),
                _ => Err(format!("{text:?}: a rate is a whole number of ops a second")),
            },
        };
        let rates: Vec<Option<u32>> = text.split(',').map(rate).collect::<Result<_, _>>()?;
        match rates[..] {
            [_] if text.trim().is_empty() => Err("a rate is a whole number of ops a second".into()),
            [both] => Ok(Rates {
                reads: both,
                writes: both,
            }),
            [reads, writes] | [reads, writes, _] => Ok(Rates { reads, writes }),
            _ => Err(format!("{text:?}: rates of reads, of writes and of trims")),
        }
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.reads.unwrap_or(0), self.writes.unwrap_or(0))
    }
}

named! {
    /// A goal, with usual values for all options that are not given.
    Task, "--task" {
        /// Cost of a copy: time, system calls, context switches.
        Pressure => "pressure",
        /// Bandwidth in bytes a second.
        Throughput => "throughput",
        /// Rate of small ops a second.
        Iops => "iops",
        /// Time of one op, with nothing beside it.
        Latency => "latency",
    }
}

named! {
    /// Number by which cells are compared.
    Measure, "measure" {
        /// Seconds for the whole; less is better.
        Time => "time",
        /// Ops a second.
        Iops => "iops",
        /// Bytes a second.
        Bandwidth => "bandwidth",
        /// The 99th percentile of the time of one op; less is better.
        Latency => "latency",
        /// CPU seconds of one op; less is better.
        Cpu => "cpu",
    }
}

named! {
    /// Base of an engine.
    Base, "engine" {
        /// `pread` and `pwrite`, one after the other.
        Sync => "sync" | "psync",
        /// As many threads as the depth, each doing one op after the other.
        PsyncThreads => "psync-threads" | "threads" | "psync_threads",
        /// The C library's `aio_read` and `aio_write`.
        PosixAio => "posix-aio" | "posixaio" | "posix_aio",
        /// The kernel's `io_submit`.
        LinuxAio => "linux-aio" | "libaio" | "linuxaio" | "linux_aio",
        /// io_uring.
        IoUring => "io_uring" | "io-uring" | "iouring" | "uring",
    }
}

/// An engine and its variants: `sync`, `linux-aio:raw`, `io_uring:fixed+sqpoll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EngineSpec {
    /// Base of the engine.
    pub base: Base,
    /// True if files and buffers are registered with the ring.
    pub fixed: bool,
    /// True if a kernel thread takes submissions.
    pub sqpoll: bool,
    /// True if completions are polled for at the device.
    pub iopoll: bool,
    /// True if the kernel's or the C library's own calls are used, without our driver.
    pub raw: bool,
}

impl EngineSpec {
    /// Creates an engine without variants.
    pub const fn plain(base: Base) -> EngineSpec {
        EngineSpec {
            base,
            fixed: false,
            sqpoll: false,
            iopoll: false,
            raw: false,
        }
    }

    /// Returns the engines that are compared by default.
    pub fn usual() -> Vec<EngineSpec> {
        Base::ALL.iter().map(|base| EngineSpec::plain(*base)).collect()
    }
}

impl fmt::Display for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variants = [
            (self.fixed, "fixed"),
            (self.sqpoll, "sqpoll"),
            (self.iopoll, "iopoll"),
            (self.raw, "raw"),
        ];
        let names: Vec<&str> = variants.iter().filter(|v| v.0).map(|v| v.1).collect();
        if names.is_empty() {
            return self.base.fmt(f);
        }
        f.pad(&format!("{}:{}", self.base, names.join("+")))
    }
}

impl FromStr for EngineSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (base, variants) = match text.split_once(':') {
            Some((base, variants)) => (base, Some(variants)),
            None => (text, None),
        };
        let mut spec = EngineSpec::plain(base.parse()?);
        for variant in variants.iter().flat_map(|all| all.split('+')) {
            match variant.trim() {
                "raw" if matches!(spec.base, Base::LinuxAio | Base::PosixAio) => spec.raw = true,
                _ if matches!(spec.base, Base::LinuxAio | Base::PosixAio) => {
                    return Err(format!("{text:?}: the variant is raw"));
                }
                _ if spec.base != Base::IoUring => {
                    return Err(format!(
                        "{text:?}: only io_uring, linux-aio and posix-aio have variants"
                    ));
                }
                "fixed" => spec.fixed = true,
                "sqpoll" => spec.sqpoll = true,
                "iopoll" => spec.iopoll = true,
                "raw" => spec.raw = true,
                _ => {
                    return Err(format!(
                        "{text:?}: the variants are fixed, sqpoll, iopoll and raw"
                    ))
                }
            }
        }
        Ok(spec)
    }
}

impl From<EngineSpec> for String {
    fn from(spec: EngineSpec) -> String {
        spec.to_string()
    }
}

impl TryFrom<String> for EngineSpec {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes() {
        let rates = |text: &str| text.parse::<Rates>().map(|rates| (rates.reads, rates.writes));
        assert_eq!(rates("300"), Ok((Some(300), Some(300))));
        assert_eq!(rates("300,1k"), Ok((Some(300), Some(1024))));
        assert_eq!(rates("300,"), Ok((Some(300), None)));
        assert_eq!(rates(",300"), Ok((None, Some(300))));
        assert_eq!(rates("0,300,600"), Ok((None, Some(300))));
        for text in ["", "-1", "1,2,3,4", "x", "5000000000"] {
            assert!(rates(text).is_err(), "{text}");
        }
        for (text, bytes) in [("50%", 500), ("4k", 4096), ("0%", 0)] {
            assert_eq!(text.parse::<IoSize>().unwrap().of(1000), bytes);
        }
        assert!(["101%", "%", "-1%", "1.5%"]
            .iter()
            .all(|text| text.parse::<IoSize>().is_err()));
    }

    #[test]
    fn engines_by_name() {
        for text in [
            "sync",
            "psync-threads",
            "posix-aio",
            "linux-aio",
            "io_uring",
            "io_uring:fixed+sqpoll",
            "linux-aio:raw",
            "posix-aio:raw",
            "io_uring:raw",
            "io_uring:fixed+sqpoll+iopoll+raw",
        ] {
            let spec: EngineSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!("libaio".parse::<EngineSpec>().unwrap().base, Base::LinuxAio);
        for text in [
            "",
            "aio",
            "sync:fixed",
            "io_uring:fast",
            "linux-aio:fixed",
            "io_uring:",
            "io_uring:fixed+",
        ] {
            assert!(text.parse::<EngineSpec>().is_err(), "{text}");
        }
    }
}
