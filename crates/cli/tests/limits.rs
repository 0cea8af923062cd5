//! A bound on the size of files that the shell has set: a failure of the file that meets it, and not the end of the process.

use std::path::Path;
use std::process::Command;

#[test]
fn a_file_that_is_too_large_fails_and_the_rest_is_copied() {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR")).join("limits");
    let _ = std::fs::remove_dir_all(&here);
    std::fs::create_dir_all(here.join("source")).unwrap();
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
