//! Op number `i` of a job: its direction and offset. A pure function, so that every engine and every thread
//! does the same ops.

use crate::data::mix;
use crate::job::Rw;

/// One op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Direction of the op.
    pub direction: Direction,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Direction in which the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
    /// From the source, then to the same offset of the target.
    Copy,
}

/// The division of a file into blocks of one size.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    count: u64,
    bytes: u64,
}

impl Blocks {
    fn of(size: u64, bytes: u64) -> Blocks {
        assert!(bytes > 0 && size >= bytes, "at least one block");
        Blocks {
            count: size / bytes,
            bytes,
        }
    }

    fn step(self, direction: Direction, block: u64) -> Step {
        Step {
            direction,
            offset: block * self.bytes,
            bytes: self.bytes,
        }
    }
}

/// The ops of one job.
#[derive(Debug, Clone)]
pub struct Sequence {
    rw: Rw,
    seed: u64,
    blocks: Blocks,
    /// Blocks of the writes, where reads and writes go through the file separately.
    apart: Option<Blocks>,
    mix_read: u8,
    /// True to draw each offset independently, so that some blocks come twice and others not at all.
    independent: bool,
}

impl Sequence {
    /// Creates the ops of job number `job`. `size` has at least one block.
    pub fn new(rw: Rw, seed: u64, job: u32, size: u64, block_bytes: u64) -> Sequence {
        let blocks = Blocks::of(size, block_bytes);
        Sequence {
            rw,
            seed: mix(seed ^ mix(u64::from(job) + 1)),
            blocks,
            apart: (rw == Rw::Mixed).then_some(blocks),
            mix_read: 50,
            independent: false,
        }
    }

    /// Sets the share of reads in a mix, in percent.
    pub fn mix_read(self, percent: u8) -> Sequence {
        Sequence {
            mix_read: percent,
            ..self
        }
    }

    /// Sets fio's `norandommap`.
    pub fn independent(self, independent: bool) -> Sequence {
        Sequence { independent, ..self }
    }

    /// Makes the reads and the writes of a mixture go through the file separately, with writes of this size.
    pub fn ways_apart(self, size: u64, write_bytes: u64) -> Sequence {
        assert!(self.rw.is_mixed(), "others have one way");
        Sequence {
            apart: Some(Blocks::of(size, write_bytes)),
            ..self
        }
    }

    /// Returns the number of blocks in a pass of the writes.
    pub fn blocks_to_write(&self) -> u64 {
        self.apart.unwrap_or(self.blocks).count
    }

    /// Returns the number of ops that make up this many bytes. The last one may go beyond them.
    pub fn ops(&self, bytes: u64) -> u64 {
        let Some(writes) = self.apart else {
            return bytes.div_ceil(self.blocks.bytes);
        };
        let done = |ops: u64| {
            let reads = self.reads_before(ops);
            u128::from(reads) * u128::from(self.blocks.bytes)
                + u128::from(ops - reads) * u128::from(writes.bytes)
        };
        let (mut less, mut enough) = (0, bytes.div_ceil(self.blocks.bytes.min(writes.bytes)));
        while less < enough {
            let middle = less + (enough - less) / 2;
            match done(middle) < u128::from(bytes) {
                true => less = middle + 1,
                false => enough = middle,
            }
        }
        enough
    }

    /// Returns op number `i`, counted from 0 without an end.
    pub fn step(&self, i: u64) -> Step {
        if self.apart.is_some() {
            let (direction, number) = self.place_of_mix(i);
            return self.step_of(direction, number);
        }
        let (pass, place) = (i / self.blocks.count, i % self.blocks.count);
        let block = match self.rw.is_random() {
            false => place,
            true => self.drawn(self.blocks, self.seed, i, pass, place),
        };
        self.blocks.step(self.direction(i), block)
    }

    /// Returns read or write number `number`, where the two go through the file separately.
    pub fn step_of(&self, direction: Direction, number: u64) -> Step {
        let (blocks, seed) = match (direction, self.apart) {
            (Direction::Write, Some(writes)) => (writes, self.seed.rotate_left(16)),
            _ => (self.blocks, self.seed),
        };
        let (pass, place) = (number / blocks.count, number % blocks.count);
        let block = match self.rw.is_random() {
            false => place,
            true => self.drawn(blocks, seed, number, pass, place),
        };
        blocks.step(direction, block)
    }

    fn drawn(&self, blocks: Blocks, seed: u64, number: u64, pass: u64, place: u64) -> u64 {
        match self.independent {
            true => scale(mix(seed ^ mix(number)), blocks.count),
            false => permute(place, blocks.count, seed ^ mix(pass)),
        }
    }

    /// Returns the direction of op number `i`, and its number among the ops of that direction.
    ///
    /// In order, the reads are spread evenly among the writes. At random, every hundred ops have as many
    /// reads as the share says.
    fn place_of_mix(&self, i: u64) -> (Direction, u64) {
        let share = u64::from(self.mix_read);
        if self.rw == Rw::RandRw {
            let rank = permute(i % MIX, MIX, self.seed.rotate_left(32) ^ mix(i / MIX));
            return match rank < share {
                true => (Direction::Read, i / MIX * share + rank),
                false => (Direction::Write, i / MIX * (MIX - share) + rank - share),
            };
        }
        let reads = self.reads_before(i);
        match self.reads_before(i + 1) > reads {
            true => (Direction::Read, reads),
            false => (Direction::Write, i - reads),
        }
    }

    /// Returns the number of reads before op number `i`.
    fn reads_before(&self, i: u64) -> u64 {
        let share = u64::from(self.mix_read);
        if self.rw != Rw::RandRw {
            return (u128::from(i) * u128::from(share) / u128::from(MIX)) as u64;
        }
        let whole = i / MIX * MIX;
        let is_read = |i: &u64| self.place_of_mix(*i).0 == Direction::Read;
        i / MIX * share + (whole..i).filter(is_read).count() as u64
    }

    /// Returns the direction of op number `i`.
    pub fn direction(&self, i: u64) -> Direction {
        match self.rw {
            _ if self.apart.is_some() => self.place_of_mix(i).0,
            Rw::Read | Rw::RandRead => Direction::Read,
            Rw::Write | Rw::RandWrite => Direction::Write,
            Rw::Copy => Direction::Copy,
            Rw::RandRw if scale(mix(self.seed.rotate_left(32) ^ mix(i)), MIX) < u64::from(self.mix_read) => {
                Direction::Read
            }
            Rw::RandRw | Rw::Mixed => Direction::Write,
        }
    }
}

/// The number of ops among which a mixture keeps its share of reads.
const MIX: u64 = 100;

/// Scales a number below 2^64 to one below `bound`.
fn scale(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

/// Number of rounds: enough for every bit to depend on every other.
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

    /// Each way goes through its own blocks, in the shares asked for, until the bytes are done.
    #[test]
    fn ways_apart() {
        for rw in [Rw::RandRw, Rw::Mixed] {
            for (percent, read_bytes, write_bytes) in [(50, 4096, 16384), (70, 16384, 512), (3, 512, 512)] {
                let size = 64 << 14;
                let sequence = Sequence::new(rw, 7, 0, size, read_bytes)
                    .mix_read(percent)
                    .ways_apart(size, write_bytes);
                let ops = sequence.ops(size);
                let steps: Vec<Step> = (0..ops).map(|i| sequence.step(i)).collect();
                let bytes: u64 = steps.iter().map(|step| step.bytes).sum();
                assert!(
                    bytes >= size && bytes - steps[steps.len() - 1].bytes < size,
                    "{bytes}"
                );
                // Enough for the writes to go through all of their blocks.
                let pass = sequence.blocks_to_write() * MIX / u64::from(100 - percent) + MIX;
                let mut written: Vec<u64> = (0..pass)
                    .map(|i| sequence.step(i))
                    .filter(|step| step.direction == Direction::Write)
                    .map(|step| step.offset / write_bytes)
                    .collect();
                let share = written.len() as f64 / pass as f64;
                assert!((share - f64::from(100 - percent) / 100.0).abs() < 0.02, "{share}");
                written.sort_unstable();
                written.dedup();
                assert_eq!(written, (0..sequence.blocks_to_write()).collect::<Vec<_>>());
            }
        }
        let only = Sequence::new(Rw::RandRw, 7, 0, 1 << 20, 4096)
            .mix_read(100)
            .ways_apart(1 << 20, 8192);
        assert_eq!(only.ops(1 << 20), 256);
        assert!((0..500).all(|i| only.step(i).direction == Direction::Read));
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
