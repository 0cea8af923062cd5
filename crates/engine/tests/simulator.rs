//! A seeded random program of file ops against a model in memory: on the simulator with all its faults, and on every
//! other engine without. A failing seed names itself; `PROACTOR_SEED=n` runs that one alone. `fuzz_programs` tries new
//! seeds; one that fails becomes one of `FOUND`.

// Tests run on the newest Rust.
#![allow(clippy::incompatible_msrv)]

#[path = "simulator/model.rs"]
mod model;
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use model::{Program, Rules};
use proactor_engine::{Config, Engine, SimConfig};
use std::path::Path;

/// Programs per test: what runs in about a second in a debug build.
const SIM_SEEDS: u64 = 400;
const ENGINE_SEEDS: u64 = 12;
const STEPS: usize = 60;
/// Seeds of new programs that have failed once.
const FOUND: &[u64] = &[];
/// Of a disk that gets full while a program runs.
const SPACE_BYTES: u64 = 100_000;
/// Offsets that can be neither read nor written.
const BAD: (u64, u64) = (9_000, 9_512);

/// Says which seed has failed, when it has.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was seed {0}: replay it with PROACTOR_SEED={0}", self.0);
        }
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("PROACTOR_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}

fn directory(parent: &str) -> tempfile::TempDir {
    let parent = if Path::new(parent).is_dir() {
        parent
    } else {
        env!("CARGO_TARGET_TMPDIR")
    };
    tempfile::tempdir_in(parent).expect("a directory for the program's files")
}

/// Runs the program of this seed, and gives its completions in their order.
fn run((config, depth): (Config, u32), rules: Rules, seed: u64, parent: &str) -> Vec<String> {
    let _seed = Seed(seed);
    let dir = directory(parent);
    let mut program = Program::new(config.depth(depth), depth, rules, seed, dir.path());
    for _ in 0..STEPS {
        program.step();
    }
    program.finish()
}

fn faulty(seed: u64) -> (Config, u32) {
    let sim = SimConfig::new(seed)
        .short_rate(60)
        .error_rate(30)
        .late_cancel_rate(100)
        .reorder(true);
    let config = Config::default().engine(Engine::Sim).sim(sim);
    // Small queues too, so that much waits in the backlog.
    (config.inline(seed.is_multiple_of(4)), 1 << (seed % 7))
}

/// A disk with faults that stay: each op has to meet them, so none is tried in place.
fn worn(seed: u64) -> (Config, u32) {
    let sim = SimConfig::new(seed)
        .late_cancel_rate(100)
        .reorder(true)
        .space_bytes(SPACE_BYTES)
        .bad_range(BAD);
    let config = Config::default().engine(Engine::Sim).sim(sim);
    (config.inline(false), 1 << (seed % 7))
}

#[test]
fn model_and_simulator_agree_under_faults() {
    for seed in seeds(SIM_SEEDS) {
        run(faulty(seed), Rules::Faults, seed, "/dev/shm");
    }
}

#[test]
fn faults_that_stay_are_met_by_every_op() {
    for seed in seeds(SIM_SEEDS / 2) {
        run(worn(seed), Rules::Lasting { bad: BAD }, seed, "/dev/shm");
    }
}

fn program_of(seed: u64) {
    match seed % 3 {
        0 => run(worn(seed), Rules::Lasting { bad: BAD }, seed, "/dev/shm"),
        _ => run(faulty(seed), Rules::Faults, seed, "/dev/shm"),
    };
}

#[test]
fn seeds_that_were_found() {
    FOUND.iter().copied().for_each(program_of);
}

#[test]
#[ignore = "new seeds: make fuzz"]
fn fuzz_programs() {
    seeds::each(program_of);
}

#[test]
fn same_seed_same_run() {
    for seed in seeds(20) {
        let [first, second] = [0; 2].map(|_| run(faulty(seed), Rules::Faults, seed, "/dev/shm"));
        assert_eq!(first, second, "seed {seed}");
    }
    if std::env::var_os("PROACTOR_SEED").is_none() {
        let [one, other] = [1, 2].map(|seed| run(faulty(seed), Rules::Faults, seed, "/dev/shm"));
        assert_ne!(one, other, "seeds make no difference");
    }
}

fn without_faults(engine: Engine) {
    for seed in seeds(ENGINE_SEEDS) {
        for inline in [false, true] {
            let config = Config::default().engine(engine).inline(inline);
            match config.clone().build() {
                Ok(_) => drop(run(
                    (config, 1 << (seed % 5)),
                    Rules::Exact,
                    seed,
                    env!("CARGO_TARGET_TMPDIR"),
                )),
                Err(e) => return eprintln!("SKIPPED without_faults: needs {engine}: {e}"),
            }
        }
    }
}

#[test]
fn io_uring_agrees_with_the_model() {
    without_faults(Engine::IoUring);
}

#[test]
fn linux_aio_agrees_with_the_model() {
    without_faults(Engine::LinuxAio);
}

#[test]
fn posix_aio_agrees_with_the_model() {
    without_faults(Engine::PosixAio);
}

#[test]
fn threads_agree_with_the_model() {
    without_faults(Engine::Threads);
}

#[test]
fn simulator_without_faults_agrees_with_the_model() {
    without_faults(Engine::Sim);
}
