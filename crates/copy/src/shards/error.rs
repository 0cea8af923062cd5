//! Why a copy in parts cannot go on at all. Errors of single files are reported to the observer.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a plan was not made, a shard not run, or a copy not finished.
#[derive(Debug)]
pub enum Error {
    /// Something could not be reached, read or written.
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Such a copy cannot be done in parts.
    Unfit(&'static str),
    /// Only directories are copied in parts.
    NotADirectory(PathBuf),
    /// The target's name must be free.
    TargetExists(PathBuf),
    /// The target is inside the source.
    IntoItself(PathBuf),
    /// This is not the directory that was planned: perhaps its file system is not mounted on this machine.
    Another(PathBuf),
    /// It is not a plan.
    NoPlan(String),
    /// The plan was made by another version of the copier.
    Version(u32),
    /// The plan has fewer shards.
    NoSuchShard {
        /// Asked for; the first one is 0.
        shard: usize,
        /// The number of shards.
        shards: usize,
    },
    /// These shards are not done.
    Missing(Vec<usize>),
    /// A process is still at work on a shard that is done.
    Running(String),
    /// The observer asked to stop.
    Stopped,
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        Error::Io {
            path: path.into(),
            error,
        }
    }

    /// The path that it is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::NotADirectory(path)
            | Error::TargetExists(path)
            | Error::IntoItself(path)
            | Error::Another(path) => Some(path),
            _ => None,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    /// Without the path.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { error, .. } => error.fmt(to),
            Error::Unfit(why) => write!(to, "cannot copy in shards {why}"),
            Error::NotADirectory(_) => write!(to, "only directories can be copied in shards"),
            Error::TargetExists(_) => write!(to, "the target of a copy in shards exists already"),
            Error::IntoItself(_) => write!(to, "cannot copy a directory into itself"),
            Error::Another(_) => write!(
                to,
                "not the directory that was planned; is its file system mounted here?"
            ),
            Error::NoPlan(why) => write!(to, "not the plan of a copy: {why}"),
            Error::Version(version) => write!(to, "a plan of another version ({version})"),
            Error::NoSuchShard { shard, shards } => {
                write!(to, "there is no shard {shard}: they are 0 to {}", shards - 1)
            }
            Error::Missing(shards) => write!(to, "shards are not done: {}", Runs(shards)),
            Error::Running(who) => write!(to, "{who} is still at work on a shard"),
            Error::Stopped => write!(to, "stopped"),
        }
    }
}

/// Numbers in order, as `0-3, 5`.
struct Runs<'a>(&'a [usize]);

impl fmt::Display for Runs<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, run) in self.0.chunk_by(|one, next| one + 1 == *next).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match run {
                [one] => write!(to, "{comma}{one}")?,
                [first, .., last] => write!(to, "{comma}{first}-{last}")?,
                [] => unreachable!("a chunk has something"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers() {
        let text = |of: &[usize]| super::Runs(of).to_string();
        assert_eq!(text(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(text(&[3]), "3");
    }
}
