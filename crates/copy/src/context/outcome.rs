//! Why an entry is not copied.

/// Why an entry is not copied. The observer has been told where it is returned, of the first three.
#[derive(Debug)]
pub(crate) enum End {
    /// It failed, and the failure is counted.
    Failed,
    /// It is to be left as it is, or another thread does it.
    Skipped,
    /// The copy was asked to stop.
    Stopped,
    /// The file has as many names as the file system allows. Not yet reported.
    TooManyNames,
    /// The entry is a directory, which the walk copies. Nothing is wrong with it.
    Directory,
}

pub(crate) type Outcome<T> = Result<T, End>;
