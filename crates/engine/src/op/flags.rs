//! Flags of ops: a type for each kind, so that none is given where another belongs.

use std::fmt;

/// Writes the names of the bits that have one, and the rest as a number.
pub(super) fn write_names(
    f: &mut fmt::Formatter<'_>,
    type_name: &str,
    names: &[(u64, &str)],
    bits: u64,
) -> fmt::Result {
    write!(f, "{type_name}(")?;
    let (mut rest, mut separator) = (bits, "");
    for (flag, name) in names {
        if *flag != 0 && rest & flag == *flag {
            write!(f, "{separator}{name}")?;
            (rest, separator) = (rest & !flag, " | ");
        }
    }
    if rest != 0 || bits == 0 {
        write!(f, "{separator}{rest:#x}")?;
    }
    f.write_str(")")
}

/// Of two flags of which one contains the other, the larger comes first: it is named instead of both.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($bits:ty as $unsigned:ty) {
        $($(#[$of:meta])* $flag:ident = $value:expr;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name($bits);

        impl $name {
            /// No flags.
            pub const NONE: $name = $name(0);
            $($(#[$of])* pub const $flag: $name = $name($value as $bits);)*

            /// As the kernel takes them.
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Any bits, of a newer kernel for instance. What a kernel does not know it refuses.
            pub const fn from_bits(bits: $bits) -> Self {
                $name(bits)
            }

            /// Whether all of these are among them.
            pub const fn contains(self, others: $name) -> bool {
                self.0 & others.0 == others.0
            }

            /// Whether any of these is among them.
            pub const fn intersects(self, others: $name) -> bool {
                self.0 & others.0 != 0
            }

            /// These and others: `|` where a constant is made.
            pub const fn union(self, others: $name) -> $name {
                $name(self.0 | others.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, others: $name) -> $name {
                $name(self.0 | others.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, others: $name) {
                self.0 |= others.0;
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names = &[$(($value as $unsigned as u64, stringify!($flag))),*];
                write_names(f, stringify!($name), names, self.0 as $unsigned as u64)
            }
        }
    )*};
}

flags! {
    /// How an [`Open`](super::Open) or a [`WriteFile`](super::WriteFile) opens its file: one of the first three, and others.
    OpenFlags(i32 as u32) {
        /// For reading. It has no bit: it is what is meant where neither of the next two is given.
        READ_ONLY = libc::O_RDONLY;
        /// For writing.
        WRITE_ONLY = libc::O_WRONLY;
        /// For both.
        READ_WRITE = libc::O_RDWR;
        /// Writes go to the end of the file, whatever their offset.
        APPEND = libc::O_APPEND;
        /// Made if it is not there.
        CREATE = libc::O_CREAT;
        /// With `CREATE`: EEXIST if it is there.
        EXCLUSIVE = libc::O_EXCL;
        /// Emptied.
        TRUNCATE = libc::O_TRUNC;
        /// Past the page cache. See [`File::direct_alignment`](super::File::direct_alignment).
        DIRECT = libc::O_DIRECT;
        /// A file without a name, in the directory that the path names.
        TMPFILE = libc::O_TMPFILE;
        /// ENOTDIR if it is no directory.
        DIRECTORY = libc::O_DIRECTORY;
        /// ELOOP if the path ends in a symbolic link.
        NOFOLLOW = libc::O_NOFOLLOW;
        /// Reads leave the time of the last access. For the owner alone.
        NOATIME = libc::O_NOATIME;
        /// EAGAIN instead of waiting for a peer.
        NONBLOCK = libc::O_NONBLOCK;
        /// A terminal does not become that of the process.
        NOCTTY = libc::O_NOCTTY;
        /// Each write brings its data and metadata to the device.
        SYNC = libc::O_SYNC;
        /// Each write brings its data to the device.
        DSYNC = libc::O_DSYNC;
        /// The place alone, and not the contents.
        PATH = libc::O_PATH;
        /// Closed where the process starts another program.
        CLOEXEC = libc::O_CLOEXEC;
    }

    /// What a [`Statx`](super::Statx) asks for.
    StatxMask(u32 as u32) {
        /// All that `stat(2)` has: the following up to `BLOCKS`.
        BASIC = libc::STATX_BASIC_STATS;
        /// What it is: a regular file, a directory and so on.
        TYPE = libc::STATX_TYPE;
        /// Permission bits.
        MODE = libc::STATX_MODE;
        /// The number of names.
        NLINK = libc::STATX_NLINK;
        /// The owner.
        UID = libc::STATX_UID;
        /// The group.
        GID = libc::STATX_GID;
        /// When it was read.
        ATIME = libc::STATX_ATIME;
        /// When its contents were changed.
        MTIME = libc::STATX_MTIME;
        /// When its metadata were changed.
        CTIME = libc::STATX_CTIME;
        /// The number of the inode.
        INO = libc::STATX_INO;
        /// The size in bytes.
        SIZE = libc::STATX_SIZE;
        /// The space that it takes.
        BLOCKS = libc::STATX_BLOCKS;
        /// When it was made.
        BTIME = libc::STATX_BTIME;
        /// The number of the mount. Linux 5.8.
        MNT_ID = libc::STATX_MNT_ID;
        /// The alignment that O_DIRECT needs. Linux 6.1.
        DIOALIGN = libc::STATX_DIOALIGN;
    }

    /// What a [`Poll`](super::Poll) waits for, and what it has found.
    Events(u16 as u16) {
        /// A read will not block.
        READABLE = libc::POLLIN;
        /// Something exceptional, such as urgent bytes of a socket.
        PRIORITY = libc::POLLPRI;
        /// A write will not block.
        WRITABLE = libc::POLLOUT;
        /// An error, or the reader of a pipe is gone. Always reported.
        ERROR = libc::POLLERR;
        /// The peer is gone. There may be bytes left to read. Always reported.
        HANG_UP = libc::POLLHUP;
        /// The descriptor is not open. Always reported.
        INVALID = libc::POLLNVAL;
        /// The peer of a socket has ended its side.
        READ_HANG_UP = libc::POLLRDHUP;
    }

    /// Flags of one read or write, as in `preadv2(2)`. What a file system refuses comes back as EOPNOTSUPP.
    RwFlags(i32 as u32) {
        /// Poll for the completion (O_DIRECT on a device with poll queues). Linux 4.6.
        HIPRI = libc::RWF_HIPRI;
        /// As if the file were open with O_DSYNC. Linux 4.7.
        DSYNC = libc::RWF_DSYNC;
        /// As if the file were open with O_SYNC. Linux 4.7.
        SYNC = libc::RWF_SYNC;
        /// EAGAIN instead of waiting. Linux 4.14.
        NOWAIT = libc::RWF_NOWAIT;
        /// Write at the end of the file, whatever the offset. Linux 4.16.
        APPEND = libc::RWF_APPEND;
    }

    /// What a [`SyncRange`](super::SyncRange) does.
    SyncRangeFlags(u32 as u32) {
        /// Waits for the write-back that has begun.
        WAIT_BEFORE = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
        /// Begins to write back what is dirty.
        WRITE = libc::SYNC_FILE_RANGE_WRITE;
        /// Waits until all is written back.
        WAIT_AFTER = libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }

    /// What an [`Allocate`](super::Allocate) does with the range; none: it reserves space.
    AllocateMode(i32 as u32) {
        /// The file keeps its size.
        KEEP_SIZE = libc::FALLOC_FL_KEEP_SIZE;
        /// The range becomes a hole; with `KEEP_SIZE` only.
        PUNCH_HOLE = libc::FALLOC_FL_PUNCH_HOLE;
        /// The range is taken out, and what follows moves down.
        COLLAPSE_RANGE = libc::FALLOC_FL_COLLAPSE_RANGE;
        /// The range reads as zeros.
        ZERO_RANGE = libc::FALLOC_FL_ZERO_RANGE;
        /// A hole is put in, and what follows moves up.
        INSERT_RANGE = libc::FALLOC_FL_INSERT_RANGE;
        /// Shared blocks of the range become the file's own.
        UNSHARE_RANGE = libc::FALLOC_FL_UNSHARE_RANGE;
    }

    /// How a [`Splice`](super::Splice) moves bytes.
    SpliceFlags(u32 as u32) {
        /// Pages are moved, if that is possible.
        MOVE = libc::SPLICE_F_MOVE;
        /// EAGAIN instead of waiting for the pipe.
        NONBLOCK = libc::SPLICE_F_NONBLOCK;
        /// More follows.
        MORE = libc::SPLICE_F_MORE;
    }

    /// What a [`Rename`](super::Rename) does with what is at the new name; none: it is replaced.
    RenameFlags(u32 as u32) {
        /// EEXIST if something is there.
        NO_REPLACE = libc::RENAME_NOREPLACE;
        /// Both swap their names.
        EXCHANGE = libc::RENAME_EXCHANGE;
        /// A whiteout takes the old name, for overlays.
        WHITEOUT = libc::RENAME_WHITEOUT;
    }

    /// How an op on a path finds what it is about.
    AtFlags(i32 as u32) {
        /// A link at the end is not followed.
        SYMLINK_NOFOLLOW = libc::AT_SYMLINK_NOFOLLOW;
        /// A link at the end is followed, by a [`Link`](super::Link).
        SYMLINK_FOLLOW = libc::AT_SYMLINK_FOLLOW;
        /// An [`Unlink`](super::Unlink) removes a directory.
        REMOVE_DIR = libc::AT_REMOVEDIR;
        /// An empty path is the directory handle itself.
        EMPTY_PATH = libc::AT_EMPTY_PATH;
        /// Nothing is mounted at the end of the path.
        NO_AUTOMOUNT = libc::AT_NO_AUTOMOUNT;
        /// A [`Statx`](super::Statx) asks the server of a network file system.
        STATX_FORCE_SYNC = libc::AT_STATX_FORCE_SYNC;
        /// A [`Statx`](super::Statx) takes what is known.
        STATX_DONT_SYNC = libc::AT_STATX_DONT_SYNC;
    }

    /// Whether a [`SetXattr`](super::SetXattr) makes or replaces an attribute; none: either.
    XattrFlags(i32 as u32) {
        /// EEXIST if the attribute is there.
        CREATE = libc::XATTR_CREATE;
        /// ENODATA if it is not.
        REPLACE = libc::XATTR_REPLACE;
    }

    /// Where the path of an [`Open`](super::Open) may lead.
    ResolveFlags(u64 as u64) {
        /// Over no mount point.
        NO_XDEV = libc::RESOLVE_NO_XDEV;
        /// Over no magic link, such as those in `/proc`.
        NO_MAGICLINKS = libc::RESOLVE_NO_MAGICLINKS;
        /// Over no symbolic link.
        NO_SYMLINKS = libc::RESOLVE_NO_SYMLINKS;
        /// Not out of the directory: EXDEV.
        BENEATH = libc::RESOLVE_BENEATH;
        /// The directory is the root.
        IN_ROOT = libc::RESOLVE_IN_ROOT;
        /// Only what is cached; EAGAIN otherwise.
        CACHED = libc::RESOLVE_CACHED;
    }
}

/// What an [`Advise`](super::Advise) announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Advice {
    /// Nothing in particular.
    #[default]
    Normal = libc::POSIX_FADV_NORMAL as isize,
    /// Reads at random: nothing is read ahead.
    Random = libc::POSIX_FADV_RANDOM as isize,
    /// Reads in order: more is read ahead.
    Sequential = libc::POSIX_FADV_SEQUENTIAL as isize,
    /// Reads soon: the range is read ahead now.
    WillNeed = libc::POSIX_FADV_WILLNEED as isize,
    /// No use soon: what is clean leaves the page cache.
    DontNeed = libc::POSIX_FADV_DONTNEED as isize,
    /// One use of each byte.
    NoReuse = libc::POSIX_FADV_NOREUSE as isize,
}

impl OpenFlags {
    /// The bits that say for what: the first three are values of these.
    pub(crate) const ACCESS: OpenFlags = OpenFlags(libc::O_ACCMODE);

    /// Whether a file may be made, which then needs permission bits.
    pub(crate) fn creates(self) -> bool {
        self.intersects(OpenFlags::CREATE) || self.contains(OpenFlags::TMPFILE)
    }

    /// Without `others`.
    pub(crate) const fn without(self, others: OpenFlags) -> Self {
        OpenFlags(self.0 & !others.0)
    }

    /// As `struct open_how` has them.
    pub(crate) const fn how(self) -> u64 {
        self.0 as u32 as u64
    }
}

impl RwFlags {
    /// Bits that came after Linux 4.16, or that no kernel knows.
    pub(crate) fn has_unknown(self) -> bool {
        self.0 & !0x1f != 0
    }
}

impl Events {
    /// Whether a read will not block.
    pub const fn is_readable(self) -> bool {
        self.intersects(Events::READABLE)
    }

    /// Whether a write will not block.
    pub const fn is_writable(self) -> bool {
        self.intersects(Events::WRITABLE)
    }

    /// Whether the peer is gone. There may be bytes left to read.
    pub const fn is_hang_up(self) -> bool {
        self.intersects(Events::HANG_UP)
    }

    /// Whether there is an error, or the descriptor is not open.
    pub const fn is_error(self) -> bool {
        self.intersects(Events::ERROR.union(Events::INVALID))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_add_up_to_what_the_kernel_takes() {
        let mut mode = AllocateMode::KEEP_SIZE | AllocateMode::PUNCH_HOLE;
        assert_eq!(mode.bits(), 0x03);
        assert!(mode.contains(AllocateMode::PUNCH_HOLE) && !mode.contains(AllocateMode::ZERO_RANGE));
        mode |= AllocateMode::from_bits(1 << 20);
        assert_eq!(mode, AllocateMode::from_bits(0x10_0003));
        assert_eq!(AtFlags::default(), AtFlags::NONE);
        assert!(AtFlags::REMOVE_DIR.contains(AtFlags::NONE));
    }

    #[test]
    fn they_name_themselves() {
        let flags =
            OpenFlags::READ_WRITE | OpenFlags::CREATE | OpenFlags::SYNC | OpenFlags::from_bits(1 << 30);
        assert_eq!(
            format!("{flags:?}"),
            "OpenFlags(READ_WRITE | CREATE | SYNC | 0x40000000)"
        );
        assert_eq!(format!("{:?}", OpenFlags::TMPFILE), "OpenFlags(TMPFILE)");
        assert_eq!(
            format!("{:?}", OpenFlags::from_bits(i32::MIN)),
            "OpenFlags(0x80000000)"
        );
        assert_eq!(
            format!("{:?}", Events::READABLE | Events::READ_HANG_UP),
            "Events(READABLE | READ_HANG_UP)"
        );
        assert_eq!(format!("{:?}", Events::NONE), "Events(0x0)");
        assert_eq!(
            format!("{:?}", StatxMask::BASIC | StatxMask::BTIME),
            "StatxMask(BASIC | BTIME)"
        );
    }

    #[test]
    fn an_open_that_makes_a_file_is_known() {
        assert!((OpenFlags::WRITE_ONLY | OpenFlags::CREATE).creates());
        assert!((OpenFlags::READ_WRITE | OpenFlags::TMPFILE).creates());
        assert!(!(OpenFlags::READ_ONLY | OpenFlags::DIRECTORY).creates());
    }
}
