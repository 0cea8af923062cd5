//! Topmost pairs: the directories that the user has named.

use crate::metadata::xattr;
use crate::pair::digest::Key;
use crate::pair::directory::{Dir, Parts, Slot, State};
use crate::sys;
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Opens the pair of the directory that relative sources are in and the target's. The copy may be the target itself.
pub(crate) fn open_top(directory: &Path, is_itself: bool) -> io::Result<Arc<Dir>> {
    let here = sys::current_dir()?;
    let shown = CString::new(directory.as_os_str().as_bytes())?;
    let name = if shown.is_empty() { c"." } else { shown.as_c_str() };
    let target = sys::open_target_dir(here.as_fd(), name, true)?;
    let mut parts = parts_of_top(here, target, &shown, State::Existing)?;
    parts.target = parts.target.itself(is_itself);
    Ok(Dir::top(parts, Key::TOP))
}

/// Makes a topmost pair of two open directories.
pub(crate) fn parts_of_top(
    source: OwnedFd,
    target: OwnedFd,
    shown: &CStr,
    state: State,
) -> io::Result<Parts> {
    let stat = sys::stat(target.as_fd())?;
    let inherits = xattr::inherits(target.as_fd());
    Ok(Parts {
        source: Slot::new(c"", sys::stat(source.as_fd())?.id, Some(source)),
        target: Slot::new(shown, stat.id, Some(target)),
        stat,
        state,
        resumed: false,
        inherits,
        part: None,
    })
}
