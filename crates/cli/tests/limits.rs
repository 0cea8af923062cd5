//! Bounds that the shell has set, on the size of files, memory and descriptors: each a failure of what meets it, or none.

use std::path::Path;
use std::process::Command;

#[test]
fn a_file_that_is_too_large_fails_and_the_rest_is_copied() {
    let here = place("limits");
    std::fs::create_dir(here.join("source")).unwrap();
    std::fs::write(here.join("source/large"), vec![1; 1 << 20]).unwrap();
    std::fs::write(here.join("source/small"), "s").unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 64; exec \"$0\" cp -r source target",
            env!("CARGO_BIN_EXE_proactor"),
        ])
        .current_dir(&here)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "proactor cp: error writing 'target/large': File too large\n"
    );
    let names: Vec<_> = std::fs::read_dir(here.join("target"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["small"]);
}

/// Of what is shown while files are copied nothing is worth a failure.
#[test]
fn without_a_thread_for_it_there_is_no_progress() {
    let here = place("progress");
    std::fs::write(here.join("source"), "s").unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 1000000; exec \"$0\" cp --progress always source target",
            env!("CARGO_BIN_EXE_proactor"),
        ])
        .env("RUST_MIN_STACK", (2_u64 << 30).to_string())
        .current_dir(&here)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(here.join("target")).unwrap(), "s");
}

/// With few descriptors there is no ring, unless it is asked for: it would take the half of them.
#[test]
fn few_descriptors_are_enough_for_a_deep_tree() {
    let here = place("descriptors");
    let mut deep = here.join("source");
    for level in 0..60 {
        deep.push(level.to_string());
    }
    std::fs::create_dir_all(&deep).unwrap();
    for dir in deep.ancestors().take(60) {
        std::fs::write(dir.join("file"), "f").unwrap();
    }
    for how in ["--verify", "--fsync=each"] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 20; exec \"$0\" cp -a \"$1\" source \"new$1\""])
            .args([env!("CARGO_BIN_EXE_proactor"), how])
            .current_dir(&here)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""));
    }
}

fn place(name: &str) -> std::path::PathBuf {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&here);
    std::fs::create_dir_all(&here).unwrap();
    here
}
