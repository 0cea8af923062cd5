//! Copies files and trees: every kind of file, all metadata, nothing half done under a final name.
//!
//! ```
//! use proactor_copy::{copy, Options, Silent, Target};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let here = tempfile::tempdir()?;
//! std::fs::write(here.path().join("a"), "bytes")?;
//! let report = copy(
//!     &Options::default(),
//!     &[here.path().join("a")],
//!     &Target::As(here.path().join("b")),
//!     &Silent,
//! );
//! assert_eq!((report.files, report.bytes, report.failures), (1, 5, 0));
//! # Ok(()) }
//! ```
//!
//! A failure never ends the copy: it is told to the [`Observer`] and counted in the [`Report`].

#![deny(clippy::undocumented_unsafe_blocks)]

mod ahead;
mod attributes;
mod backup;
mod buffer;
mod claim;
mod clone;
mod content;
mod created;
mod crew;
mod dir;
mod disk;
mod engine;
mod entry;
mod error;
mod file;
mod fill;
mod filter;
mod flags;
mod glob;
mod how;
mod journal;
mod json;
mod link;
mod links;
mod listing;
mod metadata;
mod notes;
mod nursery;
mod observer;
mod offload;
mod options;
mod pace;
mod parents;
mod place;
mod plan;
pub mod quote;
mod rehearse;
mod remove;
mod report;
mod resume;
mod ring;
mod run;
mod schedule;
mod sentence;
pub mod shards;
mod stream;
mod sys;
mod taken;
mod tree;
mod unmade;
mod verify;
mod xattr;

#[cfg(test)]
mod glob_fuzz;
#[cfg(test)]
mod random;
#[cfg(test)]
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

pub use error::{Diagnostic, Refusal, Step, Warning};
pub use filter::{Action, Rule};
pub use glob::BadPattern;
pub use how::{Answer, Detection, How};
pub use observer::{Copied, Kind, Observer, Question};
pub use options::{
    Backup, Dereference, Engine, Fsync, Method, Mode, Options, Overwrite, Preserve, Reflink, Sparse, When,
    Wish,
};
pub use report::Report;
pub use sentence::reason;
pub use xattr::is_selinux;

use std::path::PathBuf;

/// Where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Each into this directory, under its own name. The directory exists.
    Into(PathBuf),
    /// One, under this name.
    As(PathBuf),
}

/// An observer that hears nothing: what went wrong is only counted.
pub struct Silent;

impl Observer for Silent {
    fn diagnostic(&self, _: &Diagnostic) {}
}

/// Copies each source. Returns when everything is done, or when the observer asked to stop and all threads have ended.
pub fn copy(options: &Options, sources: &[PathBuf], target: &Target, observer: &dyn Observer) -> Report {
    plan::copy(options, sources, target, observer)
}
