//! Which way a file's contents took, for `Copied::how`.

use crate::api::options::{Options, Reflink, Sparse};
use crate::data::content::Moved;

/// Which way a file's contents took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whether the kernel copied from file to file (copy_file_range).
    pub offload: Answer,
    /// Whether blocks are shared with the source.
    pub reflink: Answer,
    /// How holes were found.
    pub sparse: Detection,
}

/// Whether something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was.
    Yes,
    /// It was not.
    No,
    /// There was nothing that would have told.
    Unknown,
    /// The file systems cannot.
    Unsupported,
}

/// How holes were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// There was no need.
    Unknown,
    /// They were not looked for, or there are none.
    No,
    /// The file system was asked.
    SeekHole,
    /// Zeros were looked for as well.
    SeekHoleAndZeros,
}

impl How {
    /// `unsupported`: blocks cannot be shared between the two file systems.
    pub(crate) fn of(moved: &Moved, options: &Options, unsupported: bool) -> How {
        let shared = moved.shared > 0;
        let empty = moved.written + moved.holes == 0;
        How {
            offload: match moved.offloaded {
                _ if shared || empty => Answer::Unknown,
                0 => Answer::No,
                _ => Answer::Yes,
            },
            reflink: match options.reflink {
                _ if shared => Answer::Yes,
                Reflink::Never => Answer::No,
                _ if unsupported => Answer::Unsupported,
                _ if empty => Answer::Unknown,
                _ => Answer::No,
            },
            sparse: match options.sparse {
                _ if shared || empty => Detection::Unknown,
                Sparse::Always => Detection::SeekHoleAndZeros,
                Sparse::Auto if moved.holes > 0 => Detection::SeekHole,
                Sparse::Auto | Sparse::Never => Detection::No,
            },
        }
    }
}
