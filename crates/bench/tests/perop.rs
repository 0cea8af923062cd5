//! `perop` runs every case it is asked for, and says so in JSON.

use std::process::Command;

fn perop(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_perop"))
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[test]
fn every_case_is_a_line() {
    let (code, text) = perop(&[
        "--engine",
        "threads,pread",
        "--rounds",
        "1",
        "--millis",
        "1",
        "--batch",
        "4",
    ]);
    assert_eq!(code, Some(0), "{text}");
    // A nop; a read with and without inline; the plain call.
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.lines()
            .all(|line| line.starts_with(r#"{"op":""#) && line.contains(r#""ns":["#)),
        "{text}"
    );
}

#[test]
fn an_exact_number_of_ops() {
    let case = [
        "--engine", "threads", "--op", "read", "--inline", "on", "--batch", "4",
    ];
    let (code, text) = perop(&[&case[..], &["--ops", "10"]].concat());
    assert_eq!(code, Some(0), "{text}");
    // Whole batches.
    assert!(text.contains(r#""ops":12}"#), "{text}");
}

#[test]
fn registered_buffers_and_files() {
    for op in ["fixed", "future"] {
        let (code, text) = perop(&["--engine", "io_uring", "--op", op, "--batch", "4", "--ops", "10"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.contains(r#""ops":12}"#) || text.contains("unavailable"),
            "{text}"
        );
        // Only the ring knows them.
        let (code, text) = perop(&["--engine", "threads", "--op", op]);
        assert_eq!((code, text.as_str()), (Some(0), ""));
    }
}

#[test]
fn wrong_options_are_named() {
    for args in [
        &["--engine", "kqueue"][..],
        &["--batch", "0"],
        &["--op", "write"],
        &["--nonsense", "1"],
        &["--ops"],
    ] {
        let (code, text) = perop(args);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("perop: "), "{text}");
    }
}
