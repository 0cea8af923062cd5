//! Why an entry is not copied.

/// Why an entry is not copied. Whoever returns it has told the observer.
#[derive(Debug)]
pub(crate) enum End {
    /// It failed, and the failure is counted.
    Failed,
    /// It is to be left as it is, or somebody else does it.
    Skipped,
    /// The copy was asked to stop.
    Stopped,
    /// The file has as many names as the file system allows: the only end of which nobody has been told.
    TooManyNames,
}

pub(crate) type Outcome<T> = Result<T, End>;
