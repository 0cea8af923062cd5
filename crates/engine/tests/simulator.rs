//! A seeded random program of file ops against a model in memory: on the simulator with all its faults, and on every
//! other engine without. A failing seed names itself; `PROACTOR_SEED=n` runs that one alone.

#[path = "simulator/model.rs"]
mod model;

use model::{Program, Rules};
use proactor::{Config, Driver, Engine, SimConfig};
use std::path::Path;

/// Programs per test: what runs in about a second in a debug build.
const SIM_SEEDS: u64 = 400;
const ENGINE_SEEDS: u64 = 12;
const STEPS: usize = 60;

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
fn run(driver: Driver, rules: Rules, seed: u64, parent: &str) -> Vec<String> {
    let _seed = Seed(seed);
    let dir = directory(parent);
    let mut program = Program::new(driver, rules, seed, dir.path());
    for _ in 0..STEPS {
        program.step();
    }
    program.finish()
}

fn faulty(seed: u64) -> Driver {
    let sim = SimConfig {
        seed,
        short_rate: 60,
        error_rate: 30,
        late_cancel_rate: 100,
        reorder: true,
    };
    let config = Config::default().engine(Engine::Sim).sim(sim);
    // Small queues too, so that much waits in the backlog.
    config
        .inline(seed.is_multiple_of(4))
        .depth(1 << (seed % 7))
        .build()
        .expect("the simulator")
}

#[test]
fn model_and_simulator_agree_under_faults() {
    for seed in seeds(SIM_SEEDS) {
        run(faulty(seed), Rules::Faults, seed, "/dev/shm");
    }
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
            let config = Config::default()
                .engine(engine)
                .inline(inline)
                .depth(1 << (seed % 5));
            match config.build() {
                Ok(driver) => drop(run(driver, Rules::Exact, seed, env!("CARGO_TARGET_TMPDIR"))),
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
