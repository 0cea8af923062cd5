//! Contents of the blocks: bytes that no device can compress, and that show where and when they were written.
//!
//! Every 512 bytes start with the generation they were written in (0: when the file was made); the rest is a
//! function of seed, generation and offset. So any transfer of whole sectors can be checked by itself.

/// Size of a sector in bytes, which divides offsets and lengths: the smallest that O_DIRECT takes anywhere.
pub const SECTOR_BYTES: usize = 512;
const WORD_BYTES: usize = 8;

/// A sector whose bytes are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// Offset of the sector in the file.
    pub offset: u64,
}

/// Fills `buffer`, which starts at `offset` of the file.
pub fn fill(buffer: &mut [u8], seed: u64, generation: u64, offset: u64) {
    for (i, sector) in buffer.chunks_mut(SECTOR_BYTES).enumerate() {
        let mut words = words(seed, generation, offset + (i * SECTOR_BYTES) as u64);
        for (n, place) in sector.chunks_mut(WORD_BYTES).enumerate() {
            let word = if n == 0 { generation } else { words.next() };
            place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
        }
    }
}

/// Checks that each sector that was read is of one of the generations from `oldest` to `newest`.
///
/// # Errors
/// The first sector that is not.
pub fn check(
    buffer: &[u8],
    seed: u64,
    generations: std::ops::RangeInclusive<u64>,
    offset: u64,
) -> Result<(), Wrong> {
    for (i, sector) in buffer.chunks(SECTOR_BYTES).enumerate() {
        let at = offset + (i * SECTOR_BYTES) as u64;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let mut found = sector.chunks(WORD_BYTES).map(word);
        let generation = found.next().flatten().filter(|g| generations.contains(g));
        let Some(generation) = generation else {
            return Err(Wrong { offset: at });
        };
        let mut words = words(seed, generation, at);
        if !found.all(|word| word == Some(words.next())) {
            return Err(Wrong { offset: at });
        }
    }
    Ok(())
}

/// Maps each number to one that looks random (the finaliser of splitmix64).
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

fn words(seed: u64, generation: u64, offset: u64) -> Words {
    Words(mix(seed ^ mix(generation ^ mix(offset))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_found() {
        let mut block = vec![0; 4096];
        fill(&mut block, 1, 3, 8192);
        assert_eq!(check(&block, 1, 0..=3, 8192), Ok(()));
        // A block may be of several rounds.
        fill(&mut block[512..1024], 1, 2, 8192 + 512);
        assert_eq!(check(&block, 1, 0..=3, 8192), Ok(()));
    }

    #[test]
    fn what_was_not_is_told() {
        let mut block = vec![0; 4096];
        assert_eq!(check(&block, 1, 0..=3, 0), Err(Wrong { offset: 0 }), "zeros");
        fill(&mut block, 1, 3, 8192);
        assert_eq!(
            check(&block, 1, 0..=3, 4096),
            Err(Wrong { offset: 4096 }),
            "elsewhere"
        );
        assert_eq!(
            check(&block, 2, 0..=3, 8192),
            Err(Wrong { offset: 8192 }),
            "another seed"
        );
        assert_eq!(
            check(&block, 1, 0..=2, 8192),
            Err(Wrong { offset: 8192 }),
            "too new"
        );
        assert_eq!(
            check(&block, 1, 4..=5, 8192),
            Err(Wrong { offset: 8192 }),
            "too old"
        );
        block[4095] ^= 1;
        assert_eq!(
            check(&block, 1, 0..=3, 8192),
            Err(Wrong { offset: 8192 + 3584 }),
            "one bit"
        );
    }

    /// Checks that all 256 values of a byte are about as frequent.
    #[test]
    fn it_looks_like_chance() {
        let mut block = vec![0; 1 << 20];
        fill(&mut block, 7, 0, 0);
        let mut counts = [0u32; 256];
        block.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let expected = block.len() as f64 / 256.0;
        // The stamps are zeros: 1.6 % more of those.
        assert!(counts[1..]
            .iter()
            .all(|c| (f64::from(*c) / expected - 1.0).abs() < 0.15));
        assert!(f64::from(counts[0]) / expected < 6.0);
    }
}
