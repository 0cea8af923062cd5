//! Presets: tables with a name, each of which is some jobs.

use crate::job::{Job, Measure, Rw, Task};
use std::time::Duration;

/// A preset.
#[derive(Debug)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, in a line.
    pub about: &'static str,
    jobs: fn() -> Vec<Job>,
}

impl Preset {
    /// Returns its jobs.
    pub fn jobs(&self) -> Vec<Job> {
        (self.jobs)()
    }

    /// Finds a preset by name.
    ///
    /// # Errors
    /// A sentence with the names there are.
    pub fn named(name: &str) -> Result<&'static Preset, String> {
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let all: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("no preset is called {name:?}: choose from {}", all.join(", "))
        })
    }
}

/// All presets.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "pressure",
        about: "a copy of 512 MiB, 32 KiB at a time, depth 64: time, system calls, context switches",
        jobs: || vec![Job::of(Task::Pressure)],
    },
    Preset {
        name: "iops",
        about: "random reads and random writes of 4 KiB in 512 MiB, depth 64 and 128, 10 seconds each",
        jobs: || {
            vec![Job {
                rw: vec![Rw::RandRead, Rw::RandWrite],
                iodepth: vec![64, 128],
                runtime: Some(Duration::from_secs(10)),
                ..Job::of(Task::Iops)
            }]
        },
    },
    Preset {
        name: "throughput",
        about: "32 and 512 MiB, read and written at random: 32 KiB at depth 64, 128 and 512, and 1 MiB at depth 64 and 512",
        jobs: || {
            let base = Job {
                rw: vec![Rw::RandRead, Rw::RandWrite],
                size: vec![32 << 20, 512 << 20],
                ..Job::of(Task::Throughput)
            };
            vec![
                Job {
                    bs: vec![32 << 10],
                    iodepth: vec![64, 128, 512],
                    ..base.clone()
                },
                Job {
                    bs: vec![1 << 20],
                    iodepth: vec![64, 512],
                    ..base
                },
            ]
        },
    },
    Preset {
        name: "idle-gap",
        about: "reads of 32 KiB, depth 64, while the submitter sleeps 0, 10, 100 and 1,000 us: system calls against latency",
        jobs: || {
            vec![Job {
                rw: vec![Rw::RandRead],
                bs: vec![32 << 10],
                thinktime: [0, 10, 100, 1000].map(Duration::from_micros).to_vec(),
                measure: Measure::Latency,
                ..Job::of(Task::Iops)
            }]
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_the_study() {
        let cells = |name: &str| -> Vec<_> {
            let jobs = Preset::named(name).unwrap().jobs();
            jobs.iter().flat_map(Job::cells).collect()
        };
        let pressure = cells("pressure");
        assert!(pressure
            .iter()
            .all(|c| c.rw == Rw::Copy && c.size == 512 << 20 && c.bs == 32 << 10));
        let mut pairs: Vec<_> = cells("throughput")
            .iter()
            .map(|c| (c.iodepth, c.bs >> 10))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(
            pairs,
            [
                (1, 32),
                (1, 1024),
                (64, 32),
                (64, 1024),
                (128, 32),
                (512, 32),
                (512, 1024)
            ]
        );
        assert!(cells("iops")
            .iter()
            .all(|c| c.runtime_ms == Some(10_000) && c.time_based));
        assert!(Preset::named("nonsense").unwrap_err().contains("idle-gap"));
    }
}
