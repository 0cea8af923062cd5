//! The cells of a plan, round by round.

use super::clock::Progress;
use super::rounds::{Raw, Schedule};
use super::Plan;
use crate::cache::{self, Resident};
use crate::counters::{Calls, Method, Seen, Tracer};
use crate::data;
use crate::engines::{self, Gate, Outcome, Part, Shared};
use crate::job::{Cache, Cell, Rw};
use crate::report::{CellReport, Depth, Round, Together, Way};
use crate::subject::Subject;
use crate::tally::Tally;
use crate::target::Target;
use crate::usage::{self, Mark};
use crate::work::Sequence;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Session<'a> {
    pub plan: &'a Plan,
    pub target: Target,
    pub stop: &'a AtomicBool,
    pub device: Option<String>,
    /// Generation of what is written next.
    pub generation: u64,
    pub known_threads: Vec<i32>,
    /// Way of counting system calls, if they are counted.
    pub method: Option<Method>,
}

impl Session<'_> {
    pub fn measure(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Vec<CellReport> {
        let plan = self.plan;
        let schedule = Schedule {
            subjects: plan.cells.iter().cloned().map(Subject::Io).collect(),
            planned: plan
                .group_cells()
                .flat_map(|group| {
                    let share = group.len() as u32;
                    group.iter().map(move |cell| Some(cell.planned()? / share))
                })
                .collect(),
            groups: plan.groups.clone(),
            rounds: plan.rounds,
            counting: self.method.is_some(),
            seed: plan.seed,
            stop: self.stop,
        };
        schedule.measure(on_progress, &mut |group, counts| {
            self.round(&plan.cells[group], counts)
        })
    }

    /// Runs a round of cells that run at once.
    fn round(&mut self, cells: &[Cell], counting: bool) -> Result<Vec<Raw>, String> {
        usage::wait_for_threads_to_end(&self.known_threads);
        if cells.iter().any(|cell| cell.rw.writes()) {
            self.generation += 1;
        }
        let lanes = self.lanes(cells)?;
        self.prepare_cache(&lanes)
            .map_err(|e| format!("preparing the page cache: {e}"))?;
        let before: Vec<Option<Resident>> = lanes.iter().map(Lane::resident).collect();
        // On a separate thread, so that it counts these cells' threads and no others.
        let stage = || self.stage(&lanes, counting);
        let mut raws = thread::scope(|scope| {
            let stage = thread::Builder::new().spawn_scoped(scope, stage);
            let stage = stage.map_err(|e| format!("making a thread: {e}"))?;
            stage.join().expect("no panic")
        })?;
        for ((raw, lane), before) in raws.iter_mut().zip(&lanes).zip(before) {
            raw.round.resident_before = before;
            raw.round.resident_after = lane.resident();
            if lane.cell.verify && lane.cell.rw.writes() {
                self.verify(lane)?;
            }
        }
        Ok(raws)
    }

    /// Gives each cell files of its own, as far as the target has them.
    fn lanes<'c>(&self, cells: &'c [Cell]) -> Result<Vec<Lane<'c>>, String> {
        let mut first = 0;
        let lane = |cell: &'c Cell| {
            let jobs = first..first + cell.numjobs;
            first = jobs.end;
            let sequence = |job| {
                let sequence = Sequence::new(cell.rw, self.plan.seed, job, cell.size, cell.bs)
                    .mix_read(cell.rwmixread)
                    .independent(cell.norandommap);
                match cell.ways_are_apart() {
                    true => sequence.ways_apart(cell.size, cell.write_bytes()),
                    false => sequence,
                }
            };
            let sequences: Vec<Sequence> = jobs.clone().map(sequence).collect();
            Ok(Lane {
                cell,
                files: self.files(cell, jobs)?,
                shared: sequences.iter().map(|one| Shared::new(cell, one)).collect(),
                sequences,
            })
        };
        cells.iter().map(lane).collect()
    }

    fn files(&self, cell: &Cell, jobs: Range<u32>) -> Result<Vec<Pair>, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", self.target.place.display());
        let pair = |job| {
            let writes = cell.rw.writes() && cell.rw != Rw::Copy;
            let source = self.target.source(job, cell.direct, writes)?;
            let destination = match cell.rw {
                Rw::Copy => Some(self.target.destination(job, cell.direct)?),
                _ => None,
            };
            Ok(Pair { source, destination })
        };
        jobs.map(|job| pair(job).map_err(failed)).collect()
    }

    fn prepare_cache(&self, lanes: &[Lane<'_>]) -> std::io::Result<()> {
        let is_left = |lane: &Lane<'_>| !lane.cell.direct && lane.cell.cache == Cache::Left;
        if lanes.iter().all(is_left) {
            return Ok(());
        }
        self.target.settle()?;
        let warmed = |lane: &&Lane<'_>| !lane.cell.direct && lane.cell.cache == Cache::Warmed;
        lanes.iter().filter(warmed).try_for_each(|lane| {
            let warm = |file| cache::warm(file, lane.cell.size, self.stop);
            let read = || {
                lane.files.iter().try_for_each(|pair| {
                    warm(&pair.source)?;
                    pair.destination.iter().try_for_each(warm)
                })
            };
            cache::fill(read, || lane.resident(), self.stop)
        })
    }

    /// Runs the cells' threads, from start to end.
    fn stage(&self, lanes: &[Lane<'_>], counting: bool) -> Result<Vec<Raw>, String> {
        let method = self.method.filter(|_| counting);
        let mut counters = method.map(Tracer::prepare).transpose()?;
        let threads = lanes.iter().map(|lane| lane.threads()).sum();
        let gate = Gate::new(threads);
        let device = self.device.as_deref();
        thread::scope(|scope| {
            let _present = gate.enter();
            let mut workers = Vec::new();
            for lane in lanes {
                for number in 0..lane.threads() {
                    let part = self.part(lane, number / lane.threads_a_job(), &gate);
                    let builder = thread::Builder::new().name("bench job".into());
                    let worker = builder.spawn_scoped(scope, move || engines::work(&part));
                    workers.push(worker.map_err(|e| {
                        gate.cancel();
                        format!("making thread {} of {threads}: {e}", workers.len() + 1)
                    })?);
                }
            }
            gate.all_ready();
            let mut before = Mark::start(device);
            let mut start = || counters.as_mut().map(Tracer::start).transpose();
            let ramp_ms = lanes.iter().map(|lane| lane.cell.ramp_ms).max();
            let ramp = Duration::from_millis(ramp_ms.unwrap_or(0));
            // The ramp is not measured, and so not counted.
            let mut started = if ramp.is_zero() { start() } else { Ok(None) };
            let begun = Instant::now();
            gate.begin();
            if !ramp.is_zero() {
                engines::sleep(ramp.saturating_sub(begun.elapsed()), self.stop);
                started = start();
                before = Mark::start(device);
            }
            gate.all_done();
            let counted = counters.as_mut().map(Tracer::stop).transpose();
            let used = before.until(&Mark::now(device));
            gate.release();
            let outcomes: Result<Vec<Option<Outcome>>, String> = workers
                .into_iter()
                .map(|worker| worker.join().expect("no panic"))
                .collect();
            let mut outcomes = outcomes?.into_iter();
            started?;
            let counted = counted?;
            let each = lanes.iter().map(|lane| {
                let own: Vec<Outcome> = outcomes.by_ref().take(lane.threads()).flatten().collect();
                let measured_from = begun + Duration::from_millis(lane.cell.ramp_ms);
                summed(&own, measured_from, used.clone(), counted.clone())
            });
            Ok(together(each.collect()))
        })
    }

    /// Returns one thread's part.
    fn part<'p>(&'p self, lane: &'p Lane<'_>, job: usize, gate: &'p Gate) -> Part<'p> {
        Part {
            cell: lane.cell,
            sequence: &lane.sequences[job],
            shared: &lane.shared[job],
            source: &lane.files[job].source,
            destination: lane.files[job].destination.as_ref(),
            seed: self.plan.seed,
            generation: self.generation,
            gate,
            stop: self.stop,
        }
    }

    /// Reads back what was written, bypassing the cache.
    fn verify(&self, lane: &Lane<'_>) -> Result<(), String> {
        self.target.settle().map_err(|e| format!("writing back: {e}"))?;
        let bytes = lane.cell.write_bytes() as usize;
        let mut buffer = proactor_engine::memory::zeroed(bytes)
            .map_err(|_| format!("reading back: no memory for a block of {bytes} bytes"))?;
        for ((pair, sequence), shared) in lane.files.iter().zip(&lane.sequences).zip(&lane.shared) {
            let written = pair.destination.as_ref().unwrap_or(&pair.source);
            // Without O_DIRECT, which would need an aligned buffer.
            let file = reopened(written).map_err(|e| format!("reading back: {e}"))?;
            let mut seen = vec![false; sequence.blocks_to_write() as usize];
            let mut unseen = seen.len();
            for step in shared.steps_that_wrote(sequence) {
                if self.stop.load(Ordering::Relaxed) {
                    // The round is given up.
                    return Ok(());
                }
                if unseen == 0 {
                    break;
                }
                let block = (step.offset / step.bytes) as usize;
                if std::mem::replace(&mut seen[block], true) {
                    continue;
                }
                unseen -= 1;
                file.read_exact_at(&mut buffer, step.offset)
                    .map_err(|e| format!("reading back: {e}"))?;
                data::check(
                    &buffer,
                    self.plan.seed,
                    self.generation..=self.generation,
                    step.offset,
                )
                .map_err(|wrong| format!("wrong bytes at offset {} of what was written", wrong.offset))?;
            }
        }
        Ok(())
    }
}

fn reopened(file: &File) -> std::io::Result<File> {
    use std::os::fd::AsRawFd;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The files of one job.
struct Pair {
    source: File,
    destination: Option<File>,
}

/// A cell with what it needs for a round.
struct Lane<'c> {
    cell: &'c Cell,
    /// Files of each job.
    files: Vec<Pair>,
    sequences: Vec<Sequence>,
    shared: Vec<Shared>,
}

impl Lane<'_> {
    fn threads_a_job(&self) -> usize {
        engines::threads_a_job(self.cell) as usize
    }

    fn threads(&self) -> usize {
        self.threads_a_job() * self.cell.numjobs as usize
    }

    fn resident(&self) -> Option<Resident> {
        let pairs = self.files.iter();
        let all = pairs.flat_map(|pair| std::iter::once(&pair.source).chain(&pair.destination));
        all.map(|file| cache::resident(file, self.cell.size)).try_fold(
            Resident { pages: 0, of: 0 },
            |sum, one| {
                let one = one?;
                Some(Resident {
                    pages: sum.pages + one.pages,
                    of: sum.of + one.of,
                })
            },
        )
    }
}

/// Adds to each result the ops of all cells that ran at once, because the usage counts all of them.
fn together(mut raws: Vec<Raw>) -> Vec<Raw> {
    if raws.len() > 1 {
        let sum = |of: fn(&Raw) -> u64| raws.iter().map(of).sum();
        let all = Together {
            ios: sum(|raw| raw.round.all.ios),
            read_bytes: sum(|raw| raw.round.read.bytes),
        };
        raws.iter_mut().for_each(|raw| raw.round.together = Some(all));
    }
    raws
}

/// Combines the depths of all threads: each has its own part of what is in flight at once.
fn depth(outcomes: &[Outcome]) -> Depth {
    let mut all = Depth::default();
    for one in outcomes.iter().map(|outcome| &outcome.depth) {
        all.most += one.most;
        for (sum, count) in all.levels.iter_mut().zip(one.levels) {
            *sum += count;
        }
    }
    all
}

fn summed(
    outcomes: &[Outcome],
    from: Instant,
    used: usage::Used,
    calls: Option<(Calls, Option<Seen>)>,
) -> Raw {
    let (mut reads, mut writes) = (Tally::default(), Tally::default());
    for outcome in outcomes {
        reads.add(&outcome.reads);
        writes.add(&outcome.writes);
    }
    let mut all = reads.clone();
    all.add(&writes);
    // Threads are woken one after the other: the time begins with the first one's first op.
    let began = outcomes.iter().map(|outcome| outcome.began).min();
    let from = began.unwrap_or(from).max(from);
    let ended = outcomes.iter().map(|outcome| outcome.ended).max().unwrap_or(from);
    let elapsed_s = ended.saturating_duration_since(from).as_secs_f64();
    Raw {
        round: Round {
            elapsed_s,
            read: Way::of(&reads, elapsed_s),
            write: Way::of(&writes, elapsed_s),
            all: Way::of(&all, elapsed_s),
            fsyncs: outcomes.iter().map(|outcome| outcome.fsyncs).sum(),
            submissions: Some(outcomes.iter().map(|outcome| outcome.submissions).sum()),
            depth: Some(depth(outcomes)),
            together: None,
            used,
            resident_before: None,
            resident_after: None,
            late_max_s: None,
            unanswered: None,
        },
        reads,
        writes,
        calls,
    }
}
