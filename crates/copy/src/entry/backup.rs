//! Backups of what is replaced, under the names that GNU's tools give them.

use crate::api::options::{Backup, Options};
use crate::sys::memory;
use crate::sys::{self, NAME_MAX};
use rustix::fd::BorrowedFd;
use rustix::fs::{RawDir, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Renames `name` to its backup, and returns that name. A simple backup replaces the one before; a numbered one
/// replaces nothing.
pub(crate) fn make(dir: BorrowedFd<'_>, name: &CStr, options: &Options) -> io::Result<CString> {
    let Some(newest) = newest(dir, name, options)? else {
        let backup = simple(name, options)?;
        rustix::fs::renameat(dir, name, dir, &backup)?;
        return Ok(backup);
    };
    for number in newest + 1.. {
        let backup = numbered(name, number)?;
        // A name that was cut has no number in it: all that follow are the same.
        let is_last = backup == numbered(name, number + 1)?;
        match rustix::fs::renameat_with(dir, name, dir, &backup, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(backup),
            Err(Errno::EXIST) if !is_last => {}
            // The file system cannot do it at once, or a filter knows no renameat2 (EPERM).
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)
                if sys::stat_at(dir, &backup, false).is_ok() =>
            {
                if is_last {
                    break;
                }
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                rustix::fs::renameat(dir, name, dir, &backup)?;
                return Ok(backup);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// The name that a backup of `name` would get now.
pub(crate) fn name_for(dir: BorrowedFd<'_>, name: &CStr, options: &Options) -> io::Result<CString> {
    match newest(dir, name, options)? {
        Some(newest) => numbered(name, newest + 1),
        None => simple(name, options),
    }
}

/// The number of the newest backup, if the next one gets a number.
fn newest(dir: BorrowedFd<'_>, name: &CStr, options: &Options) -> io::Result<Option<u64>> {
    Ok(match options.backup {
        Backup::None | Backup::Simple => None,
        Backup::Numbered => Some(newest_number(dir, name)?),
        Backup::Existing => Some(newest_number(dir, name)?).filter(|&number| number > 0),
    })
}

fn numbered(name: &CStr, number: u64) -> io::Result<CString> {
    with_end(name, format!(".~{number}~").as_bytes())
}

/// The name of a simple backup.
pub(crate) fn simple(name: &CStr, options: &Options) -> io::Result<CString> {
    with_end(name, options.suffix.as_bytes())
}

/// Appends the end of a backup's name. If the name is too long, it is cut and ends in a tilde, as GNU's tools do.
fn with_end(name: &CStr, end: &[u8]) -> io::Result<CString> {
    let name = name.to_bytes();
    let backup = match name.len() + end.len() <= NAME_MAX {
        true => [name, end].concat(),
        false => [&name[..name.len().min(NAME_MAX - 2)], b"~"].concat(),
    };
    Ok(CString::new(backup)?)
}

/// Returns the highest number of a backup of `name`; 0 if there is none, or the directory may not be read, as GNU's tools do.
fn newest_number(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<u64> {
    let dir = match sys::open_dir_unnoticed(dir, c".", false) {
        Err(error) if sys::is(&error, &[Errno::ACCESS]) => return Ok(0),
        dir => dir?,
    };
    let mut buffer = memory::room(crate::sys::listing::READ_BYTES)?;
    let mut reader = RawDir::new(dir, &mut buffer);
    let mut newest = 0;
    while let Some(entry) = reader.next() {
        let entry = entry?;
        newest = newest.max(number_of(entry.file_name(), name).unwrap_or(0));
    }
    Ok(newest)
}

fn number_of(backup: &CStr, name: &CStr) -> Option<u64> {
    let rest = backup.to_bytes().strip_prefix(name.to_bytes())?;
    let digits = rest.strip_prefix(b".~")?.strip_suffix(b"~")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
