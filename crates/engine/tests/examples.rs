//! The examples run, on every engine: they are what the documentation promises.

mod built;

use built::example;
use std::process::Command;

fn run(name: &str) {
    run_with(name, &[]);
}

fn run_with(name: &str, args: &[&str]) {
    for engine in ["io_uring", "linux_aio", "posix_aio", "threads", "sim"] {
        let reason = proactor_engine::probe::report(engine.parse().expect("a known name")).usable;
        if let Err(reason) = reason {
            // Only the ring may be missing: a kernel or a container may forbid it.
            assert_eq!(engine, "io_uring", "{reason}");
            continue;
        }
        let output = Command::new(example(name))
            .args(args)
            .env("PROACTOR_ENGINE", engine)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("it is built");
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

#[test]
fn bounded_reads() {
    run("bounded_reads");
}

#[test]
fn log_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    run_with("log_writer", &[log.to_str().expect("a name in UTF-8"), "10"]);
    let written = std::fs::read_to_string(log).expect("a log");
    assert_eq!(written.lines().count(), 10);
    assert!(
        written.starts_with("record          0 of         10: "),
        "{written}"
    );
}

#[test]
fn random_reads() {
    // Where this test's own binary lies, blocks can be read past the page cache; in memory they cannot.
    let file = std::env::current_exe().expect("a test has a path");
    run_with("random_reads", &[file.to_str().expect("a name in UTF-8"), "200"]);
}
