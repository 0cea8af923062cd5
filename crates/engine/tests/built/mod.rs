//! The examples that `cargo test` builds beside the folder of a test's own binary. `cargo test --test examples`
//! does not build them: then those that are missing or older than their sources are built here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

/// The example of this name, of the package whose test this is.
pub fn example(name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("it lies in PROFILE/deps");
    let binary = profile.join("examples").join(name);
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if !is_fresh(&binary) {
        build(name, profile);
    }
    binary
}

/// Whether nothing that the binary was made of has changed since.
fn is_fresh(binary: &Path) -> bool {
    let Some(made) = modified(binary) else {
        return false;
    };
    // As make has it: the binary, a colon, and its sources. Spaces within a path are escaped.
    let Ok(rule) = std::fs::read_to_string(binary.with_extension("d")) else {
        return false;
    };
    let Some((_, sources)) = rule.trim_end().split_once(": ") else {
        return false;
    };
    let sources = sources.replace("\\ ", "\0");
    sources
        .split(' ')
        .all(|source| modified(Path::new(&source.replace('\0', " "))).is_some_and(|changed| changed <= made))
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn build(name: &str, profile: &Path) {
    let (target, profile) = (profile.parent(), profile.file_name());
    let target = target.expect("a profile lies in a target directory");
    let profile = profile.and_then(|name| name.to_str()).expect("it has a name");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--offline",
        "--package",
        env!("CARGO_PKG_NAME"),
    ]);
    cargo.args(["--example", name, "--profile"]);
    cargo.arg(if profile == "debug" { "dev" } else { profile });
    // With `--target`, there is a folder of its name between.
    match target.file_name().and_then(|name| name.to_str()) {
        Some(triple) if triple.contains("-linux-") => {
            cargo.args(["--target", triple, "--target-dir"]);
            cargo.arg(target.parent().expect("it lies in a target directory"));
        }
        _ => {
            cargo.arg("--target-dir").arg(target);
        }
    }
    let built = cargo.status().expect("cargo runs");
    assert!(built.success(), "{name} is not built");
}
