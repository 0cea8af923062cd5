//! Calls of std that no op does, made by a worker: every backend has some.

use super::{File, Metadata};
use crate::descriptors::Opens;
use crate::error::Error;
use crate::io::Runner;
use crate::op::{Blocking, Name, Statx};
use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs `work` on a worker, with what it gives.
pub(super) async fn blocking<R: Runner, T: Send + 'static>(
    io: R,
    mut op: Blocking,
    place: Arc<Mutex<Option<T>>>,
    path: Option<Name>,
) -> Result<T, Error> {
    if path.as_ref().is_some_and(|path| !path.is_valid()) {
        return Err(Error::new(libc::EINVAL, op.name()).with_hint("a path has no NUL byte"));
    }
    op.descriptors = op.descriptors.max(1);
    let failure = io.run(op).await.map_err(Error::from);
    let path = path.and_then(|path| crate::memory::c_string(&path).ok());
    failure.map_err(|error| error.with_path(path))?;
    let value = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(value.expect("the work has ended without an error"))
}

/// A call of std on a path. It opens at most `descriptors` at once.
fn call<R: Runner, T: Send + 'static>(
    io: &R,
    name: &'static str,
    path: Name,
    descriptors: i32,
    mut work: impl FnMut(&Path) -> io::Result<T> + Send + Sync + 'static,
) -> impl Future<Output = Result<T, Error>> {
    let place = Arc::new(Mutex::new(None));
    let (kept, at) = (Arc::clone(&place), path.clone());
    let mut op = Blocking::new(name, move |_| {
        let value = work(at.as_path())?;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Ok(0)
    });
    op.opens = (descriptors > 0).then_some(Opens::Passing);
    op.descriptors = descriptors;
    blocking(io.clone(), op, place, Some(path))
}

/// Sets the permission bits of what is at `path`, following links.
///
/// # Errors
/// What fchmodat says, such as EPERM for somebody else's file.
pub fn set_permissions<R: Runner>(
    io: &R,
    path: impl Into<Name>,
    permissions: Permissions,
) -> impl Future<Output = Result<(), Error>> {
    call(io, "chmod", path.into(), 0, move |path| {
        std::fs::set_permissions(path, permissions.clone())
    })
}

/// The absolute path without links, `.` and `..`.
///
/// # Errors
/// What realpath says, such as ENOENT: all of it has to be there.
pub fn canonicalize<R: Runner>(
    io: &R,
    path: impl Into<Name>,
) -> impl Future<Output = Result<PathBuf, Error>> {
    call(io, "realpath", path.into(), 0, |path| std::fs::canonicalize(path))
}

/// What a symbolic link says.
///
/// # Errors
/// What readlinkat says; EINVAL for what is not a link.
pub fn read_link<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<PathBuf, Error>> {
    call(io, "readlink", path.into(), 0, |path| std::fs::read_link(path))
}

/// Copies contents and permission bits of a file, as [`std::fs::copy`] does, and gives the number of bytes. One worker copies: a
/// future that is dropped gives up a copy that has not begun, and leaves one that has to its end. The crate `proactor-copy`
/// copies trees.
///
/// # Errors
/// What opening, reading or writing meets; the error has the source's path.
pub fn copy<R: Runner>(
    io: &R,
    from: impl Into<Name>,
    to: impl Into<Name>,
) -> impl Future<Output = Result<u64, Error>> {
    let to = to.into();
    call(io, "copy", from.into(), 2, move |from| {
        if !to.is_valid() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        std::fs::copy(from, to.as_path())
    })
}

/// Removes a directory with all that is in it, as [`std::fs::remove_dir_all`] does. Links are removed, and not followed.
///
/// # Errors
/// What it meets first; the rest is still there.
pub fn remove_dir_all<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<(), Error>> {
    // Each level that it is in keeps one open.
    call(io, "remove_dir_all", path.into(), 1, |path| {
        std::fs::remove_dir_all(path)
    })
}

/// Makes a directory, and those above it that are missing.
///
/// # Errors
/// What mkdir says; none if it is there.
pub fn create_dir_all<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<(), Error>> {
    call(io, "mkdir", path.into(), 0, |path| std::fs::create_dir_all(path))
}

/// Whether something is at `path`; false for a link that leads nowhere.
///
/// # Errors
/// What statx says, but that it is not there: EACCES for a directory that may not be searched.
pub fn try_exists<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<bool, Error>> {
    let run = io.run(Metadata::of(Statx::new(path)));
    async move {
        match run.await.map_err(Error::from) {
            Ok(_) => Ok(true),
            Err(error) if error.errno() == libc::ENOENT => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<R: Runner> File<R> {
    /// Sets the permission bits.
    ///
    /// # Errors
    /// What fchmod says.
    pub fn set_permissions(&self, permissions: Permissions) -> impl Future<Output = Result<(), Error>> {
        let place = Arc::new(Mutex::new(Some(())));
        let file = self.as_op_file().clone();
        let op = Blocking::new("chmod", move |_| {
            file.set_mode(permissions.mode())?;
            Ok(0)
        });
        blocking(self.runner().clone(), op, place, None)
    }
}
