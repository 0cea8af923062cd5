//! Op number `i` of a job: which way, and where. A pure function, so every engine and every thread does the same ops.

use crate::data::mix;
use crate::job::Rw;

/// One op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which way.
    pub direction: Direction,
    /// Where in the file, in bytes.
    pub offset: u64,
}

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
    /// From the source, then to the same place of the target.
    Copy,
}

/// The ops of one job.
#[derive(Debug, Clone)]
pub struct Sequence {
    rw: Rw,
    seed: u64,
    blocks: u64,
    block_bytes: u64,
    mix_read: u8,
    /// Draw each offset by itself, so that blocks come twice and others not at all.
    independent: bool,
}

impl Sequence {
    /// The ops of job number `job`. `size` has at least one block.
    pub fn new(rw: Rw, seed: u64, job: u32, size: u64, block_bytes: u64) -> Sequence {
        assert!(block_bytes > 0 && size >= block_bytes, "at least one block");
        Sequence {
            rw,
            seed: mix(seed ^ mix(u64::from(job) + 1)),
            blocks: size / block_bytes,
            block_bytes,
            mix_read: 50,
            independent: false,
        }
    }

    /// The share of reads in a mix, in percent.
    pub fn mix_read(self, percent: u8) -> Sequence {
        Sequence {
            mix_read: percent,
            ..self
        }
    }

    /// As fio's `norandommap`.
    pub fn independent(self, independent: bool) -> Sequence {
        Sequence { independent, ..self }
    }

    /// Ops that touch each block once.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Op number `i`, counted from 0 without an end.
    pub fn step(&self, i: u64) -> Step {
        if self.rw == Rw::Mixed {
            return self.step_of_mix(i);
        }
        let (pass, place) = (i / self.blocks, i % self.blocks);
        let block = match (self.rw.is_random(), self.independent) {
            (false, _) => place,
            (true, true) => scale(mix(self.seed ^ mix(i)), self.blocks),
            (true, false) => permute(place, self.blocks, self.seed ^ mix(pass)),
        };
        Step {
            direction: self.direction(i),
            offset: block * self.block_bytes,
        }
    }

    /// Reads are spread evenly among the writes, and each way goes through the file by itself.
    fn step_of_mix(&self, i: u64) -> Step {
        let reads_before = |i: u64| (u128::from(i) * u128::from(self.mix_read) / 100) as u64;
        let (reads, is_read) = (reads_before(i), reads_before(i + 1) > reads_before(i));
        let (direction, number) = match is_read {
            true => (Direction::Read, reads),
            false => (Direction::Write, i - reads),
        };
        Step {
            direction,
            offset: number % self.blocks * self.block_bytes,
        }
    }

    fn direction(&self, i: u64) -> Direction {
        match self.rw {
            Rw::Read | Rw::RandRead => Direction::Read,
            Rw::Write | Rw::RandWrite => Direction::Write,
            Rw::Copy => Direction::Copy,
            Rw::RandRw if scale(mix(self.seed.rotate_left(32) ^ mix(i)), 100) < u64::from(self.mix_read) => {
                Direction::Read
            }
            Rw::RandRw | Rw::Mixed => Direction::Write,
        }
    }
}

/// A number below `bound` from one below 2^64.
fn scale(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

/// Enough for every bit to depend on every other.
const FEISTEL_ROUNDS: u64 = 4;

/// The image of `place` under a permutation of the numbers below `count`.
///
/// A Feistel network permutes the numbers below the next power of four; what falls outside goes through it again, which
/// takes fewer than four turns on average and comes back inside, since a permutation only has cycles.
fn permute(place: u64, count: u64, key: u64) -> u64 {
    let half_bits = (u64::BITS - (count - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half_bits) - 1;
    let mut value = place;
    loop {
        let (mut left, mut right) = (value >> half_bits, value & mask);
        for round in 0..FEISTEL_ROUNDS {
            (left, right) = (right, left ^ (mix(right ^ key.wrapping_add(round << 56)) & mask));
        }
        value = left << half_bits | right;
        if value < count {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(sequence: &Sequence, range: std::ops::Range<u64>) -> Vec<u64> {
        range.map(|i| sequence.step(i).offset / 4096).collect()
    }

    #[test]
    fn each_block_once_a_pass() {
        for count in [1, 2, 3, 5, 16, 17, 1000, 4097] {
            let sequence = Sequence::new(Rw::RandRead, 7, 0, count * 4096 + 100, 4096);
            for pass in 0..3 {
                let mut seen = blocks(&sequence, pass * count..(pass + 1) * count);
                seen.sort_unstable();
                assert_eq!(seen, (0..count).collect::<Vec<_>>(), "{count}");
            }
        }
    }

    #[test]
    fn the_order_is_chance_and_the_same_again() {
        let sequence = Sequence::new(Rw::RandRead, 7, 0, 4096 * 4096, 4096);
        let first = blocks(&sequence, 0..4096);
        assert_eq!(first, blocks(&sequence.clone(), 0..4096));
        assert_ne!(first, blocks(&sequence, 4096..8192), "another pass");
        assert_ne!(
            first,
            blocks(&Sequence::new(Rw::RandRead, 8, 0, 4096 * 4096, 4096), 0..4096)
        );
        assert_ne!(
            first,
            blocks(&Sequence::new(Rw::RandRead, 7, 1, 4096 * 4096, 4096), 0..4096)
        );
        let follows = first.windows(2).filter(|w| w[1] == w[0] + 1).count();
        assert!(follows < 10, "{follows} blocks stand behind the one before");
        let jump: u64 = first.windows(2).map(|w| w[1].abs_diff(w[0])).sum::<u64>() / 4095;
        assert!(
            (1200..1530).contains(&jump),
            "a third of the file on average: {jump}"
        );
    }

    #[test]
    fn in_order() {
        let sequence = Sequence::new(Rw::Write, 7, 0, 3 * 4096, 4096);
        assert_eq!(blocks(&sequence, 0..7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(sequence.step(0).direction, Direction::Write);
    }

    #[test]
    fn a_mixture_in_order() {
        let sequence = Sequence::new(Rw::Mixed, 7, 0, 8 * 4096, 4096).mix_read(25);
        let steps: Vec<Step> = (0..16).map(|i| sequence.step(i)).collect();
        let of = |direction| -> Vec<u64> {
            let those = steps.iter().filter(|step| step.direction == direction);
            those.map(|step| step.offset / 4096).collect()
        };
        assert_eq!(of(Direction::Read), [0, 1, 2, 3]);
        assert_eq!(of(Direction::Write), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]);
    }

    #[test]
    fn mixture() {
        for percent in [0, 30, 70, 100] {
            let sequence = Sequence::new(Rw::RandRw, 7, 0, 1 << 20, 4096).mix_read(percent);
            let reads = (0..10_000)
                .filter(|i| sequence.step(*i).direction == Direction::Read)
                .count();
            let expected = usize::from(percent) * 100;
            assert!(reads.abs_diff(expected) < 200, "{reads} of {expected}");
        }
    }

    #[test]
    fn independent() {
        let sequence = Sequence::new(Rw::RandRead, 7, 0, 4096 * 1000, 4096).independent(true);
        let mut seen = blocks(&sequence, 0..1000);
        seen.sort_unstable();
        seen.dedup();
        assert!(
            (600..665).contains(&seen.len()),
            "1 - 1/e of them: {}",
            seen.len()
        );
    }
}
