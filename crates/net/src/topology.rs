//! The machine's processors as far as placement cares: which share a core, which share a node, which may be used.
//!
//! Read from a folder such as /sys/devices/system/cpu, so that tests can make machines up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// Where Linux tells of its processors.
pub const SYSTEM: &str = "/sys/devices/system/cpu";
/// The most processors of a list: more than Linux can be built for (CONFIG_NR_CPUS).
const MAX_CPUS: u32 = 1 << 14;

/// A processor that is online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its core, named by the core's lowest processor.
    pub core: u32,
    /// Its memory node.
    pub node: u32,
    /// Whether this process may use it.
    pub allowed: bool,
}

/// The processors of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    cpus: BTreeMap<u32, Cpu>,
}

impl Topology {
    /// The processors of this machine, and which of them this thread may use (the cpuset, taskset).
    ///
    /// # Errors
    /// If /sys cannot be read.
    pub fn of_this_machine() -> io::Result<Self> {
        let set = rustix::thread::sched_getaffinity(None)?;
        let allowed = (0..rustix::thread::CpuSet::MAX_CPU as u32).filter(|cpu| set.is_set(*cpu as usize));
        Topology::read(Path::new(SYSTEM), &allowed.collect())
    }

    /// Reads a folder like /sys/devices/system/cpu.
    ///
    /// # Errors
    /// If `online` is missing, or is no list of processors. What else is missing makes each processor a core of its own, on
    /// node 0.
    pub fn read(folder: &Path, allowed: &BTreeSet<u32>) -> io::Result<Self> {
        let online = fs::read_to_string(folder.join("online"))?;
        let online = parse_list(online.trim()).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        let cpus = online.into_iter().map(|id| {
            let own = folder.join(format!("cpu{id}"));
            let cpu = Cpu {
                core: core(&own).unwrap_or(id),
                node: node(&own).unwrap_or(0),
                allowed: allowed.contains(&id),
            };
            (id, cpu)
        });
        Ok(Topology { cpus: cpus.collect() })
    }

    /// What is known of a processor; None if it is not online.
    pub fn cpu(&self, id: u32) -> Option<Cpu> {
        self.cpus.get(&id).copied()
    }

    /// The processors that this process may use.
    pub fn allowed(&self) -> impl Iterator<Item = (u32, Cpu)> + '_ {
        let all = self.cpus.iter().map(|(id, cpu)| (*id, *cpu));
        all.filter(|(_, cpu)| cpu.allowed)
    }

    /// Cores of which this process may use a processor.
    pub fn cores(&self) -> usize {
        self.allowed()
            .map(|(_, cpu)| cpu.core)
            .collect::<BTreeSet<u32>>()
            .len()
    }

    /// Sees that a processor can be used.
    ///
    /// # Errors
    /// In words, with those that can.
    pub fn check(&self, id: u32) -> Result<(), String> {
        let why = match self.cpu(id) {
            Some(cpu) if cpu.allowed => return Ok(()),
            Some(_) => "is not in this process's cpuset",
            None => "is offline, or not there",
        };
        let usable: Vec<u32> = self.allowed().map(|(id, _)| id).collect();
        Err(format!(
            "processor {id} {why}; {} can be used",
            show_list(&usable)
        ))
    }
}

/// A number that identifies the core: its lowest processor.
fn core(cpu: &Path) -> Option<u32> {
    let names = ["core_cpus_list", "thread_siblings_list"];
    let text = names
        .iter()
        .find_map(|name| fs::read_to_string(cpu.join("topology").join(name)).ok())?;
    parse_list(text.trim()).ok()?.into_iter().min()
}

/// The node that a processor's folder links to.
fn node(cpu: &Path) -> Option<u32> {
    let names = fs::read_dir(cpu)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .min()
}

/// Reads a list of processors: `0-3,8`.
///
/// # Errors
/// In words.
pub fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("{text:?} is no list of processors: write numbers and ranges, as 0-3,8");
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        if first > last || last >= MAX_CPUS {
            return Err(wrong());
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(format!("{text:?} has processor {cpu} twice"));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Writes a list of processors as [`parse_list`] reads it.
pub fn show_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let shown: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    shown.join(",")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine that is made up: for each node the cores, and for each core its processors.
    pub(crate) fn machine(nodes: &[&[&[u32]]], offline: &[u32], allowed: &[u32]) -> Topology {
        let folder = tempfile::tempdir().unwrap();
        let mut online = Vec::new();
        for (node, cores) in nodes.iter().enumerate() {
            for core in *cores {
                let core: Vec<u32> = core
                    .iter()
                    .copied()
                    .filter(|cpu| !offline.contains(cpu))
                    .collect();
                for cpu in &core {
                    let own = folder.path().join(format!("cpu{cpu}"));
                    fs::create_dir_all(own.join("topology")).unwrap();
                    fs::create_dir(own.join(format!("node{node}"))).unwrap();
                    fs::write(own.join("topology/core_cpus_list"), show_list(&core) + "\n").unwrap();
                }
                online.extend(core);
            }
        }
        online.sort_unstable();
        fs::write(folder.path().join("online"), show_list(&online) + "\n").unwrap();
        Topology::read(folder.path(), &allowed.iter().copied().collect()).unwrap()
    }

    #[test]
    fn lists_are_read_and_shown_alike() {
        for (text, cpus) in [
            ("0", vec![0]),
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("2,0", vec![2, 0]),
        ] {
            assert_eq!(parse_list(text).unwrap(), cpus);
            assert_eq!(show_list(&cpus), text);
        }
        for text in ["", "a", "3-1", "0,", "-1", "0-99999999", "1,0-2"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_machine_is_read() {
        let topology = machine(
            &[&[&[0, 4], &[1, 5]], &[&[2, 6], &[3, 7]]],
            &[5],
            &[0, 1, 2, 4, 5, 6],
        );
        let cpu = |core, node, allowed| Some(Cpu { core, node, allowed });
        assert_eq!(topology.cpu(4), cpu(0, 0, true));
        assert_eq!(topology.cpu(5), None);
        assert_eq!(topology.cpu(7), cpu(3, 1, false));
        assert_eq!(topology.cores(), 3);
        assert!(topology.check(6).is_ok());
        assert_eq!(
            topology.check(5).unwrap_err(),
            "processor 5 is offline, or not there; 0-2,4,6 can be used"
        );
        assert!(topology.check(3).unwrap_err().contains("cpuset"));
    }

    #[test]
    fn a_folder_that_says_little_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Topology::read(folder.path(), &BTreeSet::new()).is_err());
        fs::write(folder.path().join("online"), "0-1\n").unwrap();
        let topology = Topology::read(folder.path(), &[0, 1].into()).unwrap();
        assert_eq!(topology.cores(), 2);
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(Topology::of_this_machine().unwrap().cores() > 0);
    }
}
