//! `proactor bench` at bounds that its surroundings set.

use std::path::Path;
use std::process::Command;

/// Each stack is an eighth of the memory that there may be, so some threads can be made and others not: that is told,
/// and those that were made do not wait for the others.
#[test]
fn a_thread_that_cannot_be_made_fails_its_cell() {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads");
    let _ = std::fs::remove_dir_all(&here);
    std::fs::create_dir_all(&here).unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 2000000; exec timeout -s KILL 60 \"$0\" bench io --engine sync --numjobs 16 --size 64k \
             --direct 0 --runtime 100ms --rounds 1 --counters none --filename file",
            env!("CARGO_BIN_EXE_proactor"),
        ])
        .env("RUST_MIN_STACK", (250 << 20).to_string())
        .current_dir(&here)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("making thread ") && said.contains(" of 16: "),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
}
