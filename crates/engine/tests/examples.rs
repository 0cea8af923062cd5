//! The examples run, on every engine: they are what the documentation promises.

use std::path::PathBuf;
use std::process::Command;

/// `cargo test` builds the examples beside the folder of this test's own binary.
fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().expect("a test has a path");
    let profile = deps.ancestors().nth(2).expect("it lies in PROFILE/deps");
    profile.join("examples").join(name)
}

fn run(name: &str) {
    for engine in ["io_uring", "linux_aio", "posix_aio", "threads", "sim"] {
        let reason = proactor::probe::report(engine.parse().expect("a known name")).usable;
        if let Err(reason) = reason {
            // Only the ring may be missing: a kernel or a container may forbid it.
            assert_eq!(engine, "io_uring", "{reason}");
            continue;
        }
        let output = Command::new(example(name))
            .env("PROACTOR_ENGINE", engine)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo test has built the example");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} on {engine}: {errors}");
        assert!(!output.stdout.is_empty(), "{name} on {engine} says nothing");
    }
}

#[test]
fn read_file() {
    run("read_file");
}

#[test]
fn linked_batch() {
    run("linked_batch");
}

#[test]
fn poll() {
    run("poll");
}
