//! Seeded programs of sockets on a simulated kernel that does all that a kernel may do.
//!
//! A failing seed names itself, and `PROACTOR_SEED=n` runs that one alone. `fuzz_schedules` tries new seeds; one that fails becomes
//! one of `FOUND`.

mod app;
mod kinds;
mod program;
#[path = "../../../../fuzz/seeds.rs"]
mod seeds;

use app::Done;
use program::Program;
use std::hash::{BuildHasher, RandomState};

/// Programs of each test.
const SEEDS: u64 = 5000;
const SOAK_SEEDS: u64 = 100_000;
/// Seeds of new programs that have failed once.
const FOUND: &[u64] = &[650_799_188_087_642_816, 720_631_039_947_356_896];

fn run(seed: u64) -> Done {
    Program::new(seed, seed.is_multiple_of(2)).run()
}

/// Runs many programs. Together they have to meet everything, or they would prove nothing.
fn run_all(first: u64) {
    let mut all = Done::default();
    let mut count = 0;
    seeds::among((0..SEEDS).map(|seed| seed * 2 + first), |seed| {
        let done = run(seed);
        count += 1;
        all.stats += done.stats;
        all.opened += done.opened;
        all.read_by_peers += done.read_by_peers;
        all.asleep += done.asleep;
        all.long += done.long;
        all.no_slots += done.no_slots;
    });
    if count < SEEDS {
        return;
    }
    let stats = all.stats;
    let mut met = vec![
        stats.accepted,
        all.opened - stats.accepted,
        stats.closed,
        stats.direct_sends,
        stats.queued_sends,
        stats.holds,
        stats.idle_closed,
        all.read_by_peers,
        all.asleep,
        all.no_slots,
    ];
    if first == 0 {
        met.extend([stats.starved, all.long, stats.zero_copy_sends]);
    }
    assert!(met.iter().all(|&times| times > SEEDS / 50), "{all:?}");
}

#[test]
fn streams_through_a_pool() {
    run_all(0);
}

#[test]
fn streams_by_readiness() {
    run_all(1);
}

#[test]
fn seeds_that_were_found() {
    for &seed in FOUND {
        run(seed);
    }
}

#[test]
fn same_seed_same_run() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(0), run(2), "seeds make no difference");
}

#[test]
#[ignore = "new seeds: make fuzz"]
fn fuzz_schedules() {
    seeds::each(|seed| {
        run(seed);
    });
}

#[test]
#[ignore = "100,000 new seeds: make soak"]
fn soak() {
    let percent = std::env::var("PROACTOR_SOAK").map_or(100, |text| text.parse().expect("a percentage"));
    let count = (SOAK_SEEDS * percent / 100).max(1);
    let first = RandomState::new().hash_one("a new seed") >> 1;
    seeds::among(first..first + count, |seed| {
        run(seed);
    });
    println!("{count} programs from seed {first} on");
}
