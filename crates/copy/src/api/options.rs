//! What a copy is asked to do: plain data, without any logic.

use crate::select::filter::Rule;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// The options of a copy. The default is plain `cp` without flags, on as many threads as the machine has use for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Copy directories with all below them. Without it a directory is refused.
    pub recursive: bool,
    /// The symbolic links of the source that are followed. By default all are, as `cp` does without `-r`.
    pub dereference: Dereference,
    /// The rules that leave entries out. By default there are none.
    pub filter: Vec<Rule>,
    /// The metadata of the source that is kept.
    pub preserve: Preserve,
    /// The rule for a target that exists already.
    pub overwrite: Overwrite,
    /// The backup of a target that is replaced.
    pub backup: Backup,
    /// The suffix of a simple backup; `~` by default.
    #[serde(skip)]
    pub suffix: OsString,
    /// Contents, or links to the source.
    pub method: Method,
    /// The treatment of holes.
    pub sparse: Sparse,
    /// The choice to share blocks with the source, where the file system can.
    pub reflink: Reflink,
    /// Leave out what is on another file system than the source named: its mount points become empty directories.
    pub one_file_system: bool,
    /// Create what is missing and set its metadata, but copy no contents.
    pub attributes_only: bool,
    /// In a recursive copy, read devices, FIFOs and sockets as if they were files, instead of making them anew.
    pub copy_contents: bool,
    /// Name the source's whole path below the target directory (`--parents`).
    pub parents: bool,
    /// Write into existing files instead of replacing them by a rename. Off by default: a reader of the target then
    /// sees the old file or the new one, whole.
    pub in_place: bool,
    /// Copy a directory into what a symbolic link of its name leads to, if that is a directory, instead of refusing to
    /// replace the link.
    pub keep_directory_symlink: bool,
    /// Write through a symbolic link that was named as the target and leads nowhere, instead of refusing to: what GNU's cp
    /// does where `POSIXLY_CORRECT` is in the environment.
    #[serde(skip)]
    pub through_dangling_link: bool,
    /// The SELinux context of what is made or written to, instead of the one that the kernel gives it or that is preserved.
    pub context: Option<OsString>,
    /// When data is forced to the disk.
    pub fsync: Fsync,
    /// Go on where a run with the same sources, target and options was killed; begin if there was none. Refused if a
    /// run was, but not with the same.
    pub resume: bool,
    /// Write down what is finished, for a run that resumes this one. Without it nothing can be resumed, and nothing is left
    /// beside the target by a run that was killed.
    pub journal: bool,
    /// Read back what was written, before it gets its name, and compare it with the source. A file that differs is a
    /// failure, and does not appear. What has no size (FIFOs, files in /proc) cannot be read again, and is not verified.
    pub verify: bool,
    /// Bytes that are written in a second, by all threads together; 0, the default, is as many as can be.
    pub bwlimit: u64,
    /// Only find out and tell what would be copied and what could not be. Nothing is made, and no contents are read.
    /// Questions are not asked, and taken as answered with yes.
    pub dry_run: bool,
    /// Threads; 0, the default, is one for each CPU, 8 at most, and while sources are not in memory 16, but of small files
    /// twice as many as CPUs, from 4 to 8.
    pub jobs: usize,
    /// The way in which small and medium files are copied.
    pub engine: Engine,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            recursive: false,
            dereference: Dereference::Always,
            filter: Vec::new(),
            preserve: Preserve::default(),
            overwrite: Overwrite::default(),
            backup: Backup::None,
            suffix: "~".into(),
            method: Method::Contents,
            sparse: Sparse::Auto,
            reflink: Reflink::Auto,
            one_file_system: false,
            attributes_only: false,
            copy_contents: false,
            parents: false,
            in_place: false,
            keep_directory_symlink: false,
            through_dangling_link: false,
            context: None,
            fsync: Fsync::None,
            resume: false,
            journal: true,
            verify: false,
            bwlimit: 0,
            dry_run: false,
            jobs: 0,
            engine: Engine::Auto,
        }
    }
}

impl Options {
    /// `cp -a`: whole trees, links as links, everything preserved.
    pub fn archive() -> Options {
        Options {
            recursive: true,
            dereference: Dereference::Never,
            preserve: Preserve::all(),
            ..Options::default()
        }
    }

    /// Returns true if rings are the faster way without an explicit engine. They wait for the disk for many files
    /// at once (docs/copy.md has the figures).
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.fsync == Fsync::Each || self.verify
    }

    /// The same without what changes only how it is done: two runs that agree in this make the same of the same source.
    pub(crate) fn meaning(&self) -> Options {
        Options {
            fsync: Fsync::None,
            bwlimit: 0,
            resume: false,
            jobs: 0,
            engine: Engine::Auto,
            dry_run: false,
            ..self.clone()
        }
    }
}

/// The symbolic links of the source that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dereference {
    /// None: links are copied as links (`-P`, and the default of `-r`).
    Never,
    /// Those named as sources (`-H`).
    CommandLine,
    /// All (`-L`).
    Always,
}

/// The metadata of the source that is kept. By default a copy gets only what any new file gets: its permissions,
/// less the umask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Permissions, set-id bits and access control lists.
    pub mode: Mode,
    /// User and group. Without the privilege to give files away, what fails is passed over, as `cp` does, and the
    /// set-id bits are left out.
    pub ownership: bool,
    /// Times of access and modification, to the nanosecond.
    pub timestamps: bool,
    /// Names of one file in the source become names of one file in the target.
    pub links: bool,
    /// The SELinux context.
    pub context: Wish,
    /// Extended attributes, all that can be read.
    pub xattr: Wish,
    /// The flags of chattr(1) on regular files and directories; a failure is reported. Append-only and immutable
    /// come last, when everything has its name.
    #[serde(default)]
    pub flags: bool,
}

impl Preserve {
    /// Everything (`--preserve=all`); where contexts or attributes cannot be kept, they are not. But no flags: a copy
    /// that cannot be changed or removed is for who has asked for it.
    pub fn all() -> Preserve {
        Preserve {
            mode: Mode::Preserve,
            ownership: true,
            timestamps: true,
            links: true,
            context: Wish::Try,
            xattr: Wish::Try,
            flags: false,
        }
    }
}

impl Preserve {
    /// Returns true if a directory that exists already gets something of its source's.
    pub(crate) fn of_directories(&self) -> bool {
        let Preserve {
            mode,
            ownership,
            timestamps,
            links: _,
            context,
            xattr,
            flags,
        } = *self;
        mode == Mode::Preserve || ownership || timestamps || context != Wish::No || xattr != Wish::No || flags
    }
}

/// The origin of the permissions of a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// The source's, less the umask; no set-id bits.
    #[default]
    Inherit,
    /// The source's, exactly (`--preserve=mode`).
    Preserve,
    /// Those of a file that is created by any program (`--no-preserve=mode`).
    Fresh,
}

/// The degree to which something is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Not at all.
    #[default]
    No,
    /// It is done if it works; a failure is passed over.
    Try,
    /// Always; a failure is reported.
    Must,
}

/// The rule for a target that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwrite {
    /// The targets that are replaced.
    pub when: When,
    /// A target that cannot be opened for writing is removed first (`-f`).
    pub force: bool,
    /// Every target is removed first, without trying to open it (`--remove-destination`).
    pub remove: bool,
    /// Ask [`Observer::may_overwrite`](crate::Observer::may_overwrite) about each (`-i`).
    pub ask: bool,
}

/// The existing targets that are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// All.
    #[default]
    All,
    /// No target is replaced; sources are passed over (`-n`, `--update=none`).
    None,
    /// No target is replaced, and each is a failure (`--update=none-fail`).
    NoneFail,
    /// Those that were modified before the source was (`-u`).
    Older,
}

/// The backup of a target that is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backup {
    /// It goes.
    #[default]
    None,
    /// It is renamed to its name with the suffix.
    Simple,
    /// It is renamed to `NAME.~1~`, `NAME.~2~` and so on.
    Numbered,
    /// Numbered where there are numbered ones already, simple otherwise.
    Existing,
}

/// The way in which a file is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// The target is a copy.
    #[default]
    Contents,
    /// The target is another name of the source (`-l`).
    HardLink,
    /// The target is a symbolic link to the source (`-s`).
    SymbolicLink,
}

/// The treatment of holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparse {
    /// They are kept where the source has them.
    #[default]
    Auto,
    /// Blocks of zeros become holes too.
    Always,
    /// They are filled with zeros.
    Never,
}

/// The choice to share blocks with the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reflink {
    /// Blocks are shared if the file system can and it takes less time than to copy: for files of 16 KiB and more,
    /// and for shorter ones on Btrfs or while sources are not in memory.
    #[default]
    Auto,
    /// Always: where that is impossible, the file is not copied.
    Always,
    /// Never.
    Never,
}

/// When data is forced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fsync {
    /// When the kernel likes.
    #[default]
    None,
    /// Once, before a new tree gets its name and before the copy returns.
    End,
    /// Each file, before it gets its name.
    Each,
}

/// The way in which small and medium files are copied. The result is the same with all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// The copier chooses what is fastest by measurement: with `Fsync::Each` and `verify` rings, where there are
    /// any, and threads for all else.
    #[default]
    Auto,
    /// Each thread copies one file after the other, by plain system calls.
    Threads,
    /// Each thread has a ring of io_uring with up to 64 files in it. Where there is no io_uring nothing is copied, and the
    /// reason is reported: no other engine is taken.
    Uring,
}
