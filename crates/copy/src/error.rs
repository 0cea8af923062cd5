//! What can go wrong, typed: whoever shows it finds the words.

use std::io;
use std::path::PathBuf;

/// Something that a user should hear. All but [`Diagnostic::Warning`] count as failures.
#[derive(Debug)]
pub enum Diagnostic {
    /// A step of the copy failed.
    Failed {
        /// What was being done.
        step: Step,
        /// The path that it was done to.
        path: PathBuf,
        /// The other path, for steps that have one: the target of a link, the source of a clone.
        other: Option<PathBuf>,
        /// Why.
        error: io::Error,
    },
    /// The copy would do harm, or makes no sense.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Where it comes from.
        source: PathBuf,
        /// Where it would go.
        target: PathBuf,
    },
    /// The source was another one after it was read than before, three times in a row, or was gone. The target has
    /// what was read last.
    Changed(PathBuf),
    /// What was written and read back is not what the source has (`Options::verify`). The target has not got its name,
    /// unless it was written in place.
    Differs {
        /// The file.
        source: PathBuf,
        /// What would have been its copy.
        target: PathBuf,
        /// The first byte that is another one.
        offset: u64,
    },
    /// The copy is fine, but may not be what was meant.
    Warning {
        /// What looks wrong.
        warning: Warning,
        /// Where.
        path: PathBuf,
    },
}

impl Diagnostic {
    /// Whether something was not copied as asked.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Diagnostic::Warning { .. })
    }
}

/// A step that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Opening an existing target file.
    OpenTarget,
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
    /// Reading back what was written.
    Verify,
    /// Forcing data to the disk.
    Sync,
    /// Reading or locking the journal of an earlier run.
    Journal,
}

/// Why something is not even tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The copy that is to be resumed goes on just now. The target is its journal, here and below, and the source
    /// what it is copied from.
    ResumeBusy,
    /// What is to be resumed was begun from another source.
    ResumeOtherSource,
    /// What is to be resumed was begun with other options.
    ResumeOtherOptions,
    /// There are several copies that could be resumed.
    ResumeAmbiguous,
}

/// What looks wrong, without being a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Warning {
    /// A source was named twice. The second is passed over.
    NamedTwice,
    /// The file grew while it was read. The copy has the length that the file had when it was opened.
    Grew,
    /// A copy to this target was interrupted, and can be resumed. The path is its journal.
    LeftJournal,
    /// There is a tree of a copy to this target that was interrupted, or that has just begun.
    LeftTree,
}
