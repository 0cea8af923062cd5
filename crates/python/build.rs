//! Tells the sources for which version of Python they are compiled (`cfg(Py_3_12)` and its like). Builds the library that
//! `proactor run` loads into programs, and puts it beside the extension.
//!
//! The library is a crate of its own, which exports the names of the C library's functions and so must not be linked into anything.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    build_preload();
}

fn build_preload() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crate_dir = root.join("crates/preload");
    println!("cargo::rerun-if-changed={}", crate_dir.join("src").display());
    println!(
        "cargo::rerun-if-changed={}",
        crate_dir.join("Cargo.toml").display()
    );
    let beside = root.join("python/proactor");
    // A cross build has no linker for it (`make check-aarch64`), and a source distribution may lack the crate.
    if env::var("TARGET") != env::var("HOST") || !crate_dir.is_dir() || !beside.is_dir() {
        println!("cargo::warning=proactor run will have no library to load");
        return;
    }
    let target = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("preload");
    let status = Command::new(env::var("CARGO").expect("cargo sets it"))
        .args([
            "build",
            "--locked",
            "--release",
            "--package",
            "proactor-preload",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(&root)
        // The outer build's wishes for its own crates.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library for `proactor run` was not built");
    let made = target.join("release/libproactor_preload.so");
    let copy = beside.join("libproactor_preload.so");
    // Not written in place: a running program may have it mapped.
    let partial = beside.join("libproactor_preload.so.partial");
    std::fs::copy(&made, &partial).expect("the checkout is writable");
    std::fs::rename(&partial, &copy).expect("the checkout is writable");
    println!("cargo::rerun-if-changed={}", copy.display());
}
