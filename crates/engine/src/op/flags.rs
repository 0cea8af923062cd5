//! Flags of ops: a type for each kind, so that none is given where another belongs.

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($bits:ty) { $($(#[$of:meta])* $flag:ident = $value:expr;)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
    )*};
}

flags! {
    /// What a [`SyncRange`](super::SyncRange) does.
    SyncRangeFlags(u32) {
        /// Waits for the write-back that has begun.
        WAIT_BEFORE = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
        /// Begins to write back what is dirty.
        WRITE = libc::SYNC_FILE_RANGE_WRITE;
        /// Waits until all is written back.
        WAIT_AFTER = libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }

    /// What an [`Allocate`](super::Allocate) does with the range; none: it reserves space.
    AllocateMode(i32) {
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

    /// What an [`Advise`](super::Advise) announces: one of these.
    Advice(i32) {
        /// Nothing in particular.
        NORMAL = libc::POSIX_FADV_NORMAL;
        /// Reads at random: nothing is read ahead.
        RANDOM = libc::POSIX_FADV_RANDOM;
        /// Reads in order: more is read ahead.
        SEQUENTIAL = libc::POSIX_FADV_SEQUENTIAL;
        /// Reads soon: the range is read ahead now.
        WILL_NEED = libc::POSIX_FADV_WILLNEED;
        /// No use soon: what is clean leaves the page cache.
        DONT_NEED = libc::POSIX_FADV_DONTNEED;
        /// One use of each byte.
        NO_REUSE = libc::POSIX_FADV_NOREUSE;
    }

    /// How a [`Splice`](super::Splice) moves bytes.
    SpliceFlags(u32) {
        /// Pages are moved, if that is possible.
        MOVE = libc::SPLICE_F_MOVE;
        /// EAGAIN instead of waiting for the pipe.
        NONBLOCK = libc::SPLICE_F_NONBLOCK;
        /// More follows.
        MORE = libc::SPLICE_F_MORE;
    }

    /// What a [`Rename`](super::Rename) does with what is at the new name; none: it is replaced.
    RenameFlags(u32) {
        /// EEXIST if something is there.
        NO_REPLACE = libc::RENAME_NOREPLACE;
        /// Both swap their names.
        EXCHANGE = libc::RENAME_EXCHANGE;
        /// A whiteout takes the old name, for overlays.
        WHITEOUT = libc::RENAME_WHITEOUT;
    }

    /// How an op on a path finds what it is about.
    AtFlags(i32) {
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
    XattrFlags(i32) {
        /// EEXIST if the attribute is there.
        CREATE = libc::XATTR_CREATE;
        /// ENODATA if it is not.
        REPLACE = libc::XATTR_REPLACE;
    }

    /// Where the path of an [`Open`](super::Open) may lead.
    ResolveFlags(u64) {
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
}
