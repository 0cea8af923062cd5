//! Facts of the machine that matter to a report. This module only reads; what cannot be read is `None`.

use proactor_engine::Resource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Environment in which a report was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // The names say it.
pub struct Environment {
    pub kernel: Option<String>,
    pub arch: String,
    pub cpu: Option<String>,
    pub cpus: usize,
    /// Frequency governor; `None` where none is visible, as in most virtual machines.
    pub governor: Option<String>,
    /// Frequency of the first processor when it was read. A virtual machine reports the one that it was
    /// started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz: Option<f64>,
    /// Virtual machine or container, as far as the machine reports it.
    pub virtualisation: Option<String>,
    pub memory_bytes: Option<u64>,
    pub clocksource: Option<String>,
    /// Load average of the last minute, before the run.
    pub load: Option<f64>,
    pub file_system: Option<FileSystem>,
    pub device: Option<Device>,
    /// Limit on locked memory; `None` means unlimited.
    pub memlock_bytes: Option<u64>,
    pub open_files: Option<u64>,
    pub aio_max_nr: Option<u64>,
    pub io_uring_disabled: Option<u64>,
    pub root: bool,
    pub libc: Option<String>,
    pub proactor: String,
    /// Versions of the contenders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

/// File system of the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FileSystem {
    pub kind: String,
    pub mounted_on: String,
    pub options: String,
    pub source: String,
}

/// Device of the file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Device {
    pub name: String,
    /// Directory of the device in /sys.
    pub sys: String,
    pub model: Option<String>,
    pub size_bytes: Option<u64>,
    pub rotational: Option<bool>,
    /// Scheduler that is active.
    pub scheduler: Option<String>,
    pub queue_requests: Option<u64>,
    pub write_cache: Option<String>,
    /// True if completions can be polled for.
    pub poll_queues: Option<bool>,
}

impl Environment {
    /// Reads the facts of this machine, for files at `place` (a directory, a file, or a block device).
    pub fn look(place: &Path) -> Environment {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = read("/proc/meminfo").and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?
                .to_owned();
            Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        });
        Environment {
            kernel: read("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH.into(),
            cpu: field(&cpuinfo, "model name"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            mhz: field(&cpuinfo, "cpu MHz").and_then(|text| text.parse().ok()),
            virtualisation: virtualisation(&cpuinfo),
            memory_bytes: memory,
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            file_system: file_system(place),
            device: device(place),
            memlock_bytes: Resource::LockedMemory.limit().soft,
            open_files: Resource::Descriptors.limit().soft,
            aio_max_nr: number("/proc/sys/fs/aio-max-nr"),
            io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
            root: rustix::process::geteuid().is_root(),
            libc: libc_version(),
            proactor: env!("CARGO_PKG_VERSION").into(),
            versions: BTreeMap::new(),
        }
    }

    /// Returns names and values as text.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        let bytes = |value: Option<u64>| value.map_or("unlimited".into(), crate::units::bytes);
        let mut lines = vec![
            ("kernel", format!("{} {}", text(&self.kernel), self.arch)),
            ("CPU", format!("{} x {}", self.cpus, text(&self.cpu))),
            (
                "virtualisation",
                self.virtualisation.clone().unwrap_or_else(|| "none seen".into()),
            ),
            ("frequency", self.frequency()),
            ("clock", text(&self.clocksource)),
            (
                "memory",
                self.memory_bytes.map_or("unknown".into(), |b| {
                    format!("{:.1} GiB", b as f64 / (1u64 << 30) as f64)
                }),
            ),
            (
                "load before",
                self.load.map_or("unknown".into(), |load| format!("{load:.2}")),
            ),
        ];
        if let Some(fs) = &self.file_system {
            lines.push((
                "file system",
                format!("{} on {} ({})", fs.kind, fs.mounted_on, fs.options),
            ));
        }
        if let Some(device) = &self.device {
            lines.push(("device", device.line()));
        }
        lines.push((
            "limits",
            format!(
                "memlock {}, open files {}, aio-max-nr {}, io_uring_disabled {}",
                bytes(self.memlock_bytes),
                self.open_files.map_or("unlimited".into(), |n| n.to_string()),
                self.aio_max_nr.map_or("unknown".into(), |n| n.to_string()),
                self.io_uring_disabled.map_or("unknown".into(), |n| n.to_string()),
            ),
        ));
        lines.push((
            "versions",
            format!("proactor {}, {}", self.proactor, text(&self.libc)),
        ));
        if !self.versions.is_empty() {
            let each = |(name, version): (&String, &String)| match version.contains(name.as_str()) {
                true => version.clone(),
                false => format!("{name} {version}"),
            };
            let all: Vec<String> = self.versions.iter().map(each).collect();
            lines.push(("compared", all.join(", ")));
        }
        lines
    }
}

impl Environment {
    fn frequency(&self) -> String {
        let now = self
            .mhz
            .map_or("unknown".into(), |mhz| format!("{mhz:.0} MHz at the start"));
        let governor = self.governor.as_deref().unwrap_or("unknown");
        format!("{now}, governor {governor}")
    }
}

impl Device {
    fn line(&self) -> String {
        let mut parts = vec![self.name.clone()];
        parts.extend(self.model.clone());
        parts.extend(self.size_bytes.map(|b| format!("{} GiB", b >> 30)));
        parts.extend(
            self.rotational
                .map(|yes| if yes { "rotational" } else { "not rotational" }.into()),
        );
        parts.extend(self.scheduler.as_ref().map(|name| format!("scheduler {name}")));
        parts.extend(self.queue_requests.map(|n| format!("{n} requests")));
        parts.extend(self.write_cache.clone());
        parts.extend(
            self.poll_queues
                .map(|yes| if yes { "poll queues" } else { "no poll queues" }.into()),
        );
        parts.join(", ")
    }
}

fn read(file: &str) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(file: &str) -> Option<u64> {
    read(file)?.parse().ok()
}

/// Returns the value of the first `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn virtualisation(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    let vendor = read("/sys/class/dmi/id/sys_vendor").or_else(|| read("/sys/hypervisor/type"));
    match (guest, vendor) {
        (true, Some(vendor)) => Some(format!("a virtual machine ({vendor})")),
        (true, None) => Some("a virtual machine".into()),
        (false, _) => None,
    }
}

#[cfg(target_env = "gnu")]
fn libc_version() -> Option<String> {
    // SAFETY: a static string of the library's.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(format!("glibc {}", version.to_str().ok()?))
}
#[cfg(not(target_env = "gnu"))]
fn libc_version() -> Option<String> {
    None
}

/// Returns the number of the device that a path is on, or is.
fn device_number(place: &Path) -> Option<(u32, u32)> {
    let facts = fs::metadata(place)
        .or_else(|_| fs::metadata(parent(place)))
        .ok()?;
    let number = if facts.file_type().is_block_device() {
        facts.rdev()
    } else {
        facts.dev()
    };
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

fn parent(place: &Path) -> &Path {
    place
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns the mount that contains the path, from /proc/self/mountinfo (see `proc(5)` for its fields).
fn file_system(place: &Path) -> Option<FileSystem> {
    let full = place
        .canonicalize()
        .or_else(|_| parent(place).canonicalize())
        .ok()?;
    let (major, minor) = device_number(place)?;
    let number = format!("{major}:{minor}");
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = text.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let mounted_on = left.get(4)?.replace("\\040", " ");
        (*left.get(2)? == number && full.starts_with(&mounted_on)).then(|| FileSystem {
            kind: right[0].into(),
            options: left[5].into(),
            source: right.get(1).copied().unwrap_or_default().into(),
            mounted_on,
        })
    });
    mounts.max_by_key(|mount| mount.mounted_on.len())
}

/// Returns the device; `None` for files on no block device of their own (tmpfs, overlayfs, btrfs, network).
fn device(place: &Path) -> Option<Device> {
    let (major, minor) = device_number(place)?;
    let sys = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let sys = sys.to_str()?.to_owned();
    // A partition's queue is its disk's.
    let disk = if Path::new(&format!("{sys}/queue")).exists() {
        sys.clone()
    } else {
        parent(Path::new(&sys)).to_str()?.to_owned()
    };
    let queue = |name: &str| read(&format!("{disk}/queue/{name}"));
    let chosen = |text: String| {
        let name = text
            .split_once('[')
            .and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
        name.unwrap_or(text)
    };
    Some(Device {
        name: sys.rsplit('/').next()?.into(),
        model: read(&format!("{disk}/device/model")),
        size_bytes: number(&format!("{sys}/size")).map(|sectors| sectors * 512),
        rotational: queue("rotational").map(|text| text == "1"),
        scheduler: queue("scheduler").map(chosen),
        queue_requests: queue("nr_requests").and_then(|text| text.parse().ok()),
        write_cache: queue("write_cache"),
        poll_queues: queue("io_poll").map(|text| text != "0"),
        sys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn here() {
        let here = Environment::look(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(here.kernel.is_some() && here.memory_bytes.is_some(), "{here:?}");
        let kind = &here
            .file_system
            .as_ref()
            .expect("a checkout is on some file system")
            .kind;
        assert!(!kind.is_empty() && kind != "proc");
        let proc = Environment::look(Path::new("/proc/self")).file_system.unwrap();
        assert_eq!((proc.kind.as_str(), proc.mounted_on.as_str()), ("proc", "/proc"));
        assert!(Environment::look(Path::new("/proc")).device.is_none());
        assert!(here.lines().iter().all(|(_, value)| !value.is_empty()));
    }
}
