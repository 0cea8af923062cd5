//! `bench cp`: whole trees, by the copiers that are installed.
//!
//! Every run has a new directory, and nothing is deleted before the end: on ext4, creating files is ten times
//! slower for a while after many were deleted. The output of earlier runs is on the device before the next
//! one begins. Each copy is compared with its source, outside the measured time.

use super::child::{self, Ran};
use super::frame::{self, Frame};
use super::{found, Common};
use crate::cache::Resident;
use crate::counters::Calls;
use crate::job::Cache;
use crate::report::{Report, Round, Way};
use crate::run::{Counters, Progress, Raw, Schedule};
use crate::same::same;
use crate::subject::{Entry, Subject};
use crate::tally::Tally;
use crate::target::space;
use crate::tree::{self, Kind, Size};
use crate::units;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Attributes that a copier preserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Contents,
    Attributes,
}

/// A copier: the command to which source and target are appended.
#[derive(Debug, Clone)]
pub struct Copier {
    /// Name in the report.
    pub name: String,
    command: Vec<OsString>,
    keeps: Keeps,
    /// True if the source's name needs a slash at the end: then rsync copies what is in it, and so to a new
    /// name.
    slash: bool,
}

/// Returns the copiers that are installed, and why others are not available. `own` is the command that starts
/// this program.
pub fn copiers(own: &[OsString]) -> (Vec<Copier>, Vec<String>) {
    const OTHERS: &[(&str, &[&str], Keeps)] = &[
        ("cp -r", &["cp", "-r"], Keeps::Contents),
        ("cp -a", &["cp", "-a"], Keeps::Attributes),
        ("rsync -a", &["rsync", "-a"], Keeps::Attributes),
        ("cpz", &["cpz"], Keeps::Contents),
        ("xcp -r", &["xcp", "-r", "--no-progress"], Keeps::Contents),
        ("fcp", &["fcp"], Keeps::Contents),
    ];
    let ours = |option: &str, keeps| Copier {
        name: format!("proactor cp {option}"),
        command: own.iter().cloned().chain(["cp".into(), option.into()]).collect(),
        keeps,
        slash: false,
    };
    let mut there = vec![ours("-r", Keeps::Contents), ours("-a", Keeps::Attributes)];
    let mut missing = Vec::new();
    for (name, words, keeps) in OTHERS {
        match found(words[0]) {
            Some(program) => there.push(Copier {
                name: (*name).to_owned(),
                command: std::iter::once(program.into_os_string())
                    .chain(words[1..].iter().map(OsString::from))
                    .collect(),
                keeps: *keeps,
                slash: words[0] == "rsync",
            }),
            None => missing.push(format!("{name}: no {} on PATH", words[0])),
        }
    }
    (there, missing)
}

impl Copier {
    /// Returns a copier that the user names, by its words.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn named(text: &str) -> Result<Copier, String> {
        let mut words = text.split_whitespace();
        let program = words.next().ok_or("a copier needs a name")?;
        let file = found(program).ok_or_else(|| format!("{text}: no program {program}"))?;
        Ok(Copier {
            name: text.to_owned(),
            command: std::iter::once(file.into_os_string())
                .chain(words.map(OsString::from))
                .collect(),
            keeps: Keeps::Contents,
            slash: program == "rsync" || program.ends_with("/rsync"),
        })
    }

    fn command(&self, source: &Path, target: &Path) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        for path in [source, target] {
            let mut word = path.as_os_str().to_owned();
            if self.slash {
                word.push("/");
            }
            command.arg(word);
        }
        command
    }
}

/// Source of the copies.
#[derive(Debug, Clone)]
pub enum Source {
    /// A tree that is made for the run; a part of it for a quick look.
    Made(&'static Kind, u64),
    /// An existing directory, which is read.
    There(PathBuf),
}

/// A plan of measurements.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Options that the races share.
    pub common: Common,
    /// Copiers that take part.
    pub copiers: Vec<Copier>,
    /// Sources to copy.
    pub sources: Vec<Source>,
    /// True if writing the copies to the device is part of the time.
    pub end_fsync: bool,
    /// Copiers that are not available, for the report.
    pub left_out: Vec<String>,
}

/// A source, once it exists.
struct Tree {
    root: PathBuf,
    words: String,
    size: Size,
    files: Vec<PathBuf>,
}

/// Bytes per file beside the contents, for names and inodes.
const A_FILE_BYTES: u64 = 2 << 10;
const BLOCK_BYTES: u64 = 4 << 10;

impl Plan {
    /// # Errors
    /// What can be known to be wrong before anything is made.
    pub fn check(&self) -> Result<(), String> {
        self.common.check()?;
        if self.copiers.is_empty() || self.sources.is_empty() {
            return Err("there is nothing to measure".into());
        }
        for source in &self.sources {
            if let Source::There(path) = source {
                if !path.is_dir() {
                    return Err(format!("{}: no directory", path.display()));
                }
                let inside = |a: &Path, b: &Path| {
                    a.canonicalize()
                        .is_ok_and(|a| b.canonicalize().is_ok_and(|b| a.starts_with(b)))
                };
                if inside(&self.common.directory, path) {
                    return Err(format!(
                        "{}: the copies would be in what is copied: --directory is another place",
                        path.display()
                    ));
                }
            }
        }
        let made = self.sources.iter().filter_map(|source| match source {
            Source::Made(kind, part) => Some(kind.size(self.common.seed, *part)),
            Source::There(_) => None,
        });
        // Whether others may count is not known yet.
        let counting = self.common.counters == Counters::Perf;
        // Beside the copies, the trees themselves.
        self.room(
            made,
            &self.common.directory,
            self.runs(counting).saturating_add(1),
        )
    }

    /// Returns the number of copies of each source.
    fn runs(&self, counting: bool) -> u64 {
        self.copiers.len() as u64 * (u64::from(self.common.rounds) + u64::from(counting))
    }

    /// Checks that there is room for `times` trees of each size at once.
    fn room(&self, sizes: impl Iterator<Item = Size>, place: &Path, times: u64) -> Result<(), String> {
        let (mut needed, mut names) = (0, 0);
        for size in sizes {
            names += size.files + size.others;
            needed += size.bytes + size.files * BLOCK_BYTES + (size.files + size.others) * A_FILE_BYTES;
        }
        space::check(place, needed.saturating_mul(times)).map_err(|e| {
            format!("{e}: every run has a copy of its own, so fewer --rounds or copiers need less")
        })?;
        let facts = rustix::fs::statvfs(place).map_err(|e| format!("{}: {e}", place.display()))?;
        let names = names.saturating_mul(times);
        if facts.f_files > 0 && facts.f_favail < names {
            return Err(format!(
                "{}: {names} inodes are needed, and {} are free",
                place.display(),
                facts.f_favail
            ));
        }
        Ok(())
    }

    /// Returns the pairs in the order of the report.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let each = |source| (0..self.copiers.len()).map(move |copier| (source, copier));
        (0..self.sources.len()).flat_map(each).collect()
    }
}

impl Source {
    /// Describes the source.
    pub fn words(&self) -> String {
        match self {
            Source::Made(kind, 1) => format!("{}: {}", kind.name, kind.about),
            Source::Made(kind, part) => format!("{}: a {part}th of {}", kind.name, kind.about),
            Source::There(path) => path.display().to_string(),
        }
    }
}

/// Measures the plan as `proactor_bench::run::run` does.
///
/// # Errors
/// If nothing could be measured at all.
pub fn run(plan: &Plan, stop: &AtomicBool, on_progress: &mut dyn FnMut(&Progress)) -> Result<Report, String> {
    plan.check()?;
    let frame = Frame::open(&plan.common)?;
    let place = plan.common.place()?;
    let said = |what: String| Progress {
        what,
        done: 0,
        of: 0,
        left: None,
    };
    let mut trees = Vec::new();
    for (number, source) in plan.sources.iter().enumerate() {
        on_progress(&said(format!("making {}", source.words())));
        trees.push(made(
            source,
            &place.path().join(format!("source{number}")),
            plan.common.seed,
        )?);
    }
    plan.room(
        trees.iter().map(|tree| tree.size),
        place.path(),
        plan.runs(frame.counts()),
    )?;
    let pairs = plan.pairs();
    let subject = |(source, copier): &(usize, usize)| {
        Subject::Entry(Entry {
            contender: plan.copiers[*copier].name.clone(),
            task: trees[*source].words.clone() + if plan.end_fsync { ", synced" } else { "" },
            cache: plan.common.cache,
        })
    };
    let schedule = Schedule {
        subjects: pairs.iter().map(subject).collect(),
        planned: vec![None; pairs.len()],
        groups: vec![1; pairs.len()],
        rounds: plan.common.rounds,
        counting: frame.counts(),
        seed: plan.common.seed,
        stop,
    };
    let mut number = 0;
    let cells = schedule.measure_each(on_progress, &mut |index, counts| {
        number += 1;
        let (source, copier) = pairs[index];
        let target = place.path().join(format!("run{number}"));
        fs::create_dir(&target).map_err(|e| format!("{}: {e}", target.display()))?;
        let one = One {
            plan,
            tree: &trees[source],
            copier: &plan.copiers[copier],
            target: target.join("copy"),
            device: frame.device(),
            stop,
        };
        one.run(counts)
    });
    on_progress(&said("removing the copies".into()));
    // Not by its drop, which would hide errors.
    place.close().map_err(|e| format!("removing the copies: {e}"))?;
    Ok(frame.close(cells, plan.left_out.clone(), versions(&plan.copiers, stop), stop))
}

/// Returns the first line of each program's version output.
fn versions(copiers: &[Copier], stop: &AtomicBool) -> BTreeMap<String, String> {
    let said = |copier: &Copier| {
        let program = copier.command.first()?;
        let name = Path::new(program).file_name()?.to_string_lossy().into_owned();
        Some((
            name,
            child::first_line(Command::new(program).arg("--version"), stop)?,
        ))
    };
    copiers.iter().filter_map(said).collect()
}

fn made(source: &Source, root: &Path, seed: u64) -> Result<Tree, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", root.display());
    let root = match source {
        Source::Made(kind, part) => {
            fs::create_dir(root).map_err(failed)?;
            kind.make(root, seed, *part).map_err(failed)?;
            root.to_owned()
        }
        Source::There(path) => path.clone(),
    };
    let with_root = |e: std::io::Error| format!("{}: {e}", root.display());
    let size = tree::size(&root).map_err(with_root)?;
    let files = tree::files(&root).map_err(with_root)?;
    let name = match source {
        Source::Made(kind, _) => kind.name.to_owned(),
        Source::There(path) => path.display().to_string(),
    };
    let words = format!(
        "copy of {name}: {} files, {} MiB",
        units::thousands(size.files as i64),
        units::number(size.bytes as f64 / f64::from(1 << 20))
    );
    Ok(Tree {
        root,
        words,
        size,
        files,
    })
}

/// One run of one copier.
struct One<'a> {
    plan: &'a Plan,
    tree: &'a Tree,
    copier: &'a Copier,
    target: PathBuf,
    device: Option<&'a str>,
    stop: &'a AtomicBool,
}

impl One<'_> {
    fn run(&self, counts: bool) -> Result<Raw, String> {
        let failed = |e: std::io::Error| format!("preparing the page cache: {e}");
        let files = &self.tree.files;
        self.synced().map_err(failed)?;
        match self.plan.common.cache {
            Cache::Dropped => tree::drop_data(files).map_err(failed)?,
            Cache::Warmed => tree::warm(files, self.stop).map_err(failed)?,
            Cache::Left => {}
        }
        let resident_before = tree::resident(files);
        let mut command = self.copier.command(&self.tree.root, &self.target);
        let (mut ran, calls) = match counts {
            false => (child::run(&mut command, self.device, self.stop)?, None),
            true => {
                let (ran, calls) = frame::counted(&mut command, self.device, self.stop)?;
                (ran, Some(calls))
            }
        };
        if self.plan.end_fsync {
            let begun = Instant::now();
            self.synced().map_err(|e| format!("sync: {e}"))?;
            ran.elapsed_s += begun.elapsed().as_secs_f64();
        }
        let attributes = self.copier.keeps == Keeps::Attributes;
        same(&self.tree.root, &self.target, attributes, self.stop)
            .map_err(|why| format!("its copy is wrong: {why}"))?;
        let resident_after = tree::resident(files);
        Ok(self.raw(ran, resident_before, resident_after, calls))
    }

    /// Waits until what was written is on the device.
    fn synced(&self) -> std::io::Result<()> {
        let place = tree::open_dir(self.target.parent().expect("it is in a directory of its own"))?;
        Ok(rustix::fs::syncfs(place)?)
    }

    fn raw(
        &self,
        ran: Ran,
        resident_before: Option<Resident>,
        resident_after: Option<Resident>,
        calls: Option<Calls>,
    ) -> Raw {
        let elapsed_s = ran.elapsed_s;
        let all = Way::counted(self.tree.size.files, self.tree.size.bytes, elapsed_s);
        Raw {
            round: Round {
                elapsed_s,
                read: all,
                write: all,
                all,
                fsyncs: 0,
                submissions: None,
                depth: None,
                together: None,
                used: ran.used,
                resident_before,
                resident_after,
                late_max_s: None,
                unanswered: None,
            },
            reads: Tally::default(),
            writes: Tally::default(),
            calls: calls.map(|calls| (calls, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::MAX_ROUNDS;
    use crate::tree::KINDS;

    #[test]
    fn room_is_looked_for_before_a_byte_is_written() {
        let plan = |rounds, copiers, part| Plan {
            common: Common {
                directory: ".".into(),
                rounds,
                seed: 1,
                counters: Counters::None,
                cache: Cache::Warmed,
                command: Vec::new(),
            },
            copiers: vec![Copier::named("cp -r").unwrap(); copiers],
            sources: KINDS.iter().map(|kind| Source::Made(kind, part)).collect(),
            end_fsync: false,
            left_out: Vec::new(),
        };
        assert_eq!(plan(1, 1, 50).check(), Ok(()));
        // Petabytes.
        let needed = plan(MAX_ROUNDS, 1000, 1).check().unwrap_err();
        assert!(needed.contains("MiB are needed"), "{needed}");
    }
}
