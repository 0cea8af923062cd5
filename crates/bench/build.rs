//! With the feature `bpf`: compiles the BPF program, for which it takes clang (or what `CLANG` names).

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "bpf/bench.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("bench.bpf.o");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let big = std::env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let target = if big { "bpfeb" } else { "bpfel" };
    let status = Command::new(&clang)
        // -g: the types, by which fields are found in the kernel that it is loaded into.
        .args([
            "-O2", "-g", "-Wall", "-Werror", "-target", target, "-c", SOURCE, "-o",
        ])
        .arg(&out)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{}: {status}", clang.to_string_lossy()),
        Err(e) => panic!("the feature bpf takes clang ({}): {e}", clang.to_string_lossy()),
    }
}
