//! The cells of a plan, round by round.

use super::clock::Progress;
use super::rounds::{Raw, Schedule};
use super::Plan;
use crate::cache::{self, Resident};
use crate::counters::{Calls, Method, Seen, Tracer};
use crate::data;
use crate::engines::{self, Gate, Outcome, Part, Shared};
use crate::job::{Cache, Cell, Rw};
use crate::report::{CellReport, Depth, Round, Way};
use crate::subject::Subject;
use crate::tally::Tally;
use crate::target::Target;
use crate::usage::{self, Mark};
use crate::work::{Direction, Sequence};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Session<'a> {
    pub plan: &'a Plan,
    pub target: Target,
    pub stop: &'a AtomicBool,
    pub device: Option<String>,
    /// Of what is written next.
    pub generation: u64,
    pub known_threads: Vec<i32>,
    /// How system calls are counted, if they are.
    pub method: Option<Method>,
}

impl Session<'_> {
    pub fn measure(&mut self, told: &mut dyn FnMut(&Progress)) -> Vec<CellReport> {
        let plan = self.plan;
        let schedule = Schedule {
            subjects: plan.cells.iter().cloned().map(Subject::Io).collect(),
            planned: plan.cells.iter().map(Cell::planned).collect(),
            rounds: plan.rounds,
            counting: self.method.is_some(),
            seed: plan.seed,
            stop: self.stop,
        };
        schedule.measure(told, &mut |index, counts| self.round(&plan.cells[index], counts))
    }

    fn round(&mut self, cell: &Cell, counting: bool) -> Result<Raw, String> {
        usage::wait_for_threads_to_end(&self.known_threads);
        if cell.rw.writes() {
            self.generation += 1;
        }
        let files = self.files(cell)?;
        self.prepare_cache(cell, &files)
            .map_err(|e| format!("preparing the page cache: {e}"))?;
        let sequences: Vec<Sequence> = (0..cell.numjobs)
            .map(|job| {
                Sequence::new(cell.rw, self.plan.seed, job, cell.size, cell.bs)
                    .mix_read(cell.rwmixread)
                    .independent(cell.norandommap)
            })
            .collect();
        let shared: Vec<Shared> = (0..cell.numjobs).map(|_| Shared::new(cell)).collect();
        let resident_before = resident(&files, cell);
        // On a thread of its own, so that what it counts is this cell's threads and no others.
        let stage = || self.stage(cell, counting, &files, &sequences, &shared);
        let mut raw = thread::scope(|scope| {
            let stage = thread::Builder::new().spawn_scoped(scope, stage);
            let stage = stage.map_err(|e| format!("making a thread: {e}"))?;
            stage.join().expect("no panic")
        })?;
        raw.round.resident_before = resident_before;
        raw.round.resident_after = resident(&files, cell);
        if cell.verify && cell.rw.writes() {
            self.verify(cell, &files, &sequences, &shared)?;
        }
        Ok(raw)
    }

    fn files(&self, cell: &Cell) -> Result<Vec<Pair>, String> {
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
        (0..cell.numjobs).map(|job| pair(job).map_err(failed)).collect()
    }

    fn prepare_cache(&self, cell: &Cell, files: &[Pair]) -> std::io::Result<()> {
        if !cell.direct && cell.cache == Cache::Left {
            return Ok(());
        }
        self.target.settle()?;
        if cell.direct || cell.cache == Cache::Dropped {
            return Ok(());
        }
        let read = || {
            files.iter().try_for_each(|pair| {
                cache::warm(&pair.source, cell.size, self.stop)?;
                pair.destination
                    .iter()
                    .try_for_each(|file| cache::warm(file, cell.size, self.stop))
            })
        };
        cache::fill(read, || resident(files, cell), self.stop)
    }

    /// The cell's threads, from start to end.
    fn stage(
        &self,
        cell: &Cell,
        counting: bool,
        files: &[Pair],
        sequences: &[Sequence],
        shared: &[Shared],
    ) -> Result<Raw, String> {
        let method = self.method.filter(|_| counting);
        let mut counters = method.map(Tracer::prepare).transpose()?;
        let each = engines::threads_a_job(cell) as usize;
        let threads = each * cell.numjobs as usize;
        let gate = Gate::new(threads);
        let device = self.device.as_deref();
        thread::scope(|scope| {
            let _present = gate.enter();
            let mut workers = Vec::new();
            for job in 0..cell.numjobs as usize {
                for _ in 0..each {
                    let part = Part {
                        cell,
                        sequence: &sequences[job],
                        shared: &shared[job],
                        source: &files[job].source,
                        destination: files[job].destination.as_ref(),
                        seed: self.plan.seed,
                        generation: self.generation,
                        gate: &gate,
                        stop: self.stop,
                    };
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
            let ramp = Duration::from_millis(cell.ramp_ms);
            // What a ramp does is not measured, and so not counted.
            let mut started = if ramp.is_zero() { start() } else { Ok(None) };
            let begun = Instant::now();
            gate.begin(ramp, cell.runtime_ms.map(Duration::from_millis));
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
            let outcomes: Vec<Outcome> = outcomes?.into_iter().flatten().collect();
            let measured_from = begun + ramp;
            started?;
            Ok(summed(&outcomes, measured_from, used, counted?))
        })
    }

    /// Reads back what was written, past whatever is cached.
    fn verify(
        &self,
        cell: &Cell,
        files: &[Pair],
        sequences: &[Sequence],
        shared: &[Shared],
    ) -> Result<(), String> {
        self.target.settle().map_err(|e| format!("writing back: {e}"))?;
        let mut buffer = vec![0; cell.bs as usize];
        for (job, sequence) in sequences.iter().enumerate() {
            let written = files[job].destination.as_ref().unwrap_or(&files[job].source);
            // Without O_DIRECT, which would need an aligned buffer.
            let file = reopened(written).map_err(|e| format!("reading back: {e}"))?;
            for i in 0..shared[job].next.load(Ordering::Relaxed).min(sequence.blocks()) {
                if self.stop.load(Ordering::Relaxed) {
                    // The round is given up.
                    return Ok(());
                }
                let step = sequence.step(i);
                if step.direction == Direction::Read {
                    continue;
                }
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

fn resident(files: &[Pair], cell: &Cell) -> Option<Resident> {
    let all = files
        .iter()
        .flat_map(|pair| std::iter::once(&pair.source).chain(&pair.destination));
    all.map(|file| cache::resident(file, cell.size))
        .try_fold(Resident { pages: 0, of: 0 }, |sum, one| {
            let one = one?;
            Some(Resident {
                pages: sum.pages + one.pages,
                of: sum.of + one.of,
            })
        })
}

/// Of all threads: each has its own part of what is in flight at once.
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
            used,
            resident_before: None,
            resident_after: None,
            late_max_s: None,
        },
        reads,
        writes,
        calls,
    }
}
