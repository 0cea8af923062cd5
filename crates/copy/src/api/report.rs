//! What a copy has done, in numbers.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The results of a copy. `failures` is 0 exactly if everything asked for was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Regular files copied.
    pub files: u64,
    /// Directories made or merged into.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Further names given to a file that has one already. What is such a name already is not counted.
    pub hard_links: u64,
    /// FIFOs, sockets and devices made.
    pub specials: u64,
    /// Files of them that were read back and are the same as their sources (`Options::verify`).
    pub verified: u64,
    /// Entries left as they are, because the target exists (`When::None`, `When::Older`, a "no" to a question).
    pub skipped: u64,
    /// Entries that were left out (`Options::filter`); what is below such a directory is not counted.
    pub excluded: u64,
    /// Regular files that an earlier run had finished (`Options::resume`).
    #[serde(default)]
    pub resumed: u64,
    /// Entries that could not be copied as asked, each with a diagnostic.
    pub failures: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Bytes whose blocks are shared with the source.
    pub shared_bytes: u64,
    /// Bytes that are holes.
    pub hole_bytes: u64,
    /// The observer asked to stop.
    pub stopped: bool,
    /// Trees that were not finished and keep their partial name.
    pub partial: Vec<PathBuf>,
    /// The time that the copy took.
    pub duration: Duration,
}

/// Adds up what two threads have done.
pub(crate) fn add(total: &mut Report, part: Report) {
    total.files += part.files;
    total.directories += part.directories;
    total.symlinks += part.symlinks;
    total.hard_links += part.hard_links;
    total.specials += part.specials;
    total.skipped += part.skipped;
    total.excluded += part.excluded;
    total.resumed += part.resumed;
    total.failures += part.failures;
    total.verified += part.verified;
    total.bytes += part.bytes;
    total.shared_bytes += part.shared_bytes;
    total.hole_bytes += part.hole_bytes;
    total.partial.extend(part.partial);
}
