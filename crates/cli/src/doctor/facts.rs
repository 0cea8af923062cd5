//! Facts of the machine that matter to asynchronous I/O. This module only reads; what cannot be read is
//! `None`.

use proactor_engine::Resource;
use serde::Serialize;
use std::fs;
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Machine {
    pub kernel: Option<String>,
    pub arch: &'static str,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Signs of a container; empty if there are none.
    pub container: Vec<&'static str>,
    /// `none`, `strict` or `filter`.
    pub seccomp: Option<&'static str>,
    pub io_uring_disabled: Option<i64>,
    pub io_uring_group: Option<i64>,
    pub aio_max_events: Option<i64>,
    pub aio_used_events: Option<i64>,
    pub limits: Limits,
}

#[derive(Serialize)]
pub(super) struct Limits {
    pub memlock_bytes: Limit,
    pub open_files: Limit,
    pub processes: Limit,
}

/// A limit; `None` means unlimited.
#[derive(Serialize)]
pub(super) struct Limit {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

impl Machine {
    pub fn look() -> Self {
        Machine {
            kernel: read("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            container: container(),
            seccomp: seccomp(),
            io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
            io_uring_group: number("/proc/sys/kernel/io_uring_group"),
            aio_max_events: number("/proc/sys/fs/aio-max-nr"),
            aio_used_events: number("/proc/sys/fs/aio-nr"),
            limits: Limits {
                memlock_bytes: limit(Resource::LockedMemory),
                open_files: limit(Resource::Descriptors),
                processes: limit(Resource::Processes),
            },
        }
    }
}

fn read(file: &str) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &str) -> Option<i64> {
    read(file)?.parse().ok()
}

fn seccomp() -> Option<&'static str> {
    let status = read("/proc/self/status")?;
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?;
    match mode.trim() {
        "0" => Some("none"),
        "1" => Some("strict"),
        "2" => Some("filter"),
        _ => None,
    }
}

/// Returns all signs of a container, as no single one is certain.
fn container() -> Vec<&'static str> {
    let mut signs = Vec::new();
    let mut sign = |found: bool, what| {
        if found {
            signs.push(what);
        }
    };
    sign(Path::new("/.dockerenv").exists(), "/.dockerenv (Docker)");
    sign(
        Path::new("/run/.containerenv").exists(),
        "/run/.containerenv (Podman)",
    );
    sign(
        std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        "KUBERNETES_SERVICE_HOST (Kubernetes)",
    );
    sign(
        std::env::var_os("container").is_some(),
        "the variable `container`",
    );
    let groups = read("/proc/1/cgroup").unwrap_or_default();
    let named = ["docker", "kubepods", "lxc", "containerd", "libpod"];
    sign(
        named.iter().any(|name| groups.contains(name)),
        "process 1's control group",
    );
    let kernel = read("/proc/version").unwrap_or_default().to_ascii_lowercase();
    sign(kernel.contains("microsoft"), "a WSL kernel");
    signs
}

fn limit(resource: Resource) -> Limit {
    let limit = resource.limit();
    Limit {
        soft: limit.soft,
        hard: limit.hard,
    }
}
