//! Errors and warnings as types. The program that shows them finds the words.

use crate::api::json;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// Something that a user should hear. All but [`Diagnostic::Warning`] count as failures.
#[derive(Debug, Serialize, Deserialize)]
pub enum Diagnostic {
    /// A step of the copy failed.
    Failed {
        /// The step that failed.
        step: Step,
        /// The path that it was done to.
        #[serde(with = "json::path")]
        path: PathBuf,
        /// The other path, for steps that have one: the target of a link, the source of a clone.
        #[serde(with = "json::some_path")]
        other: Option<PathBuf>,
        /// Why.
        #[serde(with = "json::errno")]
        error: io::Error,
    },
    /// The copy would do harm, or makes no sense.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The path of the source.
        #[serde(with = "json::path")]
        source: PathBuf,
        /// The path that its copy would have got.
        #[serde(with = "json::path")]
        target: PathBuf,
    },
    /// The source was another one after it was read than before, three times in a row, or was gone. The target has
    /// what was read last.
    Changed(#[serde(with = "json::path")] PathBuf),
    /// The copy was read back and differs from the source (`Options::verify`). The target has not got its name,
    /// unless it was written in place.
    Differs {
        /// The file.
        #[serde(with = "json::path")]
        source: PathBuf,
        /// The path that its copy would have got.
        #[serde(with = "json::path")]
        target: PathBuf,
        /// The first byte that is another one.
        offset: u64,
    },
    /// The engine that was asked for cannot be had here: nothing was copied.
    NoEngine {
        /// The engine's name, as in `--engine`.
        engine: String,
        /// The kernel's error, or EOPNOTSUPP if it is unknown.
        errno: i32,
        /// Why, in words for a person.
        reason: String,
    },
    /// This process has no memory for what contents go through: nothing was copied.
    NoMemory,
    /// The copy is fine, but may not be what was meant.
    Warning {
        /// The kind of warning.
        warning: Warning,
        /// The path that it is about.
        #[serde(with = "json::path")]
        path: PathBuf,
    },
}

impl Diagnostic {
    /// Returns true if something was not copied as asked.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Diagnostic::Warning { .. })
    }

    /// Another one that says the same. (An `io::Error` has no `clone`.)
    pub(crate) fn another(&self) -> Diagnostic {
        match self {
            Diagnostic::Failed {
                step,
                path,
                other,
                error,
            } => Diagnostic::Failed {
                step: *step,
                path: path.clone(),
                other: other.clone(),
                error: match error.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::other(error.to_string()),
                },
            },
            Diagnostic::Refused {
                refusal,
                source,
                target,
            } => Diagnostic::Refused {
                refusal: *refusal,
                source: source.clone(),
                target: target.clone(),
            },
            Diagnostic::Changed(path) => Diagnostic::Changed(path.clone()),
            Diagnostic::Differs {
                source,
                target,
                offset,
            } => Diagnostic::Differs {
                source: source.clone(),
                target: target.clone(),
                offset: *offset,
            },
            Diagnostic::NoEngine {
                engine,
                errno,
                reason,
            } => Diagnostic::NoEngine {
                engine: engine.clone(),
                errno: *errno,
                reason: reason.clone(),
            },
            Diagnostic::NoMemory => Diagnostic::NoMemory,
            Diagnostic::Warning { warning, path } => Diagnostic::Warning {
                warning: *warning,
                path: path.clone(),
            },
        }
    }
}

/// A step that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// Looking at the source.
    StatSource,
    /// Looking at a directory of a source's path, for `--parents`.
    StatParent,
    /// Looking at the target.
    StatTarget,
    /// Opening a source file.
    OpenSource,
    /// Opening or listing a source directory.
    ReadDirectory,
    /// Opening a directory of the target.
    OpenTargetDirectory,
    /// Reading a file.
    Read,
    /// Writing a file. `Extend`ing it for a hole at its end counts too.
    Write,
    /// Creating a regular file.
    CreateFile,
    /// Creating a directory.
    CreateDirectory,
    /// Creating a symbolic link; the other path is what it points to.
    CreateSymlink,
    /// Creating a hard link; the other path is what it is a name of.
    CreateHardLink,
    /// Creating a FIFO.
    CreateFifo,
    /// Creating a socket or a device.
    CreateSpecial,
    /// Reading where a symbolic link points.
    ReadLink,
    /// Sharing blocks; the other path is the source.
    Clone,
    /// Removing an existing target.
    Remove,
    /// Renaming an existing target to its backup.
    Backup,
    /// Giving a finished file or tree its final name.
    Rename,
    /// Setting the owner.
    SetOwner,
    /// Setting the permissions or the access control list.
    SetMode,
    /// Setting the times.
    SetTimes,
    /// Reading or setting extended attributes.
    SetXattr,
    /// Setting the SELinux context.
    SetContext,
    /// Reading or setting the flags of chattr(1).
    SetFlags,
    /// Reading back what was written.
    Verify,
    /// Forcing data to the disk.
    Sync,
    /// Entering the ring that was asked for by name (`Engine::Uring`), which the kernel has forbidden meanwhile.
    Engine,
    /// Reading or locking the journal of an earlier run.
    Journal,
}

/// Why something is not even tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The source is a directory, and the copy is not recursive.
    OmittingDirectory,
    /// Source and target are one file.
    SameFile,
    /// The target is inside the source directory.
    IntoItself,
    /// A directory would replace something else.
    DirectoryOverFile,
    /// Something else would replace a directory.
    FileOverDirectory,
    /// A directory of the source's path, for `--parents`, has the name of something else in the target.
    ParentNoDirectory,
    /// The target was made by this very copy, from another source.
    JustCreated,
    /// The target is a symbolic link that points nowhere: who knows what would be written.
    DanglingLink,
    /// A followed link leads back to a directory that it is in.
    Cycle,
    /// A relative symbolic link to the source would mean something else there.
    RelativeLink,
    /// The target exists, and `When::NoneFail` was asked for.
    TargetExists,
    /// The backup would destroy the source.
    BackupIsSource,
    /// Another copy is making the new tree of this name: this process, if it has said so.
    BeingMade {
        /// Its number.
        process: Option<u32>,
    },
    /// The copy that is to be resumed goes on just now. The target is its journal, here and below, and the source
    /// what it is copied from.
    ResumeBusy,
    /// The copy that is to be resumed was begun from another source.
    ResumeOtherSource,
    /// The copy that is to be resumed was begun with other options.
    ResumeOtherOptions,
    /// There are several copies that could be resumed.
    ResumeAmbiguous,
}

/// Something that looks wrong, without being a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Warning {
    /// A source was named twice. The second is passed over.
    NamedTwice,
    /// The file grew while it was read. The copy has the length that the file had when it was opened.
    Grew,
    /// The files that a copy in shards has met are not those that were there when it was planned. They were copied
    /// as they were when they were read.
    ChangedSincePlanned,
    /// A name of a file that has as many as the file system allows: it is a file of its own here.
    NamesSplit,
    /// A copy to this target was interrupted, and can be resumed. The path is its journal.
    LeftJournal,
    /// There is a tree of a copy to this target that was interrupted, or that has just begun.
    LeftTree,
}
