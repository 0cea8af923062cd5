//! The same programs with seeds that nobody has tried before; one that fails becomes one of `FOUND`.

#[path = "../../../../fuzz/seeds.rs"]
mod seeds;

use super::{act, check, check_on, direct, reading, Act};
use proactor_file::Options;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

const FOUND: &[u64] = &[];
/// Tried on each run.
const FIXED: std::ops::Range<u64> = 0..40;

fn program_of(seed: u64) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let acts = prop::collection::vec(prop_oneof![2 => act(), 1 => reading()], 1..80);
    let sizes = (
        prop::sample::select(vec![0_usize, 1, 2, 3, 7, 8, 16, 24, 100, 4096]),
        0..900_usize,
    );
    let choices = (acts, sizes, any::<(bool, bool, bool)>());
    let (acts, (block, length), (fails, is_direct, at_end)) = choices
        .new_tree(&mut runner)
        .expect("nothing is filtered")
        .current();
    let error_rate = if fails { 60 } else { 0 };
    if at_end {
        let writes = |act: &Act| matches!(act, Act::Write(_) | Act::Flush | Act::Restart);
        let writes: Vec<Act> = acts.into_iter().filter(writes).collect();
        return check(seed, 0, block.max(1), true, None, &writes);
    }
    let start = (0..length).map(|at| if at % 11 == 0 { b'\n' } else { (at * 7 % 251) as u8 });
    let options = Options {
        position: Some(0),
        block,
        direct: direct().filter(|_| is_direct),
        reads_ahead: seed.is_multiple_of(2) && block > 0,
        ..Options::default()
    };
    check_on(seed, error_rate, start.collect(), &options, &acts);
}

#[test]
fn seeds_that_were_found_and_some_more() {
    FOUND.iter().copied().chain(FIXED).for_each(program_of);
}

#[test]
#[ignore = "new seeds: make fuzz"]
fn fuzz_buffers() {
    seeds::each(program_of);
}
