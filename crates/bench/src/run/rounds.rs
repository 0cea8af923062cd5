//! Rounds of subjects, each round in another order. This module does not know what a round does.

use super::clock::{Clock, Progress};
use crate::counters::{Calls, Seen};
use crate::data;
use crate::report::{CellReport, Counted, Distribution, Round};
use crate::subject::Subject;
use crate::tally::Tally;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Subjects to measure, and the number of rounds.
pub(crate) struct Schedule<'a> {
    pub subjects: Vec<Subject>,
    /// Duration of a round of each, where that is known.
    pub planned: Vec<Option<Duration>>,
    /// Numbers of subjects that follow each other and run at once.
    pub groups: Vec<usize>,
    pub rounds: u32,
    /// True if there is one more round, whose system calls are counted.
    pub counting: bool,
    pub seed: u64,
    pub stop: &'a AtomicBool,
}

/// A round before it is converted to numbers.
pub(crate) struct Raw {
    pub round: Round,
    pub reads: Tally,
    pub writes: Tally,
    pub calls: Option<(Calls, Option<Seen>)>,
}

/// Results of one subject so far.
#[derive(Default)]
struct Kept {
    rounds: Vec<Round>,
    reads: Tally,
    writes: Tally,
    counted: Option<Counted>,
    failed: Option<String>,
}

impl Schedule<'_> {
    /// Does the same as [`measure`](Self::measure) where each subject runs alone.
    pub fn measure_each(
        self,
        on_progress: &mut dyn FnMut(&Progress),
        one: &mut dyn FnMut(usize, bool) -> Result<Raw, String>,
    ) -> Vec<CellReport> {
        self.measure(on_progress, &mut |group, counts| {
            assert_eq!(group.len(), 1, "alone");
            one(group.start, counts).map(|raw| vec![raw])
        })
    }

    /// Measures. `one` runs a round of the subjects with these numbers; its second argument is true for
    /// counting.
    pub fn measure(
        self,
        on_progress: &mut dyn FnMut(&Progress),
        one: &mut dyn FnMut(Range<usize>, bool) -> Result<Vec<Raw>, String>,
    ) -> Vec<CellReport> {
        let count = self.subjects.len();
        assert_eq!(self.groups.iter().sum::<usize>(), count, "each is in one group");
        let starts = self.groups.iter().scan(0, |next, size| {
            let start = *next;
            *next += size;
            Some(start..*next)
        });
        let groups: Vec<Range<usize>> = starts.collect();
        let rounds = self.rounds + u32::from(self.counting);
        let mut clock = Clock::new(&self.planned, rounds);
        let mut kept: Vec<Kept> = (0..count).map(|_| Kept::default()).collect();
        for number in 0..rounds {
            let counts = number == self.rounds;
            for place in shuffled(groups.len(), self.seed, number) {
                let group = groups[place].clone();
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                if group.clone().any(|index| kept[index].failed.is_some()) {
                    group.for_each(|index| clock.skip(index));
                    continue;
                }
                let which = match counts {
                    true => "counting".into(),
                    false => format!("round {}/{}", number + 1, self.rounds),
                };
                let subject = &self.subjects[group.start];
                let what = format!("{which}: {}, {}", subject.contender(), subject.work());
                on_progress(&clock.progress(what));
                let begun = Instant::now();
                let raws = one(group.clone(), counts);
                let took = begun.elapsed() / group.len() as u32;
                group.clone().for_each(|index| clock.took(index, took));
                if self.stop.load(Ordering::Relaxed) {
                    continue;
                }
                match raws {
                    Ok(raws) => {
                        let each = group.zip(raws);
                        each.for_each(|(index, raw)| kept[index].take(Ok(raw), counts));
                    }
                    Err(why) => group.for_each(|index| kept[index].take(Err(why.clone()), counts)),
                }
            }
        }
        let reports = self.subjects.into_iter().zip(kept);
        reports.map(|(subject, kept)| kept.report(subject)).collect()
    }
}

impl Kept {
    fn take(&mut self, raw: Result<Raw, String>, counted: bool) {
        match raw {
            Err(why) => self.failed = Some(why),
            Ok(raw) if counted => {
                self.counted = raw.calls.map(|(calls, seen)| Counted {
                    ios: raw.round.ops_of_costs(),
                    elapsed_s: raw.round.elapsed_s,
                    calls,
                    seen,
                });
            }
            Ok(raw) => {
                self.reads.add(&raw.reads);
                self.writes.add(&raw.writes);
                self.rounds.push(raw.round);
            }
        }
    }

    fn report(self, subject: Subject) -> CellReport {
        CellReport {
            cell: subject,
            read_latency: Distribution::of(&self.reads),
            write_latency: Distribution::of(&self.writes),
            rounds: self.rounds,
            counted: self.counted,
            failed: self.failed,
        }
    }
}

/// Returns the numbers below `count` in an order that differs by round.
fn shuffled(count: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|i| data::mix(seed ^ data::mix(u64::from(round) << 32 | *i as u64)));
    order
}
