//! What `--help` says, word by word. After a change: `UPDATE_GOLDEN=1 cargo test -p proactor`, and look at the diff.

use std::path::Path;
use std::process::Command;

fn golden(name: &str, args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_proactor"))
        .args(args)
        .output()
        .expect("the binary that cargo has just built");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("help is text");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &said).expect("the checkout is writable");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(said, expected, "{} differs", file.display());
}

#[test]
fn help() {
    golden("help", &["--help"]);
}

#[test]
fn doctor_help() {
    golden("doctor-help", &["doctor", "--help"]);
}

#[test]
fn bench_help() {
    golden("bench-help", &["bench", "--help"]);
    golden("bench-io-help", &["bench", "io", "--help"]);
    golden("bench-files-help", &["bench", "files", "--help"]);
    golden("bench-cp-help", &["bench", "cp", "--help"]);
    golden("bench-net-help", &["bench", "net", "--help"]);
}

#[test]
fn cp_help() {
    golden("cp-help", &["cp", "--help"]);
}

#[test]
fn serve_help() {
    golden("serve-help", &["serve", "--help"]);
}

#[test]
fn run_help() {
    golden("run-help", &["run", "--help"]);
}

#[test]
fn version() {
    let output = Command::new(env!("CARGO_BIN_EXE_proactor"))
        .arg("--version")
        .output()
        .unwrap();
    let expected = concat!("proactor ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
