//! Embeds the library that `proactor run` loads into programs, where `make native` names one.
//!
//! The library is a crate of its own, which exports the names of the C library's functions and so must not be linked into anything.

use std::env;
use std::hash::{DefaultHasher, Hasher};

/// The path of the library. Without it the command looks for one beside its own file.
const VARIABLE: &str = "PROACTOR_EMBED";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_library)");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        return;
    };
    let path = path.into_string().expect("a path that is UTF-8");
    println!("cargo::rerun-if-changed={path}");
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{VARIABLE}={path}: {e}"));
    assert!(
        bytes.starts_with(b"\x7fELF"),
        "{VARIABLE}={path}: this is no library"
    );
    // Names the file that the command writes, so that those of two versions do not replace each other.
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    println!("cargo::rustc-cfg=embedded_library");
    println!("cargo::rustc-env=PROACTOR_EMBEDDED_PATH={path}");
    println!("cargo::rustc-env=PROACTOR_EMBEDDED_HASH={:016x}", hasher.finish());
}
