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
//! A failure never ends the copy: it is reported to the [`Observer`] and counted in the [`Report`].

#![deny(clippy::undocumented_unsafe_blocks)]

mod api;
mod context;
mod data;
mod entry;
mod job;
mod metadata;
mod operands;
mod pair;
mod resume;
mod select;
pub mod shards;
mod sys;
mod uring;
mod walk;

#[cfg(test)]
mod random;
#[cfg(test)]
#[path = "../../../fuzz/seeds.rs"]
mod seeds;

pub use api::copy_method::{Answer, Detection, How};
pub use api::error::{Diagnostic, Refusal, Step, Warning};
pub use api::observer::{Copied, Kind, Observer, Question};
pub use api::options::{
    Backup, Dereference, Engine, Fsync, Method, Mode, Options, Overwrite, Preserve, Reflink, Sparse, When,
    Wish,
};
pub use api::quote;
pub use api::report::Report;
pub use api::sentence::reason;
pub use api::target::Target;
pub use metadata::xattr::is_selinux;
pub use select::filter::{Action, Rule};
pub use select::glob::BadPattern;

use std::path::PathBuf;

/// An observer that hears nothing: what went wrong is only counted.
pub struct Silent;

impl Observer for Silent {
    fn diagnostic(&self, _: &Diagnostic) {}
}

/// Copies each source. Returns when everything is done, or when the observer asked to stop and all threads have ended.
pub fn copy(options: &Options, sources: &[PathBuf], target: &Target, observer: &dyn Observer) -> Report {
    operands::plan::copy(options, sources, target, observer)
}
