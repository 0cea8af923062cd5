//! Runs a test with new seeds for a while. `PROACTOR_FUZZ_SECONDS` says for how long, `PROACTOR_FUZZ_SEED` which is the
//! first of them, and `PROACTOR_SEED` runs that one alone. A seed that fails is named.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Names the seed if its test panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FAILED SEED {0}: PROACTOR_SEED={0} repeats it", self.0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

/// Runs a test with these seeds, or with that of `PROACTOR_SEED` alone.
#[allow(dead_code)]
pub fn among(seeds: impl Iterator<Item = u64>, mut test: impl FnMut(u64)) {
    let one = number("PROACTOR_SEED");
    for seed in one.into_iter().chain(seeds.filter(|_| one.is_none())) {
        let _named = Named(seed);
        test(seed);
    }
}

/// Runs a test with new seeds.
pub fn each(mut test: impl FnMut(u64)) {
    let mut run = |seed| {
        let _named = Named(seed);
        test(seed);
    };
    if let Some(seed) = number("PROACTOR_SEED") {
        return run(seed);
    }
    let first =
        number("PROACTOR_FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one("a new seed") >> 1);
    let seconds = number("PROACTOR_FUZZ_SECONDS").unwrap_or(1);
    let started = Instant::now();
    let mut count = 0;
    while count == 0 || started.elapsed() < Duration::from_secs(seconds) {
        run(first.wrapping_add(count));
        count += 1;
    }
    println!("{count} seeds from {first} on");
}
