//! `bpf/bench.bpf.c`, loaded, and the contents of its maps. Only with the feature `bpf`.
//!
//! Counts the whole process, by its number in its own pid namespace. Whatever else it runs meanwhile (the
//! progress bar) is included.

mod opcodes;

use super::btf::{self, Types};
use super::seen::{Seen, Times};
use super::Calls;
use aya::maps::{Array, Map};
use aya::programs::{ProgramError, RawTracePoint};
use aya::{include_bytes_aligned, Btf, Ebpf, EbpfLoader};
use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;

static PROGRAM: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));

/// Upper bound on call numbers, the same as in the program.
const CALLS_MAX: u32 = 512;
const OPS_MAX: u32 = 64;
const EIGHTHS: u32 = 8;
const BUCKETS: u32 = 40 * EIGHTHS;
const ON: u32 = 0;
const LOST: u32 = 2;

/// Programs without which nothing is counted. Each has its tracepoint's name.
const NEEDED: [&str; 3] = ["sys_enter", "sys_exit", "sched_switch"];
/// File in which the kernel describes its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The program, loaded into the kernel and switched off.
pub struct Bpf {
    ebpf: Ebpf,
    /// Facts that this kernel cannot provide.
    missing: Vec<String>,
}

impl Bpf {
    /// Loads the program.
    ///
    /// # Errors
    /// A sentence that says why it cannot be loaded.
    pub fn prepare() -> Result<Bpf, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("the kernel's types ({TYPES}): {e}");
        let bytes = std::fs::read(TYPES).map_err(|e| wrong(&e))?;
        let types = Types::read(&bytes).ok_or_else(|| wrong(&"not to be understood"))?;
        btf::check(&types, btf::SWITCHES, "5.18")?;
        let btf = Btf::parse(&bytes, aya::Endianness::default()).map_err(|e| wrong(&e))?;
        let namespace =
            std::fs::metadata("/proc/self/ns/pid").map_err(|e| format!("/proc/self/ns/pid: {e}"))?;
        let (major, minor) = (
            rustix::fs::major(namespace.st_dev()),
            rustix::fs::minor(namespace.st_dev()),
        );
        // The kernel's own encoding of a device number.
        let dev = u64::from(major) << 20 | u64::from(minor);
        let ino = namespace.st_ino();
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("TGID", &std::process::id(), true)
            .override_global("NS_DEV", &dev, true)
            .override_global("NS_INO", &ino, true)
            .load(PROGRAM)
            .map_err(|e| explain(&e))?;
        for name in NEEDED {
            attach(&mut ebpf, name).map_err(|e| format!("{name}: {}", explain(&e)))?;
        }
        // All or none: checked before, so that both the beginning and the end of an op are seen.
        let known = btf::OPS
            .into_iter()
            .try_for_each(|wanted| btf::check(&types, wanted, "6.3"));
        let attached = known.and_then(|()| {
            let mut names = btf::OPS.into_iter().map(|(name, _)| name);
            names.try_for_each(|name| attach(&mut ebpf, name).map_err(|e| format!("{name}: {}", explain(&e))))
        });
        let missing = attached
            .err()
            .map(|why| format!("io_uring's ops in the kernel: {why}"));
        Ok(Bpf {
            ebpf,
            missing: missing.into_iter().collect(),
        })
    }

    /// Returns the facts that this kernel cannot provide.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(&mut self) -> Result<(), String> {
        self.switch(1)
    }

    /// Stops counting, and returns the counts.
    ///
    /// # Errors
    /// If the kernel refuses, or something was lost.
    pub fn stop(&mut self) -> Result<(Calls, Seen), String> {
        self.switch(0)?;
        let lost = self.array("STATE")?.get(&LOST, 0).map_err(words)?;
        if lost > 0 {
            return Err(format!("{lost} events found no room in the maps"));
        }
        let calls = self.calls()?;
        let seen = self.seen()?;
        Ok((calls, seen))
    }

    fn switch(&mut self, on: u64) -> Result<(), String> {
        let map = self.ebpf.map_mut("STATE").ok_or("no map STATE")?;
        let mut state: Array<&mut aya::maps::MapData, u64> = map.try_into().map_err(words)?;
        state.set(ON, on, 0).map_err(words)
    }

    fn array(&self, name: &str) -> Result<Array<&aya::maps::MapData, u64>, String> {
        let map: &Map = self.ebpf.map(name).ok_or_else(|| format!("no map {name}"))?;
        map.try_into().map_err(words)
    }

    fn counts(&self, name: &str, count: u32) -> Result<Vec<u64>, String> {
        let array = self.array(name)?;
        (0..count).map(|i| array.get(&i, 0).map_err(words)).collect()
    }

    fn times(&self, name: &str, row: u32) -> Result<Option<Times>, String> {
        let array = self.array(name)?;
        let bucket = |i: u32| {
            let n = array.get(&(row * BUCKETS + i), 0).map_err(words)?;
            Ok((end_s(i), n))
        };
        let buckets: Result<Vec<(f64, u64)>, String> = (0..BUCKETS).map(bucket).collect();
        Ok(Times::of(buckets?))
    }

    fn calls(&self) -> Result<Calls, String> {
        let mut counts = self.counts("CALLS", CALLS_MAX)?;
        // The call that switches it off was counted itself.
        if let Some(own) = counts.get_mut(libc::SYS_bpf as usize) {
            *own = own.saturating_sub(1);
        }
        let made = counts.iter().enumerate().filter(|(_, n)| **n > 0);
        let by_name: BTreeMap<String, u64> = made.map(|(number, n)| (name_of(number), *n)).collect();
        Ok(Calls {
            total: by_name.values().sum(),
            by_name,
            other: 0,
        })
    }

    fn seen(&self) -> Result<Seen, String> {
        let mut seen = Seen::default();
        for (number, count) in (0..).zip(self.counts("CALLS", CALLS_MAX)?) {
            if count > 0 {
                let times = self.times("CALL_NS", number)?;
                seen.call_times
                    .extend(times.map(|times| (name_of(number as usize), times)));
            }
        }
        let punts = self.counts("PUNTS", OPS_MAX)?;
        for (number, punts) in (0..OPS_MAX).zip(punts) {
            let name = opcodes::name(number as usize);
            seen.op_times
                .extend(self.times("OP_NS", number)?.map(|times| (name.clone(), times)));
            if punts > 0 {
                seen.punts.insert(name, punts);
            }
        }
        let switches = self.counts("SWITCHES", 2)?;
        let off_ns = self.counts("OFF_SUM_NS", 2)?;
        (seen.voluntary, seen.involuntary) = (switches[0], switches[1]);
        (seen.waiting_s, seen.preempted_s) = (off_ns[0] as f64 / 1e9, off_ns[1] as f64 / 1e9);
        seen.waits = self.times("OFF_NS", 0)?;
        Ok(seen)
    }
}

fn attach(ebpf: &mut Ebpf, name: &str) -> Result<(), ProgramError> {
    let program: &mut RawTracePoint = ebpf.program_mut(name).expect("one of ours").try_into()?;
    program.load()?;
    program.attach(name)?;
    Ok(())
}

/// Returns the upper end of a bucket.
fn end_s(bucket: u32) -> f64 {
    let (power, eighth) = (bucket / EIGHTHS, bucket % EIGHTHS);
    let start = f64::from(power).exp2();
    start * (1.0 + f64::from(eighth + 1) / f64::from(EIGHTHS)) / 1e9
}

fn name_of(number: usize) -> String {
    match syscalls::Sysno::new(number) {
        Some(call) => call.name().to_owned(),
        None => format!("number {number}"),
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Formats an error with its causes, and its remedy.
fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    let mut denied = false;
    while let Some(error) = cause {
        let is = error.downcast_ref::<std::io::Error>();
        denied |= is.is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
        text += &format!(": {error}");
        cause = error.source();
    }
    if denied {
        text += " (BPF takes root, or CAP_BPF and CAP_PERFMON)";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_the_next_begins() {
        assert_eq!(end_s(10 * EIGHTHS + 7) * 1e9, 2048.0);
        assert_eq!(end_s(10 * EIGHTHS) * 1e9, 1024.0 * 1.125);
        assert_eq!(name_of(libc::SYS_pread64 as usize), "pread64");
    }
}
