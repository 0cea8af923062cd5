//! Choice of the next op of a job, for all of its threads, and of its start time. This module does not know
//! how it is done.

use super::{sleep, threads_a_job, Part, Times};
use crate::job::Cell;
use crate::work::{Direction, Sequence, Step};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Progress of a job, which its threads share.
#[derive(Debug)]
pub struct Shared {
    /// Number of the next op; unused where there is a `mixture`.
    next: AtomicU64,
    /// Progress of reads and writes, where both have a rate and the clock decides which is next.
    mixture: Option<Mutex<Mixture>>,
    /// First op that was claimed and never begun, for reads and for writes. Without a `mixture` all ops count
    /// as reads here.
    given_up: [AtomicU64; 2],
    /// Number of ops of a round; `u64::MAX` if only time ends it.
    ops: u64,
    /// Number of writes that have completed, where that matters.
    pub(super) written: AtomicU64,
    /// Number of threads that have not done their part.
    pub(super) working: AtomicU32,
}

/// Progress of the reads and the writes of a mixture.
#[derive(Debug)]
struct Mixture {
    reads: u64,
    writes: u64,
    /// Bytes of a round that are left; `None` if only time ends it.
    bytes_left: Option<u64>,
}

/// An op that this thread has claimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed {
    /// Number of the op, among those of its direction where there is a [`Mixture`].
    number: u64,
    pub step: Step,
    /// Time before which `rate_iops` does not let it begin.
    pub due: Option<Instant>,
}

impl Shared {
    /// Creates the progress of a job that has not begun.
    pub fn new(cell: &Cell, sequence: &Sequence) -> Shared {
        let bytes = (!cell.time_based).then(|| cell.bytes_a_job());
        let mixture = || {
            Mutex::new(Mixture {
                reads: 0,
                writes: 0,
                bytes_left: bytes,
            })
        };
        Shared {
            next: AtomicU64::new(0),
            mixture: cell.has_rates_of_a_mixture().then(mixture),
            given_up: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            ops: bytes.map_or(u64::MAX, |bytes| sequence.ops(bytes)),
            written: AtomicU64::new(0),
            working: AtomicU32::new(threads_a_job(cell)),
        }
    }

    /// Returns the steps that have written, in order. A step that was given up ends them.
    pub fn steps_that_wrote<'a>(&self, sequence: &'a Sequence) -> Box<dyn Iterator<Item = Step> + 'a> {
        let given_up = |way: usize| self.given_up[way].load(Ordering::Relaxed);
        if let Some(mixture) = &self.mixture {
            let writes = mixture.lock().unwrap_or_else(PoisonError::into_inner).writes;
            let begun = writes.min(given_up(way_index(Direction::Write)));
            return Box::new((0..begun).map(|number| sequence.step_of(Direction::Write, number)));
        }
        let claimed = self.next.load(Ordering::Relaxed);
        let begun = claimed.min(self.ops).min(given_up(0));
        let steps = (0..begun).map(|number| sequence.step(number));
        Box::new(steps.filter(|step| step.direction != Direction::Read))
    }
}

fn way_index(direction: Direction) -> usize {
    usize::from(direction == Direction::Write)
}

/// Returns when op number `number` of a direction with this rate may begin.
fn due(start: Instant, rate: Option<u32>, number: u64) -> Option<Instant> {
    let ns = u128::from(number) * 1_000_000_000 / u128::from(rate?.max(1));
    Some(start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
}

impl Mixture {
    /// Claims an op of the direction that the shares ask for, unless its rate makes it wait and the other may
    /// begin earlier.
    fn claim(&mut self, cell: &Cell, sequence: &Sequence, start: Instant, now: Instant) -> Option<Claimed> {
        if self.bytes_left == Some(0) {
            return None;
        }
        let next = |direction| match direction {
            Direction::Write => (
                direction,
                self.writes,
                due(start, cell.rate_iops_of_writes, self.writes),
            ),
            _ => (direction, self.reads, due(start, cell.rate_iops, self.reads)),
        };
        let wished = next(sequence.direction(self.reads + self.writes));
        let other = next(match wished.0 {
            Direction::Write => Direction::Read,
            _ => Direction::Write,
        });
        let has_both = (1..100).contains(&cell.rwmixread);
        let must_wait = wished.2.is_some_and(|due| due > now);
        let (direction, number, due) = match has_both && must_wait && other.2 < wished.2 {
            true => other,
            false => wished,
        };
        match direction {
            Direction::Write => self.writes += 1,
            _ => self.reads += 1,
        }
        let step = sequence.step_of(direction, number);
        self.bytes_left = self.bytes_left.map(|left| left.saturating_sub(step.bytes));
        Some(Claimed { number, step, due })
    }
}

impl Part<'_> {
    /// Claims the next op, unless there is none or it is too late.
    pub(super) fn claim(&self, times: &Times, now: Instant) -> Option<Claimed> {
        if times.deadline.is_some_and(|deadline| now >= deadline) || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(mixture) = &self.shared.mixture {
            let mut mixture = mixture.lock().unwrap_or_else(PoisonError::into_inner);
            return mixture.claim(self.cell, self.sequence, times.start, now);
        }
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        (number < self.shared.ops).then(|| Claimed {
            number,
            step: self.sequence.step(number),
            due: due(times.start, self.cell.rate_iops, number),
        })
    }

    /// Sleeps until a claimed op is due, and returns true if it may still begin. If not, it is given up.
    pub(super) fn may_begin(&self, claimed: Claimed, times: &Times) -> bool {
        if let Some(due) = claimed.due {
            let end = times.deadline.map_or(due, |deadline| due.min(deadline));
            sleep(end.saturating_duration_since(Instant::now()), self.stop);
        }
        let is_over = times.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let may = !is_over && !self.stop.load(Ordering::Relaxed);
        if !may {
            let way = self
                .shared
                .mixture
                .as_ref()
                .map_or(0, |_| way_index(claimed.step.direction));
            self.shared.given_up[way].fetch_min(claimed.number, Ordering::Relaxed);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Rates, Rw, Task};

    fn cell(rates: &str, rwmixread: u8) -> Cell {
        let job = Job {
            rw: vec![Rw::RandRw],
            rate_iops: rates.parse::<Rates>().unwrap(),
            rwmixread,
            ..Job::of(Task::Iops)
        };
        job.cells().remove(0)
    }

    /// Counts the ops of both directions that may begin within a second, on a clock that stands still until
    /// nothing is due.
    fn in_a_second(cell: &Cell) -> (u64, u64) {
        let sequence = Sequence::new(cell.rw, 1, 0, cell.size, cell.bs)
            .mix_read(cell.rwmixread)
            .ways_apart(cell.size, cell.write_bytes());
        let mut mixture = Mixture {
            reads: 0,
            writes: 0,
            bytes_left: None,
        };
        let start = Instant::now();
        let (mut now, mut found) = (start, (0, 0));
        for _ in 0..10_000 {
            let claimed = mixture.claim(cell, &sequence, start, now).unwrap();
            now = now.max(claimed.due.unwrap_or(now));
            if now >= start + Duration::from_secs(1) {
                break;
            }
            match claimed.step.direction {
                Direction::Write => found.1 += 1,
                _ => found.0 += 1,
            }
        }
        found
    }

    #[test]
    fn each_way_has_its_rate() {
        assert_eq!(in_a_second(&cell("300", 50)), (300, 300));
        assert_eq!(in_a_second(&cell("100,400", 50)), (100, 400));
        assert_eq!(in_a_second(&cell("100,400", 90)), (100, 400));
        assert_eq!(
            in_a_second(&cell("100,400", 100)),
            (100, 0),
            "there are no writes"
        );
        let (reads, writes) = in_a_second(&cell("100,", 50));
        assert!(
            reads <= 100 && reads + writes == 10_000,
            "writes have no bound: {reads} {writes}"
        );
    }

    #[test]
    fn a_round_ends_with_its_bytes() {
        let mut cell = cell("100,400", 50);
        (cell.time_based, cell.size, cell.bs_of_writes) = (false, 64 << 10, Some(16 << 10));
        let sequence =
            Sequence::new(cell.rw, 1, 0, cell.size, cell.bs).ways_apart(cell.size, cell.write_bytes());
        let shared = Shared::new(&cell, &sequence);
        let start = Instant::now();
        let mut mixture = shared.mixture.as_ref().unwrap().lock().unwrap();
        let steps = std::iter::from_fn(|| mixture.claim(&cell, &sequence, start, start));
        let bytes: Vec<u64> = steps.map(|claimed| claimed.step.bytes).collect();
        let all: u64 = bytes.iter().sum();
        assert!(
            all >= cell.size && all - bytes[bytes.len() - 1] < cell.size,
            "{bytes:?}"
        );
        let writes = bytes.iter().filter(|bytes| **bytes == 16 << 10).count();
        drop(mixture);
        assert_eq!(shared.steps_that_wrote(&sequence).count(), writes);
    }
}
