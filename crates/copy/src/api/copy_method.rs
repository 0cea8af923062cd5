//! Which way a file's contents took, for `Copied::how`.

/// The way that a file's contents took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// The kernel copied from file to file (copy_file_range).
    pub offload: Answer,
    /// Blocks are shared with the source.
    pub reflink: Answer,
    /// The search for holes that was made.
    pub sparse: Detection,
}

/// An answer to whether something was done.
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

/// The way in which holes were found.
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
