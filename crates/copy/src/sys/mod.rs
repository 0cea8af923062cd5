//! The system calls of the copier, each on a held descriptor and a single name below it. It knows nothing above it.
//!
//! A name is one component, from a directory listing or made here, so that no call can leave the directory: it has no
//! slash, and no link is followed unless the caller says so.

pub(crate) mod disk;
pub(crate) mod listing;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod remove;
mod stat;

pub(crate) use stat::{stat, stat_at, FileId, Stat};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{Access, Advice, AtFlags, FileType, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno, ReadWriteFlags};
use rustix::ioctl::{self, opcode, Opcode};
use std::ffi::{CStr, CString};
use std::io;

/// A link is tried this often: each failure takes a rename by another program in the middle of it.
const LINK_ATTEMPTS: usize = 16;

/// Gives a file another name. A file that is replaced by a rename meanwhile was found, has no name left when the kernel is
/// about to give it one, and so is "not there" (ENOENT, all versions): then its successor is taken.
pub(crate) fn link_at(
    (from_dir, from): (BorrowedFd<'_>, &CStr),
    (to_dir, to): (BorrowedFd<'_>, &CStr),
    flags: AtFlags,
) -> rustix::io::Result<()> {
    let link = || rustix::fs::linkat(from_dir, from, to_dir, to, flags);
    (1..LINK_ATTEMPTS)
        .map(|_| link())
        .find(|linked| *linked != Err(Errno::NOENT))
        .unwrap_or_else(link)
}

fn open(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags, mode: u32, follow: bool) -> io::Result<OwnedFd> {
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = flags | link | OFlags::CLOEXEC;
    let fd = retry_on_intr(|| rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode)))?;
    Ok(fd)
}

/// Opens a directory for listing and for calls on names in it.
pub(crate) fn open_dir(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<OwnedFd> {
    open(dir, name, OFlags::RDONLY | OFlags::DIRECTORY, 0, follow)
}

/// Opens a directory so that listing it leaves no trace, if we are its owner.
pub(crate) fn open_dir_unnoticed(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
    match open(dir, name, flags, 0, follow) {
        Err(error) if is(&error, &[Errno::PERM]) => open_dir(dir, name, follow),
        opened => opened,
    }
}

/// Opens a directory for calls on names in it, even if it cannot be listed.
pub(crate) fn open_target_dir(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<OwnedFd> {
    match open_dir(dir, name, follow) {
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
            open(dir, name, OFlags::PATH | OFlags::DIRECTORY, 0, follow)
        }
        opened => opened,
    }
}

/// Opens a directory of ours for whatever is to be done in it, and gives us the right to where we have not got it.
pub(crate) fn open_own_dir(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let held = open(dir, name, OFlags::PATH | OFlags::DIRECTORY, 0, false)?;
    let mode = stat(held.as_fd())?.permissions();
    if mode & 0o700 != 0o700 {
        let mode = Mode::from_raw_mode(mode | 0o700);
        rustix::fs::chmod(proc_path(held.as_fd(), None).as_slice(), mode)?;
    }
    open_dir(held.as_fd(), c".", false)
}

/// The longest name that file systems take.
pub(crate) const NAME_MAX: usize = 255;

/// statfs(2): ext2's and ext3's, too.
pub(crate) const EXT4: u64 = 0xef53;
pub(crate) const BTRFS: u64 = 0x9123_683e;
pub(crate) const TMPFS: u64 = 0x0102_1994;

/// Returns the type of the file system of a descriptor; 0 if it does not tell.
pub(crate) fn file_system(fd: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstatfs(fd).map_or(0, |facts| facts.f_type as u64)
}

/// The file system of the device that was last asked for.
#[derive(Default)]
pub(crate) struct FileSystem(std::cell::Cell<Option<(u64, u64)>>);

impl FileSystem {
    /// `fd` is anything on the device.
    pub(crate) fn of(&self, fd: BorrowedFd<'_>, device: u64) -> u64 {
        match self.0.get() {
            Some((known, found)) if known == device => found,
            _ => {
                let found = file_system(fd);
                self.0.set(Some((device, found)));
                found
            }
        }
    }
}

/// Makes a directory, open to us. With `masked`, what the user's own mask or an inherited list takes of that is given back
/// until the end.
pub(crate) fn make_own_dir(dir: BorrowedFd<'_>, name: &CStr, mode: u32, masked: bool) -> io::Result<()> {
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))?;
    if !masked {
        return Ok(());
    }
    let opened = open_own_dir(dir, name).map(drop);
    opened.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR);
    })
}

/// Returns true if a descriptor is good for calls on names below it only (O_PATH), as one of a directory that may
/// not be read.
pub(crate) fn is_only_held(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

/// Opens a file to be looked at and nothing else.
pub(crate) fn open_path(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    open(dir, name, OFlags::PATH, 0, false)
}

/// Opens a source. Without `wait` a FIFO is open before it has a writer, also one that took the place of a file since it was
/// listed.
pub(crate) fn open_source(dir: BorrowedFd<'_>, name: &CStr, follow: bool, wait: bool) -> io::Result<OwnedFd> {
    let block = if wait { OFlags::empty() } else { OFlags::NONBLOCK };
    open(dir, name, OFlags::RDONLY | OFlags::NOCTTY | block, 0, follow)
}

/// Holds a source without opening it, if it could be opened.
pub(crate) fn hold_source(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<OwnedFd> {
    let fd = open(dir, name, OFlags::PATH, 0, follow)?;
    let mut flags = AtFlags::EACCESS;
    flags.set(AtFlags::SYMLINK_NOFOLLOW, !follow);
    rustix::fs::accessat(dir, name, Access::READ_OK, flags)?;
    match stat(fd.as_fd())?.file_type() {
        FileType::Socket => Err(Errno::NXIO.into()),
        _ => Ok(fd),
    }
}

/// Creates a file that must not be there yet. With `reads`, it can be read as well, whatever its permissions are.
pub(crate) fn create(dir: BorrowedFd<'_>, name: &CStr, mode: u32, reads: bool) -> io::Result<OwnedFd> {
    let access = if reads { OFlags::RDWR } else { OFlags::WRONLY };
    open(dir, name, access | OFlags::CREATE | OFlags::EXCL, mode, false)
}

/// Opens a file once more, if it is open for writing only.
pub(crate) fn reopen_to_read(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    if rustix::fs::fcntl_getfl(fd)?.contains(OFlags::RDWR) {
        return Ok(None);
    }
    let path = CString::new(proc_path(fd, None))?;
    Ok(Some(open(
        rustix::fs::CWD.as_fd(),
        &path,
        OFlags::RDONLY,
        0,
        true,
    )?))
}

/// Creates a journal: what is written goes to its end.
pub(crate) fn create_log(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    open(dir, name, flags, 0o600, false)
}

/// Opens a journal again. What took its place since it was looked at does not hold us up.
pub(crate) fn open_log(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    open(
        dir,
        name,
        OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK,
        0,
        false,
    )
}

/// Returns true if we may give files of ours this group.
pub(crate) fn is_own_group(group: u32) -> bool {
    let groups = rustix::process::getgroups();
    rustix::process::getegid().as_raw() == group
        || groups.is_ok_and(|groups| groups.iter().any(|own| own.as_raw() == group))
}

/// Opens an existing target for writing, and leaves it as it is: it may turn out to be the source. With `wait`, a FIFO waits
/// for its reader; without, there must be one.
pub(crate) fn open_target(dir: BorrowedFd<'_>, name: &CStr, follow: bool, wait: bool) -> io::Result<OwnedFd> {
    let block = if wait { OFlags::empty() } else { OFlags::NONBLOCK };
    open(dir, name, OFlags::WRONLY | OFlags::NOCTTY | block, 0, follow)
}

/// Reads at the file's position.
pub(crate) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// Writes all at the file's position.
pub(crate) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(fd, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Reads at an offset until the buffer is full or the file ends.
pub(crate) fn read_at(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        match retry_on_intr(|| rustix::io::pread(fd, &mut *rest, offset + done as u64))? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Reads what is in memory already, without waiting for a device: `None` if nothing is.
pub(crate) fn read_cached(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> rustix::io::Result<Option<usize>> {
    let mut buffers = [std::io::IoSliceMut::new(buffer)];
    match retry_on_intr(|| rustix::io::preadv2(fd, &mut buffers, offset, ReadWriteFlags::NOWAIT)) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Has the kernel begin to read a range, and does not wait for it. It reads a device's largest request at most.
pub(crate) fn will_need(fd: BorrowedFd<'_>, offset: u64, length: u64) {
    // Only a hint: what it returns does not matter.
    let _ = rustix::fs::fadvise(fd, offset, std::num::NonZeroU64::new(length), Advice::WillNeed);
}

/// Writes all at an offset.
pub(crate) fn write_all_at(fd: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::pwrite(fd, bytes, offset))?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// `struct file_clone_range`.
#[repr(C)]
struct CloneRange {
    from: i64,
    from_offset: u64,
    length: u64,
    to_offset: u64,
}

/// Shares a file's first `length` bytes, more than 0, with one that is empty (FICLONERANGE, Linux 4.5). FICLONE would share
/// all that is there by then: of a file that has grown, more than was to be copied. EINVAL if that is no end of a block, nor
/// of the file.
pub(crate) fn clone_range(to: BorrowedFd<'_>, from: BorrowedFd<'_>, length: u64) -> rustix::io::Result<()> {
    const FICLONERANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);
    let range = CloneRange {
        from: from.as_raw_fd().into(),
        from_offset: 0,
        length,
        to_offset: 0,
    };
    // SAFETY: this is the structure that the operation reads (linux/fs.h), and it writes to no memory of ours. Both
    // descriptors are open while it goes on.
    unsafe { ioctl::ioctl(to, ioctl::Setter::<FICLONERANGE, _>::new(range)) }
}

/// Closes, and says what went wrong: network file systems tell of a failed write only here.
pub(crate) fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: `into_raw_fd` gave us the only owner of this number, and it is not used again.
    unsafe { rustix::io::try_close(fd.into_raw_fd()) }?;
    Ok(())
}

/// A path to what the descriptor holds, for the few calls that take neither a descriptor nor a name below one.
pub(crate) fn proc_path(fd: BorrowedFd<'_>, name: Option<&CStr>) -> Vec<u8> {
    if let Some(name) = name.filter(|name| name.to_bytes().starts_with(b"/")) {
        return name.to_bytes().into();
    }
    let mut path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes();
    if let Some(name) = name {
        path.push(b'/');
        path.extend_from_slice(name.to_bytes());
    }
    path
}

/// The umask, read without changing it: that would change it for the other threads as well.
pub(crate) fn umask() -> u32 {
    let from_proc = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    };
    from_proc().unwrap_or_else(|| {
        let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        mask.as_raw_mode()
    })
}

/// Returns how many descriptors this process may have open.
pub(crate) fn descriptor_limit() -> usize {
    let limit = proactor_engine::Resource::Descriptors.limit().soft;
    limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX))
}

/// Returns true if an error is one of these.
pub(crate) fn is(error: &io::Error, kinds: &[Errno]) -> bool {
    kinds
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The directory that relative paths start at.
pub(crate) fn current_dir() -> io::Result<OwnedFd> {
    let cwd = rustix::fs::CWD;
    open(cwd.as_fd(), c".", OFlags::PATH | OFlags::DIRECTORY, 0, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_name_whose_file_is_replaced_all_the_time_is_linked_to() {
        const LINKS: usize = 3_000;
        let place = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(place.path()).unwrap();
        let dir = dir.as_fd();
        let replace = || {
            create(dir, c"new", 0o600, false).unwrap();
            rustix::fs::renameat(dir, c"new", dir, c"file").unwrap();
        };
        replace();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    replace();
                }
            });
            let linked: rustix::io::Result<()> = (0..LINKS).try_for_each(|number| {
                let name = CString::new(format!("link{number}")).unwrap();
                link_at((dir, c"file"), (dir, &name), AtFlags::empty())
            });
            done.store(true, Ordering::Relaxed);
            linked.unwrap();
        });
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), LINKS + 1);
        // What is not there is said to be not there.
        let missing = link_at((dir, c"missing"), (dir, c"link"), AtFlags::empty());
        assert_eq!(missing, Err(Errno::NOENT));
    }
}
