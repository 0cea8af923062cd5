//! `proactor doctor --workers`: kernel workers that make sense here.

use super::workers_measure::{measure, Measured};
use proactor_net::placement::{place, Wanted};
use proactor_net::topology::{show_list, Topology};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Processors per pair of a user thread and its kernel worker: one each, and one for network processing and
/// for the clients or the rest of the program.
const CPUS_PER_PAIR: usize = 3;
/// Ratio of the cost of a request above which a kernel worker costs more than it saves.
const DEAR: f64 = 1.5;

#[derive(Serialize)]
pub(super) struct Workers {
    schema: u32,
    /// Processors that this process may use, as a list.
    cpus: String,
    cores: usize,
    /// Processors of each core.
    siblings: Vec<String>,
    nodes: usize,
    /// Processors that the control group's quota amounts to; `None` without a quota.
    quota_cpus: Option<f64>,
    /// Upper bound on kernel workers that make sense.
    kernel_workers: usize,
    why: String,
    without: Option<Measured>,
    with_one: Option<Measured>,
    /// Reason why there is no measurement.
    not_measured: Option<String>,
    warnings: Vec<String>,
}

/// Reads the facts of the machine, and measures for a second.
pub(super) fn gather() -> Result<Workers, String> {
    let topology =
        Topology::of_this_machine().map_err(|e| format!("the processors cannot be read from /sys: {e}"))?;
    let cpus: Vec<u32> = topology.allowed().map(|(id, _)| id).collect();
    let quota_cpus = quota(
        Path::new("/sys/fs/cgroup"),
        &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
    );
    let usable = quota_cpus.map_or(cpus.len(), |quota| cpus.len().min(quota as usize));
    let (kernel_workers, why) = advice(usable);
    let mut workers = Workers {
        schema: 1,
        cores: topology.cores(),
        siblings: siblings(&topology),
        nodes: nodes(&topology),
        cpus: show_list(&cpus),
        quota_cpus,
        kernel_workers,
        why,
        without: None,
        with_one: None,
        not_measured: None,
        warnings: Vec::new(),
    };
    let placement = place(
        &topology,
        Wanted {
            kernel: 1,
            user: 1,
            ..Wanted::default()
        },
    )?;
    match measure(&placement) {
        Ok((without, with_one)) => {
            (workers.without, workers.with_one) = (Some(without), Some(with_one));
        }
        Err(why) => workers.not_measured = Some(why),
    }
    workers.warn(usable);
    Ok(workers)
}

fn siblings(topology: &Topology) -> Vec<String> {
    let mut cores = std::collections::BTreeMap::<u32, Vec<u32>>::new();
    for (id, cpu) in topology.allowed() {
        cores.entry(cpu.core).or_default().push(id);
    }
    cores.values().map(|cpus| show_list(cpus)).collect()
}

fn nodes(topology: &Topology) -> usize {
    let nodes: std::collections::BTreeSet<u32> = topology.allowed().map(|(_, cpu)| cpu.node).collect();
    nodes.len()
}

/// Returns how many kernel workers make sense with this many processors, and why.
fn advice(usable: usize) -> (usize, String) {
    match usable / CPUS_PER_PAIR {
        0 => (
            0,
            format!(
                "{usable} of the processors can be used, and a kernel worker would take the application's: it polls, and the \
                 application and the network's own work need a processor each"
            ),
        ),
        pairs => (
            pairs,
            "each with a user thread of its own, and a processor left for the network's own work and for clients; more only if \
             a kernel worker is busy all the time and its user thread is not"
                .into(),
        ),
    }
}

/// Returns the processors that a control group's quota amounts to, its parents' included.
fn quota(root: &Path, cgroup: &str) -> Option<f64> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut folder: PathBuf = root.join(own.trim_start_matches('/'));
    let mut least: Option<f64> = None;
    while folder.starts_with(root) {
        let found = fs::read_to_string(folder.join("cpu.max")).ok().and_then(|text| {
            let (quota, period) = text.trim().split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        });
        least = [least, found].into_iter().flatten().reduce(f64::min);
        if !folder.pop() {
            break;
        }
    }
    least
}

impl Workers {
    fn warn(&mut self, usable: usize) {
        if usable < CPUS_PER_PAIR {
            self.warnings
                .push("a kernel worker would take the application's core here".into());
        }
        let dear = self
            .without
            .as_ref()
            .zip(self.with_one.as_ref())
            .map(|(without, with)| {
                with.cpu_us_per_request / without.cpu_us_per_request.max(f64::MIN_POSITIVE)
            });
        if let Some(times) = dear.filter(|times| *times >= DEAR) {
            self.warnings.push(format!(
                "with a kernel worker a request took {times:.1} times the CPU; that pays only if the application computes \
                 meanwhile on a processor of its own"
            ));
        }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("only strings, numbers and lists") + "\n"
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let quota = self
            .quota_cpus
            .map_or("none".into(), |quota| format!("{quota:.2} processors"));
        let rows = [
            ("processors", self.cpus.clone()),
            ("cores", format!("{}: {}", self.cores, self.siblings.join(" "))),
            ("nodes", self.nodes.to_string()),
            ("quota of the cgroup", quota),
            (
                "kernel workers",
                format!("at most {}: {}", self.kernel_workers, self.why),
            ),
        ];
        // Writing to a String cannot fail, here and below.
        for (name, value) in rows {
            let _ = writeln!(text, "{name:21}{value}");
        }
        for (name, measured) in [("without", &self.without), ("with one", &self.with_one)] {
            if let Some(measured) = measured {
                let _ = writeln!(text, "{name:21}{measured}");
            }
        }
        if let Some(why) = &self.not_measured {
            let _ = writeln!(text, "{:21}{why}", "not measured");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_quota_counts() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let set =
            |folder: &str, text: &str| fs::write(root.path().join(folder).join("cpu.max"), text).unwrap();
        assert_eq!(quota(root.path(), "0::/a/b\n"), None);
        set("a/b", "max 100000\n");
        assert_eq!(quota(root.path(), "0::/a/b\n"), None);
        set("a", "150000 100000\n");
        assert_eq!(quota(root.path(), "1:cpu:/x\n0::/a/b\n"), Some(1.5));
        set("a/b", "50000 100000\n");
        assert_eq!(quota(root.path(), "0::/a/b\n"), Some(0.5));
    }

    #[test]
    fn small_machines_get_none() {
        assert_eq!(
            [1, 2, 3, 5, 6, 64].map(|cpus| advice(cpus).0),
            [0, 0, 1, 1, 2, 21]
        );
    }
}
