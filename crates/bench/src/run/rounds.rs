//! Every subject once a round, each round in another order. Knows nothing of what a round does.

use super::clock::{Clock, Progress};
use crate::counters::{Calls, Seen};
use crate::data;
use crate::report::{CellReport, Counted, Distribution, Round};
use crate::subject::Subject;
use crate::tally::Tally;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is to be measured, and how often.
pub(crate) struct Schedule<'a> {
    pub subjects: Vec<Subject>,
    /// How long a round of each takes, where that is known.
    pub planned: Vec<Option<Duration>>,
    pub rounds: u32,
    /// Whether there is one more round, whose system calls are counted.
    pub counting: bool,
    pub seed: u64,
    pub stop: &'a AtomicBool,
}

/// A round before it is a number.
pub(crate) struct Raw {
    pub round: Round,
    pub reads: Tally,
    pub writes: Tally,
    pub calls: Option<(Calls, Option<Seen>)>,
}

/// What is known of one subject so far.
#[derive(Default)]
struct Kept {
    rounds: Vec<Round>,
    reads: Tally,
    writes: Tally,
    counted: Option<Counted>,
    failed: Option<String>,
}

impl Schedule<'_> {
    /// `one` is a round of the subject with this number; its second argument is whether to count.
    pub fn measure(
        self,
        told: &mut dyn FnMut(&Progress),
        one: &mut dyn FnMut(usize, bool) -> Result<Raw, String>,
    ) -> Vec<CellReport> {
        let count = self.subjects.len();
        let rounds = self.rounds + u32::from(self.counting);
        let mut clock = Clock::new(&self.planned, rounds);
        let mut kept: Vec<Kept> = (0..count).map(|_| Kept::default()).collect();
        for number in 0..rounds {
            let counts = number == self.rounds;
            for index in shuffled(count, self.seed, number) {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                if kept[index].failed.is_some() {
                    clock.skip(index);
                    continue;
                }
                let which = match counts {
                    true => "counting".into(),
                    false => format!("round {}/{}", number + 1, self.rounds),
                };
                let subject = &self.subjects[index];
                let what = format!("{which}: {}, {}", subject.contender(), subject.work());
                told(&clock.progress(what));
                let begun = Instant::now();
                let raw = one(index, counts);
                clock.took(index, begun.elapsed());
                if !self.stop.load(Ordering::Relaxed) {
                    kept[index].take(raw, counts);
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
                    ios: raw.round.all.ios,
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

/// The numbers below `count` in an order that differs by round.
fn shuffled(count: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|i| data::mix(seed ^ data::mix(u64::from(round) << 32 | *i as u64)));
    order
}
