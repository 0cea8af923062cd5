//! Removes what has a name, with everything below it: through no link, with one descriptor and no recursion, however
//! deep it is.

use crate::sys::memory;
use crate::sys::{self, FileId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, RawDir};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

/// One getdents64 fills this. A directory is read again from its start after each directory that was in it.
const READ_BYTES: usize = 8 << 10;

/// Removes a file, a link or a tree. What is not there is no error.
pub(crate) fn remove(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => remove_tree(dir, name),
        Err(error) => Err(error.into()),
    }
}

fn remove_tree(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut buffer = memory::room(READ_BYTES)?;
    let mut here = sys::open_own_dir(dir, name)?;
    // The way down to `here`: its name, and what it is in.
    let mut above: Vec<(CString, FileId)> = vec![(name.into(), sys::stat(dir)?.id)];
    while let Some((name, parent)) = above.last() {
        if let Some(below) = empty(here.as_fd(), &mut buffer)? {
            let next = sys::open_own_dir(here.as_fd(), &below)?;
            above.push((below, sys::stat(here.as_fd())?.id));
            here = next;
            continue;
        }
        if above.len() == 1 {
            rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
            return Ok(());
        }
        let up = up(&here, *parent)?;
        rustix::fs::unlinkat(&up, name, AtFlags::REMOVEDIR)?;
        here = up;
        above.pop();
    }
    Ok(())
}

/// The directory above, if it still is the one that we came from.
fn up(here: &OwnedFd, parent: FileId) -> io::Result<OwnedFd> {
    let up = sys::open_dir(here.as_fd(), c"..", false)?;
    if sys::stat(up.as_fd())?.id != parent {
        return Err(io::Error::other("the directory was moved while it was removed"));
    }
    Ok(up)
}

/// Removes everything but directories. Returns the first directory.
fn empty(dir: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Option<CString>> {
    // From its start.
    let reading = sys::open_dir(dir, c".", false)?;
    let mut reader = RawDir::new(&reading, buffer);
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            return Ok(Some(name.into()));
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => return Ok(Some(name.into())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn what_has_the_name_goes_and_nothing_else() {
        let here = tempfile::tempdir().unwrap();
        let path = |name: &str| here.path().join(name);
        let dir = fs::File::open(here.path()).unwrap();
        fs::create_dir_all(path("tree/a/b/c")).unwrap();
        fs::create_dir_all(path("outside/kept")).unwrap();
        for file in ["tree/1", "tree/a/2", "tree/a/b/3", "outside/kept/4"] {
            fs::write(path(file), file).unwrap();
        }
        symlink("../../outside", path("tree/a/link")).unwrap();
        symlink("outside", path("link")).unwrap();
        fs::set_permissions(path("tree/a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        for name in [c"tree", c"link", c"nothing"] {
            remove(dir.as_fd(), name).unwrap();
        }
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
        assert_eq!(fs::read(path("outside/kept/4")).unwrap(), b"outside/kept/4");
    }

    #[test]
    fn depth_is_bounded_by_nothing() {
        let here = tempfile::tempdir().unwrap();
        let dir = fs::File::open(here.path()).unwrap();
        let name = CString::new("d".repeat(200)).unwrap();
        let mut below: OwnedFd = dir.try_clone().unwrap().into();
        for _ in 0..100 {
            rustix::fs::mkdirat(&below, &name, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
            below = sys::open_dir(below.as_fd(), &name, false).unwrap();
        }
        remove(dir.as_fd(), &name).unwrap();
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    }
}
