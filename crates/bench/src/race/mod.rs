//! Packages and programs that do the same task: `bench files` and `bench cp`. Each round of each is a
//! separate process.
//!
//! This module knows how they are started and what they leave, and nothing of how they work.

mod child;
pub mod copiers;
pub mod files;
mod frame;

use crate::job::Cache;
use crate::run::{check_rounds, Counters};
use std::path::{Path, PathBuf};

/// Options that both kinds of race share.
#[derive(Debug, Clone)]
pub struct Common {
    /// Directory in whose file system everything is made, and removed at the end.
    pub directory: PathBuf,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the order, and of what is made.
    pub seed: u64,
    /// Way of counting system calls.
    pub counters: Counters,
    /// State of the page cache before each round.
    pub cache: Cache,
    /// Command, for the report.
    pub command: Vec<String>,
}

/// Prefix of the name of the directory in which everything is made.
const PREFIX: &str = ".proactor-bench-";

impl Common {
    fn place(&self) -> Result<tempfile::TempDir, String> {
        let made = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&self.directory);
        made.map_err(|e| format!("{}: {e}", self.directory.display()))
    }

    fn check(&self) -> Result<(), String> {
        check_rounds(self.rounds)?;
        if !self.directory.is_dir() {
            return Err(format!("{}: no directory", self.directory.display()));
        }
        Ok(())
    }
}

/// Finds the file of a program on the path.
pub fn found(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|place| place.join(program))
        .find(|path| is_program(path))
}
